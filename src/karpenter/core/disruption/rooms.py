"""
What existing machines have free, as arrays: which of them could take any of some pods at all.

Asked before a question goes to the solver, so that machines on which nothing can happen are
not part of it. Exact integers; knows nothing of labels, taints or company.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from karpenter.core.model.resources import CPU, MEMORY, PODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from karpenter.core.scheduling.problem import Existing
    from karpenter.core.state.nodes import StateNode

_ALWAYS: Final = frozenset({CPU, MEMORY, PODS})
"""Resources that are looked at whoever asks; a machine that is overdrawn in one takes nobody."""


class Rooms:
    """The free room of every machine."""

    def __init__(self, nodes: Sequence[Existing]) -> None:
        self._nodes = nodes
        self._at = {node.name: number for number, node in enumerate(nodes)}
        self._free: dict[str, NDArray[np.int64]] = {}

    def with_room(self, want: Mapping[str, int], *, without: AbstractSet[str]) -> list[int]:
        """Return the positions of machines, `without` some, that have room for `want`, in order."""
        fine = np.ones(len(self._nodes), bool)
        for name in _ALWAYS | want.keys():
            fine &= self._row(name) >= max(want.get(name, 0), 0)
        for each in without:
            if each in self._at:
                fine[self._at[each]] = False
        found: list[int] = np.flatnonzero(fine).tolist()
        return found

    def _row(self, name: str) -> NDArray[np.int64]:
        found = self._free.get(name)
        if found is None:
            row = [node.free.get(name, 0) for node in self._nodes]
            found = self._free[name] = np.array(row, np.int64)
        return found


def least(lists: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the least that any list asks for, of each resource that all of them ask for."""
    found: dict[str, int] | None = None
    for each in lists:
        if found is None:
            found = dict(each)
        else:
            found = {name: min(amount, each[name]) for name, amount in found.items() if name in each}
    return found or {}


def usual_shape(nodes: Iterable[StateNode]) -> float:
    """Return how much memory is asked for with each unit of processor, on all machines together."""
    used: Counter[str] = Counter()
    for node in nodes:
        free, size = node.available, node.allocatable
        used.update({name: size.get(name, 0) - free.get(name, 0) for name in (CPU, MEMORY)})
    return max(used[MEMORY], 0) / max(used[CPU], 1)
