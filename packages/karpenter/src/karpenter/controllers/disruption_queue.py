"""
The queue of disruption commands that have begun: tainted nodes, replacements on their way, and the end of
both.

A command that cannot be finished is undone: its nodes are untainted, and replacements that were launched
stay for other pods. Nothing here survives a restart; taints that it has left are removed by the next look
of :mod:`.disruption`. What is due at each step is decided in ``core.disruption.queue``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from karpenter.core.disruption.candidates import Candidate
from karpenter.core.disruption.churn import expected_outcome
from karpenter.core.disruption.command import Command
from karpenter.core.disruption.events import log_facts
from karpenter.core.disruption.memory import FinishedCommand
from karpenter.core.disruption.queue import (
    count_disrupted,
    delete_candidates,
    nominate_destinations,
    progress,
    replacement,
    taint_disrupted,
    time_limit,
    untaint,
)
from karpenter.core.disruption.surge import surge_step
from karpenter.core.disruption.validation import kept_at_removal
from karpenter.core.events import disruption_launching, disruption_waiting
from karpenter.core.state.statenode import state_nodes
from karpenter.kube.errors import KubeError
from karpenter.telemetry.metrics import disruption

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from karpenter.api.labels import LabelRules
    from karpenter.base.clock import Clock
    from karpenter.controllers.metrics.savings import SavingsMetrics, UndoCause
    from karpenter.controllers.perform import Performer
    from karpenter.core.state.cluster import ClusterState
    from karpenter.core.state.statenode import StateNode
    from karpenter.telemetry.metrics import Metrics

log = structlog.stdlib.get_logger(__name__)

PERIOD: Final = 1.0


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
        """The claims that are to be deleted."""
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
    ) -> None:
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
        return StartedCommand(begun=True, launched=tuple(launched))

    async def look(self) -> float:
        """Bring every command further."""
        for each in tuple(self.in_progress):
            try:
                await self._advance(each)
            except KubeError as error:
                log.warning("disruption.delayed", command=each.text, error=str(error))
                await self._undo_late(each)
        if not self.in_progress:
            self._busy.clear()
        return PERIOD

    async def wait_for_work(self) -> None:
        """Wait until a command has begun."""
        await self._busy.wait()

    @property
    def _queued(self) -> int:
        """How many nodes commands in progress are about."""
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
            effect = replacement(node, command.reason, self._store.view(), self._rules)
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
                await self._undo(each, "a replacement is gone", "replacement_lost")
            case "late":
                await self._undo(each, "its replacements took too long", "replacement_late")

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
