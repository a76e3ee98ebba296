"""
Small markets, and the cheapest way to serve them, found by trying everything.

A market here has a few machines and a few kinds of pods in two resources, so that every way
to buy for every part of the demand can be looked at.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import msgspec
from hypothesis import strategies as st

from karpenter.api.labels import SPOT, ZONE
from karpenter.core.model.requirement import requirement
from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
from karpenter.core.scheduling.price.bound import Item
from karpenter_local.testing.builders import RULES, instance_type, offering, pool

if TYPE_CHECKING:
    from collections.abc import Iterator

AXIS = ("cpu", "memory")
GIB = 2**30
ZONES = ("a", "b")


class Machine(msgspec.Struct, frozen=True):
    """One way to buy a machine."""

    room: tuple[int, ...]
    price: float
    usable: tuple[bool, ...]
    """By item."""


class Demand(msgspec.Struct, frozen=True):
    """Pods to be served, and where from."""

    template: Template
    items: tuple[Item, ...]
    counts: tuple[int, ...]

    def machines(self) -> list[Machine]:
        table = self.template.table
        return [
            Machine(
                tuple(table.room[int(table.owner[n])].tolist()),
                float(table.price[n]),
                tuple(bool(item.bits[0] >> n & 1) for item in self.items),
            )
            for n in range(len(table.offerings))
        ]


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    """Draw a demand of a few pods on a few machines, each of which some machine can serve."""
    sizes = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=3))
    types = [
        instance_type(
            f"t{number}",
            cpu=cpu,
            memory=memory,
            sold=[
                offering(zone, SPOT, draw(st.integers(1, 9)) / 8)
                for zone in draw(st.sampled_from([ZONES, ZONES[:1], ZONES[1:]]))
            ],
        )
        for number, (cpu, memory) in enumerate(sizes)
    ]
    template = Template(0, pool("p", *types), [], AXIS, RULES.well_known)
    items = []
    for _ in range(draw(st.integers(1, 3))):
        zones = draw(st.sampled_from([ZONES, ZONES[:1], ZONES[1:]]))
        bits = template.table.keep(template.bits, [requirement(ZONE, "In", zones)])
        want = (draw(st.integers(0, 4)) * 500, draw(st.integers(1, 4)) * GIB // 2)
        item = Item(want, (bits,), draw(st.sampled_from([0, 0, 1, 2])))
        rooms = template.table.room[template.table.types_of(bits)]
        if ((rooms >= want).all(axis=1)).any() and item not in items:
            items.append(item)
    if not items:
        items = [Item((500, GIB // 2), (template.bits,))]
    counts = tuple(draw(st.integers(1, 3)) for _ in items)
    return Demand(template, tuple(items), counts)


def loads(demand: Demand, room: tuple[int, ...], most: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield every number of pods of each item that some room holds at once."""
    for load in product(*(range(count + 1) for count in most)):
        used = [
            sum(n * item.want[r] for n, item in zip(load, demand.items, strict=True))
            for r in range(len(room))
        ]
        capped = all(not item.cap or n <= item.cap for n, item in zip(load, demand.items, strict=True))
        if any(load) and capped and all(u <= has for u, has in zip(used, room, strict=True)):
            yield load


def least_cost(demand: Demand, machines: list[Machine], counts: tuple[int, ...] | None = None) -> float:
    """Return the price of the cheapest way to serve a demand, having tried everything."""
    counts = demand.counts if counts is None else counts
    prices: dict[tuple[int, ...], float] = {}
    for machine in machines:
        most = tuple(n if fine else 0 for n, fine in zip(counts, machine.usable, strict=True))
        for load in loads(demand, machine.room, most):
            prices[load] = min(prices.get(load, machine.price), machine.price)

    @cache
    def serve(left: tuple[int, ...]) -> float:
        if not any(left):
            return 0.0
        rests = (
            (price, tuple(have - take for have, take in zip(left, load, strict=True)))
            for load, price in prices.items()
        )
        return min((price + serve(rest) for price, rest in rests if min(rest) >= 0), default=float("inf"))

    return serve(counts)
