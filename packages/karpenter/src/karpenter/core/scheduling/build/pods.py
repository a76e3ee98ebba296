"""
Which pods the solver gets, and which are refused before any node is considered.

A pod that requires something no node of ours can ever have (a label that only Karpenter sets, a field
instead of a label, a volume that is gone) is refused here, with the reason, so that the solver never sees a
requirement it cannot read or an amount it cannot count.

Pods without topology spread constraints get the default constraints of the cluster. Their selector is
deduced as kube-scheduler does it, from the services that select the pod and the controller that owns it
(https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/). A selector that
cannot be read spreads nothing.

For the metric of pending pods by zone, :func:`pods_by_zone` counts which zone they can only be in. Three
things bind a pod to zones: what it requires, the zones that its volumes can be reached from, and a topology
spread that leaves only some zones open. What is left of all zones together is one, several, or none. The
scheduler works with the same requirements in more detail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from karpenter.api.labels import (
    CAPACITY_TYPE,
    NODEPOOL,
    ON_DEMAND,
    ON_DEMAND_FLOOR,
    RESERVED,
    ZONE,
    LabelRules,
)
from karpenter.api.meta import LabelSelector, LabelSelectorRequirement, OwnerReference
from karpenter.api.pod import Pod, PodSpec, TopologySpreadConstraint
from karpenter.api.price_annotations import annotated_floor
from karpenter.api.validation.nodeclaim_validation import validate_pod
from karpenter.base.quantity import QuantityError
from karpenter.core.model.requirement import RequirementError
from karpenter.core.model.requirements import read_entries
from karpenter.core.model.resources import impossible, pod_requests
from karpenter.core.model.selectors import SelectorError, parse_selector
from karpenter.core.scheduling.encode.preferences import relaxations, required_anti_affinity
from karpenter.core.scheduling.problem import BoundPod, PodVolumes, Refusal
from karpenter.core.state.pod import (
    has_do_not_disrupt,
    has_dra_requirements,
    is_active,
    is_reschedulable,
    is_unscheduled,
)
from karpenter.core.state.volumetopology import volume_requirements
from karpenter.core.state.volumeusage import VolumeProblem, volumes_by_driver

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView
    from karpenter.core.state.pdb import PdbLimits
    from karpenter.core.state.statenode import StateNode

SpreadConstraints: TypeAlias = "tuple[TopologySpreadConstraint, ...]"

_ENCODER: Final = msgspec.json.Encoder()
_LARGEST_COUNT: Final = 2**31 - 1
_NO_PROBLEMS: Final[Mapping[str, str]] = MappingProxyType({})
_DEVICES_IGNORED: Final = "the pod uses resource claims, which are ignored (setting ignore-dra-requests)"


class CheckedPods(msgspec.Struct, frozen=True):
    """The pods that the solver gets, and the pods that are refused before."""

    accepted: tuple[Pod, ...]
    refused: tuple[Refusal, ...]
    volumes: Mapping[str, PodVolumes]
    """By pod key; accepted pods without an entry have no volumes that constrain them."""


def provisionable_pods(view: ClusterView) -> tuple[Pod, ...]:
    """Return the provisionable pods: pending, without a node, and not made by a DaemonSet."""
    return tuple(pod for pod in view.pods.values() if is_unscheduled(pod))


def deleting_node_pods(nodes: Iterable[StateNode], pdbs: PdbLimits, now: datetime) -> tuple[Pod, ...]:
    return tuple(
        pod
        for node in nodes
        if node.is_deleting
        for pod in node.pods
        if is_currently_reschedulable(pod, pdbs, now)
    )


def is_currently_reschedulable(pod: Pod, pdbs: PdbLimits, now: datetime) -> bool:
    """Return whether draining its node would reschedule this pod now."""
    return is_reschedulable(pod) and not has_do_not_disrupt(pod, now) and not pdbs.is_fully_blocked(pod, now)


def check_pods(
    pods: Iterable[Pod],
    view: ClusterView,
    rules: LabelRules,
    *,
    ignore_device_claims: bool,
    device_problems: Mapping[str, str] = _NO_PROBLEMS,
) -> CheckedPods:
    """
    Return which pods the solver gets, with what their volumes require.

    `device_problems` says, by pod key, which claims cannot be served.
    """
    refused: list[Refusal] = []
    accepted: list[Pod] = []
    volumes: dict[str, PodVolumes] = {}
    checker = _SpecChecker(rules)
    for pod in pods:
        problem = checker.problem(pod)
        if not problem and has_dra_requirements(pod):
            problem = _DEVICES_IGNORED if ignore_device_claims else device_problems.get(pod.key, "")
        if not problem and pod.spec.volumes:
            try:
                demand = PodVolumes(volume_requirements(pod, view), volumes_by_driver(pod, view))
            except VolumeProblem as found:
                problem = str(found)
            else:
                if demand.alternatives or demand.claims:
                    volumes[pod.key] = demand
        if problem:
            refused.append(Refusal(pod=pod.key, message=problem))
        else:
            accepted.append(pod)
    return CheckedPods(tuple(accepted), tuple(refused), volumes)


def bound_pods(view: ClusterView, placing: AbstractSet[str]) -> tuple[list[BoundPod], list[str]]:
    """
    Return the bound pods that are not part of `placing`; they count for spread and affinity.

    The anti-affinity of a pod that cannot be read is ignored; that is said in a sentence.
    """
    found: list[BoundPod] = []
    problems: list[str] = []
    for name, pods in view.pods_by_node.items():
        for pod in pods:
            if pod.key in placing or not is_active(pod):
                continue
            problem = _anti_affinity_problem(pod.spec)
            if problem:
                problems.append(f"pod {pod.key} keeps no distance to others: {problem}")
                spec = msgspec.structs.replace(pod.spec, affinity=None)
                found.append(BoundPod(msgspec.structs.replace(pod, spec=spec), name))
            else:
                found.append(BoundPod(pod, name))
    return found, problems


def _anti_affinity_problem(spec: PodSpec) -> str:
    try:
        for term in required_anti_affinity(spec):
            parse_selector(term.label_selector)
            parse_selector(term.namespace_selector)
    except SelectorError as error:
        return str(error)
    return ""


class _SpecChecker:
    """Checks pod specs and remembers the result: pods of one workload share it."""

    def __init__(self, rules: LabelRules) -> None:
        self._rules = rules
        self._by_content: dict[bytes, str] = {}

    def problem(self, pod: Pod) -> str:
        """Return why a pod is refused; nothing when it is not."""
        if pod.status.container_statuses or pod.status.init_container_statuses:
            return self._check(pod)  # in-place resize may have changed its requests
        # The API server gives every pod a token volume with a name of its own, which does not matter here:
        # https://kubernetes.io/docs/concepts/storage/projected-volumes/
        content = _ENCODER.encode(msgspec.structs.replace(pod.spec, volumes=(), node_name=""))
        if content not in self._by_content:
            self._by_content[content] = self._check(pod)
        return self._by_content[content]

    def _check(self, pod: Pod) -> str:
        refusal = refusal_of(pod, self._rules)
        return refusal.message if refusal is not None else ""


def refusal_of(pod: Pod, rules: LabelRules) -> Refusal | None:
    """Return why a pod is refused, or None when the solver gets it."""
    try:
        problem = next(_problems(pod, rules), "")
    except (RequirementError, SelectorError, QuantityError) as error:
        problem = str(error)
    return Refusal(pod=pod.key, message=problem) if problem else None


def _problems(pod: Pod, rules: LabelRules) -> Iterator[str]:
    spec = pod.spec
    if problem := impossible(pod_requests(pod)):
        yield problem
    if spec.node_selector or spec.affinity is not None:
        yield from map(str, validate_pod(pod, rules=rules))
        yield from _preference_problems(spec)
    for spread in spec.topology_spread_constraints:
        yield from _spread_problems(spread)
    for selector in _selectors(spec):
        parse_selector(selector)


def _preference_problems(spec: PodSpec) -> Iterator[str]:
    """Read every preference, so that one that cannot be read is found now."""
    first = next(relaxations(spec, (), respect=True))
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    for each in affinity.preferred_during_scheduling_ignored_during_execution if affinity is not None else ():
        read_entries(each.preference.match_expressions)
    # Upstream ignores pods that exclude karpenter.sh/nodepool: they ask for nodes that Karpenter does not
    # manage.
    wanted = first.requirements[NODEPOOL]
    if not wanted.complement and not wanted.values and first.impossible != NODEPOOL:
        yield f"the pod asks for a node without {NODEPOOL}, so no NodePool may serve it"


def _spread_problems(spread: TopologySpreadConstraint) -> Iterator[str]:
    for name, count in (("maxSkew", spread.max_skew), ("minDomains", spread.min_domains)):
        if count is not None and not 1 <= count <= _LARGEST_COUNT:
            yield (
                f"the spread over {spread.topology_key} has {name} {count}:"
                f" expected a number from 1 to {_LARGEST_COUNT}"
            )


def _selectors(spec: PodSpec) -> Iterator[LabelSelector | None]:
    for spread in spec.topology_spread_constraints:
        yield spread.label_selector
    if spec.affinity is None:
        return
    for side in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity):
        if side is not None:
            terms = [
                *side.required_during_scheduling_ignored_during_execution,
                *(w.pod_affinity_term for w in side.preferred_during_scheduling_ignored_during_execution),
            ]
            for term in terms:
                yield term.label_selector
                yield term.namespace_selector


def with_workload_floors(
    pods: Sequence[Pod], view: ClusterView, nodes: Iterable[StateNode]
) -> tuple[Sequence[Pod], list[str]]:
    """
    Return the pods, of which some require on-demand nodes, and annotations that are wrong.

    The annotation ``karpenter.sh/on-demand-floor`` of pods says how many replicas of their workload run on
    demand. Those that do already count, and are the first to stay there. kube-scheduler does not know of it,
    so it holds for what is launched and moved, not for every binding.
    """
    floors: dict[tuple[str, str, str], list[Pod]] = {}
    for pod in pods:
        owner = _owner(pod) if ON_DEMAND_FLOOR in pod.metadata.annotations else None
        if owner is not None:
            floors.setdefault((pod.namespace, owner.kind, owner.name), []).append(pod)
    if not floors:
        return pods, []
    safe = {node.name for node in nodes if node.labels.get(CAPACITY_TYPE) in {ON_DEMAND, RESERVED}}
    placing, total, there = {pod.key for pod in pods}, Counter[object](), Counter[object]()
    for pod in view.pods.values():
        owner = _owner(pod) if is_active(pod) else None
        key = (pod.namespace, owner.kind, owner.name) if owner is not None else None
        if key in floors:
            total[key] += 1
            there[key] += pod.key not in placing and pod.spec.node_name in safe
    problems: list[str] = []
    bound: set[str] = set()
    for key, members in floors.items():
        floor, problem = annotated_floor(members[0].metadata.annotations)
        if floor is None:
            problems += [f"pod {members[0].key}: {problem}"] if problem else []
            continue
        missing = floor.nodes(max(total[key], len(members))) - there[key]
        members.sort(key=lambda pod: pod.spec.node_name not in safe)
        bound |= {pod.key for pod in members[: max(0, missing)]}
    return requiring_on_demand(pods, bound), problems


def requiring_on_demand(pods: Iterable[Pod], keys: Collection[str]) -> list[Pod]:
    """Return pods of which those with these keys require on-demand nodes, unless they say themselves what."""
    specs: dict[int, PodSpec] = {}
    return [_on_demand(pod, specs) if pod.key in keys else pod for pod in pods]


def _on_demand(pod: Pod, specs: dict[int, PodSpec]) -> Pod:
    """Return a pod that requires an on-demand node, unless it says itself what it requires."""
    if CAPACITY_TYPE in pod.spec.node_selector or _requires_capacity_type(pod.spec):
        return pod
    if id(pod.spec) not in specs:  # pods of one workload share their spec, by which they are alike
        selector = {**pod.spec.node_selector, CAPACITY_TYPE: ON_DEMAND}
        specs[id(pod.spec)] = msgspec.structs.replace(pod.spec, node_selector=selector)
    return msgspec.structs.replace(pod, spec=specs[id(pod.spec)])


def _requires_capacity_type(spec: PodSpec) -> bool:
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    terms = required.node_selector_terms if required is not None else ()
    return any(each.key == CAPACITY_TYPE for term in terms for each in term.match_expressions)


def spread_defaults(
    pods: Iterable[Pod], defaults: SpreadConstraints, view: ClusterView
) -> dict[str, SpreadConstraints]:
    """Return the default topology spread constraints of every pod that has none, by pod key."""
    if not defaults:
        return {}
    known: dict[object, SpreadConstraints] = {}
    found: dict[str, SpreadConstraints] = {}
    for pod in pods:
        if pod.spec.topology_spread_constraints:
            continue
        meta, owner = pod.metadata, _owner(pod)
        owned_by = (owner.kind, owner.uid, owner.name) if owner is not None else None
        identity = (meta.namespace, owned_by, frozenset(meta.labels.items()))
        if identity not in known:
            known[identity] = _constraints(pod, defaults, view)
        if known[identity]:
            found[pod.key] = known[identity]
    return found


def _constraints(pod: Pod, defaults: SpreadConstraints, view: ClusterView) -> SpreadConstraints:
    selector = _selector(pod, view)
    try:
        conditions = parse_selector(selector).conditions
    except SelectorError:
        return ()
    if not conditions:
        return ()
    return tuple(msgspec.structs.replace(each, label_selector=selector) for each in defaults)


def _selector(pod: Pod, view: ClusterView) -> LabelSelector:
    labels: dict[str, str] = {}
    namespace = pod.metadata.namespace
    # helper.DefaultSelector of kube-scheduler: services first, then the controller.
    # https://github.com/kubernetes/kubernetes/blob/master/pkg/scheduler/framework/plugins/helper/spread.go
    for service in view.services.values():
        wanted = service.spec.selector
        if service.namespace == namespace and wanted and wanted.items() <= pod.metadata.labels.items():
            labels |= wanted
    owner = _owner(pod)
    key = f"{namespace}/{owner.name}" if owner is not None else ""
    if owner is not None and owner.kind == "ReplicationController":
        controller = view.replication_controllers.get(key)
        return LabelSelector(
            match_labels=labels | (controller.spec.selector if controller is not None else {})
        )
    owned = _selector_of_set(owner.kind, key, view) if owner is not None else None
    if owned is None:
        return LabelSelector(match_labels=labels)
    expressions = tuple(
        LabelSelectorRequirement(key=name, operator="In", values=(value,))
        for name, value in owned.match_labels.items()
    )
    return LabelSelector(match_labels=labels, match_expressions=expressions + owned.match_expressions)


def _selector_of_set(kind: str, key: str, view: ClusterView) -> LabelSelector | None:
    """Return the selector of the owner of a pod; a Deployment owns only pods that do not exist yet."""
    match kind:
        case "ReplicaSet" if key in view.replica_sets:
            return view.replica_sets[key].spec.selector
        case "StatefulSet" if key in view.stateful_sets:
            return view.stateful_sets[key].spec.selector
        case "Deployment" if key in view.deployments:
            return view.deployments[key].spec.selector
        case _:
            return None


def _owner(pod: Pod) -> OwnerReference | None:
    return next((owner for owner in pod.metadata.owner_references if owner.controller), None)


FLEXIBLE: Final = "flexible"
NONE: Final = "none"


def pods_by_zone(pods: Iterable[Pod], view: ClusterView, catalog: Catalog) -> Mapping[str, int]:
    """Count waiting pods by the only zone that they can be in, or by whether they have a choice or none."""
    zones = _Zones(view, catalog)
    return Counter(zones.of(pod) for pod in pods)


class _Zones:
    """The zones of one cluster at one moment, and what was found out about them."""

    def __init__(self, view: ClusterView, catalog: Catalog) -> None:
        self._view = view
        types = [*catalog.types, *(each for own in catalog.by_pool.values() for each in own)]
        sold = {offering.zone for kind in types for offering in kind.offerings}
        self._zone_of = {
            name: node.metadata.labels[ZONE]
            for name, node in view.nodes.items()
            if ZONE in node.metadata.labels
        }
        self._all = frozenset(sold.union(self._zone_of.values()))
        self._known: dict[tuple[int, str, tuple[tuple[str, str], ...]], str] = {}
        self._counts: dict[tuple[str, bytes], Counter[str]] = {}

    def of(self, pod: Pod) -> str:
        """Return the zone of a pod; pods that nothing tells apart are looked at once."""
        if pod.spec.volumes:
            return self._find(pod)
        key = (id(pod.spec), pod.namespace, tuple(sorted(pod.metadata.labels.items())))
        if key not in self._known:
            self._known[key] = self._find(pod)
        return self._known[key]

    def _find(self, pod: Pod) -> str:
        try:
            left = self._required(pod)
        except RequirementError:  # it is turned away, with a sentence
            return NONE
        left = _both(left, self._reached(pod))
        for spread in pod.spec.topology_spread_constraints:
            if spread.topology_key == ZONE and spread.when_unsatisfiable == "DoNotSchedule":
                left = _both(left, self._open(pod, spread, left))
        if left is None or len(left) > 1:
            return FLEXIBLE
        return next(iter(left), NONE)

    def _required(self, pod: Pod) -> frozenset[str] | None:
        first = next(relaxations(pod.spec, (), respect=False))
        if ZONE not in first.strict:
            return None
        wanted = first.strict[ZONE]
        return frozenset(filter(wanted.allows, self._all)) if wanted.complement else wanted.values

    def _reached(self, pod: Pod) -> frozenset[str] | None:
        if not pod.spec.volumes:
            return None
        try:
            places = volume_requirements(pod, self._view)
        except VolumeProblem:  # it is turned away, with a sentence
            return None
        found: frozenset[str] = frozenset()
        for each in places:
            if ZONE not in each or each[ZONE].complement:
                return None
            found |= each[ZONE].values
        return found if places else None

    def _open(
        self, pod: Pod, spread: TopologySpreadConstraint, left: frozenset[str] | None
    ) -> frozenset[str] | None:
        """Return the zones in which one more pod is not too many."""
        try:
            selector = parse_selector(spread.label_selector)
        except SelectorError:
            return None
        counts = self._count(pod, spread)
        zones = self._all if left is None or spread.node_affinity_policy == "Ignore" else left
        too_few = spread.min_domains is not None and len(zones) < spread.min_domains
        fewest = min((counts[zone] for zone in zones if not too_few), default=0)
        # A pod that its own selector does not select adds nothing to the skew.
        more = 1 if selector.matches(pod.metadata.labels) else 0
        return frozenset(zone for zone in zones if counts[zone] + more - fewest <= spread.max_skew)

    def _count(self, pod: Pod, spread: TopologySpreadConstraint) -> Counter[str]:
        same = {
            name: pod.metadata.labels[name] for name in spread.match_label_keys if name in pod.metadata.labels
        }
        key = (pod.namespace, msgspec.json.encode((spread, same)))
        if key not in self._counts:
            selector = parse_selector(spread.label_selector)
            self._counts[key] = Counter(
                self._zone_of[each.spec.node_name]
                for each in self._view.pods.values()
                if each.spec.node_name in self._zone_of
                and each.namespace == pod.namespace
                and is_active(each)
                and same.items() <= each.metadata.labels.items()
                and selector.matches(each.metadata.labels)
            )
        return self._counts[key]


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    """Return what both allow; None allows everything."""
    if one is None or other is None:
        return one if other is None else other
    return one & other
