"""Where pods went, in the order in which it was decided: columns, since there may be as many as pods."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.core.scheduling.wishes import Wish


class Move(NamedTuple):
    """Pods of one class that went to one bin."""

    wish: Wish
    bin: int
    many: int


class Moves:
    """Every move of one run."""

    def __init__(self) -> None:
        self._wishes: list[Wish] = []
        self._bins = array("q")
        self._many = array("q")

    def add(self, wish: Wish, number: int, many: int) -> None:
        """Note that some pods went to a bin."""
        self._wishes.append(wish)
        self._bins.append(number)
        self._many.append(many)

    def __iter__(self) -> Iterator[Move]:
        """Yield the moves, first things first."""
        return map(Move, self._wishes, self._bins, self._many)
