"""
The cheapest machines that hold whole pods, with proof: combinations of machines are listed and tried.

A combination says how many of each machine are bought. Few combinations are both cheap enough and large
enough, so they can be listed; for each, a linear program says whether divisible pods fit, and pods that are
placed in random orders or an integer program say whether whole ones do. Works on a `PatternProblem`; knows
nothing of labels or topology. Needs the optional library ``highspy``.
"""

from __future__ import annotations

from itertools import combinations
from operator import mul
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from karpenter.core.scheduling.price.columns import (
    ColumnProgram,
    Pattern,
    PatternSearch,
    mixes,
    replaceable_pairs,
    served_rows,
)
from karpenter.core.scheduling.price.divided import worth_of_pods
from karpenter.core.scheduling.price.linear import LinearProgram, library

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from karpenter.core.scheduling.price.columns import LinearSolution, PatternProblem

TOLERANCE: Final = 1e-6
"""Prices closer than this share of each other are equal; the integer program is not more exact."""

CHEAPER: Final = 1 - TOLERANCE
_BRANCHES: Final = 50
_ROUNDS: Final = 14
_ROUNDS_OF_FEW: Final = 6000
_COLUMNS: Final = 220
"""Pods times machines up to which an integer program puts the pods on the machines."""

_ITERATION: Final = 50
"""Steps that an iteration of an integer program counts as."""

_PROGRAM: Final = 1200
"""Steps that a linear program counts as."""

_TRIALS: Final = 90
"""Orders in which pods are placed on some machines."""

_AT_ONCE: Final = 6
"""Pods that are placed in one step, as all orders are tried in one array."""

_NOISE: Final = 0.12
_EARLIER: Final = (0.0, 0.3, 2.0)
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

_SETS: Final = 60
"""Sets of machines whose resources are counted."""

_PAIRED: Final = 10
"""Sets of machines, the largest, of which also any two together are counted."""

_LEAST_WORTH: Final = 1e-3
"""What a pod is worth at least, as a share of what the dearest one is."""

_SHORT: Final = 1e-6
"""The share of all pods by worth that is left over where they do not fit."""

_SAFE: Final = 1 - 1e-9
_ABOVE: Final = 1 + 1e-9
"""Make up for rounding errors."""

_WHOLE: Final = 1e-6
_EQUAL: Final = 1e-12
_TINY: Final = 1e-300


class Solution(msgspec.Struct, frozen=True):
    """Whole pods on whole machines."""

    cost: float
    patterns: tuple[Pattern, ...]
    """The pods of each machine."""

    divided: tuple[tuple[int, ...], ...] = ()
    """Pods in each domain, per split."""


_NOTHING: Final = Solution(np.inf, ())


