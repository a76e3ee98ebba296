"""
Batches of pods whose plans are recorded: what is bought, and what is proved.

    python -m tests.unit.core.scheduling.proof.recorded

writes ``recorded.json`` anew and prints what became dearer. Every batch is solved several times with prices
that differ in their last bits; what differs then is recorded as :data:`ANY`, because it could differ from
machine to machine.
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

import numpy as np

from karpenter.api.labels import ARCH, ARM64, HOSTNAME, ON_DEMAND, SPOT, ZONE
from karpenter.core.scheduling.proof import exact
from karpenter.core.scheduling.proof.prove import solve_and_prove
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
    from karpenter.core.scheduling.problem import Problem

FILE: Final = Path(__file__).with_suffix(".json")
ZONES: Final = ("test-zone-a", "test-zone-b", "test-zone-c")
ANY: Final = "any"
"""Stands for what is not recorded."""

_SHAKES: Final = (1e-13, -1e-13, 3e-13)
"""Shares by which prices are changed to see what hangs on them, every other one the other way."""

_DIGITS: Final = 9
_STEPS: Final = 30_000
"""Steps of the search for a bound."""


def shaken(prices: Sequence[float], shake: float) -> list[float]:
    """Return prices that are changed by a tiny share, one up and the next down."""
    return [price * (1 + shake * (-1) ** number) for number, price in enumerate(prices)]


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


def _plan(seed: int, *shapes: str, **more: Any) -> Any:
    """Return what is bought for a problem, and what is proved of it in few steps."""
    with patch.object(exact, "_WORK", _STEPS), patch.object(exact, "_WORK_OF_MANY", _STEPS):
        plan = solve_and_prove(drawn_problem(seed, *shapes, **more))
    machines = Counter(
        f"{each.purchase.instance_type} {each.purchase.zone} {each.purchase.capacity_type}"
        for each in plan.new_nodes
    )
    return {
        "cost": plan.cost.hourly,
        "bound": plan.cost.lower_bound,
        "refused": len(plan.refusals),
        "machines": dict(sorted(machines.items())),
    }


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
    "plan, many kinds": partial(_plan, 94, kinds=12, most=2),
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
