"""
One device: what it is called, what is known of it, what it can give, and from where it can be reached.

A device is published by a driver for machines that run, or foretold by an instance type for a
machine that is yet to be bought. The two never mix: a foretold device has no claim on the name of
a published one. Amounts are exact billionths; names of attributes and capacities always carry
their domain, which is the driver's where none is written.

Whether a device is free is not known here; that is for :mod:`.ledger`.

What a problem says about devices: claims of pods, who holds what, and what is published.

Values only, worked out by :mod:`.intake` from the objects of a cluster and read by :mod:`.world`.
Which holdings are let go depends on the pods that a problem places, so it is settled when the
problem is encoded: a question of consolidation moves other pods than the next one.

The one error that reading claims, classes and slices can end in.

Where a pod would run, as far as devices care: a node that is there, or a claim of the run.

Taking a device may narrow a place: a device that only one zone can reach pins a new machine to
that zone. A node that is there has all its labels already, so it either suits or does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

import msgspec

from karpenter.api.dra import Device as WireDevice
from karpenter.api.dra import (
    DeviceClaim,
    DeviceClassSpec,
    DeviceRequestAllocationResult,
    DeviceTaint,
    ResourceSliceSpec,
)
from karpenter.api.labels import HOSTNAME
from karpenter.base.quantity import parse_quantity
from karpenter.core.model.catalog import DeviceTemplates
from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karpenter.api.dra import CapacityRequestPolicy, DeviceAttribute, DeviceCapacity
    from karpenter.api.pod import NodeSelector, Pod
    from karpenter.core.scheduling.encode.offerings import Bits
    from karpenter.core.scheduling.pack.nodeclaim import ClaimState, ClaimStates
    from karpenter.core.scheduling.problem import ExistingNode


NODE_NAME: Final = "metadata.name"
"""The field by which selectors name a node; it stands beside labels and never collides with one."""

NodeTerms: TypeAlias = tuple[Requirements, ...]
"""What a node must look like, in alternatives of which one must hold; none at all is nowhere."""

Attribute: TypeAlias = tuple[str, str | int | bool]
"""The type of an attribute and its value: a version is never equal to a text."""

ANYWHERE: Final[NodeTerms] = (NOTHING_REQUIRED,)


class PoolId(NamedTuple):
    """What a pool is called."""

    driver: str
    pool: str
    template: bool = False


class DeviceId(NamedTuple):
    """What a device is called."""

    driver: str
    pool: str
    name: str
    template: bool = False

    @property
    def pool_id(self) -> PoolId:
        """The pool it belongs to."""
        return PoolId(self.driver, self.pool, self.template)


class CounterConsumption(NamedTuple):
    """What a device takes from a counter of its pool."""

    counter_set: str
    counter: str
    amount: int


class RequestPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """In which portions a capacity is given away."""

    default: int | None = None
    values: tuple[int, ...] = ()
    """The portions there are, smallest first; none means any."""

    least: int | None = None
    most: int | None = None
    step: int | None = None


class Capacity(msgspec.Struct, frozen=True):
    """An amount that a device has, and in which portions it is given away."""

    value: int
    policy: RequestPolicy | None = None


class DeviceInfo(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A device, published or foretold."""

    id: DeviceId
    raw: WireDevice
    attributes: Mapping[str, Attribute] = {}
    capacity: Mapping[str, Capacity] = {}
    draws: tuple[CounterConsumption, ...] = ()
    reach: NodeTerms = ANYWHERE
    home: str = ""
    """The only node that has it, by name; empty where several can reach it."""

    taints: tuple[DeviceTaint, ...] = ()
    shared: bool = False
    """Whether several claims may have a share of it at the same time."""


def read_device(raw: WireDevice, pool: PoolId, reach: NodeTerms, home: str = "") -> DeviceInfo:
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
        draws=tuple(
            CounterConsumption(each.counter_set, name, parse_quantity(counter.value).nanos)
            for each in raw.consumes_counters
            for name, counter in each.counters.items()
        ),
        reach=reach,
        home=home,
        taints=raw.taints,
        shared=bool(raw.allow_multiple_allocations),
    )


