"""
The most that any plan could save by moving so many pods, with a proof.

Machines may go in part, pods may be cut into crumbs, and new machines be bought by the slice: a
linear program whose answer no real plan can beat. A machine that goes moves all its pods, and
only so many pods may move. Room that is left on machines which stay counts as far as a whole pod
would fit; for that, machines with about equal room are one. Topology is left out.

The program is solved for pods of about equal sizes. What it says resources are worth is then
held against every pod as it is, which proves the ceiling whatever the program was about.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import highspy
import numpy as np

from benchmarks.workloads.fleets import NOW, market
from karpenter.core.disruption.candidates import find_candidates
from karpenter.core.disruption.cost import price_of
from karpenter.core.disruption.simulate import Simulator
from karpenter.core.scheduling.build.policy import SchedulingPolicy
from karpenter.core.scheduling.encode.encode import EncodedProblem
from karpenter.core.scheduling.pack.scheduler import Scheduler
from karpenter.core.scheduling.price.bound import Item, Market, dual_values, item_of
from karpenter.core.scheduling.price.bound import market as market_of
from karpenter.core.scheduling.problem import Options
from karpenter.core.state.pdb import PdbLimits
from karpenter.core.state.statenode import state_nodes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karpenter.core.state.cluster import ClusterView

_ALIKE: Final = 1.3
"""Pods whose sizes differ by less than about this factor are one in the program."""

_SIDE: Final = 6
"""Machines are sorted into so many groups by room for processors, each into so many by memory."""

_PRICED: Final = 0.999
_NO_LIMIT: Final = 1e30
_HIGHS: Final[Any] = highspy


class Ground(NamedTuple):
    """A cluster as arrays: ``[machine, item]``, ``[machine, resource]``, scaled to the largest machine."""

    price: NDArray[np.float64]
    load: NDArray[np.float64]
    free: NDArray[np.float64]
    group: NDArray[np.int64]
    """Which group of about equally empty machines each belongs to."""

    roomiest: NDArray[np.float64]
    """``[group, resource]``: what no machine of the group has more of."""

    market: Market
    want: NDArray[np.float64]
    room: NDArray[np.float64]


class Worth(NamedTuple):
    """What the program says things are worth."""

    unit: NDArray[np.float64]
    """``[machine on sale, resource]``."""

    hole: NDArray[np.float64]
    """``[group, resource]``."""

    placement: float


def ceiling(view: ClusterView, share: float) -> float:
    """Return the share of the bill that no plan can exceed by moving such a `share` of the pods."""
    ground = _ground(view)
    pods = ground.load.sum(axis=1)
    most = share * float(pods.sum())
    worth = _worth(ground, most)
    pod = _least(ground, worth)
    room = np.zeros_like(worth.hole)
    np.add.at(room, ground.group, ground.free)
    alone = ground.price - ground.load @ pod - (worth.hole[ground.group] * ground.free).sum(axis=1)
    rest = float((worth.hole * room).sum())
    found = [
        float(np.maximum(alone - placement * pods, 0.0).sum()) + rest + placement * most
        for placement in worth.placement * np.linspace(0.5, 1.5, 21)
    ]
    return float(min(found) / ground.price.sum())


def _ground(view: ClusterView) -> Ground:
    nodes, pdbs = state_nodes(view), PdbLimits(view)
    movable = find_candidates(nodes, view, market(), pdbs, NOW).candidates
    simulator = Simulator(
        view,
        market(),
        nodes,
        pdbs,
        NOW,
        movable=movable,
        quiet=frozenset(),
        options=Options(),
        policy=SchedulingPolicy(),
    )
    scheduler = Scheduler(EncodedProblem(simulator.as_it_is()))
    at = {node.name: number for number, node in enumerate(scheduler.problem.nodes)}
    homes = {pod.key: at[each.name] for each in movable for pod in each.movable}
    items = {
        each.number: item_of(scheduler, scheduler.pod_data[each.number]) for each in scheduler.encoded.classes
    }
    demand: Counter[Item] = Counter()
    for each in scheduler.encoded.classes:
        demand[items[each.number]] += len(each.pods)
    numbers = {item: number for number, item in enumerate(demand)}
    load = np.zeros((len(at), len(demand)))
    for each in scheduler.encoded.classes:
        for pod in each.pods:
            load[homes[pod.key], numbers[items[each.number]]] += 1
    sold = market_of(list(demand), list(demand.values()), scheduler.templates)
    scale = np.maximum(sold.room.max(axis=0), 1.0)
    free = np.maximum(scheduler.nodes.free.T / scale, 0.0)
    price = np.zeros(len(at))
    for node in nodes:
        price[at[node.name]] = price_of(node, market()) or 0.0
    group = _grouped(free)
    roomiest = np.array([free[group == number].max(axis=0, initial=0.0) for number in range(_SIDE**2)])
    return Ground(price, load, free, group, roomiest, sold, sold.want / scale, sold.room / scale)


def _grouped(free: NDArray[np.float64]) -> NDArray[np.int64]:
    found = np.zeros(len(free), np.int64)
    by_first = np.array_split(np.argsort(free[:, 0], kind="stable"), _SIDE)
    for first, some in enumerate(by_first):
        by_second = np.array_split(some[np.argsort(free[some, 1], kind="stable")], _SIDE)
        for second, few in enumerate(by_second):
            found[few] = first * _SIDE + second
    return found


def _alike(ground: Ground) -> NDArray[np.int64]:
    sizes = np.round(np.log(np.maximum(ground.want[:, :2], 1e-9)) / np.log(_ALIKE))
    keys = np.concatenate([sizes, ground.market.fits.T], axis=1)
    _, found = np.unique(keys, axis=0, return_inverse=True)
    return found.ravel()


def _worth(ground: Ground, most: float) -> Worth:
    kind = _alike(ground)
    kinds, width = int(kind.max()) + 1, ground.want.shape[1]
    count = np.bincount(kind, ground.market.count)
    want = np.stack([np.bincount(kind, ground.market.count * row) / count for row in ground.want.T], axis=1)
    load = np.zeros((len(ground.price), kinds))
    np.add.at(load.T, kind, ground.load.T)
    fits = np.zeros((len(ground.room), kinds), bool)
    fits[:, kind] = ground.market.fits
    sold, groups, machines = len(ground.room), len(ground.roomiest), len(ground.price)
    new, new_kind = np.nonzero(fits)
    old, old_kind = np.nonzero((want[None] <= ground.roomiest[:, None]).all(axis=2))
    # Rows: each kind is served, no machine on sale and no group holds more than it can, few pods move.
    on_sale, in_group, placements = kinds, kinds + sold * width, kinds + (sold + groups) * width
    axes = np.arange(width)
    gone, gone_kind = np.nonzero(load)
    matrix = _Matrix()
    # Columns: how much of each machine goes, pods on new machines, new machines, pods in groups.
    matrix.add(gone_kind, gone, -load[gone, gone_kind])
    matrix.add(in_group + ground.group[:, None] * width + axes, np.arange(machines)[:, None], ground.free)
    matrix.add(np.full(machines, placements), np.arange(machines), load.sum(axis=1))
    column = machines + np.arange(len(new))
    matrix.add(new_kind, column, np.ones(len(new)))
    matrix.add(on_sale + new[:, None] * width + axes, column[:, None], want[new_kind])
    column = machines + len(new) + np.arange(sold)
    matrix.add(on_sale + np.arange(sold)[:, None] * width + axes, column[:, None], -ground.room)
    column = machines + len(new) + sold + np.arange(len(old))
    matrix.add(old_kind, column, np.ones(len(old)))
    matrix.add(in_group + old[:, None] * width + axes, column[:, None], want[old_kind])
    room = np.zeros((groups, width))
    np.add.at(room, ground.group, ground.free)
    cost = np.concatenate([-ground.price, np.zeros(len(new)), ground.market.price, np.zeros(len(old))])
    upper = np.concatenate([np.ones(machines), np.full(len(cost) - machines, _NO_LIMIT)])
    least = np.concatenate([np.zeros(kinds), np.full(placements + 1 - kinds, -_NO_LIMIT)])
    limits = np.concatenate([np.full(kinds, _NO_LIMIT), np.zeros(sold * width), room.ravel(), [most]])
    dual = -np.minimum(matrix.solved(cost, upper, least, limits), 0.0)
    return Worth(
        dual[on_sale:in_group].reshape(sold, width),
        dual[in_group:placements].reshape(groups, width),
        float(dual[placements]),
    )


class _Matrix:
    """Entries of a program, and its solution."""

    def __init__(self) -> None:
        self._entries: list[NDArray[np.float64]] = []

    def add(self, rows: NDArray[Any], columns: NDArray[Any], entries: NDArray[np.float64]) -> None:
        """Note entries; arrays are stretched to one shape."""
        self._entries.append(np.array([part.ravel() for part in np.broadcast_arrays(rows, columns, entries)]))

    def solved(
        self,
        cost: NDArray[np.float64],
        upper: NDArray[np.float64],
        least: NDArray[np.float64],
        limits: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return what a little more of each row's limit would bring."""
        row, column, entry = np.concatenate(self._entries, axis=1)
        order = np.lexsort((row, column))[entry[np.lexsort((row, column))] != 0]
        program = _HIGHS.HighsLp()
        program.num_col_, program.num_row_ = len(cost), len(limits)
        program.col_cost_, program.col_lower_, program.col_upper_ = cost, np.zeros(len(cost)), upper
        program.row_lower_, program.row_upper_ = least, limits
        program.a_matrix_.format_ = _HIGHS.MatrixFormat.kColwise
        program.a_matrix_.start_ = np.searchsorted(column[order], np.arange(len(cost) + 1))
        program.a_matrix_.index_ = row[order].astype(np.int32)
        program.a_matrix_.value_ = entry[order]
        solver = _HIGHS.Highs()
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("threads", 1)
        solver.passModel(program)
        solver.run()
        return np.array(solver.getSolution().row_dual, np.float64)


