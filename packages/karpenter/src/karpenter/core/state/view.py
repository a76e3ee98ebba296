"""
The cluster at one moment: every object that a decision may depend on.

Immutable. The operator makes a view from its watches, `plan` from manifests; whoever
decides cannot tell the difference. Joined nodes are in :mod:`.nodes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.cluster import Namespace, PodDisruptionBudget, PriorityClass, Service
from karpenter.api.dra import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod, PodTemplate
from karpenter.api.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from karpenter.api.workloads import DaemonSet, Deployment, ReplicaSet, ReplicationController, StatefulSet
from karpenter.core.state.pod import is_finished

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from karpenter.api.meta import Condition, Resource


class NodeClass(msgspec.Struct, frozen=True, kw_only=True):
    """As much of any provider's node class as the core needs."""

    group: str
    kind: str
    name: str
    ready: bool | None = None
    """None while nobody has said."""

    reason: str = ""
    """Why it is not ready, for programs or for people, whichever the provider says."""

    message: str = ""
    deleting: bool = False
    generation: int = 0


class ClusterView(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Objects by kind and key."""

    pods: Mapping[str, Pod] = {}
    nodes: Mapping[str, Node] = {}
    claims: Mapping[str, NodeClaim] = {}
    pools: Mapping[str, NodePool] = {}
    node_classes: Mapping[tuple[str, str, str], NodeClass] = {}
    daemon_sets: Mapping[str, DaemonSet] = {}
    deployments: Mapping[str, Deployment] = {}
    replica_sets: Mapping[str, ReplicaSet] = {}
    replication_controllers: Mapping[str, ReplicationController] = {}
    stateful_sets: Mapping[str, StatefulSet] = {}
    services: Mapping[str, Service] = {}
    namespaces: Mapping[str, Namespace] = {}
    volume_claims: Mapping[str, PersistentVolumeClaim] = {}
    volumes: Mapping[str, PersistentVolume] = {}
    storage_classes: Mapping[str, StorageClass] = {}
    csi_nodes: Mapping[str, CSINode] = {}
    attachments: Mapping[str, VolumeAttachment] = {}
    disruption_budgets: Mapping[str, PodDisruptionBudget] = {}
    priority_classes: Mapping[str, PriorityClass] = {}
    overlays: Mapping[str, NodeOverlay] = {}
    buffers: Mapping[str, CapacityBuffer] = {}
    pod_templates: Mapping[str, PodTemplate] = {}
    resource_claims: Mapping[str, ResourceClaim] = {}
    resource_claim_templates: Mapping[str, ResourceClaimTemplate] = {}
    resource_slices: Mapping[str, ResourceSlice] = {}
    device_classes: Mapping[str, DeviceClass] = {}
    marked: frozenset[str] = frozenset()
    """Claims that are about to be deleted, by name: a decision that was made and not carried out yet."""

    @cached_property
    def pods_by_node(self) -> Mapping[str, tuple[Pod, ...]]:
        """Bound pods that have not finished, by node name."""
        found: dict[str, list[Pod]] = {}
        for pod in self.pods.values():
            if pod.spec.node_name and not is_finished(pod):
                found.setdefault(pod.spec.node_name, []).append(pod)
        return {name: tuple(pods) for name, pods in found.items()}


_FIELDS: Mapping[type[Resource], str] = {
    Pod: "pods",
    Node: "nodes",
    NodeClaim: "claims",
    NodePool: "pools",
    DaemonSet: "daemon_sets",
    Deployment: "deployments",
    ReplicaSet: "replica_sets",
    ReplicationController: "replication_controllers",
    StatefulSet: "stateful_sets",
    Service: "services",
    Namespace: "namespaces",
    PersistentVolumeClaim: "volume_claims",
    PersistentVolume: "volumes",
    StorageClass: "storage_classes",
    CSINode: "csi_nodes",
    VolumeAttachment: "attachments",
    PodDisruptionBudget: "disruption_budgets",
    PriorityClass: "priority_classes",
    NodeOverlay: "overlays",
    CapacityBuffer: "buffers",
    PodTemplate: "pod_templates",
    ResourceClaim: "resource_claims",
    ResourceClaimTemplate: "resource_claim_templates",
    ResourceSlice: "resource_slices",
    DeviceClass: "device_classes",
}


def field_of(kind: type[Resource]) -> str:
    """Return the field of a view that holds objects of a kind; nothing for kinds that decide nothing."""
    return _FIELDS.get(kind, "")


def view_of(objects: Iterable[Resource], node_classes: Iterable[NodeClass] = ()) -> ClusterView:
    """Return the view of a cluster that consists of these objects; kinds that decide nothing are left out."""
    fields: dict[str, dict[str, Resource]] = {}
    for each in objects:
        if field := field_of(type(each)):
            fields.setdefault(field, {})[each.key] = each
    classes = {(each.group, each.kind, each.name): each for each in node_classes}
    return ClusterView(node_classes=classes, **fields)  # type: ignore[arg-type]


def machinery(view: ClusterView) -> tuple[object, ...]:
    """
    Return what a view knows of machines and pools, to be compared with what another knows.

    Quickly, where both are views of one store: they share what has not changed.
    """
    return view.nodes, view.claims, view.pools, view.marked


def condition(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """Return the condition of one type, if it is there."""
    return next((each for each in conditions if each.type == kind), None)


def is_true(conditions: Iterable[Condition], kind: str) -> bool:
    """Return whether a condition is there and True."""
    found = condition(conditions, kind)
    return found is not None and found.status == "True"


def since(conditions: Iterable[Condition], kind: str) -> datetime | None:
    """Return when a condition changed last."""
    found = condition(conditions, kind)
    return found.last_transition_time if found is not None else None