def read_node_terms(name: str | None, selector: NodeSelector | None, everywhere: bool | None) -> NodeTerms:
    """
    Return from where something can be reached; exactly one of the three is expected to be set.

    Raises:
        RequirementError: if the selector cannot be read.
    """
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
    """A pod that holds a claim."""

    key: str
    uid: str = ""


class PodClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim of a pod."""

    key: str
    name: str
    """What the pod calls it."""

    own: bool = False
    """Whether it was made for one pod, so that nobody else can use it."""

    devices: DeviceClaim = DeviceClaim()
    reach: NodeTerms | None = None
    """From where the devices it was given can be reached; None while it has none."""


class PodClaims(msgspec.Struct, frozen=True, dict=True):
    """The claims of one pod."""

    claims: tuple[PodClaim, ...]

    @cached_property
    def likeness(self) -> bytes:
        """What tells pods apart by their claims: claims made alike for different pods are alike."""
        return _ENCODER.encode([c.devices if c.own and c.reach is None else c.key for c in self.claims])


class AllocatedClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The devices that a claim was given, and who uses them."""

    claim: str
    results: tuple[DeviceRequestAllocationResult, ...]
    consumers: tuple[Consumer, ...] = ()
    """Pods; a claim without any, or held by anything else, keeps its devices."""


class DynamicResources(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about devices that a run depends on."""

    needs: Mapping[str, PodClaims]
    """By pod key; a pod without an entry needs no devices."""

    classes: Mapping[str, DeviceClassSpec] = {}
    slices: tuple[ResourceSliceSpec, ...] = ()
    holdings: tuple[AllocatedClaim, ...] = ()
    leaving: tuple[Consumer, ...] = ()
    """Pods that go away with their node."""

    templates: Mapping[str, DeviceTemplates] = {}
    """What nodes that are on their way will have, by node name."""

    def let_go(self, pods: Iterable[Pod]) -> frozenset[str]:
        """Return the claims that give their devices back once `pods` have left the nodes they run on."""
        gone = {each.key: each.uid for each in self.leaving}
        gone |= {pod.key: pod.metadata.uid for pod in pods if pod.spec.node_name}
        return frozenset(
            holding.claim
            for holding in self.holdings
            if holding.consumers and all(_is_gone(each, gone) for each in holding.consumers)
        )


def _is_gone(consumer: Consumer, gone: Mapping[str, str]) -> bool:
    uid = gone.get(consumer.key)
    return uid is not None and (not uid or not consumer.uid or uid == consumer.uid)


class DeviceClaimError(ValueError):  # noqa: N818  reads as what it is: devices that nobody can allocate
    """Something about devices that cannot be read or is not understood; the text is one sentence."""


class AllocationTarget(Protocol):
    """Somewhere that can be narrowed."""

    def narrow(self, wanted: Requirements) -> AllocationTarget | None:
        """Return the place once it also satisfies `wanted`; None when it never can."""


class NodeTarget:
    """A node that is there."""

    def __init__(self, node: ExistingNode) -> None:
        self._requirements = Requirements.from_labels({**node.labels, NODE_NAME: node.name})

    def narrow(self, wanted: Requirements) -> NodeTarget | None:
        """Return the same node if it is like that."""
        return self if self._requirements.accepts(wanted) else None


class ClaimTarget:
    """A claim of the run, which must be able to stay one of some kinds of machine."""

    __slots__ = ("_must", "_states", "state")

    def __init__(self, states: ClaimStates, state: ClaimState, must: Sequence[Bits]) -> None:
        """Some offering of each set in `must` has to stay possible."""
        self._states = states
        self._must = must
        self.state = state

    def narrow(self, wanted: Requirements) -> ClaimTarget | None:
        """Return the claim narrowed; a machine that is yet to come has no name to be known by."""
        for key in (NODE_NAME, HOSTNAME):
            if key in wanted:
                if not wanted[key].complement:
                    return None
                wanted = wanted.without(key)
        state = self._states.step(self.state, wanted) if len(wanted) else self.state
        if state is None or not all(state.bits & each for each in self._must):
            return None
        return ClaimTarget(self._states, state, self._must)
