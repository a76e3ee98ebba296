r"""
The pods of the fleet: each is walked through its script, one write per stage.

    bound -> creating -> running -> ready -> ended
                  \________\________\_______\__ stopping -> gone

A pod whose node is not heard of stays where it is until the node is back.
"""

import asyncio

import structlog

from karpenter.api.pod import Pod
from karpenter.base.clock import Clock
from karpenter.core.model.resources import parse_resources, pod_requests
from karpenter.kube.errors import KubeError
from karpenter.kube.informer import InformerEvent, InformerDelete
from karpenter_local.controllers.informers import BY_NODE, Informers
from karpenter_local.controllers.writer import Writer
from karpenter_local.kubelet import status
from karpenter_local.kubelet.agenda import Agenda
from karpenter_local.kubelet.entry import shortage
from karpenter_local.kubelet.mounts import Mounts
from karpenter_local.kubelet.script import Habits, script_for
from karpenter_local.kubelet.seats import Run, Seat

log = structlog.stdlib.get_logger(__name__)

RETRY = 1.0
"""Seconds after which a step that failed, or waits for a volume, is tried again."""

_OVER = frozenset({"stopping", "ended"})
_FIRST_RESTART = 10.0
_LONGEST_RESTART = 300.0


class PodRunner:
    """Runs the pods of all seats."""

    def __init__(
        self,
        seats: dict[str, Seat],
        informers: Informers,
        writer: Writer,
        clock: Clock,
        *,
        habits: Habits,
        seed: int,
        narrate: bool,
    ) -> None:
        self._seats = seats
        self._pods = informers.pods
        self._nodes = informers.nodes
        self._writer = writer
        self._clock = clock
        self._habits = habits
        self._seed = seed
        self._narrate = narrate
        self.mounts = Mounts(informers, writer)
        self._runs: dict[str, Run] = {}
        self.agenda: Agenda[str] = Agenda()

    def subscribe(self) -> None:
        """Begin to follow pods."""
        self._pods.subscribe(self._pod_changed)

    def seat_ready(self, seat: Seat) -> None:
        """Take on the pods that were bound to a node before it joined."""
        for pod in self._pods.store.find(BY_NODE, seat.name):
            self._consider(pod)

    def resume(self, seat: Seat) -> None:
        """Go on with the pods of a node that is heard of again, and say again that they are ready."""
        held_up, seat.held_up = list(seat.held_up), {}
        for key in held_up:
            self.agenda.put(key, self._now())
        for run in seat.runs.values():
            if run.stage == "ready" and run.key not in held_up:
                run.stage = "running"
                self.agenda.put(run.key, self._now())

    def forget(self, seat: Seat) -> None:
        """Stop running the pods of a node that is gone."""
        for key in list(seat.runs):
            self._drop(key)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _pod_changed(self, event: InformerEvent[Pod]) -> None:
        if isinstance(event, InformerDelete):
            self._drop(event.key)
        else:
            self._consider(event.object)

    def _consider(self, pod: Pod) -> None:
        seat = self._seats.get(pod.spec.node_name)
        if seat is None or not seat.joined:
            return
        run = self._runs.get(pod.key)
        if run is not None and run.uid != pod.metadata.uid:
            self._drop(pod.key)
            run = None
        if run is None:
            run = self._take_on(pod, seat)
        if pod.metadata.deletion_timestamp is not None and run is not None:
            self._begin_to_stop(pod, run, seat)

    def _take_on(self, pod: Pod, seat: Seat) -> Run | None:
        finished = pod.status.phase in {"Succeeded", "Failed"}
        if finished and pod.metadata.deletion_timestamp is None:
            return None
        run = Run(
            key=pod.key,
            uid=pod.metadata.uid,
            node=seat.name,
            script=script_for(pod, self._habits, seed=self._seed),
            address=pod.status.pod_ip,
        )
        if finished:
            run.stage = "ended"
        elif pod.status.phase == "Running":  # it ran before this process did
            run.stage = "running"
            run.started = self._now()
            seat.let_in(run, pod_requests(pod))
        self._runs[pod.key] = seat.runs[pod.key] = run
        self.agenda.put(pod.key, self._now())
        return run

    def _begin_to_stop(self, pod: Pod, run: Run, seat: Seat) -> None:
        grace = pod.metadata.deletion_grace_period_seconds or 0
        takes = 0.0 if run.stage == "ended" else min(run.script.stop * seat.health.factor, float(grace))
        by = self._now() + takes
        if run.stop_by is None or by < run.stop_by:
            run.stop_by = by
            run.stage = "stopping"
            self.agenda.put(run.key, by)

    def _drop(self, key: str) -> None:
        run = self._runs.pop(key, None)
        if run is not None:
            self.agenda.drop(key)
            seat = self._seats.get(run.node)
            if seat is not None:
                seat.give_back(run)
                seat.runs.pop(key, None)
                seat.held_up.pop(key, None)
                self.mounts.released(seat.name, key)

    async def step(self, key: str) -> None:
        """Take the next step of a pod's life."""
        run = self._runs.get(key)
        pod = self._pods.store.get(key)
        seat = self._seats.get(run.node) if run is not None else None
        if run is None or seat is None or pod is None or pod.metadata.uid != run.uid:
            return
        if not seat.health.reports:
            seat.held_up[key] = None
            return
        try:
            if run.deadline is not None and self._now() >= run.deadline and run.stage not in _OVER:
                await self._overdue(run, pod, seat)
            else:
                await self._advance(run, pod, seat)
        except KubeError as error:
            log.warning("pod.step_failed", pod=key, node=run.node, stage=run.stage, error=str(error))
            self.agenda.put(key, self._now() + RETRY)

    async def _advance(self, run: Run, pod: Pod, seat: Seat) -> None:
        match run.stage:
            case "bound":
                await self._create(run, pod, seat)
            case "creating":
                await self._start(run, pod, seat)
            case "running":
                await self._serve(run, pod, seat)
            case "ready":
                await self._end(run, pod, seat)
            case "stopping":
                await self._stop(run, pod)

    async def _create(self, run: Run, pod: Pod, seat: Seat) -> None:
        if not run.holds and not await self._let_in(run, pod, seat):
            return
        if pod.spec.active_deadline_seconds is not None and run.deadline is None:
            run.deadline = self._now() + pod.spec.active_deadline_seconds
        self.mounts.needed(seat.name, pod)
        await self._report(pod, status.creating(pod, _place(run, pod, seat), self._clock.now()))
        self._next(run, "creating", (run.script.create + run.script.init) * seat.health.factor)

    async def _let_in(self, run: Run, pod: Pod, seat: Seat) -> bool:
        """Take a pod on if the node has room for it, and turn it away if not."""
        node = self._nodes.store.get(seat.name)
        requests = pod_requests(pod)
        lacking = shortage(requests, seat.used, parse_resources(node.status.allocatable) if node else {})
        if lacking is None:
            seat.let_in(run, requests)
            return True
        run.stage = "ended"
        reason, message = f"OutOf{lacking.resource}", str(lacking)
        await self._report(pod, status.rejected(self._clock.now(), reason=reason, message=message))
        self._writer.tell(pod, "Warning", reason, message)
        return False

    async def _overdue(self, run: Run, pod: Pod, seat: Seat) -> None:
        message = "Pod was active on the node longer than the specified deadline"
        await self._report(
            pod,
            status.ended(pod, self._clock.now(), exit_code=137, reason="DeadlineExceeded", message=message),
        )
        self._ended(run, seat)

    def _ended(self, run: Run, seat: Seat) -> None:
        if run.stage != "stopping":
            run.stage = "ended"
        seat.give_back(run)
        self.mounts.released(seat.name, run.key)

    async def _start(self, run: Run, pod: Pod, seat: Seat) -> None:
        if not self.mounts.attached(seat.name, pod):
            self.agenda.put(run.key, self._now() + RETRY)
            return
        run.started = self._now()
        if not run.address:
            run.address = seat.address if pod.spec.host_network else seat.next_address()
        ready_at_once = run.script.ready == 0.0
        place = _place(run, pod, seat)
        await self._report(pod, status.running(pod, place, self._clock.now(), ready=ready_at_once))
        if self._narrate:
            for container in pod.spec.containers:
                self._writer.tell(pod, "Normal", "Started", f"Started container {container.name}")
        if ready_at_once:
            self._served(run, seat)
        else:
            self._next(run, "running", (run.script.ready or 0.0) * seat.health.factor)

    async def _serve(self, run: Run, pod: Pod, seat: Seat) -> None:
        is_ready = any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)
        if run.script.ready is not None and not is_ready:
            place = _place(run, pod, seat)
            await self._report(
                pod, status.running(pod, place, self._clock.now(), ready=True, restarts=run.restarts)
            )
        self._served(run, seat)

    def _served(self, run: Run, seat: Seat) -> None:
        """Plan the end, if the pod ends by itself."""
        if run.stage == "stopping":
            return
        run.stage = "ready"
        if run.script.run is not None:
            self._plan(run, run.started + run.script.run * seat.health.factor)
        elif run.deadline is not None:
            self._plan(run, run.deadline)

    async def _end(self, run: Run, pod: Pod, seat: Seat) -> None:
        code = run.script.exit_code
        if code and pod.spec.restart_policy == "OnFailure":
            run.restarts += 1
            wait = min(_FIRST_RESTART * 2.0 ** (run.restarts - 1), _LONGEST_RESTART)
            place = _place(run, pod, seat)
            await self._report(
                pod, status.running(pod, place, self._clock.now(), ready=True, restarts=run.restarts)
            )
            self._next(run, "ready", wait + (run.script.run or 0.0) * seat.health.factor)
            return
        await self._report(pod, status.ended(pod, self._clock.now(), exit_code=code))
        self._ended(run, seat)

    async def _stop(self, run: Run, pod: Pod) -> None:
        if pod.metadata.finalizers and pod.status.phase not in {"Succeeded", "Failed"}:
            # Somebody waits to count it; a pod that is stopped before its time has failed.
            ends_well = pod.spec.restart_policy == "Always"
            await self._report(pod, status.ended(pod, self._clock.now(), exit_code=0 if ends_well else 143))
        self.mounts.released(run.node, run.key)
        await self._writer.delete(Pod, pod.name, namespace=pod.namespace, uid=run.uid, grace=0)

    def _next(self, run: Run, stage: str, after: float) -> None:
        """Go to `stage` after some seconds, unless the pod was told to stop meanwhile."""
        if run.stage != "stopping":
            run.stage = stage
            self._plan(run, self._now() + after)

    def _plan(self, run: Run, due: float) -> None:
        """Plan the next step, or the end if the pod's time is up before."""
        self.agenda.put(run.key, due if run.deadline is None else min(due, run.deadline))

    async def _report(self, pod: Pod, change: dict[str, object]) -> None:
        await self._writer.set_status(Pod, pod.name, change, namespace=pod.namespace, strategic=True)


def _place(run: Run, pod: Pod, seat: Seat) -> status.Place:
    """Return where a pod runs; what it was told before stays true."""
    return status.Place(pod.status.host_ip or seat.address, run.address)
