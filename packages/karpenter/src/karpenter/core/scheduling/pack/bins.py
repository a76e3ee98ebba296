"""
Bins: everything that a pod can be placed on, as columns of arrays.

Existing nodes come first and keep their numbers; claims follow in the order in which they are opened. A
column holds one figure of every bin, so that "which bins have room" is a handful of array operations for
any number of bins.

Exact integers throughout. Which pods may share a bin is decided in :mod:`.scheduler`.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from karpenter.core.model.resources import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from karpenter.core.scheduling.encode.offerings import Amounts
    from karpenter.core.scheduling.encode.preferences import PodData
    from karpenter.core.scheduling.pack.nodeclaim import ClaimState


_START: Final = 64
_RATIO_STEPS: Final = 2
"""The steps in which a better or worse ratio is told apart, so that fullness decides among similar nodes."""


class Nodes:
    """The free room of existing nodes."""

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
    """The claims of this run: their usage and their states."""

    def __init__(self, width: int) -> None:
        self.count = 0
        self.used = np.zeros((width, _START), np.int64)
        """``used[resource, claim]``."""

        self.head = np.zeros((width, _START), np.int64)
        """An upper bound of what is left per resource; the frontier of the state is exact."""

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
        """Put `count` pods on a claim, which becomes `state`."""
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
    """Pods of one class that were placed on one bin."""

    pod_data: PodData
    bin: int
    pod_count: int


class PodPlacements:
    """Every placement of one run, in order; columns, since there may be as many as pods."""

    def __init__(self) -> None:
        self._pod_data: list[PodData] = []
        self._bins = array("q")
        self._many = array("q")

    def add(self, pod_data: PodData, number: int, pod_count: int) -> None:
        """Record that pods were placed on a bin."""
        self._pod_data.append(pod_data)
        self._bins.append(number)
        self._many.append(pod_count)

    def __iter__(self) -> Iterator[PodPlacement]:
        """Yield the placements in the order in which they were made."""
        return map(PodPlacement, self._pod_data, self._bins, self._many)


class ResourceRatio:
    """
    Orders existing nodes for a pod by the ratio of memory to cpu.

    A node whose memory is used up while half of its cpu is free is paid for and takes no more pods. So pods
    that request more memory per cpu than usual go to nodes with more free memory per cpu than usual, and
    the other way round; among similar nodes to the fullest, since emptier ones may be consolidated.
    """

    def __init__(self, axis: Sequence[str], free: NDArray[np.int64], usual: float) -> None:
        """`free` is ``[resource, node]``; `usual` is the usual memory per cpu of pods."""
        self._rows = [axis.index(CPU), axis.index(MEMORY)]
        self._most = np.maximum(free[self._rows].max(axis=1, initial=1), 1)[:, None]
        self._usual = usual

    def ordered(
        self, nodes: NDArray[np.int64], free: NDArray[np.int64], want: Sequence[int]
    ) -> NDArray[np.int64]:
        """Return some nodes, the best for a pod first; of equals, in the order given."""
        room = free[self._rows][:, nodes]
        surplus = self._usual * room[0] - room[1]
        wanted = self._usual * want[self._rows[0]] - want[self._rows[1]]
        worse = (np.abs(surplus - wanted) - np.abs(surplus)) / (abs(wanted) or 1.0)
        return nodes[np.lexsort(((room / self._most).max(axis=0), np.round(worse * _RATIO_STEPS)))]
