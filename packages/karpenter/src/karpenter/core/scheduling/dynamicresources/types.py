"""
The values of dynamic resource allocation: devices, pools, the claims of pods, and what is allocated.

A device is published by a driver in a ResourceSlice, or it is a template device: an instance type says that
a new node will have it. The two never mix: a template device never stands for a published one of the same
name. Amounts are exact billionths; names of attributes and capacities always carry their domain, which is
the driver's where none is written.

:mod:`.build` makes these values from the objects of a cluster, :mod:`.allocator` reads them. Which
allocations are released depends on the pods that a problem places, so it is decided when the problem is
encoded. Whether a device is free is in :mod:`.allocationtracker`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

import msgspec

from karpenter.api.dra import (
    CapacityRequestPolicy,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClassSpec,
    DeviceRequestAllocationResult,
    DeviceTaint,
    ResourceSliceSpec,
)
from karpenter.api.dra import Device as WireDevice
from karpenter.base.quantity import parse_quantity
from karpenter.core.model.catalog import DeviceTemplates
from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements

if TYPE_CHECKING:
    from karpenter.api.pod import NodeSelector, Pod


NODE_NAME: Final = "metadata.name"
"""The field by which node selectors name a node; no label has this key."""

NodeTerms: TypeAlias = tuple[Requirements, ...]
"""The terms of a node selector, of which one must hold; an empty tuple selects no node."""

Attribute: TypeAlias = tuple[str, str | int | bool]
"""The type of an attribute and its value: a version never equals a string."""

ANYWHERE: Final[NodeTerms] = (NOTHING_REQUIRED,)


class PoolId(NamedTuple):
    """The identity of a resource pool."""

    driver: str
    pool: str
    template: bool = False


class DeviceId(NamedTuple):
    """The identity of a device."""

    driver: str
    pool: str
    name: str
    template: bool = False

    @property
    def pool_id(self) -> PoolId:
        return PoolId(self.driver, self.pool, self.template)


class CounterConsumption(NamedTuple):
    """What a device consumes of a counter of its pool."""

    counter_set: str
    counter: str
    amount: int


class RequestPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Which amounts of a capacity a request may consume (CapacityRequestPolicy)."""

    default: int | None = None
    values: tuple[int, ...] = ()
    """The valid amounts, smallest first; none means any."""

    least: int | None = None
    most: int | None = None
    step: int | None = None


class Capacity(msgspec.Struct, frozen=True):
    """An amount that a device has, and which parts of it a request may consume."""

    value: int
    policy: RequestPolicy | None = None


