"""
Disruption: look, decide, validate, carry out.

One loop decides; commands that have begun are carried to their end by another (:class:`DisruptionQueue`),
so that waiting for a replacement never holds up a decision. The decisions are
``core.disruption.disrupt.disrupt`` and ``core.disruption.validation.validate``; what they remember is a
value that this controller holds.

The queue of disruption commands that have begun: tainted nodes, replacements on their way, and the end of
both.

A command that cannot be finished is undone: its nodes are untainted, and replacements that were launched
stay for other pods. Nothing here survives a restart; taints that it has left are removed by the next look
of the first loop. What is due at each step is decided in ``core.disruption.queue``.

A third controller publishes Events about the do-not-disrupt annotation of pods.

Steering annotates pods and taints nodes so that nodes empty by themselves; the core decides which.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
import structlog

from karpenter.api.labels import DO_NOT_DISRUPT, LabelRules
from karpenter.api.pod import Pod
from karpenter.core.disruption.candidates import Candidate
from karpenter.core.disruption.command import DRIFTED, EMPTY, UNDERUTILIZED, Command
from karpenter.core.disruption.disrupt import DisruptionDecision, disrupt
from karpenter.core.disruption.events import command_text, log_facts
from karpenter.core.disruption.memory import DisruptionMemory, FinishedCommand, observe
from karpenter.core.disruption.outcomes import expected_outcome
from karpenter.core.disruption.queue import (
    count_disrupted,
    delete_candidates,
    nominate_destinations,
    planned_places,
    progress,
    replacement,
    taint_disrupted,
    tainted_without_command,
    time_limit,
    untaint,
)
from karpenter.core.disruption.steering import steer, unsteer
from karpenter.core.disruption.surge import surge_step
from karpenter.core.disruption.validation import PERIOD, Validation, ValidCommand, kept_at_removal, validate
from karpenter.core.events import disruption_launching, disruption_waiting, listing
from karpenter.core.lifecycle.do_not_disrupt import do_not_disrupt_events
from karpenter.core.state.cluster import ClusterState, NodeClass, ObjectUpdated, StateEvent, nodes_and_pools
from karpenter.core.state.statenode import StateNode, state_nodes
from karpenter.kube.errors import Conflict, KubeError, NotFound
from karpenter.telemetry.metrics import Metrics, disruption
from karpenter.telemetry.tracing import note, traced

if TYPE_CHECKING:
    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.controllers.catalogs import PoolCatalogs
    from karpenter.controllers.executor import Executor
    from karpenter.controllers.metrics.savings import SavingsMetrics, UndoCause
    from karpenter.controllers.nomination import PodNominator
    from karpenter.controllers.perform import Performer
    from karpenter.core.disruption.settings import DisruptionContext

log = structlog.stdlib.get_logger(__name__)

# Upstream gives multi-node consolidation one minute and single-node consolidation three:
# https://karpenter.sh/docs/concepts/disruption/#consolidation
LIMIT: Final = 60.0
"""Seconds that looking for one reason may take; what was found by then counts."""

UNSYNCED: Final = 1.0
UNSYNCED_LOGGED: Final = 30.0
"""Seconds after which the log says what decisions wait for."""

# Values of the label consolidation_type: https://karpenter.sh/docs/reference/metrics/
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
        if not await self._untaint():
            return UNSYNCED
        await self._observe()
        catalog = await self._catalogs.of(self._store.pools())
        fingerprint = (*self._fingerprint(self._clock.now()), catalog)
        if self.memory.is_fruitless(fingerprint, self._clock.now()):
            return PERIOD
        decision = await self._decide(fingerprint)
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

    async def _untaint(self) -> bool:
        """Untaint nodes that no command in progress is about, as after a restart; return whether all are."""
        view = self._store.view()
        claims = self._queue.claims
        machines = (*nodes_and_pools(view), claims)
        if machines == self._untainted:
            return True
        found = tainted_without_command(view, claims)
        self._untainted = () if found else machines
        done = True
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
                done = False  # it changed meanwhile; the next look sees how
        return done

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

    def _fingerprint(self, now: datetime) -> tuple[object, ...]:
        """Return what of the cluster and of earlier commands changes a decision that found nothing."""
        # The budgets themselves, not their address, which may be that of another mapping by the next look.
        budgets = self._store.view().disruption_budgets
        resting = self.memory.pools_at_rest(now) | self.memory.claims_at_rest(now)
        nominated = self._store.nominated(now)
        return self._store.consolidation_state, budgets, nominated, self._buffered(), resting

    def _at(self, now: datetime, timer: MethodTimer | None = None) -> DisruptionContext:
        """Return the facts that decisions of this moment share; a `timer` limits the time for each reason."""
        return msgspec.structs.replace(
            self._context,
            nominated=self._store.nominated(now),
            buffered=self._buffered(),
            destinations=self._queue.destinations,
            stop=timer.is_up if timer is not None else None,
            tried=timer.lap if timer is not None else None,
        )

    @traced("disrupt")
    async def _decide(self, fingerprint: object) -> DisruptionDecision:
        async with self._deciding:
            catalog = await self._catalogs.of(self._store.pools())
            view, now, timer = self._store.view(), self._clock.now(), MethodTimer(self._clock)
            # What changes between the look and the decision is a reason for another decision.
            context = msgspec.structs.replace(self._at(now, timer), fingerprint=fingerprint)
            decision = await self._worker.run(
                partial(disrupt, view, catalog, self.memory, now=now, context=context)
            )
        timer.count(self._metrics)
        self._savings.decided(decision.kept, view)
        note(commands=len(decision.commands), kept=len(decision.kept))
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

    @traced("command")
    async def _begin(self, command: Command, text: str) -> float:
        """Validate a command and begin it; return when to look again."""
        note(command=text, reason=command.reason, candidates=command.candidates)
        async with self._deciding:
            found = await self._validate(command)
            note(valid=isinstance(found, ValidCommand))
            if not isinstance(found, ValidCommand):
                note(because=found.message)
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

    @traced("validate")
    async def _validate(self, command: Command) -> Validation:
        catalog = await self._catalogs.of(self._store.pools())
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


class DoNotDisruptController:
    """Publishes until when pods on managed nodes are not disrupted."""

    name = "pod.donotdisrupt"
    kinds: ClassVar = (Pod,)

    def __init__(self, store: ClusterState, performer: Performer, clock: Clock) -> None:
        self._store = store
        self._performer = performer
        self._clock = clock

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the pod of an event if its annotation, its node or its start time has changed."""
        pod = event.object
        if not isinstance(event, ObjectUpdated) or not isinstance(pod, Pod):
            return
        if DO_NOT_DISRUPT in pod.metadata.annotations and (
            not isinstance(before, Pod) or _inputs(before) != _inputs(pod)
        ):
            yield pod.key

    async def reconcile(self, key: str) -> float | None:
        pod = self._store.pod(key)
        node = self._store.node(pod.spec.node_name) if pod is not None else None
        if pod is None or node is None or not self._store.claims_of(node.spec.provider_id):
            return None
        due = do_not_disrupt_events(pod, self._clock.now())
        await self._performer.perform(due.effects)
        return due.again


