"""
Large neighbourhood search: a few pods of a few machines at a time are placed anew, in the best way there is.

Some machines of a plan are chosen at random, and some of their pods; what else they hold stays. For each set
of these pods the cheapest machine is found that holds it beside what stays, on each of the machines and on a
new one, all sets in one array. The cheapest division of the pods over the machines follows from that set by
set (dynamic programming over subsets). At first plans that cost a little more are taken too, later ever less
(simulated annealing: S. Kirkpatrick, C. D. Gelatt and M. P. Vecchi, 1983); the cheapest of all is kept.

Works on a `PatternProblem`; knows nothing of labels or topology. Pods of a split stay in their domains.
Random numbers have a fixed seed and work is counted, so that a decision can be made again.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from karpenter.core.scheduling.price.whole import CHEAPER, Pattern, PatternProblem, Solution

if TYPE_CHECKING:
    from collections.abc import Sequence


_UNITS: Final = 8
"""Pods that are placed anew at once, or groups of equal ones."""

_TOGETHER: Final = (1, 1, 2, 4)
"""Equal pods that are a group."""

_MACHINES: Final = 3
"""Machines that they are taken from."""

_DEARER: Final = 0.005
"""The share of its cost by which a plan may become dearer at first."""

_FAR: Final = 1.02
"""How many times the cheapest plan another one costs that is given up for it."""

_STEP: Final = 500
"""Sets of pods on machines that count as a step."""

_MOVE: Final = 50
"""Steps that a move counts as, however small."""

_ROUNDING: Final = 1e-9
_NONE: Final = -1


class _Drawn(msgspec.Struct, frozen=True):
    """What is placed anew: units, which are pods or groups of equal ones, and what stays."""

    some: NDArray[np.int64]
    """The positions of the machines that the units were on."""

    item: NDArray[np.int64]
    pods: NDArray[np.int64]
    """Item and number of pods of each unit."""

    stays: NDArray[np.int64]
    """``stays[machine, item]``: the other pods of these machines, and none for a new one."""


class _Choices(msgspec.Struct, frozen=True):
    """The cheapest machine for each set of units beside the pods that stay, on each of some machines."""

    price: NDArray[np.float64]
    """``price[choice, set]``; infinite where no machine holds them."""

    machine: NDArray[np.int64]
    """``machine[choice, set]``; `_NONE` where none is needed."""


def repacked(given: PatternProblem, known: Solution, limit: int) -> Solution:
    """Return a plan that costs less than a known one, or that one, after `limit` steps or a few more."""
    patterns = Repacking(given, known.patterns).run(limit)
    cost = sum(each.price for each in patterns)
    return Solution(cost, patterns, known.divided) if cost < known.cost * CHEAPER else known


class Repacking:
    """A plan that is being improved."""

    def __init__(self, given: PatternProblem, patterns: Sequence[Pattern]) -> None:
        self._want = np.array(given.want, np.int64)
        self._used = np.flatnonzero(self._want.any(axis=0)).tolist()
        self._room = np.array([each.room for each in given.bins], np.int64)
        self._price = np.array([each.price for each in given.bins], np.float64)
        self._once = np.array([each.once for each in given.bins], bool)
        self._barred = np.ones((len(given.bins), len(given.count)), bool)
        for number, each in enumerate(given.bins):
            self._barred[number, list(each.items)] = False
        self._cap = np.array(given.cap, np.int64)
        self._apart = self._cap < np.array(given.count)
        bought = np.flatnonzero(~self._once)
        self._bought = bought[np.argsort(self._price[bought], kind="stable")]
        self._counted = given.counted
        self._limit = np.array([limit for _, limit in given.limits])
        self._machines = np.array([each.bin for each in patterns], np.int64)
        self._holds = np.array([each.holds for each in patterns], np.int64)
        self._rng = np.random.default_rng(0)
        self.work = 0

    @property
    def cost(self) -> float:
        return float(self._price[self._machines].sum())

    def run(self, limit: int) -> tuple[Pattern, ...]:
        """Return the machines of the cheapest plan that is found in so many steps."""
        best, kept = self.cost, (self._machines, self._holds)
        while self.work < limit and len(self._machines) > 1:
            self._move(_DEARER * best * (1 - self.work / limit))
            cost = self.cost
            if cost < best - _ROUNDING:
                best, kept = cost, (self._machines, self._holds)
            elif cost > best * _FAR:
                self._machines, self._holds = kept
        return tuple(
            Pattern(tuple(holds), float(self._price[number]), number)
            for number, holds in zip(kept[0].tolist(), kept[1].tolist(), strict=True)
        )

    def _move(self, spare: float) -> None:
        """Place some pods anew, unless that makes the plan dearer by more than `spare`."""
        drawn = self._drawn()
        most = float(self._price[self._machines[drawn.some]].sum()) + spare
        choices = self._choices(drawn, most)
        sets = self._divided(choices.price, len(drawn.pods), most, spare)
        if sets is None:
            return
        holds = drawn.stays.copy()
        for row, chosen in zip(holds, sets, strict=True):
            mine = _members(len(drawn.pods))[chosen]
            np.add.at(row, drawn.item[mine], drawn.pods[mine])
        bought = choices.machine[np.arange(len(sets)), sets]
        machines = np.concatenate([np.delete(self._machines, drawn.some), bought[bought >= 0]])
        if (self._counted @ np.bincount(machines, minlength=len(self._price)) <= self._limit).all():
            self._machines = machines
            self._holds = np.concatenate([np.delete(self._holds, drawn.some, axis=0), holds[bought >= 0]])

    def _drawn(self) -> _Drawn:
        """Return some pods of some machines, all at random."""
        some = self._rng.permutation(len(self._machines))[:_MACHINES]
        holds, size = self._holds[some], int(self._rng.choice(_TOGETHER))
        times = -(-holds.ravel() // size)
        where = np.repeat(np.arange(holds.size), times)
        pods = np.minimum(holds.ravel()[where] - size * _numbered(times), size)
        chosen = self._rng.permutation(len(where))[:_UNITS]
        where, pods = where[chosen], pods[chosen]
        stays = np.concatenate([holds, np.zeros_like(holds[:1])])
        np.subtract.at(stays.ravel(), where, pods)
        return _Drawn(some, where % holds.shape[1], pods, stays)

    def _choices(self, drawn: _Drawn, most: float) -> _Choices:
        """Return the cheapest machines for each set of units beside what stays, up to a price."""
        some, stays = self._machines[drawn.some], drawn.stays
        nodes = self._once[some]
        bought = self._bought[: np.searchsorted(self._price[self._bought], most, side="right")]
        machines = np.concatenate([some[nodes], bought])
        # What stays on a node stays there; what stays on a machine may go to any that is bought.
        other = np.where(nodes[:, None], machines != some[:, None], self._once[machines])
        barred = np.concatenate([other, self._once[machines][None]])
        barred |= (stays > 0) @ self._barred[machines].T
        member = _members(len(drawn.pods))
        self.work += _MOVE + barred.size * len(member) // _STEP
        refused = self._barred[machines][:, drawn.item] @ (1 << np.arange(len(drawn.pods)))
        fits = ~barred[:, :, None] & ((refused[:, None] & np.arange(len(member))) == 0)
        for resource in self._used:
            room = self._room[machines, resource] - (stays @ self._want[:, resource])[:, None]
            fits &= member @ (self._want[drawn.item, resource] * drawn.pods) <= room[:, :, None]
        for item in set(drawn.item[self._apart[drawn.item]].tolist()):
            equal = member @ np.where(drawn.item == item, drawn.pods, 0)
            fits &= (stays[:, item, None] + equal <= self._cap[item])[:, None]
        first = fits.argmax(axis=1)
        found = np.take_along_axis(fits, first[:, None], axis=1)[:, 0]
        price, machine = np.where(found, self._price[machines][first], np.inf), machines[first]
        empty = ~np.append(nodes, False) & ~stays.any(axis=1)
        price[empty, 0], machine[empty, 0] = 0.0, _NONE
        return _Choices(price, machine)

    def _divided(self, price: NDArray[np.float64], count: int, most: float, spare: float) -> list[int] | None:
        """Return the units of each machine in a division that costs little; None if all cost too much."""
        whole, part, start = _parts(count)
        costs = [price[0]]
        for row in price[1:-1]:
            self.work += len(whole) // _STEP
            costs.append(np.minimum.reduceat(costs[-1][whole ^ part] + row[part], start))
        total = costs[-1][::-1] + price[-1]  # the sets in reverse are those without the pods of each
        low = float(total.min())
        if low > most:
            return None
        good = np.flatnonzero(total <= min(low + spare * self._rng.random(), most) + _ROUNDING)
        found = [int(good[self._rng.integers(len(good))])]
        left = (1 << count) - 1 - found[0]
        for before, row in zip(costs[-2::-1], price[-2:0:-1], strict=True):
            mine = part[whole == left]
            found.append(int(mine[(before[left ^ mine] + row[mine]).argmin()]))
            left ^= found[-1]
        return [left, *reversed(found)]


def _numbered(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0, 1, 2 and so on, so many times for each."""
    return np.arange(int(times.sum())) - np.repeat(np.cumsum(times) - times, times)


@cache
def _members(count: int) -> NDArray[np.bool_]:
    """Return which of some pods each set of them has: ``members[set, pod]``."""
    return (np.arange(1 << count)[:, None] >> np.arange(count) & 1).astype(bool)


@cache
def _parts(count: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return every set of some pods with every part of it, set by set, and where each set begins."""
    whole = part = np.zeros(1, np.int64)
    for pod in (1 << np.arange(count)).tolist():
        whole = np.concatenate([whole, whole | pod, whole | pod])
        part = np.concatenate([part, part, part | pod])
    order = np.argsort(whole, kind="stable")
    return whole[order], part[order], np.searchsorted(whole[order], np.arange(1 << count))
