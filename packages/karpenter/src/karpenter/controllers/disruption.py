"""
Removing and replacing machines for the better: look, decide, look again, carry out.

One loop decides; commands that were begun are carried to their end by another (:mod:`.commands`), so that
waiting for a replacement never stops anybody from thinking. All judgement is in ``core.disruption``.

How long one look for machines to disrupt takes: each reason is timed for itself, and has its own time limit.

A reason that takes all of its time leaves the next one's alone. Everything before the first is counted to it.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from karpenter.api.labels import NODEPOOL
from karpenter.core.disruption.churn import (
    end_savings,
    expected_lifetimes,
    is_due,
    landed_share,
    next_rest,
    past_command,
    record_savings,
)
from karpenter.core.disruption.command import DRIFTED, EMPTY, UNDERUTILIZED
from karpenter.core.disruption.disrupt import UNEXPLAINED, next_moment, propose
from karpenter.core.disruption.events import (
    entitle,
    is_lasting,
    is_weighed,
    kept_events,
    score_effects,
    unreadable_budgets,
)
from karpenter.core.disruption.queue import tainted_without_command, untaint
from karpenter.core.disruption.validation import WAIT, ValidCommand, confirm, reconfirm
from karpenter.core.events import budget_blocked, consolidation_candidate, consolidation_rejected, listing
from karpenter.core.state.cluster import machinery
from karpenter.core.state.statenode import state_nodes
from karpenter.kube.errors import Conflict
from karpenter.telemetry.metrics import disruption

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.controllers.controller import Worker
    from karpenter.controllers.disruption_queue import DisruptionQueue
    from karpenter.controllers.perform import Performer
    from karpenter.controllers.provider import PoolCatalogs
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.churn import PastCommand, RestPeriod, SavingLifetimes
    from karpenter.core.disruption.command import Command, DisruptionDecision
    from karpenter.core.disruption.disrupt import DisruptionSettings
    from karpenter.core.disruption.events import Title
    from karpenter.core.disruption.validation import Second
    from karpenter.core.effects import Announce
    from karpenter.core.scheduling.build.build import SchedulingPolicy
    from karpenter.core.scheduling.problem import Options
    from karpenter.core.state.cluster import Store
    from karpenter.telemetry.metrics import Metrics


LIMIT: Final = 60.0
"""Seconds that looking for one reason may take; what was found by then counts."""

_TYPES: Final = {EMPTY: "empty", DRIFTED: "", UNDERUTILIZED: "multi"}


class MethodTimer:
    """Times one look; asked and told by whoever looks, in whatever thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock.monotonic()
        self._late = False
        self._laps: list[tuple[str, float, bool]] = []

    def is_up(self) -> bool:
        """Whether the time for the present reason is up; once it is, it stays so."""
        self._late = self._late or self._clock.monotonic() - self._since > LIMIT
        return self._late

    def lap(self, reason: str) -> None:
        """Note that a reason was tried, and begin with the time of the next."""
        now = self._clock.monotonic()
        self._laps.append((reason, now - self._since, self._late))
        self._since, self._late = now, False

    def count(self, metrics: Metrics) -> None:
        """Count the reasons that were tried; those that were not reached took no time."""
        for reason, seconds, late in self._laps:
            kind = _TYPES[reason]
            metrics[disruption.EVALUATION_DURATION].observe(
                seconds, reason=reason.lower(), consolidation_type=kind
            )
            if late and reason == UNDERUTILIZED:
                metrics[disruption.CONSOLIDATION_TIMEOUTS].add(consolidation_type=kind)


log = structlog.stdlib.get_logger(__name__)

PERIOD: Final = 10.0
UNSYNCED: Final = 1.0
PATIENCE: Final = 30.0
"""Seconds after which it is said what keeps decisions waiting."""

EXPLAINED: Final = timedelta(minutes=15)
"""For how long it is not worked out again what keeps a machine that is not worth replacing."""

RELOOK: Final = timedelta(minutes=5)
"""Time after which a cluster is looked at again though nothing in it has changed."""


