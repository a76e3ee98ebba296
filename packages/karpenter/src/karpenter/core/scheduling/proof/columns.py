"""
Column generation: what whole pods are worth when machines hold whole pods.

A pattern is a set of pods that fits one machine. A linear program buys shares of patterns; its dual values
say what a pod of each item is worth. Patterns that are worth more than their machine are added until there
are none, and then no plan costs less than its pods are worth (P. C. Gilmore and R. E. Gomory, "A linear
programming approach to the cutting-stock problem", 1961).

The search for patterns goes through all machines at once, item by item, in arrays. What still fits is
bounded by the value of divisible pods, with sizes measured by several mixes of the resources. Where partial
patterns are left out because there are too many, what they could have been worth counts against the bound.
Works on a `PatternProblem`; knows nothing of labels or topology.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from karpenter.core.scheduling.price.linear import LinearProgram
from karpenter.core.scheduling.proof.bound import least_in_each, worth_of_pods

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.core.scheduling.price.whole import PatternProblem

_ROUNDS: Final = 120
"""Times that the linear program is solved at most for one bound."""

_STATES: Final = (16, 100, 500)
"""Partial patterns of each machine that are kept; more of them when fewer showed none that is worth it."""

_COLUMNS: Final = 80
"""Patterns that join the linear program in one round."""

_OF_EACH: Final = 8
"""Patterns of one machine that are found at once."""

_COMPARED: Final = 4
"""Partial patterns of each machine that others are compared with."""

_MIXES: Final = 8
_BOUNDS: Final = 4
"""Mixes of resources by which what still fits is bounded."""

_LARGE: Final = 12
"""Prices and sizes by which large machines are told from small ones."""

_AT_FIRST: Final = 0.8
_UNSERVED: Final = 50.0
_ABOVE: Final = 1 + 1e-9
_BELOW: Final = 1 - 1e-9
"""Make up for rounding errors."""

_GAIN: Final = 1e-7
"""The share of its price by which a pattern must be worth more than its machine to join the program."""

_WITH_GAIN: Final = 1 + _GAIN

_NEAR: Final = 0.1
"""How far a bound may be below the cost, as a share of how far that is below what is enough."""


def served_rows(
    program: LinearProgram, given: PatternProblem, rows: list[dict[int, float]]
) -> list[list[int]]:
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


class ColumnProgram:
    """
    The linear program that buys shares of patterns, with limits on how many machines of a group are bought.

    Groups of machines are what plans are divided by: each machine, all machines, those of one size, and those
    that the same items may use.
    """

    def __init__(self, given: PatternProblem, most: float, highspy: Any) -> None:
        program = LinearProgram(highspy)
        # A pod that no pattern serves costs far more than the plan at hand: there is always a solution.
        rows: list[dict[int, float]] = [{program.column(_UNSERVED * most): 1.0} for _ in given.count]
        served_rows(program, given, rows)
        self.search = PatternSearch(given)
        self.price = self.search.price
        groups = _groups(given, self.search.cap)
        self.member, self.low, self.high = groups.member, groups.low, groups.high
        self.once = np.append(self.search.once, np.zeros(len(self.member) - len(self.price), bool))
        """The groups that are a node which is there once."""

        self._given, self._highspy = given, highspy
        self._first_row = program.rows
        for low, high in zip(self.low.tolist(), self.high.tolist(), strict=True):
            program.row({}, low, high)
        self._first_column = program.columns
        self._solver = program.solver()
        self.limit = np.inf
        """Partial patterns after which a search that found nothing is not repeated with more of them."""

        self.cutoff = np.inf
        """Partial patterns after which no more patterns are added."""

        self.failed = False
        """Whether the library gave up, so that nothing is proved."""

        self._known: set[tuple[int, bytes]] = set()
        self._bins: list[int] = []
        self._rows_of = [
            np.flatnonzero(self.member[:, number]).astype(np.int32) + self._first_row
            for number in range(len(given.bins))
        ]
        # A machine may be bought for nothing, so that any number of machines has a solution.
        for number in range(len(given.bins)):
            self._column(number, np.zeros(len(given.count), np.int64))

    def bounded(self, low: NDArray[np.float64], high: NDArray[np.float64]) -> None:
        """Set how many machines of each group are bought at least and at most."""
        for group in np.flatnonzero((low != self.low) | (high != self.high)).tolist():
            self._solver.changeRowBounds(self._first_row + group, float(low[group]), float(high[group]))
        self.low, self.high = low, high

    def begin(self, value: NDArray[np.float64]) -> None:
        """Add patterns to begin with: full machines of each item, and what is worth most at some values."""
        self._add(self.search.alone())
        self._add(self.search.best(value, self.price * _AT_FIRST, _STATES[0]))

    def _add(self, found: FoundPatterns) -> int:
        added = 0
        for position in found.order(_COLUMNS).tolist():
            number, holds = int(found.bin[position]), found.holds[position]
            same = number, holds.tobytes()
            if same not in self._known:
                self._known.add(same)
                self._column(number, holds)
                added += 1
        return added

    def _column(self, number: int, holds: NDArray[np.int64]) -> None:
        items = np.flatnonzero(holds)
        index = np.concatenate([items.astype(np.int32), self._rows_of[number]])
        value = np.concatenate([holds[items].astype(np.float64), np.ones(len(self._rows_of[number]))])
        self._bins.append(number)
        self._solver.addCol(self.price[number], 0.0, self._highspy.kHighsInf, len(index), index, value)

    def solve(self) -> LinearSolution | None:
        """Return the solution with the patterns that are known; None when there is none."""
        self._solver.run()
        status, known = self._solver.getModelStatus(), self._highspy.HighsModelStatus
        if status != known.kOptimal:
            self.failed = self.failed or status != known.kInfeasible
            return None
        found = self._solver.getSolution()
        dual = np.array(found.row_dual, np.float64)
        # What a limit is worth that does not bind is a rounding error.
        group = np.clip(
            dual[self._first_row :],
            np.where(np.isfinite(self.high), -np.inf, 0.0),
            np.where(self.low > 0, np.inf, 0.0),
        )
        share = np.array(found.col_value, np.float64)[self._first_column :]
        return LinearSolution(
            np.maximum(dual[: len(self._given.count)], 0.0),
            group,
            self.member @ np.bincount(self._bins, weights=share, minlength=len(self.price)),
            float(self._solver.getInfo().objective_function_value),
        )

    def generate(self, enough: float) -> LinearSolution | None:
        """
        Return the solution over all patterns, or one that proves a bound of `enough`; None without one.

        Its cost is a bound that is proved: what patterns that were not found may be worth is taken off.
        """
        solved, best, added = self.solve(), -np.inf, 1
        for _ in range(_ROUNDS):
            if solved is None or not added or self.search.work > self.cutoff:
                break
            cost = self.price - self.member.T @ solved.group
            closed = (self.member.T @ (self.high <= 0)) > 0
            need = np.where(closed, np.inf, cost * _WITH_GAIN + _GAIN * self.price)
            near = min(enough, solved.cost - _NEAR * (enough - solved.cost))
            added, upper = 0, np.where(closed, 0.0, np.inf)
            for states in _STATES if self.search.work < self.limit else _STATES[:1]:
                # A machine of which no pattern was left out is not searched again.
                found = self.search.best(solved.value, np.where(upper > need, need, np.inf), states)
                upper = np.minimum(upper, found.upper)
                best = max(best, self._bound(solved, cost, upper))
                if best >= near:
                    break
                added = self._add(found)
                if added:
                    break
            solved = self.solve() if added else solved
        return msgspec.structs.replace(solved, cost=best) if solved is not None else None

    def _excess(self, cost: NDArray[np.float64], upper: NDArray[np.float64]) -> float:
        """Return how many times the cost of a plan its machines may be worth; once is what they should be."""
        more = np.maximum(upper - cost, 0.0) / np.maximum(self.price, 1e-300)
        return 1.0 + float(more[~self.search.once].max(initial=0.0))

    def _bound(self, solved: LinearSolution, cost: NDArray[np.float64], upper: NDArray[np.float64]) -> float:
        """Return the bound that values prove when no pattern of a machine is worth more than `upper`."""
        once = self.search.once
        capped = np.isfinite(self.high)
        capped[: len(once)] &= ~once
        worth = (
            worth_of_pods(self._given.count, self._given.splits, solved.value)
            + float(np.maximum(solved.group, 0.0) @ self.low)
            + float(np.minimum(solved.group[capped], 0.0) @ self.high[capped])
            - float(upper[once].sum())
        )
        return max(0.0, worth / self._excess(cost, upper))


class LinearSolution(msgspec.Struct, frozen=True):
    """The dual values of a linear program, how many machines of each group it buys, and its cost."""

    value: NDArray[np.float64]
    """What a pod of each item is worth."""

    group: NDArray[np.float64]
    """What one machine more of each group is worth: below zero where there are too many."""

    machines: NDArray[np.float64]
    cost: float


class _Groups(msgspec.Struct, frozen=True):
    """Groups of machines, and how many of each a plan buys at least and at most."""

    member: NDArray[np.float64]
    """``member[group, machine]``: first each machine by itself, then all that are bought."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]


