"""
Commands of disruption that were begun: closed machines, replacements on their way, and the end of both.

A command that cannot be finished is undone: its machines are opened again, and replacements that were
launched stay for whoever needs them. Nothing here survives a restart; what it has written is undone by
whoever starts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from karpenter.core.disruption.candidates import Candidate
from karpenter.core.disruption.churn import expected_outcome
from karpenter.core.disruption.command import Command
from karpenter.core.disruption.events import facts
from karpenter.core.disruption.queue import (
    taint_disrupted,
    count_disrupted,
    untaint,
    time_limit,
    progress,
    delete_candidates,
)
from karpenter.core.disruption.surge import surge_step
from karpenter.core.disruption.validation import kept_at_removal
from karpenter.core.effects import Nominate
from karpenter.core.events import disruption_launching, disruption_waiting, nominated
from karpenter.core.provisioning.provisioner import create
from karpenter.core.state.statenode import state_nodes
from karpenter.kube.errors import KubeError
from karpenter.telemetry.metrics import disruption

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from karpenter.api.labels import LabelRules
    from karpenter.base.clock import Clock
    from karpenter.controllers.perform import Performer
    from karpenter.core.disruption.churn import ExpectedOutcome
    from karpenter.core.effects import Effect
    from karpenter.core.state.cluster import Store
    from karpenter.core.state.statenode import StateNode
    from karpenter.telemetry.metrics import Metrics

log = structlog.stdlib.get_logger(__name__)

PERIOD: Final = 1.0
_REMEMBERED: Final = 25


class CommandInProgress(msgspec.Struct, kw_only=True):
    """A command under way."""

    command: Command
    text: str
    candidates: tuple[Candidate, ...]
    replacements: tuple[str, ...]
    """The claims that have to be complete before anything goes."""

    started: datetime
    asked: Mapping[str, datetime] = {}
    """Deployments that were asked to start successors of pods, by key, and when."""

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims that go."""
        return tuple(each.claim.name for each in self.candidates)


