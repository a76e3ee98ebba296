"""
Column generation: what whole pods are worth when machines hold whole pods.

A pattern is a set of pods that fits one machine. A linear program buys shares of patterns; its dual values say
what a pod of each item is worth. Patterns that are worth more than their machine are added until there are
none, and then no plan costs less than its pods are worth (P. C. Gilmore and R. E. Gomory, "A linear programming
approach to the cutting-stock problem", 1961). The same search then lists every pattern that a plan cheaper than
the one at hand may use, which are few when the values are good.

The search goes through all machines at once, item by item, in arrays. A machine has a value per unit of each
resource; room that stays unused, pods that pay less than their room is worth, and pods worth more than their
room that are left out are losses. A pattern is given up when its losses exceed what its machine may lose. Works
on a `PatternProblem`; knows nothing of labels or topology.
"""

from __future__ import annotations

from operator import mul
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from karpenter.core.scheduling.price.bound import Market

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROUNDS: Final = 120
"""Times that the linear program is solved at most; then the values are scaled down until they prove a bound."""

_STATES: Final = (800, 6_000, 30_000)
"""Partial patterns of all machines that are kept; more of them when fewer showed no pattern that is worth it."""

_COLUMNS: Final = 60
"""Patterns that join the linear program in one round."""

_AT_FIRST: Final = 0.8
_SWEEPS: Final = 2
_ROUNDING: Final = 1e-9
_GAIN: Final = 1e-6
"""The share of its price by which a pattern must be worth more than its machine to join the program."""


class DomainSplit(msgspec.Struct, frozen=True):
    """A class that is divided over the domains of a topology key; it is one item in each of them."""

    count: int
    items: tuple[int, ...]
    already: tuple[int, ...]
    """Pods that count in each domain before anything is placed."""

    max_skew: int
    from_zero: bool
    """Whether the emptiest domain counts as empty, as there are fewer than minDomains."""


class Bin(msgspec.Struct, frozen=True):
    """A machine that can be bought any number of times, or the room of a node that is there once."""

    room: tuple[int, ...]
    price: float
    items: tuple[int, ...]
    """The items that may use it."""

    once: bool = False


class PatternProblem(msgspec.Struct, frozen=True):
    """What whole machines have to serve."""

    count: tuple[int, ...]
    """Pods per item; of an item of a split the most that it can have."""

    want: tuple[tuple[int, ...], ...]
    cap: tuple[int, ...]
    """How many pods of an item may share a machine."""

    bins: tuple[Bin, ...]
    splits: tuple[DomainSplit, ...] = ()
    supply: Market | None = None
    """The market behind the machines that can be bought."""

    where: tuple[tuple[tuple[int, ...], str, str], ...] = ()
    """The classes of each item, and the topology key and domain of a part of a split."""


class Pattern(msgspec.Struct, frozen=True):
    """Pods that share a machine: how many of each item, and the cheapest machine for them."""

    holds: tuple[int, ...]
    price: float
    bin: int
    once: bool = False


class PodValues(msgspec.Struct, frozen=True):
    """What a pod of each item is worth, and the bound that these values prove."""

    value: NDArray[np.float64]
    at_node: NDArray[np.float64]
    """The most that pods on each bin that is there once can be worth; 0 for those that are bought."""

    bound: float
    columns: tuple[Pattern, ...] = ()
    """The patterns that the values come from."""


class LinearProgram:
    """A linear or integer program in the making; no variable is negative."""

    def __init__(self, highspy: Any) -> None:
        self.highspy = highspy
        self._cost: list[float] = []
        self._upper: list[float] = []
        self._rows: list[tuple[dict[int, float], float, float]] = []

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
        ):
            solver.setOptionValue(option, value)
        solver.passModel(lp)
        return solver


def served_rows(program: LinearProgram, given: PatternProblem, rows: list[dict[int, float]]) -> list[list[int]]:
    """
    Serve every pod by the columns of `rows`, one row per item; return the column of each domain, per split.

    The first rows of the program are those of the items, in their order.
    """
    parts = {item for each in given.splits for item in each.items}
    placed = [[program.column(0, each.count) for _ in each.items] for each in given.splits]
    least = [program.column(0, 0 if each.from_zero else np.inf) for each in given.splits]
    for split, columns in zip(given.splits, placed, strict=True):
        for item, column in zip(split.items, columns, strict=True):
            rows[item][column] = -1
    for item, row in enumerate(rows):
        program.row(row, 0 if item in parts else given.count[item], np.inf)
    for split, columns, lowest in zip(given.splits, placed, least, strict=True):
        program.row(dict.fromkeys(columns, 1), split.count, split.count)
        for column, already in zip(columns, split.already, strict=True):
            program.row({column: 1, lowest: -1}, -np.inf, split.max_skew - already)
            program.row({lowest: 1, column: -1}, -np.inf, already)
    return placed


