"""
The lower bound: the least that any plan for the placed pods could cost, with a proof.

If pods and machines were divisible, the cheapest way to serve the demand would be a linear program, and no
real plan can cost less. Its dual gives each resource of each machine a value, such that no machine is worth
more than its price. Adding up what the pods pay at such values is a lower bound whatever the values are, so
the bound is always computed from the values and never taken from the program's own answer.

With the library ``highspy`` the values are the best there are (:mod:`.linear`). Without it they are
the best values that are equal for all machines, which gives a weaker bound; the plan names the method.

Every placed pod counts, on the offerings of every NodePool that could serve it under any relaxation.
Limits, weights, topology and minValues are left out, which only lowers the bound; room on existing nodes
counts as free. The same values serve packing by price; :func:`with_one_offering` makes a demand with many
different choices small enough to be packed.

The market: the demand of pods and the supply of offerings as arrays.

An item is a number of equal pods with the offerings that they may use. A machine is an offering that no
other one dominates: at least as large in every resource, usable by at least the same items, and no dearer.
The bound and packing by price need only these.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from karpenter.api.labels import NODES
from karpenter.core.scheduling.encode.offerings import Bits, packed
from karpenter.core.scheduling.price.linear import best_values, library

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.pack.poddata import PodData
    from karpenter.core.scheduling.pack.scheduler import Scheduler


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


def market(
    items: Sequence[Item], counts: Sequence[float], templates: Sequence[Template], *, limited: bool = False
) -> Market:
    """
    Return the market of at least one item on the offerings of at least one template.

    With `limited`, an offering of which less counts against the limits of its NodePool is not dominated.
    """
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
        room = table.room[table.owner[keep]]
        if limited:
            room = np.concatenate([room, -counted_capacity(template)[table.owner[keep]]], axis=1)
        keep = keep[undominated(room, table.price[keep], usable[:, keep].T)]
        rooms.append(table.room[table.owner[keep]])
        prices.append(table.price[keep])
        allowed.append(usable[:, keep].T)
        sources.extend((number, int(offering)) for offering in keep)
    whole = np.concatenate(rooms).astype(np.float64)
    fits = np.concatenate(allowed)[:, group]
    for resource in range(want.shape[1]):
        fits = fits & (want[:, resource][None] <= whole[:, resource][:, None])
    return Market(
        np.array(counts, np.float64),
        want,
        np.array([item.cap or np.inf for item in items], np.float64),
        whole,
        np.concatenate(prices),
        fits,
        tuple(sources),
    )


def counted_capacity(template: Template) -> NDArray[np.int64]:
    """Return how much of each type counts against each limit of a NodePool, in their order; a node is one."""
    names = list(template.pool.limits)
    rows = [
        [1 if name == NODES else kind.capacity.get(name, 0) for name in names]
        for kind in template.table.types
    ]
    return np.array(rows, np.int64).reshape(len(rows), len(names))


def with_caps(market: Market, items: NDArray[np.int64]) -> Market:
    """
    Return a market in which room on a machine for pods that keep apart is a resource.

    Only for some items, as the program grows with the number of resources.
    """
    taken = np.zeros((len(market.count), len(items)))
    taken[items, np.arange(len(items))] = 1.0
    room = np.repeat(market.cap[items][None], len(market.room), axis=0)
    return msgspec.structs.replace(
        market,
        want=np.concatenate([market.want, taken], axis=1),
        room=np.concatenate([market.room, room], axis=1),
    )


def undominated(
    room: NDArray[np.int64], price: NDArray[np.float64], usable: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the positions of offerings that no other offering dominates, the first of equals."""
    # In this order an offering can only be dominated by one before it.
    order = np.lexsort((*(-room.T), price))  # the cheapest first, the largest of equals first
    rooms, words = room.T[:, order], packed(usable)[order].T
    kept = np.empty(0, np.int64)
    for start in range(0, len(order), _BLOCK):
        some = np.arange(start, min(start + _BLOCK, len(order)))
        enough = (rooms[:, kept] >= rooms[:, some].min(axis=1)[:, None]).all(axis=0)
        some = some[~_dominated(rooms, words, some, kept[enough]).any(axis=1)]
        # What is dominated by one that is dominated itself is dominated by what dominates that.
        some = some[~np.tril(_dominated(rooms, words, some, some), -1).any(axis=1)]
        kept = np.concatenate([kept, some])
    return order[kept]


