"""
StateNode: a Node, its NodeClaim and its pods, joined by provider id.

Labels, taints and resources come from the NodeClaim until the Node has registered, and from the Node after
that. A Node without a NodeClaim is not managed: pods may be scheduled to it, but Karpenter never disrupts it.
Available resources, taints and labels of a node are computed here and nowhere else.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import EMPTYING, HOSTNAME, INITIALIZED, NO_SCHEDULE, NODEPOOL, NODES, REGISTERED
from karpenter.api.meta import is_status_condition_true
from karpenter.api.node import Node, Taint
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.pod import Pod
from karpenter.core.model.resources import merge, parse_resources, pod_requests, subtract
from karpenter.core.model.taints import is_ephemeral, without
from karpenter.core.state.pod import is_owned_by_daemonset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from karpenter.core.state.cluster import ClusterView

_STATE_NODES: Final = "state_nodes"
# `kubectl cordon` sets spec.unschedulable; the node lifecycle controller adds the taint a moment later:
# https://kubernetes.io/docs/reference/labels-annotations-taints/
_CORDONED: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


class StateNode(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A Node with its NodeClaim and pods, or a launched NodeClaim whose Node has not joined yet."""

    node: Node | None = None
    claim: NodeClaim | None = None
    pods: tuple[Pod, ...] = ()
    marked: bool = False
    """Whether it is marked for deletion by a disruption command."""

    @property
    def name(self) -> str:
        """The name of the Node, or of the NodeClaim while there is no Node."""
        if self.node is not None:
            return self.node.name
        assert self.claim is not None
        return self.claim.name

    @property
    def is_managed(self) -> bool:
        """Whether it has a NodeClaim of ours."""
        return self.claim is not None

    @cached_property
    def is_registered(self) -> bool:
        """Whether the Node is registered; always true for nodes that are not managed."""
        return not self.is_managed or self._is_labelled(REGISTERED)

    @cached_property
    def is_initialized(self) -> bool:
        """Whether the Node is initialized; always true for nodes that are not managed."""
        return not self.is_managed or self._is_labelled(INITIALIZED)

    @cached_property
    def is_deleting(self) -> bool:
        """Whether it is marked for deletion, or its Node, NodeClaim or machine is being deleted."""
        if self.marked:
            return True
        objects = (self.node, self.claim)
        if any(each is not None and each.metadata.deletion_timestamp is not None for each in objects):
            return True
        return self.claim is not None and is_status_condition_true(
            self.claim.status.conditions, "InstanceTerminating"
        )

    @property
    def is_ready(self) -> bool:
        conditions = self.node.status.conditions if self.node is not None else ()
        return any(each.type == "Ready" and each.status == "True" for each in conditions)

    @cached_property
    def pool(self) -> str:
        """The NodePool it was launched for; empty for nodes that are not managed."""
        return self.labels.get(NODEPOOL, "") if self.is_managed else ""

    @cached_property
    def labels(self) -> Mapping[str, str]:
        # Before registration the kubelet may not have set all labels, so those that the NodeClaim promises
        # count: https://karpenter.sh/docs/concepts/nodeclaims/
        if self.node is not None and self.is_registered:
            own = self.node.metadata.labels
        else:
            assert self.claim is not None
            own = self.claim.metadata.labels
        return {HOSTNAME: self.name, **own}

    @cached_property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of the Node, or of the NodeClaim before registration."""
        if self.node is not None and self.is_registered:
            return self.node.metadata.annotations
        assert self.claim is not None
        return self.claim.metadata.annotations

    @cached_property
    def taints(self) -> tuple[Taint, ...]:
        """
        The taints that pods must tolerate.

        Startup taints and the taints that Kubernetes removes by itself count only after initialization:
        https://karpenter.sh/docs/concepts/nodepools/.
        """
        if self.claim is not None and (self.node is None or not self.is_registered):
            found = self.claim.spec.taints
        else:
            assert self.node is not None
            found = tuple(taint for taint in self.node.spec.taints if taint.key != EMPTYING)
            # `kubectl cordon` sets spec.unschedulable; the node controller adds the taint a moment later:
            # https://kubernetes.io/docs/concepts/architecture/nodes/#manual-node-administration
            if self.node.spec.unschedulable and not any(t.key == _CORDONED.key for t in found):
                found = (*found, _CORDONED)
        if self.claim is not None and not self.is_initialized:
            found = tuple(t for t in without(found, self.claim.spec.startup_taints) if not is_ephemeral(t))
        return found

    @cached_property
    def capacity(self) -> Mapping[str, int]:
        """The capacity of the machine, which counts as one of the resource ``nodes``."""
        return {**self._amounts("capacity"), NODES: 1}

    @cached_property
    def allocatable(self) -> Mapping[str, int]:
        return self._amounts("allocatable")

    @cached_property
    def available(self) -> Mapping[str, int]:
        """The allocatable resources less the requests of bound pods."""
        return subtract(self.allocatable, merge(pod_requests(pod) for pod in self.pods))

    @cached_property
    def daemon_requests(self) -> Mapping[str, int]:
        """The requests of the DaemonSet pods that are bound."""
        return merge(pod_requests(pod) for pod in self.pods if is_owned_by_daemonset(pod))

    def _is_labelled(self, key: str) -> bool:
        return self.node is not None and self.node.metadata.labels.get(key) == "true"

    def _amounts(self, which: str) -> dict[str, int]:
        node = parse_resources(getattr(self.node.status, which)) if self.node is not None else {}
        if self.claim is None or self.is_initialized:
            return node
        # A device plugin registers its resource after the kubelet has started, as zero at first. Until the
        # Node is initialized the amounts of the NodeClaim stand in for those, so that no second node is
        # launched: https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
        claimed = parse_resources(getattr(self.claim.status, which))
        return {**claimed, **{name: amount for name, amount in node.items() if amount or name not in claimed}}


def join(
    node: Node | None,
    claim: NodeClaim | None,
    pods: Mapping[str, tuple[Pod, ...]],
    marked: AbstractSet[str],
) -> StateNode:
    """Return the StateNode of a Node, of a NodeClaim, or of both."""
    name = node.name if node is not None else claim.status.node_name if claim is not None else ""
    is_marked = claim is not None and claim.name in marked
    return StateNode(node=node, claim=claim, pods=pods.get(name, ()), marked=is_marked)


def state_nodes(view: ClusterView) -> tuple[StateNode, ...]:
    """Return every Node and every launched NodeClaim of a view, by name; computed once per view."""
    known: tuple[StateNode, ...] | None = view.__dict__.get(_STATE_NODES)
    if known is None:
        known = view.__dict__[_STATE_NODES] = tuple(sorted(_joined(view), key=lambda each: each.name))
    return known


def set_state_nodes(view: ClusterView, nodes: tuple[StateNode, ...]) -> None:
    """Store the StateNodes of a view that were joined before, in order of their names."""
    view.__dict__[_STATE_NODES] = nodes


def _joined(view: ClusterView) -> Iterator[StateNode]:
    claims = view.claims.values()
    by_provider = {c.status.provider_id: c for c in claims if c.status.provider_id}
    by_name = {c.status.node_name: c for c in claims if c.status.node_name}
    joined = set()
    for node in view.nodes.values():
        # The cloud controller manager may set spec.providerID after the kubelet has registered the Node:
        # until then the Node is known only by the name in the NodeClaim's status.
        known = by_provider.get(node.spec.provider_id) if node.spec.provider_id else by_name.get(node.name)
        if known is not None:
            joined.add(known.name)
        yield join(node, known, view.pods_by_node, view.marked)
    for claim in claims:
        if claim.name not in joined and claim.status.provider_id:
            yield join(None, claim, view.pods_by_node, view.marked)