def on_machines(given: PatternProblem, machines: Sequence[int]) -> tuple[Solution | None, int]:
    """
    Return whole pods on some machines, each a number of a bin, and how many steps that took.

    The solution is without machines when the pods do not fit; None means that it was not found out.
    """
    program = LinearProgram(library())
    rows: list[dict[int, float]] = [{} for _ in given.count]
    held: list[dict[int, int]] = []
    for number in machines:
        each, mine = given.bins[number], {}
        for item in each.items:
            most = min(
                given.count[item],
                given.cap[item],
                *(room // want for room, want in zip(each.room, given.want[item], strict=True) if want),
            )
            if most > 0:
                mine[item] = program.column(0, most)
                rows[item][mine[item]] = 1.0
        for resource, room in enumerate(each.room):
            # Amounts are counted in machines: bytes and cores differ by nine orders of magnitude.
            taken = {column: given.want[item][resource] / max(room, 1) for item, column in mine.items()}
            program.row({column: share for column, share in taken.items() if share}, -np.inf, 1.0 + _EQUAL)
        held.append(mine)
    if program.columns > _COLUMNS:
        return None, 0
    placed = served_rows(program, given, rows)
    solver = program.solver(whole=True)
    solver.setOptionValue("mip_max_nodes", _BRANCHES)
    solver.setOptionValue("mip_max_improving_sols", 1)
    rounds = max(_ROUNDS, _ROUNDS_OF_FEW // program.columns)
    _end_soon(solver, program.highspy.cb.HighsCallbackType.kCallbackMipInterrupt, rounds)
    solver.run()
    work = _PROGRAM + _ITERATION * max(0, int(solver.getInfo().simplex_iteration_count))
    known = program.highspy.HighsModelStatus
    if solver.getModelStatus() == known.kInfeasible:
        return _NOTHING, work
    if solver.getInfo().primal_solution_status != program.highspy.SolutionStatus.kSolutionStatusFeasible:
        return None, work
    values = [round(value) for value in solver.getSolution().col_value]
    return _as_solution(given, machines, held, placed, values), work


def _as_solution(
    given: PatternProblem,
    machines: Sequence[int],
    held: Sequence[Mapping[int, int]],
    placed: Sequence[Sequence[int]],
    values: Sequence[int],
) -> Solution | None:
    """Return the answer of an integer program; None if it is wrong by more than rounding errors."""
    holds = [[0] * len(given.count) for _ in machines]
    for row, mine in zip(holds, held, strict=True):
        for item, column in mine.items():
            row[item] = values[column]
    patterns = tuple(
        Pattern(tuple(row), given.bins[number].price, number)
        for row, number in zip(holds, machines, strict=True)
    )
    if any(not _fits(given, each) for each in patterns):  # rounding errors of the library
        return None
    divided = tuple(tuple(values[column] for column in row) for row in placed)
    return Solution(sum(each.price for each in patterns), patterns, divided)


def _end_soon(solver: Any, interrupt: Any, most: int) -> None:
    """End an integer program after so many rounds: what is not found out soon takes very long."""
    rounds = iter(range(most))

    def ended(*told: Any) -> None:  # kind, message, what is known, what is wanted, and our own data
        if next(rounds, None) is None:
            told[3].user_interrupt = True

    solver.setCallback(ended, None)
    solver.startCallback(interrupt)


def _fits(given: PatternProblem, pattern: Pattern) -> bool:
    room = given.bins[pattern.bin].room
    return all(
        sum(map(mul, pattern.holds, column)) <= has
        for column, has in zip(zip(*given.want, strict=True), room, strict=True)
    )


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
        bought = np.flatnonzero(~self._patterns.once)
        # The dearest first: what is left to buy is soon more than a plan may cost.
        self._bought = bought[np.argsort(-self._patterns.price[bought], kind="stable")]
        self._price = self._patterns.price[self._bought]
        self._rivals = replaceable_pairs(given, ~self._patterns.once)[np.ix_(self._bought, self._bought)]
        self._counted = np.array([weights for weights, _ in given.limits]).reshape(-1, len(given.bins))
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
        self._unknown = np.inf
        """The cost of the cheapest machines of which it was not found out whether the pods fit."""

        self._given_up: set[bytes] = set()
        self._sought = False
        self._step = _STEP
        self.work = 0
        self._begin()
        self._least = self._required()
        """All cheaper combinations are tried."""

    def _required(self) -> float:
        """Return the least that all that is required costs, at most the best plan."""
        rows = np.array(self._rows).reshape(-1, len(self._price))
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
            users = (cap[:, some] > 0).any(axis=1)
            for resource in np.flatnonzero(want[some].any(axis=0)).tolist():
                taken = np.where(some, want[:, resource], 0.0)
                self._require(taken, np.where(users, np.minimum(room[:, resource], cap @ taken), 0.0))
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
            self._rows.append(upper[self._bought] / (need * _SAFE))
            self._many.append(int(np.count_nonzero(value)) > _OF_MANY)

    def _require_whole(self, value: NDArray[np.float64]) -> None:
        """Require machines for whole pods of some values."""
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
        least = min(self._least, self._unknown)
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
        counted, pods, complete = self._counted[:, self._bought].T, sum(self._given.count), most
        end = self.work + limit
        cost, left, room = np.zeros(1), np.ones((1, len(rows))), self._limit[None] * _ABOVE
        lower = cost
        blocked = np.zeros((1, len(self._price)), bool)
        steps: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        for position, price in enumerate(self._price.tolist()):
            once = self._rivals[position, position]
            times = np.minimum((most - cost) / max(price, _TINY), 1 if once else pods)
            with np.errstate(divide="ignore", invalid="ignore"):
                fits = np.where(counted[position] > 0, room / counted[position], np.inf)
            times = np.minimum(times, np.maximum(fits.min(axis=1, initial=np.inf), 0.0))
            times = np.where(blocked[:, position], 0, np.floor(times)).astype(np.int64) + 1
            over = np.cumsum(times) > max(_WIDTH * pods, end - self.work)
            if over.any():  # the states are in the order of their bounds then
                complete, times = min(complete, float(lower[over][0])), np.where(over, 0, times)
            source = np.repeat(np.arange(len(times)), times)
            number = np.arange(len(source)) - (np.cumsum(times) - times)[source]
            self.work += len(source)
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
            blocked = blocked[source] | ((number > 0)[:, None] & self._rivals[position])
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
            self.work += _PROGRAM
            rows = np.array(self._rows).reshape(-1, len(self._price))
            rows = _needed_rows(rows / np.where(self._many, slack, 1.0)[:, None])
            self._reduced[known] = np.concatenate([rows, combined_row(rows, self._price)])
        return self._reduced[known]

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
                if self._fits_divided(self._machines(listed[number])):
                    undecided.append(number)
                possible &= self._obeys(listed, known)
        for number in undecided:
            if self._is_better(cost[number]) and possible[number]:
                if self.work >= limit:
                    return min(most, float(cost[number]))
                known = len(self._rows)
                if not self._decided(self._machines(listed[number])):
                    self._unknown = min(self._unknown, float(cost[number]))
                possible &= self._obeys(listed, known)
        return most

    def _obeys(self, listed: NDArray[np.int64], known: int) -> NDArray[np.bool_]:
        """Return which combinations obey all rows but the first ones."""
        rows = np.array(self._rows[known:]).reshape(-1, len(self._price))
        return np.asarray((listed @ rows.T >= 1).all(axis=1))

    def _seek(self, limit: int) -> None:
        """Look for a better plan: machines with room to spare are few, and pods fit on them easily."""
        if len(self._given.count) <= _FEW_ITEMS:
            self._whole_values()
        for slack in _SLACK:
            listed, _, _ = self._combinations(self.best * CHEAPER, limit // len(_SLACK), slack)
            before, end = self.best, self.work + limit // len(_SLACK)
            for machines in map(self._machines, listed[:_FIRST]):
                if self._fits_divided(machines):
                    self._decided(machines)
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
                    if (self._counted @ whole <= self._limit).all() and self._fits_divided(whole):
                        self._decided(whole)
                    break
                chosen = int(np.where(share > _WHOLE, share * weight, 0.0).argmax())
                least[chosen] = np.ceil(machines[chosen])
                program.bounded(least.copy(), high)
                solved = program.solve()
                self.work += _PROGRAM // 4
            program.bounded(low, high)

    def _machines(self, combination: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many of each machine a combination has; nodes are always there."""
        found = np.zeros(len(self._given.bins), np.int64)
        found[self._bought], found[self._patterns.once] = combination, 1
        return found

    def _fits_divided(self, machines: NDArray[np.int64]) -> bool:
        """Return whether divisible pods fit on machines; where whole ones do easily, that is the plan."""
        self.work += _PROGRAM
        value = shortfall(self._given, self._patterns.cap, machines, self._first)
        if value is not None:
            self._require(value, self._patterns.most_worth(value))
            return False
        numbers = np.repeat(np.arange(len(machines)), machines)
        self.work += _TRIALS * len(numbers) * sum(self._given.count) // _AT_ONCE
        found = packed_at_random(self._given, self._patterns.cap, numbers, self._rng)
        if found is not None:
            self.best, self._solved = found.cost, found
        return found is None

    def _decided(self, machines: NDArray[np.int64]) -> bool:
        """Return whether it is found out if the pods fit on machines; if they do, that is the plan."""
        if machines.tobytes() in self._given_up:
            return False
        found, work = on_machines(self._given, np.repeat(np.arange(len(machines)), machines).tolist())
        self.work += work
        if found is None:
            self._given_up.add(machines.tobytes())
            return False
        if found.patterns:
            self.best, self._solved = found.cost, found
        elif len(self._given.count) <= _FEW_ITEMS:
            self._require_others(machines)
        return True

    def _require_others(self, machines: NDArray[np.int64]) -> None:
        """Require what machines lack on which divisible pods fit and whole ones do not, if values show it."""
        program = self._whole_values()
        low, high = program.low, program.high
        most = np.full(len(high), np.inf)
        most[: len(machines)] = machines
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
        self.work += _PROGRAM + program.search.work - before
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


def shortfall(
    given: PatternProblem, cap: NDArray[np.float64], machines: NDArray[np.int64], worth: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """Return values of pods that are worth more than what fits on machines; None if they fit divided."""
    program = LinearProgram(library())
    # Of what is worth nothing, more than rounding errors would be left over.
    worth = np.maximum(worth / max(float(worth.max()), _TINY), _LEAST_WORTH)
    rows: list[dict[int, float]] = [{program.column(float(value)): 1.0} for value in worth]
    taken: list[tuple[dict[int, float], float]] = []
    for number in np.flatnonzero(machines).tolist():
        count = float(machines[number])
        mine = {
            item: program.column(0, count * cap[number, item])
            for item in np.flatnonzero(cap[number]).tolist()
        }
        for item, column in mine.items():
            rows[item][column] = 1.0
        for resource, room in enumerate(given.bins[number].room):
            shares = {column: given.want[item][resource] / max(room, 1) for item, column in mine.items()}
            taken.append(({column: share for column, share in shares.items() if share}, count))
    served_rows(program, given, rows)
    for row, most in taken:
        program.row(row, -np.inf, most)
    solver = program.solver()
    solver.run()
    solved = solver.getModelStatus() == program.highspy.HighsModelStatus.kOptimal
    lacking = solver.getInfo().objective_function_value
    if not solved or lacking <= _SHORT * float(worth @ np.array(given.count)):
        return None
    return np.maximum(np.array(solver.getSolution().row_dual[: len(worth)], np.float64), 0.0)


def packed_at_random(
    given: PatternProblem, cap: NDArray[np.float64], machines: NDArray[np.int64], rng: np.random.Generator
) -> Solution | None:
    """
    Return whole pods on some machines, placed one after the other in many orders; None if no order does it.

    All orders are tried at once, in arrays, by several rules for the choice of a machine.
    """
    want, room = np.array(given.want, np.float64), np.array([given.bins[each].room for each in machines])
    used = np.flatnonzero(want.any(axis=0))
    scale = 1.0 / np.maximum(room[:, used].sum(axis=0), 1.0)
    size, whole = want[:, used] * scale, room[:, used] * scale
    mix = rng.dirichlet(np.ones(len(used)), _TRIALS)
    first = (mix @ size.T) * np.exp(rng.normal(0.0, _NOISE, (_TRIALS, len(size))))
    # Pods that may use few of the machines come earlier, in some orders much earlier.
    scarce = len(machines) / np.maximum((cap[machines] > 0).sum(axis=0), 1) - 1.0
    first *= 1.0 + scarce * rng.choice(_EARLIER, (_TRIALS, 1))
    counts = _evenly_divided(given, rng)
    pods = np.array(
        [np.repeat(row, mine[row]) for row, mine in zip(np.argsort(-first, axis=1), counts, strict=True)]
    )
    left, may = np.repeat(whole[None], _TRIALS, axis=0), np.repeat(cap[machines][None], _TRIALS, axis=0)
    holds, every, rule = np.zeros(may.shape, np.int64), np.arange(_TRIALS), np.arange(_TRIALS)[:, None] % 3
    for item in pods.T:
        asked = size[item][every]
        after = left[every] - asked[:, None]
        fits = (after >= -_EQUAL).all(axis=2) & (may[every, :, item[every]] > 0)
        share = after / np.maximum(whole, _TINY)
        tight, even = (after * mix[every][:, None]).sum(axis=2), share.max(axis=2) - share.min(axis=2)
        score = np.where(rule[every] == 0, tight, np.where(rule[every] == 1, even, even + share.min(axis=2)))
        chosen = np.where(fits, score, np.inf).argmin(axis=1)
        good = fits[np.arange(len(every)), chosen]
        every, chosen = every[good], chosen[good]
        if not len(every):
            return None
        left[every, chosen] = after[good, chosen]
        may[every, chosen, item[every]] -= 1
        holds[every, chosen, item[every]] += 1
    patterns = tuple(
        Pattern(tuple(row), given.bins[number].price, number)
        for row, number in zip(holds[every[0]].tolist(), machines.tolist(), strict=True)
    )
    if any(not _fits(given, each) for each in patterns):  # rounding errors
        return None
    divided = tuple(tuple(counts[every[0], list(each.items)].tolist()) for each in given.splits)
    return Solution(sum(each.price for each in patterns), patterns, divided)


def _evenly_divided(given: PatternProblem, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return how many pods each item has in each of many orders; those of a split are divided evenly."""
    counts = np.repeat(np.array(given.count)[None], _TRIALS, axis=0)
    for split in given.splits:
        held = np.repeat(np.array(split.already, np.float64)[None], _TRIALS, axis=0)
        held += rng.uniform(0.0, 0.5, held.shape)
        mine = np.zeros(held.shape, np.int64)
        for _ in range(split.count):
            emptiest = (held + mine).argmin(axis=1)
            mine[np.arange(_TRIALS), emptiest] += 1
        counts[:, list(split.items)] = mine
    return counts
