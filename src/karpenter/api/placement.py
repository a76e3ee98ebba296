"""
Where a pod may run: node affinity, affinity to other pods, tolerations and topology spread.

Shapes only. What they mean together is decided by the scheduler in ``core``.
"""

from karpenter.api.meta import LabelSelector
from karpenter.api.wire import Wire


class NodeSelectorRequirement(Wire, frozen=True, kw_only=True):
    """One condition on one node label (or field)."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Wire, frozen=True, kw_only=True):
    """Conditions that must all hold."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Wire, frozen=True, kw_only=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Wire, frozen=True, kw_only=True):
    """A term that would be nice to hold, and how nice."""

    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Wire, frozen=True, kw_only=True):
    """Which nodes a pod needs, and which it would rather have."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Wire, frozen=True, kw_only=True):
    """Pods to be near to, or far from, and what near means."""

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Wire, frozen=True, kw_only=True):
    """A pod affinity term that would be nice to hold, and how nice."""

    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Wire, frozen=True, kw_only=True):
    """Which pods a pod must, or would rather, be near to (or far from, as anti-affinity)."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Wire, frozen=True, kw_only=True):
    """Everything a pod says about its neighbours."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Wire, frozen=True, kw_only=True):
    """A taint the pod does not mind; an empty key or effect stands for any."""

    key: str = ""
    operator: str = ""
    """Equal (also when empty), Exists, Lt or Gt."""

    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(Wire, frozen=True, kw_only=True):
    """How evenly pods like this one are to be spread over the values of a label."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    """DoNotSchedule or ScheduleAnyway."""

    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    """Honor (also when absent) or Ignore."""

    node_taints_policy: str | None = None
    """Honor or Ignore (also when absent)."""

    match_label_keys: tuple[str, ...] = ()
