"""
What disruption remembers from one decision to the next, as a value.

:func:`observe` brings the memory up to date with what has become of earlier commands before every decision;
``disrupt`` and ``validate`` return the memory that the next decision is made with. Nothing here survives a
restart of the operator: what commands have written on nodes is undone by :mod:`.queue`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import NODEPOOL
from karpenter.core.disruption.budgets import read_budgets
from karpenter.core.disruption.churn import (
    ExpectedOutcome,
    PastCommand,
    RestPeriod,
    SavingLifetimes,
    end_savings,
    expected_lifetimes,
    is_due,
    landed_share,
    next_rest,
    past_command,
    record_savings,
)
from karpenter.core.disruption.command import UNDERUTILIZED
from karpenter.core.effects import Effect
from karpenter.core.events import budget_blocked

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.churn import Payback
    from karpenter.core.disruption.command import Command
    from karpenter.core.state.cluster import ClusterView

EXPLAINED: Final = timedelta(minutes=15)
"""For how long it is not simulated again what keeps a node whose replacement is not worth it."""

_START_UPS: Final = 25
"""How many start-up times of replacements are remembered."""


class DisruptionMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier decisions and their outcomes mean for the next."""

    commands: int = 0
    """How many commands were decided so far, whether or not they were carried out."""

    past: tuple[PastCommand, ...] = ()
    """Commands that were carried out a short while ago."""

    savings: SavingLifetimes = ()
    """Savings of the last days, and how long each lasted."""

    start_ups: tuple[timedelta, ...] = ()
    """How long the last replacements took to be initialized."""

    resting: Mapping[str, RestPeriod] = {}
    """NodePools whose savings did not come out as planned, and until when none are looked for."""

    overdue: frozenset[str] = frozenset()
    """Drifted nodes that the last decision had no time for."""

    explained: Mapping[str, datetime] = {}
    """Nodes of which it was simulated why they stay, and when."""

    claims: frozenset[str] | None = None
    """The claims that existed at the last look; None before the first."""

    launched: frozenset[str] = frozenset()
    """Claims that were launched as replacements and may still exist."""

    expected: tuple[ExpectedOutcome, ...] = ()
    """Commands that are over, and where their pods should run by now."""

    unreadable: Mapping[str, str] = {}
    """NodePools with a budget that cannot be read, and what is wrong with it."""

    fruitless: object = None
    """The fingerprint of the cluster in which a decision found nothing to do."""

    fruitless_until: datetime | None = None

    def is_fruitless(self, fingerprint: object, now: datetime) -> bool:
        """Whether the last decision found nothing to do, and another one would find the same."""
        until = self.fruitless_until
        return until is not None and now < until and fingerprint == self.fruitless

    def pools_at_rest(self, now: datetime) -> frozenset[str]:
        """Return the NodePools in which no savings are looked for at a moment."""
        return frozenset(pool for pool, rest in self.resting.items() if now < rest.until)

    def lately_explained(self, now: datetime) -> dict[str, datetime]:
        """Return the nodes of which users were told a short while ago why they stay, and when."""
        return {name: when for name, when in self.explained.items() if now - when < EXPLAINED}

    def learned(self, payback: Payback, now: datetime) -> Payback:
        """Return what savings must earn, given what start-ups and savings turned out to be."""
        return payback.learned(self.start_ups, expected_lifetimes(self.savings, now))

    def after(
        self, command: Command, candidates: Sequence[Candidate], now: datetime, *, kept_for: timedelta
    ) -> DisruptionMemory:
        """Return the memory once a command is carried out; it is `kept_for` so long."""
        recent = [each for each in self.past if now - each.when < kept_for]
        savings = self.savings
        if command.reason == UNDERUTILIZED:
            savings = record_savings(savings, {each.pool.name for each in candidates}, now)
        past = (*recent, past_command(command, candidates, now))
        return msgspec.structs.replace(self, past=past, savings=savings)

    def with_launched(self, claims: Iterable[str]) -> DisruptionMemory:
        """Return the memory once claims were launched as replacements."""
        return msgspec.structs.replace(self, launched=self.launched.union(claims))


class FinishedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command whose nodes were deleted."""

    expected: ExpectedOutcome
    start_up: timedelta | None = None
    """How long its replacements took to be initialized; None if it had none."""


class MissedOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A NodePool whose pods did not land where a command had planned."""

    pool: str
    share: float
    moved: int
    rest: RestPeriod


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """The memory, brought up to date, and what is to be said of it."""

    memory: DisruptionMemory
    effects: tuple[Effect, ...] = ()
    missed: tuple[MissedOutcome, ...] = ()
    unreadable: Mapping[str, str] = {}
    """Problems of budgets that were not there at the last look, by NodePool."""


def observe(
    view: ClusterView, memory: DisruptionMemory, *, now: datetime, finished: Iterable[FinishedCommand] = ()
) -> Observation:
    """Return the memory with the outcomes of earlier commands; `finished` ones ended since the last look."""
    finished = tuple(finished)
    start_ups = [each.start_up for each in finished if each.start_up is not None]
    expected = (*memory.expected, *(each.expected for each in finished))
    due = [each for each in expected if is_due(each, view, now)]
    resting, missed = dict(memory.resting), []
    for each in due:
        share = landed_share(each, view)
        for pool in sorted(each.pools):
            rest = next_rest(resting.pop(pool, None), share, now)
            if rest is not None:
                resting[pool] = rest
                missed.append(MissedOutcome(pool=pool, share=share, moved=each.moved, rest=rest))
    unreadable = unreadable_budgets(view)
    claims = frozenset(view.claims)
    return Observation(
        memory=msgspec.structs.replace(
            memory,
            start_ups=(*memory.start_ups, *start_ups)[-_START_UPS:],
            expected=tuple(each for each in expected if each not in due),
            resting=resting,
            savings=_after_growth(view, memory, claims, now),
            claims=claims,
            launched=memory.launched & claims,
            unreadable=unreadable,
        ),
        effects=tuple(budget_blocked(view.pools[name], problem) for name, problem in unreadable.items()),
        missed=tuple(missed),
        unreadable={
            name: problem for name, problem in unreadable.items() if memory.unreadable.get(name) != problem
        },
    )


def unreadable_budgets(view: ClusterView) -> dict[str, str]:
    """Return what is wrong with budgets that cannot be read, by NodePool; nothing there is disrupted."""
    found = {}
    for name, pool in view.pools.items():
        problems = [each.problem for each in read_budgets(pool.spec.disruption.budgets) if each.problem]
        if problems:
            found[name] = f"Nothing is disrupted, because a budget cannot be read: {'; '.join(problems)}"
    return found


def _after_growth(
    view: ClusterView, memory: DisruptionMemory, claims: frozenset[str], now: datetime
) -> SavingLifetimes:
    """Return the savings; those of NodePools that have launched nodes for pending pods are over."""
    if memory.claims is None:
        return memory.savings
    # A replacement is part of a saving; any other new claim was launched for pending pods.
    new = claims - memory.claims - memory.launched
    return end_savings(
        memory.savings, {view.claims[name].metadata.labels.get(NODEPOOL, "") for name in new}, now
    )
