"""
Makes sure that a replacement is cheaper, whichever of its instance types the provider launches.

A claim names many instance types, and any of them may be launched. So a type stays only if even its most
expensive offering, in the capacity type that would be launched, costs less than what is removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from karpenter.api.labels import CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT
from karpenter.core.scheduling.purchases import narrowed, options_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karpenter.core.scheduling.encode.offerings import Bits, PoolOfferingTable
    from karpenter.core.scheduling.problem import NewNode

_WAYS: Final = (RESERVED, SPOT, ON_DEMAND)


def allows(node: NewNode, capacity_type: str) -> bool:
    """Return whether a new node could be bought this way."""
    fitting = options_of(node)
    return capacity_type in fitting.table.values(CAPACITY_TYPE, fitting.bits())


def cheaper_than(node: NewNode, price: float) -> NewNode | None:
    """Return a new node all of whose types cost less than `price` at worst; None when there are none."""
    fitting = options_of(node)
    table, bits = fitting.table, fitting.bits()
    worst = _worst(table, bits)
    return narrowed(node, table.keep_types(bits, worst < price))


def cheapest_types(node: NewNode, count: int) -> NewNode:
    """Return a new node that names no more than its `count` cheapest types."""
    fitting = options_of(node)
    table = fitting.table
    wanted = set(fitting.type_names()[:count])
    flags = np.array([kind.name in wanted for kind in table.types], bool)
    found = narrowed(node, table.keep_types(fitting.bits(), flags))
    assert found is not None
    return found


def types_for_variety(node: NewNode) -> int:
    """Return how many of the cheapest types are needed to keep the least choice of values."""
    fitting = options_of(node)
    template = fitting.template
    by_name = {kind.name: kind for kind in template.table.types}
    names = fitting.type_names()

    def is_enough(count: int) -> bool:
        some = [by_name[name].requirements for name in names[:count]]
        return all(
            len(set().union(*(each[key].values for each in some))) >= least
            for key, least in template.min_values.items()
        )

    return next((count for count in range(len(names)) if is_enough(count)), len(names))


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