def _groups(given: PatternProblem, cap: NDArray[np.float64]) -> _Groups:
    """
    Return the groups of machines that plans are divided by.

    The pods of an item need so many machines as hold them when nothing else is there. Of machines of which
    any two can be replaced by a larger one, a plan buys one at most.
    """
    bought = np.array([not each.once for each in given.bins])
    groups: dict[bytes, tuple[NDArray[np.bool_], float, float]] = {}

    def add(some: NDArray[np.bool_], low: float = 0.0, high: float = np.inf) -> None:
        _, known_low, known_high = groups.get(some.tobytes(), (some, 0.0, np.inf))
        groups[some.tobytes()] = some, max(low, known_low), min(high, known_high)

    add(bought)
    least = np.array(given.count)
    for split in given.splits:
        least[list(split.items)] = least_in_each(split)
    for item, count in enumerate(least.tolist()):
        some = cap[:, item] > 0
        if some.any():
            add(some & bought, np.ceil(count / cap[some, item].max()) if not (some & ~bought).any() else 0.0)
    for one_at_most in _replaceable(given, bought):
        add(one_at_most, high=1.0)
    room = np.array([each.room for each in given.bins])
    for each in np.unique(room[bought], axis=0):
        add(bought & (room == each).all(axis=1))
    price = np.array([[each.price] for each in given.bins])
    for amounts in np.concatenate([price, room], axis=1).T:
        for large in np.unique(np.quantile(amounts[bought], np.linspace(0, 1, _LARGE + 1)[1:])).tolist():
            add(bought & (amounts >= large))
    found = list(groups.values())
    return _Groups(
        np.concatenate([np.eye(len(bought)), np.array([each for each, _, _ in found], np.float64)]),
        np.concatenate([np.zeros(len(bought)), [low for _, low, _ in found]]),
        np.concatenate([np.where(bought, np.inf, 1.0), [high for _, _, high in found]]),
    )


