"""
The hash of an EC2NodeClass, which drift is detected by, and the controller that writes it.

The hash covers the fields that are not selectors: tags, volumes, user data, kubelet settings, the role, and
so on. What is selected (subnets, security groups, AMIs, capacity reservations) is compared in
:mod:`karpenter.cloud.aws.drift`. Lists count as sets, and empty, zero or absent values do not count.

The number is our own, and so is :data:`CLASS_HASH_VERSION`, which must change with anything that is hashed:
claims with another version get the new hash instead of being replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.wire import to_plain
from karpenter.base.hashing import hash_integer, hash_set, hash_struct, hash_text
from karpenter.base.quantity import QuantityError, parse_quantity
from karpenter.cloud.aws import labels
from karpenter.core.effects import NOTHING, Amend, Step
from karpenter.core.lifecycle.conditions import DRIFTED
from karpenter.core.state.cluster import NodeClass, ObjectUpdated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from karpenter.api.meta import Resource
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.cloud.aws.cluster import EksCluster
    from karpenter.cloud.cloudprovider import ClusterObjects
    from karpenter.core.state.cluster import ClusterView, StateEvent


CLASS_HASH_VERSION: Final = "p1"

_HASHED: Final = (
    "placementGroupSelector",
    "associatePublicIPAddress",
    "userData",
    "role",
    "instanceProfile",
    "tags",
    "blockDeviceMappings",
    "instanceStorePolicy",
    "networkInterfaces",
    "detailedMonitoring",
    "metadataOptions",
    "connectionTracking",
    "context",
    "cpuOptions",
)
_SIZE: Final = "volumeSize"


def class_hash(node_class: EC2NodeClass, *, ca_bundle: str) -> str:
    """Return the hash of a class as it stands in annotations: a decimal number."""
    plain = to_plain(node_class.spec)
    hashed: dict[str, Any] = {name: plain[name] for name in _HASHED if name in plain}
    hashed["family"] = node_class.spec.family
    hashed["caBundle"] = ca_bundle
    hashed["kubelet"] = msgspec.json.encode(node_class.spec.kubelet or None, order="deterministic").decode()
    return str(_hash(hashed))


def _hash(value: Any) -> int:
    match value:
        case str():
            return hash_text(value)
        case bool() | int():
            return hash_integer(int(value))
        case list():
            return hash_set(map(_hash, value))
        case _:
            fields = ((key, _canonical(key, value[key])) for key in sorted(value))
            return hash_struct("", ((key, _hash(each)) for key, each in fields if each))


def _canonical(key: str, value: Any) -> Any:
    """Return a size spelled the way sizes are printed, so that 1024Gi is 1Ti."""
    if key != _SIZE:
        return value
    try:
        return str(parse_quantity(value))
    except QuantityError:
        return value


class NodeClassHashController:
    """Annotates node classes with their hash, and claims when the version of the hash has changed."""

    name = "nodeclass.hash"
    workers = 10

    def __init__(
        self, *, objects: ClusterObjects, view: Callable[[], ClusterView], cluster: EksCluster
    ) -> None:
        self._objects = objects
        self._view = view
        self._cluster = cluster

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the class that an event is about."""
        del before
        if isinstance(event, ObjectUpdated) and isinstance(event.object, NodeClass):
            yield event.object.name

    async def reconcile(self, key: str) -> Step:
        """Annotate one class."""
        node_class = await self._objects.get(EC2NodeClass, key)
        if node_class is None or node_class.metadata.deletion_timestamp is not None:
            return NOTHING
        joining = await self._cluster.joining()
        stamp = {
            labels.CLASS_HASH: class_hash(node_class, ca_bundle=joining.ca_bundle),
            labels.CLASS_HASH_VERSION: CLASS_HASH_VERSION,
        }
        held = node_class.metadata.annotations
        effects = []
        if held.get(labels.CLASS_HASH_VERSION) != CLASS_HASH_VERSION:
            effects += [
                stamped_anew(claim, stamp)
                for claim in self._view().claims.values()
                if claim.spec.node_class_ref.name == key
                and claim.metadata.annotations.get(labels.CLASS_HASH_VERSION) != CLASS_HASH_VERSION
            ]
        if any(held.get(name) != value for name, value in stamp.items()):
            effects.append(_amend(node_class, stamp, "its hash has changed"))
        return Step(effects=tuple(effects))


def stamped_anew(claim: NodeClaim, stamp: dict[str, str]) -> Amend:
    """Return the change that lets a claim be compared again; one that has drifted keeps its hash."""
    drifted = any(each.type == DRIFTED for each in claim.status.conditions)
    kept = {labels.CLASS_HASH_VERSION: stamp[labels.CLASS_HASH_VERSION]} if drifted else stamp
    return _amend(claim, kept, "classes are hashed in another way now")


def _amend(item: EC2NodeClass | NodeClaim, annotations: dict[str, str], because: str) -> Amend:
    return Amend(
        kind=item.kind, name=item.name, changes={"metadata": {"annotations": annotations}}, because=because
    )
