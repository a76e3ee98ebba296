"""
The linear program in which pods and machines are divisible: what resources are worth on each machine.

The program grows with items times machines, and both are made few without changing its answer, or nearly so.
A machine that is a larger one divided, at no lower price and for the same pods, is never needed. Items that
may use the same machines and ask for resources in the same proportion differ by a factor; items of similar
proportions become one of average proportion. The program begins with the machines that promise most; others
join it where the values found so far undervalue pods.

Values are only proposed here: :mod:`.bound` scales them until no machine is worth more than its price, and
computes what they prove. The flow of pods to machines tells packing by price which pods go together.
"""

from __future__ import annotations

from collections import Counter
from heapq import heapify, heappop, heappush
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from karpenter.core.scheduling.encode.offerings import packed

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from karpenter.core.scheduling.price.bound import Market

_ITEMS: Final = 160
"""Items that the program is solved for; when there are more, those of similar proportions become one."""

_ITEMS_OF_MANY_KINDS: Final = 480
"""The same where there are more groups of items that may use the same machines: joined, they seem equal."""

_MACHINES: Final = 48
"""Machines that the program begins with."""

_EACH: Final = 3
"""Machines for every group of items that may use the same ones."""

_CANDIDATES: Final = 32
"""Value vectors that a machine outside of the program may take over."""

_JOINING: Final = 32
_ROUNDS: Final = 4
_PRIMAL: Final = 4
_ENOUGH: Final = 1e-3
"""The share of the bound below which another round is not worth its time."""

_DUAL_TOLERANCE: Final = 1e-9
_COMPARED: Final = 96
"""How many machines are compared with each other at a time."""

_EQUAL: Final = 1e-12


def library() -> Any:
    """Return the library for linear programs, or None; it is imported when it is first needed."""
    try:
        return import_module("highspy")
    except ImportError:
        return None


class DivisiblePlan(msgspec.Struct, frozen=True):
    """Divisible pods on divisible machines: what resources are worth, and where the pods go."""

    unit: NDArray[np.float64]
    """``unit[machine, resource]``: what a unit of each resource is worth on each machine."""

    flow: NDArray[np.float64]
    """``flow[item, machine]``: the share of the pods of an item that go to a machine."""


def best_values(market: Market, highspy: Any) -> DivisiblePlan | None:
    """Return the cheapest divisible plan with its values; None when the program is not solved."""
    kept, follows = _efficient(market)
    few = _only(market, kept)
    sample, member = _sample(few)
    program = _FlowProgram(sample, highspy)
    joining, found = _promising(sample), None
    for _ in range(_ROUNDS):
        program.join(joining)
        solved = program.solve()
        if solved is None:
            break
        found, joining = _extended(sample, program.machines, solved)
        if not len(joining):
            break
    if found is None:
        return None
    flow = np.zeros((len(member), len(market.price)))
    flow[:, kept] = program.shares()[member]
    return DivisiblePlan(found[follows], flow)


def _efficient(market: Market) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """
    Return the machines that are needed if machines are divisible, and for each machine one that replaces it.

    The second are positions in the first. A machine is not needed if so many of another, whole or in part,
    have at least its room, cost no more, and every pod that may use it may use the other.
    """
    total = market.count @ market.want
    # So many of another have at least its room and cost no more if the other has more of each for its price.
    room = (market.room[:, total > 0] / np.maximum(market.price, 1e-200)[:, None]).T.copy()
    words = packed(market.fits).T
    kept = np.arange(len(market.price))
    # What replaces a machine that is replaced itself replaces both, so that few are compared at a time.
    for start in range(0, len(kept), _COMPARED):
        some = kept[start : start + _COMPARED]
        kept[start : start + _COMPARED] = np.where(_needed(_replaces(room, words, some, some)), some, -1)
    kept = kept[kept >= 0]
    kept = kept[_needed(_replaces(room, words, kept, kept))]
    follows = np.empty(len(market.price), np.int64)
    follows[kept] = np.arange(len(kept))
    others = np.setdiff1d(np.arange(len(follows)), kept)
    follows[others] = _replaces(room, words, others, kept).argmax(axis=1)
    return kept, follows