def replaceable_pairs(given: PatternProblem, bought: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """
    Return which two machines a cheapest plan does not need both of, or twice.

    Two machines for pods that may all share a node are no better than one with the room of both that costs no
    more than both, and of which no more counts against limits.
    """
    items = np.zeros((len(bought), len(given.count)), bool)
    for number, each in enumerate(given.bins):
        items[number, list(each.items)] = True
    alone = np.array(given.cap) < np.array(given.count)
    plain = np.flatnonzero(bought & ~items[:, alone].any(axis=1))
    room = np.array([each.room for each in given.bins], np.float64)[plain]
    price = np.array([each.price for each in given.bins])[plain]
    counted = given.counted[:, plain]
    found = np.zeros((len(bought), len(bought)), bool)
    for larger in range(len(plain)):
        useful = ~(items[plain] & ~items[plain[larger]]).any(axis=1)
        some = np.flatnonzero(useful & (price * 2 >= price[larger]) & (room <= room[larger]).all(axis=1))
        fits = price[some][:, None] + price[some] >= price[larger] * _BELOW
        for resource in range(room.shape[1]):
            fits &= room[some, resource][:, None] + room[some, resource] <= room[larger, resource]
        for weights in counted:
            fits &= weights[some][:, None] + weights[some] >= weights[larger]
        found[np.ix_(plain[some], plain[some])] |= fits
    return found


def _replaceable(given: PatternProblem, bought: NDArray[np.bool_]) -> Iterator[NDArray[np.bool_]]:
    """Yield machines of which a cheapest plan needs one at most."""
    pairs = replaceable_pairs(given, bought)
    price = np.array([each.price for each in given.bins])
    seen: set[bytes] = set()
    for first in np.flatnonzero(pairs.diagonal()).tolist():
        mine = np.zeros(len(bought), bool)
        mine[first] = True
        for other in np.argsort(-pairs[first].astype(np.int64) * price, kind="stable").tolist():
            if pairs[other, other] and pairs[other, mine].all():
                mine[other] = True
        if mine.tobytes() not in seen:
            seen.add(mine.tobytes())
            yield mine


class FoundPatterns(msgspec.Struct, frozen=True):
    """Patterns, and the most that any pattern of each machine can be worth."""

    bin: NDArray[np.int64]
    holds: NDArray[np.int64]
    gain: NDArray[np.float64]
    """The share of its worth that a pattern is worth more than its machine."""

    upper: NDArray[np.float64]

    def order(self, most: int) -> NDArray[np.int64]:
        """Return the positions of the patterns that gain most."""
        return np.argsort(-self.gain, kind="stable")[:most]


class PatternSearch:
    """Finds the patterns of all machines that are worth most."""

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
        self.cap = np.where(usable, np.minimum(self._fitting(self._room), cap), 0.0)
        # size[mix, bin, item]: the share of the machine that a pod takes, by some mix of the resources.
        self.work = 0
        """Partial patterns that were looked at."""

        self._mix = mixes(self._want)[:, None, :] / np.maximum(self._room, 1.0)
        self._size = np.einsum("kbr,ir->kbi", self._mix, self._want)

    def _fitting(self, room: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how many pods of each item each room holds: ``most[room, item]``."""
        most = np.full((len(room), len(self._want)), np.inf)
        for resource in range(self._want.shape[1]):
            want = self._want[:, resource]
            asked = np.flatnonzero(want > 0)
            # A quotient of whole numbers below 2**52 is rounded to a whole number only if it
            # is one; dividing and rounding down takes a tenth of the time of ``//``.
            most[:, asked] = np.minimum(most[:, asked], np.floor(room[:, resource, None] / want[asked]))
        return most

    def alone(self) -> FoundPatterns:
        """Return for each item the machine that serves it for least by itself, full of it."""
        per_pod = np.where(self.cap > 0, self.price[:, None] / np.maximum(self.cap, 1.0), np.inf)
        per_pod[self.once] = np.inf
        items = np.flatnonzero(np.isfinite(per_pod).any(axis=0))
        number = per_pod[:, items].argmin(axis=0)
        holds = np.zeros((len(items), len(self._want)), np.int64)
        holds[np.arange(len(items)), items] = self.cap[number, items].astype(np.int64)
        return FoundPatterns(number, holds, np.zeros(len(items)), np.full(len(self.price), np.inf))

    def _relaxed(
        self, value: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """
        Return bounds for what machines are worth if pods were divisible, best first.

        ``total[mix, bin]`` with the values of resources, and what each pod pays beyond its size.
        """
        density = value / np.maximum(self._size, 1e-300)
        order = np.argsort(-density, axis=2, kind="stable")
        filled = np.cumsum(np.take_along_axis(self._size * self.cap, order, axis=2), axis=2) >= 1.0
        last = np.where(filled.any(axis=2), filled.argmax(axis=2), -1)
        breaking = np.take_along_axis(order, np.maximum(last, 0)[:, :, None], axis=2)[:, :, 0]
        rate = np.take_along_axis(density, breaking[:, :, None], axis=2)[:, :, 0]
        rate = np.where(last >= 0, rate, 0.0)
        over = np.maximum(value - rate[:, :, None] * self._size, 0.0)
        total = rate * (self._mix * self._room).sum(axis=2) + (over * self.cap).sum(axis=2)
        few = np.argsort(total, axis=0, kind="stable")[:_BOUNDS]
        return (
            np.take_along_axis(total, few, axis=0),
            np.take_along_axis(rate[:, :, None] * self._mix, few[:, :, None], axis=0),
            np.take_along_axis(over, few[:, :, None], axis=0),
        )

    def most_worth(self, value: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the most that each machine can hold of some values of pods, if pods were divisible."""
        found: NDArray[np.float64] = self._relaxed(value)[0][0] * _ABOVE
        return found

    def best(self, value: NDArray[np.float64], need: NDArray[np.float64], limit: int) -> FoundPatterns:
        """Return patterns worth more than `need`; `limit` partial patterns of each machine are kept."""
        growth = _Growth(self._relaxed(value), self.cap, value, self._want)
        upper = growth.total * _ABOVE
        bins = np.flatnonzero(upper > need)
        upper = np.minimum(upper, np.where(np.isfinite(need), need, upper))
        state = self._empty(bins)
        for position in range(len(value)):
            state, bound = self._grown(state, growth, position, need)
            keep = np.lexsort((-bound, state.bin))
            state, bound = state.some(keep), bound[keep]
            if len(keep) > limit:
                keep = np.flatnonzero(~_dominated(state))
                state, bound = state.some(keep), bound[keep]
            begin = np.searchsorted(state.bin, state.bin, side="left")
            dropped = np.arange(len(begin)) - begin >= limit
            np.maximum.at(upper, state.bin[dropped], bound[dropped])
            state = state.some(np.flatnonzero(~dropped))
        np.maximum.at(upper, state.bin, state.worth * _ABOVE)
        state = self._filled(state, value)
        gain = (state.worth - need[state.bin]) / np.maximum(state.worth, 1e-300)
        return FoundPatterns(state.bin, state.holds, gain, upper)

    def _empty(self, bins: NDArray[np.int64]) -> _States:
        """Return one partial pattern of each machine, without pods."""
        nothing = np.zeros((len(bins), len(self._want)), np.int64)
        return _States(bins, self._room[bins], np.zeros(len(bins)), nothing)

    def _grown(
        self, state: _States, growth: _Growth, position: int, need: NDArray[np.float64]
    ) -> tuple[_States, NDArray[np.float64]]:
        """Decide about the next item of each machine; return what may reach `need`, with its bound."""
        value, unit, over = growth.value, growth.unit, growth.over
        item = growth.order[state.bin, position]
        bound = state.worth + (unit[0][state.bin] * state.room).sum(axis=1)
        bound += growth.rest[0, state.bin, position + 1]
        pays = value[item] - (unit[0][state.bin] * self._want[item]).sum(axis=1)
        state = self._next(state, item, value, bound * _ABOVE - need[state.bin], pays)
        self.work += len(state.bin)
        growth.open[np.arange(len(growth.open)), growth.order[:, position]] = 0.0
        bound = np.full(len(state.bin), np.inf)
        for values, left in zip(unit, growth.rest[:, :, position + 1], strict=True):
            np.minimum(bound, (values[state.bin] * state.room).sum(axis=1) + left[state.bin], out=bound)
        bound = (bound + state.worth) * _ABOVE
        keep = np.flatnonzero(bound > need[state.bin])
        state, bound = state.some(keep), bound[keep]
        most = np.minimum(self._fitting(state.room), growth.open[state.bin])
        np.minimum(bound, (most @ value + state.worth) * _ABOVE, out=bound)
        for values, more in zip(unit, over, strict=True):
            fits = (values[state.bin] * state.room).sum(axis=1) + (most * more[state.bin]).sum(axis=1)
            np.minimum(bound, (fits + state.worth) * _ABOVE, out=bound)
        keep = np.flatnonzero(bound > need[state.bin])
        return state.some(keep), bound[keep]

    def _next(
        self,
        state: _States,
        item: NDArray[np.int64],
        value: NDArray[np.float64],
        spare: NDArray[np.float64],
        pays: NDArray[np.float64],
    ) -> _States:
        """
        Put numbers of pods of the next item on each partial pattern.

        `spare` is how far the bound of a pattern without the item is above what it needs, and `pays` by how
        much each pod raises that bound.
        """
        want = self._want[item]
        most = np.where(want > 0, state.room / np.maximum(want, 1.0), np.inf).min(axis=1, initial=np.inf)
        most = np.floor(most)
        most = np.minimum(most, self.cap[state.bin, item])
        with np.errstate(divide="ignore", invalid="ignore"):
            edge = np.abs(spare / pays)
        lacks = spare < 0
        low = np.where(lacks & (pays > 0), np.ceil(edge * _BELOW), 0.0)
        most = np.where(~lacks & (pays < 0), np.minimum(most, np.floor(edge * _ABOVE)), most)
        most = np.where(lacks & (pays <= 0), -1.0, most)
        times = np.maximum(most - low + 1, 0.0).astype(np.int64)
        source = np.repeat(np.arange(len(times)), times)
        count = low[source].astype(np.int64) + np.arange(len(source)) - (np.cumsum(times) - times)[source]
        holds = state.holds[source]
        holds[np.arange(len(source)), item[source]] = count
        room = state.room[source] - count[:, None] * want[source]
        return _States(state.bin[source], room, state.worth[source] + count * value[item[source]], holds)

    def _filled(self, state: _States, value: NDArray[np.float64]) -> _States:
        """Return the best patterns of each machine, with every pod that still fits."""
        first = np.lexsort((-state.worth, state.bin))
        begin = np.searchsorted(state.bin[first], state.bin[first], side="left")
        state = state.some(first[np.arange(len(first)) - begin < _OF_EACH])
        room, holds = state.room.copy(), state.holds.copy()
        for item in np.argsort(-value, kind="stable").tolist():
            more = np.minimum(
                np.floor(
                    np.where(self._want[item] > 0, room / np.maximum(self._want[item], 1.0), np.inf).min(
                        axis=1, initial=np.inf
                    )
                ),
                self.cap[state.bin, item] - holds[:, item],
            )
            holds[:, item] += more.astype(np.int64)
            room -= more[:, None] * self._want[item]
        return _States(state.bin, room, holds @ value, holds)


class _Growth:
    """What a search for patterns at some values of pods goes by."""

    def __init__(
        self,
        relaxed: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]],
        cap: NDArray[np.float64],
        value: NDArray[np.float64],
        want: NDArray[np.float64],
    ) -> None:
        total, self.unit, self.over = relaxed
        self.total = total[0]
        self.value = value
        # What loses most by a wrong decision is decided first.
        loss = np.where(cap > 0, np.abs(value - self.unit[0] @ want.T), np.inf)
        self.order = np.argsort(-loss, axis=1, kind="stable")
        rest = np.take_along_axis(self.over * cap, self.order[None], axis=2)
        rest = np.flip(np.cumsum(np.flip(rest, axis=2), axis=2), axis=2)
        self.rest = np.concatenate([rest, np.zeros((*rest.shape[:2], 1))], axis=2)
        """What items beyond a position pay at most beyond their size, per mix and machine."""

        self.open = cap.copy()
        """How many pods of each item that is not decided yet each machine may hold."""