def _least(ground: Ground, worth: Worth) -> NDArray[np.float64]:
    """
    Return the least that one pod of each item must cost wherever it goes, at what things are worth.

    No machine on sale may be worth more than its price, whichever pod uses it. One that the program has
    no price for takes over the values of another, stretched to its own price.
    """
    spent = (worth.unit * ground.room).sum(axis=1)
    unit = worth.unit * np.minimum(1.0, ground.market.price / np.maximum(spent, 1e-300))[:, None]
    priced = spent >= _PRICED * ground.market.price
    least = np.full(len(ground.want), np.inf)
    for number in np.flatnonzero(priced):
        least = np.minimum(least, np.where(ground.market.fits[number], ground.want @ unit[number], np.inf))
    for hole, most in zip(worth.hole, ground.roomiest, strict=True):
        least = np.minimum(least, np.where((ground.want <= most).all(axis=1), ground.want @ hole, np.inf))
    scale = ground.market.room.max(axis=0) / np.maximum(ground.room.max(axis=0), 1e-300)
    others = np.unique(np.concatenate([unit, dual_values(ground.market).unit * scale]), axis=0)
    for number in np.flatnonzero(~priced):
        fits, known = ground.market.fits[number], np.where(np.isfinite(least), least, _NO_LIMIT)
        spent_on = others @ ground.room[number]
        usable = others[spent_on > 0] * (ground.market.price[number] / spent_on[spent_on > 0])[:, None]
        paid = np.where(fits[:, None], np.minimum(ground.want @ usable.T, known[:, None]), 0.0)
        best = usable[int((ground.market.count @ paid).argmax())]
        least = np.minimum(least, np.where(fits, ground.want @ best, np.inf))
    return np.where(np.isfinite(least), least, 0.0)
