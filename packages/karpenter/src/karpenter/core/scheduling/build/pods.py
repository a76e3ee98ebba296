"""
Which pods the solver gets, and which are refused before any node is considered.

A pod that requires something no node of ours can ever have (a label that only Karpenter sets, a field
instead of a label, a volume that is gone) is refused here, with the reason, so that the solver never sees a
requirement it cannot read or an amount it cannot count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import NODEPOOL, LabelRules
from karpenter.api.pod import Pod, PodSpec, TopologySpreadConstraint
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

    from karpenter.api.meta import LabelSelector
    from karpenter.core.state.cluster import ClusterView
    from karpenter.core.state.pdb import PdbLimits
    from karpenter.core.state.statenode import StateNode


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
