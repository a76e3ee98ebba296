"""
Placing pod by pod, for classes whose chances come and go with counts.

A zone that is full now is open again once the others have caught up, so every pod asks
anew; but bins that can never take another pod of the class are forgotten for good, and
what spread and affinity permit is asked per kind of node and per state, not per bin.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from karpenter.core.scheduling.encode.preferences import PodData
    from karpenter.core.scheduling.pack.nodeclaim import ClaimState
    from karpenter.core.scheduling.pack.scheduler import Scheduler

_TAKEN: Final = int(np.iinfo(np.int64).max)
_NO_CLAIM: Final = (_TAKEN, -1)


class OneByOne:
    """One class, its readings, and the bins that may still take one of its pods."""

    def __init__(self, run: Scheduler, wishes: Sequence[PodData]) -> None:
        self._run = run
        changes: list[int] = []
        self._fronts = [_Candidates(run, wish, changes) for wish in wishes]

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


class _ClaimQueue:
    """Claims in one state, and how many pods each has; knows the emptiest, the first of equals."""

    __slots__ = ("_claims", "_early", "_held", "_late", "_pods", "best")

    def __init__(self) -> None:
        self._claims = np.zeros(0, np.int64)
        self._pods = np.zeros(0, np.int64)
        self._early = _NO_CLAIM
        """The emptiest of these."""

        self._held: dict[int, int] = {}
        """Claims that came one by one, and their pods."""

        self._late: list[tuple[int, int]] = []
        """The same as a heap, pods first; what is not held any more is dropped when it comes up."""

        self.best = _NO_CLAIM
        """The pods and the number of the emptiest claim."""

    def add(self, claims: NDArray[np.int64], pods: NDArray[np.int64]) -> None:
        """Put more claims in the row; they are opened later than all that came like this."""
        if len(self._claims):
            claims, pods = np.concatenate([self._claims, claims]), np.concatenate([self._pods, pods])
        self._claims, self._pods = claims, pods
        self._look()

    def put(self, claim: int, pods: int) -> None:
        """Put one claim in the row, whenever it was opened."""
        self._held[claim] = pods
        heappush(self._late, (pods, claim))
        self.best = min(self.best, (pods, claim))

    def take(self, claim: int) -> None:
        """Remove a claim, if it is there."""
        if self._held.pop(claim, None) is None:
            position = int(np.searchsorted(self._claims, claim))
            if position < len(self._claims) and self._claims[position] == claim:
                self._pods[position] = _TAKEN
                self._look()
                return
        if self.best[1] == claim:
            self._compare()

    def _look(self) -> None:
        position = int(self._pods.argmin())
        self._early = int(self._pods[position]), int(self._claims[position])
        self._compare()

    def _compare(self) -> None:
        late = self._late
        while late and self._held.get(late[0][1]) != late[0][0]:
            heappop(late)
        self.best = min(self._early, late[0]) if late else self._early


class _Candidates:
    """The bins that may still take a pod of one wish."""

    def __init__(self, run: Scheduler, wish: PodData, changes: list[int]) -> None:
        self._run = run
        self._wish = wish
        self._choices = run.choices(wish)
        self._changes = changes
        """Claims that took a pod, through whichever front."""

        self._heard = 0
        self._nodes = np.zeros(0, np.int64)
        self._rows: dict[int, _ClaimQueue] = {}
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
        passed: list[tuple[_ClaimQueue, int, int]] = []
        state: ClaimState | None = None
        claim = -1
        while state is None and (place := self._emptiest()) is not None:
            pods, claim, row = place
            row.take(claim)
            state = run.claim_way(wish, claim)
            if state is None and not self._is_closed(claim):
                passed.append((row, claim, pods))
        for row, other, pods in passed:
            row.put(other, pods)
        if state is None:
            return False
        run.put_on_claim(wish, claim, state)
        self._changes.append(claim)
        self._heard = len(self._changes)
        self._row(state.number).put(claim, int(run.claims.pods[claim]))
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
                row.take(claim)
            if not self._is_closed(claim):
                claims = self._run.claims
                self._row(int(claims.state[claim])).put(claim, int(claims.pods[claim]))
        self._heard = len(self._changes)

    def _row(self, number: int) -> _ClaimQueue:
        if number not in self._rows:
            self._rows[number] = _ClaimQueue()
        return self._rows[number]

    def _emptiest(self) -> tuple[int, int, _ClaimQueue] | None:
        """Return the claim with the fewest pods that counts let in, the first of equals."""
        choices, states = self._choices, self._run.states.all
        choices.refresh()
        best, found = _NO_CLAIM, None
        for number, row in self._rows.items():
            if row.best < best and choices.now(states[number]):
                best, found = row.best, row
        return (*best, found) if found is not None else None

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
