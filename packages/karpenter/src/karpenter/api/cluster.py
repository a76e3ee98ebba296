"""
Kinds of several Kubernetes groups: namespaces, services, leases, events, disruption budgets, priority
classes.
"""

from typing import ClassVar

from msgspec import field

from karpenter.api.meta import (
    Condition,
    IntOrString,
    LabelSelector,
    ObjectReference,
    Resource,
    Timestamp,
    Wire,
)


class Namespace(Resource, frozen=True, kw_only=True):
    """A namespace; pod affinity selects namespaces by their labels."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Namespace"


class ServicePort(Wire, frozen=True, kw_only=True):
    """One port of a service."""

    name: str = ""
    protocol: str = "TCP"
    port: int = 0
    target_port: IntOrString | None = None
    node_port: int = 0


class ServiceSpec(Wire, frozen=True, kw_only=True):
    """Which pods a service fronts, and where it listens."""

    type: str = ""
    selector: dict[str, str] = field(default_factory=dict)
    ports: tuple[ServicePort, ...] = ()
    cluster_ip: str = field(name="clusterIP", default="")


class Service(Resource, frozen=True, kw_only=True):
    """A stable address for a set of pods."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Service"

    spec: ServiceSpec = ServiceSpec()


# https://kubernetes.io/docs/concepts/architecture/leases/
class LeaseSpec(Wire, frozen=True, kw_only=True):
    """Who holds a lease, and since when."""

    holder_identity: str = ""
    lease_duration_seconds: int | None = None
    acquire_time: Timestamp | None = None
    renew_time: Timestamp | None = None
    lease_transitions: int | None = None


# https://kubernetes.io/docs/concepts/architecture/leases/
class Lease(Resource, frozen=True, kw_only=True):
    """A lock that has to be renewed."""

    api_version: ClassVar[str] = "coordination.k8s.io/v1"
    kind: ClassVar[str] = "Lease"

    spec: LeaseSpec = LeaseSpec()


class EventSource(Wire, frozen=True, kw_only=True):
    """Who saw an event."""

    component: str = ""
    host: str = ""


# https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
class EventSeries(Wire, frozen=True, kw_only=True):
    """Repetitions of an event."""

    count: int = 0
    last_observed_time: Timestamp | None = None


class Event(Resource, frozen=True, kw_only=True):
    """A Kubernetes Event: something that happened to an object."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Event"

    involved_object: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    reason: str = ""
    message: str = ""
    type: str = ""
    """Normal or Warning."""

    action: str = ""
    count: int = 0
    source: EventSource = EventSource()
    series: EventSeries | None = None
    reporting_component: str = ""
    reporting_instance: str = ""
    event_time: Timestamp | None = None
    first_timestamp: Timestamp | None = None
    last_timestamp: Timestamp | None = None


# https://kubernetes.io/docs/tasks/run-application/configure-pdb/
class PodDisruptionBudgetSpec(Wire, frozen=True, kw_only=True):
    """Number of the selected pods that must stay, or may go, at once."""

    selector: LabelSelector | None = None
    """Absent selects nothing; empty selects every pod of the namespace."""

    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    unhealthy_pod_eviction_policy: str = ""
    """IfHealthyBudget (also when empty) or AlwaysAllow."""


class PodDisruptionBudgetStatus(Wire, frozen=True, kw_only=True):
    """Number of pods that may go right now."""

    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: dict[str, str] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(Resource, frozen=True, kw_only=True):
    """A limit on how many pods may be evicted at once."""

    api_version: ClassVar[str] = "policy/v1"
    kind: ClassVar[str] = "PodDisruptionBudget"

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


# https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/#priorityclass
class PriorityClass(Resource, frozen=True, kw_only=True):
    """A name for a pod priority."""

    api_version: ClassVar[str] = "scheduling.k8s.io/v1"
    kind: ClassVar[str] = "PriorityClass"

    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""
    description: str = ""
