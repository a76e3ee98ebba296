"""
The nodes of the fleet: each joins when its Node appears, reports that it is ready, and renews its lease.

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
from karpenter.kube.informer import Event, Removed
from karpenter_local.controllers.informers import NODE_LEASES, Informers
from karpenter_local.controllers.writer import Writer
from karpenter_local.kubelet import machine
from karpenter_local.kubelet.agenda import Agenda
from karpenter_local.kubelet.pods import PodRunner
from karpenter_local.kubelet.seats import Seat
from karpenter_local.kubelet.settings import Settings

log = structlog.stdlib.get_logger(__name__)

GROUP = 50
"""Leases renewed between two breaths."""

RETRY = 1.0


class NodeRunner:
    """Keeps nodes alive."""

    def __init__(
        self,
        seats: dict[str, Seat],
        pods: PodRunner,
        informers: Informers,
        writer: Writer,
        clock: Clock,
        *,
        settings: Settings,
    ) -> None:
        self._seats = seats
        self._pods = pods
        self._nodes = informers.nodes
        self._writer = writer
        self._clock = clock
        self._settings = settings
        self._numbers: dict[str, int] = {}
        self.agenda: Agenda[str] = Agenda()

    def subscribe(self) -> None:
        """Begin to follow nodes."""
        self._nodes.subscribe(self._node_changed)

    def report_soon(self, name: str) -> None:
        """Plan a report of a node whose health changed."""
        self.agenda.put(name, self._now())

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _node_changed(self, event: Event[Node]) -> None:
        node = event.object
        seat = self._seats.get(node.name)
        if isinstance(event, Removed):
            if seat is not None and seat.uid == node.metadata.uid:
                self._leave(seat)
        elif seat is None and self._settings.adopts(node):
            # A node that comes back under its name has its old address, as pods that are still there know it.
            number = self._numbers.setdefault(node.name, len(self._numbers) + 1)
            seat = Seat(name=node.name, uid=node.metadata.uid, number=number)
            self._seats[node.name] = seat
            self.agenda.put(node.name, self._now() + self._settings.boot)

    def _leave(self, seat: Seat) -> None:
        self._pods.forget(seat)
        self.agenda.drop(seat.name)
        del self._seats[seat.name]

    async def step(self, name: str) -> None:
        """Let a node join, or report once more."""
        seat = self._seats.get(name)
        node = self._nodes.store.get(name)
        if seat is None or node is None or not seat.health.reports:
            return
        try:
            await self._report(seat, node)
        except KubeError as error:
            log.warning("node.report_failed", node=name, error=str(error))
            self.agenda.put(name, self._now() + RETRY)
            return
        self.agenda.put(name, self._now() + self._settings.report)

    async def _report(self, seat: Seat, node: Node) -> None:
        now = self._clock.now()
        ready = seat.health.state == "fine"
        if seat.joined:
            status = {"conditions": machine.conditions(node, now, ready=ready, why=seat.health.why)}
            await self._writer.set_status(Node, seat.name, status, strategic=True)
            return
        await self._take_lease(node)
        await self._writer.ensure(CSINode, machine.csi_node_for(node, self._settings.drivers))
        report = machine.first_report(node, now, address=seat.address, version=self._settings.version)
        if not ready:
            report["conditions"] = machine.conditions(node, now, ready=False, why=seat.health.why)
        await self._writer.set_status(Node, seat.name, report, strategic=True)
        await self._describe(node)
        seat.joined = True
        self._pods.seat_ready(seat)
        log.debug("node.joined", node=seat.name)

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
            alive = [seat for seat in self._seats.values() if seat.joined and seat.health.reports]
            for start in range(0, len(alive), GROUP):
                await asyncio.gather(*(self._renew(seat) for seat in alive[start : start + GROUP]))
                await asyncio.sleep(0)

    async def _renew(self, seat: Seat) -> None:
        change = {"spec": {"renewTime": machine.render_micro(self._clock.now())}}
        try:
            if await self._writer.merge(Lease, seat.name, change, namespace=NODE_LEASES) is None:
                node = self._nodes.store.get(seat.name)
                if node is not None:
                    await self._take_lease(node)
        except KubeError as error:
            log.warning("lease.not_renewed", node=seat.name, error=str(error))
