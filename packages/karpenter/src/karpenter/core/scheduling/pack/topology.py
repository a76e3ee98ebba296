"""
Who must be near whom, and who apart: the groups of one run, and what they ask of each pod.

Every group that any pod of the run states is set up before the first pod is placed, with
the pods that run already counted in. Placing a pod then counts it in every group that
picks it, so that later pods see it.

A pod on a claim whose zone is still open counts nowhere yet; it is remembered, and counted
as soon as the claim settles.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import PREFER_NO_SCHEDULE
from karpenter.api.meta import LabelSelectorRequirement
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.selectors import EVERYTHING, parse_selector
from karpenter.core.model.taints import tolerates
from karpenter.core.scheduling.encode.preferences import node_terms, required_anti_affinity
from karpenter.core.scheduling.pack.topologygroup import (
    NodeFilter,
    TopologyGroup,
    TopologyGroupKey,
    TopologyType,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from karpenter.api.meta import LabelSelector
    from karpenter.api.node import Taint
    from karpenter.api.pod import Pod, PodAffinityTerm, TopologySpreadConstraint
    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.encode.pod_classes import PodConstraints
    from karpenter.core.scheduling.encode.preferences import Relaxation
    from karpenter.core.scheduling.problem import ExistingNode, Problem, TopologyNode


_EVERYWHERE: Final = NodeFilter()


class TopologyDemand(msgspec.Struct, frozen=True):
    """A group that limits a pod, and whether the pod counts in it."""

    group: TopologyGroup
    self_selecting: bool


class TopologyDemands(msgspec.Struct, frozen=True):
    """What one reading of a pod asks of its surroundings."""

    domains: tuple[TopologyDemand, ...] = ()
    """Groups over the values of a label."""

    hosts: tuple[TopologyDemand, ...] = ()
    """Groups over the bins themselves."""

    @property
    def depends_on_counts(self) -> bool:
        """Whether a refusal now may turn into consent once other pods are placed."""
        return bool(self.domains) or any(a.group.kind is TopologyType.POD_AFFINITY for a in self.hosts)


_NOTHING: Final = TopologyDemands()


class Topology:
    """All groups of one run."""

    def __init__(self, problem: Problem, templates: Sequence[Template]) -> None:
        self._problem = problem
        self._templates = templates
        self._groups: dict[TopologyGroupKey, TopologyGroup] = {}
        self._bins = {node.name: number for number, node in enumerate(problem.nodes)}
        self._places = {place.name: place for place in problem.places}
        self._crowds = _BoundPods(problem)
        self._admitted: dict[tuple[NodeFilter, str], bool] = {}
        self._stating: dict[tuple[int, int], tuple[TopologyDemand, ...]] = {}
        """What a manner states on a rung, by number and position."""

        self._pickers = _GroupIndex()
        self._keepers = _GroupIndex()
        for located in problem.located:
            for term in required_anti_affinity(located.pod.spec):
                self._keep_off(located.pod, term, located.node)

    def prepare(self, manners: Iterable[PodConstraints]) -> None:
        """Set up every group that pods with these manners state, whatever they may give up later."""
        for constraints in manners:
            for position, relaxation in enumerate(constraints.relaxations):
                self._stating[constraints.number, position] = tuple(self._stated(constraints, relaxation))
            for term in required_anti_affinity(constraints.example.spec):
                self._group(self._off_key(constraints.example, term), self._keepers)

    def demands(self, constraints: PodConstraints, position: int) -> TopologyDemands:
        """Return what one reading of a manner that was prepared asks of its surroundings."""
        asked = list(self._stating[constraints.number, position])
        asked += [
            TopologyDemand(group, False)
            for group in self._keepers.pick(constraints.namespace, constraints.labels)
        ]
        if not asked:
            return _NOTHING
        return TopologyDemands(
            tuple(a for a in asked if not a.group.by_host), tuple(a for a in asked if a.group.by_host)
        )

    def counting(self, constraints: PodConstraints) -> tuple[TopologyGroup, ...]:
        """Return the groups that count pods with a manner wherever they are placed."""
        groups = list(self._pickers.pick(constraints.namespace, constraints.labels))
        for term in required_anti_affinity(constraints.example.spec):
            group = self._groups[self._off_key(constraints.example, term)]
            if group not in groups:
                groups.append(group)
        return tuple(groups)

    def admits(self, group: TopologyGroup, labels: Requirements, taints: Sequence[Taint]) -> bool:
        """Return whether nodes like this are counted by a group."""
        return _admits(group.spec.filter, labels, taints)

    def admits_node(self, group: TopologyGroup, node: ExistingNode | TopologyNode) -> bool:
        """Return whether an existing node is counted by a group."""
        if group.spec.filter == _EVERYWHERE:
            return True
        key = (group.spec.filter, node.name)
        if key not in self._admitted:
            self._admitted[key] = _admits(
                group.spec.filter, Requirements.from_labels(node.labels), node.taints
            )
        return self._admitted[key]

    def _stated(self, constraints: PodConstraints, relaxation: Relaxation) -> Iterator[TopologyDemand]:
        pod = constraints.example
        for spread in relaxation.spreads:
            if spread.label_selector is not None:  # a spread that selects nothing limits nothing
                yield self._asked(constraints, self._spread_key(pod, spread))
        for kind, terms in (
            (TopologyType.POD_AFFINITY, relaxation.pod_affinity),
            (TopologyType.POD_ANTI_AFFINITY, relaxation.pod_anti_affinity),
        ):
            for term in terms:
                yield self._asked(constraints, self._term_key(pod, term, kind))

    def _asked(self, constraints: PodConstraints, key: TopologyGroupKey) -> TopologyDemand:
        group = self._group(key, self._pickers)
        return TopologyDemand(group, group.selects(constraints.namespace, constraints.labels))

    def _spread_key(self, pod: Pod, spread: TopologySpreadConstraint) -> TopologyGroupKey:
        alternatives: tuple[Requirements, ...] = ()
        if spread.node_affinity_policy != "Ignore":
            selector = Requirements.from_labels(pod.spec.node_selector)
            terms = [Requirements.from_entries(t.match_expressions) for t in node_terms(pod.spec)]
            alternatives = tuple(selector.intersect(t) for t in terms) or (
                (selector,) if len(selector) else ()
            )
        return TopologyGroupKey(
            TopologyType.SPREAD,
            spread.topology_key,
            frozenset({pod.metadata.namespace}),
            parse_selector(_with_keys(spread.label_selector, pod, spread.match_label_keys)),
            spread.max_skew,
            spread.min_domains or 0,
            NodeFilter(alternatives, pod.spec.tolerations if spread.node_taints_policy == "Honor" else None),
        )

    def _term_key(self, pod: Pod, term: PodAffinityTerm, kind: TopologyType) -> TopologyGroupKey:
        selector = _with_keys(term.label_selector, pod, term.match_label_keys, term.mismatch_label_keys)
        return TopologyGroupKey(
            kind, term.topology_key, self._namespaces(pod, term), parse_selector(selector)
        )

    def _off_key(self, pod: Pod, term: PodAffinityTerm) -> TopologyGroupKey:
        return self._term_key(pod, term, TopologyType.INVERSE_ANTI_AFFINITY)

    def _namespaces(self, pod: Pod, term: PodAffinityTerm) -> frozenset[str] | None:
        if term.namespace_selector is None:
            return frozenset(term.namespaces or (pod.metadata.namespace,))
        selector = parse_selector(term.namespace_selector)
        if selector == EVERYTHING:
            return None
        known = self._problem.namespaces
        return frozenset(n for n, labels in known.items() if selector.matches(labels)) | frozenset(
            term.namespaces
        )

    def _group(self, key: TopologyGroupKey, picker: _GroupIndex) -> TopologyGroup:
        found = self._groups.get(key)
        if found is None:
            found = self._groups[key] = TopologyGroup(key)
            picker.add(found)
            self._fill(found)
        return found

    def _keep_off(self, pod: Pod, term: PodAffinityTerm, node: str) -> None:
        group = self._group(self._off_key(pod, term), self._keepers)
        self._count(group, node, 1)

    def _fill(self, group: TopologyGroup) -> None:
        """Register every domain there could be, and count the pods that run already."""
        if not group.by_host:
            self._know_domains(group)
        if group.kind is TopologyType.INVERSE_ANTI_AFFINITY:
            return
        for crowd in self._crowds.that_may_match(group):
            if group.selects(crowd.namespace, crowd.labels):
                for node, count in crowd.nodes.items():
                    self._count(group, node, count)

    def _know_domains(self, group: TopologyGroup) -> None:
        tolerations = group.spec.filter.tolerations
        for template in self._templates:
            if tolerations is None or tolerates(tolerations, _forbidding(template.pool.taints)):
                group.add_domains(template.domains(group.key))
        for place in self._places.values():
            domain = place.labels.get(group.key)
            if domain is not None and domain not in group.counts and self._is_counted(group, place):
                group.add_domains((domain,))

    def _count(self, group: TopologyGroup, node: str, count: int) -> None:
        place = self._places.get(node)
        if place is None or not self._is_counted(group, place):
            return
        if not group.by_host:
            if (domain := place.labels.get(group.key)) is not None:
                group.add(domain, count)
        elif node in self._bins:
            group.hosts.add(self._bins[node], count)
        else:
            group.hosts.elsewhere += count

    def _is_counted(self, group: TopologyGroup, place: TopologyNode) -> bool:
        return self.admits_node(group, place)


class _EqualPods(msgspec.Struct):
    """Running pods with the same labels, per node."""

    namespace: str
    labels: dict[str, str]
    nodes: Counter[str]


class _BoundPods:
    """All running pods, found by their labels."""

    def __init__(self, problem: Problem) -> None:
        self._all: dict[tuple[str, frozenset[tuple[str, str]]], _EqualPods] = {}
        self._by_pair: dict[tuple[str, str], list[_EqualPods]] = {}
        for located in problem.located:
            meta = located.pod.metadata
            key = (meta.namespace, frozenset(meta.labels.items()))
            crowd = self._all.get(key)
            if crowd is None:
                crowd = self._all[key] = _EqualPods(meta.namespace, meta.labels, Counter())
                for pair in meta.labels.items():
                    self._by_pair.setdefault(pair, []).append(crowd)
            crowd.nodes[located.node] += 1

    def that_may_match(self, group: TopologyGroup) -> Iterable[_EqualPods]:
        pair = _pair(group)
        return self._all.values() if pair is None else self._by_pair.get(pair, ())


def _pair(group: TopologyGroup) -> tuple[str, str] | None:
    """Return a label that every pod of a group must have, if its selector names one."""
    for condition in group.spec.selector.conditions or ():
        if not condition.negated and condition.values is not None and len(condition.values) == 1:
            (value,) = condition.values
            return condition.key, value
    return None


class _GroupIndex:
    """Finds the groups that pick a pod without asking every group."""

    def __init__(self) -> None:
        self._by_pair: dict[tuple[str, str], list[TopologyGroup]] = {}
        self._others: list[TopologyGroup] = []

    def add(self, group: TopologyGroup) -> None:
        pair = _pair(group)
        if pair is None:
            self._others.append(group)
        else:
            self._by_pair.setdefault(pair, []).append(group)

    def pick(self, namespace: str, labels: dict[str, str]) -> Iterator[TopologyGroup]:
        for pair in labels.items():
            for group in self._by_pair.get(pair, ()):
                if group.selects(namespace, labels):
                    yield group
        for group in self._others:
            if group.selects(namespace, labels):
                yield group


def _admits(node_filter: NodeFilter, labels: Requirements, taints: Sequence[Taint]) -> bool:
    tolerations = node_filter.tolerations
    if tolerations is not None and not tolerates(tolerations, _forbidding(taints)):
        return False
    alternatives = node_filter.alternatives
    return not alternatives or any(labels.accepts(each) for each in alternatives)


def _forbidding(taints: Sequence[Taint]) -> list[Taint]:
    """Return the taints that keep pods away; a node that would merely rather not have them counts."""
    return [taint for taint in taints if taint.effect != PREFER_NO_SCHEDULE]


def _with_keys(
    selector: LabelSelector | None, pod: Pod, same: Sequence[str], other: Sequence[str] = ()
) -> LabelSelector | None:
    """Return the selector narrowed to pods that share (or differ from) the pod's own label values."""
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
