"""
The random numbers of the reference benchmark, drawn again to the last one.

The stream is read from ``data/draws.bin``; the page beside it says how it is stored.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

STORED: Final = 100_000
_FILE: Final = Path(__file__).parents[1] / "data" / "draws.bin"
_LONG_LAG: Final = 607
_SHORT_LAG: Final = 273
_RANGE: Final = 2**31
_BYTES: Final = 4


def stream() -> Iterator[int]:
    """Yield the numbers of the stream, without end."""
    raw = _FILE.read_bytes()
    first, carries = raw[: _BYTES * _LONG_LAG], raw[_BYTES * _LONG_LAG :]
    seen = [int.from_bytes(first[n : n + _BYTES], "little") for n in range(0, len(first), _BYTES)]
    yield from seen
    number = 0
    while True:
        known = number < STORED - _LONG_LAG
        carry = carries[number // 8] >> number % 8 & 1 if known else 0
        place = number % _LONG_LAG  # a ring: what is overwritten is 607 draws old
        seen[place] = (seen[place] + seen[(place - _SHORT_LAG) % _LONG_LAG] + carry) % _RANGE
        yield seen[place]
        number += 1


class Draws:
    """Whole numbers below a limit, as the reference benchmark draws them."""

    def __init__(self) -> None:
        self._stream = stream()

    def below(self, limit: int) -> int:
        """Return the next number from 0 up to, but not including, `limit`."""
        if limit & (limit - 1) == 0:
            return next(self._stream) & (limit - 1)
        fair = _RANGE - 1 - _RANGE % limit
        while (number := next(self._stream)) > fair:
            pass
        return number % limit

    def one_of(self, *choices: str) -> str:
        return choices[self.below(len(choices))]
