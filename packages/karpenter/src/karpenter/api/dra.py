"""
Dynamic resource allocation, ``resource.k8s.io/v1``: device classes, resource slices and resource claims.

See https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
"""

from typing import ClassVar

from msgspec import field

from karpenter.api.meta import ObjectMeta, Quantity, Resource, Wire
from karpenter.api.pod import NodeSelector


# https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
class CELDeviceSelector(Wire, frozen=True, kw_only=True):
    """An expression over one device."""

    expression: str


class DeviceSelector(Wire, frozen=True, kw_only=True):
    """A condition on a device; only expressions exist so far."""

    cel: CELDeviceSelector | None = None


class DeviceClassSpec(Wire, frozen=True, kw_only=True):
    """Which devices belong to a class."""

    selectors: tuple[DeviceSelector, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Resource, frozen=True, kw_only=True):
    """A named group of devices."""

    api_version: ClassVar[str] = "resource.k8s.io/v1"
    kind: ClassVar[str] = "DeviceClass"

    spec: DeviceClassSpec = DeviceClassSpec()


class CapacityRequirements(Wire, frozen=True, kw_only=True):
    """Amounts of a shared device that a request needs, per dimension."""

    requests: dict[str, Quantity] = field(default_factory=dict)


class DeviceToleration(Wire, frozen=True, kw_only=True):
    """A device taint that a request tolerates."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class ExactDeviceRequest(Wire, frozen=True, kw_only=True):
    """A number of devices of a class, or all of them."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    """ExactCount (also when empty) or All."""

    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(Wire, frozen=True, kw_only=True):
    """One alternative of a request, in order of preference."""

    name: str
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Wire, frozen=True, kw_only=True):
    """One request of a claim: exact devices, or the first of several alternatives that is available."""

    name: str
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Wire, frozen=True, kw_only=True):
    """An attribute that the devices of some requests must share, or must not."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(Wire, frozen=True, kw_only=True):
    """The requests of a claim, and what must hold across them."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()


class ResourceClaimSpec(Wire, frozen=True, kw_only=True):
    """Devices that a claim requests."""

    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Wire, frozen=True, kw_only=True):
    """The device that a request was given."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    consumed_capacity: dict[str, Quantity] = field(default_factory=dict)
    share_id: str | None = field(name="shareID", default=None)


class DeviceAllocationResult(Wire, frozen=True, kw_only=True):
    """The devices that a claim was given."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()


class AllocationResult(Wire, frozen=True, kw_only=True):
    """Devices that a claim was given, and the nodes that can use them."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None


class ResourceClaimConsumer(Wire, frozen=True, kw_only=True):
    """Who holds a claim; pods have an empty group and the resource ``pods``."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(Wire, frozen=True, kw_only=True):
    """Devices that were allocated to a claim, and the pods that it is reserved for."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumer, ...] = ()


class ResourceClaim(Resource, frozen=True, kw_only=True):
    """A request for devices."""

    api_version: ClassVar[str] = "resource.k8s.io/v1"
    kind: ClassVar[str] = "ResourceClaim"

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Wire, frozen=True, kw_only=True):
    """The claims that are made for pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Resource, frozen=True, kw_only=True):
    """A claim per pod."""

    api_version: ClassVar[str] = "resource.k8s.io/v1"
    kind: ClassVar[str] = "ResourceClaimTemplate"

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


# A pool is whole when all slices of its newest generation are there:
# https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/resource-slice-v1/
class ResourcePool(Wire, frozen=True, kw_only=True):
    """The pool a slice is part of; the newest generation counts."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class DeviceAttribute(Wire, frozen=True, kw_only=True):
    """A fact about a device; one of the four is set."""

    int_: int | None = field(name="int", default=None)
    bool_: bool | None = field(name="bool", default=None)
    string: str | None = None
    version: str | None = None


class CapacityRequestPolicyRange(Wire, frozen=True, kw_only=True):
    """The amounts that may be requested: from min, in steps, up to max."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Wire, frozen=True, kw_only=True):
    """Rules for dividing a shared capacity."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Wire, frozen=True, kw_only=True):
    """An amount that a device has."""

    value: Quantity
    request_policy: CapacityRequestPolicy | None = None


class Counter(Wire, frozen=True, kw_only=True):
    """An amount that several devices draw from."""

    value: Quantity


# Devices that are cut out of one share its counters:
# https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#partitionable-devices
class CounterSet(Wire, frozen=True, kw_only=True):
    """Counters under one name."""

    name: str
    counters: dict[str, Counter] = field(default_factory=dict)


class DeviceCounterConsumption(Wire, frozen=True, kw_only=True):
    """Counters that a device draws from a counter set."""

    counter_set: str
    counters: dict[str, Counter] = field(default_factory=dict)


# https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#device-taints-and-tolerations
class DeviceTaint(Wire, frozen=True, kw_only=True):
    """A mark that keeps requests off a device."""

    key: str
    value: str = ""
    effect: str = ""


class Device(Wire, frozen=True, kw_only=True):
    """One device of a slice."""

    name: str
    attributes: dict[str, DeviceAttribute] = field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = field(default_factory=dict)
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    allow_multiple_allocations: bool | None = None


class ResourceSliceSpec(Wire, frozen=True, kw_only=True):
    """Devices of one driver and pool, and the nodes that can reach them."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Resource, frozen=True, kw_only=True):
    """Devices that a driver offers."""

    api_version: ClassVar[str] = "resource.k8s.io/v1"
    kind: ClassVar[str] = "ResourceSlice"

    spec: ResourceSliceSpec = ResourceSliceSpec()
