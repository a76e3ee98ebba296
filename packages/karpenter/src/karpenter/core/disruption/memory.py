"""
What disruption remembers from one decision to the next, as a value.

:func:`observe` brings the memory up to date with what has become of earlier commands before every decision;
``disrupt`` and ``validate`` return the memory that the next decision is made with. Nothing here survives a
restart of the operator: what commands have written on nodes is undone by :mod:`.queue`.

Churn is part of it: whether a saving is worth what it moves, and what earlier commands came to. A command
must earn back what it costs within the payback time: every evicted pod has a price, and while a replacement
starts both nodes are paid. Where savings have turned out to be short-lived an eviction costs more, measured
by what a pod costs there. Where nodes are made to empty by themselves (:mod:`.steering`) waiting for that is
cheaper than an eviction.

How long savings last is learned from how NodePools grow, by launching nodes for pending pods, and shrink.
Room that is given up is missed when the NodePool has more nodes than it had then: soon where it grows, and
after hours where it shrinks, so the two are learned apart. Nodes that are replaced by cheaper ones stay
cheaper while a NodePool grows; where it shrinks they are soon removed themselves. Until enough is known, a
saving is taken to last.

A command that would undo an earlier one is refused: nodes of a kind that was removed come back in place of
nodes of the kind that replaced them, for the same workloads.

After a command it is checked whether its pods run where the simulation put them. Evicted pods come back
under other names, so they are counted by workload and node. A NodePool whose pods keep landing elsewhere
rests from savings for a while, longer each time: there something other than the simulation decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ZONE
from karpenter.core.disruption.budgets import read_budgets
from karpenter.core.disruption.command import UNDERUTILIZED, Command
from karpenter.core.effects import Effect
from karpenter.core.events import budget_blocked
from karpenter.core.state.pod import controller_of, is_active

if TYPE_CHECKING:
    from karpenter.api.pod import Pod
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.state.cluster import ClusterView

LASTING: Final = timedelta(days=20)
"""How long a saving is taken to last where nothing else is known, and at most."""

SHORTEST: Final = timedelta(minutes=10)
"""The least that a saving is taken to last."""

_ENOUGH: Final = 5
"""So many savings must have ended before anything is learned."""

_MEMORY: Final = timedelta(days=2)
_HOUR: Final = timedelta(hours=1)

RETURN_HOLD: Final = timedelta(hours=4)
"""How long pods that went back to a preferred NodePool and fell back again stay where they are."""

GRACE: Final = timedelta(minutes=2)
"""How long pods may take to run again once their nodes are gone."""

JUDGED_AFTER: Final = timedelta(minutes=30)
"""After so long a command is judged although some of its nodes are still there."""

ENOUGH: Final = 0.5
"""The share of pods that has to land where it was planned."""

_FIRST: Final = timedelta(minutes=5)
_LONGEST: Final = timedelta(hours=4)

Machines: TypeAlias = frozenset[tuple[str, str, str]]
"""Instance type, zone and capacity type."""

Landing: TypeAlias = tuple[str, str]
"""A node and a workload."""


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
    recent = (each for each in savings if now - each.since < _MEMORY)
    return (*recent, *(SavingLifetime(pool=pool, since=now) for pool in sorted(set(pools))))


def end_savings(savings: SavingLifetimes, pools: AbstractSet[str], now: datetime) -> SavingLifetimes:
    """Return the savings once some NodePools have launched nodes for pending pods."""
    return tuple(
        msgspec.structs.replace(each, until=now) if each.until is None and each.pool in pools else each
        for each in savings
    )


class PoolChange(msgspec.Struct, frozen=True, kw_only=True):
    """A NodePool has launched nodes for pending pods, or has fewer because they were given up."""

    pool: str
    when: datetime
    grew: bool
    nodes: int
    """How many it has since, without those that a command replaces."""


class PoolTrend(NamedTuple):
    """Where the size of a NodePool goes."""

    grows: bool
    """Whether it has last launched nodes for pending pods, and not given any up."""

    lifetime: timedelta
    """How long room that is given up is expected not to be missed."""


def pool_trends(changes: Sequence[PoolChange], now: datetime) -> dict[str, PoolTrend]:
    """Return where the sizes of NodePools go, by name, where that was learned."""
    by_pool: dict[str, list[PoolChange]] = {}
    for each in changes:
        by_pool.setdefault(each.pool, []).append(each)
    found = ((pool, mine[-1].grew, _lifetime(mine, now)) for pool, mine in sorted(by_pool.items()))
    return {pool: PoolTrend(grew, lifetime) for pool, grew, lifetime in found if lifetime is not None}


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


_DAY: Final = timedelta(hours=8)
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
        return worth.given_up / trend.lifetime, exchanged / max(trend.lifetime, _DAY)

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


class ExpectedOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pods of a command should be when it is over."""

    pools: frozenset[str]
    leaving: frozenset[str]
    """The claims that go."""

    planned: Mapping[Landing, int]
    """How many pods of each workload there should be on each node."""

    moved: int
    since: datetime


