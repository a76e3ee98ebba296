"""
The cheapest machines that hold whole pods, with proof: combinations of machines are listed and tried.

A combination says how many of each machine are bought. Few combinations are both cheap enough and large
enough, so they can be listed; for each, a linear program says whether divisible pods fit, and pods that are
placed in random orders or an integer program say whether whole ones do. Works on a `PatternProblem`; knows
nothing of labels or topology. Needs the library ``highspy``.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from karpenter.core.scheduling.price.linear import LinearProgram, library
from karpenter.core.scheduling.price.whole import CHEAPER, PatternProblem, Solution
from karpenter.core.scheduling.proof.bound import worth_of_pods
from karpenter.core.scheduling.proof.columns import (
    ColumnProgram,
    LinearSolution,
    PatternSearch,
    mixes,
    replaceable_pairs,
)
from karpenter.core.scheduling.proof.fitting import (
    AT_ONCE,
    PROGRAM,
    SOON,
    TRIALS,
    Alike,
    exchanged,
    large_on_machines,
    on_machines,
    packed_at_random,
    shortfall,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


_EXCHANGES: Final = 40
_MORE_EXCHANGES: Final = 150
"""Rounds in which pods are exchanged between machines that divisible pods fit on."""

_LONGER: Final = 2
"""How many times longer an integer program is asked again."""

_FEW_ITEMS: Final = 25
"""Different pods up to which the values of whole pods are worked out."""

_STATES: Final = 16
_NEARLY: Final = 0.85
"""How exactly it is worked out what values of pods a machine holds, as a share of what it holds divided."""

_FAR: Final = 2.0
"""The cost, as a multiple of the first plan, that shows that pods are left."""

_VALUES: Final = 40_000
"""Steps after which these values are not improved further."""

_STEP: Final = 0.01
"""The share of the best plan by which the cost of combinations grows at first."""

_LARGER: Final = 1.5
_SLACK: Final = (1.08, 1.04, 1.02, 1.01, 1.005)
"""How many times of everything is needed while a better plan is sought."""

_OF_MANY: Final = 2
_FIRST: Final = 6
"""Combinations, the cheapest, that are tried then."""

_WIDTH: Final = 20
"""Combinations of the first machines, at least, that are kept when there are too many of them."""

_STATES_A_STEP: Final = 2
_SETS: Final = 60
"""Sets of machines whose resources are counted."""

_PAIRED: Final = 10
"""Sets of machines, the largest, of which also any two together are counted."""

_SAFE: Final = 1 - 1e-9
_ABOVE: Final = 1 + 1e-9
"""Make up for rounding errors."""

_WHOLE: Final = 1e-6
_TINY: Final = 1e-300


class MachineSearch:
    """
    Finds the cheapest machines that hold whole pods, by listing combinations of machines.

    What every plan obeys is a row: pods of some value need machines that hold so much. Combinations that obey
    all rows and cost less than the best plan are listed, a little dearer each time, and are tried from the
    cheapest on. Where divisible pods do not fit, or whole ones, the values that show it are a further row
    (logic-based Benders decomposition: J. N. Hooker and G. Ottosson, 2003). The first combination on which
    the pods fit is the cheapest plan, unless it was not found out for a cheaper one.
    """

    def __init__(
        self, given: PatternProblem, first: NDArray[np.float64], most: float, *, dual: bool = False
    ) -> None:
        self._given, self._first = given, first
        self._dual = dual
        """Whether at the first values no machine that is bought holds pods worth more than its price."""

        self._patterns = PatternSearch(given)
        self._counted = given.counted
        self._bought = self._alike()
        self._nodes: list[Alike] = [(number,) for number in np.flatnonzero(self._patterns.once).tolist()]
        self._any = [alike[0] for alike in self._bought]
        """One bin of each."""

        self._flat = np.array([number for alike in self._bought for number in alike], np.int64)
        self._start = np.cumsum([0, *map(len, self._bought[:-1])])
        """All bins, machine by machine, and where each machine begins."""

        self._price = self._patterns.price[self._any]
        self._rivals, self._times = self._replaceable()
        self._limit = np.array([limit for _, limit in given.limits])
        self._rows: list[NDArray[np.float64]] = []
        """What each machine gives of what is needed, which is 1."""

        self._many: list[bool] = []
        """Which rows are about many items, of which a little more may be required."""

        self._reduced: dict[tuple[int, float], NDArray[np.float64]] = {}
        """The rows that are needed, by their number and how many times of everything is."""

        self._program: ColumnProgram | None = None
        self._rng = np.random.default_rng(0)
        self._most = self.best = most
        self._solved: Solution | None = None
        self._open: dict[tuple[Alike, ...], int] = {}
        """Machines of which it was not found out whether the pods fit, and how long that was tried."""

        self._sought = False
        self._step = _STEP
        self.work = 0
        self._begin()
        self._least = self._required()
        """All cheaper combinations are tried."""

    def _alike(self) -> list[Alike]:
        """
        Return the machines that can be bought, the dearest first: what is left soon costs too much.

        Bins that differ in nothing but the pods that may use them, as in several zones, are one machine.
        """
        bins = self._given.bins
        found: dict[tuple[object, ...], list[int]] = {}
        for number in np.flatnonzero(~self._patterns.once & ~self._dominated()).tolist():
            same = bins[number].price, bins[number].room, *self._counted[:, number].tolist()
            found.setdefault(same, []).append(number)
        return sorted(map(tuple, found.values()), key=lambda alike: -bins[alike[0]].price)

    def _dominated(self) -> NDArray[np.bool_]:
        """Return which machines another one replaces that costs, and counts, no more."""
        price, once, cap = self._patterns.price, self._patterns.once, self._patterns.cap
        room = np.array([each.room for each in self._given.bins])
        found = once.copy()
        for number in np.lexsort((np.arange(len(price)), -room.sum(axis=1), price)).tolist():
            if not found[number]:
                smaller = (room <= room[number]).all(axis=1) & (price >= price[number])
                smaller &= (self._counted >= self._counted[:, [number]]).all(axis=0)
                smaller &= (cap <= cap[number]).all(axis=1)
                smaller[number] = False
                found |= smaller
        found &= ~once
        return found

    def _replaceable(self) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """
        Return which machines are not needed beside all bins of another one, and how many of each at most.

        A machine of which any two in the same bin can be replaced is bought once in each bin at most.
        """
        pairs = replaceable_pairs(self._given, ~self._patterns.once)
        member = np.zeros((len(self._bought), len(pairs)), np.int64)
        for row, alike in zip(member, self._bought, strict=True):
            row[list(alike)] = 1
        size = member.sum(axis=1)
        once = member @ pairs.diagonal() == size
        rivals = ((member @ pairs) > 0) @ member.T == size
        rivals &= (once | (size == 1))[:, None]
        return rivals, np.where(once, size, sum(self._given.count))

    def _required(self) -> float:
        """Return the least that all that is required costs, at most the best plan."""
        rows = self._array(self._rows)
        return min(float(_least_after(rows, self._price)[:, 0].max(initial=0.0)), self.best)

    def _begin(self) -> None:
        """Add the rows that need no search: resources for sets of items, machines for each item, values."""
        want = np.array(self._given.want, np.float64)
        room = np.array([each.room for each in self._given.bins])
        cap = self._patterns.cap
        for some in _sets(cap > 0):
            value = np.where(some, self._first, 0.0)
            upper = self._patterns.most_worth(value)
            if self._dual:
                upper = np.where(self._patterns.once, upper, np.minimum(upper, self._patterns.price * _ABOVE))
            self._require(value, upper)
            for resource in np.flatnonzero(want[some].any(axis=0)).tolist():
                taken = np.where(some, want[:, resource], 0.0)
                self._require(taken, np.minimum(room[:, resource], cap @ taken))
        for item, one in enumerate(np.eye(len(want))):
            self._require(one, cap[:, item])
        total = np.maximum(np.array(self._given.count) @ want, 1.0)
        for mix in mixes(want):
            value = want @ (mix / total)
            self._require(value, self._patterns.most_worth(value))

    def _require(self, value: NDArray[np.float64], upper: NDArray[np.float64]) -> None:
        """Require machines for pods of some values, of which no machine holds more than `upper`."""
        need = worth_of_pods(self._given.count, self._given.splits, value) * _SAFE
        need -= float(upper[self._patterns.once].sum()) / _SAFE
        if need > 0:
            most = np.maximum.reduceat(upper[self._flat], self._start) if self._bought else upper[:0]
            self._rows.append(most / (need * _SAFE))
            self._many.append(int(np.count_nonzero(value)) > _OF_MANY)

    def _require_whole(self, value: NDArray[np.float64]) -> None:
        most = self._patterns.most_worth(value)
        found = self._patterns.best(value, most * _NEARLY, _STATES)
        self._require(value, np.minimum(found.upper, most))

    def run(self, limit: int) -> tuple[float, Solution | None]:
        """
        Return the least that any plan costs, and the best plan below the first.

        The search ends after `limit` steps: no clock, so that a decision can be made again.
        """
        long = limit - self.work > _VALUES
        if long and self._is_better(self._least) and len(self._given.count) <= _FEW_ITEMS:
            self._whole_values()
            self._least = max(self._least, self._required())
        self._list(self.work + (limit - self.work) * 3 // 4)
        if long and self._is_better(self._least) and not self._sought:
            self._sought = True
            self._seek(limit // 2)
        self._list(limit)
        self._decide_open(limit)
        least = min(self._least, *map(self._cost, self._open), np.inf)
        return least if self._is_better(least) else self.best, self._solved

    def _list(self, limit: int) -> None:
        """List combinations and try them, until the best plan is proved or nothing changes."""
        before: tuple[float, ...] = ()
        while (
            self._is_better(self._least)
            and self.work < limit
            and before != (self._least, self.best, len(self._rows))
        ):
            before = self._least, self.best, len(self._rows)
            most = min(self.best * CHEAPER, self._least + self._step * self.best)
            listed, cost, complete = self._combinations(most, (limit - self.work) // 2)
            tried = self._tried(listed, cost, most, limit)
            self._least = max(self._least, min(tried, complete))
            self._step *= _LARGER if complete >= most else 1.0

    def offer(self, known: Solution) -> None:
        """Take over a plan if it is better than the best."""
        machines = np.bincount([each.bin for each in known.patterns], minlength=len(self._given.bins))
        if self._is_better(known.cost) and (self._counted @ machines <= self._limit).all():
            self.best, self._solved = known.cost, known

    def _is_better(self, cost: float) -> bool:
        """Return whether what costs so much is better than the best plan."""
        return cost < self.best * CHEAPER

    def _combinations(
        self, most: float, limit: int, slack: float = 1.0
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], float]:
        """
        Return combinations that cost less than `most`, cheapest first, and up to which cost none lacks.

        It takes `limit` steps or a few more. With `slack`, so many times of everything are needed.
        """
        rows = self._needed(slack)
        rest = _least_after(rows, self._price)
        counted, pods, complete = self._counted[:, self._any].T, sum(self._given.count), most
        end = self.work + limit
        cost, left, room = np.zeros(1), np.ones(len(rows))[None], self._limit[None] * _ABOVE
        lower = cost
        blocked = np.zeros((1, len(self._price)), bool)
        steps: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        for position, price in enumerate(self._price.tolist()):
            times = np.minimum((most - cost) / max(price, _TINY), self._times[position])
            with np.errstate(divide="ignore", invalid="ignore"):
                fits = np.where(counted[position] > 0, room / counted[position], np.inf)
            times = np.minimum(times, np.maximum(fits.min(axis=1, initial=np.inf), 0.0))
            times = np.where(blocked[:, position], 0, np.floor(times)).astype(np.int64) + 1
            over = np.cumsum(times) > max(_WIDTH * pods, end - self.work)
            if over.any():  # the states are in the order of their bounds then
                complete, times = min(complete, float(lower[over][0])), np.where(over, 0, times)
            source = np.repeat(np.arange(len(times)), times)
            number = np.arange(len(source)) - (np.cumsum(times) - times)[source]
            self.work += len(source) // _STATES_A_STEP
            costs, lacks = cost[source] + number * price, left[source] - number[:, None] * rows[:, position]
            with np.errstate(invalid="ignore"):
                more = np.where(lacks > 0, lacks * rest[:, position + 1], 0.0).max(axis=1, initial=0.0)
            keep = np.flatnonzero(costs + more < most)
            width = max(_WIDTH, (end - self.work) // max(1, len(self._price) - position - 1))
            keep = keep[np.argsort((costs + more)[keep], kind="stable")]
            if len(keep) > width and self.work > end - limit // 2:
                complete = min(complete, float((costs + more)[keep[width]]))
                keep = keep[:width]
            lower = (costs + more)[keep]
            source, number = source[keep], number[keep]
            cost, left, room = costs[keep], lacks[keep], room[source] - number[:, None] * counted[position]
            every = number >= len(self._bought[position])
            blocked = blocked[source] | (every[:, None] & self._rivals[position])
            steps.append((source, number))
        machines, state = np.zeros((len(cost), len(self._price)), np.int64), np.arange(len(cost))
        for position in range(len(steps) - 1, -1, -1):
            source, number = steps[position]
            machines[:, position], state = number[state], source[state]
        order = np.argsort(cost, kind="stable")
        return machines[order], cost[order], complete

    def _needed(self, slack: float) -> NDArray[np.float64]:
        """Return the rows that no other one implies, and what they require together."""
        known = len(self._rows), slack
        if known not in self._reduced:
            self.work += PROGRAM
            rows = self._array(self._rows)
            rows = _needed_rows(rows / np.where(self._many, slack, 1.0)[:, None])
            self._reduced[known] = np.concatenate([rows, combined_row(rows, self._price)])
        return self._reduced[known]

    def _array(self, rows: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return rows as one array, which has a column for each machine if there are none."""
        return np.array(rows, np.float64).reshape(len(rows), len(self._price))

    def _tried(self, listed: NDArray[np.int64], cost: NDArray[np.float64], most: float, limit: int) -> float:
        """Try combinations from the cheapest on; return the cost up to which all are, at most `most`."""
        possible = cost >= self._least
        undecided: list[int] = []
        patience = self.work + (limit - self.work) * 3 // 4
        for number in range(len(cost)):
            if self._is_better(cost[number]) and possible[number]:
                if self.work >= patience:
                    most = float(cost[number])
                    break
                known = len(self._rows)
                if self._may_fit(self._machines(listed[number])):
                    undecided.append(number)
                possible &= self._obeys(listed, known)
        for number in undecided:
            if self._is_better(cost[number]) and possible[number]:
                if self.work >= limit:
                    return min(most, float(cost[number]))
                known = len(self._rows)
                self._decided(self._machines(listed[number]), SOON)
                possible &= self._obeys(listed, known)
        return most

    def _obeys(self, listed: NDArray[np.int64], known: int) -> NDArray[np.bool_]:
        """Return which combinations obey all rows but the first ones."""
        return np.asarray((listed @ self._array(self._rows[known:]).T >= 1).all(axis=1))

    def _seek(self, limit: int) -> None:
        """Look for a better plan: machines with room to spare are few, and pods fit on them easily."""
        if len(self._given.count) <= _FEW_ITEMS:
            self._whole_values()
        for slack in _SLACK:
            listed, _, _ = self._combinations(self.best * CHEAPER, limit // len(_SLACK), slack)
            before, end = self.best, self.work + limit // len(_SLACK)
            for machines in map(self._machines, listed[:_FIRST]):
                if self._may_fit(machines):
                    self._decided(machines, SOON)
                if self.best < before or self.work > end:
                    break

    def _dive(self, program: ColumnProgram) -> None:
        """Look for a better plan: buy one machine after the other whole of which a part is bought."""
        low, high, once = program.low, program.high, self._patterns.once
        for weight in (np.ones(len(once)), program.price):
            least, solved = low.copy(), program.solve()
            while solved is not None and self._is_better(solved.cost):
                machines = solved.machines[: len(once)]
                share = np.where(once, 0.0, machines - np.floor(machines + _WHOLE))
                if share.max() <= _WHOLE:
                    whole = np.round(np.where(once, 1.0, machines)).astype(np.int64)
                    bought = [(number,) for number in np.repeat(np.arange(len(whole)), whole).tolist()]
                    if (self._counted @ whole <= self._limit).all() and self._may_fit(bought):
                        self._decided(bought, SOON)
                    break
                chosen = int(np.where(share > _WHOLE, share * weight, 0.0).argmax())
                least[chosen] = np.ceil(machines[chosen])
                program.bounded(least.copy(), high)
                solved = program.solve()
                self.work += PROGRAM // 4
            program.bounded(low, high)

    def _machines(self, combination: NDArray[np.int64]) -> list[Alike]:
        """Return the machines of a combination; nodes are always there."""
        bought = np.repeat(np.arange(len(combination)), combination).tolist()
        return [*(self._bought[number] for number in bought), *self._nodes]

    def _may_fit(self, machines: Sequence[Alike]) -> bool:
        """Return whether pods may fit on machines, by what is quick to ask; if they do, that is the plan."""
        self.work += PROGRAM
        value = shortfall(self._given, self._patterns.cap, machines, self._first)
        if value is not None:
            self._require(value, self._patterns.most_worth(value))
            return False
        return self._exchanged(machines, _EXCHANGES)

    def _exchanged(self, machines: Sequence[Alike], rounds: int) -> bool:
        """Return whether pods may fit on machines; where they are found to by exchanges, that is the plan."""
        given, cap = self._given, self._patterns.cap
        shares, possible, work = large_on_machines(given, machines)
        self.work += work
        found, tried = exchanged(given, cap, shares, self._rng, rounds) if shares is not None else (None, 0)
        numbers = (
            shares.machines if shares is not None else [number for alike in machines for number in alike]
        )
        if found is None and possible and not tried and len(numbers) == len(machines):
            tried = TRIALS * len(machines) * sum(given.count) // AT_ONCE
            found = packed_at_random(given, cap, np.array(numbers), self._rng)
        self.work += tried
        if found is not None:
            self.best, self._solved = found.cost, found
        return possible and found is None

    def _cost(self, machines: Sequence[Alike]) -> float:
        return float(self._patterns.price[[alike[0] for alike in machines]].sum())

    def _decide_open(self, limit: int) -> None:
        """Find out whether the pods fit on the cheapest machines of which that is not known yet."""
        for machines in sorted(self._open, key=self._cost):
            if self._is_better(self._cost(machines)):
                if self._open[machines] <= SOON and not self._exchanged(machines, _MORE_EXCHANGES):
                    del self._open[machines]
                elif not self._decided(machines, limit - self.work):
                    break

    def _decided(self, machines: Sequence[Alike], limit: int) -> bool:
        """Return whether it is found out if the pods fit on machines; if they do, that is the plan."""
        same = tuple(machines)
        if limit < _LONGER * self._open.get(same, 1):
            return False
        found, work = on_machines(self._given, machines, limit)
        self.work += work
        self._open[same] = limit
        if found is None:
            return False
        del self._open[same]
        if found.patterns:
            self.best, self._solved = found.cost, found
        elif len(self._given.count) <= _FEW_ITEMS:
            self._require_others(machines)
        return True

    def _require_others(self, machines: Sequence[Alike]) -> None:
        """Require what machines lack on which divisible pods fit and whole ones do not, if values show it."""
        program = self._whole_values()
        low, high = program.low, program.high
        most = np.full(len(high), np.inf)
        most[: len(self._given.bins)] = np.bincount(
            [number for alike in machines for number in alike], minlength=len(self._given.bins)
        )
        program.bounded(np.zeros(len(low)), most)
        value = self._generated(program, self._most * _FAR)
        program.bounded(low, high)
        if value is not None and value.cost >= self._most * _FAR:
            self._require_whole(value.value)

    def _whole_values(self) -> ColumnProgram:
        """Return the program that values whole pods; what it says of all plans is required."""
        if self._program is None:
            self._program = ColumnProgram(self._given, self._most, library())
            self._program.begin(self._first)
            solved = self._generated(self._program, self._most)
            if solved is not None:
                self._least = max(self._least, min(solved.cost, self._most))
                self._require_whole(solved.value)
                self._dive(self._program)
        return self._program

    def _generated(self, program: ColumnProgram, enough: float) -> LinearSolution | None:
        before = program.search.work
        program.limit, program.cutoff = before + _VALUES // 2, before + _VALUES
        solved = program.generate(enough)
        self.work += PROGRAM + program.search.work - before
        return solved


def _sets(fits: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    """Return sets of items: those that may use no other machines than the items of one set, or of two."""
    masks = np.unique(fits.T[fits.any(axis=0)], axis=0)
    masks = masks[np.argsort(-masks.sum(axis=1), kind="stable")][:_SETS]
    pairs = [one | other for one, other in combinations(masks[:_PAIRED], 2)]
    joined = [np.ones(len(fits), bool), *masks, *pairs]
    sets = [~(fits & ~mask[:, None]).any(axis=0) for mask in joined]
    return list({some.tobytes(): some for some in sets if some.any()}.values())


def _least_after(rows: NDArray[np.float64], price: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the least that what is needed costs with machines from each position on: ``[row, position]``."""
    rates = np.where(rows > 0, price / np.maximum(rows, _TINY), np.inf)
    rates = np.append(rates, np.full((len(rows), 1), np.inf), axis=1)
    return np.minimum.accumulate(rates[:, ::-1], axis=1)[:, ::-1]


def combined_row(rows: NDArray[np.float64], price: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what follows from all rows together, as one row that requires most; none where there is none."""
    # The dual of the cheapest shares of machines: each row has a value, and no machine is worth more than it
    # costs. What each row needs is 1; so whatever the values are, their mean is needed as well.
    program = LinearProgram(library())
    for _ in rows:
        program.column(-1.0)
    for machine, most in zip(rows.T, price.tolist(), strict=True):
        program.row({int(row): float(machine[row]) for row in np.flatnonzero(machine)}, -np.inf, most)
    solver = program.solver()
    solver.run()
    if (
        solver.getModelStatus() != program.highspy.HighsModelStatus.kOptimal
    ):  # no machine gives what is needed
        return rows[:0]
    value = np.maximum(np.array(solver.getSolution().col_value, np.float64), 0.0)
    return (value @ rows / value.sum())[None] if value.sum() > 0 else rows[:0]


def _needed_rows(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rows that no other one implies: a machine that gives less of all that is needed."""
    order = np.argsort(rows.sum(axis=1), kind="stable")
    kept: list[int] = []
    for row in order.tolist():
        if not (rows[kept] <= rows[row]).all(axis=1).any():
            kept.append(row)
    return rows[sorted(kept)]
