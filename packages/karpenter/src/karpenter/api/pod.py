"""
Pods and pod templates: the fields that decide where a pod can run and when it may be evicted.

Volumes are decoded as far as they restrict where a pod can run: persistent volume claims and ephemeral
volumes. Of every other volume only the name is kept. These are shapes only; ``core.scheduling`` decides
what they mean.
"""

from typing import ClassVar

from msgspec import field

from karpenter.api.meta import LabelSelector, ObjectMeta, Resource, ResourceList, Timestamp, Wire, always


class VolumeResources(Wire, frozen=True, kw_only=True):
    """Amount of storage that a claim requests."""

    requests: ResourceList = field(default_factory=dict)
    limits: ResourceList = field(default_factory=dict)


class PersistentVolumeClaimSpec(Wire, frozen=True, kw_only=True):
    """Storage that a claim requests, and the volume it is bound to."""

    access_modes: tuple[str, ...] = ()
    resources: VolumeResources = VolumeResources()
    storage_class_name: str | None = None
    """Absent means the default class; empty means no class at all."""

    volume_name: str = ""
    volume_mode: str = ""


class PersistentVolumeClaimTemplate(Wire, frozen=True, kw_only=True):
    """The claim that is made for a pod's ephemeral volume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


# The claim of such a volume is named after the pod and the volume, and goes with the pod:
# https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#generic-ephemeral-volumes
class EphemeralVolumeSource(Wire, frozen=True, kw_only=True):
    """A volume that lives as long as its pod; its claim is called ``<pod>-<volume>``."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class PersistentVolumeClaimSource(Wire, frozen=True, kw_only=True):
    """A claim of the pod's namespace, by name."""

    claim_name: str
    read_only: bool = False


class Volume(Wire, frozen=True, kw_only=True):
    """One volume of a pod."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    ephemeral: EphemeralVolumeSource | None = None


class NodeSelectorRequirement(Wire, frozen=True, kw_only=True):
    """One condition on one node label (or field)."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


# Terms are alternatives; the expressions of one term must all hold:
# https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-affinity
class NodeSelectorTerm(Wire, frozen=True, kw_only=True):
    """Conditions that must all hold."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Wire, frozen=True, kw_only=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Wire, frozen=True, kw_only=True):
    """A preferred term, and its weight."""

    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Wire, frozen=True, kw_only=True):
    """Which nodes a pod requires, and which it prefers."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


# Without namespaces and a selector of namespaces a term means the namespace of its pod:
# https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#namespace-selector
class PodAffinityTerm(Wire, frozen=True, kw_only=True):
    """Pods to be near to, or far from, and what near means."""

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Wire, frozen=True, kw_only=True):
    """A preferred pod affinity term, and its weight."""

    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Wire, frozen=True, kw_only=True):
    """Pod affinity, or pod anti-affinity: required and preferred terms."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Wire, frozen=True, kw_only=True):
    """Node affinity, pod affinity and pod anti-affinity of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


# Lt and Gt are alpha since Kubernetes 1.35:
# https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
class Toleration(Wire, frozen=True, kw_only=True):
    """A taint that the pod tolerates; an empty key or effect matches any."""

    key: str = ""
    operator: str = ""
    """Equal (also when empty), Exists, Lt or Gt."""

    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


# https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/
class TopologySpreadConstraint(Wire, frozen=True, kw_only=True):
    """Rule for spreading pods like this one evenly over the values of a label."""

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


class ContainerClaim(Wire, frozen=True, kw_only=True):
    """A device claim of the pod that a container uses."""

    name: str
    request: str = ""


class ResourceRequirements(Wire, frozen=True, kw_only=True):
    """Resources that a container asks for, and those it may not exceed."""

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


# https://kubernetes.io/docs/concepts/workloads/pods/probes/
class Probe(Wire, frozen=True, kw_only=True):
    """When a container is asked how it is; what it is asked is not read here."""

    initial_delay_seconds: int = 0
    period_seconds: int = 10
    success_threshold: int = 1


# https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/
class SleepAction(Wire, frozen=True, kw_only=True):
    """A pause."""

    seconds: int = 0


class ExecAction(Wire, frozen=True, kw_only=True):
    """A command in the container."""

    command: tuple[str, ...] = ()


class LifecycleHandler(Wire, frozen=True, kw_only=True):
    """Action at a point of a container's life."""

    sleep: SleepAction | None = None
    exec: ExecAction | None = None


class Lifecycle(Wire, frozen=True, kw_only=True):
    """The hooks of a container."""

    pre_stop: LifecycleHandler | None = None


class Container(Wire, frozen=True, kw_only=True):
    """One container: the fields that scheduling reads, and those that time its start and its end."""

    name: str = ""
    image: str = ""
    restart_policy: str = ""
    """``Always`` on an init container makes it a sidecar, which keeps its resources."""

    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None


# https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
class PodResourceClaim(Wire, frozen=True, kw_only=True):
    """A device claim the pod needs: an existing one, or one made from a template."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


# https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/
# A pod with gates is not scheduled, so no node is made for it:
# https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/
class PodSchedulingGate(Wire, frozen=True, kw_only=True):
    """A reason not to schedule the pod yet."""

    name: str


# https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
# https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-readiness-gate
class PodReadinessGate(Wire, frozen=True, kw_only=True):
    """A condition besides its containers that the pod waits for to be ready."""

    condition_type: str


class PodSpec(Wire, frozen=True, kw_only=True):
    """Containers of a pod and its constraints on a node."""

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
    """End of a container."""

    exit_code: int = 0


class ContainerState(Wire, frozen=True, kw_only=True):
    """State of a container; only its end is read."""

    terminated: ContainerEnd | None = None


class ContainerStatus(Wire, frozen=True, kw_only=True):
    """Resources of a container, which differ from its spec while it is resized, and its end."""

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