def worth_of_pods(given: PatternProblem, value: NDArray[np.float64]) -> float:
    """Return what all pods are worth at least, however the pods of splits are divided."""
    parts = {item for each in given.splits for item in each.items}
    alone = sum(
        float(value[item]) * count for item, count in enumerate(given.count) if item not in parts
    )
    return alone + sum(least_divided(each, [float(value[item]) for item in each.items]) for each in given.splits)


def least_divided(split: DomainSplit, value: list[float]) -> float:
    """Return the least that the pods of a split are worth in any division that maxSkew allows."""
    best = np.inf
    order = sorted(range(len(value)), key=lambda domain: value[domain])
    for level in range(1 if split.from_zero else split.count + max(split.already) + 1):
        low = [max(0, level - already) for already in split.already]
        if split.from_zero:
            low = [0] * len(value)
        rest = split.count - sum(low)
        worth = sum(map(mul, low, value))
        for domain in order:
            more = min(rest, level + split.max_skew - split.already[domain] - low[domain])
            rest -= max(more, 0)
            worth += max(more, 0) * value[domain]
        if rest == 0:
            best = min(best, worth)
    return float(best) if np.isfinite(best) else 0.0


def pod_values(given: PatternProblem, most: float, highspy: Any, first: NDArray[np.float64]) -> PodValues:
    """
    Return the best values of pods that column generation finds, with the bound that they prove.

    `most` is what the plan at hand costs, and `first` are values to begin with.
    """
    search = PatternSearch(given)
    master = _Master(highspy, given, most)
    value, at_node = first, np.zeros(len(given.bins))
    complete = False
    for _ in range(_ROUNDS):
        cost = search.price + at_node
        added = 0
        # The first values overprice no machine, so patterns that are worth a bit less will do.
        need = cost * ((1 + _GAIN) if master.solved else _AT_FIRST)
        for states in _STATES:
            found = search.patterns(value, need, states)
            added = master.add(found, cost)
            if added or found.complete.all():
                break
        if not added and master.solved:
            complete = bool(found.complete.all())
            break
        solved = master.solve()
        if solved is None:
            break
        value, at_node = solved
    proved = _proved(given, search, value, search.price + at_node if complete else None)
    return msgspec.structs.replace(proved, columns=tuple(master.columns))


def _proved(
    given: PatternProblem, search: PatternSearch, value: NDArray[np.float64], cost: NDArray[np.float64] | None
) -> PodValues:
    """Return values with their bound, scaled down so that no machine is worth more than its price."""
    value = np.maximum(value, 0.0)
    worth = search.most_worth(value)
    once = search.once
    if cost is None:
        bought = np.where(worth > 0, search.price / np.maximum(worth, 1e-300), np.inf)[~once]
        value = value * min(1.0, float(bought.min(initial=np.inf)))
        cost = search.most_worth(value)
    value = value * (1 - 2 * _GAIN)
    at_node = np.where(once, np.minimum(cost, worth), 0.0)
    bound = worth_of_pods(given, value) - float(at_node.sum())
    return PodValues(value, at_node, max(0.0, bound))