def _dominated(
    rooms: NDArray[np.int64], words: NDArray[np.uint64], some: NDArray[np.int64], by: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which of some offerings have no more room and no more users than which others."""
    found = np.ones((len(some), len(by)), bool)
    for room in rooms:
        found &= room[some, None] <= room[by]
    one, other = np.nonzero(found)
    for word in words:  # there may be hundreds of them, and few pairs are left after the first
        subset = word[some[one]] & ~word[by[other]] == 0
        one, other = one[subset], other[subset]
    found[:] = False
    found[one, other] = True
    return found


_BLOCK: Final = 128
"""Offerings that are compared at once with those that are kept."""

LINEAR_PROGRAM: Final = "linear program"
EQUAL_VALUES: Final = "equal values for all machines"
_CHUNK: Final = 512
_DEAREST: Final = 64
"""Items of which it is worked out what they cost by themselves, with whole pods."""

_SAFE: Final = 1 - 1e-9
"""Makes a bound smaller than rounding errors could have made it larger."""


_FEW: Final = 24
"""Machines that items are restricted to; only items that fit none of them get others."""


class DualValues(msgspec.Struct, frozen=True):
    """Dual values: what a unit of each resource is worth on each machine, and the bound that they prove."""

    unit: NDArray[np.float64]
    """``unit[machine, resource]``; over a whole machine never more than its price."""

    pod: NDArray[np.float64]
    """``pod[item]``: the least that one pod of the item must cost."""

    bound: float
    method: str
    flow: NDArray[np.float64] | None = None
    """``flow[item, machine]``: the share of its pods on each machine if pods were divisible, if known."""


def dual_values(
    market: Market, free: NDArray[np.float64] | None = None, *, program: bool = True
) -> DualValues:
    """
    Return values that prove a lower bound for serving the whole demand.

    `free` is room that costs nothing, as one sum; pods may be served from it as well. Without the linear
    program a resource is worth the same on every machine.
    """
    highs = library() if program else None
    solved = best_values(market, highs) if highs is not None else None
    method = EQUAL_VALUES if solved is None else LINEAR_PROGRAM
    best: DualValues | None = None
    if solved is not None:
        best = msgspec.structs.replace(_worth(market, solved.unit, free, method), flow=solved.flow)
    if best is None or free is not None:  # the program does not know of free room
        equal = _worth(market, _equal_values(market), free, method)
        best = equal if best is None or equal.bound > best.bound else best
    if free is None:
        best = msgspec.structs.replace(best, bound=max(best.bound, _dearest_item_cost(market, best.pod)))
    return best


def bought(market: Market, flow: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how many of each machine a flow of divisible pods needs."""
    used = (flow * market.count[:, None]).T @ market.want
    needed: NDArray[np.float64] = (used / np.maximum(market.room, 1e-9)).max(axis=1)
    return needed


def _dearest_item_cost(market: Market, pod: NDArray[np.float64]) -> float:
    """
    Return the least that the dearest item costs by itself, with whole pods on each machine.

    However few its pods are, the machine of the first of them is paid for whole. Of many items only those
    that cost most by their values are considered.
    """
    items = np.argsort(-pod * market.count, kind="stable")[:_DEAREST]
    each, whole = _cost_per_item(
        msgspec.structs.replace(
            market, want=market.want[items], cap=market.cap[items], fits=market.fits[:, items]
        )
    )
    alone = np.where(np.isfinite(whole), np.maximum(each * market.count[items], whole), 0.0)
    return float(alone.max(initial=0.0)) * _SAFE


def cost_per_pod(market: Market) -> NDArray[np.float64]:
    """Return what one pod of each item costs on the best machine full of such pods; 0 if none fits."""
    each, _ = _cost_per_item(market)
    return np.where(np.isfinite(each), each, 0.0)


def _cost_per_item(market: Market) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the share of a machine per pod of each item, whole pods on each, and a whole machine's price."""
    each, whole = np.full(len(market.want), np.inf), np.full(len(market.want), np.inf)
    for start in range(0, len(each), _CHUNK):
        some = slice(start, start + _CHUNK)
        want = market.want[some]
        most = np.full((len(market.room), len(want)), np.inf)
        for room, amount in zip(market.room.T, want.T, strict=True):
            asks = np.flatnonzero(amount > 0)
            most[:, asks] = np.minimum(most[:, asks], room[:, None] / amount[asks])
        most = np.minimum(np.floor(most + 1e-9), market.cap[some])
        price = np.where(market.fits[:, some], market.price[:, None], np.inf)
        each[some] = (price / np.maximum(most, 1.0)).min(axis=0)
        whole[some] = price.min(axis=0)
    return each, whole


def _worth(
    market: Market, unit: NDArray[np.float64], free: NDArray[np.float64] | None, method: str
) -> DualValues:
    """Return the bound that some values prove, scaled so that no machine is worth more than its price."""
    # Scaling makes any values feasible for the dual: no machine is worth more than its price. So rounding
    # errors of
    # the linear program can weaken the bound but never make it wrong.
    unit = np.maximum(unit, 0.0)
    spent = (unit * market.room).sum(axis=1)
    scale = np.minimum(1.0, market.price / np.maximum(spent, 1e-300))
    unit *= scale[:, None]
    pod = np.full(len(market.count), np.inf)
    for start in range(0, len(pod), _CHUNK):
        some = slice(start, start + _CHUNK)
        cost = np.where(market.fits[:, some], unit @ market.want[some].T, np.inf)
        pod[some] = cost.min(axis=0, initial=np.inf)
    pod[~np.isfinite(pod)] = 0.0  # no machine fits: the pod is refused and costs nothing
    bound = float(market.count @ pod)
    if free is not None:
        bound -= _worth_of_free_room(market, pod, free)
    return DualValues(unit, pod, max(0.0, bound * _SAFE), method)


def _worth_of_free_room(market: Market, pod: NDArray[np.float64], free: NDArray[np.float64]) -> float:
    """
    Return the most that free room can be worth.

    The shares of all its resources that pods use may add up to no more than there are
    resources; filling that with the dearest pods first is at least as good as any real use.
    """
    shares = (market.want / np.maximum(free, 1e-9)).sum(axis=1)
    order = np.argsort(-pod / np.maximum(shares, 1e-300))
    need = (market.count * shares)[order]
    left = len(free) - (np.cumsum(need) - need)
    part = np.clip(left / np.maximum(need, 1e-300), 0.0, 1.0)
    return float(part @ (market.count * pod)[order])


def _equal_values(market: Market) -> NDArray[np.float64]:
    """Return one value per resource, the same on every machine, that is worth the most in all."""
    total = market.count @ market.want
    active = np.flatnonzero(total > 0).tolist()
    mixes = [np.eye(len(total))[resource] for resource in active]
    for first, second in combinations(active, 2):
        for share in np.linspace(0.05, 0.95, 19):
            mix = np.zeros(len(total))
            mix[first], mix[second] = share / total[first], (1 - share) / total[second]
            mixes.append(mix)
    rates = [np.zeros(len(total)), *(_rate(market, mix) for mix in mixes)]
    found = max(rates, key=lambda rate: float(rate @ total))
    return np.repeat(found[None], len(market.price), axis=0)


def _rate(market: Market, direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the longest vector in a direction under which no machine is worth more than its price."""
    reach = market.room @ direction
    with np.errstate(divide="ignore", invalid="ignore"):
        longest = np.where(reach > 0, market.price / reach, np.inf).min()
    return direction * (longest if np.isfinite(longest) else 0.0)


def placed_counts(scheduler: Scheduler, left: Mapping[int, int]) -> dict[int, int]:
    """Return how many pods of each class are placed, where any are, when some are left."""
    counts = {each.number: len(each.pods) - left.get(each.number, 0) for each in scheduler.encoded.classes}
    return {number: count for number, count in counts.items() if count}


def item_of(scheduler: Scheduler, by_relaxation: Sequence[PodData]) -> Item:
    """Return the pods of a class as the market sees them."""
    bits = tuple(_usable(scheduler, by_relaxation, template) for template in scheduler.templates)
    return Item(by_relaxation[0].pod_class.want, bits)


def _usable(scheduler: Scheduler, by_relaxation: Sequence[PodData], template: Template) -> Bits:
    """Return the offerings that some relaxation can use; each node affinity term is in another one."""
    base, bits = scheduler.base(template), 0
    if not by_relaxation[-1].tolerates(template):  # the last relaxation tolerates the most
        return bits
    for strict in dict.fromkeys(pod_data.strict for pod_data in by_relaxation):
        state = scheduler.states.step(base, strict)
        if state is not None:
            bits |= (
                scheduler.devices.possible(by_relaxation[0].pod_class, state)
                if scheduler.devices is not None
                else state.bits
            )
    return bits


def free_room(scheduler: Scheduler) -> NDArray[np.float64]:
    """Return the free room of each existing node before anything was placed."""
    axis = scheduler.encoded.axis
    rows = [[max(node.free.get(name, 0), 0) for name in axis] for node in scheduler.problem.nodes]
    return np.array(rows, np.float64).reshape(len(rows), len(axis))


def with_one_offering(items: Sequence[Item], counts: Sequence[float], template: Template) -> list[Item]:
    """
    Return the items, each restricted to one offering.

    Nodes are filled with pods that may share them, which cannot be worked out when nearly every pod has its
    own set of offerings. So each item is restricted to the offering where it costs the least, out of the
    few on which most of the money is spent. Only packing is restricted: what a claim may be launched as
    still follows from its pods.
    """
    demand = market(items, counts, [template])
    found = dual_values(demand)
    best, spent = _best(demand.want, demand.fits, found.unit, np.arange(len(demand.price)))
    money = np.bincount(best, weights=spent * demand.count, minlength=len(demand.price))
    few = np.sort(np.argsort(-money, kind="stable")[:_FEW])
    again, _ = _best(demand.want, demand.fits, found.unit, few)
    chosen = np.where(again >= 0, again, best)
    return [
        Item(item.want, (1 << demand.sources[machine][1],), item.cap)
        for item, machine in zip(items, chosen.tolist(), strict=True)
    ]


def _best(
    want: NDArray[np.float64], fits: NDArray[np.bool_], unit: NDArray[np.float64], machines: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the machine on which each item costs the least, and how much; -1 if none fits."""
    best, spent = np.full(len(want), -1, np.int64), np.zeros(len(want))
    for start in range(0, len(want), _CHUNK):
        some = slice(start, start + _CHUNK)
        cost = np.where(fits[machines, some].T, want[some] @ unit[machines].T, np.inf)
        cheapest = cost.argmin(axis=1)
        least = cost[np.arange(len(cost)), cheapest]
        fine = np.isfinite(least)
        best[some][fine], spent[some][fine] = machines[cheapest[fine]], least[fine]
    return best, spent
