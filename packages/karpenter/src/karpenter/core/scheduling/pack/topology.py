"""
Topology: the groups of one run that spread and affinity count, and which of them limit each pod.

Every group that any pod of the run names is set up before the first pod is placed, with the bound pods
counted in. Placing a pod then counts it in every group that selects it
(:class:`.topologycounts.TopologyCounts`), so that later pods see it. Required anti-affinity works in both
directions: an inverse group counts the pods that have the term and limits the pods that the term selects,
as kube-scheduler does (https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from karpenter.api.meta import LabelSelector, LabelSelectorRequirement
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.selectors import EVERYTHING, parse_selector
from karpenter.core.scheduling.encode.preferences import Relaxation, node_terms, required_anti_affinity
from karpenter.core.scheduling.pack.topologygroup import TopologyGroup, TopologyGroupKey, TopologyType
from karpenter.core.scheduling.pack.topologynodefilter import NodeFilter, spread_node_filter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from karpenter.api.node import Taint
    from karpenter.api.pod import Pod, PodAffinityTerm, TopologySpreadConstraint
    from karpenter.core.scheduling.encode.encode import PodConstraints
    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.problem import ExistingNode, Problem, TopologyNode


_DemandsByTerm: TypeAlias = "dict[tuple[TopologyType, int], TopologyDemand]"

_EVERY_NODE: Final = NodeFilter()


class TopologyDemand(msgspec.Struct, frozen=True):
    """A topology group that limits a pod, and whether the group selects the pod itself."""

    group: TopologyGroup
    self_selecting: bool


class TopologyDemands(msgspec.Struct, frozen=True):
    """The topology groups that limit a pod under one relaxation."""

    domains: tuple[TopologyDemand, ...] = ()
    """Groups over the values of a label."""

    hosts: tuple[TopologyDemand, ...] = ()
    """Groups over kubernetes.io/hostname, whose domains are the bins."""

    depends_on_counts: bool = False
    """Whether a bin that refuses a pod now may take it once other pods are placed."""


_NOTHING: Final = TopologyDemands()


class Topology:
    """All topology groups of one run."""

    def __init__(self, problem: Problem, templates: Sequence[Template]) -> None:
        self._problem = problem
        self._templates = templates
        self._groups: dict[TopologyGroupKey, TopologyGroup] = {}
        self._bins = {node.name: number for number, node in enumerate(problem.nodes)}
        self._nodes = {node.name: node for node in problem.topology_nodes}
        self._by_domain: dict[str, dict[str, list[TopologyNode]]] = {}
        self._bound = _BoundPods(problem)
        self._counted: dict[tuple[NodeFilter, str], bool] = {}
        self._stated_by: dict[tuple[int, int], tuple[TopologyDemand, ...]] = {}
        """What the relaxations of pod constraints name, by their number and position."""

        self._inverse_by: dict[int, tuple[TopologyDemand, ...]] = {}
        """The anti-affinity of other pods that limits pods, by the number of their constraints."""

        self._demands: dict[tuple[int, int], TopologyDemands] = {}
        """By the number of the constraints and the identity of what they name."""

        self._by_selector = _GroupIndex()
        self._inverse = _GroupIndex()
        for located in problem.bound_pods:
            for term in required_anti_affinity(located.pod.spec):
                self._add_inverse(located.pod, term, located.node)

    def prepare(self, different: Iterable[PodConstraints]) -> None:
        """Set up every group that pods with these constraints name under any relaxation."""
        for constraints in different:
            known: _DemandsByTerm = {}
            before: Relaxation | None = None
            for position, relaxation in enumerate(constraints.relaxations):
                key = constraints.number, position
                self._stated_by[key] = (
                    self._stated_by[constraints.number, position - 1]
                    if before is not None and _names_the_same(relaxation, before)
                    else tuple(self._stated(constraints, relaxation, known))
                )
                before = relaxation
            for term in required_anti_affinity(constraints.example.spec):
                self._group(self._inverse_key(constraints.example, term), self._inverse)

    def demands(self, constraints: PodConstraints, position: int) -> TopologyDemands:
        """Return the groups that limit pods under one relaxation of constraints that were prepared."""
        stated = self._stated_by[constraints.number, position]
        key = constraints.number, id(stated)  # the tuple is kept, so no other object has its id
        known = self._demands.get(key)
        if known is None:
            known = self._demands[key] = self._limiting((*stated, *self._inverse_demands(constraints)))
        return known

    def _inverse_demands(self, constraints: PodConstraints) -> tuple[TopologyDemand, ...]:
        found = self._inverse_by.get(constraints.number)
        if found is None:
            found = self._inverse_by[constraints.number] = tuple(
                TopologyDemand(group, False)
                for group in self._inverse.selecting(constraints.namespace, constraints.labels)
            )
        return found

    @staticmethod
    def _limiting(found: tuple[TopologyDemand, ...]) -> TopologyDemands:
        if not found:
            return _NOTHING
        domains = tuple(d for d in found if not d.group.by_host)
        hosts = tuple(d for d in found if d.group.by_host)
        depends = bool(domains) or any(d.group.kind is TopologyType.POD_AFFINITY for d in hosts)
        return TopologyDemands(domains, hosts, depends)

    def counting(self, constraints: PodConstraints) -> tuple[TopologyGroup, ...]:
        """Return the groups that count pods with these constraints wherever they are placed."""
        selecting = self._by_selector.selecting(constraints.namespace, constraints.labels)
        groups = dict.fromkeys(selecting)  # in their order, each once
        # Anti-affinity is symmetric: a running pod keeps off the pods that its own term selects:
        # https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
        for term in required_anti_affinity(constraints.example.spec):
            group = self._groups[self._inverse_key(constraints.example, term)]
            groups.setdefault(group)
        return tuple(groups)

    def counts_labels(self, group: TopologyGroup, labels: Requirements, taints: Sequence[Taint]) -> bool:
        """Return whether a group counts nodes with these labels and taints."""
        return group.spec.filter.matches(labels, taints)

    def counts_node(self, group: TopologyGroup, node: ExistingNode | TopologyNode) -> bool:
        if group.spec.filter == _EVERY_NODE:
            return True
        key = (group.spec.filter, node.name)
        if key not in self._counted:
            self._counted[key] = group.spec.filter.matches(Requirements.from_labels(node.labels), node.taints)
        return self._counted[key]

    def _stated(
        self, constraints: PodConstraints, relaxation: Relaxation, known: _DemandsByTerm
    ) -> Iterator[TopologyDemand]:
        """Yield what a relaxation names; `known` is what the terms of others name, by identity."""
        pod = constraints.example
        for spread in relaxation.spreads:
            # A missing selector matches no pods:
            # https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/
            if spread.label_selector is not None:  # a spread that selects nothing limits nothing
                key = TopologyType.SPREAD, id(spread)
                if key not in known:
                    known[key] = self._demand(constraints, self._spread_key(pod, spread))
                yield known[key]
        for kind, terms in (
            (TopologyType.POD_AFFINITY, relaxation.pod_affinity),
            (TopologyType.POD_ANTI_AFFINITY, relaxation.pod_anti_affinity),
        ):
            for term in terms:
                key = kind, id(term)
                if key not in known:
                    known[key] = self._demand(constraints, self._term_key(pod, term, kind))
                yield known[key]

    def _demand(self, constraints: PodConstraints, key: TopologyGroupKey) -> TopologyDemand:
        group = self._group(key, self._by_selector)
        return TopologyDemand(group, group.selects(constraints.namespace, constraints.labels))

    def _spread_key(self, pod: Pod, spread: TopologySpreadConstraint) -> TopologyGroupKey:
        terms = [Requirements.from_entries(term.match_expressions) for term in node_terms(pod.spec)]
        return TopologyGroupKey(
            TopologyType.SPREAD,
            spread.topology_key,
            frozenset({pod.metadata.namespace}),
            parse_selector(_with_keys(spread.label_selector, pod, spread.match_label_keys)),
            spread.max_skew,
            # Without minDomains the constraint behaves as if it were 1:
            # https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/
            spread.min_domains or 1,
            spread_node_filter(pod.spec, spread, terms),
        )

    def _term_key(self, pod: Pod, term: PodAffinityTerm, kind: TopologyType) -> TopologyGroupKey:
        selector = _with_keys(term.label_selector, pod, term.match_label_keys, term.mismatch_label_keys)
        return TopologyGroupKey(
            kind, term.topology_key, self._namespaces(pod, term), parse_selector(selector)
        )

    def _inverse_key(self, pod: Pod, term: PodAffinityTerm) -> TopologyGroupKey:
        return self._term_key(pod, term, TopologyType.INVERSE_ANTI_AFFINITY)

    def _namespaces(self, pod: Pod, term: PodAffinityTerm) -> frozenset[str] | None:
        # No namespaceSelector means the listed namespaces, or that of the pod; an empty one means every
        # namespace:
        # https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
        if term.namespace_selector is None:
            return frozenset(term.namespaces or (pod.metadata.namespace,))
        selector = parse_selector(term.namespace_selector)
        if selector == EVERYTHING:
            return None
        known = self._problem.namespaces
        return frozenset(n for n, labels in known.items() if selector.matches(labels)) | frozenset(
            term.namespaces
        )

    def _group(self, key: TopologyGroupKey, index: _GroupIndex) -> TopologyGroup:
        found = self._groups.get(key)
        if found is None:
            found = self._groups[key] = TopologyGroup(key)
            index.add(found)
            self._fill(found)
        return found

    def _add_inverse(self, pod: Pod, term: PodAffinityTerm, node: str) -> None:
        group = self._group(self._inverse_key(pod, term), self._inverse)
        self._count(group, node, 1)

    def _fill(self, group: TopologyGroup) -> None:
        """Register every domain there could be, and count the pods that run already."""
        if not group.by_host:
            self._add_domains(group)
        if group.kind is TopologyType.INVERSE_ANTI_AFFINITY:
            return
        for equal in self._bound.that_may_match(group):
            if group.selects(equal.namespace, equal.labels):
                for node, count in equal.nodes.items():
                    self._count(group, node, count)

    def _add_domains(self, group: TopologyGroup) -> None:
        for template in self._templates:
            # nodeTaintsPolicy Honor: a NodePool whose taints the pod does not tolerate is no domain for it:
            # https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/
            if group.spec.filter.tolerates(template.pool.taints):
                group.add_domains(template.domains(group.key))
        for domain, nodes in self._domains_of(group.key).items():
            if domain not in group.counts and any(self.counts_node(group, node) for node in nodes):
                group.add_domains((domain,))

    def _domains_of(self, key: str) -> dict[str, list[TopologyNode]]:
        """Return the nodes of each domain of a topology key, which many groups share."""
        found = self._by_domain.get(key)
        if found is None:
            found = self._by_domain[key] = {}
            for node in self._nodes.values():
                if key in node.labels:
                    found.setdefault(node.labels[key], []).append(node)
        return found

    def _count(self, group: TopologyGroup, name: str, count: int) -> None:
        node = self._nodes.get(name)
        if node is None or not self.counts_node(group, node):
            return
        if not group.by_host:
            if (domain := node.labels.get(group.key)) is not None:
                group.add(domain, count)
        elif name in self._bins:
            group.hosts.add(self._bins[name], count)
        else:
            group.hosts.elsewhere += count


def _names_the_same(one: Relaxation, other: Relaxation) -> bool:
    return (
        one.spreads is other.spreads
        and one.pod_affinity is other.pod_affinity
        and one.pod_anti_affinity is other.pod_anti_affinity
    )


class _EqualPods(msgspec.Struct):
    """Bound pods with equal labels: how many on each node."""

    namespace: str
    labels: dict[str, str]
    nodes: Counter[str]


class _BoundPods:
    """All bound pods, found by their labels."""

    def __init__(self, problem: Problem) -> None:
        self._all: dict[tuple[str, frozenset[tuple[str, str]]], _EqualPods] = {}
        self._by_label: dict[tuple[str, str], list[_EqualPods]] = {}
        for located in problem.bound_pods:
            meta = located.pod.metadata
            key = (meta.namespace, frozenset(meta.labels.items()))
            equal = self._all.get(key)
            if equal is None:
                equal = self._all[key] = _EqualPods(meta.namespace, meta.labels, Counter())
                for label in meta.labels.items():
                    self._by_label.setdefault(label, []).append(equal)
            equal.nodes[located.node] += 1

    def that_may_match(self, group: TopologyGroup) -> Iterable[_EqualPods]:
        label = _label_of(group)
        return self._all.values() if label is None else self._by_label.get(label, ())


def _label_of(group: TopologyGroup) -> tuple[str, str] | None:
    """Return a label that every pod of a group must have, if its selector names one."""
    for condition in group.spec.selector.conditions or ():
        if not condition.negated and condition.values is not None and len(condition.values) == 1:
            (value,) = condition.values
            return condition.key, value
    return None


class _GroupIndex:
    """Finds the groups that select a pod without asking every group."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], list[TopologyGroup]] = {}
        self._others: list[TopologyGroup] = []

    def add(self, group: TopologyGroup) -> None:
        label = _label_of(group)
        if label is None:
            self._others.append(group)
        else:
            self._by_label.setdefault(label, []).append(group)

    def selecting(self, namespace: str, labels: dict[str, str]) -> Iterator[TopologyGroup]:
        for label in labels.items():
            for group in self._by_label.get(label, ()):
                if group.selects(namespace, labels):
                    yield group
        for group in self._others:
            if group.selects(namespace, labels):
                yield group


def _with_keys(
    selector: LabelSelector | None, pod: Pod, same: Sequence[str], other: Sequence[str] = ()
) -> LabelSelector | None:
    """Return the selector narrowed to pods that share (or differ from) the pod's own label values."""
    # matchLabelKeys and mismatchLabelKeys narrow a selector by the values of the pod itself; kube-apiserver
    # merges them into the selector of stored pods, which manifests on disk have not been through:
    # https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
    labels: Mapping[str, str] = pod.metadata.labels
    extra = [
        LabelSelectorRequirement(key=key, operator=operator, values=(labels[key],))
        for keys, operator in ((same, "In"), (other, "NotIn"))
        for key in keys
        if key in labels
    ]
    if selector is None or not extra:
        return selector
    return msgspec.structs.replace(selector, match_expressions=(*selector.match_expressions, *extra))
