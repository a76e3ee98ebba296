"""
How much is done at a time: more on a machine with more cores.

Every controller has a least and a most; between one core and sixty the number of objects that it works on at
a time grows in a straight line.
"""

from __future__ import annotations

from typing import Final

import msgspec

_CORE: Final = 1000
_MOST_CORES: Final = 60


class Span(msgspec.Struct, frozen=True):
    """The least and the most that a controller does at a time."""

    least: int
    most: int

    def at(self, millicores: int) -> int:
        """Return how many objects to work on at a time; nothing said about cores means one."""
        cores = -(-(millicores if millicores > 0 else _CORE) // _CORE)
        slope = (self.most - self.least) / (_MOST_CORES - 1)
        return min(max(int(slope * (cores - 1)) + self.least, self.least), self.most)


COMMON: Final = Span(10, 1000)
TERMINATION: Final = Span(100, 5000)
EVICTION: Final = Span(100, 5000)
LIFECYCLE: Final = Span(1000, 5000)
