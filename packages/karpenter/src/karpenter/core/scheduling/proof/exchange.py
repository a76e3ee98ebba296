"""
Exchanges pods between given machines until none holds more than its room.

It begins with pods on machines some of which hold too much, several such assignments in one array. In each
round one machine that holds too much gives a pod to another machine, or swaps it for one of another machine,
whichever leaves the least beyond all room, even if that is more than before; what was moved does not return
for some rounds (tabu search: F. Glover, 1989). Finds room where there is some; never says that there is none.

Works on a `PatternProblem`; knows nothing of prices, labels or topology. Random numbers are drawn by the
caller's generator and work is counted, so that a decision can be made again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karpenter.core.scheduling.price.whole import PatternProblem

STARTS: Final = 8
"""Assignments of pods that are improved at once."""

_STAYS: Final = 8
"""Rounds in which a pod that was moved does not return, and up to as many more."""

_ROUND: Final = 60
_PAIRS: Final = 150
"""Steps that a round counts as, and pairs of pods that count as one more."""

_TIES: Final = 1e-4
"""The share of what is beyond all room by which exchanges are told apart at random."""

_WHOLE: Final = 1e-9
_FITS: Final = 1e-11


def rounded(
    shares: NDArray[np.float64], count: NDArray[np.int64], cap: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """
    Return whole pods on machines near given shares, several times at random: ``holds[start, machine, item]``.

    A machine that has more of a pod gets it more often. ``cap[machine, item]`` is how many pods it may hold.
    """
    whole = np.floor(shares + _WHOLE).astype(np.int64)
    holds = np.repeat(whole[None], STARTS, axis=0)
    for item in np.flatnonzero(count):
        left = int(count[item] - whole[:, item].sum())
        part = np.maximum(shares[:, item] - whole[:, item], 0.0)
        for mine in holds[:, :, item]:
            # Drawn without putting back, each by its weight (P. Efraimidis and P. Spirakis, 2006).
            drawn = rng.random(len(part)) ** (1.0 / np.maximum(part, _WHOLE))
            order = np.argsort(np.where(mine < cap[:, item], -drawn, np.inf), kind="stable")
            mine[order[:left]] += 1
    return holds


class Exchange:
    """Assignments of pods to machines that are improved until one of them fits."""

    def __init__(
        self,
        given: PatternProblem,
        machines: NDArray[np.int64],
        holds: NDArray[np.int64],
        cap: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> None:
        """Begin with ``holds[start, machine, item]``, the same pods in each start."""
        count = next(iter(holds)).sum(axis=0)
        self._item = item = np.repeat(np.arange(len(count)), count)
        place = np.tile(np.arange(len(machines)), len(count))
        self._where = np.array([np.repeat(place, mine.T.ravel()) for mine in holds])
        room = np.array([given.bins[number].room for number in machines.tolist()], np.float64)
        want = np.array(given.want, np.float64)
        used = np.flatnonzero(want[item].any(axis=0))
        scale = np.maximum(room[:, used].sum(axis=0), 1.0)
        self._size = want[item][:, used] / scale
        self._cap = cap[machines]
        self._may = self._cap[:, item] > 0
        self._few = (self._cap < count).any(axis=0)[item]
        """Pods of which a machine may be able to hold too many for another reason than its room."""

        self._every = np.arange(len(holds))
        self._holds = holds.copy()
        self._beyond = np.einsum("kmi,ir->kmr", holds, want[:, used] / scale) - room[:, used] / scale
        """What each machine holds beyond its room."""

        self._until = np.zeros((len(holds), len(item), len(machines)), np.int64)
        """The round until which a pod does not go to a machine."""

        self._rng = rng
        self.work = 0

    def run(self, rounds: int) -> NDArray[np.int64] | None:
        """Return the pods of each machine when some assignment fits: ``holds[machine, item]``."""
        for now in range(rounds):
            over = np.maximum(self._beyond, 0.0).sum(axis=2)
            total = over.sum(axis=1)
            best = int(total.argmin())
            if total[best] <= _FITS:
                found: NDArray[np.int64] = self._holds[best]
                return found
            self._round(now, over, total)
        return None

    def _round(self, now: int, over: NDArray[np.float64], total: NDArray[np.float64]) -> None:
        every = self._every
        source = (over * self._rng.random(over.shape)).argmax(axis=1)
        on = self._where == source[:, None]
        pods = np.argsort(~on, axis=1, kind="stable")[:, : int(on.sum(axis=1).max())]
        gives = np.take_along_axis(on, pods, axis=1)
        self.work += _ROUND + pods.size * len(self._item) // _PAIRS
        given_away = self._given_away(now, source, pods, over)
        swapped = self._swapped(now, source, pods, over)
        costs = np.concatenate([given_away, swapped], axis=2)
        width = over.shape[1] + len(self._item)  # machines, and pods
        costs = np.where(gives[:, :, None], costs, np.inf).reshape(len(every), len(pods.T) * width)
        costs += self._rng.random(costs.shape) * _TIES * total[:, None]
        chosen = costs.argmin(axis=1)
        good = np.isfinite(costs[every, chosen])
        row, target = np.divmod(chosen, width)
        other = target - over.shape[1]
        to = np.where(other < 0, target, self._where[every, np.maximum(other, 0)])
        pod = pods[every, row]
        self._moved(now, good, pod, source, to)
        self._moved(now, good & (other >= 0), np.maximum(other, 0), to, source)

    def _given_away(
        self, now: int, source: NDArray[np.int64], pods: NDArray[np.int64], over: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return how much more is beyond room when a pod goes to a machine: ``[start, pod, machine]``."""
        every, size = self._every, self._size[pods]
        less = np.maximum(self._beyond[every, source][:, None] - size, 0.0).sum(axis=2)
        more = np.maximum(self._beyond[:, None] + size[:, :, None], 0.0).sum(axis=3)
        allowed = self._may.T[pods] & (self._until[every[:, None], pods] <= now)
        if self._few.any():
            item = self._item[pods]
            allowed &= self._holds.transpose(0, 2, 1)[every[:, None], item] < self._cap.T[item]
        allowed[every, :, source] = False
        costs = less[:, :, None] + more - over[every, source][:, None, None] - over[:, None]
        return np.where(allowed, costs, np.inf)

    def _swapped(
        self, now: int, source: NDArray[np.int64], pods: NDArray[np.int64], over: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return how much more is beyond room when two pods are swapped: ``[start, pod, other]``."""
        every, size, where, item = self._every, self._size, self._where, self._item
        mine = self._beyond[every, source][:, None] - size[pods]
        theirs = np.take_along_axis(self._beyond, where[:, :, None], axis=1) - size
        here = np.maximum(mine[:, :, None] + size, 0.0).sum(axis=3)
        there = np.maximum(theirs[:, None] + size[pods][:, :, None], 0.0).sum(axis=3)
        goes = pods[:, :, None], where[:, None]
        allowed = (where != source[:, None]) & self._may[source]
        allowed &= np.take_along_axis(self._until, source[:, None, None], axis=2)[:, :, 0] <= now
        allowed = allowed[:, None] & self._may[goes[1], goes[0]]
        allowed &= self._until[every[:, None, None], goes[0], goes[1]] <= now
        allowed &= item[pods][:, :, None] != item
        if self._few.any():
            kind = item[pods][:, :, None]
            free = self._holds[every[:, None], source[:, None], item[None]] < self._cap[source][:, item]
            allowed &= free[:, None]
            allowed &= self._holds[every[:, None, None], goes[1], kind] < self._cap[goes[1], kind]
        before = over[every, source][:, None, None] + np.take_along_axis(over, where, axis=1)[:, None]
        return np.where(allowed, here + there - before, np.inf)

    def _moved(
        self,
        now: int,
        good: NDArray[np.bool_],
        pod: NDArray[np.int64],
        source: NDArray[np.int64],
        to: NDArray[np.int64],
    ) -> None:
        """Move a pod of each start from one machine to another."""
        some = self._every[good]
        pod, source, to = pod[good], source[good], to[good]
        self._where[some, pod] = to
        self._beyond[some, source] -= self._size[pod]
        self._beyond[some, to] += self._size[pod]
        self._holds[some, source, self._item[pod]] -= 1
        self._holds[some, to, self._item[pod]] += 1
        self._until[some, pod, source] = now + _STAYS + self._rng.integers(_STAYS, size=len(some))