class DeviceInfo(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A device of a ResourceSlice, or a template device of an instance type."""

    id: DeviceId
    raw: WireDevice
    attributes: Mapping[str, Attribute] = {}
    capacity: Mapping[str, Capacity] = {}
    consumes_counters: tuple[CounterConsumption, ...] = ()
    node_terms: NodeTerms = ANYWHERE
    node_name: str = ""
    """The only node that has the device; empty where several nodes can reach it."""

    taints: tuple[DeviceTaint, ...] = ()
    shared: bool = False
    """Whether several claims may have a share of it at the same time (allowMultipleAllocations)."""


def read_device(raw: WireDevice, pool: PoolId, node_terms: NodeTerms, node_name: str = "") -> DeviceInfo:
    """
    Return a device of a slice.

    Raises:
        QuantityError: if an amount of it cannot be read.
    """
    return DeviceInfo(
        id=DeviceId(pool.driver, pool.pool, raw.name, pool.template),
        raw=raw,
        attributes={
            qualified(name, pool.driver): read
            for name, each in raw.attributes.items()
            if (read := _attribute(each)) is not None
        },
        capacity={qualified(name, pool.driver): _capacity(each) for name, each in raw.capacity.items()},
        consumes_counters=tuple(
            CounterConsumption(each.counter_set, name, parse_quantity(counter.value).nanos)
            for each in raw.consumes_counters
            for name, counter in each.counters.items()
        ),
        node_terms=node_terms,
        node_name=node_name,
        taints=raw.taints,
        shared=bool(raw.allow_multiple_allocations),
    )


def read_node_terms(name: str | None, selector: NodeSelector | None, everywhere: bool | None) -> NodeTerms:
    """
    Return the node selector terms of a slice or device; exactly one of the three is expected to be set.

    Raises:
        RequirementError: if the selector cannot be read.
    """
    # A slice or device sets exactly one of nodeName, nodeSelector and allNodes.
    if name:
        return (Requirements.only(NODE_NAME, frozenset({name})),)
    if selector is not None:
        terms = selector.node_selector_terms
        stated = [(*term.match_expressions, *term.match_fields) for term in terms]
        return tuple(Requirements.from_entries(each) for each in stated if each)  # an empty term is nowhere
    return ANYWHERE if everywhere else ()


def qualified(name: str, driver: str) -> str:
    """Return the name of an attribute or capacity with its domain."""
    return name if "/" in name else f"{driver}/{name}"


def _attribute(each: DeviceAttribute) -> Attribute | None:
    if each.int_ is not None:
        return "int", each.int_
    if each.bool_ is not None:
        return "bool", each.bool_
    if each.string is not None:
        return "string", each.string
    return ("version", each.version) if each.version is not None else None


def _capacity(each: DeviceCapacity) -> Capacity:
    policy = _policy(each.request_policy) if each.request_policy is not None else None
    return Capacity(parse_quantity(each.value).nanos, policy)


def _policy(each: CapacityRequestPolicy) -> RequestPolicy:
    limits = each.valid_range
    return RequestPolicy(
        default=_nanos(each.default),
        values=tuple(sorted(parse_quantity(value).nanos for value in each.valid_values)),
        least=_nanos(limits.min) if limits is not None else None,
        most=_nanos(limits.max) if limits is not None else None,
        step=_nanos(limits.step) if limits is not None else None,
    )


def _nanos(written: str | float | None) -> int | None:
    return None if written is None else parse_quantity(written).nanos


_ENCODER: Final = msgspec.json.Encoder(order="sorted")


class Consumer(msgspec.Struct, frozen=True):
    """A pod for which a claim is reserved."""

    key: str
    uid: str = ""


class PodClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A ResourceClaim as one pod refers to it."""

    key: str
    name: str
    """What the pod calls it."""

    generated: bool = False
    """Whether it is made from a ResourceClaimTemplate for one pod, so that no other pod can use it."""

    devices: DeviceClaim = DeviceClaim()
    node_terms: NodeTerms | None = None
    """The node selector of its allocation; None while it has none."""


class PodClaims(msgspec.Struct, frozen=True, dict=True):
    """The claims of one pod."""

    claims: tuple[PodClaim, ...]

    @cached_property
    def identity(self) -> bytes:
        """What tells pods apart by their claims; claims generated from one template are alike."""
        return _ENCODER.encode(
            [c.devices if c.generated and c.node_terms is None else c.key for c in self.claims]
        )


class AllocatedClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The allocation of a claim, and the pods that it is reserved for."""

    claim: str
    results: tuple[DeviceRequestAllocationResult, ...]
    consumers: tuple[Consumer, ...] = ()
    """A claim without any, or reserved for anything but pods, keeps its devices."""


class DynamicResources(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about dynamic resource allocation that a run depends on."""

    pod_claims: Mapping[str, PodClaims]
    """By pod key; a pod without an entry claims no devices."""

    classes: Mapping[str, DeviceClassSpec] = {}
    slices: tuple[ResourceSliceSpec, ...] = ()
    allocated_claims: tuple[AllocatedClaim, ...] = ()
    deleting_pods: tuple[Consumer, ...] = ()
    """Pods that go away with their nodes."""

    templates: Mapping[str, DeviceTemplates] = {}
    """The template devices of nodes that are not initialized, by node name."""

    def released_claims(self, pods: Iterable[Pod]) -> frozenset[str]:
        """Return the claims whose devices are released once `pods` have left the nodes they run on."""
        gone = {each.key: each.uid for each in self.deleting_pods}
        gone |= {pod.key: pod.metadata.uid for pod in pods if pod.spec.node_name}
        return frozenset(
            allocated.claim
            for allocated in self.allocated_claims
            if allocated.consumers and all(_is_gone(each, gone) for each in allocated.consumers)
        )


def _is_gone(consumer: Consumer, gone: Mapping[str, str]) -> bool:
    uid = gone.get(consumer.key)
    return uid is not None and (not uid or not consumer.uid or uid == consumer.uid)


class DeviceClaimError(ValueError):
    """A claim, class or slice that cannot be read or is not supported; the text is one sentence."""


class AllocationTarget(Protocol):
    """A node or a claim of the run, for which devices are searched."""

    def narrow(self, wanted: Requirements) -> AllocationTarget | None:
        """Return the target once it also satisfies `wanted`; None when it never can."""
