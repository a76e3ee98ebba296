r"""
The pod workers of hollow nodes: each pod goes through its script, one write per stage.

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
from karpenter.kube.informer import InformerDelete, InformerEvent
from karpenter_local.controllers.informers import BY_NODE, Informers
from karpenter_local.controllers.writer import Writer
from karpenter_local.kubelet import status
from karpenter_local.kubelet.duequeue import DueQueue
from karpenter_local.kubelet.hollownode import HollowNode, PodRun
from karpenter_local.kubelet.mounts import Mounts
from karpenter_local.kubelet.predicate import shortage
from karpenter_local.kubelet.script import PodTimings, script_for

log = structlog.stdlib.get_logger(__name__)

RETRY_SECONDS = 1.0
"""Seconds after which a step that failed, or waits for a volume, is tried again."""

_OVER = frozenset({"stopping", "ended"})
# CrashLoopBackOff: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
_FIRST_RESTART_SECONDS = 10.0
_LONGEST_RESTART_SECONDS = 300.0


class PodRunner:
    """Runs the pods of all seats."""

    def __init__(
        self,
        hollow_nodes: dict[str, HollowNode],
        informers: Informers,
        writer: Writer,
        clock: Clock,
        *,
        habits: PodTimings,
        seed: int,
        narrate: bool,
    ) -> None:
        self._hollow_nodes = hollow_nodes
        self._pods = informers.pods
        self._nodes = informers.nodes
        self._writer = writer
        self._clock = clock
        self._habits = habits
        self._seed = seed
        self._narrate = narrate
        self.mounts = Mounts(informers, writer)
        self._runs: dict[str, PodRun] = {}
        self.due_queue: DueQueue[str] = DueQueue()

    def subscribe(self) -> None:
        self._pods.subscribe(self._pod_changed)

    def node_ready(self, hollow_node: HollowNode) -> None:
        """Take on the pods that were bound to a node before it joined."""
        for pod in self._pods.store.find(BY_NODE, hollow_node.name):
            self._consider(pod)

    def resume(self, hollow_node: HollowNode) -> None:
        """Go on with the pods of a node that is heard of again, and say again that they are ready."""
        held_up, hollow_node.held_up = list(hollow_node.held_up), {}
        for key in held_up:
            self.due_queue.put(key, self._now())
        for run in hollow_node.runs.values():
            if run.stage == "ready" and run.key not in held_up:
                run.stage = "running"
                self.due_queue.put(run.key, self._now())

    def forget(self, hollow_node: HollowNode) -> None:
        """Stop running the pods of a node that is gone."""
        for key in list(hollow_node.runs):
            self._drop(key)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _pod_changed(self, event: InformerEvent[Pod]) -> None:
        if isinstance(event, InformerDelete):
            self._drop(event.key)
        else:
            self._consider(event.object)

    def _consider(self, pod: Pod) -> None:
        hollow_node = self._hollow_nodes.get(pod.spec.node_name)
        if hollow_node is None or not hollow_node.joined:
            return
        run = self._runs.get(pod.key)
        if run is not None and run.uid != pod.metadata.uid:
            self._drop(pod.key)
            run = None
        if run is None:
            run = self._take_on(pod, hollow_node)
        if pod.metadata.deletion_timestamp is not None and run is not None:
            grace = float(pod.metadata.deletion_grace_period_seconds or 0)
            takes = 0.0
            if run.stage != "ended":
                hooks = run.script.pre_stop if run.started else 0.0
                takes = min(hooks + run.script.stop * hollow_node.health.factor, grace)
            by = self._now() + takes
            if run.stop_by is None or by < run.stop_by:
                run.stop_by = by
                run.stage = "stopping"
                self.due_queue.put(run.key, by)

    def _take_on(self, pod: Pod, hollow_node: HollowNode) -> PodRun | None:
        finished = pod.status.phase in {"Succeeded", "Failed"}
        if finished and pod.metadata.deletion_timestamp is None:
            return None
        run = PodRun(
            key=pod.key,
            uid=pod.metadata.uid,
            node=hollow_node.name,
            script=script_for(pod, self._habits, seed=self._seed),
            address=pod.status.pod_ip,
        )
        if finished:
            run.stage = "ended"
        elif pod.status.phase == "Running":  # it ran before this process did
            run.stage = "running"
            run.started = self._now()
            hollow_node.let_in(run, pod_requests(pod))
        self._runs[pod.key] = hollow_node.runs[pod.key] = run
        self.due_queue.put(pod.key, self._now())
        return run

    def _drop(self, key: str) -> None:
        run = self._runs.pop(key, None)
        if run is not None:
            self.due_queue.drop(key)
            hollow_node = self._hollow_nodes.get(run.node)
            if hollow_node is not None:
                hollow_node.give_back(run)
                hollow_node.runs.pop(key, None)
                hollow_node.held_up.pop(key, None)
                self.mounts.released(hollow_node.name, key)

    async def step(self, key: str) -> None:
        """Take the next step of a pod's script."""
        run = self._runs.get(key)
        pod = self._pods.store.get(key)
        hollow_node = self._hollow_nodes.get(run.node) if run is not None else None
        if run is None or hollow_node is None or pod is None or pod.metadata.uid != run.uid:
            return
        if not hollow_node.health.reports:
            hollow_node.held_up[key] = None
            return
        try:
            if run.deadline is not None and self._now() >= run.deadline and run.stage not in _OVER:
                message = "Pod was active on the node longer than the specified deadline"
                await self._report(
                    pod,
                    status.ended(
                        pod, self._clock.now(), exit_code=137, reason="DeadlineExceeded", message=message
                    ),
                )
                self._ended(run, hollow_node)
            else:
                await self._advance(run, pod, hollow_node)
        except KubeError as error:
            log.warning("pod.step_failed", pod=key, node=run.node, stage=run.stage, error=str(error))
            self.due_queue.put(key, self._now() + RETRY_SECONDS)

    async def _advance(self, run: PodRun, pod: Pod, hollow_node: HollowNode) -> None:
        match run.stage:
            case "bound":
                await self._create(run, pod, hollow_node)
            case "creating":
                await self._start(run, pod, hollow_node)
            case "running":
                await self._serve(run, pod, hollow_node)
            case "ready":
                await self._end(run, pod, hollow_node)
            case "stopping":
                await self._stop(run, pod)

    async def _create(self, run: PodRun, pod: Pod, hollow_node: HollowNode) -> None:
        if not run.holds and not await self._let_in(run, pod, hollow_node):
            return
        if pod.spec.active_deadline_seconds is not None and run.deadline is None:
            run.deadline = self._now() + pod.spec.active_deadline_seconds
        self.mounts.needed(hollow_node.name, pod)
        await self._report(pod, status.creating(pod, _place(run, pod, hollow_node), self._clock.now()))
        self._next(run, "creating", (run.script.create + run.script.init) * hollow_node.health.factor)

    async def _let_in(self, run: PodRun, pod: Pod, hollow_node: HollowNode) -> bool:
        """Take a pod on if the node has room for it, and turn it away if not."""
        node = self._nodes.store.get(hollow_node.name)
        requests = pod_requests(pod)
        lacking = shortage(
            requests, hollow_node.used, parse_resources(node.status.allocatable) if node else {}
        )
        if lacking is None:
            hollow_node.let_in(run, requests)
            return True
        run.stage = "ended"
        reason, message = f"OutOf{lacking.resource}", str(lacking)
        await self._report(pod, status.rejected(self._clock.now(), reason=reason, message=message))
        self._writer.record_event(pod, "Warning", reason, message)
        return False

    def _ended(self, run: PodRun, hollow_node: HollowNode) -> None:
        if run.stage != "stopping":
            run.stage = "ended"
        hollow_node.give_back(run)
        self.mounts.released(hollow_node.name, run.key)

    async def _start(self, run: PodRun, pod: Pod, hollow_node: HollowNode) -> None:
        if not self.mounts.attached(hollow_node.name, pod):
            self.due_queue.put(run.key, self._now() + RETRY_SECONDS)
            return
        run.started = self._now()
        if not run.address:
            run.address = hollow_node.address if pod.spec.host_network else hollow_node.next_address()
        ready_at_once = run.script.ready == 0.0
        place = _place(run, pod, hollow_node)
        await self._report(pod, status.running(pod, place, self._clock.now(), ready=ready_at_once))
        if self._narrate:
            for container in pod.spec.containers:
                self._writer.record_event(pod, "Normal", "Started", f"Started container {container.name}")
        if ready_at_once:
            self._served(run, hollow_node)
        else:
            self._next(run, "running", (run.script.ready or 0.0) * hollow_node.health.factor)

    async def _serve(self, run: PodRun, pod: Pod, hollow_node: HollowNode) -> None:
        is_ready = any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)
        if run.script.ready is not None and not is_ready:
            place = _place(run, pod, hollow_node)
            await self._report(
                pod, status.running(pod, place, self._clock.now(), ready=True, restarts=run.restarts)
            )
        self._served(run, hollow_node)

    def _served(self, run: PodRun, hollow_node: HollowNode) -> None:
        """Plan the end, if the pod ends by itself."""
        if run.stage == "stopping":
            return
        run.stage = "ready"
        if run.script.run is not None:
            self._plan(run, run.started + run.script.run * hollow_node.health.factor)
        elif run.deadline is not None:
            self._plan(run, run.deadline)

    async def _end(self, run: PodRun, pod: Pod, hollow_node: HollowNode) -> None:
        code = run.script.exit_code
        if code and pod.spec.restart_policy == "OnFailure":
            run.restarts += 1
            wait = min(_FIRST_RESTART_SECONDS * 2.0 ** (run.restarts - 1), _LONGEST_RESTART_SECONDS)
            place = _place(run, pod, hollow_node)
            await self._report(
                pod, status.running(pod, place, self._clock.now(), ready=True, restarts=run.restarts)
            )
            self._next(run, "ready", wait + (run.script.run or 0.0) * hollow_node.health.factor)
            return
        await self._report(pod, status.ended(pod, self._clock.now(), exit_code=code))
        self._ended(run, hollow_node)

    async def _stop(self, run: PodRun, pod: Pod) -> None:
        if pod.metadata.finalizers and pod.status.phase not in {"Succeeded", "Failed"}:
            # Its Job has yet to count it; a pod that is stopped before it completes has failed.
            ends_well = pod.spec.restart_policy == "Always"
            await self._report(pod, status.ended(pod, self._clock.now(), exit_code=0 if ends_well else 143))
        self.mounts.released(run.node, run.key)
        await self._writer.delete(Pod, pod.name, namespace=pod.namespace, uid=run.uid, grace=0)

    def _next(self, run: PodRun, stage: str, after: float) -> None:
        """Go to `stage` after some seconds, unless the pod was told to stop meanwhile."""
        if run.stage != "stopping":
            run.stage = stage
            self._plan(run, self._now() + after)

    def _plan(self, run: PodRun, due: float) -> None:
        """Plan the next step, or the end if the pod's time is up before."""
        self.due_queue.put(run.key, due if run.deadline is None else min(due, run.deadline))

    async def _report(self, pod: Pod, change: dict[str, object]) -> None:
        await self._writer.set_status(Pod, pod.name, change, namespace=pod.namespace, strategic=True)


def _place(run: PodRun, pod: Pod, hollow_node: HollowNode) -> status.PodAddresses:
    """Return where a pod runs; what it was told before stays true."""
    return status.PodAddresses(pod.status.host_ip or hollow_node.address, run.address)
