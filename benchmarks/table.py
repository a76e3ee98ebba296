"""
A table of figures, and how figures are written.

Holds text only: what was measured and how is for the suite to say. Prints aligned
columns that read the same in a terminal, a log and a commit message.
"""

from __future__ import annotations

from typing import NamedTuple


class Table(NamedTuple):
    """What a suite has to say."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    """Whatever a reader must know to trust the figures: sizes, versions, what is not measured."""

    def __str__(self) -> str:
        """Return the table as text: the first column to the left, figures to the right."""
        widths = [max(map(len, column)) for column in zip(self.headers, *self.rows, strict=True)]
        rule = "  ".join("-" * width for width in widths)
        lines = [_line(self.headers, widths), rule, *(_line(row, widths) for row in self.rows)]
        return "\n".join([self.title, *lines, *(f"note: {note}" for note in self.notes)])


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    first, *rest = [
        cell.rjust(width) if position else cell.ljust(width)
        for position, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join([first, *rest]).rstrip()


def seconds(amount: float) -> str:
    """Return a time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if amount >= size:
            return f"{amount / size:.3g} {unit}"
    return f"{amount / 1e-9:.3g} ns"


def count(amount: float) -> str:
    return f"{amount:,.0f}"


def size(amount: int) -> str:
    """Return an amount of memory in the unit that suits it."""
    for unit, bytes_in_it in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if amount >= bytes_in_it:
            return f"{amount / bytes_in_it:.1f} {unit}"
    return f"{amount} B"


def ratio(amount: float, base: float) -> str:
    """Return how many times `base` the `amount` is."""
    return f"{amount / base:.2f}x" if base else "-"