def _replaces(
    room: NDArray[np.float64], words: NDArray[np.uint64], some: NDArray[np.int64], by: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which of some machines are replaced by which others; `room` is per price."""
    found = np.ones((len(some), len(by)), bool)
    for each in room:
        found &= each[some, None] <= each[by] * (1 + _EQUAL)
    one, other = np.nonzero(found)
    for word in words:
        subset = word[some[one]] & ~word[by[other]] == 0
        one, other = one[subset], other[subset]
    found[:] = False
    found[one, other] = True
    return found


def _needed(replaces: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which machines no other replaces, the first of those that replace each other."""
    both = replaces & replaces.T
    replaced = (replaces & ~both).any(axis=1) | np.tril(both, -1).any(axis=1)
    return np.logical_not(replaced)


def _only(market: Market, machines: NDArray[np.int64]) -> Market:
    return msgspec.structs.replace(
        market,
        room=market.room[machines],
        price=market.price[machines],
        fits=market.fits[machines],
        sources=tuple(market.sources[machine] for machine in machines.tolist()),
    )


def _sample(market: Market) -> tuple[Market, NDArray[np.int64]]:
    """Return the market with fewer items, and the new item of each."""
    if len(market.count) <= _ITEMS:
        return market, np.arange(len(market.count))
    # A unit of a resource counts by what it costs, so that the resource that costs most decides.
    share = market.want * (market.price.sum() / np.maximum(market.room.sum(axis=0), 1.0))
    size = share.sum(axis=1)
    fitting = [column.tobytes() for column in market.fits.T]
    most = _ITEMS if len(set(fitting)) <= _ITEMS else _ITEMS_OF_MANY_KINDS
    kinds = _main_kinds(fitting, market.count * size)
    alike = size_classes(share / size[:, None], market.count * size, kinds, most)
    member = np.empty(len(kinds), np.int64)
    for number, each in enumerate(alike):
        member[each] = number
    count = np.bincount(member, market.count * size)
    want = np.array([np.bincount(member, market.count * column) for column in market.want.T]).T
    first = np.array([int(each[int((market.count * size)[each].argmax())]) for each in alike], np.int64)
    return (
        msgspec.structs.replace(
            market,
            count=count,
            want=want / count[:, None],
            cap=market.cap[first],
            fits=market.fits[:, first],
        ),
        member,
    )


def _main_kinds(kinds: list[bytes], weights: NDArray[np.float64]) -> list[bytes]:
    """Return the kinds that weigh most; all others become one."""
    total: Counter[bytes] = Counter()
    for kind, weight in zip(kinds, weights.tolist(), strict=True):
        total[kind] += weight
    main = {kind for kind, _ in total.most_common(_ITEMS - 1)}
    return [kind if kind in main else b"" for kind in kinds]


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
    paid = np.where(market.fits[machines], unit @ market.want.T, np.inf)
    pod: NDArray[np.float64] = paid.min(axis=0, initial=np.inf)
    pod[~np.isfinite(pod)] = 0.0
    return pod


class _FlowProgram:
    """The linear program: items flow to machines, of which any share is bought."""

    def __init__(self, market: Market, highspy: Any) -> None:
        self._market, self._highspy = market, highspy
        self._active = np.flatnonzero(market.count @ market.want > 0)
        self._scale = np.maximum(market.room.max(axis=0), 1.0)[self._active]
        self._solver = quiet_solver(highspy)
        # The primal simplex is several times as fast on many items, and goes on when machines join.
        self._solver.setOptionValue("simplex_strategy", _PRIMAL)
        served = np.where(market.fits.any(axis=0), market.count, 0.0)
        self._rows(served, np.full(len(served), np.inf))
        self.machines = np.empty(0, np.int64)
        """The machines that have joined, in order."""

        self._item = np.empty(0, np.int64)
        self._machine = np.empty(0, np.int64)
        """Item and machine of each flow, -1 for what is bought."""

    def _rows(self, lower: NDArray[np.float64], upper: NDArray[np.float64]) -> None:
        starts, index, value = np.zeros(len(lower), np.int32), np.array([], np.int32), np.array([])
        self._solver.addRows(len(lower), lower, upper, len(index), starts, index, value)

    def join(self, machines: NDArray[np.int64]) -> None:
        """Add machines: their resources, the flow of each item that fits, and how many are bought."""
        market, width = self._market, len(self._active)
        first = len(market.count) + len(self.machines) * width
        self._rows(np.full(len(machines) * width, -np.inf), np.zeros(len(machines) * width))
        machine, item = np.nonzero(market.fits[machines])
        flows, resources = len(item), np.arange(width)
        index = np.concatenate([item[:, None], first + machine[:, None] * width + resources], axis=1)
        value = np.concatenate(
            [np.ones((flows, 1)), market.want[item][:, self._active] / self._scale], axis=1
        )
        bought = first + np.arange(len(machines))[:, None] * width + resources
        room = -market.room[machines][:, self._active] / self._scale
        columns, ends = flows + len(machines), flows * (1 + width)
        self._solver.addCols(
            columns,
            np.concatenate([np.zeros(flows), market.price[machines]]),
            np.zeros(columns),
            np.full(columns, np.inf),
            ends + room.size,
            np.concatenate([np.arange(flows) * (1 + width), ends + np.arange(len(machines)) * width]).astype(
                np.int32
            ),
            np.concatenate([index.ravel(), bought.ravel()]).astype(np.int32),
            np.concatenate([value.ravel(), room.ravel()]),
        )
        self.machines = np.concatenate([self.machines, machines])
        self._item = np.concatenate([self._item, item, np.full(len(machines), -1)])
        self._machine = np.concatenate([self._machine, machines[machine], machines])

    def solve(self) -> NDArray[np.float64] | None:
        """Return what a unit of each resource is worth on each machine that has joined; None without it."""
        self._solver.run()
        if self._solver.getModelStatus() != self._highspy.HighsModelStatus.kOptimal:
            return None
        width = len(self._active)
        dual = np.array(self._solver.getSolution().row_dual, np.float64)[len(self._market.count) :]
        unit = np.zeros((len(self.machines), self._market.want.shape[1]))
        unit[:, self._active] = -dual.reshape(-1, width) / self._scale
        return unit

    def shares(self) -> NDArray[np.float64]:
        """Return the share of the pods of each item that goes to each machine."""
        found = np.zeros((len(self._market.count), len(self._market.price)))
        flow = np.array(self._solver.getSolution().col_value, np.float64)
        some = np.flatnonzero((self._item >= 0) & (flow > 0))
        found[self._item[some], self._machine[some]] = flow[some]
        shares: NDArray[np.float64] = found / np.maximum(found.sum(axis=1, keepdims=True), _EQUAL)
        return shares


def quiet_solver(highspy: Any) -> Any:
    """Return a solver with one thread and no clock, so that a decision can be made again."""
    solver = highspy.Highs()
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("random_seed", 0),
        ("parallel", "off"),
    ):
        solver.setOptionValue(option, value)
    return solver


