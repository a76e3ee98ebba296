"""
The market: the demand of pods and the supply of offerings as arrays.

An item is a number of equal pods with the offerings that they may use. A machine is an offering that no
other one dominates: at least as large in every resource, usable by at least the same items, and no dearer.
The bound and packing by price need only these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from karpenter.core.scheduling.encode.offerings import Bits, packed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template


class Item(msgspec.Struct, frozen=True):
    """Equal pods: the same requests, and the same offerings that they may use."""

    want: tuple[int, ...]
    bits: tuple[Bits, ...]
    """The offerings that they may use, per template."""

    cap: int = 0
    """How many may share a node; 0 means any number."""


class Market(msgspec.Struct, frozen=True):
    """Items, machines, and which item may use which machine."""

    count: NDArray[np.float64]
    """``count[item]``: how many pods."""

    want: NDArray[np.float64]
    """``want[item, resource]``."""

    cap: NDArray[np.float64]
    """``cap[item]``: how many may share a machine."""

    room: NDArray[np.float64]
    """``room[machine, resource]``."""

    price: NDArray[np.float64]
    """``price[machine]`` per hour."""

    fits: NDArray[np.bool_]
    """``fits[machine, item]``: the item may use the machine, and one pod of it has room."""

    sources: tuple[tuple[int, int], ...]
    """Template and offering behind each machine."""


def market(items: Sequence[Item], counts: Sequence[float], templates: Sequence[Template]) -> Market:
    """Return the market of at least one item on the offerings of at least one template."""
    want = np.array([item.want for item in items], np.float64)
    masks = list(dict.fromkeys(item.bits for item in items))
    numbers = {mask: number for number, mask in enumerate(masks)}
    group = np.array([numbers[item.bits] for item in items], np.int64)
    rooms, prices, allowed = [], [], []
    sources: list[tuple[int, int]] = []
    for number, template in enumerate(templates):
        table = template.table
        usable = np.array([table.flags(mask[number]) for mask in masks], bool)
        keep = np.flatnonzero(usable.any(axis=0) & (table.room[table.owner] >= 0).all(axis=1))
        keep = keep[_undominated(table.room[table.owner[keep]], table.price[keep], usable[:, keep].T)]
        rooms.append(table.room[table.owner[keep]])
        prices.append(table.price[keep])
        allowed.append(usable[:, keep].T)
        sources.extend((number, int(offering)) for offering in keep)
    room = np.concatenate(rooms).astype(np.float64)
    fits = np.concatenate(allowed)[:, group]
    for resource in range(want.shape[1]):
        fits = fits & (want[:, resource][None] <= room[:, resource][:, None])
    return Market(
        np.array(counts, np.float64),
        want,
        np.array([item.cap or np.inf for item in items], np.float64),
        room,
        np.concatenate(prices),
        fits,
        tuple(sources),
    )


def _undominated(
    room: NDArray[np.int64], price: NDArray[np.float64], usable: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the positions of offerings that no other offering dominates, the first of equals."""
    # In this order an offering can only be dominated by one before it.
    order = np.lexsort((*(-room.T), price))  # the cheapest first, the largest of equals first
    rooms, flags = room.T[:, order], packed(usable)[order]
    position = 0
    while position < len(order):  # one pass per offering that is kept, which are far fewer than all
        later = position + 1
        dominated = later + np.flatnonzero((rooms[:, later:] <= rooms[:, position, None]).all(axis=0))
        dominated = dominated[((flags[dominated] & ~flags[position]) == 0).all(axis=1)]
        if len(dominated):
            left = np.ones(len(order), bool)
            left[dominated] = False
            order, rooms, flags = order[left], rooms[:, left], flags[left]
        position = later
    return order