class RestPeriod(msgspec.Struct, frozen=True):
    """How long no savings are looked for in a NodePool, and until when."""

    length: timedelta
    until: datetime


def expected_outcome(
    command: Command,
    candidates: Sequence[Candidate],
    replacements: Mapping[str, str],
    view: ClusterView,
    now: datetime,
) -> ExpectedOutcome:
    """Return what to expect of a command; `replacements` names the node of each new claim."""
    homes = dict(command.moves)
    for new in command.replacements:
        homes.update(dict.fromkeys(new.pods, replacements.get(new.name, "")))
    arriving = Counter(
        (homes[pod.key], workload(pod))
        for each in candidates
        for pod in each.pods
        if homes.get(pod.key) and workload(pod)
    )
    there = _counted(view)
    return ExpectedOutcome(
        pools=frozenset(each.pool.name for each in candidates),
        leaving=frozenset(each.claim.name for each in candidates),
        planned={landing: count + there[landing] for landing, count in arriving.items()},
        moved=sum(arriving.values()),
        since=now,
    )


def is_due(expected: ExpectedOutcome, view: ClusterView, now: datetime) -> bool:
    """Whether it can be judged by now where the pods of a command went."""
    if now - expected.since > JUDGED_AFTER:
        return True
    return now - expected.since > GRACE and expected.leaving.isdisjoint(view.claims)


def landed_share(expected: ExpectedOutcome, view: ClusterView) -> float:
    """
    Return the share of pods that did not land elsewhere than planned; 1 when none was meant to be anywhere.

    A pod that is nowhere is no miss: its Job is done, or its workload has shrunk or is gone. A pod that came
    since and runs on another node, or still waits for one, is.
    """
    if not expected.moved:
        return 1.0
    there, missing = _counted(view), Counter[str]()
    for (node, each), count in expected.planned.items():
        missing[each] += max(0, count - there[node, each])
    elsewhere = Counter(
        workload(pod)
        for pod in view.pods.values()
        if is_active(pod)
        and (pod.spec.node_name, workload(pod)) not in expected.planned
        and pod.metadata.creation_timestamp is not None
        and pod.metadata.creation_timestamp >= expected.since
    )
    missed = sum(min(count, elsewhere[each]) for each, count in missing.items())
    return max(0.0, 1 - missed / expected.moved)


def next_rest(rest: RestPeriod | None, share: float, now: datetime) -> RestPeriod | None:
    """Return how long a NodePool rests after a command of which a share of pods landed as planned."""
    if share >= ENOUGH:
        return None
    length = _FIRST if rest is None else min(2 * rest.length, _LONGEST)
    return RestPeriod(length, now + length)


def workload(pod: Pod) -> str:
    """Return the workload that a pod belongs to; empty for a pod that no controller recreates."""
    # A pod without a controller does not come back, so it is expected nowhere.
    owner = controller_of(pod)
    return f"{pod.metadata.namespace}/{owner.kind}/{owner.name}" if owner is not None else ""


def _counted(view: ClusterView) -> Counter[Landing]:
    return Counter(
        (name, workload(pod)) for name, pods in view.pods_by_node.items() for pod in pods if is_active(pod)
    )


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


class FinishedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command whose nodes were deleted, or that was given up because of its replacements."""

    expected: ExpectedOutcome | None = None
    failed: frozenset[str] = frozenset()
    """The claims that were not replaced, because a replacement did not become ready."""

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


def unreadable_budgets(view: ClusterView) -> dict[str, str]:
    """Return what is wrong with budgets that cannot be read, by NodePool; nothing there is disrupted."""
    found = {}
    for name, pool in view.pools.items():
        problems = [each.problem for each in read_budgets(pool.spec.disruption.budgets) if each.problem]
        if problems:
            found[name] = f"Nothing is disrupted, because a budget cannot be read: {'; '.join(problems)}"
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
    recent = (each for each in memory.changes if now - each.when < _MEMORY)
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
