"""
From a packing to claims: the machines of a packing are opened, and pods put on them for real.

Where pods of about one size were packed as if all were as large as the largest, there is room
left on every machine: it is filled with pods that were meant for later machines, and those that
end up with nothing are never opened.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.run import Opening

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from karpenter.core.scheduling.market import Market
    from karpenter.core.scheduling.patterns import Packed
    from karpenter.core.scheduling.run import Run
    from karpenter.core.scheduling.states import State
    from karpenter.core.scheduling.templates import Template
    from karpenter.core.scheduling.wishes import Wish

Part = tuple["Wish", Requirements]
"""Pods of one reading, pinned to the domains that the greedy run gave them."""


def counted(rows: Iterable[Sequence[Part]], parts: Counter[Part]) -> NDArray[np.float64]:
    """Return how many pods there are in each row of parts."""
    return np.array([sum(parts[part] for part in row) for row in rows], np.float64)


class Stock:
    """The pods behind each item that have no place yet."""

    def __init__(self, items: Sequence[Sequence[Part]], parts: Counter[Part]) -> None:
        self._left = Counter(parts)
        self._rows = [sorted(row, key=_size) for row in items]
        """The parts of each item, the largest last."""

        self.count = counted(items, parts)

    def take(self, item: int, count: int) -> list[tuple[Part, int]]:
        """Take so many pods of an item, or as many as there are, the largest first."""
        row, found = self._rows[item], []
        while count and row:
            part = row[-1]
            taken = min(count, self._left[part])
            found.append((part, taken))
            self._left[part] -= taken
            self.count[item] -= taken
            count -= taken
            if not self._left[part]:
                row.pop()
        return found

    def put_back(self, item: int, part: Part, count: int) -> None:
        """Return pods that found no place."""
        if not self._left[part]:
            self._rows[item].append(part)
        self._left[part] += count
        self.count[item] += count

    def rest(self) -> Counter[int]:
        """Return what is left, by class number."""
        found: Counter[int] = Counter()
        for (wish, _), count in self._left.items():
            if count:
                found[wish.of.number] += count
        return found


class Realiser:
    """Opens the machines of a packing in a run."""

    def __init__(self, run: Run, template: Template, demand: Market, stock: Stock) -> None:
        self._run = run
        self._template = template
        self._demand = demand
        self._stock = stock

    def realise(self, packed: Packed, worth: NDArray[np.float64]) -> Counter[int]:
        """
        Open the machines, dearest first; return the pods that could not be put on them, by class number.

        `worth` is that of one pod of each item: the most valuable that has room fills a machine up.
        """
        for machine in np.argsort(-packed.price, kind="stable").tolist():
            claim, state = self._load(packed.holds[machine])
            if claim is not None:
                self._fill_up(claim, state, int(packed.machine[machine]), worth)
        return self._stock.rest()

    def _load(self, holds: NDArray[np.float64]) -> tuple[int | None, State]:
        """Open a machine with what it was planned to hold, the largest pods first."""
        load = [
            (item, part, count)
            for item in np.flatnonzero(holds).tolist()
            for part, count in self._stock.take(item, int(holds[item]))
        ]
        load.sort(key=lambda entry: _size(entry[1]), reverse=True)
        claim: int | None = None
        state = self._run.base(self._template)
        for item, part, count in load:
            claim, state = self._put(claim, state, item, part, count)
        return claim, state

    def _put(
        self, claim: int | None, state: State, item: int, part: Part, count: int
    ) -> tuple[int | None, State]:
        run, (wish, pins) = self._run, part
        taken = 0
        reached = _reach(run, state, wish, pins)
        if reached is not None:
            if claim is None and run.may_open(self._template) and run.starts(reached, wish.of.want):
                claim = run.open(Opening(reached))
            if claim is not None:
                taken = run.fill(wish, claim, reached, count)
        if taken < count:
            self._stock.put_back(item, part, count - taken)
        return claim, reached if reached is not None and taken else state

    def _fill_up(self, claim: int, state: State, machine: int, worth: NDArray[np.float64]) -> None:
        """Put more pods on a claim, as long as it stays the machine that was planned."""
        demand, stock = self._demand, self._stock
        open_ = demand.fits[machine].copy()
        while True:
            room = demand.room[machine] - self._run.claims.used[:, claim]
            fits = open_ & (stock.count > 0) & (demand.want <= room).all(axis=1)
            if not fits.any():
                return
            item = int(np.where(fits, worth, -1.0).argmax())
            before = float(stock.count[item])
            asked = demand.want[item] > 0
            most = int((room[asked] / demand.want[item][asked]).min())
            for part, count in stock.take(item, max(1, most)):
                _, state = self._put(claim, state, item, part, count)
            open_[item] = stock.count[item] < before


def _reach(run: Run, state: State, wish: Wish, pins: Requirements) -> State | None:
    reached = run.states.step(state, wish.requirements)
    return run.states.step(reached, pins) if reached is not None and len(pins) else reached


def _size(part: Part) -> tuple[int, ...]:
    return part[0].of.want
