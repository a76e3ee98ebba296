"""
Cluster state: the objects that the informers have seen, and immutable views of them.

:class:`ClusterView` is the cluster at one moment and the input of every decision. The operator takes it from
:class:`ClusterState`, which the informers keep current; `plan` and `replay` build it from objects with
:func:`view_of`. A decision cannot tell the difference.

:class:`ClusterState` has one writer, which calls :meth:`ClusterState.apply`. A view stays the same value
until something changes. The next view copies only the kinds that changed, and :class:`StateNodeIndex` joins
only the nodes that changed. Beside the objects it holds what no object says: nominations of nodes, NodeClaims
marked for deletion, and when each pending pod was first seen. A restart may lose all of that without harm.

This module does no I/O and makes no decision. A Node, its NodeClaim and its pods are joined in
:mod:`.statenode`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.cluster import Namespace, PodDisruptionBudget, PriorityClass, Service
from karpenter.api.dra import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.api.meta import Resource, is_status_condition_true, to_plain
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
from karpenter.core.model.pricing import NodeVolume
from karpenter.core.state.pod import is_terminal, is_terminating
from karpenter.core.state.statenode import StateNode, join, set_state_nodes, state_nodes

if TYPE_CHECKING:
    from datetime import datetime


_Names = dict[str, None]

_PODS: Final = "pods"
_CLASSES: Final = "node_classes"
# Heartbeats and other status changes must not start a consolidation search, which is expensive.
_CONSOLIDATION_CONDITIONS: Final = ("Initialized", "Consolidatable", "Drifted", "InstanceTerminating")
"""Conditions of a NodeClaim whose change can make a consolidation possible."""

_FIELDS: Final[Mapping[type[Resource], str]] = {
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


class NodeClass(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a provider's node class that the core reads."""

    group: str
    kind: str
    name: str
    ready: bool | None = None
    """Status of its Ready condition; None while that is Unknown or missing."""

    reason: str = ""
    """Reason of its Ready condition."""

    message: str = ""
    causes: tuple[str, ...] = ()
    """Conditions that keep it from being ready, each with its message."""

    deleting: bool = False
    generation: int = 0
    volumes: tuple[NodeVolume, ...] = ()
    """The volumes that its machines have."""

    public_ipv4: bool = False
    """Whether its machines have a public address."""

    zones: tuple[str, ...] = ()
    """Those of its subnets; none where they have not been looked for."""


def node_class(item: Any, group: str, kind: str) -> NodeClass:
    """Return the fields of a node class that the core reads, from a struct or a dictionary."""
    plain: dict[str, Any] = item if isinstance(item, dict) else to_plain(item)
    meta = plain.get("metadata", {})
    conditions = plain.get("status", {}).get("conditions") or []
    if not isinstance(item, dict):
        conditions = [{"status": "Unknown", **to_plain(each)} for each in item.status.conditions]
    ready: dict[str, Any] = next((each for each in conditions if each.get("type") == "Ready"), {})
    status = ready.get("status", "Unknown")
    return NodeClass(
        group=group,
        kind=kind,
        name=meta.get("name", ""),
        ready=None if status == "Unknown" else status == "True",
        reason=ready.get("reason", ""),
        message=ready.get("message", ""),
        causes=_causes(conditions) if status != "True" else (),
        deleting="deletionTimestamp" in meta,
        generation=meta.get("generation", 0),
    )


