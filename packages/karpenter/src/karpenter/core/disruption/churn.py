"""
Churn: how long savings last, and commands that would undo earlier ones.

How long savings last is learned from how NodePools grow, by launching nodes for pending pods, and shrink.
Room that is given up is missed when the NodePool has more nodes than it had then: soon where it grows, and
after hours where it shrinks, so the two are learned apart. Nodes that are replaced by cheaper ones stay
cheaper while a NodePool grows; where it shrinks they are soon removed themselves. Until enough is known, a
saving is taken to last.

A command that would undo an earlier one is refused: nodes of a kind that was removed come back in place of
nodes of the kind that replaced them, for the same workloads.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.command import Command


LASTING: Final = timedelta(days=20)
"""How long a saving is taken to last where nothing else is known, and at most."""

SHORTEST: Final = timedelta(minutes=10)
"""The least that a saving is taken to last."""

_ENOUGH: Final = 5
"""So many savings must have ended before anything is learned."""

REMEMBERED: Final = timedelta(days=2)
"""How long savings and changes of NodePools are remembered."""

RETURN_HOLD: Final = timedelta(hours=4)
"""How long pods that went back to a preferred NodePool and fell back again stay where they are."""

Machines: TypeAlias = frozenset[tuple[str, str, str]]
"""Instance type, zone and capacity type."""


def pool_trends(changes: Sequence[PoolChange], now: datetime) -> dict[str, PoolTrend]:
    """Return where the sizes of NodePools go, by name, where that was learned."""
    by_pool: dict[str, list[PoolChange]] = {}
    for each in changes:
        by_pool.setdefault(each.pool, []).append(each)
    found = ((pool, mine[-1].grew, _lifetime(mine, now)) for pool, mine in sorted(by_pool.items()))
    return {pool: PoolTrend(grew, lifetime) for pool, grew, lifetime in found if lifetime is not None}


class PoolTrend(NamedTuple):
    """Where the size of a NodePool goes."""

    grows: bool
    """Whether it has last launched nodes for pending pods, and not given any up."""

    lifetime: timedelta
    """How long room that is given up is expected not to be missed."""


class PoolChange(msgspec.Struct, frozen=True, kw_only=True):
    """A NodePool has launched nodes for pending pods, or has fewer because they were given up."""

    pool: str
    when: datetime
    grew: bool
    nodes: int
    """How many it has since, without those that a command replaces."""


def _lifetime(changes: Sequence[PoolChange], now: datetime) -> timedelta | None:
    """
    Return how long it takes until a NodePool launches nodes and has more than now; None if that is not known.

    That is learned from all changes in the direction of the last one, because a NodePool that has grown
    mostly goes on to grow. What was not followed by more nodes counts for as long as that has lasted.
    """
    ended, whole = 0, timedelta()
    waiting: list[PoolChange] = []
    for each in changes:
        while each.grew and waiting and waiting[-1].nodes < each.nodes:
            before = waiting.pop()
            if before.grew == changes[-1].grew:
                ended += 1
                whole += each.when - before.when
        waiting.append(each)
    whole += sum((now - each.when for each in waiting if each.grew == changes[-1].grew), timedelta())
    return min(max(whole / ended, SHORTEST), LASTING) if ended >= _ENOUGH else None


class SavingLifetime(msgspec.Struct, frozen=True, kw_only=True):
    """A saving in a NodePool, from when it was made until the NodePool launched nodes again."""

    pool: str
    since: datetime
    until: datetime | None = None
    """None while it lasts."""

    def lasted(self, now: datetime) -> timedelta:
        return (self.until or now) - self.since


SavingLifetimes: TypeAlias = tuple[SavingLifetime, ...]


def record_savings(savings: SavingLifetimes, pools: Iterable[str], now: datetime) -> SavingLifetimes:
    """Return the savings once a command has saved something in some NodePools."""
    recent = (each for each in savings if now - each.since < REMEMBERED)
    return (*recent, *(SavingLifetime(pool=pool, since=now) for pool in sorted(set(pools))))


def end_savings(savings: SavingLifetimes, pools: AbstractSet[str], now: datetime) -> SavingLifetimes:
    """Return the savings once some NodePools have launched nodes for pending pods."""
    return tuple(
        msgspec.structs.replace(each, until=now) if each.until is None and each.pool in pools else each
        for each in savings
    )


def undoes(
    command: Command,
    candidates: Sequence[Candidate],
    past: Iterable[PastCommand],
    now: datetime,
    *,
    within: timedelta,
) -> bool:
    """Return whether a command would bring back what a recent one removed, for the same workloads."""
    removed, added, workloads = _removed(candidates), _added(command), _workloads(candidates)
    return any(
        now - each.when < within
        and bool(added & each.removed)
        and bool(removed & each.added)
        and bool(workloads & each.workloads)
        for each in past
    )


class PastCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command that was carried out."""

    when: datetime
    removed: Machines
    added: Machines
    workloads: frozenset[str]
    returned: frozenset[str] = frozenset()
    """Claims whose pods went back to a preferred NodePool."""


def past_command(command: Command, candidates: Sequence[Candidate], now: datetime) -> PastCommand:
    """Return what is worth remembering of a command."""
    return PastCommand(
        when=now,
        removed=_removed(candidates),
        added=_added(command),
        workloads=_workloads(candidates),
        returned=frozenset(each.claim.name for each in candidates if command.preferred),
    )


def returned_at(candidate: Candidate, past: Iterable[PastCommand], now: datetime) -> datetime | None:
    """
    Return when pods of a node's workloads last went back to a preferred NodePool, before the node was there.

    So they have fallen back since. None where that was never, or is forgotten by now.
    """
    since, mine = candidate.claim.metadata.creation_timestamp, _workloads([candidate])
    return max(
        (
            each.when
            for each in past
            if each.returned
            and now - each.when < RETURN_HOLD
            and since is not None
            and each.when < since
            and not mine.isdisjoint(each.workloads)
        ),
        default=None,
    )


def _removed(candidates: Iterable[Candidate]) -> Machines:
    keys = (INSTANCE_TYPE, ZONE, CAPACITY_TYPE)
    return frozenset(
        (labels.get(keys[0], ""), labels.get(keys[1], ""), labels.get(keys[2], ""))
        for labels in (candidate.node.labels for candidate in candidates)
    )


def _added(command: Command) -> Machines:
    bought = (node.purchase for node in command.replacements)
    return frozenset((each.instance_type, each.zone, each.capacity_type) for each in bought)


def _workloads(candidates: Iterable[Candidate]) -> frozenset[str]:
    return frozenset(
        f"{pod.metadata.namespace}/{owner.kind}/{owner.name}"
        for candidate in candidates
        for pod in candidate.pods
        for owner in pod.metadata.owner_references
        if owner.controller or len(pod.metadata.owner_references) == 1
    )
