"""
Which free room suits a pod best: room in which less is left to nobody once the pod is there.

A machine whose memory is used up while half of its processors are free is lost to everybody, and is paid
for. So pods that want more memory than usual for their processors go where more memory than usual is free
for each processor, and the other way round; among such machines to the fullest, which are the last that
could be emptied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from karpenter.core.model.resources import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_STEPS: Final = 2
"""How finely it is told apart how much of a pod's leaning makes up for a machine's, or adds to it."""


class Likeness:
    """Puts machines in the order in which pods should ask for room on them."""

    def __init__(self, axis: Sequence[str], free: NDArray[np.int64], usual: float) -> None:
        """`free` is ``[resource, machine]``; `usual` is the memory that pods want for a unit of processor."""
        self._rows = [axis.index(CPU), axis.index(MEMORY)]
        self._most = np.maximum(free[self._rows].max(axis=1, initial=1), 1)[:, None]
        self._usual = usual

    def ordered(
        self, machines: NDArray[np.int64], free: NDArray[np.int64], want: Sequence[int]
    ) -> NDArray[np.int64]:
        """Return some machines, the best for a pod first; of equals, in the order given."""
        room = free[self._rows][:, machines]
        leaning = self._usual * room[0] - room[1]
        mine = self._usual * want[self._rows[0]] - want[self._rows[1]]
        worse = (np.abs(leaning - mine) - np.abs(leaning)) / (abs(mine) or 1.0)
        return machines[np.lexsort(((room / self._most).max(axis=0), np.round(worse * _STEPS)))]
