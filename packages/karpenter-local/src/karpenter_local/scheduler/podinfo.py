"""
What a pod asks of a node, compiled once per template.

Pods that differ only in their names share one :class:`PodInfo`, so that what is computed for one replica
(nodes that match its node affinity, selectors that match it) serves all of them. Volumes are left out: each
replica may have its own, see :mod:`.volumes`.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from karpenter.api.meta import LabelSelector, LabelSelectorRequirement
from karpenter.api.pod import (
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)
from karpenter.core.model.hostportusage import HostPort, host_ports
from karpenter.core.model.resources import CPU, MEMORY, PODS, pod_requests
from karpenter_local.scheduler.podcounts import AffinityRule
from karpenter_local.scheduler.podselector import PodLabels, PodSelector, PodSelectorTerm, select

MAX_POD_INFOS = 16384
"""Templates remembered at a time."""

# GetNonzeroRequests of kube-scheduler: pods without requests must not all go to one node.
DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY = 200 * 2**20
"""What a pod that asks for nothing counts for when nodes are compared by load."""

# hardPodAffinityWeight: https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/
HARD_AFFINITY_WEIGHT = 1
"""How much the required affinity of a placed pod draws incoming pods that match it."""


class NodeConstraints(msgspec.Struct, frozen=True):
    """Constraints of a pod on the node itself, whatever else runs there."""

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[NodeSelectorTerm, ...] | None = None
    """Required node affinity: one of these must hold; None asks nothing, an empty tuple can't be met."""
    tolerations: tuple[Toleration, ...] = ()
    preferences: tuple[tuple[int, NodeSelectorTerm], ...] = ()
    """Preferred node affinity: weight and term."""
    names: frozenset[str] | None = None
    """The only nodes that the required terms name, as those of a daemon's pods do; None if they name none."""


class SpreadConstraint(msgspec.Struct, frozen=True):
    """One topology spread constraint."""

    pod_selector: PodSelector
    key: str
    max_skew: int
    counts_itself: bool
    """Whether the pod is one of those it counts."""
    min_domains: int = 1
    honours_affinity: bool = True
    honours_taints: bool = False


class WeightedAffinityRule(AffinityRule, frozen=True):
    """A rule with a weight: positive draws pods near, negative keeps them away."""

    weight: int = 0


class PodInfo(msgspec.Struct, frozen=True, eq=False):
    """Scheduling facts of the pods of one template. Interned, so it is compared by identity."""

    pod_labels: PodLabels
    priority: int
    may_preempt: bool
    requests: tuple[tuple[str, int], ...]
    """Without zeros and without the pod itself."""
    load: tuple[int, int]
    """Milli cpu and bytes for comparing nodes: as requests, but never nothing."""
    placement: NodeConstraints
    ports: tuple[HostPort, ...] = ()
    hard_spread: tuple[SpreadConstraint, ...] = ()
    soft_spread: tuple[SpreadConstraint, ...] = ()
    default_spread: bool = False
    """Whether soft_spread is the scheduler's default, not the pod's own: nodes may then lack a label."""
    near: tuple[AffinityRule, ...] = ()
    """Required affinity. All rules share one selector: pods that match every term at once."""
    apart: tuple[AffinityRule, ...] = ()
    """Required anti-affinity."""
    weighted_rules: tuple[WeightedAffinityRule, ...] = ()
    """Preferred affinity and anti-affinity."""
    carried_rules: tuple[WeightedAffinityRule, ...] = ()
    """What the pod, once placed, means for incoming pods: its preferences, and its required affinity."""


