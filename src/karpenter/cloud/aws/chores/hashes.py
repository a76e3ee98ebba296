"""The hash of each class, written on it; claims that carry one of an older version are stamped anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.cloud.aws import class_hash, words
from karpenter.core.effects import NOTHING, Amend, Step
from karpenter.core.lifecycle.conditions import DRIFTED
from karpenter.core.state.store import Put
from karpenter.core.state.view import NodeClass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from karpenter.api.meta import Resource
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.cloud.aws.cluster import Cluster
    from karpenter.cloud.surroundings import ClusterObjects
    from karpenter.core.state.store import Event
    from karpenter.core.state.view import ClusterView


class HashCare:
    """Stamps classes, and their claims when the way of hashing has changed."""

    name = "nodeclass.hash"
    workers = 10

    def __init__(self, *, objects: ClusterObjects, view: Callable[[], ClusterView], cluster: Cluster) -> None:
        self._objects = objects
        self._view = view
        self._cluster = cluster

    def wakes(self, event: Event, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the class that an event is about."""
        del before
        if isinstance(event, Put) and isinstance(event.object, NodeClass):
            yield event.object.name

    async def reconcile(self, key: str) -> Step:
        """Stamp one class."""
        node_class = await self._objects.get(EC2NodeClass, key)
        if node_class is None or node_class.metadata.deletion_timestamp is not None:
            return NOTHING
        joining = await self._cluster.joining()
        stamp = {
            words.CLASS_HASH: class_hash.class_hash(node_class, ca_bundle=joining.ca_bundle),
            words.CLASS_HASH_VERSION: class_hash.CLASS_HASH_VERSION,
        }
        held = node_class.metadata.annotations
        effects = []
        if held.get(words.CLASS_HASH_VERSION) != class_hash.CLASS_HASH_VERSION:
            effects += [
                stamped_anew(claim, stamp)
                for claim in self._view().claims.values()
                if claim.spec.node_class_ref.name == key
                and claim.metadata.annotations.get(words.CLASS_HASH_VERSION) != class_hash.CLASS_HASH_VERSION
            ]
        if any(held.get(name) != value for name, value in stamp.items()):
            effects.append(_amend(node_class, stamp, "its hash has changed"))
        return Step(effects=tuple(effects))


def stamped_anew(claim: NodeClaim, stamp: dict[str, str]) -> Amend:
    """Return the change that lets a claim be compared again; one that has drifted keeps its hash."""
    drifted = any(each.type == DRIFTED for each in claim.status.conditions)
    kept = {words.CLASS_HASH_VERSION: stamp[words.CLASS_HASH_VERSION]} if drifted else stamp
    return _amend(claim, kept, "classes are hashed in another way now")


def _amend(item: EC2NodeClass | NodeClaim, annotations: dict[str, str], because: str) -> Amend:
    return Amend(
        kind=item.kind, name=item.name, changes={"metadata": {"annotations": annotations}}, because=because
    )
