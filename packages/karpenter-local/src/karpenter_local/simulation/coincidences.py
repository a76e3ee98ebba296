"""
Things that go wrong together: each reaches bugs that faults at random moments reach once in hundreds of runs,
if at all.

A coincidence is a few steps that belong together, such as a node that is protected right after its disruption
has begun while the operator dies. Many have a NodePool of their own, which only their pods tolerate, so that
several do not disturb each other. Only short runs full of faults have them: five each.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter_local.simulation.actions import (
    Action,
    AddPool,
    ChangeTemplate,
    DeleteNode,
    Deploy,
    Protect,
    ResizePool,
    Scale,
)
from karpenter_local.simulation.faults import (
    BadLaunch,
    BreakNode,
    Crash,
    CutWatches,
    HoldWatches,
    InjectedFault,
    LoseEvictions,
    LoseMachine,
    SellOut,
)
from karpenter_local.simulation.workload import STATIC, ZONES

if TYPE_CHECKING:
    from collections.abc import Callable

_EXPIRE_AFTER: Final = "4m"
"""After which time claims expire: during the run, or while the cluster settles."""

_POOL_CORES: Final = 1000
"""Cores that a NodePool of a coincidence may have. Those with a limit are tainted."""

_TIGHT: Final = (
    *(("10%",), ("20%",), ("25%",), ("34%",), ("50%",), ("67%",), ("1",), ("2",)),
    *(("50%", "2"), ("100%", "34%/Drifted"), ("100%", "1/Empty"), ("0@4:2m", "50%")),
)
"""Budgets of which many are shares, so that rounding matters in clusters of a few machines."""

_WATCHED: Final = ("pods", "nodes", "nodeclaims")
_HELD_SECONDS: Final = 20.0
_PROTECTED_SECONDS: Final = 600.0


class Coincidence(msgspec.Struct, frozen=True, kw_only=True):
    """Some steps that belong together."""

    steps: tuple[Action | InjectedFault, ...] = ()
    gates: tuple[str, ...] = ()
    """The feature gates that they need."""


def _own_pool(name: str, chance: Random, **more: Any) -> AddPool:
    startup = chance.choice((0, 0, 0, 5))
    return AddPool(at=0.0, name=name, cpu_limit=_POOL_CORES, startup=startup, **more)


def _wide(pool: str, chance: Random) -> Deploy:
    """Return small pods of which each needs a machine of its own."""
    return Deploy(at=0.0, name=pool, replicas=chance.randint(3, 5), milli=100, mebi=32, pool=pool, apart=True)


def _evictions_are_lost(chance: Random, seconds: float) -> Coincidence:
    at = chance.uniform(0.2, 0.5) * seconds
    return Coincidence(
        steps=(
            Deploy(at=0.0, name="evicted", replicas=4, milli=500),
            LoseEvictions(at=at, seconds=seconds),
            DeleteNode(at=at + 5.0, pick=chance.random()),
        )
    )


def _machines_are_taken(chance: Random, seconds: float) -> Coincidence:
    """A machine is interrupted with notice, and later another one."""
    first, second = sorted(chance.uniform(0.3, 1.0) * seconds for _ in range(2))
    return Coincidence(
        steps=(
            LoseMachine(at=first, pick=chance.random(), announced=True),
            LoseMachine(at=second, pick=chance.random(), announced=True),
        )
    )


def _claims_expire(chance: Random, _seconds: float) -> Coincidence:
    return Coincidence(steps=(_own_pool("aging", chance, expire_after=_EXPIRE_AFTER), _wide("aging", chance)))


def _operator_dies_while_it_disrupts(chance: Random, seconds: float) -> Coincidence:
    """The operator is killed after it has closed a node, which users protect at the same moment."""
    at = chance.uniform(0.1, 0.5) * seconds
    return Coincidence(
        steps=(
            Protect(at=at, pick=0.0, seconds=_PROTECTED_SECONDS, pod=False, late=True),
            Crash(at=at, calls=chance.randint(2, 4), carried_out=True, down=5.0, disrupting=True),
            Deploy(at=0.0, name="leaving", replicas=3, milli=500),
            Scale(at=at, name="leaving", replicas=0),
        )
    )


def _static_pool_shrinks(chance: Random, seconds: float) -> Coincidence:
    """A static pool gets machines, is asked for more than its limit, and then needs fewer."""
    replicas = chance.randint(2, 4)
    made = AddPool(at=0.0, name=STATIC, replicas=replicas, node_limit=replicas, budgets=("100%",))
    more = ResizePool(at=chance.uniform(0.2, 0.5) * seconds, pool=STATIC, replicas=replicas + 2)
    less = ResizePool(at=chance.uniform(0.7, 1.0) * seconds, pool=STATIC, replicas=replicas - 1)
    return Coincidence(steps=(made, more, less), gates=("StaticCapacity",))


def _static_pool_drifts(chance: Random, seconds: float) -> Coincidence:
    """All machines of a static pool drift, where budgets are tight."""
    budgets = chance.choice((("1",), ("1",), ("2",), ("25%",), ("34%",), ("50%",)))
    made = AddPool(at=0.0, name=STATIC, replicas=chance.randint(2, 4), budgets=budgets)
    later = ChangeTemplate(at=chance.uniform(0.5, 0.9) * seconds, pool=STATIC, version=9)
    return Coincidence(steps=(made, later), gates=("StaticCapacity",))


def _pods_go_unseen(chance: Random, seconds: float) -> Coincidence:
    """While watches are late pods go, and then the watches break and history is forgotten."""
    at = chance.uniform(0.4, 0.7) * seconds
    return Coincidence(
        steps=(
            Deploy(at=0.0, name="unseen", replicas=3, milli=500),
            HoldWatches(at=at, plurals=_WATCHED, seconds=_HELD_SECONDS),
            Scale(at=at + 1.0, name="unseen", replicas=0),
            Scale(at=at + 1.0, name="app-0", replicas=0),
            CutWatches(at=at + _HELD_SECONDS / 2, forgotten=True),
        )
    )


def _pods_are_bound_unseen(chance: Random, seconds: float) -> Coincidence:
    """Nodes become empty, get pods while the watch of pods is late, and are deleted."""
    at, replicas = chance.uniform(0.4, 0.7) * seconds, chance.randint(4, 8)
    return Coincidence(
        steps=(
            _own_pool("early", chance, consolidate_after="2m"),
            _wide("early", chance),
            Scale(at=at, name="early", replicas=0),
            HoldWatches(at=at + 5.0, plurals=("pods",), seconds=_HELD_SECONDS),
            Deploy(at=at + 6.0, name="late", replicas=replicas, milli=50, mebi=16, pool="early"),
            *(DeleteNode(at=at + 8.0, pick=pick) for pick in (0.0, 0.3, 0.6, 0.99)),
        )
    )


def _launches_fail_in_a_row(chance: Random, seconds: float) -> Coincidence:
    """Pods come at the end, and the first launches for them fail, or their machines never join."""
    at, replicas = chance.uniform(0.7, 0.9) * seconds, chance.randint(4, 8)
    return Coincidence(
        steps=(
            BadLaunch(at=at, kind="fail" if replicas % 2 else "never join", count=3),
            Deploy(at=at + 1.0, name="fresh", replicas=replicas, milli=1000),
        )
    )


def _all_are_empty(chance: Random, seconds: float) -> Coincidence:
    """Several machines become empty at once, where budgets are tight."""
    at, wait = chance.uniform(0.3, 0.6) * seconds, chance.choice(("0s", "1m"))
    return Coincidence(
        steps=(
            _own_pool("many", chance, budgets=chance.choice(_TIGHT), consolidate_after=wait),
            _wide("many", chance),
            Scale(at=at, name="many", replicas=0),
        )
    )


def _all_drift(chance: Random, seconds: float) -> Coincidence:
    """Several machines drift at once, where budgets are tight."""
    at = chance.uniform(0.4, 0.8) * seconds
    return Coincidence(
        steps=(
            _own_pool("several", chance, budgets=chance.choice(_TIGHT)),
            _wide("several", chance),
            ChangeTemplate(at=at, pool="several", version=9),
        )
    )


def _a_node_breaks(chance: Random, seconds: float) -> Coincidence:
    """A node breaks, and others drift, where budgets are tight."""
    at = chance.uniform(0.2, 0.5) * seconds
    return Coincidence(
        steps=(
            _own_pool("some", chance, budgets=chance.choice((("1",), ("25%",), ("34%",), ("50%",)))),
            Deploy(at=0.0, name="some", replicas=5, milli=100, mebi=32, pool="some", apart=True),
            BreakNode(at=at, pick=chance.random(), pool="some"),
            ChangeTemplate(at=at + 10.0, pool="some", version=9),
        ),
        gates=("NodeRepair",),
    )


def _nodes_start_while_others_go(chance: Random, seconds: float) -> Coincidence:
    """Machines start and wait for their startup taint while others drift, where budgets are shares."""
    at, share = chance.uniform(0.4, 0.6) * seconds, chance.choice(("20%", "25%", "34%", "50%"))
    return Coincidence(
        steps=(
            AddPool(at=0.0, name="slow", cpu_limit=_POOL_CORES, startup=25, budgets=(share,)),
            Deploy(at=0.0, name="slow", replicas=4, milli=100, mebi=32, pool="slow", apart=True),
            ChangeTemplate(at=at - 12.0, pool="slow", version=9),
            Scale(at=at, name="slow", replicas=8),
        )
    )


def _pods_come_before_removal(chance: Random, seconds: float) -> Coincidence:
    """Machines become empty, and pods come until they are removed."""
    at, wait = chance.uniform(0.3, 0.5) * seconds, chance.choice(("0s", "1m"))
    coming = [at + 10.0]
    while coming[-1] < at + 50.0:
        coming.append(coming[-1] + chance.uniform(3.0, 9.0))
    return Coincidence(
        steps=(
            _own_pool("few", chance, consolidate_after=wait),
            _wide("few", chance),
            Scale(at=at, name="few", replicas=0),
            *(
                Deploy(at=moment, name=f"next-{number}", replicas=1, milli=100, mebi=32, pool="few")
                for number, moment in enumerate(coming)
            ),
        )
    )


def _load_shrinks(chance: Random, seconds: float) -> Coincidence:
    """Machines are filled, then need less than what they have, and their template changes meanwhile."""
    at, kind = chance.uniform(0.3, 0.6) * seconds, chance.choice(("on-demand", "spot"))
    milli = chance.choice((700, 1500))
    return Coincidence(
        steps=(
            _own_pool("large", chance, capacity_types=(kind,), consolidate_after="0s"),
            Deploy(at=0.0, name="shrinking", replicas=chance.randint(6, 9), milli=milli, pool="large"),
            Scale(at=at, name="shrinking", replicas=chance.randint(1, 3)),
            ChangeTemplate(at=at + chance.uniform(8.0, 22.0), pool="large", version=9),
        )
    )


def _protection_ends(chance: Random, seconds: float) -> Coincidence:
    """Machines drift whose pods say for how long they must not be disrupted."""
    at, lasts = chance.uniform(0.3, 0.5) * seconds, chance.choice(("60s", "90s", "3m"))
    begins = chance.uniform(0.0, 0.3) * seconds
    return Coincidence(
        steps=(
            _own_pool("guarded", chance),
            Deploy(at=begins, name="busy", replicas=3, milli=250, pool="guarded", keep_for=lasts),
            ChangeTemplate(at=at, pool="guarded", version=9),
        )
    )


def _budgets_of_pods_block(chance: Random, seconds: float) -> Coincidence:
    """Machines drift, or need less than they have, whose pods a PodDisruptionBudget does not let go."""
    at, kept = chance.uniform(0.3, 0.6) * seconds, chance.choice((2, 3))
    change = ChangeTemplate(at=at, pool="steady", version=9)
    return Coincidence(
        steps=(
            _own_pool("steady", chance, consolidate_after="0s"),
            Deploy(at=0.0, name="steady", replicas=kept, milli=500, pool="steady", min_available=kept),
            Deploy(at=0.0, name="beside", replicas=4, milli=1000, pool="steady"),
            chance.choice((change, Scale(at=at, name="beside", replicas=0))),
        )
    )


def _protected_late(chance: Random, seconds: float) -> Coincidence:
    """A machine drifts, and it or a pod on it is protected while its replacement starts."""
    at = chance.uniform(0.3, 0.6) * seconds
    return Coincidence(
        steps=(
            AddPool(at=0.0, name="begun", cpu_limit=_POOL_CORES, startup=25),
            _wide("begun", chance),
            Protect(at=at - 1.0, pick=0.0, seconds=_PROTECTED_SECONDS, pod=chance.random() < 0.7, late=True),  # noqa: PLR2004
            ChangeTemplate(at=at, pool="begun", version=9),
        )
    )


def _a_pool_is_full(chance: Random, seconds: float) -> Coincidence:
    """More pods come than a NodePool may have machines for, at once and one after the other."""
    at, cores = chance.uniform(0.2, 0.5) * seconds, chance.choice((2, 4, 6))
    return Coincidence(
        steps=(
            AddPool(at=0.0, name="full", cpu_limit=cores),
            Deploy(at=0.0, name="first", replicas=cores // 2, milli=700, pool="full"),
            Deploy(at=at, name="second", replicas=cores, milli=700, pool="full"),
            Deploy(at=at + 10.0, name="third", replicas=cores, milli=300, pool="full"),
        )
    )


def _pods_spread(chance: Random, seconds: float) -> Coincidence:
    """Pods that spread over zones, or over machines, come while zones are sold out."""
    at, zone = chance.uniform(0.2, 0.6) * seconds, chance.choice(ZONES)
    key = chance.choice(
        ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone", "kubernetes.io/hostname")
    )
    return Coincidence(
        steps=(
            _own_pool("even", chance, consolidate_after="0s"),
            Deploy(at=0.0, name="spread", replicas=chance.randint(2, 3), milli=300, pool="even", spread=key),
            SellOut(at=at, zone=zone, seconds=20.0),
            Scale(at=at + 1.0, name="spread", replicas=chance.randint(5, 7)),
            Scale(at=at + 30.0, name="spread", replicas=2),
        )
    )


def _critical_pods_are_drained(chance: Random, seconds: float) -> Coincidence:
    """Nodes with critical pods, and others that take long to stop, are deleted."""
    at = chance.uniform(0.4, 0.6) * seconds
    return Coincidence(
        steps=(
            Deploy(at=0.0, name="vital", replicas=4, milli=100, mebi=32, critical=True),
            Deploy(at=0.0, name="slowly", replicas=4, milli=100, mebi=32, grace=30),
            *(DeleteNode(at=at + wait, pick=wait / 3) for wait in (0.0, 1.0, 2.0)),
        )
    )


def _drains_are_held(chance: Random, seconds: float) -> Coincidence:
    """Machines with a grace period are deleted, and their pods must not be evicted."""
    at, grace = chance.uniform(0.4, 0.7) * seconds, chance.choice(("30s", "1m", "2m"))
    return Coincidence(
        steps=(
            _own_pool("patient", chance, grace=grace),
            Deploy(at=0.0, name="held", replicas=3, milli=250, pool="patient", apart=True, keep=True),
            *(DeleteNode(at=at + wait, pick=wait / 3, claim=wait > 1.0) for wait in (0.0, 1.0, 2.0, 2.9)),
        )
    )


def _replacements_are_sold_out(chance: Random, seconds: float) -> Coincidence:
    """Machines drift, and what would replace them is sold out once that has begun."""
    at, zone = chance.uniform(0.4, 0.7) * seconds, chance.choice(ZONES)
    return Coincidence(
        steps=(
            _own_pool("scarce", chance),
            Deploy(at=0.0, name="tied", replicas=3, milli=500, pool="scarce", zone=zone),
            ChangeTemplate(at=at, pool="scarce", version=9),
            *(SellOut(at=at + wait, zone=zone, seconds=9.0) for wait in (4.0, 14.0, 24.0)),
        )
    )


_ALL: Final[tuple[Callable[[Random, float], Coincidence], ...]] = (
    _evictions_are_lost,
    _machines_are_taken,
    _claims_expire,
    _operator_dies_while_it_disrupts,
    _static_pool_shrinks,
    _static_pool_drifts,
    _pods_go_unseen,
    _pods_are_bound_unseen,
    _launches_fail_in_a_row,
    _all_are_empty,
    _all_drift,
    _a_node_breaks,
    _nodes_start_while_others_go,
    _pods_come_before_removal,
    _load_shrinks,
    _protection_ends,
    _budgets_of_pods_block,
    _protected_late,
    _a_pool_is_full,
    _pods_spread,
    _critical_pods_are_drained,
    _drains_are_held,
    _replacements_are_sold_out,
)


def draw_coincidences(seed: int, count: int, seconds: float) -> list[Coincidence]:
    """
    Return so many of the coincidences for the run of a seed.

    Runs of consecutive seeds have all of them equally often, each time in another order.
    """
    places = range(seed * count, (seed + 1) * count)
    found = dict.fromkeys(_order(place // len(_ALL))[place % len(_ALL)] for place in places)
    chance = Random(f"{seed}/coincidences")  # noqa: S311  chance, not secrets
    return [draw(chance, seconds) for draw in found]


def _order(cycle: int) -> list[Callable[[Random, float], Coincidence]]:
    return Random(f"coincidences/{cycle}").sample(_ALL, len(_ALL))  # noqa: S311  likewise