class LinearProgram:
    """A linear or integer program in the making; no variable is negative."""

    def __init__(self, highspy: Any) -> None:
        self.highspy = highspy
        self._cost: list[float] = []
        self._upper: list[float] = []
        self._rows: list[tuple[dict[int, float], float, float]] = []

    @property
    def columns(self) -> int:
        return len(self._cost)

    @property
    def rows(self) -> int:
        return len(self._rows)

    def column(self, cost: float, upper: float = np.inf) -> int:
        self._cost.append(cost)
        self._upper.append(upper)
        return len(self._cost) - 1

    def row(self, weights: dict[int, float], lower: float, upper: float) -> None:
        self._rows.append((weights, lower, upper))

    def solver(self) -> Any:
        highspy = self.highspy
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self._cost), len(self._rows)
        lp.col_cost_, lp.col_lower_ = np.array(self._cost, np.float64), np.zeros(len(self._cost))
        lp.col_upper_ = np.array(self._upper, np.float64)
        lp.row_lower_ = np.array([lower for _, lower, _ in self._rows], np.float64)
        lp.row_upper_ = np.array([upper for _, _, upper in self._rows], np.float64)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.cumsum([0, *(len(weights) for weights, _, _ in self._rows)])
        lp.a_matrix_.index_ = np.array([each for weights, _, _ in self._rows for each in weights], np.int32)
        lp.a_matrix_.value_ = np.array(
            [value for weights, _, _ in self._rows for value in weights.values()], np.float64
        )
        solver = quiet_solver(highspy)
        solver.setOptionValue("dual_feasibility_tolerance", _DUAL_TOLERANCE)
        solver.passModel(lp)
        return solver
