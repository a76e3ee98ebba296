"""
Whether a saving is worth the trouble: what a command saves must pay for what it moves.

Moving has a price: every pod that is evicted costs something, and while a replacement starts,
both machines are paid. A command that does not earn that back within the payback time is left
alone, so a steady cluster is not stirred for cents. Where savings have turned out to be
short-lived (:mod:`.lives`), an eviction costs more, measured by what a pod costs there: it buys less.
Least lasting is room that is given up, for it is soon bought again; machines that are exchanged for
cheaper ones stay cheaper while a pool grows. Where machines are made to empty by themselves, waiting for that
is cheaper than an eviction.

And a command that would undo an earlier one is refused: machines of a kind that went come back
in place of machines of the kind that replaced them, for the same workloads.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter.core.disruption.lives import SHORTEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.command import Command

_HOUR: Final = timedelta(hours=1)


class Share(NamedTuple):
    """What must be saved per pod for a short while, where the average price of a pod is 1."""

    given_up: float
    """Where a machine goes for good."""

    exchanged: float
    """Where others are bought instead."""


USUAL: Final = Share(given_up=0.7, exchanged=0.5)
PATIENT: Final = Share(given_up=1.4, exchanged=0.7)
"""Where machines empty by themselves, and waiting costs little."""

Machines = frozenset[tuple[str, str, str]]
"""Instance type, zone and capacity type."""


class Payback(msgspec.Struct, frozen=True, kw_only=True):
    """What moving costs, and how soon a saving must have earned it back."""

    within: timedelta = timedelta(hours=1)
    """Zero switches the question off."""

    eviction_price: float = 0.001
    """What evicting an ordinary pod is taken to cost."""

    start_up: timedelta = timedelta(minutes=2)
    """How long a replacement runs beside what it replaces."""

    lives: Mapping[str, timedelta] = {}
    """How long savings are expected to last in pools where that was learned."""

    rates: Mapping[str, float] = {}
    """What machines cost per hour and pod, by pool."""

    steered: bool = False
    """Whether machines are made to empty by themselves (:mod:`.steering`)."""

    def learned(self, observed: Sequence[timedelta], lives: Mapping[str, timedelta]) -> Payback:
        """Return the same with the middle one of the start-up times that were observed, and with `lives`."""
        start_up = sorted(observed)[len(observed) // 2] if observed else self.start_up
        return msgspec.structs.replace(self, start_up=start_up, lives=lives)

    def price(self, command: Command, candidates: Iterable[Candidate]) -> float:
        """Return what carrying out a command costs once."""
        both = sum(node.purchase.price for node in command.replacements) * (self.start_up / _HOUR)
        share = self._share.exchanged if command.replacements else self._share.given_up
        return sum(self._eviction(each, share) for each in candidates) + both

    def least(self, candidate: Candidate) -> float:
        """Return what has to be saved per hour, at least, to pay for emptying a machine."""
        return self._eviction(candidate, min(self._share)) / (self.within / _HOUR) if self.within else 0.0

    @property
    def _share(self) -> Share:
        return PATIENT if self.steered else USUAL

    def _eviction(self, candidate: Candidate, share: float) -> float:
        pool = candidate.pool.name
        short = SHORTEST / self.lives[pool] if pool in self.lives else 0.0
        dear = share * short * self.rates.get(pool, 0.0) * (self.within / _HOUR)
        return (candidate.cost - 1.0) * max(self.eviction_price, dear)

    def earns(self, command: Command, candidates: Iterable[Candidate]) -> bool:
        """Return whether a command earns its price back in time."""
        if not self.within:
            return True
        return command.saving * (self.within / _HOUR) >= self.price(command, candidates)


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """A command that was carried out."""

    when: datetime
    removed: Machines
    added: Machines
    workloads: frozenset[str]


def remember(command: Command, candidates: Sequence[Candidate], now: datetime) -> Past:
    """Return what is worth remembering of a command."""
    return Past(
        when=now, removed=_removed(candidates), added=_added(command), workloads=_workloads(candidates)
    )


def undoes(
    command: Command,
    candidates: Sequence[Candidate],
    past: Iterable[Past],
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
