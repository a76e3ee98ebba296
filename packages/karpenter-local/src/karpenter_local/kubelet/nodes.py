"""
The node side of hollow nodes: each joins when its Node appears, reports that it is ready, and renews its
lease.

All leases are renewed together, once per period, in small groups between which others get a turn: a thousand
nodes cost one timer. Node status is written when it changes, and otherwise every five minutes.
"""

import asyncio

import structlog

from karpenter.api.cluster import Lease
from karpenter.api.node import Node
from karpenter.api.storage import CSINode
from karpenter.base.clock import Clock
from karpenter.kube.errors import AlreadyExists, KubeError
from karpenter.kube.informer import InformerDelete, InformerEvent
from karpenter_local.controllers.informers import NODE_LEASES, Informers
from karpenter_local.controllers.writer import Writer
from karpenter_local.kubelet import machine
from karpenter_local.kubelet.duequeue import DueQueue
from karpenter_local.kubelet.hollownode import HollowNode
from karpenter_local.kubelet.pods import PodRunner
from karpenter_local.kubelet.settings import KubeletSettings

log = structlog.stdlib.get_logger(__name__)

LEASES_PER_TURN = 50
"""Leases renewed between two breaths."""

RETRY_SECONDS = 1.0


class NodeRunner:
    """Keeps nodes alive."""

    def __init__(
        self,
        hollow_nodes: dict[str, HollowNode],
        pods: PodRunner,
        informers: Informers,
        writer: Writer,
        clock: Clock,
        *,
        settings: KubeletSettings,
    ) -> None:
        self._hollow_nodes = hollow_nodes
        self._pods = pods
        self._nodes = informers.nodes
        self._writer = writer
        self._clock = clock
        self._settings = settings
        self._numbers: dict[str, int] = {}
        self.due_queue: DueQueue[str] = DueQueue()

    def subscribe(self) -> None:
        self._nodes.subscribe(self._node_changed)

    def report_soon(self, name: str) -> None:
        self.due_queue.put(name, self._now())

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _node_changed(self, event: InformerEvent[Node]) -> None:
        node = event.object
        hollow_node = self._hollow_nodes.get(node.name)
        if isinstance(event, InformerDelete):
            if hollow_node is not None and hollow_node.uid == node.metadata.uid:
                self._pods.forget(hollow_node)
                self.due_queue.drop(hollow_node.name)
                del self._hollow_nodes[hollow_node.name]
        elif hollow_node is None and self._settings.adopts(node):
            # A node that comes back under its name has its old address, as pods that are still there know it.
            number = self._numbers.setdefault(node.name, len(self._numbers) + 1)
            hollow_node = HollowNode(name=node.name, uid=node.metadata.uid, number=number)
            self._hollow_nodes[node.name] = hollow_node
            self.due_queue.put(node.name, self._now() + self._settings.boot)

    async def step(self, name: str) -> None:
        """Let a node join, or report once more."""
        hollow_node = self._hollow_nodes.get(name)
        node = self._nodes.store.get(name)
        if hollow_node is None or node is None or not hollow_node.health.reports:
            return
        try:
            await self._report(hollow_node, node)
        except KubeError as error:
            log.warning("node.report_failed", node=name, error=str(error))
            self.due_queue.put(name, self._now() + RETRY_SECONDS)
            return
        self.due_queue.put(name, self._now() + self._settings.report)

    async def _report(self, hollow_node: HollowNode, node: Node) -> None:
        now = self._clock.now()
        ready = hollow_node.health.state == "fine"
        if hollow_node.joined:
            status = {"conditions": machine.conditions(node, now, ready=ready, why=hollow_node.health.why)}
            await self._writer.set_status(Node, hollow_node.name, status, strategic=True)
            return
        await self._take_lease(node)
        await self._writer.ensure(CSINode, machine.csi_node_for(node, self._settings.drivers))
        report = machine.first_report(node, now, address=hollow_node.address, version=self._settings.version)
        if not ready:
            report["conditions"] = machine.conditions(node, now, ready=False, why=hollow_node.health.why)
        await self._writer.set_status(Node, hollow_node.name, report, strategic=True)
        await self._describe(node)
        hollow_node.joined = True
        self._pods.node_ready(hollow_node)
        log.debug("node.joined", node=hollow_node.name)

    async def _describe(self, node: Node) -> None:
        """Say on the node what programs on it would: who attaches volumes, and where they are reached."""
        labels = machine.driver_labels(node, self._settings.drivers)
        if (
            machine.ATTACHES.items() <= node.metadata.annotations.items()
            and labels.items() <= node.metadata.labels.items()
        ):
            return
        change = {"annotations": machine.ATTACHES, **({"labels": labels} if labels else {})}
        await self._writer.merge(Node, node.name, {"metadata": change})

    async def _take_lease(self, node: Node) -> None:
        lease = machine.lease_for(node, self._clock.now(), seconds=self._settings.lease_seconds)
        try:
            await self._writer.create(Lease, lease, namespace=NODE_LEASES)
        except AlreadyExists:
            await self._writer.merge(Lease, node.name, lease, namespace=NODE_LEASES)

    async def keep_alive(self) -> None:
        """Renew the leases of all nodes that are heard of, for ever."""
        while True:
            await self._clock.sleep(self._settings.heartbeat)
            alive = [
                hollow_node
                for hollow_node in self._hollow_nodes.values()
                if hollow_node.joined and hollow_node.health.reports
            ]
            for start in range(0, len(alive), LEASES_PER_TURN):
                await asyncio.gather(
                    *(self._renew(hollow_node) for hollow_node in alive[start : start + LEASES_PER_TURN])
                )
                await asyncio.sleep(0)

    async def _renew(self, hollow_node: HollowNode) -> None:
        change = {"spec": {"renewTime": machine.render_micro(self._clock.now())}}
        try:
            if await self._writer.merge(Lease, hollow_node.name, change, namespace=NODE_LEASES) is None:
                node = self._nodes.store.get(hollow_node.name)
                if node is not None:
                    await self._take_lease(node)
        except KubeError as error:
            log.warning("lease.not_renewed", node=hollow_node.name, error=str(error))
