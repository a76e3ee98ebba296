"""
One device: what it is called, what is known of it, what it can give, and from where it can be reached.

A device is published by a driver for machines that run, or foretold by an instance type for a
machine that is yet to be bought. The two never mix: a foretold device has no claim on the name of
a published one. Amounts are exact billionths; names of attributes and capacities always carry
their domain, which is the driver's where none is written.

Whether a device is free is not known here; that is for :mod:`.ledger`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from karpenter.api.dra import Device as WireDevice
from karpenter.api.dra import DeviceTaint
from karpenter.base.quantity import parse_quantity
from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements

if TYPE_CHECKING:
    from karpenter.api.dra import CapacityRequestPolicy, DeviceAttribute, DeviceCapacity
    from karpenter.api.placement import NodeSelector

NODE_NAME: Final = "metadata.name"
"""The field by which selectors name a node; it stands beside labels and never collides with one."""

Reach: TypeAlias = tuple[Requirements, ...]
"""What a node must look like, in alternatives of which one must hold; none at all is nowhere."""

Attribute: TypeAlias = tuple[str, str | int | bool]
"""The type of an attribute and its value: a version is never equal to a text."""

ANYWHERE: Final[Reach] = (NOTHING_REQUIRED,)


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


class Draw(NamedTuple):
    """What a device takes from a counter of its pool."""

    counter_set: str
    counter: str
    amount: int


class Policy(msgspec.Struct, frozen=True, kw_only=True):
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
    policy: Policy | None = None


class Device(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A device, published or foretold."""

    id: DeviceId
    raw: WireDevice
    attributes: Mapping[str, Attribute] = {}
    capacity: Mapping[str, Capacity] = {}
    draws: tuple[Draw, ...] = ()
    reach: Reach = ANYWHERE
    home: str = ""
    """The only node that has it, by name; empty where several can reach it."""

    taints: tuple[DeviceTaint, ...] = ()
    shared: bool = False
    """Whether several claims may have a share of it at the same time."""


def read_device(raw: WireDevice, pool: PoolId, reach: Reach, home: str = "") -> Device:
    """
    Return a device of a slice.

    Raises:
        QuantityError: if an amount of it cannot be read.
    """
    return Device(
        id=DeviceId(pool.driver, pool.pool, raw.name, pool.template),
        raw=raw,
        attributes={
            qualified(name, pool.driver): read
            for name, each in raw.attributes.items()
            if (read := _attribute(each)) is not None
        },
        capacity={qualified(name, pool.driver): _capacity(each) for name, each in raw.capacity.items()},
        draws=tuple(
            Draw(each.counter_set, name, parse_quantity(counter.value).nanos)
            for each in raw.consumes_counters
            for name, counter in each.counters.items()
        ),
        reach=reach,
        home=home,
        taints=raw.taints,
        shared=bool(raw.allow_multiple_allocations),
    )


def read_reach(name: str | None, selector: NodeSelector | None, everywhere: bool | None) -> Reach:
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


def _policy(each: CapacityRequestPolicy) -> Policy:
    limits = each.valid_range
    return Policy(
        default=_nanos(each.default),
        values=tuple(sorted(parse_quantity(value).nanos for value in each.valid_values)),
        least=_nanos(limits.min) if limits is not None else None,
        most=_nanos(limits.max) if limits is not None else None,
        step=_nanos(limits.step) if limits is not None else None,
    )


def _nanos(written: str | float | None) -> int | None:
    return None if written is None else parse_quantity(written).nanos
