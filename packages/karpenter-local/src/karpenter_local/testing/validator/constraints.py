"""
What pods state, as far as it is never given up: node requirements, spreads, affinity, anti-affinity.

A statement about other pods becomes an :class:`PodSelection`, a value that says which pods are
meant; two pods that state the same have equal ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.api.labels import PREFER_NO_SCHEDULE
from karpenter.api.pod import (
    Affinity,
    NodeAffinity,
    Pod,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)
from karpenter.core.model.requirement import Requirement, requirement
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.selectors import Selector, SelectorCondition, parse_selector

if TYPE_CHECKING:
    from karpenter.core.scheduling.problem import Problem


def node_terms(pod: Pod) -> tuple[Requirements, ...]:
    """Return what a pod needs of its node; one of the alternatives must hold, and none holds by itself."""
    selector = [requirement(key, "In", [value]) for key, value in pod.spec.node_selector.items()]
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    stated = [
        selector + [requirement(each.key, each.operator, each.values) for each in term.match_expressions]
        for term in (required.node_selector_terms if required else ())
    ] or [selector]
    return tuple(Requirements.of(term) for term in stated if not _contradicts_itself(term))


def _contradicts_itself(stated: list[Requirement]) -> bool:
    """Say whether two conditions on one label leave no value, though the label must be there."""
    together = Requirements.of(stated)
    return any(
        not each.tolerates_absence and together[each.key].operator == "DoesNotExist" for each in stated
    )


def tolerations(problem: Problem, pod: Pod) -> tuple[Toleration, ...]:
    """Return what a pod tolerates once it has given up avoiding nodes that would rather not have it."""
    effects = {taint.effect for pool in problem.pools for taint in pool.taints}
    if PREFER_NO_SCHEDULE not in effects:
        return pod.spec.tolerations
    return (*pod.spec.tolerations, Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE))


class PodSelection(msgspec.Struct, frozen=True):
    """Which pods are meant, and the label whose values are the domains."""

    key: str
    namespaces: frozenset[str] | None
    """None means every namespace."""

    selector: Selector

    def selects(self, pod: Pod) -> bool:
        if self.namespaces is not None and pod.metadata.namespace not in self.namespaces:
            return False
        return self.selector.matches(pod.metadata.labels)


class RequiredSpread(msgspec.Struct, frozen=True):
    """A spread that must hold."""

    selection: PodSelection
    skew: int
    min_domains: int
    honours_affinity: bool
    tolerations: tuple[Toleration, ...] | None
    """Which taints a counted node may have; None means that taints do not matter."""


def spreads(problem: Problem, pod: Pod) -> list[RequiredSpread]:
    own = pod.spec.topology_spread_constraints or problem.spread_defaults.get(pod.key, ())
    return [
        _spread(pod, each)
        for each in own
        if each.when_unsatisfiable == "DoNotSchedule" and each.label_selector
    ]


def _spread(pod: Pod, wire: TopologySpreadConstraint) -> RequiredSpread:
    selector = _with_own_labels(
        parse_selector(wire.label_selector), pod, wire.match_label_keys, negated=False
    )
    return RequiredSpread(
        PodSelection(wire.topology_key, frozenset({pod.metadata.namespace}), selector),
        wire.max_skew,
        wire.min_domains or 0,
        wire.node_affinity_policy != "Ignore",
        pod.spec.tolerations if wire.node_taints_policy == "Honor" else None,
    )


def near(problem: Problem, pod: Pod) -> list[PodSelection]:
    affinity = pod.spec.affinity.pod_affinity if pod.spec.affinity else None
    terms = affinity.required_during_scheduling_ignored_during_execution if affinity else ()
    return [_about(problem, pod, term) for term in terms]


def apart(problem: Problem, pod: Pod) -> list[PodSelection]:
    affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
    terms = affinity.required_during_scheduling_ignored_during_execution if affinity else ()
    return [_about(problem, pod, term) for term in terms]


def _about(problem: Problem, pod: Pod, term: PodAffinityTerm) -> PodSelection:
    namespaces: frozenset[str] | None = frozenset(term.namespaces)
    if term.namespace_selector is not None:
        chosen = parse_selector(term.namespace_selector)
        matching = {name for name, labels in problem.namespaces.items() if chosen.matches(labels)}
        namespaces = frozenset(matching.union(term.namespaces)) if chosen.conditions else None
    elif not term.namespaces:
        namespaces = frozenset({pod.metadata.namespace})
    selector = parse_selector(term.label_selector)
    selector = _with_own_labels(selector, pod, term.match_label_keys, negated=False)
    selector = _with_own_labels(selector, pod, term.mismatch_label_keys, negated=True)
    return PodSelection(term.topology_key, namespaces, selector)


def _with_own_labels(selector: Selector, pod: Pod, keys: tuple[str, ...], *, negated: bool) -> Selector:
    if selector.conditions is None:
        return selector
    own = pod.metadata.labels
    more = [SelectorCondition(key, frozenset({own[key]}), negated=negated) for key in keys if key in own]
    return Selector(tuple(dict.fromkeys((*selector.conditions, *more))))


def is_plain(problem: Problem, pod: Pod) -> bool:
    """Say whether only room, taints, ports and one set of node requirements decide where a pod may go."""
    spec = pod.spec
    if spec.topology_spread_constraints or pod.key in problem.spread_defaults or pod.key in problem.volumes:
        return False
    affinity = spec.affinity or Affinity()
    nodes = affinity.node_affinity or NodeAffinity()
    if affinity.pod_affinity or affinity.pod_anti_affinity or len(node_terms(pod)) != 1:
        return False
    if nodes.preferred_during_scheduling_ignored_during_execution:
        return False
    others = [bound.pod for bound in problem.bound_pods] + list(problem.pods)
    return not any(selection.selects(pod) for other in others for selection in apart(problem, other))
