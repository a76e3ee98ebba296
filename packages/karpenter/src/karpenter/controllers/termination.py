"""The termination controller of Nodes: drains deleted Nodes and terminates their machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.errors import MachineNotFound
from karpenter.controllers.controller import call_cloud
from karpenter.core.lifecycle.conditions import has_finalizer
from karpenter.core.lifecycle.initialization import is_ready
from karpenter.core.lifecycle.termination import TerminatingNode, pending_volume_attachments, terminate_node

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.cloud.cloudprovider import CloudProvider
    from karpenter.controllers.perform import Performer
    from karpenter.core.state.cluster import ClusterState, NodeClass, StateEvent


class NodeTermination:
    """Terminates Nodes that are being deleted."""

    name = "node.termination"

    def __init__(self, store: ClusterState, performer: Performer, cloud: CloudProvider, clock: Clock) -> None:
        self._store = store
        self._performer = performer
        self._cloud = cloud
        self._clock = clock

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the terminating Nodes to reconcile after an event."""
        del before
        item = event.object
        if isinstance(item, Node) and _is_terminating(item):
            yield item.name
        elif isinstance(item, NodeClaim):
            for node in self._store.nodes_of(item.status.provider_id):
                if _is_terminating(node):
                    yield node.name

    async def reconcile(self, key: str) -> float | None:
        """Reconcile one Node."""
        node = self._store.node(key)
        if node is None or not _is_terminating(node):
            return None
        claims = self._store.claims_of(node.spec.provider_id)
        gone = await self._is_machine_gone(node)
        view = self._store.view()
        pods = view.pods_by_node.get(node.name, ())
        terminating = TerminatingNode(
            node=node,
            claim=claims[0] if len(claims) == 1 else None,
            pods=pods,
            attachments=pending_volume_attachments(view.attachments, node.name, pods, view.volume_claims),
            machine_gone=gone,
        )
        due = terminate_node(terminating, self._clock.now())
        await self._performer.perform(due.effects)
        return due.again

    async def _is_machine_gone(self, node: Node) -> bool:
        if is_ready(node):
            return False
        try:
            await call_cloud(self._cloud.get(node.spec.provider_id))
        except MachineNotFound:
            return True
        return False


def _is_terminating(node: Node) -> bool:
    return node.metadata.deletion_timestamp is not None and has_finalizer(node)