def mixes(want: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights of resources by which the size of pods is measured: ``mix[number, resource]``."""
    active = np.flatnonzero(want.any(axis=0)).tolist()
    found = [np.eye(want.shape[1])[resource] for resource in active]
    for first, second in combinations(active, 2):
        for share in (0.5,) if len(found) >= _MIXES else (0.15, 0.3, 0.5, 0.7, 0.85):
            mix = np.zeros(want.shape[1])
            mix[first], mix[second] = share, 1 - share
            found.append(mix)
    return np.array(found)


class _States(msgspec.Struct, frozen=True):
    """Partial patterns: of which machine, the room that is left, what their pods are worth, and the pods."""

    bin: NDArray[np.int64]
    room: NDArray[np.float64]
    worth: NDArray[np.float64]
    holds: NDArray[np.int64]

    def some(self, which: NDArray[np.int64]) -> _States:
        return _States(self.bin[which], self.room[which], self.worth[which], self.holds[which])


def _dominated(state: _States) -> NDArray[np.bool_]:
    """Return which partial patterns have no more worth and no more room than one of the first ones."""
    begin = np.searchsorted(state.bin, state.bin, side="left")
    position = np.arange(len(begin))
    found = np.zeros(len(begin), bool)
    for rank in range(_COMPARED):
        other = np.minimum(begin + rank, len(begin) - 1)
        worse = (position > other) & (state.bin == state.bin[other]) & (state.worth <= state.worth[other])
        found |= worse & (state.room <= state.room[other]).all(axis=1)
    return found
