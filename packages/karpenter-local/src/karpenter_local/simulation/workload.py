"""
What the users of a simulated cluster do: NodePools, workloads, and how the load goes up and down.

Every pod can be placed by some NodePool, unless it selects one that is full: what stays pending in the end is
the operator's doing.

Some runs also use what a feature gate enables: static NodePools, CapacityBuffers, NodeOverlays, and the
repair of broken nodes. Overlays here change every price alike, so that what is cheaper stays cheaper whatever
the cloud believes. One node breaks at most: where more than a fifth of a NodePool are broken, none is
repaired.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter_local.simulation.actions import (
    Action,
    AddBuffer,
    AddDaemon,
    AddOverlay,
    AddPool,
    AddStateful,
    ChangeTemplate,
    DeleteNode,
    Deploy,
    Protect,
    Remove,
    ResizeBuffer,
    ResizePool,
    Rollout,
    RunJob,
    Scale,
)
from karpenter_local.simulation.faults import BreakNode, InjectedFault

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from karpenter_local.simulation.fault_schedule import Severity


ZONES: Final = ("test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d")
LIMITED: Final = "limited"
"""The pool that can be full."""

_DAY_SECONDS: Final = 86400.0
_MAX_REPLICAS: Final = 30
"""Replicas of a Deployment at its height."""

_CORES_PER_MACHINE: Final = 6
"""Cores that an average machine has."""

_SHORT_RUN_SECONDS: Final = 150.0
"""Seconds of a run up to which things change sooner, because else nothing would."""

_MAX_MACHINES_PER_DEPLOYMENT: Final = 5
"""Machines that one Deployment fills at its height, at most."""


def draw_actions(chance: Random, seconds: float, machines: int) -> list[Action]:
    """Return what users do in a run of so many seconds, in a cluster of about so many machines."""
    pools = _pools(chance)
    found: list[Action] = [*pools]
    if chance.random() < 0.5:  # noqa: PLR2004  half of all clusters
        found.append(AddDaemon(at=0.0, name="agent", milli=chance.choice((70, 130))))
    count = (
        chance.randint(1, min(4, machines + 1)) if machines <= _MAX_MACHINES_PER_DEPLOYMENT else machines // 4
    )
    share = (
        3.0 if machines <= _MAX_MACHINES_PER_DEPLOYMENT else 2.4
    )  # not everything is at its height at once
    cores, most = share * _CORES_PER_MACHINE * machines / count, min(2 * machines + 1, _MAX_REPLICAS)
    for number in range(count):
        height = cores * chance.uniform(0.1, 1.0)
        found += _deployment(chance, f"app-{number}", seconds, (height, most), limited=len(pools) > 1)
    for number in range(chance.choice((0, 0, 1, 2))):
        at = chance.uniform(0, seconds * 0.8)
        found.append(
            RunJob(
                at=at,
                name=f"job-{number}",
                completions=chance.randint(1, 6),
                milli=chance.choice((250, 500, 1000)),
                seconds=chance.choice((5, 30, 120)),
            )
        )
    if chance.random() < 0.3:  # noqa: PLR2004  some have state
        at = chance.uniform(0, seconds * 0.5)
        found.append(AddStateful(at=at, name="db", replicas=chance.randint(1, 3), milli=500))
    for version in range(2, chance.choice((2, 3, 3, 4))):
        at = chance.uniform(seconds * 0.3, seconds)
        found.append(ChangeTemplate(at=at, pool="default", version=version))
    for _ in range(chance.choice((0, 1, 2, 4))):
        at, lasts = chance.uniform(seconds * 0.1, seconds), chance.choice((20.0, 120.0, 300.0))
        pod = chance.random() < 0.5  # noqa: PLR2004  one or the other
        late = chance.random() < 0.5  # noqa: PLR2004  in the middle of a command, or before
        found.append(Protect(at=at, pick=chance.random(), seconds=lasts, pod=pod, late=late))
    for _ in range(chance.choice((0, 0, 0, 1, 2))):
        at = chance.uniform(seconds * 0.2, seconds)
        found.append(DeleteNode(at=at, pick=chance.random(), claim=chance.random() < 0.5))  # noqa: PLR2004
    return found


def _pools(chance: Random) -> list[AddPool]:
    """Return one pool that takes everything, and perhaps one that can be full."""
    budgets: tuple[tuple[str, ...], ...]
    budgets = (("100%",), ("1",), ("1",), ("2",), ("10%",), ("50%", "3"), (), ("100%", "1/Drifted"))
    budgets += (("2", "0@4:2m"), ("100%", "1/Underutilized", "0/Drifted"))
    found = [
        AddPool(
            at=0.0,
            name="default",
            capacity_types=chance.choice((("on-demand",), ("spot",), ("on-demand", "spot"))),
            consolidate_after=chance.choice(("0s", "30s", "1m", "2m")),
            policy=chance.choice(("WhenEmptyOrUnderutilized",) * 3 + ("WhenEmpty",)),
            budgets=chance.choice(budgets),
            expire_after=chance.choice(("Never", "Never", "Never", "20m")),
            grace=chance.choice(("", "", "", "2m")),
            startup=chance.choice((0, 0, 5, 25)),
        )
    ]
    if chance.random() < 0.4:  # noqa: PLR2004  some pools have limits
        cores = chance.choice((2, 4, 8))
        found.append(
            AddPool(at=0.0, name=LIMITED, consolidate_after="30s", cpu_limit=cores, budgets=("100%",))
        )
    return found


def _deployment(
    chance: Random, name: str, seconds: float, height: tuple[float, int], *, limited: bool
) -> list[Action]:
    """Return a Deployment of so many cores at its height, in at most so many pods, and its changes."""
    cores, most = height
    milli = chance.choice((100, 250, 500, 1000, 1500, 3000))
    replicas = min(max(1, round(cores * 1000 / milli)), most)
    kinds = ("plain", "plain", "zoned", "spread", "apart", "kept", "guarded")
    kind = chance.choice((*kinds, *["limited"] * 4) if limited else kinds)
    hostname, zone = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
    made = Deploy(
        at=chance.uniform(0, min(60.0, seconds / 4)),
        name=name,
        replicas=replicas,
        milli=milli,
        mebi=chance.choice((64, 256, 1024, 2048)),
        pool=LIMITED if kind == "limited" else "",
        zone=chance.choice(ZONES) if kind == "zoned" else "",
        spread=chance.choice((zone, zone, hostname)) if kind == "spread" else "",
        apart=kind == "apart",
        keep=kind == "kept",
        min_available=chance.choice((0, 1, replicas // 2, replicas)) if kind == "guarded" else None,
        grace=chance.choice((0, 1, 5, 30)),
    )
    return [made, *_changes(chance, name, seconds, replicas)]


def _changes(chance: Random, name: str, seconds: float, replicas: int) -> list[Action]:
    """Return how a Deployment changes: with the hour of the day, by versions, and perhaps to its end."""
    found: list[Action] = []
    phase = chance.random()
    at, every = (
        (60.0, max(120.0, seconds / 8)) if seconds >= _SHORT_RUN_SECONDS else (seconds / 4, seconds / 3)
    )
    while (at := at + chance.uniform(0.5, 1.5) * every) < seconds:
        match chance.choice(("curve", "curve", "curve", "burst", "rollout", "none")):
            case "curve":
                height = 0.55 + 0.45 * math.sin(2 * math.pi * (at / _DAY_SECONDS * 24 + phase))
                found.append(Scale(at=at, name=name, replicas=max(1, round(replicas * height))))
            case "burst":
                found.append(Scale(at=at, name=name, replicas=chance.choice((0, 1, replicas * 2))))
            case "rollout":
                found.append(Rollout(at=at, name=name))
    if chance.random() < 0.2:  # noqa: PLR2004  some are deleted
        found.append(Remove(at=chance.uniform(seconds * 0.7, seconds), name=name))
    return found


STATIC: Final = "static"
"""The pool that always has so many machines."""

_GATED_SHARE: Final = 0.5
"""The share of runs with a feature gate enabled."""


class GatedSteps(msgspec.Struct, frozen=True):
    """The feature gates of a run, and the steps that need them."""

    gates: tuple[str, ...] = ()
    steps: tuple[Action | InjectedFault, ...] = ()


def draw_gated(chance: Random, seconds: float, severity: Severity) -> GatedSteps:
    """Return the feature gates of a run and their steps; mostly none."""
    if chance.random() >= _GATED_SHARE:
        return GatedSteps()
    names = sorted(chance.sample(sorted(_GATED_STEPS), chance.choice((1, 1, 2))))
    steps = [step for name in names for step in _GATED_STEPS[name](chance, seconds)]
    if severity == "none":
        steps = [step for step in steps if not isinstance(step, InjectedFault)]
    return GatedSteps(gates=tuple(names), steps=tuple(steps))


def _static(chance: Random, seconds: float) -> list[Action | InjectedFault]:
    replicas = chance.randint(0, 2)
    made = AddPool(
        at=0.0,
        name=STATIC,
        replicas=replicas,
        node_limit=chance.choice((0, replicas, replicas + 1)) if replicas else 1,
        budgets=chance.choice((("100%",), ("1",))),
        expire_after=chance.choice(("Never", "Never", "20m")),
    )
    found: list[Action | InjectedFault] = [made]
    for _ in range(chance.randint(1, 3)):
        at = chance.uniform(seconds * 0.2, seconds)
        found.append(ResizePool(at=at, pool=STATIC, replicas=chance.randint(0, 3)))
    return found


def _buffer(chance: Random, seconds: float) -> list[Action | InjectedFault]:
    at = chance.uniform(0.0, seconds * 0.3)
    milli = chance.choice((250, 500, 1000))
    found: list[Action | InjectedFault] = [
        AddBuffer(at=at, name="spare", replicas=chance.randint(1, 4), milli=milli)
    ]
    if chance.random() < 0.5:  # noqa: PLR2004  some are changed
        at = chance.uniform(seconds * 0.4, seconds)
        found.append(ResizeBuffer(at=at, name="spare", replicas=chance.randint(0, 4)))
    return found


def _overlay(chance: Random, seconds: float) -> list[Action | InjectedFault]:
    found: list[Action | InjectedFault] = []
    for number in range(chance.choice((1, 1, 2))):
        percent, weight = chance.choice((-50, -10, 30)), chance.choice((1, 1 + number))
        at = chance.uniform(0.0, seconds * 0.7)
        found.append(AddOverlay(at=at, name=f"prices-{number}", percent=percent, weight=weight))
    return found


def _repair(chance: Random, seconds: float) -> list[Action | InjectedFault]:
    return [BreakNode(at=chance.uniform(min(40.0, seconds / 2), seconds), pick=chance.random())]


_GATED_STEPS: Final[dict[str, Callable[[Random, float], list[Action | InjectedFault]]]] = {
    "CapacityBuffer": _buffer,
    "NodeOverlay": _overlay,
    "NodeRepair": _repair,
    "StaticCapacity": _static,
}