def _causes(conditions: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return the conditions beside Ready that do not hold, with what they say; those that are False first."""
    parts = [each for each in conditions if each.get("type") != "Ready" and each.get("status") != "True"]
    refused = [each for each in parts if each.get("status") == "False"] or parts
    return tuple(
        f"{each.get('type', '')}: {told}" if told else str(each.get("type", ""))
        for each in refused
        for told in [each.get("message") or each.get("reason") or ""]
    )


class ClusterView(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The cluster at one moment: objects by kind and key."""

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
    """Names of NodeClaims that are marked for deletion: a disruption command has been decided for them."""

    @cached_property
    def pods_by_node(self) -> Mapping[str, tuple[Pod, ...]]:
        """Bound pods that have not finished, by node name."""
        found: dict[str, list[Pod]] = {}
        for pod in self.pods.values():
            if pod.spec.node_name and not is_terminal(pod):
                found.setdefault(pod.spec.node_name, []).append(pod)
        return {name: tuple(pods) for name, pods in found.items()}


def view_field(kind: type[Resource]) -> str:
    """Return the field of a view that holds objects of a kind; empty for kinds that no decision reads."""
    return _FIELDS.get(kind, "")


def view_of(objects: Iterable[Resource], node_classes: Iterable[NodeClass] = ()) -> ClusterView:
    """Return the view of a cluster of these objects; kinds that no decision reads are left out."""
    fields: dict[str, dict[str, Resource]] = {}
    for each in objects:
        if field := view_field(type(each)):
            fields.setdefault(field, {})[each.key] = each
    classes = {(each.group, each.kind, each.name): each for each in node_classes}
    return ClusterView(node_classes=classes, **fields)  # type: ignore[arg-type]


def nodes_and_pools(view: ClusterView) -> tuple[object, ...]:
    """
    Return the nodes and pools of a view, for a comparison with another view.

    Views of one ClusterState share what has not changed, so the comparison is cheap.
    """
    return view.nodes, view.claims, view.pools, view.marked


class StateNodeIndex:
    """
    The StateNodes of a cluster, joined piece by piece.

    The result is the same as :func:`.statenode.state_nodes` makes of a whole view. A change marks the nodes
    and claims that it concerns as stale, and only those are joined again on the next read.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._claims: dict[str, NodeClaim] = {}
        self._pods: dict[str, dict[str, Pod]] = {}  # by node, then by key
        self._grouped: dict[str, tuple[Pod, ...]] = {}
        self._nodes_of: dict[str, _Names] = {}  # by provider id
        self._claims_of: dict[str, _Names] = {}  # by provider id
        self._claims_on: dict[str, _Names] = {}  # by node name
        self._stale_pods: _Names = {}  # nodes whose pods changed
        self._stale_nodes: _Names = {}
        self._stale_claims: _Names = {}
        self._order: list[tuple[str, bool]] = []  # name, and whether it is a NodeClaim without a Node
        self._joined: list[StateNode] = []  # in the same order

    def update_pod(self, pod: Pod | None, before: Pod | None) -> None:
        """Replace a pod; `pod` is None when it was deleted."""
        was = before.spec.node_name if before is not None and _counts(before) else ""
        now = pod.spec.node_name if pod is not None and _counts(pod) else ""
        if before is not None and was and was != now:
            del self._pods[was][before.key]
            self._stale_pods[was] = None
        if pod is not None and now:
            self._pods.setdefault(now, {})[pod.key] = pod
            self._stale_pods[now] = None

    def update_node(self, node: Node | None, before: Node | None) -> None:
        """Replace a Node; `node` is None when it was deleted."""
        for half in (before, node):
            if half is not None:
                self._stale_nodes[half.name] = None
                self._invalidate_claims(self._claims_of.get(half.spec.provider_id, ()))
                self._invalidate_claims(self._claims_on.get(half.name, ()))
        if before is not None:
            _drop(self._nodes_of, before.spec.provider_id, before.name)
            del self._nodes[before.name]
        if node is not None:
            self._nodes[node.name] = node
            _add(self._nodes_of, node.spec.provider_id, node.name)

    def update_claim(self, claim: NodeClaim | None, before: NodeClaim | None) -> None:
        """Replace a NodeClaim; `claim` is None when it was deleted."""
        if before is not None:
            self.invalidate_claim(before.name)
            _drop(self._claims_of, before.status.provider_id, before.name)
            _drop(self._claims_on, before.status.node_name, before.name)
            del self._claims[before.name]
        if claim is not None:
            self._claims[claim.name] = claim
            _add(self._claims_of, claim.status.provider_id, claim.name)
            _add(self._claims_on, claim.status.node_name, claim.name)
            self.invalidate_claim(claim.name)

    def invalidate_claim(self, name: str) -> None:
        """Join a NodeClaim again on the next read, as when its mark for deletion has changed."""
        claim = self._claims.get(name)
        if claim is None:
            return
        self._invalidate_claims([name, *self._claims_of.get(claim.status.provider_id, ())])
        for node in self._nodes_of.get(claim.status.provider_id, ()):
            self._stale_nodes[node] = None
        if claim.status.node_name in self._nodes:
            self._stale_nodes[claim.status.node_name] = None

    def pods_by_node(self, marked: AbstractSet[str]) -> Mapping[str, tuple[Pod, ...]]:
        """Return the pods of each node, and join what is stale."""
        for name in self._stale_pods:
            pods = self._pods.get(name)
            if pods:
                self._grouped[name] = tuple(pods.values())
            else:
                self._pods.pop(name, None)
                self._grouped.pop(name, None)
            if name in self._nodes:
                self._stale_nodes[name] = None
            self._invalidate_claims(self._claims_on.get(name, ()))
        self._stale_pods.clear()
        grouped = MappingProxyType(self._grouped.copy())
        self._refresh(grouped, marked)
        return grouped

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        return tuple(self._pods.get(node, {}).values())

    def nodes(self) -> tuple[StateNode, ...]:
        """Return every StateNode by name, as of the last :meth:`pods_by_node`."""
        return tuple(self._joined)

    def nodes_by_provider(self, provider_id: str) -> tuple[Node, ...]:
        return tuple(self._nodes[name] for name in self._nodes_of.get(provider_id, ()))

    def claims_by_provider(self, provider_id: str) -> tuple[NodeClaim, ...]:
        return tuple(self._claims[name] for name in self._claims_of.get(provider_id, ()))

    def _invalidate_claims(self, names: Iterable[str]) -> None:
        for name in names:
            self._stale_claims[name] = None

    def _refresh(self, pods: Mapping[str, tuple[Pod, ...]], marked: AbstractSet[str]) -> None:
        for name in self._stale_nodes:
            node = self._nodes.get(name)
            found = join(node, self._claim_of(node), pods, marked) if node is not None else None
            self._store_joined((name, False), found)
        for name in self._stale_claims:
            claim = self._claims.get(name)
            alone = claim is not None and bool(claim.status.provider_id) and not self._has_node(claim)
            self._store_joined((name, True), join(None, claim, pods, marked) if alone else None)
        self._stale_nodes.clear()
        self._stale_claims.clear()

    def _store_joined(self, entry: tuple[str, bool], found: StateNode | None) -> None:
        place = bisect_left(self._order, entry)
        stored = place < len(self._order) and self._order[place] == entry
        if found is None:
            if stored:
                del self._order[place], self._joined[place]
        elif stored:
            self._joined[place] = found
        else:
            self._order.insert(place, entry)
            self._joined.insert(place, found)

    def _claim_of(self, node: Node) -> NodeClaim | None:
        # The cloud controller manager may set spec.providerID after the kubelet has registered the Node:
        # until then the Node is known only by the name in the NodeClaim's status.
        provider = node.spec.provider_id
        names = self._claims_of.get(provider, ()) if provider else self._claims_on.get(node.name, ())
        return self._claims[next(reversed(tuple(names)))] if names else None

    def _has_node(self, claim: NodeClaim) -> bool:
        named = self._nodes.get(claim.status.node_name)
        nodes = [*self.nodes_by_provider(claim.status.provider_id), *((named,) if named is not None else ())]
        return any(self._claim_of(node) is claim for node in nodes)


def _counts(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and not is_terminal(pod)


def _add(index: dict[str, _Names], value: str, name: str) -> None:
    if value:
        index.setdefault(value, {})[name] = None


def _drop(index: dict[str, _Names], value: str, name: str) -> None:
    names = index.get(value)
    if names is not None:
        names.pop(name, None)
        if not names:
            del index[value]


class ObjectUpdated(msgspec.Struct, frozen=True):
    """An object was added or modified."""

    object: Resource | NodeClass


class ObjectDeleted(msgspec.Struct, frozen=True):
    """An object was deleted; `object` is its last known state."""

    object: Resource | NodeClass


StateEvent: TypeAlias = ObjectUpdated | ObjectDeleted
StateListener: TypeAlias = "Callable[[StateEvent, Resource | NodeClass | None], None]"
"""Called after an event was applied, with the event and the object's state before it."""


class ClusterState:
    """The cluster as the informers have reported it, with one writer."""

    def __init__(self, *, serves: Iterable[tuple[str, str]] | None) -> None:
        """
        Start empty.

        `serves` names the group and kind of each node class of our provider. NodePools and NodeClaims of
        other node classes belong to another Karpenter and are ignored. None stands for every node class,
        for a reader that decides nothing.
        """
        self._serves = frozenset(serves) if serves is not None else None
        self._objects: dict[str, dict[Any, Any]] = {}
        self._copies: dict[str, Mapping[Any, Any]] = {}
        self._changed: set[str] = set()
        self._index = StateNodeIndex()
        self._marked: frozenset[str] = frozenset()
        self._nominated_until: dict[str, datetime] = {}
        self._seen_at: dict[str, datetime] = {}
        self._unlaunched: set[str] = set()
        self._view: ClusterView | None = None
        self._subscribed: list[tuple[StateListener, tuple[type[Resource | NodeClass], ...]]] = []
        self._listeners: dict[type[Resource | NodeClass], tuple[StateListener, ...]] = {}
        self.complete = False
        """Whether every informer has listed its kind once."""

        self.consolidation_state = 0
        """Rises with every change that can make a consolidation possible."""

    def apply(self, event: StateEvent) -> None:
        if isinstance(event, ObjectUpdated) and self._is_ours(event.object):
            self._upsert(event.object)
        else:
            self._delete(event.object)

    def subscribe(self, listener: StateListener, kinds: tuple[type[Resource | NodeClass], ...] = ()) -> None:
        """Call `listener` after every event from now on, or after those about objects of `kinds`."""
        self._subscribed.append((listener, kinds))
        self._listeners.clear()

    def mark_for_deletion(self, claims: Iterable[str]) -> None:
        self._set_marked(self._marked.union(claims))

    def unmark_for_deletion(self, claims: Iterable[str]) -> None:
        """Remove the mark for deletion from these NodeClaims."""
        self._set_marked(self._marked.difference(claims))

    def nominate(self, node: str, until: datetime) -> None:
        """Nominate a Node or NodeClaim for a pending pod until a time."""
        self._nominated_until[node] = max(until, self._nominated_until.get(node, until))

    def acknowledge(self, pod: str, now: datetime) -> datetime:
        """Note that a pending pod was seen, and return when it was first seen."""
        return self._seen_at.setdefault(pod, now)

    def view(self) -> ClusterView:
        """Return the state as a value; the same value until something changes."""
        if self._view is None:
            for field in self._changed:
                self._copies[field] = MappingProxyType(self._objects[field].copy())
            self._changed.clear()
            view = ClusterView(marked=self._marked, **self._copies)
            view.__dict__["pods_by_node"] = self._index.pods_by_node(self._marked)
            set_state_nodes(view, self._index.nodes())
            self._view = view
        return self._view

    @property
    def synced(self) -> bool:
        """Whether a decision may be made: every kind was listed, and every NodeClaim has a provider id."""
        return self.complete and not self._unlaunched

    @property
    def launching(self) -> int:
        """How many NodeClaims have no provider id yet."""
        return len(self._unlaunched)

    @property
    def unlaunched(self) -> frozenset[str]:
        """Names of the NodeClaims that have no provider id yet."""
        return frozenset(self._unlaunched)

    @property
    def marked(self) -> frozenset[str]:
        """Names of the NodeClaims that are marked for deletion."""
        return self._marked

    def nominated(self, now: datetime) -> frozenset[str]:
        """Return the names of the nodes that are nominated for pending pods."""
        self._nominated_until = {name: until for name, until in self._nominated_until.items() if until > now}
        if not self._nominated_until:
            return frozenset()
        return frozenset(
            node.name
            for node in state_nodes(self.view())
            if node.name in self._nominated_until
            or (node.claim is not None and node.claim.name in self._nominated_until)
        )

    def first_seen(self, pod: str) -> datetime | None:
        return self._seen_at.get(pod)

    def claim(self, name: str) -> NodeClaim | None:
        found: NodeClaim | None = self._objects.get("claims", {}).get(name)
        return found

    def node(self, name: str) -> Node | None:
        found: Node | None = self._objects.get("nodes", {}).get(name)
        return found

    def pool(self, name: str) -> NodePool | None:
        found: NodePool | None = self._objects.get("pools", {}).get(name)
        return found

    def pools(self) -> tuple[NodePool, ...]:
        """Return every pool; a view, of which nothing else is read, would copy all pods."""
        return tuple(self._objects.get("pools", {}).values())

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        return self._index.pods_on(node)

    def pod(self, key: str) -> Pod | None:
        found: Pod | None = self._objects.get(_PODS, {}).get(key)
        return found

    def nodes_of(self, provider_id: str) -> tuple[Node, ...]:
        """Return the Nodes with a provider id; more than one is a duplicate registration."""
        return self._index.nodes_by_provider(provider_id)

    def claims_of(self, provider_id: str) -> tuple[NodeClaim, ...]:
        """Return the NodeClaims with a provider id; more than one is an error of a provider."""
        return self._index.claims_by_provider(provider_id)

    def _is_ours(self, item: Resource | NodeClass) -> bool:
        if self._serves is None:
            return True
        if isinstance(item, NodeClaim):
            ref = item.spec.node_class_ref
        elif isinstance(item, NodePool):
            ref = item.spec.template.spec.node_class_ref
        else:
            return True
        return (ref.group, ref.kind) in self._serves

    def _upsert(self, item: Resource | NodeClass) -> None:
        field, key = _location(item)
        if not field:
            return
        stored = self._objects.setdefault(field, {})
        before = stored.get(key)
        stored[key] = item
        self._changed_object(field, item, before)
        self._notify(ObjectUpdated(item), before)

    def _delete(self, item: Resource | NodeClass) -> None:
        field, key = _location(item)
        before = self._objects.get(field, {}).pop(key, None)
        if before is None:
            return
        self._changed_object(field, None, before)
        self._notify(ObjectDeleted(before), before)

    def _changed_object(self, field: str, item: Any, before: Any) -> None:
        """Update everything that is derived from the objects after one change."""
        self._changed.add(field)
        self._view = None
        kind = type(item if item is not None else before)
        if kind is Pod:
            self._pod_changed(item, before)
        elif kind is Node:
            self._index.update_node(item, before)
            self.consolidation_state += _node_inputs(item) != _node_inputs(before)
        elif kind is NodeClaim:
            self._claim_changed(item, before)
        elif kind is NodePool or kind is NodeOverlay:
            self.consolidation_state += _spec_inputs(item) != _spec_inputs(before)
        elif kind is DaemonSet:
            self.consolidation_state += _generation(item) != _generation(before)
        elif kind is NodeClass:
            self.consolidation_state += item != before  # it holds no more than decisions read

    def _pod_changed(self, pod: Pod | None, before: Pod | None) -> None:
        self._index.update_pod(pod, before)
        last = pod or before
        assert last is not None
        bound = pod is not None and bool(pod.spec.node_name)
        if pod is None or bound or is_terminal(pod):
            self._seen_at.pop(last.key, None)
        self.consolidation_state += pod is None or (bound and _pod_inputs(pod) != _pod_inputs(before))

    def _claim_changed(self, claim: NodeClaim | None, before: NodeClaim | None) -> None:
        self._index.update_claim(claim, before)
        last = claim or before
        assert last is not None
        if claim is None:
            self._marked -= {last.name}
        waits = claim is not None and not claim.status.provider_id and not claim.metadata.deletion_timestamp
        (self._unlaunched.add if waits else self._unlaunched.discard)(last.name)
        self.consolidation_state += _claim_inputs(claim) != _claim_inputs(before)

    def _set_marked(self, marked: frozenset[str]) -> None:
        for name in marked ^ self._marked:
            self._index.invalidate_claim(name)
        if marked != self._marked:
            self._marked = marked
            self._view = None
            self.consolidation_state += 1

    def _notify(self, event: StateEvent, before: Resource | NodeClass | None) -> None:
        kind = type(event.object)
        listeners = self._listeners.get(kind)
        if listeners is None:
            found = tuple(each for each, kinds in self._subscribed if not kinds or issubclass(kind, kinds))
            listeners = self._listeners[kind] = found
        for listener in listeners:
            listener(event, before)


def _location(item: Resource | NodeClass) -> tuple[str, Any]:
    if isinstance(item, NodeClass):
        return _CLASSES, (item.group, item.kind, item.name)
    return view_field(type(item)), item.key


def _spec_inputs(item: NodePool | NodeOverlay | None) -> tuple[object, ...]:
    """Return the fields of a NodePool or NodeOverlay that consolidation depends on."""
    if item is None:
        return ()
    return item.metadata.generation, is_status_condition_true(item.status.conditions, "Ready")


def _generation(item: DaemonSet | None) -> int | None:
    """Return what changes with the requests of a DaemonSet, and not with the count of its pods."""
    return item.metadata.generation if item is not None else None


def _node_inputs(node: Node | None) -> tuple[object, ...]:
    """Return the fields of a Node that decide whether it is a candidate and which pods fit it."""
    if node is None:
        return ()
    meta, spec = node.metadata, node.spec
    return (
        any(each.type == "Ready" and each.status == "True" for each in node.status.conditions),
        meta.labels,
        meta.annotations.get(DO_NOT_DISRUPT),
        meta.deletion_timestamp is not None,
        spec.taints,
        spec.unschedulable,
    )


def _pod_inputs(pod: Pod | None) -> tuple[object, ...]:
    """Return the fields of a pod that decide whether its node is a candidate, and at what disruption cost."""
    if pod is None or not pod.spec.node_name:
        return ()
    return is_terminal(pod), is_terminating(pod), pod.metadata.annotations.get(DO_NOT_DISRUPT)


def _claim_inputs(claim: NodeClaim | None) -> tuple[bool, ...]:
    """Return the fields of a NodeClaim that consolidation depends on."""
    if claim is None:
        return ()
    conditions = claim.status.conditions
    return (
        claim.metadata.deletion_timestamp is not None,
        *(is_status_condition_true(conditions, kind) for kind in _CONSOLIDATION_CONDITIONS),
    )
