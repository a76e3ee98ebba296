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
    from karpenter.core.scheduling.wishes import Wish

_TAKEN: Final = int(np.iinfo(np.int64).max)


class Stepper:
    """One class, its readings, and the bins that may still take one of its pods."""

    def __init__(self, run: Run, wishes: Sequence[Wish]) -> None:
        self._run = run
        self._fronts = [_Front(run, wish) for wish in wishes]

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


class _Front:
    """The bins that may still take a pod of one wish."""

    def __init__(self, run: Run, wish: Wish) -> None:
        self._run = run
        self._wish = wish
        self._nodes = np.zeros(0, np.int64)
        self._claims = np.zeros(0, np.int64)
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
            if not run.nodes.fits(node, wish.of.want):
                full.append(position)
        if full:
            self._nodes = np.delete(self._nodes, full)
        return found

    def _onto_claim(self) -> bool:
        run, wish = self._run, self._wish
        if self._seen < run.claims.count:
            self._claims = np.concatenate([self._claims, run.claims.with_room(wish.of.want, self._seen)])
            self._seen = run.claims.count
        if not len(self._claims):
            return False
        numbers = run.claims.state[self._claims]
        order = run.claims.pods[self._claims]
        order[~self._open_states(numbers)[numbers]] = _TAKEN
        closed = []
        found = False
        while not found:
            position = int(order.argmin())
            if order[position] == _TAKEN:
                break
            claim = int(self._claims[position])
            state = run.claim_way(wish, claim)
            if state is None:
                order[position] = _TAKEN
                if self._is_closed(claim):
                    closed.append(position)
                continue
            run.put_on_claim(wish, claim, state)
            found = True
        if closed:
            self._claims = np.delete(self._claims, closed)
        return found

    def _open_states(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which states have a way for one more pod, by number."""
        run, ways = self._run, self._run.choices(self._wish).ways
        present = np.flatnonzero(np.bincount(numbers, minlength=len(run.states.all)))
        found = np.zeros(len(run.states.all), bool)
        for number in present.tolist():
            found[number] = bool(ways(run.states.all[number]))
        return found

    def _is_closed(self, claim: int) -> bool:
        """Whether a claim can never take another pod of this wish."""
        run, wish = self._run, self._wish
        if wish.is_closed(run.nodes.count + claim):
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
                return True
            if run.must_wait:
                return False
        return False