class Disruption:
    """Decides which machines go."""

    name = "disruption"

    def __init__(
        self,
        *,
        store: Store,
        performer: Performer,
        catalogs: PoolCatalogs,
        commands: DisruptionQueue,
        worker: Worker,
        clock: Clock,
        metrics: Metrics,
        options: Options,
        policy: SchedulingPolicy,
        rules: DisruptionSettings,
        buffered: Callable[[], frozenset[str]],
        deciding: asyncio.Lock,
    ) -> None:
        self._store = store
        self._performer = performer
        self._catalogs = catalogs
        self._commands = commands
        self._worker = worker
        self._clock = clock
        self._metrics = metrics
        self._options = options
        self._policy = policy
        self._rules = rules
        self._buffered = buffered
        self._deciding = deciding
        self._past: tuple[PastCommand, ...] = ()
        self._lives: SavingLifetimes = ()
        self._claims: frozenset[str] | None = None
        self._rests: dict[str, RestPeriod] = {}
        self._overdue: frozenset[str] = frozenset()
        self._misread: dict[str, str] = {}
        self._explained: dict[str, datetime] = {}
        self._fruitless: tuple[object, ...] | None = None
        self._until = clock.now()
        self._numbers = 0
        self._without_strays: tuple[object, ...] = ()
        self._delayed_since: float | None = None
        self._noted_at: float | None = None

    async def look(self) -> float:
        """Go over the cluster once; return after how many seconds to do so again."""
        if not self._store.synced:
            self._note_delay()
            return UNSYNCED
        self._delayed_since = self._noted_at = None
        await self._open_strays()
        await self._tell_of_budgets()
        self._judge_effects()
        self._note_growth()
        lull = self._lull()
        if lull == self._fruitless and self._clock.now() < self._until:
            return PERIOD
        verdict = await self._propose()
        view = self._store.view()
        news = [each for each in verdict.kept if each.message != UNEXPLAINED]
        self._explained |= {each.node: self._clock.now() for each in news if is_weighed(each)}
        await self._performer.perform((*kept_events(news, view), *score_effects(verdict, view)))
        started = await self._follow_up(verdict.commands)
        if started:
            return 0.0
        if not verdict.commands and not verdict.unreached and is_lasting(verdict.kept):
            now = self._clock.now()
            self._fruitless, latest = lull, now + RELOOK
            self._until = min(next_moment(self._store.view(), now) or latest, latest)
        return PERIOD

    def _note_delay(self) -> None:
        """Say now and then what is waited for, once that takes long."""
        now = self._clock.monotonic()
        if self._delayed_since is None:
            self._delayed_since = now
        due = self._delayed_since + PATIENCE if self._noted_at is None else self._noted_at + PERIOD
        if now >= due:
            self._noted_at = now
            log.warning(
                "state.not_synced",
                seconds=round(now - self._delayed_since),
                unlaunched=listing(sorted(self._store.unlaunched)),
            )

    def _lull(self) -> tuple[object, ...]:
        """Return what has to change before another look is worth it."""
        now = self._clock.now()
        return (
            self._store.stamp,
            self._store.view().disruption_budgets,  # itself: an address may be another's by the next look
            self._store.nominated(now),
            self._buffered(),
            self._resting(now),
        )

    async def _tell_of_budgets(self) -> None:
        """Say which pools are held by a budget that cannot be read, once for each problem."""
        view = self._store.view()
        found = unreadable_budgets(view)
        for name, problem in found.items():
            if self._misread.get(name) != problem:
                log.warning("nodepool.budget_misread", nodepool=name, because=problem)
        self._misread = found
        await self._performer.perform(
            budget_blocked(view.pools[name], problem) for name, problem in found.items()
        )

    def _judge_effects(self) -> None:
        """See whether commands that are over had the effect that was planned."""
        view, now = self._store.view(), self._clock.now()
        for expected in [each for each in self._commands.over if is_due(each, view, now)]:
            self._commands.over.remove(expected)
            share = landed_share(expected, view)
            for pool in sorted(expected.pools):
                rest = next_rest(self._rests.pop(pool, None), share, now)
                if rest is not None:
                    self._rests[pool] = rest
                    log.warning(
                        "disruption.missed",
                        nodepool=pool,
                        landed=round(share, 2),
                        pods=expected.moved,
                        rests=str(rest.length),
                    )

    def _note_growth(self) -> None:
        """See which pools have bought machines for pods that wait since the last look."""
        view = self._store.view()
        claims = frozenset(view.claims)
        if self._claims is not None:
            new = claims - self._claims - self._commands.launched
            pools = {view.claims[name].metadata.labels.get(NODEPOOL, "") for name in new}
            self._lives = end_savings(self._lives, pools, self._clock.now())
        self._claims = claims
        self._commands.launched.intersection_update(claims)

    def _lately_explained(self, now: datetime) -> frozenset[str]:
        """Return the machines of which users were told a short while ago why they stay."""
        self._explained = {name: when for name, when in self._explained.items() if now - when < EXPLAINED}
        return frozenset(self._explained)

    def _resting(self, now: datetime) -> frozenset[str]:
        return frozenset(pool for pool, rest in self._rests.items() if now < rest.until)

    async def _open_strays(self) -> None:
        view = self._store.view()
        machines = (*machinery(view), frozenset(self._commands.claims))
        if machines == self._without_strays:
            return
        found = tainted_without_command(view, self._commands.claims)
        self._without_strays = () if found else machines
        for node in found:
            log.info("node.opened", node=node.name, because="no command that closed it is known")
            try:
                await self._performer.perform(untaint(node, self._clock.now()))
            except Conflict:
                continue  # it changed meanwhile; the next look sees how

    async def _propose(self) -> DisruptionDecision:
        async with self._deciding:
            catalog = await self._catalogs.of(self._store.view().pools.values())
            view, now, watch = self._store.view(), self._clock.now(), MethodTimer(self._clock)
            rules = msgspec.structs.replace(
                self._rules,
                past=self._past,
                payback=self._rules.payback.learned(
                    self._commands.start_ups, expected_lifetimes(self._lives, now)
                ),
                resting=self._resting(now),
                overdue=self._overdue,
                explained=self._lately_explained(now),
                stop=watch.is_up,
                tried=watch.lap,
            )
            nominated, buffered = self._store.nominated(now), self._buffered()
            verdict = await self._worker.run(
                partial(
                    propose,
                    view,
                    catalog,
                    now=now,
                    options=self._options,
                    policy=self._policy,
                    rules=rules,
                    nominated=nominated,
                    buffered=buffered,
                )
            )
        watch.count(self._metrics)
        self._overdue = verdict.unreached
        return verdict

    async def _follow_up(self, commands: Sequence[Command]) -> int:
        """Look again at commands where that is due, and begin them; return how many were begun."""
        titles = [self._entitle(command) for command in commands]
        late = [title for title in titles if title.command.reason != DRIFTED]
        for title in late:
            await self._tell(title, consolidation_candidate)
        if late:
            await self._clock.sleep(WAIT)
        begun = 0
        for title in titles:
            begun += await self._begin(title)
        return begun

    async def _begin(self, title: Title) -> bool:
        """Look again at a command, and begin to carry it out; say whether it was begun."""
        command, text = title.command, title.text
        async with self._deciding:
            second = await self._confirm(command)
            if not isinstance(second, ValidCommand):
                await self._tell(title, partial(consolidation_rejected, why=second.why))
                log.info("disruption.rejected", command=text, why=second.why, because=second.message)
                self._metrics[disruption.FAILED_VALIDATIONS].add(
                    float(len(command.candidates)), consolidation_type=command.kind
                )
                return False
            begun = await self._commands.begin(second.command, second.candidates, text)
        if begun:
            self._remember(second.command, second.candidates, self._clock.now())
        return begun

    async def _confirm(self, command: Command) -> Second:
        catalog = await self._catalogs.of(self._store.view().pools.values())
        view, now = self._store.view(), self._clock.now()
        nominated, buffered = self._store.nominated(now), self._buffered()
        second = await self._worker.run(
            partial(
                confirm,
                command,
                view,
                catalog,
                now=now,
                options=self._options,
                policy=self._policy,
                nominated=nominated,
                buffered=buffered,
                promised=self._commands.promised,
                surge=self._rules.surge,
                fullest_first=self._rules.strategy == "global",
            )
        )
        latest, now = self._store.view(), self._clock.now()
        if latest is view or not isinstance(second, ValidCommand):
            return second
        nominated, buffered = self._store.nominated(now), self._buffered()
        return await self._worker.run(
            partial(
                reconfirm,
                second,
                latest,
                catalog,
                now=now,
                policy=self._policy,
                nominated=nominated,
                buffered=buffered,
                surge=self._rules.surge,
            )
        )

    def _remember(self, command: Command, candidates: tuple[Candidate, ...], now: datetime) -> None:
        recent = [each for each in self._past if now - each.when < self._rules.no_return]
        self._past = (*recent, past_command(command, candidates, now))
        if command.reason == UNDERUTILIZED:
            self._lives = record_savings(self._lives, {each.pool.name for each in candidates}, now)
        decision, reason = command.decision, command.reason.lower()
        labels = {"decision": decision, "reason": reason, "consolidation_type": command.kind}
        self._metrics[disruption.DECISIONS].add(**labels)
        for pool in sorted({each.pool.name for each in candidates}):
            self._metrics[disruption.DECISIONS_BY_NODEPOOL].add(nodepool=pool, **labels)

    def _entitle(self, command: Command) -> Title:
        self._numbers += 1
        return entitle(command, f"{self._numbers:04d}", self._store.view())

    async def _tell(self, title: Title, make: Callable[[Resource, str], Announce]) -> None:
        wanted = set(title.command.candidates)
        for node in state_nodes(self._store.view()):
            if node.name in wanted:
                text, items = title.of(node.name), (node.node, node.claim)
                await self._performer.perform(make(item, text) for item in items if item is not None)
