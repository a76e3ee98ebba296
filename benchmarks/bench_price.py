"""What the machines cost: 48 workloads, packed greedily and by price, against the least possible."""

from __future__ import annotations

import time
from itertools import product
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec
import numpy as np

from benchmarks.table import Table, count, seconds
from benchmarks.workloads.deployments import Kind, deployments, plain_pods
from benchmarks.workloads.ec2 import ec2_problem, ordinary
from karpenter.core.scheduling.problem import Options, Plan, Problem
from karpenter.core.scheduling.proof.prove import solve_and_prove

if TYPE_CHECKING:
    from collections.abc import Sequence


KINDS: Final[tuple[Kind, ...]] = ("mixed", "cpu", "mem", "big")
SIZES: Final = (30, 300, 3_000)
CORES: Final = (32, 192)
FIRST_SEED: Final = 7_000
_SOME: Final = 300
_PROMISED: Final = {
    "on-demand": ("4 % / 8 %", "2 % / 5 %"),
    "spot": ("6 % / 12 %", "3 % / 6 %"),
}


class Result(NamedTuple):
    """How far two packings of one workload are from the bound."""

    name: str
    market: str
    pods: int
    greedy: Plan
    by_price: Plan
    seconds: float

    @property
    def greedy_gap(self) -> float:
        """How far the greedy plan is above the bound of the same pods."""
        return self.greedy.cost.hourly / self.by_price.cost.lower_bound - 1


def results() -> list[Result]:
    """Return what comes out for every workload."""
    found = []
    for number, (kind, pods, market, cores) in enumerate(product(KINDS, SIZES, _PROMISED, CORES)):
        wanted = plain_pods(deployments(pods, kind=kind, seed=FIRST_SEED + number // 4))
        problem = ec2_problem(wanted, ordinary(spot=market == "spot", most_cores=cores), Options())
        greedy, _ = _solved(problem, "greedy")
        by_price, spent = _solved(problem, "price")
        name = f"{kind}, up to {cores} cores, {market}"
        found.append(Result(name, market, pods, greedy, by_price, spent))
    return found


def _solved(problem: Problem, packing: Literal["greedy", "price"]) -> tuple[Plan, float]:
    options = msgspec.structs.replace(problem.options, packing=packing)
    begun = time.process_time()
    plan = solve_and_prove(msgspec.structs.replace(problem, options=options))
    return plan, time.process_time() - begun


def suite() -> Table:
    """Return how far from the least possible the bill is."""
    found = results()
    rows: list[tuple[str, ...]] = [
        (
            each.name,
            count(each.pods),
            f"{each.by_price.cost.lower_bound:.3f}",
            f"{each.greedy.cost.hourly:.3f}",
            _percent(each.greedy_gap),
            f"{each.by_price.cost.hourly:.3f}",
            _percent(each.by_price.cost.gap),
            seconds(each.seconds),
            "",
            "",
        )
        for each in found
    ]
    for market, (must, goal) in _PROMISED.items():
        mine = [each for each in found if each.market == market and each.pods >= _SOME]
        rows.append(_summary(f"{market}, 300 pods and more: median / p90", mine, must, goal))
    rows.append(_summary("everything: median / p90", found, "", ""))
    dearer = sum(each.by_price.cost.hourly > each.greedy.cost.hourly * (1 + 1e-9) for each in found)
    return Table(
        "the bill, against the least possible",
        ("workload", "pods", "bound", "greedy", "gap", "by price", "gap", "cpu", "must", "goal"),
        tuple(rows),
        (
            "the bound is proved for each workload; no packing of its pods costs less",
            f"packing by price was dearer than greedy in {dearer} of {len(found)} workloads (must: 0)",
            f"bounds were proved by: {', '.join(sorted({each.by_price.cost.method for each in found}))}",
            "cpu is processor time of one solve by price, the bound included",
        ),
    )


def _summary(name: str, mine: Sequence[Result], must: str, goal: str) -> tuple[str, ...]:
    spent = float(np.median([each.seconds for each in mine]))
    return (
        name,
        count(len(mine)),
        "",
        "",
        _spread([each.greedy_gap for each in mine]),
        "",
        _spread([each.by_price.cost.gap for each in mine]),
        seconds(spent),
        must,
        goal,
    )


def _spread(gaps: Sequence[float]) -> str:
    return f"{_percent(float(np.median(gaps)))} / {_percent(float(np.percentile(gaps, 90)))}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
