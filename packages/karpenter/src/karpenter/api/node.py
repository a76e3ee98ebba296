"""Nodes, and the taints that keep pods off them."""

from typing import Annotated, ClassVar

from msgspec import field

from karpenter.api.constraints import QUALIFIED_NAME, constraint
from karpenter.api.labels import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE
from karpenter.api.meta import Resource, ResourceList, Timestamp, Wire, always


# https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
class Taint(Wire, frozen=True, kw_only=True):
    """A mark that repels pods that do not tolerate it."""

    key: Annotated[str, constraint(min_length=1, pattern=QUALIFIED_NAME)]
    """What pods have to tolerate."""

    effect: Annotated[str, constraint(enum=[NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE], required=True)] = ""
    """What happens to pods that do not: kept off, kept off if possible, or driven off."""

    value: Annotated[str, constraint(pattern=QUALIFIED_NAME)] = ""
    """Set only where one key has several meanings."""

    time_added: Timestamp | None = None
    """When the taint was set; written by Kubernetes for NoExecute."""


# The cloud provider of the cluster sets the provider id, and it never changes:
# https://kubernetes.io/docs/concepts/architecture/cloud-controller/#node-controller
class NodeSpec(Wire, frozen=True, kw_only=True):
    """The desired state of a node."""

    provider_id: str = field(name="providerID", default="")
    """The machine behind the node, as its cloud spells it."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeCondition(Wire, frozen=True, kw_only=True):
    """One aspect of a node's health."""

    type: str
    status: str = always("Unknown")
    reason: str = ""
    message: str = ""
    last_heartbeat_time: Timestamp | None = None
    last_transition_time: Timestamp | None = None


class NodeAddress(Wire, frozen=True, kw_only=True):
    """One way to reach a node."""

    type: str
    address: str


class AttachedVolume(Wire, frozen=True, kw_only=True):
    """A volume that is attached to the node."""

    name: str
    device_path: str = ""


class NodeSystemInfo(Wire, frozen=True, kw_only=True):
    """Facts of the node's software."""

    architecture: str = ""
    operating_system: str = ""
    kubelet_version: str = ""
    kernel_version: str = ""
    os_image: str = ""
    container_runtime_version: str = ""
    machine_id: str = field(name="machineID", default="")
    system_uuid: str = field(name="systemUUID", default="")
    boot_id: str = field(name="bootID", default="")


# Allocatable is what is left of the capacity for pods:
# https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/#node-allocatable
class NodeStatus(Wire, frozen=True, kw_only=True):
    """State of a node as its kubelet reports it."""

    capacity: ResourceList = field(default_factory=dict)
    allocatable: ResourceList = field(default_factory=dict)
    """What is left of the capacity for pods."""

    phase: str = ""
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()


class Node(Resource, frozen=True, kw_only=True):
    """A machine that has joined the cluster."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Node"

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
