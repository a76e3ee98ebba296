"""
Levelling: give pods to the emptiest first, in closed form.

The same answer as handing out one pod at a time to whoever has the fewest and still has
room, the first of equals, without the loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def level(held: NDArray[np.int64], most: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """
    Return how many of `count` pods each place gets.

    ``held[i]`` is what place `i` has already, ``most[i]`` how many more it can take.
    """
    if int(most.sum()) <= count:
        return most.copy()
    low, high = int(held.min()), int(held.max()) + count
    while low < high:  # the highest waterline that does not need more than there is
        middle = (low + high + 1) // 2
        if int(_up_to(held, most, middle).sum()) <= count:
            low = middle
        else:
            high = middle - 1
    given = _up_to(held, most, low)
    rest = count - int(given.sum())
    if rest:
        open_ = np.flatnonzero((given < most) & (held + given == low))
        given[open_[:rest]] += 1
    return given


def _up_to(held: NDArray[np.int64], most: NDArray[np.int64], line: int) -> NDArray[np.int64]:
    return np.clip(line - held, 0, most)
