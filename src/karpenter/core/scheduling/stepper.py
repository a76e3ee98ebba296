"""
Placing pod by pod, for classes whose chances come and go with counts.

A zone that is full now is open again once the others have caught up, so every pod asks
anew; but bins that can never take another pod of the class are forgotten for good, and
what spread and affinity permit is asked per kind of node and per state, not per bin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from karpenter.core.scheduling.run import Run
    from karpenter.core.scheduling.states import State
    from karpenter.core.scheduling.wishes import Wish

_TAKEN: Final = int(np.iinfo(np.int64).max)


class Stepper:
    """One class, its readings, and the bins that may still take one of its pods."""

    def __init__(self, run: Run, wishes: Sequence[Wish]) -> None:
        self._run = run
        changes: list[int] = []
        self._fronts = [_Front(run, wish, changes) for wish in wishes]

    def place(self, count: int) -> int:
        """Place up to `count` pods; return how many are left."""
        while count and self._place_one():
            count -= 1
        return count

    def _place_one(self) -> bool:
        """Place one pod, giving up wishes one after the other."""
        self._run.must_wait = False
        for front in self._fronts:
            if front.place_one():
                return True
            if self._run.must_wait:
                return False
        return False


class _Row:
    """Claims in one state in the order in which they were opened, and how many pods each has."""

    __slots__ = ("claims", "pods")

    def __init__(self) -> None:
        self.claims = np.zeros(0, np.int64)
        self.pods = np.zeros(0, np.int64)

    def add(self, claims: NDArray[np.int64], pods: NDArray[np.int64]) -> None:
        """Put more claims in the row."""
        if not len(self.claims):
            self.claims, self.pods = claims, pods
            return
        places = np.searchsorted(self.claims, claims, side="right")
        self.claims = np.insert(self.claims, places, claims)
        self.pods = np.insert(self.pods, places, pods)


class _Front:
    """The bins that may still take a pod of one wish."""

    def __init__(self, run: Run, wish: Wish, changes: list[int]) -> None:
        self._run = run
        self._wish = wish
        self._changes = changes
        """Claims that took a pod, through whichever front."""

        self._heard = 0
        self._nodes = np.zeros(0, np.int64)
        self._rows: dict[int, _Row] = {}
        self._seen = 0
        if run.nodes.count:
            self._nodes = run.nodes_for(wish)

    def place_one(self) -> bool:
        """Place one pod, or say that it cannot be placed."""
        return self._onto_node() or self._onto_claim() or self._onto_new()

    def _onto_node(self) -> bool:
        if not len(self._nodes):
            return False
        run, wish = self._run, self._wish
        kinds = run.kinds.of[self._nodes]
        permitted = np.zeros(len(run.kinds.all), bool)
        for number in np.unique(kinds).tolist():
            permitted[number] = run.kinds.all[number].permits(wish)
        full = []
        found = False
        for position in np.flatnonzero(permitted[kinds]).tolist():
            node = int(self._nodes[position])
            if run.node_takes(wish, node):
                run.put_on_node(wish, node)
                found = True
                break
            lacking = run.devices is not None and run.lacks_devices(wish, node)
            if lacking or not run.nodes.fits(node, wish.of.want):
                full.append(position)
        if full:
            self._nodes = np.delete(self._nodes, full)
        return found

    def _onto_claim(self) -> bool:
        run, wish = self._run, self._wish
        if self._seen < run.claims.count:
            self._notice(run.claims.with_room(wish.of.want, self._seen))
            self._seen = run.claims.count
        self._catch_up()
        passed: list[tuple[_Row, int, int]] = []
        state: State | None = None
        while (place := self._emptiest()) is not None:
            row, position = place
            claim = int(row.claims[position])
            state = run.claim_way(wish, claim)
            if state is not None:
                break
            if not self._is_closed(claim):
                passed.append((row, position, int(row.pods[position])))
            row.pods[position] = _TAKEN
        for row, position, pods in passed:
            row.pods[position] = pods
        if place is None or state is None:
            return False
        run.put_on_claim(wish, claim, state)
        self._moved(*place, state.number)
        return True

    def _notice(self, claims: NDArray[np.int64]) -> None:
        """Sort claims that are new to this wish by their state."""
        if not len(claims):
            return
        states, pods = self._run.claims.state[claims], self._run.claims.pods[claims]
        for number in np.flatnonzero(np.bincount(states)).tolist():
            mine = states == number
            self._row(number).add(claims[mine], pods[mine])

    def _catch_up(self) -> None:
        """Take note of claims that have changed through another reading of the same pods."""
        for claim in sorted(set(self._changes[self._heard :])):
            for row in self._rows.values():
                row.pods[row.claims == claim] = _TAKEN
            if not self._is_closed(claim):
                self._notice(np.array([claim], np.int64))
        self._heard = len(self._changes)

    def _row(self, number: int) -> _Row:
        if number not in self._rows:
            self._rows[number] = _Row()
        return self._rows[number]

    def _emptiest(self) -> tuple[_Row, int] | None:
        """Return the claim with the fewest pods that counts let in, the first of equals."""
        ways, states = self._run.choices(self._wish).ways, self._run.states.all
        best: tuple[int, int] | None = None
        found = None
        for number, row in self._rows.items():
            if not ways(states[number]):
                continue
            position = int(row.pods.argmin())
            key = (int(row.pods[position]), int(row.claims[position]))
            if key[0] != _TAKEN and (best is None or key < best):
                best, found = key, (row, position)
        return found

    def _moved(self, row: _Row, position: int, number: int) -> None:
        """Note that a claim has taken a pod and is in this state now."""
        self._changes.append(int(row.claims[position]))
        self._heard = len(self._changes)
        if self._rows.get(number) is row:
            row.pods[position] += 1
            return
        claim = row.claims[position : position + 1]
        row.pods[position] = _TAKEN  # a state only ever narrows, so the claim never comes back to this row
        self._row(number).add(claim, self._run.claims.pods[claim])

    def _is_closed(self, claim: int) -> bool:
        """Whether a claim can never take another pod of this wish."""
        run, wish = self._run, self._wish
        number = run.nodes.count + claim
        if wish.is_closed(number) or (run.devices is not None and run.lacks_devices(wish, number)):
            return True
        state = run.states.step(run.claims.states[claim], wish.requirements)
        return state is None or not state.fits(run.claims.total(claim, wish.of.want))

    def _onto_new(self) -> bool:
        run, wish = self._run, self._wish
        for template in run.templates:
            opening = run.opening(wish, template)
            if opening is not None:
                claim = run.open(opening)
                run.put_on_claim(wish, claim, opening.state)
                self._changes.append(claim)
                return True
            if run.must_wait:
                return False
        return False