class _Master:
    """The linear program that buys shares of patterns."""

    def __init__(self, highspy: Any, given: PatternProblem, most: float) -> None:
        program = LinearProgram(highspy)
        # A pod that no pattern serves yet costs as much as the whole plan, so that there is a solution.
        rows: list[dict[int, float]] = [{program.column(most): 1.0} for _ in given.count]
        served_rows(program, given, rows)
        self._given = given
        self._limited = {number: 0 for number, each in enumerate(given.bins) if each.once}
        for number in self._limited:
            self._limited[number] = len(program._rows)
            program.row({}, -np.inf, 1)
        self._highspy = highspy
        self._solver = program.solver()
        self._known: set[tuple[int, bytes]] = set()
        self.columns: list[Pattern] = []
        self.solved = False

    def add(self, found: FoundPatterns, cost: NDArray[np.float64]) -> int:
        """Add the patterns that are worth the most compared to their machine; return how many."""
        gain = found.worth - cost[found.bin]
        added = 0
        for position in np.argsort(-gain / np.maximum(found.worth, 1e-300), kind="stable").tolist():
            number = int(found.bin[position])
            same = number, found.holds[position].tobytes()
            if same in self._known:
                continue
            self._known.add(same)
            self._column(number, found.holds[position])
            added += 1
            if added == _COLUMNS:
                break
        return added

    def _column(self, number: int, holds: NDArray[np.int64]) -> None:
        each = self._given.bins[number]
        self.columns.append(Pattern(tuple(holds.tolist()), each.price, number, each.once))
        items = np.flatnonzero(holds)
        index, value = items.astype(np.int32), holds[items].astype(np.float64)
        if each.once:
            index = np.append(index, np.int32(self._limited[number]))
            value = np.append(value, 1.0)
        self._solver.addCol(each.price, 0.0, self._highspy.kHighsInf, len(index), index, value)

    def solve(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return the values of pods, and what room on each node is worth."""
        self._solver.run()
        if self._solver.getModelStatus() != self._highspy.HighsModelStatus.kOptimal:
            return None
        self.solved = True
        dual = np.array(self._solver.getSolution().row_dual, np.float64)
        at_node = np.zeros(len(self._given.bins))
        for number, row in self._limited.items():
            at_node[number] = max(0.0, -dual[row])
        return np.maximum(dual[: len(self._given.count)], 0.0), at_node


class FoundPatterns(msgspec.Struct, frozen=True):
    """Patterns, and the machines of which all were found."""

    bin: NDArray[np.int64]
    holds: NDArray[np.int64]
    worth: NDArray[np.float64]
    complete: NDArray[np.bool_]


class PatternSearch:
    """Finds the maximal patterns of all machines that are worth enough."""

    def __init__(self, given: PatternProblem) -> None:
        items, bins = len(given.count), len(given.bins)
        self._want = np.array(given.want, np.float64)
        self._room = np.array([each.room for each in given.bins], np.float64)
        self.price = np.array([each.price for each in given.bins], np.float64)
        self.once = np.array([each.once for each in given.bins], bool)
        usable = np.zeros((bins, items), bool)
        for number, each in enumerate(given.bins):
            usable[number, list(each.items)] = True
        cap = np.minimum(np.array(given.count), np.array(given.cap)).astype(np.float64)
        self._cap = np.where(usable, np.minimum(self._fitting(self._room), cap), 0.0)
        self._unit = np.zeros_like(self._room)

    def _fitting(self, room: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how many pods of each item each room holds: ``most[room, item]``."""
        most = np.full((len(room), len(self._want)), np.inf)
        for resource in range(self._want.shape[1]):
            want = self._want[:, resource]
            asked = np.flatnonzero(want > 0)
            most[:, asked] = np.minimum(most[:, asked], room[:, resource, None] // want[asked])
        return most

    def most_worth(self, value: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return more than any pattern of each machine is worth, or as much."""
        unit = self._units(value)
        over = np.maximum(value - unit @ self._want.T, 0.0)
        worth: NDArray[np.float64] = (unit * self._room).sum(axis=1) + (over * self._cap).sum(axis=1)
        return worth * (1 + _ROUNDING)

    def _units(self, value: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values per unit of each resource at which a machine is worth little more than its best pattern."""
        unit = self._unit
        best = self._bounds(unit, value)
        for _ in range(_SWEEPS):
            for resource in range(self._want.shape[1]):
                unit, best = self._along(unit, best, value, resource)
        self._unit = unit
        return unit

    def _bounds(self, unit: NDArray[np.float64], value: NDArray[np.float64]) -> NDArray[np.float64]:
        over = np.maximum(value - unit @ self._want.T, 0.0)
        found: NDArray[np.float64] = (unit * self._room).sum(axis=1) + (over * self._cap).sum(axis=1)
        return found

    def _along(
        self, unit: NDArray[np.float64], best: NDArray[np.float64], value: NDArray[np.float64], resource: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the best values when that of one resource changes; the minimum is where some pod breaks even."""
        asked = np.flatnonzero(self._want[:, resource] > 0)
        if not len(asked):
            return unit, best
        others = unit.copy()
        others[:, resource] = 0.0
        left = value - others @ self._want.T  # left[bin, item]
        tried = np.maximum(left[:, asked] / self._want[asked, resource], 0.0)
        tried = np.concatenate([tried, np.zeros((len(unit), 1))], axis=1)
        over = np.maximum(left[:, None, :] - tried[:, :, None] * self._want[:, resource], 0.0)
        worth = (others * self._room).sum(axis=1)[:, None] + tried * self._room[:, resource, None]
        worth = worth + np.einsum("bti,bi->bt", over, self._cap)
        position = worth.argmin(axis=1)
        rows = np.arange(len(unit))
        lower = worth[rows, position] < best
        changed = unit.copy()
        changed[lower, resource] = tried[rows, position][lower]
        return changed, np.where(lower, worth[rows, position], best)

    def patterns(self, value: NDArray[np.float64], need: NDArray[np.float64], limit: int) -> FoundPatterns:
        """Return the maximal patterns worth `need` or more; of some machines not all if there are too many."""
        unit = self._units(value)
        pays = value - unit @ self._want.T
        over, slack = np.maximum(pays, 0.0), np.maximum(-pays, 0.0)
        total = (unit * self._room).sum(axis=1) + (over * self._cap).sum(axis=1)
        allowed = total - need
        allowed = allowed + np.abs(total) * _ROUNDING
        complete = np.ones(len(need), bool)
        bins = np.flatnonzero((allowed >= 0) & self._cap.any(axis=1))
        # What loses most is decided first.
        order = np.argsort(-np.where(self._cap > 0, over + slack, np.inf), axis=1, kind="stable")
        worth_of_room = unit @ self._want.T
        state = _States(bins, self._room[bins], np.zeros(len(bins)), np.zeros((len(bins), len(value)), np.int64))
        open_ = self._cap.copy()
        for position in range(len(value)):
            state = self._next(state, order[state.bin, position], over, slack, allowed)
            open_[np.arange(len(open_)), order[:, position]] = 0.0
            state = self._pruned(state, open_, unit, worth_of_room, allowed, limit, complete)
        more = self._fitting(state.room)
        full = ((np.minimum(more, self._cap[state.bin] - state.holds)) < 1).all(axis=1) & state.holds.any(axis=1)
        holds = state.holds[full]
        return FoundPatterns(state.bin[full], holds, holds @ value, complete)

    def _next(
        self,
        state: _States,
        item: NDArray[np.int64],
        over: NDArray[np.float64],
        slack: NDArray[np.float64],
        allowed: NDArray[np.float64],
    ) -> _States:
        """Put every number of pods of the next item on each partial pattern that it can still afford."""
        cap = self._cap[state.bin, item]
        want = self._want[item]
        with np.errstate(divide="ignore", invalid="ignore"):
            most = np.where(want > 0, state.room // np.maximum(want, 1.0), np.inf).min(axis=1, initial=np.inf)
        most = np.minimum(most, cap)
        missing, less = over[state.bin, item], slack[state.bin, item]
        left = allowed[state.bin] - state.loss
        with np.errstate(divide="ignore", invalid="ignore"):
            high = np.where(less > 0, np.minimum(most, np.floor(left / less + _ROUNDING)), most)
            low = np.where(missing > 0, np.maximum(0.0, np.ceil(cap - left / missing - _ROUNDING)), 0.0)
        times = np.maximum(high - low + 1, 0.0).astype(np.int64)
        source = np.repeat(np.arange(len(times)), times)
        begin = np.cumsum(times) - times
        count = low[source] + (np.arange(len(source)) - begin[source])
        holds = state.holds[source]
        holds[np.arange(len(source)), item[source]] = count.astype(np.int64)
        loss = state.loss[source] + count * less[source] + (cap[source] - count) * missing[source]
        room = state.room[source] - count[:, None] * want[source]
        return _States(state.bin[source], room, loss, holds)

    def _pruned(
        self,
        state: _States,
        open_: NDArray[np.float64],
        unit: NDArray[np.float64],
        worth_of_room: NDArray[np.float64],
        allowed: NDArray[np.float64],
        limit: int,
        complete: NDArray[np.bool_],
    ) -> _States:
        """Drop partial patterns with more unused room than they may have, and what exceeds the limit."""
        most = np.minimum(self._fitting(state.room), open_[state.bin])
        unused = (unit[state.bin] * state.room).sum(axis=1) - (most * worth_of_room[state.bin]).sum(axis=1)
        loss = state.loss + np.maximum(unused, 0.0)
        keep = np.flatnonzero(loss <= allowed[state.bin])
        if len(keep) > limit:
            share = loss[keep] / np.maximum(allowed[state.bin[keep]], 1e-300)
            order = np.argsort(share, kind="stable")
            complete[state.bin[keep[order[limit:]]]] = False
            keep = np.sort(keep[order[:limit]])
        return _States(state.bin[keep], state.room[keep], state.loss[keep], state.holds[keep])


class _States(msgspec.Struct, frozen=True):
    """Partial patterns: of which machine, the room that is left, what is lost so far, and their pods."""

    bin: NDArray[np.int64]
    room: NDArray[np.float64]
    loss: NDArray[np.float64]
    holds: NDArray[np.int64]