class PodInfos:
    """Compiles pods into demands, the same one for pods of the same template."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, PodInfo] = OrderedDict()

    def of(self, pod: Pod, own: LabelSelector | None = None) -> PodInfo:
        """
        Return what `pod` asks for.

        `own` selects the pods of its workload, for the default spread.

        Raises:
            QuantityError: naming the container and resource that cannot be read.
        """
        key = _fingerprint(pod, own)
        pod_info = self._known.get(key)
        if pod_info is None:
            pod_info = self._known[key] = compile_pod_info(pod, own)
            if len(self._known) > MAX_POD_INFOS:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        return pod_info


_encode = msgspec.json.Encoder(order="sorted").encode


def _fingerprint(pod: Pod, own: LabelSelector | None) -> bytes:
    spec = pod.spec
    seen: list[Any] = [
        pod.namespace,
        pod.metadata.labels,
        own,
        spec.priority,
        spec.preemption_policy,
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        [(c.resources, c.ports) for c in spec.containers],
        [(c.resources, c.ports, c.restart_policy) for c in spec.init_containers],
        spec.overhead,
        spec.host_network,
        spec.resources,
    ]
    if any(status.resources is not None for status in pod.status.container_statuses):
        seen.append(pod.status)
    return _encode(seen)


def compile_pod_info(pod: Pod, own: LabelSelector | None = None) -> PodInfo:
    spec = pod.spec
    pod_labels = PodLabels.of(pod.namespace, pod.metadata.labels)
    requests = {name: amount for name, amount in pod_requests(pod).items() if amount and name != PODS}
    affinity = spec.affinity
    near = affinity.pod_affinity if affinity else None
    apart = affinity.pod_anti_affinity if affinity else None
    own_spread = spec.topology_spread_constraints
    defaulted = not own_spread and own is not None
    soft = _default_spread(own) if defaulted else own_spread
    weighted_rules = (*_weighted_rules(pod, near, 1), *_weighted_rules(pod, apart, -1))
    return PodInfo(
        pod_labels=pod_labels,
        priority=spec.priority or 0,
        may_preempt=spec.preemption_policy != "Never",
        requests=tuple(sorted(requests.items())),
        load=(requests.get(CPU, DEFAULT_MILLI_CPU), requests.get(MEMORY, DEFAULT_MEMORY)),
        placement=_placement(pod),
        ports=host_ports(pod),
        hard_spread=tuple(_spread(pod, c) for c in own_spread if c.when_unsatisfiable != "ScheduleAnyway"),
        soft_spread=tuple(_spread(pod, c) for c in soft if c.when_unsatisfiable == "ScheduleAnyway"),
        default_spread=defaulted,
        near=_together(pod, near),
        apart=_rules(pod, apart),
        weighted_rules=weighted_rules,
        carried_rules=(
            *weighted_rules,
            *(WeightedAffinityRule(r.pod_selector, r.key, HARD_AFFINITY_WEIGHT) for r in _rules(pod, near)),
        ),
    )


def _placement(pod: Pod) -> NodeConstraints:
    spec = pod.spec
    node_affinity = spec.affinity.node_affinity if spec.affinity else None
    terms: tuple[NodeSelectorTerm, ...] | None = None
    preferences: tuple[tuple[int, NodeSelectorTerm], ...] = ()
    if node_affinity is not None:
        required = node_affinity.required_during_scheduling_ignored_during_execution
        terms = required.node_selector_terms if required is not None else None
        preferred = node_affinity.preferred_during_scheduling_ignored_during_execution
        preferences = tuple((each.weight, each.preference) for each in preferred if each.weight)
    return NodeConstraints(
        selector=tuple(sorted(spec.node_selector.items())),
        terms=terms,
        tolerations=spec.tolerations,
        preferences=preferences,
        names=named_nodes(terms),
    )


def named_nodes(terms: tuple[NodeSelectorTerm, ...] | None) -> frozenset[str] | None:
    """Return the nodes that every term asks for by name; None if some term is open to others."""
    if not terms:
        return None
    found: set[str] = set()
    for term in terms:
        named = [
            frozenset(field.values)
            for field in term.match_fields
            if field.key == "metadata.name" and field.operator == "In"
        ]
        if not named:
            return None
        found |= frozenset.intersection(*named)
    return frozenset(found)


def _spread(pod: Pod, constraint: TopologySpreadConstraint) -> SpreadConstraint:
    extra = _alike(pod, constraint.match_label_keys, "In")
    selector = select(constraint.label_selector, *extra)
    return SpreadConstraint(
        pod_selector=PodSelector((PodSelectorTerm(frozenset({pod.namespace}), selector),), living=True),
        key=constraint.topology_key,
        max_skew=constraint.max_skew,
        counts_itself=selector.matches(pod.metadata.labels),
        min_domains=constraint.min_domains or 1,
        honours_affinity=constraint.node_affinity_policy != "Ignore",
        honours_taints=constraint.node_taints_policy == "Honor",
    )


def _default_spread(own: LabelSelector | None) -> tuple[TopologySpreadConstraint, ...]:
    """
    The spread that pods of a workload get when they ask for none: loosely over zones, more loosely over
    nodes.
    """
    return tuple(
        TopologySpreadConstraint(
            max_skew=skew, topology_key=key, when_unsatisfiable="ScheduleAnyway", label_selector=own
        )
        for key, skew in (("kubernetes.io/hostname", 3), ("topology.kubernetes.io/zone", 5))
    )


def _rules(pod: Pod, affinity: PodAffinity | None) -> tuple[AffinityRule, ...]:
    terms = affinity.required_during_scheduling_ignored_during_execution if affinity else ()
    return tuple(AffinityRule(PodSelector((_clause(pod, term),)), term.topology_key) for term in terms)


def _together(pod: Pod, affinity: PodAffinity | None) -> tuple[AffinityRule, ...]:
    terms = affinity.required_during_scheduling_ignored_during_execution if affinity else ()
    pod_selector = PodSelector(tuple(_clause(pod, term) for term in terms))
    return tuple(AffinityRule(pod_selector, term.topology_key) for term in terms)


def _weighted_rules(pod: Pod, affinity: PodAffinity | None, sign: int) -> tuple[WeightedAffinityRule, ...]:
    terms = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    return tuple(
        WeightedAffinityRule(
            PodSelector((_clause(pod, each.pod_affinity_term),)),
            each.pod_affinity_term.topology_key,
            sign * each.weight,
        )
        for each in terms
        if each.weight
    )


def _clause(pod: Pod, term: PodAffinityTerm) -> PodSelectorTerm:
    extra = (*_alike(pod, term.match_label_keys, "In"), *_alike(pod, term.mismatch_label_keys, "NotIn"))
    everywhere = term.namespace_selector
    named = term.namespaces or (() if everywhere is not None else (pod.namespace,))
    return PodSelectorTerm(
        namespaces=frozenset(named),
        selector=select(term.label_selector, *extra),
        namespace_selector=None if everywhere is None else select(everywhere),
    )


def _alike(pod: Pod, keys: Iterable[str], operator: str) -> Iterator[LabelSelectorRequirement]:
    """Yield, for each key the pod has, that others must (In) or must not (NotIn) have the same value."""
    for key in keys:
        if key in pod.metadata.labels:
            yield LabelSelectorRequirement(key=key, operator=operator, values=(pod.metadata.labels[key],))
