"""
Pods and pod templates: everything about a pod that decides where it can run and when it may move.

Affinity, tolerations and spread are in :mod:`.placement`; containers and volumes are here.
"""

from typing import ClassVar

from msgspec import field

from karpenter.api.meta import ObjectMeta, Resource, Timestamp
from karpenter.api.placement import Affinity, Toleration, TopologySpreadConstraint
from karpenter.api.volume import Volume
from karpenter.api.wire import ResourceList, Wire, always


class ContainerClaim(Wire, frozen=True, kw_only=True):
    """A device claim of the pod that a container uses."""

    name: str
    request: str = ""


class ResourceRequirements(Wire, frozen=True, kw_only=True):
    """What a container asks for, and what it may not exceed."""

    requests: ResourceList = field(default_factory=dict)
    limits: ResourceList = field(default_factory=dict)
    claims: tuple[ContainerClaim, ...] = ()


class ContainerPort(Wire, frozen=True, kw_only=True):
    """A port a container listens on; with a host port it occupies the node's."""

    name: str = ""
    container_port: int = 0
    host_port: int = 0
    host_ip: str = field(name="hostIP", default="")
    protocol: str = "TCP"


class Container(Wire, frozen=True, kw_only=True):
    """One container, as far as scheduling cares."""

    name: str = ""
    image: str = ""
    restart_policy: str = ""
    """``Always`` on an init container makes it a sidecar, which keeps its resources."""

    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()


class PodResourceClaim(Wire, frozen=True, kw_only=True):
    """A device claim the pod needs: an existing one, or one made from a template."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGate(Wire, frozen=True, kw_only=True):
    """A reason not to schedule the pod yet."""

    name: str


class PodReadinessGate(Wire, frozen=True, kw_only=True):
    """A condition besides its containers that the pod waits for to be ready."""

    condition_type: str


class PodSpec(Wire, frozen=True, kw_only=True):
    """What a pod wants."""

    node_name: str = ""
    """Where the pod is bound; empty while it waits."""

    node_selector: dict[str, str] = field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: ResourceList = field(default_factory=dict)
    resources: ResourceRequirements | None = None
    """Resources of the pod as a whole, which override the sum of its containers."""

    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    volumes: tuple[Volume, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    scheduler_name: str = ""
    runtime_class_name: str = ""
    service_account_name: str = ""
    restart_policy: str = ""
    host_network: bool = False


class PodCondition(Wire, frozen=True, kw_only=True):
    """One aspect of a pod's state."""

    type: str
    status: str = always("Unknown")
    reason: str = ""
    message: str = ""
    last_probe_time: Timestamp | None = None
    last_transition_time: Timestamp | None = None
    observed_generation: int = 0


class ContainerEnd(Wire, frozen=True, kw_only=True):
    """How a container has ended."""

    exit_code: int = 0


class ContainerState(Wire, frozen=True, kw_only=True):
    """What a container is doing; only its end is read."""

    terminated: ContainerEnd | None = None


class ContainerStatus(Wire, frozen=True, kw_only=True):
    """What a container was given, which differs from its spec while it is resized, and how it ended."""

    name: str = ""
    state: ContainerState = ContainerState()
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    allocated_resources: ResourceList = field(default_factory=dict)
    resources: ResourceRequirements | None = None


class PodResourceClaimStatus(Wire, frozen=True, kw_only=True):
    """The claim that was made for an entry of ``spec.resourceClaims``; none when it was not needed."""

    name: str
    resource_claim_name: str | None = None


class PodStatus(Wire, frozen=True, kw_only=True):
    """Where a pod stands."""

    phase: str = ""
    """Pending, Running, Succeeded, Failed or Unknown."""

    conditions: tuple[PodCondition, ...] = ()
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    start_time: Timestamp | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resize: str = ""
    """``Infeasible`` or ``Deferred`` while a resize waits (before Kubernetes 1.33; later, a condition)."""

    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    allocated_resources: ResourceList = field(default_factory=dict)
    resources: ResourceRequirements | None = None
    qos_class: str = ""
    pod_ip: str = field(name="podIP", default="")
    host_ip: str = field(name="hostIP", default="")


class Pod(Resource, frozen=True, kw_only=True):
    """A group of containers that runs on one node."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Pod"

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplateSpec(Wire, frozen=True, kw_only=True):
    """The pods that a workload makes."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class PodTemplate(Resource, frozen=True, kw_only=True):
    """A pod template as an object of its own, which a CapacityBuffer may point at."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "PodTemplate"

    template: PodTemplateSpec = PodTemplateSpec()
