"""The controller of node repair: deletes the NodeClaims of unhealthy Nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.core.effects import NOTHING, Step
from karpenter.core.lifecycle.health import repair
from karpenter.core.state.cluster import ClusterState, NodeClass, ObjectUpdated, StateEvent
from karpenter.kube.rest import named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.cloud.cloudprovider import RepairPolicy
    from karpenter.controllers.apireader import APIReader
    from karpenter.controllers.perform import Performer


class NodeHealth:
    """Deletes the NodeClaims of Nodes that have been unhealthy for too long."""

    name = "node.health"
    kinds: ClassVar = (Node, NodeClaim)

    def __init__(
        self,
        store: ClusterState,
        performer: Performer,
        reader: APIReader,
        clock: Clock,
        policies: tuple[RepairPolicy, ...],
    ) -> None:
        self._store = store
        self._performer = performer
        self._reader = reader
        self._clock = clock
        self._policies = policies

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """
        Return the Nodes whose conditions or whose NodeClaim an event has changed.

        A heartbeat of the kubelet changes no condition and is ignored. A Node may be unhealthy before the
        provider id of its NodeClaim is written.
        """
        item = event.object
        if not isinstance(event, ObjectUpdated):
            return
        if isinstance(item, Node):
            assert before is None or isinstance(before, Node)
            if before is None or _conditions(before) != _conditions(item):
                yield item.name
        elif isinstance(item, NodeClaim):
            assert before is None or isinstance(before, NodeClaim)
            if before is None or before.status.provider_id != item.status.provider_id:
                for node in self._store.nodes_of(item.status.provider_id):
                    yield node.name

    async def reconcile(self, key: str) -> float | None:
        node = self._store.node(key)
        if node is None:
            return None
        due = self._repair(node)
        if due.effects:
            # Repair does not drain, so the Node must be unhealthy for the API server, too.
            found = (await self._reader.list(Node, named(key))).items
            due = self._repair(found[0]) if found else NOTHING
        await self._performer.perform(due.effects)
        return due.again

    def _repair(self, node: Node) -> Step:
        claims = self._store.claims_of(node.spec.provider_id)
        view, now = self._store.view(), self._clock.now()
        pods = view.pods_by_node.get(node.name, ())
        return repair(node, claims, view.nodes.values(), self._policies, now, pods=pods)


def _conditions(node: Node) -> list[tuple[str, str, object]]:
    return [(each.type, each.status, each.last_transition_time) for each in node.status.conditions]
