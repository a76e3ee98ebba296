"""
Disruption: look, decide, validate, carry out.

One loop decides; commands that have begun are carried to their end by another (:mod:`.disruption_queue`),
so that waiting for a replacement never holds up a decision. The decisions are
``core.disruption.disrupt.disrupt`` and ``core.disruption.validation.validate``; what they remember is a
value that this controller holds.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from karpenter.core.disruption.command import DRIFTED, EMPTY, UNDERUTILIZED
from karpenter.core.disruption.disrupt import disrupt
from karpenter.core.disruption.events import command_text
from karpenter.core.disruption.memory import DisruptionMemory, observe
from karpenter.core.disruption.queue import tainted_without_command, untaint
from karpenter.core.disruption.validation import PERIOD, ValidCommand, validate
from karpenter.core.events import listing
from karpenter.core.state.cluster import nodes_and_pools
from karpenter.kube.errors import Conflict
from karpenter.telemetry.metrics import disruption

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from karpenter.base.clock import Clock
    from karpenter.controllers.controller import Executor
    from karpenter.controllers.disruption_queue import DisruptionQueue
    from karpenter.controllers.metrics.savings import SavingsMetrics
    from karpenter.controllers.perform import Performer
    from karpenter.controllers.provider import PoolCatalogs
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.command import Command
    from karpenter.core.disruption.disrupt import DisruptionDecision
    from karpenter.core.disruption.settings import DisruptionContext
    from karpenter.core.disruption.validation import Validation
    from karpenter.core.state.cluster import ClusterState
    from karpenter.telemetry.metrics import Metrics

log = structlog.stdlib.get_logger(__name__)

LIMIT: Final = 60.0
"""Seconds that looking for one reason may take; what was found by then counts."""

UNSYNCED: Final = 1.0
UNSYNCED_LOGGED: Final = 30.0
"""Seconds after which the log says what decisions wait for."""

_CONSOLIDATION_TYPES: Final = {EMPTY: "empty", DRIFTED: "", UNDERUTILIZED: "multi"}


class MethodTimer:
    """
    Times one decision, reason by reason, from any thread.

    Each reason has its own time limit, so that one that takes all of its time leaves the next one's alone.
    Everything before the first reason counts as part of it.
    """

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
            kind = _CONSOLIDATION_TYPES[reason]
            metrics[disruption.EVALUATION_DURATION].observe(
                seconds, reason=reason.lower(), consolidation_type=kind
            )
            if late and reason == UNDERUTILIZED:
                metrics[disruption.CONSOLIDATION_TIMEOUTS].add(consolidation_type=kind)


class DisruptionController:
    """Decides which nodes go."""

    name = "disruption"

    def __init__(
        self,
        *,
        store: ClusterState,
        performer: Performer,
        catalogs: PoolCatalogs,
        queue: DisruptionQueue,
        worker: Executor,
        clock: Clock,
        metrics: Metrics,
        savings: SavingsMetrics,
        context: DisruptionContext,
        buffered: Callable[[], frozenset[str]],
        deciding: asyncio.Lock,
    ) -> None:
        self._store = store
        self._performer = performer
        self._catalogs = catalogs
        self._queue = queue
        self._worker = worker
        self._clock = clock
        self._metrics = metrics
        self._savings = savings
        self._context = context
        self._buffered = buffered
        self._deciding = deciding
        self.memory = DisruptionMemory()
        """What the next decision is made with."""

        self._untainted: tuple[object, ...] = ()
        """The nodes and claims among which no node was tainted without a command."""

        self._unsynced_since: float | None = None
        self._logged_at: float | None = None

    async def look(self) -> float:
        """Go over the cluster once; return after how many seconds to do so again."""
        if not self._store.synced:
            self._log_unsynced()
            return UNSYNCED
        self._unsynced_since = self._logged_at = None
        await self._untaint()
        await self._observe()
        context = self._at(self._clock.now())
        if self.memory.is_fruitless(context.fingerprint, self._clock.now()):
            return PERIOD
        decision = await self._decide(context.fingerprint)
        await self._performer.perform(decision.effects)
        return await self._carry_out(decision)

    def _log_unsynced(self) -> None:
        """Log now and then what decisions wait for, once that takes long."""
        now = self._clock.monotonic()
        if self._unsynced_since is None:
            self._unsynced_since = now
        since = self._unsynced_since
        due = since + UNSYNCED_LOGGED if self._logged_at is None else self._logged_at + PERIOD
        if now >= due:
            self._logged_at = now
            unlaunched = listing(sorted(self._store.unlaunched))
            log.warning("state.not_synced", seconds=round(now - since), unlaunched=unlaunched)

    async def _untaint(self) -> None:
        """Untaint nodes that no command in progress is about, as after a restart."""
        view = self._store.view()
        claims = self._queue.claims
        machines = (*nodes_and_pools(view), claims)
        if machines == self._untainted:
            return
        found = tainted_without_command(view, claims)
        self._untainted = () if found else machines
        for node in found:
            log.info(
                "node.untainted",
                summary="removed disrupted taint from node",
                node=node.name,
                because="no command that tainted it is known",
            )
            try:
                await self._performer.perform(untaint(node, self._clock.now()))
            except Conflict:
                continue  # it changed meanwhile; the next look sees how

    async def _observe(self) -> None:
        """Bring the memory up to date with what has become of earlier commands."""
        found = observe(
            self._store.view(), self.memory, now=self._clock.now(), finished=self._queue.take_finished()
        )
        self._savings.observed(
            self.memory.savings, found.memory.savings, (each.pool for each in found.missed)
        )
        self.memory = found.memory
        for name, problem in found.unreadable.items():
            log.warning("nodepool.budget_unreadable", nodepool=name, because=problem)
        for missed in found.missed:
            log.warning(
                "disruption.missed",
                nodepool=missed.pool,
                landed=round(missed.share, 2),
                pods=missed.moved,
                rests=str(missed.rest.length),
            )
        await self._performer.perform(found.effects)

    def _at(self, now: datetime, timer: MethodTimer | None = None) -> DisruptionContext:
        """Return the facts that decisions of this moment share; a `timer` limits the time for each reason."""
        nominated, buffered = self._store.nominated(now), self._buffered()
        # The budgets themselves, not their address, which may be that of another mapping by the next look.
        budgets = self._store.view().disruption_budgets
        resting = self.memory.pools_at_rest(now)
        return msgspec.structs.replace(
            self._context,
            nominated=nominated,
            buffered=buffered,
            destinations=self._queue.destinations,
            fingerprint=(self._store.consolidation_state, budgets, nominated, buffered, resting),
            stop=timer.is_up if timer is not None else None,
            tried=timer.lap if timer is not None else None,
        )

    async def _decide(self, fingerprint: object) -> DisruptionDecision:
        async with self._deciding:
            catalog = await self._catalogs.of(self._store.view().pools.values())
            view, now, timer = self._store.view(), self._clock.now(), MethodTimer(self._clock)
            # What changes between the look and the decision is a reason for another decision.
            context = msgspec.structs.replace(self._at(now, timer), fingerprint=fingerprint)
            decision = await self._worker.run(
                partial(disrupt, view, catalog, self.memory, now=now, context=context)
            )
        timer.count(self._metrics)
        self._savings.decided(decision.kept, view)
        self.memory = decision.memory
        return decision

    async def _carry_out(self, decision: DisruptionDecision) -> float:
        """Validate commands once that is due, and begin them; return when to look again."""
        texts = [command_text(command, self._store.view()) for command in decision.commands]
        if decision.validate_after:
            await self._clock.sleep(decision.validate_after)
        again = decision.again
        for command, text in zip(decision.commands, texts, strict=True):
            again = min(again, await self._begin(command, text))
        return again

    async def _begin(self, command: Command, text: str) -> float:
        """Validate a command and begin it; return when to look again."""
        async with self._deciding:
            found = await self._validate(command)
            if not isinstance(found, ValidCommand):
                await self._performer.perform(found.effects)
                log.info("disruption.rejected", command=text, why=found.why, because=found.message)
                self._metrics[disruption.FAILED_VALIDATIONS].add(
                    float(len(command.candidates)), consolidation_type=command.consolidation_type
                )
                return found.again
            # The lock is held until the nodes are marked: a decision in between would count them as staying.
            started = await self._queue.start(found.command, found.candidates, text)
        memory = found.memory if started.begun else self.memory
        self.memory = memory.with_launched(started.launched)
        if not started.begun:
            return PERIOD
        self._count(found.command, found.candidates)
        return found.again

    async def _validate(self, command: Command) -> Validation:
        catalog = await self._catalogs.of(self._store.view().pools.values())
        view, now = self._store.view(), self._clock.now()
        found = await self._worker.run(
            partial(validate, command, view, catalog, self.memory, now=now, context=self._at(now))
        )
        latest, now = self._store.view(), self._clock.now()
        if latest is view or not isinstance(found, ValidCommand):
            return found
        call = partial(validate, found.command, latest, catalog, self.memory)
        return await self._worker.run(partial(call, now=now, context=self._at(now), simulated=found.pods))

    def _count(self, command: Command, candidates: Sequence[Candidate]) -> None:
        labels = {
            "decision": command.decision,
            "reason": command.reason.lower(),
            "consolidation_type": command.consolidation_type,
        }
        self._metrics[disruption.DECISIONS].add(**labels)
        for pool in sorted({each.pool.name for each in candidates}):
            self._metrics[disruption.DECISIONS_BY_NODEPOOL].add(nodepool=pool, **labels)
