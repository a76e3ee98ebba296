"""
Things that go wrong together: each reaches bugs that faults at random moments reach once in hundreds of runs,
if at all.

A coincidence is a few steps that belong together, such as a node that is protected right after its disruption
has begun while the operator dies. Only short runs full of faults have them: two each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter_local.simulation.actions import (
    Action,
    AddPool,
    DeleteNode,
    Deploy,
    Protect,
    ResizePool,
    Scale,
)
from karpenter_local.simulation.faults import (
    BadLaunch,
    Crash,
    CutWatches,
    HoldWatches,
    InjectedFault,
    LoseEvictions,
    LoseMachine,
)
from karpenter_local.simulation.workload import STATIC

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

SOON: Final = "4m"
"""After which time claims expire: during the run, or while the cluster settles."""

_WATCHED: Final = ("pods", "nodes", "nodeclaims")
_HELD: Final = 20.0
_PROTECTED: Final = 600.0


class Coincidence(msgspec.Struct, frozen=True, kw_only=True):
    """Some steps that belong together."""

    steps: tuple[Action | InjectedFault, ...] = ()
    gates: tuple[str, ...] = ()
    """The feature gates that they need."""

    expires: bool = False
    """Whether claims expire soon."""


def _evictions_are_lost(chance: Random, seconds: float) -> Coincidence:
    """Machines are drained, and evictions find no connection."""
    at = chance.uniform(0.2, 0.5) * seconds
    return Coincidence(steps=(LoseEvictions(at=at, seconds=seconds),))


def _machines_are_taken(chance: Random, seconds: float) -> Coincidence:
    """A machine is interrupted with notice, and later another one."""
    first, second = sorted(chance.uniform(0.3, 1.0) * seconds for _ in range(2))
    return Coincidence(
        steps=(
            LoseMachine(at=first, pick=chance.random(), announced=True),
            LoseMachine(at=second, pick=chance.random(), announced=True),
        )
    )


def _claims_expire(_chance: Random, _seconds: float) -> Coincidence:
    """Claims expire while the cluster settles."""
    return Coincidence(expires=True)


def _operator_dies_while_it_disrupts(chance: Random, seconds: float) -> Coincidence:
    """The operator is killed after it has closed a node, which users protect at the same moment."""
    at = chance.uniform(0.1, 0.5) * seconds
    return Coincidence(
        steps=(
            Protect(at=at, pick=0.0, seconds=_PROTECTED, pod=False, late=True),
            Crash(at=at, calls=chance.randint(2, 4), carried_out=True, down=5.0, disrupting=True),
        )
    )


def _static_pool_shrinks(chance: Random, seconds: float) -> Coincidence:
    """A static pool gets machines, and then needs fewer."""
    replicas = chance.randint(1, 2)
    made = AddPool(at=0.0, name=STATIC, replicas=replicas, budgets=("100%",))
    later = ResizePool(at=chance.uniform(0.7, 1.0) * seconds, pool=STATIC, replicas=replicas - 1)
    return Coincidence(steps=(made, later), gates=("StaticCapacity",))


def _pods_go_unseen(chance: Random, seconds: float) -> Coincidence:
    """While watches are late pods come and go, and then the watches break and history is forgotten."""
    at = chance.uniform(0.4, 0.7) * seconds
    return Coincidence(
        steps=(
            HoldWatches(at=at, plurals=_WATCHED, seconds=_HELD),
            Scale(at=at + 1.0, name="app-0", replicas=0),
            CutWatches(at=at + _HELD / 2, forgotten=True),
        )
    )


def _pods_are_bound_unseen(chance: Random, seconds: float) -> Coincidence:
    """Small pods are bound while the watch of pods is late, and a node that may have some is deleted."""
    at, replicas = chance.uniform(0.5, 0.8) * seconds, chance.randint(4, 8)
    return Coincidence(
        steps=(
            HoldWatches(at=at, plurals=("pods",), seconds=2 * _HELD),
            Deploy(at=at + 1.0, name="late", replicas=replicas, milli=50, mebi=16),
            DeleteNode(at=at + 3.0, pick=chance.random()),
        )
    )


def _launches_fail_in_a_row(chance: Random, seconds: float) -> Coincidence:
    """Pods come at the end, and the first launches for them fail, or their machines never join."""
    at, replicas = chance.uniform(0.7, 0.9) * seconds, chance.randint(4, 8)
    return Coincidence(
        steps=(
            BadLaunch(at=at, kind="fail" if replicas % 2 else "never join", count=3),
            Scale(at=at + 1.0, name="app-0", replicas=replicas),
        )
    )


COINCIDENCES: Final[tuple[Callable[[Random, float], Coincidence], ...]] = (
    _evictions_are_lost,
    _machines_are_taken,
    _claims_expire,
    _operator_dies_while_it_disrupts,
    _static_pool_shrinks,
    _pods_go_unseen,
    _pods_are_bound_unseen,
    _launches_fail_in_a_row,
)