def _inputs(pod: Pod) -> tuple[object, ...]:
    return pod.metadata.annotations.get(DO_NOT_DISRUPT), pod.spec.node_name, pod.status.start_time


# Upstream's orchestration queue looks at its commands as often:
# https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/controllers/disruption/queue.go
QUEUE_PERIOD: Final = 1.0


class CommandInProgress(msgspec.Struct, kw_only=True):
    """A command that has begun."""

    command: Command
    text: str
    candidates: tuple[Candidate, ...]
    replacements: tuple[str, ...]
    """The claims that have to be initialized before anything is deleted."""

    started: datetime
    asked: Mapping[str, datetime] = {}
    """Deployments that were asked to start successors of pods, by key, and when."""

    @property
    def claims(self) -> tuple[str, ...]:
        return tuple(each.claim.name for each in self.candidates)


class StartedCommand(msgspec.Struct, frozen=True):
    """Whether a command has begun, and which claims were launched for it in any case."""

    begun: bool
    launched: tuple[str, ...] = ()


class DisruptionQueue:
    """Carries out commands, each to its end."""

    name = "disruption.queue"

    def __init__(
        self,
        *,
        store: ClusterState,
        performer: Performer,
        clock: Clock,
        metrics: Metrics,
        savings: SavingsMetrics,
        rules: LabelRules,
        nominated_for: timedelta,
        nominator: PodNominator | None = None,
    ) -> None:
        self._nominator = nominator
        self._store = store
        self._performer = performer
        self._clock = clock
        self._metrics = metrics
        self._savings = savings
        self._rules = rules
        self._nominated_for = nominated_for
        self.in_progress: list[CommandInProgress] = []
        self._finished: list[FinishedCommand] = []
        self._busy = asyncio.Event()

    @property
    def claims(self) -> frozenset[str]:
        """Every claim that a command in progress is about to delete."""
        return frozenset(name for each in self.in_progress for name in each.claims)

    @property
    def destinations(self) -> dict[str, str]:
        """The node that each pod of a command in progress moves to, by key; empty if it is a new one."""
        found: dict[str, str] = {}
        for each in self.in_progress:
            found.update(dict.fromkeys((pod for new in each.command.replacements for pod in new.pods), ""))
            found.update(each.command.moves)
        return found

    def take_finished(self) -> tuple[FinishedCommand, ...]:
        """Return the commands that have ended since the last time."""
        found, self._finished = tuple(self._finished), []
        return found

    async def start(self, command: Command, candidates: Sequence[Candidate], text: str) -> StartedCommand:
        """Taint the nodes of a command and launch what replaces them."""
        if not self.claims.isdisjoint(each.claim.name for each in candidates):
            return StartedCommand(begun=False)
        log.info(
            "disruption.begun", summary="disrupting node(s)", command=text, **log_facts(command, candidates)
        )
        tainted = [each for each in candidates if await self._taint(each, command.reason)]
        if not tainted or (command.replacements and len(tainted) < len(candidates)):
            log.warning("disruption.given_up", command=text, because="not all nodes could be tainted")
            return StartedCommand(begun=False)
        launched: list[str] = []
        try:
            await self._launch(command, launched)
        except (KubeError, LookupError) as error:
            # The next look untaints the nodes, as after a restart.
            log.warning("disruption.given_up", command=text, because=str(error))
            return StartedCommand(begun=False, launched=tuple(launched))
        started = CommandInProgress(
            command=command,
            text=text,
            candidates=tuple(tainted),
            replacements=tuple(launched),
            started=self._clock.now(),
        )
        # From here on budgets count the nodes as disrupted, and their pods look for other places.
        self._store.mark_for_deletion(started.claims)
        self.in_progress.append(started)
        self._savings.begun(command)
        self._busy.set()
        until = self._clock.now() + self._nominated_for
        await self._performer.perform(nominate_destinations(command, self._store.view(), until))
        if self._nominator is not None:
            claims = [claim for name in launched if (claim := self._store.claim(name)) is not None]
            self._nominator.move(planned_places(command, claims, self._store.view(), self._clock.now()))
        return StartedCommand(begun=True, launched=tuple(launched))

    async def look(self) -> float:
        for each in tuple(self.in_progress):
            try:
                await self._advance(each)
            except KubeError as error:
                log.warning("disruption.delayed", command=each.text, error=str(error))
                await self._undo_late(each)
        if not self.in_progress:
            self._busy.clear()
        return QUEUE_PERIOD

    async def wait_for_work(self) -> None:
        await self._busy.wait()

    @property
    def _queued(self) -> int:
        return sum(len(each.claims) for each in self.in_progress)

    async def _taint(self, candidate: Candidate, reason: str) -> bool:
        node = self._node(candidate.name)
        if node is None:
            return False
        try:
            await self._performer.perform(taint_disrupted(node, reason, self._clock.now()))
        except KubeError as error:
            log.warning("node.not_tainted", node=candidate.name, error=str(error))
            return False
        return True

    async def _launch(self, command: Command, launched: list[str]) -> None:
        for node in command.replacements:
            effect = replacement(node, command, self._store.view(), self._rules)
            claim = await self._performer.create_claim(effect)
            launched.append(claim.name)
            await self._performer.perform([disruption_launching(claim, command.reason)])

    async def _advance(self, each: CommandInProgress) -> None:
        claims = [self._store.claim(name) for name in each.replacements]
        match progress(claims, started=each.started, now=self._clock.now(), queued=self._queued):
            case "waiting":
                waiting = [claim for claim in claims if claim is not None]
                await self._performer.perform(disruption_waiting(claim) for claim in waiting)
            case "ready":
                await self._leave_out_kept(each)
                if not each.candidates:
                    self._end_early(each, "all of its machines stay", "nodes_kept")
                elif await self._are_pods_succeeded(each):
                    await self._finish(each)
            case "lost":
                await self._fail(each, "a replacement is gone", "replacement_lost")
            case "late":
                await self._fail(each, "its replacements took too long", "replacement_late")

    async def _are_pods_succeeded(self, each: CommandInProgress) -> bool:
        """Let successors of pods start where that comes first; return whether the nodes may go now."""
        waits = False
        for candidate in [one for one in each.candidates if one.surging]:
            due = surge_step(
                candidate.surging, candidate.name, self._store.view(), each.asked, self._clock.now()
            )
            if due.late:
                late = f"successors of the pods of node {candidate.name} took too long"
                await self._undo(each, late, "successor_late")
                return False
            await self._performer.perform(due.effects)
            each.asked, waits = due.asked, waits or due.waits
        return not waits

    async def _finish(self, each: CommandInProgress) -> None:
        reason = each.command.reason
        left = [claim for name in each.claims if (claim := self._store.claim(name)) is not None]
        nodes = [node for one in each.candidates if (node := self._node(one.name)) is not None]
        await self._performer.perform(delete_candidates(left, nodes, reason))
        self.in_progress.remove(each)
        now = self._clock.now()
        self._finished.append(
            FinishedCommand(
                expected=expected_outcome(
                    each.command, each.candidates, self._nodes_of(each), self._store.view(), now
                ),
                start_up=now - each.started if each.replacements else None,
            )
        )
        await self._performer.perform(count_disrupted(each.candidates, reason))
        self._savings.finished(each.command, each.candidates, each.replacements)
        log.info("disruption.finished", command=each.text)

    async def _leave_out_kept(self, each: CommandInProgress) -> None:
        """Untaint nodes that must not go any more, and leave them out of their command."""
        stays = kept_at_removal(each.candidates, each.command.reason, self._store.view(), self._clock.now())
        for candidate in [one for one in each.candidates if one.name in stays]:
            log.info("node.kept", node=candidate.name, command=each.text, because=stays[candidate.name])
            each.candidates = tuple(one for one in each.candidates if one is not candidate)
            await self._untaint(candidate)

    async def _fail(self, each: CommandInProgress, why: str, cause: UndoCause) -> None:
        """Undo a command because of its replacements; its nodes rest before they are tried again."""
        self._finished.append(FinishedCommand(failed=frozenset(each.claims)))
        await self._undo(each, why, cause)

    async def _undo(self, each: CommandInProgress, why: str, cause: UndoCause) -> None:
        self._end_early(each, why, cause)
        try:
            for candidate in each.candidates:
                await self._untaint(candidate)
        finally:
            self._store.unmark_for_deletion(each.claims)

    async def _undo_late(self, each: CommandInProgress) -> None:
        """Undo a command that has failed for so long that its nodes are better used again."""
        if each in self.in_progress and self._clock.now() - each.started > time_limit(self._queued):
            with suppress(KubeError):  # taints that stay are removed by the next look at all nodes
                await self._undo(each, "its machines could not be removed in time", "removal_late")

    def _end_early(self, each: CommandInProgress, why: str, cause: UndoCause) -> None:
        log.warning("disruption.undone", command=each.text, because=why)
        self._savings.undone(each.command, cause)
        self.in_progress.remove(each)
        self._metrics[disruption.QUEUE_FAILURES].add(
            decision=each.command.decision,
            reason=each.command.reason.lower(),
            consolidation_type=each.command.consolidation_type,
        )

    async def _untaint(self, candidate: Candidate) -> None:
        """Let pods come to a node again, and only then unmark it: until then it counts as going."""
        node = self._node(candidate.name)
        stays = msgspec.structs.replace(node, marked=False) if node is not None else None
        try:
            if stays is not None and not stays.is_deleting:
                await self._performer.perform(untaint(stays, self._clock.now()))
        finally:
            self._store.unmark_for_deletion([candidate.claim.name])

    def _nodes_of(self, each: CommandInProgress) -> dict[str, str]:
        """Return the node of each replacement, by the name that the command gave it."""
        claims = [self._store.claim(name) for name in each.replacements]
        return {
            new.name: claim.status.node_name
            for new, claim in zip(each.command.replacements, claims, strict=True)
            if claim is not None
        }

    def _node(self, name: str) -> StateNode | None:
        return next((node for node in state_nodes(self._store.view()) if node.name == name), None)


STEERING_PERIOD: Final = 120.0
"""Seconds between two looks: ranks that change more often would only cause writes."""


class Steering:
    """Lets machines empty by themselves; where that is off, lets them be as all others."""

    name = "disruption.steering"

    def __init__(self, store: ClusterState, performer: Performer, clock: Clock, *, on: bool) -> None:
        self._store = store
        self._performer = performer
        self._clock = clock
        self._on = on

    async def look(self) -> float:
        """Go over the cluster once; return after how many seconds to do so again."""
        if not self._store.synced:
            return UNSYNCED
        view = self._store.view()
        for effect in steer(view, self._clock.now()) if self._on else unsteer(view):
            try:
                await self._performer.perform([effect])
            except (Conflict, NotFound):
                continue  # it changed or went meanwhile; the next look sees how
            except KubeError as error:
                log.warning("steering.failed", object=f"{effect.kind} {effect.name}", error=str(error))
                break
        return STEERING_PERIOD
