"""
Whether whole pods fit on given machines.

What is cheapest is asked first: a linear program for divisible pods, whose dual values say what the machines
lack; an integer program in which only the largest pods are whole; an exchange of pods between machines that
begins with what that program found; last an integer program in which all pods are whole. The first two can
only refuse machines, the exchange can only accept them, and the last one does both or is ended before.
Works on a `PatternProblem`; knows nothing of prices, labels or topology. Random numbers are drawn by the
caller's generator and work is counted, so that a decision can be made again. Needs the library
``highspy``.
"""

from __future__ import annotations

from collections import Counter
from operator import mul
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from karpenter.core.scheduling.price.linear import LinearProgram, library
from karpenter.core.scheduling.price.whole import Pattern, PatternProblem, Solution
from karpenter.core.scheduling.proof.columns import served_rows
from karpenter.core.scheduling.proof.exchange import Exchange, rounded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


Alike: TypeAlias = tuple[int, ...]
"""Bins with equal room and price that different pods may use: a machine is any one of them."""

PROGRAM: Final = 1200
"""Steps that a linear program counts as."""

_FILLED: Final = 0.7
"""The share of a machine that pods must take at least so that it counts."""

_COLUMNS: Final = 700
"""Pods times machines up to which an integer program puts the pods on the machines."""

SOON: Final = 10_000
"""Steps up to which a program is a short one, which ends sooner if machines must be filled."""

_LARGE: Final = 0.04
"""The share of all room from which on a pod is whole in the first integer program."""

_CHOICE: Final = 8
"""How many times longer a round takes where bins are chosen."""

_LIMIT_OF_LARGE: Final = 10_000
_COLUMNS_OF_LARGE: Final = 1200
"""Pods times machines up to which that one is asked."""

_EXCHANGED: Final = 120
"""Pods up to which they are exchanged between machines."""

TRIALS: Final = 90
"""Orders in which pods are placed on some machines."""

AT_ONCE: Final = 6
"""Pods that are placed in one step, as all orders are tried in one array."""

_NOISE: Final = 0.12
_EARLIER: Final = (0.0, 0.3, 2.0)
_LEAST_WORTH: Final = 1e-3
"""What a pod is worth at least, as a share of what the dearest one is."""

_SHORT: Final = 1e-6
"""The share of all pods by worth that is left over where they do not fit."""

_EQUAL: Final = 1e-12
_TINY: Final = 1e-300


_NOTHING: Final = Solution(np.inf, ())


class Shares(msgspec.Struct, frozen=True):
    """Pods on machines, of which the small ones may be divided."""

    machines: tuple[int, ...]
    """The bin that was chosen for each machine."""

    holds: NDArray[np.float64]
    """``holds[machine, item]``"""

    count: NDArray[np.int64]
    """Whole pods of each item; those of a split are divided over its items."""


def on_machines(given: PatternProblem, machines: Sequence[Alike], limit: int) -> tuple[Solution | None, int]:
    """
    Return whole pods on some machines, and how many steps that took, which are about `limit` at most.

    The solution is without machines when the pods do not fit; None means that it was not found out.
    """
    program = _Assignment(given, machines, 0.0)
    if program.columns > _COLUMNS:
        return None, 0
    if limit <= SOON:
        program.fill(machines)
    fits, work = program.solved(limit)
    if not fits:
        return (None if fits is None else _NOTHING), work
    shares = program.shares()
    return as_solution(given, shares.machines, np.round(shares.holds).astype(np.int64), shares.count), work


def large_on_machines(given: PatternProblem, machines: Sequence[Alike]) -> tuple[Shares | None, bool, int]:
    """
    Return pods on machines, of which the large ones are whole, whether they may fit, and the steps it took.

    Where they do not fit, no whole pods do. Without shares it was not found out.
    """
    program = _Assignment(given, machines, _LARGE)
    if program.columns > _COLUMNS_OF_LARGE:
        return None, True, 0
    fits, work = program.solved(_LIMIT_OF_LARGE)
    return (program.shares() if fits else None), fits is not False, work


def exchanged(
    given: PatternProblem, cap: NDArray[np.float64], shares: Shares, rng: np.random.Generator, rounds: int
) -> tuple[Solution | None, int]:
    """Return whole pods on machines near given shares, None where none are found, and the steps it took."""
    if shares.count.sum() > _EXCHANGED:
        return None, 0
    mine = cap[list(shares.machines)]
    begin = rounded(shares.holds, shares.count, mine, rng)
    exchange = Exchange(given, np.array(shares.machines), begin, cap, rng)
    holds = exchange.run(rounds)
    if holds is None or (holds > mine).any():
        return None, exchange.work
    return as_solution(given, shares.machines, holds, shares.count), exchange.work


