"""
Payback: whether a saving is worth what it moves.

A command must earn back what it costs within the payback time: every evicted pod has a price, and while a
replacement starts both nodes are paid. Where savings have turned out to be short-lived an eviction costs
more, measured by what a pod costs there. Where nodes are made to empty by themselves (:mod:`.steering`)
waiting for that is cheaper than an eviction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from karpenter.core.disruption.churn import PoolTrend

if TYPE_CHECKING:
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.command import Command


_HOUR: Final = timedelta(hours=1)

_LEAST_STAY: Final = timedelta(hours=8)
"""The least that replaced nodes are taken to stay: load that follows the day falls after about as long."""


class Payback(msgspec.Struct, frozen=True, kw_only=True):
    """What moving costs, and how soon a saving must have earned it back."""

    within: timedelta = timedelta(hours=1)
    """Zero switches the question off."""

    eviction_price: float = 0.001
    """What evicting an ordinary pod is taken to cost."""

    start_up: timedelta = timedelta(minutes=2)
    """How long a replacement runs beside what it replaces."""

    trends: Mapping[str, PoolTrend] = {}
    """Where the sizes of NodePools go, by name, where that was learned."""

    rates: Mapping[str, float] = {}
    """What nodes cost per hour and pod, by NodePool."""

    steered: bool = False
    """Whether nodes are made to empty by themselves (:mod:`.steering`)."""

    def learned(self, observed: Sequence[timedelta], trends: Mapping[str, PoolTrend]) -> Payback:
        """Return the same with the median of the start-up times that were observed, and with `trends`."""
        start_up = sorted(observed)[len(observed) // 2] if observed else self.start_up
        return msgspec.structs.replace(self, start_up=start_up, trends={**self.trends, **trends})

    def price(self, command: Command, candidates: Iterable[Candidate]) -> float:
        """Return what carrying out a command costs once."""
        both = sum(node.purchase.price for node in command.replacements) * (self.start_up / _HOUR)
        least = map(self._eviction, candidates)
        return sum(each.exchanged if command.replacements else each.given_up for each in least) + both

    def least(self, candidate: Candidate) -> LeastSaving:
        """Return what has to be saved per hour, at least, to pay for emptying a node."""
        if not self.within:
            return LeastSaving(0.0, 0.0)
        found = self._eviction(candidate)
        return LeastSaving(*(each / (self.within / _HOUR) for each in found))

    def _shares(self, trend: PoolTrend) -> tuple[float, float]:
        """Return what must be saved per pod where one is given up or exchanged; the average price is 1."""
        worth = STEERED_WORTH if self.steered else DEFAULT_WORTH
        exchanged = worth.growing if trend.grows else worth.exchanged
        return worth.given_up / trend.lifetime, exchanged / max(trend.lifetime, _LEAST_STAY)

    def _eviction(self, candidate: Candidate) -> LeastSaving:
        """Return what has to be saved within the payback time to pay for emptying a node."""
        pool = candidate.pool.name
        shares = self._shares(self.trends[pool]) if pool in self.trends else (0.0, 0.0)
        dear = (share * self.rates.get(pool, 0.0) * (self.within / _HOUR) for share in shares)
        return LeastSaving(*((candidate.cost - 1.0) * max(self.eviction_price, each) for each in dear))

    def earns(self, command: Command, candidates: Iterable[Candidate]) -> bool:
        """Return whether a command earns its price back in time."""
        if not self.within:
            return True
        earned = (command.saving + command.preference) * (self.within / _HOUR)
        return earned >= self.price(command, candidates)


class LeastSaving(NamedTuple):
    """What the going of a node must save per hour, at least."""

    given_up: float
    """Where it is removed without a replacement."""

    exchanged: float
    """Where it is replaced by cheaper ones."""


class EvictionWorth(NamedTuple):
    """For how long the average price of a pod must be earned, for each pod that is evicted."""

    given_up: timedelta
    """Where a node is removed without a replacement."""

    exchanged: timedelta
    """Where nodes are replaced by cheaper ones."""

    growing: timedelta
    """Where nodes are replaced by cheaper ones in a NodePool that grows: there they stay."""


DEFAULT_WORTH: Final = EvictionWorth(
    given_up=timedelta(minutes=30), exchanged=timedelta(hours=4), growing=timedelta(hours=2)
)
STEERED_WORTH: Final = EvictionWorth(
    given_up=timedelta(hours=1), exchanged=timedelta(hours=6), growing=timedelta(hours=3)
)
"""Where nodes empty by themselves, and waiting costs little."""
