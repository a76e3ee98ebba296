"""
The preferences of a pod: each counts as required until it is relaxed.

One preference goes per step, in a fixed order: a required node-affinity alternative (never
the last), the heaviest preferred pod affinity, the heaviest preferred pod anti-affinity,
the heaviest preferred node affinity, the first spread that may be ignored (the last takes
its place), and at the end the avoidance of PreferNoSchedule taints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.labels import PREFER_NO_SCHEDULE
from karpenter.api.pod import (
    Affinity,
    NodeAffinity,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements

if TYPE_CHECKING:
    from collections.abc import Iterable


ANYWAY: Final = "ScheduleAnyway"
TOLERATE_PREFER_NO_SCHEDULE: Final = Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE)


class OraclePreferences:
    """Remaining preferences of a pod."""

    def __init__(self, pod: Pod, spreads: Iterable[TopologySpreadConstraint], *, respect: bool) -> None:
        affinity = pod.spec.affinity or Affinity()
        nodes = affinity.node_affinity or NodeAffinity()
        pod_affinity = affinity.pod_affinity or PodAffinity()
        pod_anti_affinity = affinity.pod_anti_affinity or PodAffinity()
        self.pod = pod
        self.terms = list(required_terms(pod))
        self.pod_affinity = list(pod_affinity.required_during_scheduling_ignored_during_execution)
        self.pod_anti_affinity = list(pod_anti_affinity.required_during_scheduling_ignored_during_execution)
        self.spreads = list(spreads)
        self.tolerations = list(pod.spec.tolerations)
        self.preferred_nodes = list(nodes.preferred_during_scheduling_ignored_during_execution)
        self.preferred_pod_affinity = list(pod_affinity.preferred_during_scheduling_ignored_during_execution)
        self.preferred_pod_anti_affinity = list(
            pod_anti_affinity.preferred_during_scheduling_ignored_during_execution
        )
        for weighted in (self.preferred_nodes, self.preferred_pod_affinity, self.preferred_pod_anti_affinity):
            weighted.sort(key=lambda term: -term.weight)
        if not respect:
            self.preferred_nodes, self.preferred_pod_affinity, self.preferred_pod_anti_affinity = [], [], []
            self.spreads = [each for each in self.spreads if each.when_unsatisfiable != ANYWAY]

    @property
    def strict(self) -> Requirements:
        """What the pod can never do without: its selector, and the first alternative that is left."""
        selector = Requirements.from_labels(self.pod.spec.node_selector)
        return selector.intersect(_conditions(self.terms[0]) if self.terms else NOTHING_REQUIRED)

    @property
    def requirements(self) -> Requirements:
        """What the pod asks of its node now, its heaviest preference included."""
        if not self.preferred_nodes:
            return self.strict
        return self.strict.intersect(_conditions(self.preferred_nodes[0].preference))

    def contradicts_itself(self) -> bool:
        """Say whether no node at all can be what the pod asks for, because it asks for two things at once."""
        stated = [requirement(key, "In", [value]) for key, value in self.pod.spec.node_selector.items()]
        for term in (*self.terms[:1], *(term.preference for term in self.preferred_nodes[:1])):
            stated += [requirement(each.key, each.operator, each.values) for each in term.match_expressions]
        return any(
            self.requirements[each.key].operator == "DoesNotExist" and not each.tolerates_absence
            for each in stated
        )

    def all_pod_affinity(self) -> list[PodAffinityTerm]:
        return self.pod_affinity + [term.pod_affinity_term for term in self.preferred_pod_affinity]

    def all_pod_anti_affinity(self) -> list[PodAffinityTerm]:
        return self.pod_anti_affinity + [term.pod_affinity_term for term in self.preferred_pod_anti_affinity]

    def relax(self, *, some_pool_is_avoided: bool) -> bool:
        """Relax one preference; False when none is left."""
        if len(self.terms) > 1:
            self.terms.pop(0)
            return True
        for weighted in (self.preferred_pod_affinity, self.preferred_pod_anti_affinity, self.preferred_nodes):
            if weighted:
                weighted.pop(0)
                return True
        for position, each in enumerate(self.spreads):
            if each.when_unsatisfiable == ANYWAY:
                self.spreads[position] = self.spreads[-1]
                self.spreads.pop()
                return True
        if some_pool_is_avoided and TOLERATE_PREFER_NO_SCHEDULE not in self.tolerations:
            self.tolerations.append(TOLERATE_PREFER_NO_SCHEDULE)
            return True
        return False


def required_terms(pod: Pod) -> tuple[NodeSelectorTerm, ...]:
    """Return the alternatives of a pod's required node affinity."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required.node_selector_terms if required else ()


def required_anti_affinity_of(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    anti = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
    return anti.required_during_scheduling_ignored_during_execution if anti else ()


def alternatives(pod: Pod) -> list[Requirements]:
    """Return what the pod's selector and each of its required terms ask together; one must hold."""
    selector = Requirements.from_labels(pod.spec.node_selector)
    return [selector.intersect(_conditions(term)) for term in required_terms(pod)] or [selector]


def _conditions(term: NodeSelectorTerm) -> Requirements:
    return Requirements.from_entries(term.match_expressions)