class _Assignment:
    """The integer program that puts pods on machines; pods below a share of all room may be divided."""

    def __init__(self, given: PatternProblem, machines: Sequence[Alike], least: float) -> None:
        self._given, self._machines = given, machines
        self._program = LinearProgram(library())
        self._rows: list[dict[int, float]] = [{} for _ in given.count]
        all_room = np.maximum(np.sum([given.bins[alike[0]].room for alike in machines], axis=0), 1.0)
        self._large = (np.array(given.want) / all_room).max(axis=1) >= least
        self._whole: list[int] = []
        self._held = [self._machine(alike) for alike in machines]
        self._chosen = [self._choice(alike, mine) for alike, mine in zip(machines, self._held, strict=True)]
        self.columns = self._program.columns
        self._placed = served_rows(self._program, given, self._rows)
        self._whole += [column for row in self._placed for column in row]
        self._values: list[float] = []

    def _machine(self, alike: Alike) -> dict[int, int]:
        """Add a machine; return the column of each item that one of its bins takes."""
        given, program, mine = self._given, self._program, dict[int, int]()
        room = given.bins[alike[0]].room
        for item in sorted({item for number in alike for item in given.bins[number].items}):
            most = min(
                given.count[item],
                given.cap[item],
                *(has // want for has, want in zip(room, given.want[item], strict=True) if want),
            )
            if most > 0:
                mine[item] = program.column(0, most)
                self._rows[item][mine[item]] = 1.0
                self._whole += [mine[item]] if self._large[item] else []
        for resource in range(len(room)):
            program.row(self._shares_of(mine, resource, room[resource]), -np.inf, 1.0 + _EQUAL)
        return mine

    def _shares_of(self, mine: Mapping[int, int], resource: int, room: int) -> dict[int, float]:
        """Return the share of a machine that a pod in each column takes of a resource."""
        # Amounts are counted in machines: bytes and cores differ by nine orders of magnitude.
        taken = {column: self._given.want[item][resource] / max(room, 1) for item, column in mine.items()}
        return {column: share for column, share in taken.items() if share}

    def fill(self, machines: Sequence[Alike]) -> None:
        """Require that no machine leaves more room than all machines together have beyond what is asked."""
        given, rooms = self._given, np.array([self._given.bins[alike[0]].room for alike in machines])
        spare = rooms.sum(axis=0) - np.array(given.count) @ np.array(given.want)
        for room, mine in zip(rooms.tolist(), self._held, strict=True) if not given.splits else ():
            for resource, least in enumerate((room - spare).tolist()):
                if room[resource] and least > room[resource] * _FILLED:
                    shares = self._shares_of(mine, resource, room[resource])
                    self._program.row(shares, least / room[resource] - _EQUAL, np.inf)

    def _choice(self, alike: Alike, mine: Mapping[int, int]) -> list[int]:
        """Choose one of the bins of a machine: it holds no pods that may not use that bin."""
        program = self._program
        if len(alike) == 1:
            return []
        chosen = [program.column(0, 1.0) for _ in alike]
        self._whole += chosen
        program.row(dict.fromkeys(chosen, 1.0), 1.0, 1.0)
        for number, bin_ in zip(alike, chosen, strict=True):
            room = self._given.bins[number].room
            other = {item: mine[item] for item in mine.keys() - set(self._given.bins[number].items)}
            for resource in range(len(room)) if other else ():
                program.row(
                    {**self._shares_of(other, resource, room[resource]), bin_: 1.0}, -np.inf, 1.0 + _EQUAL
                )
        return chosen

    def solved(self, limit: int) -> tuple[bool | None, int]:
        """Return whether the pods fit, None if the program was ended before that, and the steps it took."""
        program, highspy = self._program, self._program.highspy
        if not program.columns:  # of an empty program the library says nothing
            return not any(self._given.count), PROGRAM
        solver = program.solver()
        for column in self._whole:
            solver.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        solver.setOptionValue("mip_heuristic_effort", 0.0)  # an exchange finds more, and sooner
        size, choice = program.columns + program.rows, any(self._chosen)
        if limit > SOON:  # later rounds take less time than the first ones
            size = (size * _CHOICE if choice else size) // 2 + 1
        rounds = _end_soon(solver, highspy.cb.HighsCallbackType.kCallbackMipInterrupt, limit // size)
        solver.run()
        work = PROGRAM + len(rounds) * size * (_CHOICE if choice and limit <= SOON else 1)
        if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            return False, work
        feasible = highspy.SolutionStatus.kSolutionStatusFeasible
        if solver.getInfo().primal_solution_status != feasible:
            return None, work
        self._values = list(solver.getSolution().col_value)
        return True, work

    def shares(self) -> Shares:
        holds, count = np.zeros((len(self._held), len(self._given.count))), np.array(self._given.count)
        for row, mine in zip(holds, self._held, strict=True):
            for item, column in mine.items():
                row[item] = self._values[column]
        for split, columns in zip(self._given.splits, self._placed, strict=True):
            count[list(split.items)] = [round(self._values[column]) for column in columns]
        for number in range(len(holds)):  # the program may serve a pod more than once
            holds[number] -= np.minimum(holds[number], np.maximum(holds.sum(axis=0) - count, 0.0))
        machines = tuple(
            alike[int(np.argmax([self._values[column] for column in chosen]))] if chosen else alike[0]
            for alike, chosen in zip(self._machines, self._chosen, strict=True)
        )
        return Shares(machines, holds, count)


def _end_soon(solver: Any, interrupt: Any, most: int) -> list[int]:
    """End an integer program after so many rounds, which are counted in what is returned."""
    rounds: list[int] = []

    def ended(*told: Any) -> None:  # kind, message, what is known, what is wanted, and our own data
        rounds.append(len(rounds))
        if len(rounds) > most:
            told[3].user_interrupt = True

    solver.setCallback(ended, None)
    solver.startCallback(interrupt)
    return rounds


def as_solution(
    given: PatternProblem, machines: Sequence[int], holds: NDArray[np.int64], count: NDArray[np.int64]
) -> Solution | None:
    """Return pods on machines as a solution; None if they exceed room by rounding errors."""
    patterns = tuple(
        Pattern(tuple(row), given.bins[number].price, number)
        for row, number in zip(holds.tolist(), machines, strict=True)
    )
    if any(not _fits(given, each) for each in patterns):
        return None
    divided = tuple(tuple(count[list(each.items)].tolist()) for each in given.splits)
    return Solution(sum(each.price for each in patterns), patterns, divided)


def _fits(given: PatternProblem, pattern: Pattern) -> bool:
    room = given.bins[pattern.bin].room
    return all(
        sum(map(mul, pattern.holds, column)) <= has
        for column, has in zip(zip(*given.want, strict=True), room, strict=True)
    )


def shortfall(
    given: PatternProblem, cap: NDArray[np.float64], machines: Sequence[Alike], worth: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """Return values of pods that are worth more than what fits on machines; None if they fit divided."""
    program = LinearProgram(library())
    # Of what is worth nothing, more than rounding errors would be left over.
    worth = np.maximum(worth / max(float(worth.max()), _TINY), _LEAST_WORTH)
    rows: list[dict[int, float]] = [{program.column(float(value)): 1.0} for value in worth]
    taken: list[tuple[dict[int, float], float]] = []
    parts: list[tuple[dict[int, float], float]] = []
    for alike, count in Counter(machines).items():
        # Machines of which each may be one of several bins are divided over these.
        part = {number: program.column(0, count) for number in alike} if len(alike) > 1 else {}
        parts += [(dict.fromkeys(part.values(), 1.0), float(count))] if part else []
        for number in alike:
            mine = {
                item: program.column(0, count * cap[number, item])
                for item in np.flatnonzero(cap[number]).tolist()
            }
            for item, column in mine.items():
                rows[item][column] = 1.0
                if part and cap[number, item] < given.count[item]:
                    taken.append(({column: 1.0, part[number]: -float(cap[number, item])}, 0.0))
            for resource, room in enumerate(given.bins[number].room):
                shares = {column: given.want[item][resource] / max(room, 1) for item, column in mine.items()}
                shares = {column: share for column, share in shares.items() if share}
                taken.append(({**shares, part[number]: -1.0}, 0.0) if part else (shares, float(count)))
    served_rows(program, given, rows)
    for row, most in [*taken, *parts]:
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
    mix = rng.dirichlet(np.ones(len(used)), TRIALS)
    first = (mix @ size.T) * np.exp(rng.normal(0.0, _NOISE, (TRIALS, len(size))))
    # Pods that may use few of the machines come earlier, in some orders much earlier.
    scarce = len(machines) / np.maximum((cap[machines] > 0).sum(axis=0), 1) - 1.0
    first *= 1.0 + scarce * rng.choice(_EARLIER, (TRIALS, 1))
    counts = _evenly_divided(given, rng)
    pods = np.array(
        [np.repeat(row, mine[row]) for row, mine in zip(np.argsort(-first, axis=1), counts, strict=True)]
    )
    left, may = np.repeat(whole[None], TRIALS, axis=0), np.repeat(cap[machines][None], TRIALS, axis=0)
    holds, every, rule = np.zeros(may.shape, np.int64), np.arange(TRIALS), np.arange(TRIALS)[:, None] % 3
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
    first_to_fit = int(every[0])
    patterns = tuple(
        Pattern(tuple(row), given.bins[number].price, number)
        for row, number in zip(holds[first_to_fit].tolist(), machines.tolist(), strict=True)
    )
    if any(not _fits(given, each) for each in patterns):  # rounding errors
        return None
    divided = tuple(tuple(counts[first_to_fit, list(each.items)].tolist()) for each in given.splits)
    return Solution(sum(each.price for each in patterns), patterns, divided)


def _evenly_divided(given: PatternProblem, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return how many pods each item has in each of many orders; those of a split are divided evenly."""
    counts = np.repeat(np.array(given.count)[None], TRIALS, axis=0)
    for split in given.splits:
        held = np.repeat(np.array(split.already, np.float64)[None], TRIALS, axis=0)
        held += rng.uniform(0.0, 0.5, held.shape)
        mine = np.zeros(held.shape, np.int64)
        for _ in range(split.count):
            emptiest = (held + mine).argmin(axis=1)
            mine[np.arange(TRIALS), emptiest] += 1
        counts[:, list(split.items)] = mine
    return counts
