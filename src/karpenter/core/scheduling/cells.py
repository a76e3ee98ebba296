"""
Many sizes as few: pods of about one size are taken for equal, where that wastes least.

All pods begin in one cell per kind, and the pods of a cell are taken to be as large as the
largest of them in every resource. The cell in which that wastes most is split where it helps
most, and again, until there are as many cells as can be told apart.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray


def cells(
    sizes: NDArray[np.float64], counts: NDArray[np.float64], kinds: Sequence[Hashable], most: int
) -> list[NDArray[np.int64]]:
    """
    Return which of ``sizes[pod, resource]`` are taken for equal, as positions, in `most` cells or fewer.

    Pods of different kinds are never taken for equal, even if that makes more cells than `most`.
    """
    total = counts @ sizes
    scaled = sizes / np.where(total > 0, total, 1.0)
    by_kind: dict[Hashable, list[int]] = {}
    for position, kind in enumerate(kinds):
        by_kind.setdefault(kind, []).append(position)
    heap = [_entry(scaled, counts, np.array(members, np.int64)) for members in by_kind.values()]
    heapify(heap)
    while len(heap) < most and heap[0][0] < 0:
        _, _, members = heappop(heap)
        for half in _split(scaled, counts, members):
            heappush(heap, _entry(scaled, counts, half))
    return [members for _, _, members in sorted(heap, key=lambda entry: entry[1])]


def _entry(
    scaled: NDArray[np.float64], counts: NDArray[np.float64], members: NDArray[np.int64]
) -> tuple[float, int, NDArray[np.int64]]:
    """Return a cell with what it wastes; no two cells begin with the same pod, so entries can be compared."""
    return -float(_waste(scaled, counts, members).sum()), int(members.min()), members


def _waste(
    scaled: NDArray[np.float64], counts: NDArray[np.float64], members: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return how much too large the pods of a cell are taken to be, per resource."""
    mine = scaled[members]
    waste: NDArray[np.float64] = counts[members] @ (mine.max(axis=0) - mine)
    return waste


def _split(
    scaled: NDArray[np.float64], counts: NDArray[np.float64], members: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the two halves of a cell that waste least of the resource of which it wastes most."""
    resource = int(_waste(scaled, counts, members).argmax())
    order = members[np.argsort(scaled[members, resource], kind="stable")]
    size = scaled[order, resource]
    pods = np.cumsum(counts[order])
    # Those up to a position become as large as the one there, which spares them the rest of the way up.
    spared = pods * (size[-1] - size)
    last = int(spared.argmax())
    return order[: last + 1], order[last + 1 :]
