"""Placing pods on new machines: the reference benchmark, and what real clusters look like."""

from __future__ import annotations

import gc
import math
import sys
import time
import tracemalloc
from collections import defaultdict
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from benchmarks.table import Table, count, ratio, seconds, size
from benchmarks.workloads.deployments import constrained_pods, deployments
from benchmarks.workloads.ec2 import AMD64_ONLY, EVERYTHING, ZONES, distinct_pods, ec2_problem, picky_pods
from benchmarks.workloads.fake import fake_problem
from benchmarks.workloads.reference import diverse_pods, preference_pods
from karpenter.core.scheduling.problem import Options, Plan, Problem
from karpenter.core.scheduling.proof.prove import solve_and_prove
from karpenter.core.scheduling.solve import solve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from karpenter.api.pod import Pod

Packing = Literal["greedy", "price"]
Policy = Literal["Respect", "Ignore"]

PACKINGS: Final[tuple[Packing, ...]] = ("greedy", "price")

TYPES: Final = (400, 2_000)
"""How many instance types there are, for the growth with their number."""

DIVERSE: Final = (1, 50, 100, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
_ROUNDS: Final = 5
_TRACED: Final = 20_000  # pods; above, memory is measured for the greedy packing alone: tracing is slow
_ENOUGH: Final = 4.0  # seconds of processor time, after which no further round is begun
_HEADERS: Final = (
    "workload", "pods", "packing", "cpu", "pods/s", "growth", "nodes", "$/h", "bound", "gap", "peak memory",
    "must", "goal",
)  # fmt: skip


_NOTES: Final = (
    "cpu is processor time of one solve, the best of five, or of as many as begin within 4 s",
    "every pod has a spec object of its own, as pods that come from an API server have",
    "greedy is measured without proving a bound, price with it, as by default",
    "growth compares with the row of the same workload and packing before it",
    "memory is what a solve holds at most beside the problem, its answer included, measured apart from time",
    "above 20,000 pods memory is measured for greedy alone: tracing it is slow",
)


class Workload(NamedTuple):
    """Pods to be placed, and what we promise about it, per packing."""

    name: str
    pods: int
    problem: Callable[[], Problem]
    promised: Mapping[Packing, tuple[str, str]] = MappingProxyType({})
    """What must be reached, and what we want to reach."""


class Figures(NamedTuple):
    """What one packing of one workload costs, and what comes out."""

    seconds: float
    peak: int | None
    plan: Plan


def workloads() -> Iterator[Workload]:
    """Yield everything that is measured, pods of growing number first."""
    promised: dict[int, dict[Packing, tuple[str, str]]] = {
        10_000: {"greedy": ("0.2 s", "0.13 s")},
        100_000: {"greedy": ("6 s, 50 MB", "2.5 s, 15 MB"), "price": ("6 s more", "3 s more")},
        1_000: {"price": ("0.3 s", "")},
    }
    for pods in DIVERSE:
        problem = partial(_fake, partial(diverse_pods, pods))
        yield Workload("diverse", pods, problem, promised.get(pods, {}))
    for types in TYPES:
        yield Workload(
            f"diverse, {count(types)} types", 1_000, partial(_fake, partial(diverse_pods, 1_000), types=types)
        )
    policies: dict[Policy, tuple[str, str]] = {"Respect": ("5,000/s", "20,000/s"), "Ignore": ("", "")}
    for policy, promise in policies.items():
        problem = partial(_fake, partial(preference_pods, 4_000), policy)
        yield Workload(f"preferences: {policy}", 4_000, problem, {"greedy": promise})
    for pods in (10_000, 50_000):
        problem = partial(_fake, partial(distinct_pods, pods))
        promise = ("12,000/s", "40,000/s") if pods == 50_000 else ("", "")
        yield Workload("all distinct", pods, problem, {"greedy": promise})
    yield Workload("all distinct, EC2", 50_000, partial(_ec2, partial(distinct_pods, 50_000)))
    deployed: dict[int, dict[Packing, tuple[str, str]]] = {
        1_000: {"price": ("1 s", "0.5 s")},
        100_000: {"greedy": ("2 s", "0.5 s"), "price": ("3 s", "")},
    }
    for pods in (1_000, 3_000, 10_000, 100_000):
        yield Workload("300 deployments, EC2", pods, partial(_deployed, pods), deployed.get(pods, {}))
    yield Workload(
        "5,000 requirements, EC2",
        5_000,
        partial(_ec2, partial(picky_pods, 5_000), everything=True),
        {"greedy": ("2,000/s", "8,000/s")},
    )


def suite() -> Table:
    """Return what placing pods costs, and what the machines cost."""
    rows = []
    spent: dict[tuple[str, Packing], dict[int, float]] = defaultdict(dict)
    for workload in workloads():
        problem = workload.problem()
        found = {packing: figures(problem, packing) for packing in PACKINGS}
        bound = solve_and_prove(problem).cost.lower_bound
        for packing in PACKINGS:
            before = spent[workload.name, packing]
            base = list(before.values())[-1] if before else 0.0
            rows.append(_row(workload, packing, found[packing], bound, base))
            before[workload.pods] = found[packing].seconds
            print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    return Table("placing pods on new machines", _HEADERS, tuple(rows), (*_NOTES, *_growth(spent)))


def _growth(spent: dict[tuple[str, Packing], dict[int, float]]) -> Iterator[str]:
    for (name, packing), times in spent.items():
        if times.keys() >= {10_000, 100_000}:
            grown = ratio(times[100_000], times[10_000])
            yield f"{name}, {packing}: 10,000 to 100,000 pods take {grown} the time (must 15x, goal 11x)"
    few, many = TYPES
    for packing in PACKINGS:
        slow, fast = (spent[f"diverse, {count(types)} types", packing][1_000] for types in (many, few))
        exponent = math.log(slow / fast) / math.log(many / few)
        yield f"{packing}: time grows with the number of types to the power of {exponent:.2f} (must 0.4)"


def figures(problem: Problem, packing: Packing) -> Figures:
    options = msgspec.structs.replace(problem.options, packing=packing)
    problem = msgspec.structs.replace(problem, options=options)
    times: list[float] = []
    while len(times) < _ROUNDS and sum(times) < _ENOUGH:
        gc.collect()
        begun = time.process_time()
        plan = solve(problem)
        times.append(time.process_time() - begun)
    peak = _peak(problem) if packing == "greedy" or len(problem.pods) <= _TRACED else None
    return Figures(min(times), peak, plan)


def _peak(problem: Problem) -> int:
    gc.collect()
    tracemalloc.start()
    solve(problem)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def _row(workload: Workload, packing: Packing, found: Figures, bound: float, base: float) -> tuple[str, ...]:
    plan = found.plan
    refused = f" ({count(len(plan.refusals))} refused)" if plan.refusals else ""
    must, goal = workload.promised.get(packing, ("", ""))
    return (
        workload.name,
        count(workload.pods) + refused,
        packing,
        seconds(found.seconds),
        count(workload.pods / found.seconds),
        ratio(found.seconds, base),
        count(len(plan.new_nodes)),
        f"{plan.cost.hourly:.2f}",
        f"{bound:.2f}",
        f"{100 * (plan.cost.hourly / bound - 1):.1f} %" if bound else "-",
        size(found.peak) if found.peak is not None else "-",
        must,
        goal,
    )


def _fake(pods: Callable[[], list[Pod]], policy: Policy = "Respect", types: int = TYPES[0]) -> Problem:
    return fake_problem(pods(), Options(preferences=policy), types)


def _ec2(pods: Callable[[], list[Pod]], *, everything: bool = False) -> Problem:
    return ec2_problem(pods(), EVERYTHING if everything else AMD64_ONLY, Options())


def _deployed(pods: int) -> Problem:
    wanted = deployments(pods, kind="mixed", seed=5, deployed=300)
    return ec2_problem(constrained_pods(wanted, seed=5, zones=ZONES[:2]), AMD64_ONLY, Options())
