"""
Which nodes a topology spread constraint counts.

A spread with ``nodeAffinityPolicy: Honor`` (the default) counts only nodes that match the node selector and
the required node affinity of the pod; one with ``nodeTaintsPolicy: Honor`` counts only nodes whose taints
the pod tolerates (https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/).
Pod affinity and anti-affinity count every node.

How many pods a counted domain has is in :mod:`.topologygroup`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.api.labels import PREFER_NO_SCHEDULE
from karpenter.api.pod import PodSpec, Toleration, TopologySpreadConstraint
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.taints import tolerates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.api.node import Taint


class NodeFilter(msgspec.Struct, frozen=True):
    """The nodes that a constraint counts; without fields set it counts every node."""

    alternatives: tuple[Requirements, ...] = ()
    """Requirements of which one must hold; none means that labels do not matter."""

    tolerations: tuple[Toleration, ...] | None = None
    """None means that taints do not matter."""

    def matches(self, labels: Requirements, taints: Sequence[Taint]) -> bool:
        """Return whether a node, or a claim that may still become several, is counted."""
        if not self.tolerates(taints):
            return False
        return not self.alternatives or any(labels.accepts(each) for each in self.alternatives)

    def tolerates(self, taints: Sequence[Taint]) -> bool:
        """Return whether nodes with these taints are counted, labels aside."""
        if self.tolerations is None:
            return True
        # kube-scheduler leaves PreferNoSchedule out of this question: such a node takes the pod.
        # https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
        return tolerates(self.tolerations, [t for t in taints if t.effect != PREFER_NO_SCHEDULE])


def spread_node_filter(
    spec: PodSpec, spread: TopologySpreadConstraint, required_terms: Sequence[Requirements]
) -> NodeFilter:
    """Return the nodes that a spread of a pod counts; `required_terms` is its required node affinity."""
    alternatives: tuple[Requirements, ...] = ()
    if spread.node_affinity_policy != "Ignore":
        selector = Requirements.from_labels(spec.node_selector)
        alternatives = tuple(selector.intersect(term) for term in required_terms)
        if not alternatives and len(selector):
            alternatives = (selector,)
    return NodeFilter(alternatives, spec.tolerations if spread.node_taints_policy == "Honor" else None)
