"""The node lifecycle controller: marks unreachable nodes, and keeps conditions and taints of all nodes."""

from typing import TYPE_CHECKING

from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.base.clock import Clock
from karpenter.base.queue import WorkQueue
from karpenter_local.controllers import nodelifecycle_health, pods
from karpenter_local.controllers.informers import BY_NODE, Informers
from karpenter_local.controllers.loop import wake
from karpenter_local.controllers.plain import render_time
from karpenter_local.controllers.writer import Writer

if TYPE_CHECKING:
    from karpenter_local.controllers.nodelifecycle_health import NodeHealthData


class NodeMonitor:
    """Goes over all nodes and marks those that are not heard of."""

    name = "node-monitor"

    def __init__(self, informers: Informers, writer: Writer, clock: Clock) -> None:
        self._nodes = informers.nodes
        self._leases = informers.leases
        self._writer = writer
        self._clock = clock
        self._heard: dict[str, NodeHealthData] = {}

    @property
    def period(self) -> float:
        """Seconds between two rounds: often enough for the shortest lease there is."""
        shortest = min((each.spec.lease_duration_seconds or 0 for each in self._leases.store), default=0)
        return max(5.0, shortest / 8)

    async def look(self) -> None:
        """Compare what each node said last with what it said before."""
        now = self._clock.now()
        heard: dict[str, NodeHealthData] = {}
        silent = []
        for node in self._nodes.store:
            lease = self._leases.store.get(f"kube-node-lease/{node.name}")
            found = nodelifecycle_health.update_health(node, lease, self._heard.get(node.metadata.uid), now)
            heard[node.metadata.uid] = found
            if nodelifecycle_health.is_silent(node, lease, found, now):
                silent.append(node)
        self._heard = heard
        for node in silent:
            changed = nodelifecycle_health.silent_conditions(node, now)
            if changed:
                await self._writer.set_status(Node, node.name, {"conditions": changed}, strategic=True)


class NodeTaints:
    """Keeps the taints of nodes in step with their conditions, and their pods' readiness with their own."""

    name = "node-lifecycle"

    def __init__(self, informers: Informers, writer: Writer, clock: Clock) -> None:
        self._nodes = informers.nodes
        self._pods = informers.pods
        self._writer = writer
        self._clock = clock
        self._ready: dict[str, bool] = {}

    def watch(self, queue: WorkQueue[str]) -> None:
        wake(self._nodes, queue, lambda node: [node.name])

    async def reconcile(self, key: str) -> float | None:
        node = self._nodes.store.get(key)
        if node is None:
            self._ready.pop(key, None)
            return None
        taints = nodelifecycle_health.wanted_taints(node, self._clock.now())
        if taints is not None:
            version = node.metadata.resource_version
            await self._writer.merge(Node, node.name, {"spec": {"taints": taints}}, version=version)
        await self._follow_readiness(node)
        return None

    async def _follow_readiness(self, node: Node) -> None:
        condition = nodelifecycle_health.ready_condition(node)
        ready = condition is not None and condition.status == "True"
        was = self._ready.get(node.name)
        self._ready[node.name] = ready
        if was is None or was == ready:
            return
        word = "NodeReady" if ready else "NodeNotReady"
        self._writer.record_event(node, "Normal", word, f"Node {node.name} status is now: {word}")
        if ready:
            return
        now = render_time(self._clock.now())
        for pod in self._pods.store.find(BY_NODE, node.name):
            if pods.is_ready(pod):
                change = {"type": "Ready", "status": "False", "lastTransitionTime": now}
                self._writer.record_event(pod, "Warning", "NodeNotReady", "Node is not ready")
                await self._writer.set_status(
                    Pod, pod.name, {"conditions": [change]}, namespace=pod.namespace, strategic=True
                )
