"""
Makes sure that a replacement is cheaper, whichever of its instance types the provider launches.

A claim names many instance types, and any of them may be launched. So a type stays only if even its most
expensive offering, in the capacity type that would be launched, costs less than what is removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from karpenter.api.labels import CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT
from karpenter.core.scheduling.decode import ClaimInstanceTypeOptions
from karpenter.core.scheduling.encode.nodeclaimtemplate import to_bits
from karpenter.core.scheduling.pack.reservationmanager import distinct_values, violates_min_values
from karpenter.core.scheduling.problem import Purchase

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karpenter.core.scheduling.encode.nodeclaimtemplate import Bits, PoolOfferingTable
    from karpenter.core.scheduling.problem import NewNode

_WAYS: Final = (RESERVED, SPOT, ON_DEMAND)


def allows(node: NewNode, capacity_type: str) -> bool:
    """Return whether a new node could be bought this way."""
    fitting = _fitting(node)
    return capacity_type in fitting.table.values(CAPACITY_TYPE, fitting.bits())


def only(node: NewNode, capacity_type: str) -> NewNode | None:
    """Return a new node that is bought only this way, or None when it cannot be."""
    fitting = _fitting(node)
    flags = fitting.table.has_capacity_type(capacity_type)
    return _narrowed(node, fitting.bits() & to_bits(flags))


def cheaper_than(node: NewNode, price: float) -> NewNode | None:
    """Return a new node all of whose types cost less than `price` at worst; None when there are none."""
    fitting = _fitting(node)
    table, bits = fitting.table, fitting.bits()
    worst = _worst(table, bits)
    return _narrowed(node, table.keep_types(bits, worst < price))


def cheapest_types(node: NewNode, count: int) -> NewNode:
    """Return a new node that names no more than its `count` cheapest types."""
    fitting = _fitting(node)
    table = fitting.table
    wanted = set(fitting.type_names()[:count])
    flags = np.array([kind.name in wanted for kind in table.types], bool)
    narrowed = _narrowed(node, table.keep_types(fitting.bits(), flags))
    assert narrowed is not None
    return narrowed


def keeps_variety(node: NewNode) -> bool:
    """Return whether a new node still has the least choice of values that its pool demands."""
    fitting = _fitting(node)
    template = fitting.template
    return not template.min_values or not violates_min_values(
        distinct_values(template, fitting.bits()), template.min_values
    )


def types_for_variety(node: NewNode) -> int:
    """Return how many of the cheapest types are needed to keep the least choice of values."""
    fitting = _fitting(node)
    template = fitting.template
    by_name = {kind.name: kind for kind in template.table.types}
    names = fitting.type_names()

    def is_enough(count: int) -> bool:
        some = [by_name[name].requirements for name in names[:count]]
        return all(
            len(set().union(*(each[key].values for each in some))) >= least
            for key, least in template.min_values.items()
        )

    return next(count for count in range(len(names) + 1) if is_enough(count))


def _worst(table: PoolOfferingTable, bits: Bits) -> NDArray[np.float64]:
    """Return the dearest offering of every type, in the first way in which it can be bought."""
    flags = table.flags(bits)
    worst = np.full(len(table.types), np.inf)
    settled = np.zeros(len(table.types), bool)
    # The provider launches the first of these capacity types that an instance type still has.
    for way in _WAYS:
        mine = flags & table.has_capacity_type(way)
        dearest = np.full(len(table.types), -np.inf)
        np.maximum.at(dearest, table.owner[mine], table.price[mine])
        found = np.isfinite(dearest) & ~settled
        worst[found] = dearest[found]
        settled |= found
    return worst


def _fitting(node: NewNode) -> ClaimInstanceTypeOptions:
    assert isinstance(node.instance_type_options, ClaimInstanceTypeOptions)
    return node.instance_type_options


def _narrowed(node: NewNode, bits: Bits) -> NewNode | None:
    if not bits:
        return None
    fitting = _fitting(node).narrowed(bits)
    table = fitting.table
    candidates = np.flatnonzero(table.flags(bits))
    bought = int(candidates[table.price[candidates].argmin()])
    offering = table.offerings[bought]
    kind = table.types[int(table.owner[bought])]
    purchase = Purchase(
        instance_type=kind.name,
        zone=offering.zone,
        capacity_type=offering.capacity_type,
        price=offering.price,
        reservation_id=offering.reservation_id,
    )
    # A fresh struct: what the old one has worked out about its types no longer holds.
    return msgspec.structs.replace(
        node, purchase=purchase, instance_type_options=fitting, allocatable=kind.allocatable
    )