class DisruptionQueue:
    """Carries out commands, each to its end."""

    name = "disruption.queue"

    def __init__(
        self,
        *,
        store: Store,
        performer: Performer,
        clock: Clock,
        metrics: Metrics,
        rules: LabelRules,
        promise: timedelta,
    ) -> None:
        self._store = store
        self._performer = performer
        self._clock = clock
        self._metrics = metrics
        self._rules = rules
        self._promise = promise
        self.under_way: list[CommandInProgress] = []
        self._busy = asyncio.Event()
        self.start_ups: deque[timedelta] = deque(maxlen=_REMEMBERED)
        """How long replacements took to be complete, lately."""

        self.launched: set[str] = set()
        """Every claim that was launched for a command and may still be there."""

        self.over: list[ExpectedOutcome] = []
        """Commands that are over and whose effect is yet to be seen."""

    @property
    def claims(self) -> frozenset[str]:
        """Every claim that a command under way is about to remove."""
        return frozenset(name for each in self.under_way for name in each.claims)

    @property
    def _queued(self) -> int:
        """How many machines commands under way are about."""
        return sum(len(each.claims) for each in self.under_way)

    @property
    def promised(self) -> dict[str, str]:
        """Where pods go whose machines are about to leave, by key; nowhere yet for those of new machines."""
        found: dict[str, str] = {}
        for each in self.under_way:
            found.update(dict.fromkeys((pod for new in each.command.replacements for pod in new.pods), ""))
            found.update(each.command.moves)
        return found

    async def begin(self, command: Command, candidates: Sequence[Candidate], text: str) -> bool:
        """Close the machines of a command and launch what replaces them; say whether that was done."""
        if not self.claims.isdisjoint(each.claim.name for each in candidates):
            return False
        log.info("disruption.begun", command=text, **facts(command, candidates))
        closed = [each for each in candidates if await self._close(each, command.reason)]
        if not closed or (command.replacements and len(closed) < len(candidates)):
            log.warning("disruption.given_up", command=text, because="not all machines could be closed")
            return False
        try:
            replacements = await self._launch(command)
        except (KubeError, LookupError) as error:
            # What was closed is opened again by the next look, as after a restart.
            log.warning("disruption.given_up", command=text, because=str(error))
            return False
        begun = CommandInProgress(
            command=command,
            text=text,
            candidates=tuple(closed),
            replacements=replacements,
            started=self._clock.now(),
        )
        self._store.mark(begun.claims)
        self.under_way.append(begun)
        self._busy.set()
        await self._performer.perform(self._promises(command))
        return True

    async def look(self) -> float:
        """Bring every command further."""
        for begun in tuple(self.under_way):
            try:
                await self._advance(begun)
            except KubeError as error:
                log.warning("disruption.delayed", command=begun.text, error=str(error))
                await self._give_up_late(begun)
        if not self.under_way:
            self._busy.clear()
        return PERIOD

    async def doze(self) -> None:
        """Wait until a command has begun."""
        await self._busy.wait()

    async def _close(self, candidate: Candidate, reason: str) -> bool:
        node = self._node(candidate.name)
        if node is None:
            return False
        try:
            await self._performer.perform(taint_disrupted(node, reason, self._clock.now()))
        except KubeError as error:
            log.warning("node.not_closed", node=candidate.name, error=str(error))
            return False
        return True

    async def _launch(self, command: Command) -> tuple[str, ...]:
        made = []
        for node in command.replacements:
            pool = self._store.pool(node.pool)
            if pool is None:
                raise LookupError(f"NodePool {node.pool} is gone")
            effect = create(node, pool, self._rules, f"it replaces what is disrupted: {command.reason}")
            claim = await self._performer.create_claim(
                msgspec.structs.replace(effect, reason=command.reason.lower())
            )
            await self._performer.perform([disruption_launching(claim, command.reason)])
            made.append(claim.name)
            self.launched.add(claim.name)
        return tuple(made)

    def _promises(self, command: Command) -> list[Effect]:
        view, until = self._store.view(), self._clock.now() + self._promise
        effects: list[Effect] = []
        for key, name in command.moves.items():
            effects.append(Nominate(node=name, until=until, because=f"pod {key} is to move there"))
            pod = view.pods.get(key)
            if pod is not None:
                effects.append(nominated(pod, node=name))
        return effects

    async def _advance(self, begun: CommandInProgress) -> None:
        claims = [self._store.claim(name) for name in begun.replacements]
        match progress(claims, started=begun.started, now=self._clock.now(), queued=self._queued):
            case "waiting":
                waiting = [claim for claim in claims if claim is not None]
                await self._performer.perform(disruption_waiting(claim) for claim in waiting)
            case "ready":
                await self._spare(begun)
                if not begun.candidates:
                    self._end_early(begun, "all of its machines stay")
                elif await self._is_succeeded(begun):
                    await self._finish(begun)
            case "lost":
                await self._undo(begun, "a replacement is gone")
            case "late":
                await self._undo(begun, "its replacements took too long")

    async def _is_succeeded(self, begun: CommandInProgress) -> bool:
        """Let successors start where that comes first; say whether the machines may go now."""
        waits = False
        for each in begun.candidates if any(each.surging for each in begun.candidates) else ():
            due = surge_step(each.surging, each.name, self._store.view(), begun.asked, self._clock.now())
            if due.late:
                await self._undo(begun, f"successors of the pods of node {each.name} took too long")
                return False
            await self._performer.perform(due.effects)
            begun.asked, waits = due.asked, waits or due.waits
        return not waits

    async def _finish(self, begun: CommandInProgress) -> None:
        reason = begun.command.reason
        left = [claim for name in begun.claims if (claim := self._store.claim(name)) is not None]
        nodes = [node for each in begun.candidates if (node := self._node(each.name)) is not None]
        await self._performer.perform(delete_candidates(left, nodes, reason))
        self.under_way.remove(begun)
        now = self._clock.now()
        if begun.replacements:
            self.start_ups.append(now - begun.started)
        self.over.append(
            expected_outcome(begun.command, begun.candidates, self._nodes_of(begun), self._store.view(), now)
        )
        await self._performer.perform(count_disrupted(begun.candidates, reason))
        log.info("disruption.finished", command=begun.text)

    async def _spare(self, begun: CommandInProgress) -> None:
        """Open machines again that must not go any more, and leave them out of their command."""
        stays = kept_at_removal(begun.candidates, begun.command.reason, self._store.view(), self._clock.now())
        for each in [each for each in begun.candidates if each.name in stays]:
            log.info("node.spared", node=each.name, command=begun.text, because=stays[each.name])
            begun.candidates = tuple(other for other in begun.candidates if other is not each)
            await self._open(each)

    async def _undo(self, begun: CommandInProgress, why: str) -> None:
        self._end_early(begun, why)
        try:
            for each in begun.candidates:
                await self._open(each)
        finally:
            self._store.unmark(begun.claims)

    async def _give_up_late(self, begun: CommandInProgress) -> None:
        """Undo a command that has failed for so long that its machines had better be of use again."""
        if begun in self.under_way and self._clock.now() - begun.started > time_limit(self._queued):
            with suppress(KubeError):  # what stays closed is opened by the next look at all machines
                await self._undo(begun, "its machines could not be removed in time")

    def _end_early(self, begun: CommandInProgress, why: str) -> None:
        log.warning("disruption.undone", command=begun.text, because=why)
        self.under_way.remove(begun)
        self._metrics[disruption.QUEUE_FAILURES].add(
            decision=begun.command.decision,
            reason=begun.command.reason.lower(),
            consolidation_type=begun.command.kind,
        )

    async def _open(self, candidate: Candidate) -> None:
        """Let pods come to a machine again, and only then have it stay: until then it counts as going."""
        node = self._node(candidate.name)
        stays = msgspec.structs.replace(node, marked=False) if node is not None else None
        try:
            if stays is not None and not stays.is_leaving:
                await self._performer.perform(untaint(stays, self._clock.now()))
        finally:
            self._store.unmark([candidate.claim.name])

    def _nodes_of(self, begun: CommandInProgress) -> dict[str, str]:
        """Return the node of each new machine, by the name that the command gave it."""
        claims = [self._store.claim(name) for name in begun.replacements]
        return {
            new.name: claim.status.node_name
            for new, claim in zip(begun.command.replacements, claims, strict=True)
            if claim is not None
        }

    def _node(self, name: str) -> StateNode | None:
        return next((node for node in state_nodes(self._store.view()) if node.name == name), None)
