"""
Nodes, claims and pods, joined as they change.

The same join as :func:`.nodes.state_nodes` makes of a whole view, kept up to date piece by piece: a change
marks the nodes that it concerns, and only those are joined anew when somebody asks. What did not change stays
the same value, with everything that was worked out about it.
"""

from __future__ import annotations

from bisect import bisect_left
from types import MappingProxyType
from typing import TYPE_CHECKING

from karpenter.core.state.nodes import join
from karpenter.core.state.pods import is_finished

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.pod import Pod
    from karpenter.core.state.nodes import StateNode

_Names = dict[str, None]


class Fleet:
    """Every machine, as far as it is known from its node, its claim and its pods."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._claims: dict[str, NodeClaim] = {}
        self._pods: dict[str, dict[str, Pod]] = {}  # by node, then by key
        self._grouped: dict[str, tuple[Pod, ...]] = {}
        self._nodes_of: dict[str, _Names] = {}  # by provider id
        self._claims_of: dict[str, _Names] = {}  # by provider id
        self._claims_on: dict[str, _Names] = {}  # by node name
        self._old_pods: _Names = {}  # nodes whose pods changed
        self._old_nodes: _Names = {}
        self._old_claims: _Names = {}
        self._order: list[tuple[str, bool]] = []  # name, and whether it stands for a claim without a node
        self._joined: list[StateNode] = []  # in the same order

    def put_pod(self, pod: Pod | None, before: Pod | None) -> None:
        """Take in a pod as it is now, or that it is gone."""
        was = before.spec.node_name if before is not None and _counts(before) else ""
        now = pod.spec.node_name if pod is not None and _counts(pod) else ""
        if before is not None and was and was != now:
            del self._pods[was][before.key]
            self._old_pods[was] = None
        if pod is not None and now:
            self._pods.setdefault(now, {})[pod.key] = pod
            self._old_pods[now] = None

    def put_node(self, node: Node | None, before: Node | None) -> None:
        """Take in a node as it is now, or that it is gone."""
        for half in (before, node):
            if half is not None:
                self._old_nodes[half.name] = None
                self._touch_claims(self._claims_of.get(half.spec.provider_id, ()))
                self._touch_claims(self._claims_on.get(half.name, ()))
        if before is not None:
            _drop(self._nodes_of, before.spec.provider_id, before.name)
            del self._nodes[before.name]
        if node is not None:
            self._nodes[node.name] = node
            _add(self._nodes_of, node.spec.provider_id, node.name)

    def put_claim(self, claim: NodeClaim | None, before: NodeClaim | None) -> None:
        """Take in a claim as it is now, or that it is gone."""
        if before is not None:
            self.touch_claim(before.name)
            _drop(self._claims_of, before.status.provider_id, before.name)
            _drop(self._claims_on, before.status.node_name, before.name)
            del self._claims[before.name]
        if claim is not None:
            self._claims[claim.name] = claim
            _add(self._claims_of, claim.status.provider_id, claim.name)
            _add(self._claims_on, claim.status.node_name, claim.name)
            self.touch_claim(claim.name)

    def touch_claim(self, name: str) -> None:
        """Note that something about a claim changed that is not in it."""
        claim = self._claims.get(name)
        if claim is None:
            return
        self._touch_claims([name, *self._claims_of.get(claim.status.provider_id, ())])
        for node in self._nodes_of.get(claim.status.provider_id, ()):
            self._old_nodes[node] = None
        if claim.status.node_name in self._nodes:
            self._old_nodes[claim.status.node_name] = None

    def pods_by_node(self, marked: AbstractSet[str]) -> Mapping[str, tuple[Pod, ...]]:
        """Return the pods on each node, and bring the nodes up to date."""
        for name in self._old_pods:
            pods = self._pods.get(name)
            if pods:
                self._grouped[name] = tuple(pods.values())
            else:
                self._pods.pop(name, None)
                self._grouped.pop(name, None)
            if name in self._nodes:
                self._old_nodes[name] = None
            self._touch_claims(self._claims_on.get(name, ()))
        self._old_pods.clear()
        grouped = MappingProxyType(self._grouped.copy())
        self._refresh(grouped, marked)
        return grouped

    def nodes(self) -> tuple[StateNode, ...]:
        """Return every machine, by name, as of the last :meth:`pods_by_node`."""
        return tuple(self._joined)

    def nodes_by_provider(self, provider_id: str) -> tuple[Node, ...]:
        """Return the nodes that say they are one machine."""
        return tuple(self._nodes[name] for name in self._nodes_of.get(provider_id, ()))

    def claims_by_provider(self, provider_id: str) -> tuple[NodeClaim, ...]:
        """Return the claims of one machine."""
        return tuple(self._claims[name] for name in self._claims_of.get(provider_id, ()))

    def _touch_claims(self, names: Iterable[str]) -> None:
        for name in names:
            self._old_claims[name] = None

    def _refresh(self, pods: Mapping[str, tuple[Pod, ...]], marked: AbstractSet[str]) -> None:
        for name in self._old_nodes:
            node = self._nodes.get(name)
            found = join(node, self._claim_of(node), pods, marked) if node is not None else None
            self._keep((name, False), found)
        for name in self._old_claims:
            claim = self._claims.get(name)
            alone = claim is not None and bool(claim.status.provider_id) and not self._has_node(claim)
            self._keep((name, True), join(None, claim, pods, marked) if alone else None)
        self._old_nodes.clear()
        self._old_claims.clear()

    def _keep(self, entry: tuple[str, bool], found: StateNode | None) -> None:
        place = bisect_left(self._order, entry)
        held = place < len(self._order) and self._order[place] == entry
        if found is None:
            if held:
                del self._order[place], self._joined[place]
        elif held:
            self._joined[place] = found
        else:
            self._order.insert(place, entry)
            self._joined.insert(place, found)

    def _claim_of(self, node: Node) -> NodeClaim | None:
        # A node that does not say which machine it is may still be the one that a claim names.
        provider = node.spec.provider_id
        names = self._claims_of.get(provider, ()) if provider else self._claims_on.get(node.name, ())
        return self._claims[next(reversed(tuple(names)))] if names else None

    def _has_node(self, claim: NodeClaim) -> bool:
        named = self._nodes.get(claim.status.node_name)
        nodes = [*self.nodes_by_provider(claim.status.provider_id), *((named,) if named is not None else ())]
        return any(self._claim_of(node) is claim for node in nodes)


def _counts(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and not is_finished(pod)


def _add(index: dict[str, _Names], value: str, name: str) -> None:
    if value:
        index.setdefault(value, {})[name] = None


def _drop(index: dict[str, _Names], value: str, name: str) -> None:
    names = index.get(value)
    if names is not None:
        names.pop(name, None)
        if not names:
            del index[value]
