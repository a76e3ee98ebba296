"""
The scheduling loop: pops the next pod, decides with :mod:`.schedule_one`, binds or reports, waits for
changes.

Decisions are made one after the other; workers carry out the writes that follow, so that a slow response of
the server blocks no other pod. The only file of the scheduler that talks to the API server or waits.
"""

import asyncio
from typing import Any

import structlog

from karpenter.api.pod import Pod
from karpenter.base.clock import Clock
from karpenter.base.queue import Supervisor
from karpenter.kube.errors import KubeError
from karpenter_local.controllers.informers import Informers
from karpenter_local.controllers.plain import render_time
from karpenter_local.controllers.writer import Writer
from karpenter_local.scheduler.binder import Binder, BindingFailed
from karpenter_local.scheduler.eventhandlers import EventHandlers
from karpenter_local.scheduler.place import Placed
from karpenter_local.scheduler.preempt import Victims
from karpenter_local.scheduler.schedule_one import NAME, ScheduleOne, Unplaced

log = structlog.stdlib.get_logger(__name__)

WORKERS = 8
MAX_WAITING_DECISIONS = 256
"""Decisions that may wait to be carried out before the next is made."""

YIELD_EVERY = 16
"""Decisions after which the other tasks get a turn."""


class KubeScheduler:
    """Gives pending pods their nodes."""

    def __init__(self, informers: Informers, writer: Writer, clock: Clock, *, seed: int) -> None:
        self._clock = clock
        self._writer = writer
        self._informers = informers
        self._woken = asyncio.Event()
        self.scheduler = ScheduleOne(seed=seed)
        self._follower = EventHandlers(
            self.scheduler, informers, monotonic=clock.monotonic, woke=self._woken.set
        )
        self._binder = Binder(writer, informers.claims)
        self._orders: asyncio.Queue[tuple[Pod, Placed | Unplaced]] = asyncio.Queue(MAX_WAITING_DECISIONS)
        self._long: set[asyncio.Task[None]] = set()
        """Bindings that wait for volumes."""

    def start(self, supervisor: Supervisor) -> None:
        """Begin to schedule; the informers must be synced."""
        self._follower.subscribe()
        for number in range(WORKERS):
            supervisor.start(f"scheduler/writer-{number}", self._carry_out)
        supervisor.start("scheduler", self._run)

    async def _run(self) -> None:
        made = 0
        while True:
            key = self.scheduler.queue.pop(self._clock.monotonic())
            if key is None:
                await self._wait()
                continue
            pod = self.scheduler.pod(key)
            if pod is None:
                self.scheduler.queue.remove(key)
                continue
            own = self._follower.own_selector(pod)
            decision = self.scheduler.decide(pod, own, self._follower.budgets, self._clock.monotonic())
            await self._orders.put((pod, decision))
            made += 1
            if made % YIELD_EVERY == 0:
                await asyncio.sleep(0)

    async def _wait(self) -> None:
        """Wait until something changes, or the next pod is due."""
        self._woken.clear()
        due = self.scheduler.queue.next_due()
        try:
            async with asyncio.timeout(None if due is None else max(0.0, due - self._clock.monotonic())):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _carry_out(self) -> None:
        while True:
            pod, decision = await self._orders.get()
            if isinstance(decision, Unplaced):
                # Tell the pod's owner why it waits, and make room for it if that was decided.
                try:
                    if decision.victims is not None:
                        await self._evict(pod, decision.victims)
                    await self._write(pod, decision)
                except KubeError as error:
                    log.warning("pod.not_explained", pod=pod.key, error=str(error))
                    self.scheduler.queue.retry(pod.key, self._clock.monotonic())
                    self._woken.set()
                self._writer.record_event(pod, "Warning", "FailedScheduling", decision.message)
            elif decision.bindings:
                task = asyncio.get_running_loop().create_task(self._bind(pod, decision))
                self._long.add(task)
                task.add_done_callback(self._long.discard)
            else:
                await self._bind(pod, decision)

    async def _bind(self, pod: Pod, placed: Placed) -> None:
        try:
            await self._binder.bind(pod, placed)
        except (BindingFailed, KubeError) as error:
            log.warning("pod.not_bound", pod=pod.key, node=placed.node, error=str(error))
            self.scheduler.failed(pod.key, self._clock.monotonic())
            self._woken.set()
            self._writer.record_event(pod, "Warning", "FailedScheduling", str(error))
            return
        message = f"Successfully assigned {pod.key} to {placed.node}"
        self._writer.record_event(pod, "Normal", "Scheduled", message)

    async def _write(self, pod: Pod, decision: Unplaced) -> None:
        known = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
        nominated = decision.victims.node if decision.victims is not None else ""
        told = known is not None and known.status == "False" and known.message == decision.message
        withdrawn = decision.withdrawn and bool(pod.status.nominated_node_name)
        if told and not withdrawn and nominated in {"", pod.status.nominated_node_name}:
            return
        now = render_time(self._clock.now())
        since = now
        if known is not None and known.status == "False" and known.last_transition_time is not None:
            since = render_time(known.last_transition_time)
        condition: dict[str, Any] = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": decision.message,
            "lastProbeTime": None,
            "lastTransitionTime": since,
        }
        status: dict[str, Any] = {"conditions": [condition]}
        if nominated or withdrawn:
            status["nominatedNodeName"] = nominated or None
        await self._writer.set_status(Pod, pod.name, status, namespace=pod.namespace, strategic=True)

    async def _evict(self, pod: Pod, victims: Victims) -> None:
        for key in self.scheduler.outranked(victims.node, pod.spec.priority or 0):
            self.scheduler.withdraw_nomination(key)
            namespace, _, name = key.partition("/")
            await self._writer.set_status(Pod, name, {"nominatedNodeName": None}, namespace=namespace)
        now = render_time(self._clock.now())
        for victim in victims.pods:
            if not victim.living:
                continue  # on its way out already
            namespace, _, name = victim.key.partition("/")
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": f"{NAME}: preempting to accommodate a higher priority pod",
                "lastTransitionTime": now,
            }
            changed = await self._writer.set_status(
                Pod, name, {"conditions": [condition]}, namespace=namespace, strategic=True
            )
            if changed is None or not await self._writer.delete(
                Pod, name, namespace=namespace, uid=victim.uid
            ):
                continue
            message = f"Preempted by pod {pod.metadata.uid} on node {victims.node}"
            self._writer.record_event(changed, "Normal", "Preempted", message)
            log.info("pod.preempted", pod=victim.key, node=victims.node, by=pod.key)
