"""
How a pod is read: every preference as if it were required, until it is given up.

One preference goes per step, in a fixed order: a required node-affinity alternative (never
the last), the heaviest preferred pod affinity, the heaviest preferred pod anti-affinity,
the heaviest preferred node affinity, the first spread that may be ignored (the last takes
its place), and at the end the wish to stay off nodes that would rather have other pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.labels import PREFER_NO_SCHEDULE
from karpenter.api.pod import Affinity, NodeAffinity, PodAffinity, Toleration
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.pod import NodeSelectorTerm, Pod, PodAffinityTerm, TopologySpreadConstraint

ANYWAY: Final = "ScheduleAnyway"
DO_NOT_MIND: Final = Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE)


class Reading:
    """What is left of a pod's wishes."""

    def __init__(self, pod: Pod, spreads: Iterable[TopologySpreadConstraint], *, respect: bool) -> None:
        affinity = pod.spec.affinity or Affinity()
        nodes = affinity.node_affinity or NodeAffinity()
        near = affinity.pod_affinity or PodAffinity()
        apart = affinity.pod_anti_affinity or PodAffinity()
        self.pod = pod
        self.terms = list(required_terms(pod))
        self.near = list(near.required_during_scheduling_ignored_during_execution)
        self.apart = list(apart.required_during_scheduling_ignored_during_execution)
        self.spreads = list(spreads)
        self.tolerations = list(pod.spec.tolerations)
        self.preferred_nodes = list(nodes.preferred_during_scheduling_ignored_during_execution)
        self.preferred_near = list(near.preferred_during_scheduling_ignored_during_execution)
        self.preferred_apart = list(apart.preferred_during_scheduling_ignored_during_execution)
        for wishes in (self.preferred_nodes, self.preferred_near, self.preferred_apart):
            wishes.sort(key=lambda wish: -wish.weight)
        if not respect:
            self.preferred_nodes, self.preferred_near, self.preferred_apart = [], [], []
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
        for term in (*self.terms[:1], *(wish.preference for wish in self.preferred_nodes[:1])):
            stated += [requirement(each.key, each.operator, each.values) for each in term.match_expressions]
        return any(
            self.requirements[each.key].operator == "DoesNotExist" and not each.tolerates_absence
            for each in stated
        )

    def all_near(self) -> list[PodAffinityTerm]:
        """Return the pods to be near to, by need or by wish."""
        return self.near + [wish.pod_affinity_term for wish in self.preferred_near]

    def all_apart(self) -> list[PodAffinityTerm]:
        """Return the pods to be far from, by need or by wish."""
        return self.apart + [wish.pod_affinity_term for wish in self.preferred_apart]

    def relax(self, *, some_pool_is_avoided: bool) -> bool:
        """Give up one wish; False when there is none left."""
        if len(self.terms) > 1:
            self.terms.pop(0)
            return True
        for wishes in (self.preferred_near, self.preferred_apart, self.preferred_nodes):
            if wishes:
                wishes.pop(0)
                return True
        for position, each in enumerate(self.spreads):
            if each.when_unsatisfiable == ANYWAY:
                self.spreads[position] = self.spreads[-1]
                self.spreads.pop()
                return True
        if some_pool_is_avoided and DO_NOT_MIND not in self.tolerations:
            self.tolerations.append(DO_NOT_MIND)
            return True
        return False


def required_terms(pod: Pod) -> tuple[NodeSelectorTerm, ...]:
    """Return the alternatives of a pod's required node affinity."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required.node_selector_terms if required else ()


def required_apart(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    """Return the pods that a pod can never be near to."""
    anti = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
    return anti.required_during_scheduling_ignored_during_execution if anti else ()


def alternatives(pod: Pod) -> list[Requirements]:
    """Return what the pod's selector and each of its required terms ask together; one must hold."""
    selector = Requirements.from_labels(pod.spec.node_selector)
    return [selector.intersect(_conditions(term)) for term in required_terms(pod)] or [selector]


def _conditions(term: NodeSelectorTerm) -> Requirements:
    return Requirements.from_entries(term.match_expressions)
