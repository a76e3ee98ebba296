"""What ranks and protects pods: priority classes and disruption budgets."""

from typing import ClassVar

from msgspec import field

from karpenter.api.meta import Condition, LabelSelector, Resource
from karpenter.api.wire import IntOrString, Wire


class PodDisruptionBudgetSpec(Wire, frozen=True, kw_only=True):
    """How many of the selected pods must stay, or may go, at once."""

    selector: LabelSelector | None = None
    """Absent selects nothing; empty selects every pod of the namespace."""

    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    unhealthy_pod_eviction_policy: str = ""
    """IfHealthyBudget (also when empty) or AlwaysAllow."""


class PodDisruptionBudgetStatus(Wire, frozen=True, kw_only=True):
    """How many may go right now."""

    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: dict[str, str] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(Resource, frozen=True, kw_only=True):
    """A promise not to evict too many pods at once."""

    api_version: ClassVar[str] = "policy/v1"
    kind: ClassVar[str] = "PodDisruptionBudget"

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class PriorityClass(Resource, frozen=True, kw_only=True):
    """A name for a pod priority."""

    api_version: ClassVar[str] = "scheduling.k8s.io/v1"
    kind: ClassVar[str] = "PriorityClass"

    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""
    description: str = ""
