"""
Bins: everything a pod can be put on, as columns.

Existing nodes come first and keep their numbers; claims follow in the order in which they
are opened. A column holds one figure of every bin, so that "which bins have room" is a
handful of array operations however many bins there are.

Exact integers throughout. What may share a bin is decided elsewhere.

Where pods went, in the order in which it was decided: columns, since there may be as many as pods.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from karpenter.core.scheduling.encode.offerings import Amounts
    from karpenter.core.scheduling.encode.preferences import PodData
    from karpenter.core.scheduling.pack.nodeclaim import ClaimState


_START = 64


class Nodes:
    """The room on existing nodes."""

    def __init__(self, free: Amounts) -> None:
        self.free = np.ascontiguousarray(free.T)
        """``free[resource, node]``."""

        self.count = free.shape[0]

    def with_room(self, want: Sequence[int]) -> NDArray[np.bool_]:
        """Return which nodes have room for one more pod; an overdrawn node has none."""
        room = np.ones(self.count, bool)
        for row, amount in zip(self.free, want, strict=True):
            room &= row >= max(amount, 0)
        return room

    def fits(self, node: int, want: Sequence[int]) -> bool:
        """Return whether one node has room for one more pod."""
        column = self.free[:, node].tolist()
        return all(left >= max(amount, 0) for left, amount in zip(column, want, strict=True))

    def room_for(self, nodes: NDArray[np.int64], want: Sequence[int]) -> NDArray[np.int64]:
        """Return how many pods like this each of `nodes` has room for."""
        count = np.full(len(nodes), np.iinfo(np.int32).max, np.int64)
        for row, amount in zip(self.free, want, strict=True):
            left = row[nodes]
            if amount > 0:
                np.minimum(count, left // amount, out=count)
            count[left < 0] = 0
        return np.maximum(count, 0)

    def take(self, node: int, want: NDArray[np.int64], count: int = 1) -> None:
        """Put `count` pods on a node."""
        self.free[:, node] -= want * count


class Claims:
    """The claims of this run: how full each is, and what it can still become."""

    def __init__(self, width: int) -> None:
        self.count = 0
        self.used = np.zeros((width, _START), np.int64)
        """``used[resource, claim]``."""

        self.head = np.zeros((width, _START), np.int64)
        """An upper bound of what is left, per resource; the frontier of the state is exact."""

        self.pods = np.zeros(_START, np.int64)
        self.state = np.zeros(_START, np.int64)
        self.states: list[ClaimState] = []

    def open(self, state: ClaimState) -> int:
        """Add an empty claim and return its number."""
        number = self.count
        if number == len(self.pods):
            self._widen()
        self.count += 1
        self.states.append(state)
        self.state[number] = state.number
        self.head[:, number] = state.ceiling
        return number

    def with_room(self, want: Sequence[int], first: int = 0) -> NDArray[np.int64]:
        """Return which claims, from the `first` on, may have room for one more pod."""
        room = self.pods[first : self.count] >= 0
        for row, amount in zip(self.head, want, strict=True):
            if amount > 0:
                room &= row[first : self.count] >= amount
        return np.flatnonzero(room) + first

    def total(self, claim: int, want: Sequence[int], count: int = 1) -> tuple[int, ...]:
        """Return what a claim would use with `count` more pods."""
        used = self.used[:, claim].tolist()
        return tuple(u + w * count for u, w in zip(used, want, strict=True))

    def room_for(self, claim: int, state: ClaimState, want: Sequence[int]) -> int:
        """Return how many pods like this a claim in `state` has room for."""
        used = self.used[:, claim].tolist()
        best = 0
        for row in state.rows:
            count = min((r - u) // w for r, u, w in zip(row, used, want, strict=True) if w > 0)
            if count > best and all(r >= u for r, u in zip(row, used, strict=True)):
                best = count
        return best

    def take(self, claim: int, state: ClaimState, want: NDArray[np.int64], count: int = 1) -> None:
        """Put `count` pods on a claim, which thereby becomes `state`."""
        used = self.used[:, claim]
        used += want if count == 1 else want * count
        self.pods[claim] += count
        if state is not self.states[claim]:
            self.states[claim] = state
            self.state[claim] = state.number
        np.subtract(state.ceiling, used, out=self.head[:, claim])

    def _widen(self) -> None:
        length = 2 * len(self.pods)
        self.used = _wider(self.used, length)
        self.head = _wider(self.head, length)
        self.pods = _wider(self.pods[None], length)[0]
        self.state = _wider(self.state[None], length)[0]


def _wider(table: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    wide = np.zeros((table.shape[0], length), np.int64)
    wide[:, : table.shape[1]] = table
    return wide


class PodPlacement(NamedTuple):
    """Pods of one class that went to one bin."""

    pod_data: PodData
    bin: int
    pod_count: int


class PodPlacements:
    """Every move of one run."""

    def __init__(self) -> None:
        self._pod_data: list[PodData] = []
        self._bins = array("q")
        self._many = array("q")

    def add(self, pod_data: PodData, number: int, pod_count: int) -> None:
        """Note that some pods went to a bin."""
        self._pod_data.append(pod_data)
        self._bins.append(number)
        self._many.append(pod_count)

    def __iter__(self) -> Iterator[PodPlacement]:
        """Yield the moves, first things first."""
        return map(PodPlacement, self._pod_data, self._bins, self._many)
