"""
What disruption remembers from one decision to the next, as a value.

:func:`observe` brings the memory up to date with what has become of earlier commands before every decision;
``disrupt`` and ``validate`` return the memory that the next decision is made with. Nothing here survives a
restart of the operator: what commands have written on nodes is undone by :mod:`.queue`.

What a saving must earn is in :mod:`.payback`, how long savings last and what a command would undo in
:mod:`.churn`, where the pods of a command went in :mod:`.outcomes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import NODEPOOL
from karpenter.core.disruption.budgets import read_budgets
from karpenter.core.disruption.churn import (
    REMEMBERED,
    RETURN_HOLD,
    PastCommand,
    PoolChange,
    SavingLifetimes,
    end_savings,
    past_command,
    pool_trends,
    record_savings,
)
from karpenter.core.disruption.command import UNDERUTILIZED, Command
from karpenter.core.disruption.outcomes import ExpectedOutcome, RestPeriod, is_due, landed_share, next_rest
from karpenter.core.effects import Effect
from karpenter.core.events import budget_blocked

if TYPE_CHECKING:
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.payback import Payback
    from karpenter.core.state.cluster import ClusterView


_START_UPS: Final = 25
"""How many start-up times of replacements are remembered."""
EXPLAINED: Final = timedelta(minutes=15)
"""For how long it is not simulated again what keeps a node whose replacement is not worth it."""


def observe(
    view: ClusterView, memory: DisruptionMemory, *, now: datetime, finished: Iterable[FinishedCommand] = ()
) -> Observation:
    """Return the memory with the outcomes of earlier commands; `finished` ones ended since the last look."""
    finished = tuple(finished)
    start_ups = [each.start_up for each in finished if each.start_up is not None]
    expected = (*memory.expected, *(each.expected for each in finished if each.expected is not None))
    due = [each for each in expected if is_due(each, view, now)]
    resting, missed = dict(memory.resting), []
    for each in due:
        share = landed_share(each, view)
        for pool in sorted(each.pools & view.pools.keys()):
            rest = next_rest(resting.pop(pool, None), share, now)
            if rest is not None:
                resting[pool] = rest
                missed.append(MissedOutcome(pool=pool, share=share, moved=each.moved, rest=rest))
    unreadable = unreadable_budgets(view)
    claims = {name: claim.metadata.labels.get(NODEPOOL, "") for name, claim in view.claims.items()}
    failed = frozenset(name for each in finished for name in each.failed)
    return Observation(
        memory=msgspec.structs.replace(
            memory,
            past=tuple(
                msgspec.structs.replace(each, returned=each.returned - failed)
                if each.returned & failed
                else each
                for each in memory.past
            ),
            start_ups=(*memory.start_ups, *start_ups)[-_START_UPS:],
            expected=tuple(each for each in expected if each not in due),
            resting={name: rest for name, rest in resting.items() if name in view.pools},
            failed=_after_failures(memory.failed, finished, view, now),
            savings=_after_growth(memory, claims, now),
            changes=_after_changes(memory, claims, now),
            exchanged=(memory.exchanged - failed) & claims.keys(),
            claims=claims,
            launched=memory.launched & claims.keys(),
            unreadable=unreadable,
        ),
        effects=tuple(budget_blocked(view.pools[name], problem) for name, problem in unreadable.items()),
        missed=tuple(missed),
        unreadable={
            name: problem for name, problem in unreadable.items() if memory.unreadable.get(name) != problem
        },
    )


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """The memory, brought up to date, and what is to be said of it."""

    memory: DisruptionMemory
    effects: tuple[Effect, ...] = ()
    missed: tuple[MissedOutcome, ...] = ()
    unreadable: Mapping[str, str] = {}
    """Problems of budgets that were not there at the last look, by NodePool."""


class MissedOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A NodePool whose pods did not land where a command had planned."""

    pool: str
    share: float
    moved: int
    rest: RestPeriod


class FinishedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command whose nodes were deleted, or that was given up because of its replacements."""

    expected: ExpectedOutcome | None = None
    failed: frozenset[str] = frozenset()
    """The claims that were not replaced, because a replacement did not become ready."""

    start_up: timedelta | None = None
    """How long its replacements took to be initialized; None if it had none."""


class DisruptionMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier decisions and their outcomes mean for the next."""

    commands: int = 0
    """How many commands were decided so far, whether or not they were carried out."""

    past: tuple[PastCommand, ...] = ()
    """Commands that were carried out a short while ago."""

    savings: SavingLifetimes = ()
    """Savings of the last days, and how long each lasted."""

    changes: tuple[PoolChange, ...] = ()
    """When NodePools grew and shrank in the last days."""

    exchanged: frozenset[str] = frozenset()
    """Claims that commands replace, and that may still exist."""

    start_ups: tuple[timedelta, ...] = ()
    """How long the last replacements took to be initialized."""

    resting: Mapping[str, RestPeriod] = {}
    """NodePools whose savings did not come out as planned, and until when none are looked for."""

    failed: Mapping[str, RestPeriod] = {}
    """Claims whose replacements failed, by name, and until when they are not replaced."""

    returnable: Mapping[str, datetime] = {}
    """Nodes whose pods could go back to a preferred NodePool, and since when."""

    asked: str = ""
    """The last node that was asked about going back, where there was no time for all."""

    overdue: frozenset[str] = frozenset()
    """Drifted nodes that the last decision had no time for."""

    explained: Mapping[str, datetime] = {}
    """Nodes of which it was simulated why they stay, and when."""

    claims: Mapping[str, str] | None = None
    """The claims that existed at the last look, with their NodePools; None before the first."""

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

    def claims_at_rest(self, now: datetime) -> frozenset[str]:
        """Return the claims that are not replaced at a moment, because that failed."""
        return frozenset(claim for claim, rest in self.failed.items() if now < rest.until)

    def lately_explained(self, now: datetime) -> dict[str, datetime]:
        """Return the nodes of which users were told a short while ago why they stay, and when."""
        return {name: when for name, when in self.explained.items() if now - when < EXPLAINED}

    def learned(self, payback: Payback, now: datetime) -> Payback:
        """Return what savings must earn, given what start-ups and savings turned out to be."""
        return payback.learned(self.start_ups, pool_trends(self.changes, now))

    def after(
        self, command: Command, candidates: Sequence[Candidate], now: datetime, *, kept_for: timedelta
    ) -> DisruptionMemory:
        """Return the memory once a command is carried out; it is `kept_for` so long."""
        longest = max(kept_for, RETURN_HOLD)
        recent = [each for each in self.past if now - each.when < (longest if each.returned else kept_for)]
        savings = self.savings
        if command.reason == UNDERUTILIZED and not command.preferred:
            savings = record_savings(savings, {each.pool.name for each in candidates}, now)
        past = (*recent, past_command(command, candidates, now))
        exchanged = self.exchanged
        if command.replacements:
            exchanged |= {each.claim.name for each in candidates}
        return msgspec.structs.replace(self, past=past, savings=savings, exchanged=exchanged)

    def with_launched(self, claims: Iterable[str]) -> DisruptionMemory:
        """Return the memory once claims were launched as replacements."""
        return msgspec.structs.replace(self, launched=self.launched.union(claims))


def _after_failures(
    failed: Mapping[str, RestPeriod], finished: Iterable[FinishedCommand], view: ClusterView, now: datetime
) -> dict[str, RestPeriod]:
    """Return until when claims rest: longer each time that their replacements fail."""
    found = {name: rest for name, rest in failed.items() if name in view.claims}
    for name in sorted({name for each in finished for name in each.failed} & view.claims.keys()):
        rest = next_rest(found.get(name), 0.0, now)
        assert rest is not None
        found[name] = rest
    return found


def _after_growth(memory: DisruptionMemory, claims: Mapping[str, str], now: datetime) -> SavingLifetimes:
    """Return the savings; those of NodePools that have launched nodes for pending pods are over."""
    if memory.claims is None:
        return memory.savings
    return end_savings(memory.savings, _launched(memory, claims).keys(), now)


def _after_changes(
    memory: DisruptionMemory, claims: Mapping[str, str], now: datetime
) -> tuple[PoolChange, ...]:
    """Return how NodePools grew and shrank, with what has changed since the last look."""
    if memory.claims is None:
        return memory.changes
    nodes = _launched(memory, claims)
    nodes.subtract(
        pool for name, pool in memory.claims.items() if name not in claims and name not in memory.exchanged
    )
    there = Counter(pool for name, pool in claims.items() if name not in memory.exchanged)
    recent = (each for each in memory.changes if now - each.when < REMEMBERED)
    found = (
        PoolChange(pool=pool, when=now, grew=more > 0, nodes=there[pool])
        for pool, more in sorted(nodes.items())
        if more
    )
    return (*recent, *found)


def _launched(memory: DisruptionMemory, claims: Mapping[str, str]) -> Counter[str]:
    """Return how many nodes each NodePool has launched for pending pods since the last look."""
    # A replacement is part of a saving; any other new claim was launched for pending pods.
    known = memory.claims or {}
    return Counter(pool for name, pool in claims.items() if name not in known and name not in memory.launched)


def unreadable_budgets(view: ClusterView) -> dict[str, str]:
    """Return what is wrong with budgets that cannot be read, by NodePool; nothing there is disrupted."""
    found = {}
    for name, pool in view.pools.items():
        problems = [each.problem for each in read_budgets(pool.spec.disruption.budgets) if each.problem]
        if problems:
            found[name] = f"Nothing is disrupted, because a budget cannot be read: {'; '.join(problems)}"
    return found
