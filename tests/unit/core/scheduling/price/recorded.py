"""
Batches of pods whose plans are recorded: what is bought, what is proved, and how much work that takes.

    python -m tests.unit.core.scheduling.price.recorded

writes ``recorded.json`` anew and prints what became dearer, what is proved less well, and what takes more
work. Every batch is solved several times with prices that differ in their last bits; what differs then is
recorded as :data:`ANY`, because it could differ from machine to machine.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections import Counter
from functools import cache, partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import msgspec
import numpy as np

from karpenter.api.labels import ARCH, ARM64, HOSTNAME, ON_DEMAND, SPOT, ZONE
from karpenter.core.scheduling.decode import DecodedPlan, hourly
from karpenter.core.scheduling.price import exact, linear
from karpenter.core.scheduling.price.bound import (
    DualValues,
    Market,
    bought,
    cost_per_pod,
    dual_values,
    lower_bound,
    with_caps,
)
from karpenter.core.scheduling.price.columns import Bin, ColumnProgram, PatternProblem
from karpenter.core.scheduling.price.divided import DomainSplit, divided_bound, most_divided
from karpenter.core.scheduling.price.exact import cheapest_schedule
from karpenter.core.scheduling.price.machines import MachineSearch
from karpenter.core.scheduling.price.patterns import Packing, pack_by_price
from karpenter.core.scheduling.solve import search
from karpenter_local.testing.builders import (
    affinity_term,
    instance_type,
    node,
    offering,
    pod,
    pool,
    problem,
    replicas,
    spread,
    taint,
    tolerate,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from karpenter.core.model.catalog import InstanceType
    from karpenter.core.scheduling.pack.scheduler import Scheduler
    from karpenter.core.scheduling.problem import Problem

FILE: Final = Path(__file__).with_suffix(".json")
ZONES: Final = ("test-zone-a", "test-zone-b", "test-zone-c")
ANY: Final = "any"
"""Stands for what is not recorded."""

_SHAKES: Final = (1e-13, -1e-13, 3e-13)
"""Shares by which prices are changed to see what hangs on them, every other one the other way."""

_DIGITS: Final = 9
_COUNTED: Final = ("run", "addCol", "addRows", "changeRowBounds")


def shaken(prices: Sequence[float], shake: float) -> list[float]:
    """Return prices that are changed by a tiny share, one up and the next down."""
    return [price * (1 + shake * (-1) ** number) for number, price in enumerate(prices)]


class _CountedSolver:
    """A solver of linear programs that counts what is asked of it."""

    def __init__(self, solver: Any, work: Counter[str]) -> None:
        self._solver, self._work = solver, work

    def __getattr__(self, name: str) -> Any:
        if name in _COUNTED:
            self._work[name] += 1
        return getattr(self._solver, name)

    def addCols(self, count: int, *more: Any) -> Any:  # noqa: N802  the name that the library gave it
        self._work["columns"] += count
        return self._solver.addCols(count, *more)


class Work:
    """Counts the work of linear programs while it is entered."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        real = linear.quiet_solver
        self._patch = patch.object(
            linear, "quiet_solver", lambda highspy: _CountedSolver(real(highspy), self.counts)
        )

    def __enter__(self) -> Counter[str]:
        self._patch.start()
        return self.counts

    def __exit__(self, *_: object) -> None:
        self._patch.stop()


