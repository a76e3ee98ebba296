"""
The lower bound: the least that any plan for the placed pods could cost, with a proof.

If pods and machines were divisible, the cheapest way to serve the demand would be a linear program, and no
real plan can cost less. Its dual gives each resource of each machine a value, such that no machine is worth
more than its price. Adding up what the pods pay at such values is a lower bound whatever the values are, so
the bound is always computed from the values and never taken from the program's own answer.

With the optional library ``highspy`` the values are the best there are. Without it they are the best values
that are equal for all machines, which gives a weaker bound; the plan names the method. The program grows
with items times machines, so it is solved for a sample of items and the machines that matter; other
machines take over the values of the one that suits them best, scaled to their own price, and join the
program where that undervalues pods.

Every placed pod counts, on the offerings of every NodePool that could serve it under any relaxation.
Limits, weights, topology and minValues are left out, which only lowers the bound; room on existing nodes
counts as free. The same values serve packing by price: :func:`size_classes` and :func:`with_one_offering`
make a demand small enough to be packed.

The market: the demand of pods and the supply of offerings as arrays.

An item is a number of equal pods with the offerings that they may use. A machine is an offering that no
other one dominates: at least as large in every resource, usable by at least the same items, and no dearer.
The bound and packing by price need only these.
"""

from __future__ import annotations

from collections import Counter
from functools import reduce
from heapq import heapify, heappop, heappush
from importlib import import_module
from itertools import combinations
from operator import or_
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from karpenter.core.scheduling.encode.nodeclaimtemplate import Bits, packed

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.encode.preferences import PodData
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
        keep = keep[undominated(table.room[table.owner[keep]], table.price[keep], usable[:, keep].T)]
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


def with_caps(market: Market) -> Market:
    """
    Return a market in which room on a machine for pods that keep apart is a resource.

    Only for the items that need most machines, as the program grows with the number of resources.
    """
    machines = np.where(np.isfinite(market.cap), market.count / market.cap, 0.0)
    items = np.argsort(-machines, kind="stable")[:_CAPS]
    items = items[machines[items] > 1]
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


_ITEMS: Final = 160
"""Items that the program is solved for; when there are more, those of similar size become one."""

_KINDS: Final = 80
"""Up to this many different sets of machines are kept apart in that."""

_MACHINES: Final = 96
"""Machines that the program begins with."""

_CAPS: Final = 8
"""Items for which room on a machine for pods that keep apart counts as a resource."""

_EACH: Final = 3
"""Machines for every group of items that may use the same ones."""

_CANDIDATES: Final = 32
"""Value vectors that a machine outside of the program may take over."""

_JOINING: Final = 32
_ROUNDS: Final = 4
_PRIMAL: Final = 4
_ENOUGH: Final = 1e-3
"""The share of the bound below which another round is not worth its time."""

LINEAR_PROGRAM: Final = "linear program"
EQUAL_VALUES: Final = "equal values for all machines"
_CHUNK: Final = 512
_SAFETY: Final = 1e-9
_DUAL_TOLERANCE: Final = 1e-9

_MASKS: Final = 63
"""Sets of offerings that are told apart; which offerings dominate which is worked out for each."""

_FEW: Final = 24
"""Machines that items are restricted to; only items that fit none of them get others."""


def size_classes(
    sizes: NDArray[np.float64], counts: NDArray[np.float64], kinds: Sequence[Hashable], most: int
) -> list[NDArray[np.int64]]:
    """
    Return which of ``sizes[item, resource]`` count as equal, as positions, in at most `most` size classes.

    Items of different kinds never share a size class, even if that makes more than `most`. All items of a
    kind begin in one size class, in which each counts as large as the largest. The class that wastes most
    is split where that saves most, until there are `most` classes.
    """
    total = counts @ sizes
    scaled = sizes / np.where(total > 0, total, 1.0)
    by_kind: dict[Hashable, list[int]] = {}
    for position, kind in enumerate(kinds):
        by_kind.setdefault(kind, []).append(position)
    heap = [_entry(scaled, counts, np.array(members, np.int64)) for members in by_kind.values()]
    heapify(heap)
    while len(heap) < most and heap[0][0] < 0:
        _, _, members = heappop(heap)
        for half in _split(scaled, counts, members):
            heappush(heap, _entry(scaled, counts, half))
    return [members for _, _, members in sorted(heap, key=lambda entry: entry[1])]