def plain(value: Any) -> Any:
    """Return a value as JSON has it, with numbers to nine digits."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if np.isfinite(value) else str(value)
    return value


def drawn_market(
    seed: int, items: int, machines: int, *, kinds: int = 1, capped: bool = False, shake: float = 0.0
) -> Market:
    """Return a market in three resources; the first machine is the largest and takes every item."""
    rng = random.Random(seed)  # noqa: S311  a repeatable market, not a secret
    room = [[rng.randrange(1500, 17000), rng.randrange(2000, 66000), 0] for _ in range(machines)]
    for each in room[::3]:
        each[2] = rng.randrange(1, 9)
    room[0] = [20011, 80021, 8]
    price = [
        (3e-5 * cpu + 4e-6 * memory + 0.35 * devices) * rng.uniform(0.7, 1.3) for cpu, memory, devices in room
    ]
    want = [
        [
            rng.randrange(100, 4000),
            rng.choice((rng.randrange(100, 12000), rng.randrange(10, 300))),
            rng.choice((0, 0, 0, 0, 1)),
        ]
        for _ in range(items)
    ]
    of_kind = [rng.randrange(kinds) for _ in range(machines)]
    allowed = [{rng.randrange(kinds) for _ in range(2)} for _ in range(items)]
    fits = [
        [
            (machine == 0 or of_kind[machine] in allowed[item])
            and all(asked <= has for asked, has in zip(want[item], room[machine], strict=True))
            for item in range(items)
        ]
        for machine in range(machines)
    ]
    caps = [rng.choice((np.inf, np.inf, 1, 2)) if capped else np.inf for _ in range(items)]
    return Market(
        np.array([rng.choice((1, 2, 3, 5, rng.randrange(1, 60))) for _ in range(items)], np.float64),
        np.array(want, np.float64),
        np.array(caps, np.float64),
        np.array(room, np.float64),
        np.array(shaken(price, shake), np.float64),
        np.array(fits, bool),
        tuple((0, number) for number in range(machines)),
    )


def _packing(found: Packing) -> dict[str, Any]:
    same = Counter(
        f"{machine}: " + " ".join(f"{held:.0f} of {item}" for item, held in enumerate(row) if held)
        for machine, row in zip(found.machine.tolist(), found.holds.tolist(), strict=True)
    )
    return {"cost": found.cost, "machines": dict(same)}


def _values(ours: Market, found: DualValues) -> dict[str, Any]:
    whole = {"bound": found.bound, "method": found.method, "pod": found.pod}
    if found.flow is None:
        return whole
    return {
        **whole,
        "unit": (found.unit * ours.room).sum(axis=0),
        "flow": found.flow.sum(axis=0),
        "bought": bought(ours, found.flow),
    }


def market_facts(
    seed: int, items: int, machines: int, *, kinds: int = 1, capped: bool = False, shake: float = 0.0
) -> Any:
    """Return what dual values and packing by price make of a market, with and without the library."""
    ours = drawn_market(seed, items, machines, kinds=kinds, capped=capped, shake=shake)
    few = np.flatnonzero(np.isfinite(ours.cap))[:3]
    with Work() as work:
        values = dual_values(ours)
        found = {
            "values": _values(ours, values),
            "with free room": _values(ours, dual_values(ours, ours.room[:3].sum(axis=0) / 4)),
            "with room for a few": dual_values(with_caps(ours, few)).bound if capped else None,
            "alone": cost_per_pod(ours),
            "packing": _packing(pack_by_price(ours, values, rounds=0, seed=1)),
            "improved a little": _packing(pack_by_price(ours, values, rounds=5, seed=seed)),
            "improved": _packing(pack_by_price(ours, values, rounds=30, seed=seed)),
        }
    with patch.dict(sys.modules, {"highspy": None}):
        equal = dual_values(ours)
        found["without library"] = {
            **_values(ours, equal),
            "free": dual_values(ours, ours.room[:2].sum(axis=0) / 3).bound,
            "packing": _packing(pack_by_price(ours, equal, rounds=3, seed=2)),
        }
    return {**found, "work": dict(work)}


def drawn_patterns(
    seed: int, *, splits: bool = False, from_zero: bool = False, shake: float = 0.0
) -> tuple[PatternProblem, float]:
    """Return a few items and machines, and what a machine for every pod costs; nodes are free."""
    rng = random.Random(seed)  # noqa: S311  as above
    items = range(rng.randint(3, 6))
    count = [rng.randint(1, 5) for _ in items]
    bins = [
        Bin((907, 1009, 4), 2.03, tuple(items)),
        *(
            Bin(
                (rng.randrange(300, 1000), rng.randrange(300, 1000), rng.choice((0, 2, 3))),
                rng.uniform(0.5, 1.7),
                tuple(item for item in items if rng.random() < 0.8),
            )
            for _ in range(rng.randint(2, 5))
        ),
        *(
            Bin((rng.randrange(100, 500), 491, 1), 0.0, tuple(items), once=True)
            for _ in range(rng.choice((0, 0, 1, 2)))
        ),
    ]
    prices = shaken([each.price for each in bins], shake)
    bins = [msgspec.structs.replace(each, price=price) for each, price in zip(bins, prices, strict=True)]
    divided: tuple[DomainSplit, ...] = ()
    if splits:
        already = (rng.randint(0, 1), rng.randint(0, 1))
        pods, skew = rng.randint(3, 7), rng.randint(1, 2)
        # Where there are fewer domains than minDomains, maxSkew is the most that each may have.
        split = DomainSplit(pods, (0, 1), already, 5 if from_zero else skew, from_zero=from_zero)
        divided = (split,)
        count[:2] = most_divided(divided[0])
    given = PatternProblem(
        count=tuple(count),
        want=tuple((rng.randrange(50, 400), rng.randrange(20, 400), rng.choice((0, 0, 0, 1))) for _ in items),
        cap=tuple(rng.choice((1, 2, most, most)) for most in count),
        bins=tuple(bins),
        splits=divided,
    )
    return given, 2.03 * sum(count)


def pattern_facts(seed: int, *, splits: bool = False, from_zero: bool = False, shake: float = 0.0) -> Any:
    """Return what column generation and branch and price make of a few items and machines."""
    given, most = drawn_patterns(seed, splits=splits, from_zero=from_zero, shake=shake)
    rng = np.random.default_rng(seed)
    value = rng.uniform(0.1, 1.0, len(given.count))
    with Work() as work:
        program = ColumnProgram(given, most, linear.library())
        found: dict[str, Any] = {
            "groups": [program.member.sum(axis=1), program.low, program.high],
            "once": program.once,
        }
        alone = program.search.alone()
        found["alone"] = [alone.bin, alone.holds, alone.gain]
        for limit in (2, 30):
            best = program.search.best(value, program.price * 0.7, limit)
            found[f"best of {limit}"] = [best.bin, best.holds, best.gain, best.upper, program.search.work]
        program.begin(value)
        solved = program.generate(most)
        assert solved is not None
        found["solved"] = [solved.cost, solved.value, solved.machines, solved.group]
        found["columns"] = len(program._bins)
        found["searched"] = program.search.work
        machines = MachineSearch(given, value, most)
        found["machines"] = [_searched(machines, 0), _searched(machines, 3000), _searched(machines, 60_000)]
    return {**found, "work": dict(work)}


def _searched(machines: MachineSearch, limit: int) -> dict[str, Any]:
    least, solved = machines.run(limit)
    return {
        "bound": least,
        "cost": None if solved is None else solved.cost,
        "patterns": None if solved is None else [[each.bin, *each.holds] for each in solved.patterns],
        "divided": None if solved is None else solved.divided,
        "work": [machines.work, len(machines._rows), len(machines._open)],
    }


def _types(rng: random.Random, count: int, shake: float) -> list[InstanceType]:
    found = []
    for number in range(count):
        cpu = rng.choice((2, 4, 8, 16))
        memory = cpu * rng.choice((2, 4, 8))
        devices = rng.choice((0, 0, 0, 0, 1, 4)) if number else 8
        arm = number % 3 == 2
        price = (0.031 * cpu + 0.0043 * memory + 0.7 * devices) * (0.83 if arm else 1.0)
        ways = [
            (zone, way, price * rng.uniform(0.9, 1.1) * (0.37 if way == SPOT else 1.0))
            for zone in ZONES
            for way in (ON_DEMAND, SPOT)
            if rng.random() < 0.8
        ]
        if not number:
            ways = [(zone, ON_DEMAND, 8.1 + place / 7) for place, zone in enumerate(ZONES)]
        changed = shaken([price for _, _, price in ways], shake)
        sold = [offering(zone, way, each) for (zone, way, _), each in zip(ways, changed, strict=True)]
        found.append(
            instance_type(
                f"t{number}",
                cpu=32 if number == 0 else cpu,
                memory=128 if number == 0 else memory,
                sold=sold,
                arch=ARM64 if arm else "amd64",
                resources={"nvidia.com/gpu": devices} if devices else {},
            )
        )
    return found


SHAPES: Final[dict[str, Callable[[random.Random, str], dict[str, Any]]]] = {
    "plain": lambda _rng, _app: {},
    "devices": lambda rng, _app: {"resources": {"nvidia.com/gpu": rng.choice("12")}},
    "one zone": lambda rng, _app: {"on": {ZONE: rng.choice(ZONES)}},
    "arm": lambda _rng, _app: {"on": {ARCH: ARM64}},
    "spread over zones": lambda rng, app: {"spreads": [spread(ZONE, app=app, skew=rng.choice((1, 1, 2)))]},
    "spread over hosts": lambda rng, app: {"spreads": [spread(HOSTNAME, app=app, skew=rng.choice((1, 2)))]},
    "apart": lambda _rng, app: {"apart": [affinity_term(HOSTNAME, app=app)]},
    "tolerating": lambda _rng, _app: {"tolerations": [tolerate("team")]},
}


def drawn_problem(
    seed: int,
    *shapes: str,
    kinds: int = 6,
    most: int = 5,
    types: int = 6,
    nodes: int = 0,
    pools: int = 1,
    limits: Mapping[str, str] | None = None,
    shake: float = 0.0,
) -> Problem:
    """Return pods of some shapes and plain ones, in turn, with NodePools of the same types."""
    rng = random.Random(seed)  # noqa: S311  as above
    sold = _types(rng, types, shake)
    wanted = []
    for number in range(kinds):
        app, shape = f"app-{number}", ("plain", *shapes)[number % (len(shapes) + 1)]
        size = rng.choice((rng.randrange(40, 300), rng.randrange(300, 3700)))
        wanted.append(
            replicas(
                pod(
                    app,
                    cpu=f"{size}m",
                    memory=f"{int(size * rng.choice((0.4, 2.1, 6.3)))}Mi",
                    app=app,
                    **SHAPES[shape](rng, app),
                ),
                rng.randint(1, most),
            )
        )
    there = [
        node(f"n{number}", zone=ZONES[number], free={"cpu": f"{rng.randrange(900, 4100)}m"})
        for number in range(nodes)
    ]
    named = [
        pool(
            f"p{number}",
            *sold[number:],
            limits=limits,
            taints=(taint("team"),) if number else (),
        )
        for number in range(pools)
    ]
    return problem(*wanted, pools=named, nodes=there)


class _RecordedSearch(MachineSearch):
    """A search that keeps what each of its runs ended with."""

    kept: list[Any]

    def run(self, limit: int) -> Any:
        least, solved = super().run(limit)
        cost = None if solved is None else solved.cost
        self.kept.append([limit, least, cost, self.work, len(self._rows), len(self._open)])
        return least, solved


def _placements(scheduler: Scheduler) -> list[list[int]]:
    """Return class, node and number of pods, in the order in which they were placed."""
    return [[each.pod_data.pod_class.number, each.bin, each.pod_count] for each in scheduler.placements]


def plan_facts(given: Problem, effort: int) -> Any:
    """Return what is bought and proved for a problem when the search ends after so many steps."""

    class Kept(_RecordedSearch):
        kept: list[Any] = []  # noqa: RUF012  of this run only

    with (
        Work() as work,
        patch.object(exact, "MachineSearch", Kept),
        patch.object(exact, "_WORK", effort),
        patch.object(exact, "_WORK_OF_MANY", effort),
    ):
        scheduler, left = search(given)
        found = {
            "by price": hourly(scheduler),
            "left": sum(left.values()),
            "bound": lower_bound(scheduler, left),
            "divided": divided_bound(scheduler, left),
            "placements": _placements(scheduler),
        }
        scheduler, least = cheapest_schedule(scheduler, left, hourly(scheduler))
    nodes = DecodedPlan(scheduler).new_nodes
    machines = Counter(
        f"{each.purchase.instance_type} {each.purchase.zone} {each.purchase.capacity_type}" for each in nodes
    )
    return {
        **found,
        "cost": hourly(scheduler),
        "proved": least,
        "machines": dict(sorted(machines.items())),
        "moved": _placements(scheduler),
        "searches": Kept.kept,
        "work": dict(work),
    }


def _plan(seed: int, *shapes: str, effort: int = 30_000, **more: Any) -> Any:
    return plan_facts(drawn_problem(seed, *shapes, **more), effort)


_SEEDS: Final[dict[str, tuple[int, ...]]] = {
    "plain": (101, 104, 111),
    "devices": (100, 108, 111),
    "one zone": (101, 106, 110),
    "arm": (106, 108),
    "spread over zones": (101, 103, 104, 107, 109, 110),
    "spread over hosts": (102, 108, 111),
    "apart": (101, 104, 108),
}
"""Problems whose plans are not the first that come to mind."""

BATCHES: Final[dict[str, Callable[..., Any]]] = {
    **{f"market of {n} items, {seed}": partial(market_facts, seed, n, 9) for seed, n in enumerate((1, 4, 9))},
    **{
        f"market with {kinds} kinds, {seed}": partial(market_facts, seed, 10, 16, kinds=kinds)
        for seed, kinds in ((11, 2), (12, 3), (13, 5))
    },
    **{
        f"market of pods that keep apart, {seed}": partial(market_facts, seed, 7, 9, kinds=2, capped=True)
        for seed in (21, 22, 23)
    },
    "market of many machines": partial(market_facts, 31, 12, 90, kinds=4),
    "market of many items": partial(market_facts, 32, 190, 24, kinds=3),
    **{f"patterns, {seed}": partial(pattern_facts, seed) for seed in range(8)},
    **{f"patterns with a split, {seed}": partial(pattern_facts, seed, splits=True) for seed in range(8, 14)},
    **{
        f"patterns with minDomains, {seed}": partial(pattern_facts, seed, splits=True, from_zero=True)
        for seed in (14, 15)
    },
    **{
        f"plan, pods {shape}, {seed}": partial(_plan, seed, shape, most=6)
        for shape, seeds in _SEEDS.items()
        for seed in seeds
    },
    **{f"plan, all shapes, {seed}": partial(_plan, seed, *SHAPES, kinds=9, pools=2) for seed in (112, 114)},
    **{
        f"plan with {n} nodes, {seed}": partial(_plan, seed, "spread over zones", "apart", nodes=n, most=8)
        for n, seed in ((1, 125), (2, 122), (2, 125), (3, 123))
    },
    **{
        f"plan with limits, {seed}": partial(_plan, seed, "one zone", limits={"cpu": "40"})
        for seed in (131, 135)
    },
    **{f"plan, two pools, {seed}": partial(_plan, seed, "tolerating", pools=2) for seed in (140, 142)},
    "plan, many kinds": partial(_plan, 94, kinds=12, most=2, effort=500),
    "plan, few kinds with many pods": partial(_plan, 95, "spread over zones", kinds=3, most=40),
}


@cache
def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return found


def agreed(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return {key: agreed(one[key], other[key]) for key in one}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [agreed(*pair) for pair in zip(one, other, strict=True)]
    if isinstance(one, float) and isinstance(other, float):
        return one if math.isclose(one, other, rel_tol=1e-8, abs_tol=1e-8) else ANY
    return one if one == other else ANY


def found(name: str, shake: float = 0.0) -> Any:
    return plain(BATCHES[name](shake=shake))


def _worse(before: Any, after: Any, path: str = "") -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        return [line for key in before for line in _worse(before[key], after.get(key), f"{path} / {key}")]
    if isinstance(before, float | int) and isinstance(after, float | int) and after > before * (1 + 1e-6):
        return [f"{path.removeprefix(' / ')}: {before} is now {after}"]
    return []


def main() -> int:
    """Write the file, and say what rose."""
    before = recorded() if FILE.exists() else {}
    after = {name: reduce(agreed, (found(name, shake) for shake in _SHAKES), found(name)) for name in BATCHES}
    lines = [f"  {json.dumps(name)}: {json.dumps(facts)}" for name, facts in after.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    print(*_worse(before, after), sep="\n")  # noqa: T201  a command
    return 0


if __name__ == "__main__":
    sys.exit(main())