def _entry(
    scaled: NDArray[np.float64], counts: NDArray[np.float64], members: NDArray[np.int64]
) -> tuple[float, int, NDArray[np.int64]]:
    """Return a size class with what it wastes; the first item orders equal entries."""
    return -float(_waste(scaled, counts, members).sum()), int(members.min()), members


def _waste(
    scaled: NDArray[np.float64], counts: NDArray[np.float64], members: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return how much too large the pods of a size class count, per resource."""
    mine = scaled[members]
    waste: NDArray[np.float64] = counts[members] @ (mine.max(axis=0) - mine)
    return waste


def _split(
    scaled: NDArray[np.float64], counts: NDArray[np.float64], members: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the two parts of a size class that waste least of the resource of which it wastes most."""
    resource = int(_waste(scaled, counts, members).argmax())
    order = members[np.argsort(scaled[members, resource], kind="stable")]
    size = scaled[order, resource]
    pods = np.cumsum(counts[order])
    # Those up to a position become as large as the one there, which spares them the rest of the way up.
    spared = pods * (size[-1] - size)
    last = int(spared.argmax())
    return order[: last + 1], order[last + 1 :]


def best_values(market: Market, highspy: Any) -> NDArray[np.float64] | None:
    """Return what a unit of each resource is worth on each machine; None when the program is not solved."""
    sample = _sample(market)
    found: NDArray[np.float64] | None = None
    chosen = _promising(sample)
    for _ in range(_ROUNDS):
        solved = _program(_only(sample, chosen), highspy)
        if solved is None:
            return found
        found, undervalued = _extended(sample, chosen, solved)
        if not len(undervalued):
            break
        chosen = np.union1d(chosen, undervalued)
    return found


def _sample(market: Market) -> Market:
    """Return the market with fewer items: those of similar size as one item of their average size."""
    if len(market.count) <= _ITEMS:
        return market
    users = [column.tobytes() for column in market.fits.T]
    kinds: list[bytes] = users if len(set(users)) <= _KINDS else [b""] * len(users)
    alike = size_classes(market.want, market.count, kinds, _ITEMS)
    largest = np.array([each[int(market.want[each].sum(axis=1).argmax())] for each in alike], np.int64)
    count = np.array([market.count[each].sum() for each in alike])
    total = np.array([market.count[each] @ market.want[each] for each in alike])
    return msgspec.structs.replace(
        market,
        count=count,
        want=total / count[:, None],
        cap=market.cap[largest],
        fits=market.fits[:, largest],
    )


def _promising(market: Market) -> NDArray[np.int64]:
    """Return the machines with the most room for their price, some of them for every set of items."""
    if len(market.price) <= _MACHINES:
        return np.arange(len(market.price))
    total = market.count @ market.want
    share = (market.room[:, total > 0] / total[total > 0]).sum(axis=1)
    order = np.argsort(market.price / np.maximum(share, 1e-9), kind="stable")
    chosen = set(order[:_MACHINES].tolist())
    for users in np.unique(market.fits, axis=1).T:
        chosen.update(order[users[order]][:_EACH].tolist())
    return np.array(sorted(chosen), np.int64)


def _only(market: Market, machines: NDArray[np.int64]) -> Market:
    return msgspec.structs.replace(
        market,
        room=market.room[machines],
        price=market.price[machines],
        fits=market.fits[machines],
        sources=tuple(market.sources[machine] for machine in machines.tolist()),
    )


def _extended(
    market: Market, chosen: NDArray[np.int64], solved: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return values for all machines, and the machines that should join those that were solved for."""
    unit = np.zeros_like(market.room)
    unit[chosen] = np.maximum(solved, 0.0)
    others = np.setdiff1d(np.arange(len(market.price)), chosen)
    if not len(others):
        return unit, others
    pod = _least(market, chosen, unit[chosen])
    room, price, fits = market.room[others], market.price[others], market.fits[others]
    worth = np.full(len(others), -1.0)
    for values in _few(np.unique(unit[chosen], axis=0)):
        spent = room @ values
        stretch = np.where(spent > 0, price / np.maximum(spent, 1e-300), 0.0)
        paid = np.where(fits, np.minimum(stretch[:, None] * (market.want @ values), pod), pod) @ market.count
        better = paid > worth
        worth[better] = paid[better]
        unit[others[better]] = stretch[better, None] * values
    whole = float(pod @ market.count)
    lost = whole - worth
    order = np.argsort(-lost, kind="stable")[:_JOINING]
    return unit, others[order[lost[order] > _ENOUGH * whole / len(market.price)]]


def _few(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a few of many rows, evenly from the first to the last."""
    return values[np.unique(np.linspace(0, len(values) - 1, _CANDIDATES).astype(np.int64))]


def _least(market: Market, machines: NDArray[np.int64], unit: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the least that one pod of each item pays on some machines."""
    pod = np.full(len(market.count), np.inf)
    for machine, values in zip(machines.tolist(), unit, strict=True):
        np.minimum(pod, np.where(market.fits[machine], market.want @ values, np.inf), out=pod)
    pod[~np.isfinite(pod)] = 0.0
    return pod


def _program(market: Market, highspy: Any) -> NDArray[np.float64] | None:
    """Return the dual values of the linear program in which pods and machines are divisible."""
    count, want, fits = market.count, market.want, market.fits
    machine, item = np.nonzero(fits)
    pods, machines, width = len(count), len(market.price), want.shape[1]
    scale = np.maximum(market.room.max(axis=0), 1.0)
    lp = highspy.HighsLp()
    flows = len(item)
    # Columns: the flow of each item to each machine it fits, then how much of each machine is bought.
    start = [np.arange(flows) * (1 + width)]
    index = np.concatenate(
        [item[:, None], pods + machine[:, None] * width + np.arange(width)[None]], axis=1
    ).ravel()
    value = np.concatenate([np.ones((flows, 1)), want[item] / scale], axis=1).ravel()
    bought_index = (pods + np.arange(machines)[:, None] * width + np.arange(width)[None]).ravel()
    bought_value = (-market.room / scale).ravel()
    start.append(flows * (1 + width) + np.arange(machines + 1) * width)
    lp.num_col_, lp.num_row_ = flows + machines, pods + machines * width
    lp.col_cost_ = np.concatenate([np.zeros(flows), market.price])
    lp.col_lower_ = np.zeros(lp.num_col_)
    lp.col_upper_ = np.full(lp.num_col_, highspy.kHighsInf)
    served = fits.any(axis=0)
    lp.row_lower_ = np.concatenate(
        [np.where(served, count, 0.0), np.full(machines * width, -highspy.kHighsInf)]
    )
    lp.row_upper_ = np.concatenate([np.full(pods, highspy.kHighsInf), np.zeros(machines * width)])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.concatenate(start)
    lp.a_matrix_.index_ = np.concatenate([index, bought_index])
    lp.a_matrix_.value_ = np.concatenate([value, bought_value])
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue(
        "simplex_strategy", _PRIMAL
    )  # the primal simplex is several times as fast on many items
    solver.passModel(lp)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    dual = np.array(solver.getSolution().row_dual, np.float64)[pods:].reshape(machines, width)
    found: NDArray[np.float64] = -dual / scale
    return found


class DualValues(msgspec.Struct, frozen=True):
    """Dual values: what a unit of each resource is worth on each machine, and the bound that they prove."""

    unit: NDArray[np.float64]
    """``unit[machine, resource]``; over a whole machine never more than its price."""

    pod: NDArray[np.float64]
    """``pod[item]``: the least that one pod of the item must cost."""

    bound: float
    method: str


def dual_values(market: Market, free: NDArray[np.float64] | None = None) -> DualValues:
    """
    Return values that prove a lower bound for serving the whole demand.

    `free` is room that costs nothing, as one sum; pods may be served from it as well.
    """
    # Both kinds of values prove a bound; the larger one counts.
    highs = library()
    solved = best_values(market, highs) if highs is not None else None
    method = EQUAL_VALUES if solved is None else LINEAR_PROGRAM
    best = _worth(market, _equal_values(market), free, method)
    if solved is not None:
        found = _worth(market, solved, free, method)
        best = found if found.bound >= best.bound else best
    if free is None:
        best = msgspec.structs.replace(best, bound=max(best.bound, _dearest_item_cost(market, best.pod)))
    return best


def _dearest_item_cost(market: Market, pod: NDArray[np.float64]) -> float:
    """
    Return the least that the dearest item costs by itself, with whole pods on each machine.

    However few its pods are, the machine of the first of them is paid for whole. Of many items only those
    that cost most by their values are considered.
    """
    items = np.argsort(-pod * market.count, kind="stable")[:_CHUNK]
    each, whole = _cost_per_item(
        msgspec.structs.replace(
            market, want=market.want[items], cap=market.cap[items], fits=market.fits[:, items]
        )
    )
    alone = np.where(np.isfinite(whole), np.maximum(each * market.count[items], whole), 0.0)
    return float(alone.max(initial=0.0)) * (1 - _SAFETY)


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
        with np.errstate(divide="ignore", invalid="ignore"):
            most = np.where(want > 0, market.room[:, None] / want, np.inf).min(axis=2)
        most = np.minimum(np.floor(most + 1e-9), market.cap[some])
        price = np.where(market.fits[:, some] & (most > 0), market.price[:, None], np.inf)
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
    for machine in range(len(market.price)):
        cost = market.want @ unit[machine]
        np.minimum(pod, np.where(market.fits[machine], cost, np.inf), out=pod)
    pod[~np.isfinite(pod)] = 0.0  # no machine fits: the pod is refused and costs nothing
    bound = float(market.count @ pod)
    if free is not None and bound > 0:
        bound, pod = _with_free_room(market, pod, free)
    return DualValues(unit, pod, max(0.0, bound * (1 - _SAFETY)), method)


def _with_free_room(
    market: Market, pod: NDArray[np.float64], free: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """
    Take off the most that free room can be worth.

    The shares of all its resources that pods use may add up to no more than there are
    resources; filling that with the dearest pods first is at least as good as any real use.
    """
    shares = (market.want / np.maximum(free, 1e-9)).sum(axis=1)
    order = np.argsort(-pod / np.maximum(shares, 1e-300))
    left, saved = float(len(free)), 0.0
    for item in order.tolist():
        need = float(market.count[item] * shares[item])
        part = 1.0 if need <= left else left / need
        saved += part * float(market.count[item] * pod[item])
        left -= part * need
        if left <= 0:
            break
    return max(0.0, float(market.count @ pod) - saved), pod


def _equal_values(market: Market) -> NDArray[np.float64]:
    """Return one value per resource, the same on every machine, that is worth the most in all."""
    total = market.count @ market.want
    best, found = 0.0, np.zeros(market.want.shape[1])
    active = np.flatnonzero(total > 0)
    for resource in active.tolist():
        rate = _rate(market, np.eye(len(total))[resource])
        if rate[resource] * total[resource] > best:
            best, found = float(rate @ total), rate
    for first, second in combinations(active.tolist(), 2):
        for share in np.linspace(0.05, 0.95, 19):
            mix = np.zeros(len(total))
            mix[first], mix[second] = share / total[first], (1 - share) / total[second]
            rate = _rate(market, mix)
            if float(rate @ total) > best:
                best, found = float(rate @ total), rate
    return np.repeat(found[None], len(market.price), axis=0)


def _rate(market: Market, direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the longest vector in a direction under which no machine is worth more than its price."""
    reach = market.room @ direction
    with np.errstate(divide="ignore", invalid="ignore"):
        longest = np.where(reach > 0, market.price / reach, np.inf).min()
    return direction * (longest if np.isfinite(longest) else 0.0)


class LinearProgram:
    """A linear or integer program in the making; no variable is negative."""

    def __init__(self, highspy: Any) -> None:
        self.highspy = highspy
        self._cost: list[float] = []
        self._upper: list[float] = []
        self._rows: list[tuple[dict[int, float], float, float]] = []

    @property
    def columns(self) -> int:
        """How many variables there are."""
        return len(self._cost)

    @property
    def rows(self) -> int:
        """How many constraints there are."""
        return len(self._rows)

    def column(self, cost: float, upper: float = np.inf) -> int:
        """Add a variable."""
        self._cost.append(cost)
        self._upper.append(upper)
        return len(self._cost) - 1

    def row(self, weights: dict[int, float], lower: float, upper: float) -> None:
        """Add a constraint."""
        self._rows.append((weights, lower, upper))

    def solver(self, *, whole: bool = False) -> Any:
        """Return a solver with the program; one thread and no clock, so that a decision can be made again."""
        highspy = self.highspy
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self._cost), len(self._rows)
        lp.col_cost_, lp.col_lower_ = np.array(self._cost, np.float64), np.zeros(len(self._cost))
        lp.col_upper_ = np.array(self._upper, np.float64)
        if whole:
            lp.integrality_ = [highspy.HighsVarType.kInteger] * len(self._cost)
        lp.row_lower_ = np.array([lower for _, lower, _ in self._rows], np.float64)
        lp.row_upper_ = np.array([upper for _, _, upper in self._rows], np.float64)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.cumsum([0, *(len(weights) for weights, _, _ in self._rows)])
        lp.a_matrix_.index_ = np.array([each for weights, _, _ in self._rows for each in weights], np.int32)
        lp.a_matrix_.value_ = np.array(
            [value for weights, _, _ in self._rows for value in weights.values()], np.float64
        )
        solver = highspy.Highs()
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("random_seed", 0),
            ("parallel", "off"),
            ("dual_feasibility_tolerance", _DUAL_TOLERANCE),
        ):
            solver.setOptionValue(option, value)
        solver.passModel(lp)
        return solver


def library() -> Any:
    """Return the optional library for linear programs, or None; it is imported when it is first needed."""
    try:
        return import_module("highspy")
    except ImportError:
        return None


def lower_bound(scheduler: Scheduler, left: Mapping[int, int]) -> tuple[float, str]:
    """Return the lower bound for the pods that a scheduler has placed, and how it was proved."""
    demand: Counter[Item] = Counter()
    beyond: Counter[Item] = Counter()
    free = _free(scheduler)
    for each in scheduler.encoded.classes:
        count = len(each.pods) - left.get(each.number, 0)
        if count:
            item = item_of(scheduler, scheduler.pod_data[each.number])
            demand[item] += count
            beyond[item] += max(0, count - _on_nodes(scheduler, each.number, free))
    demand, beyond = _with_few_masks(demand), _with_few_masks(+beyond)
    proof = scheduler.encoded.proved.get(frozenset(demand.items())) if not scheduler.nodes.count else None
    if proof is None:
        found = market(list(demand), list(demand.values()), scheduler.templates)
        proof = dual_values(found, free.sum(axis=0) if scheduler.nodes.count else None)
    if beyond and scheduler.nodes.count:
        # Room in many small pieces holds less than its sum.
        rest = dual_values(market(list(beyond), list(beyond.values()), scheduler.templates))
        proof = rest if rest.bound > proof.bound else proof
    return proof.bound, proof.method


def _on_nodes(scheduler: Scheduler, number: int, free: NDArray[np.float64]) -> int:
    """Return how many pods of a class fit on existing nodes when nothing else is there."""
    if not len(free):
        return 0
    groups, by_relaxation = scheduler.node_groups, scheduler.pod_data[number]
    suits = np.array([any(map(each.suits, by_relaxation)) for each in groups.all], bool)[groups.of]
    want = np.array(by_relaxation[0].pod_class.want, np.float64)
    asked = want > 0
    return int((free[suits][:, asked] // want[asked]).min(axis=1, initial=np.inf).sum())


def few_masks(items: Sequence[Item], counts: Sequence[int]) -> list[Item]:
    """
    Return items that cost no more to serve, with few different sets of offerings.

    Apart from the sets that most pods have, every pod may use what any of the others may.
    """
    pods: Counter[tuple[Bits, ...]] = Counter()
    for item, count in zip(items, counts, strict=True):
        pods[item.bits] += count
    if len(pods) <= _MASKS:
        return list(items)
    own = {mask for mask, _ in pods.most_common(_MASKS)}
    rest = [mask for mask in pods if mask not in own]
    union = tuple(reduce(or_, column) for column in zip(*rest, strict=True))
    return [item if item.bits in own else Item(item.want, union, item.cap) for item in items]


def _with_few_masks(demand: Counter[Item]) -> Counter[Item]:
    """Return a demand that costs no more to serve, with few different sets of offerings."""
    found: Counter[Item] = Counter()
    for item, count in zip(few_masks(list(demand), list(demand.values())), demand.values(), strict=True):
        found[item] += count
    return found


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


def _free(scheduler: Scheduler) -> NDArray[np.float64]:
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
