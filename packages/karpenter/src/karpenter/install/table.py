"""
Tables with borders, ages, and names that are cut: how inspectors print.

Pure. Headings are centred, numbers stand on the right, everything else on the left. A cell that is too wide
is broken between words so that its lines are as even as can be.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import timedelta

NOTHING: Final = "No resources found."
_WIDEST: Final = 30
"""Columns that a cell has before it is broken, unless one of its words is longer."""

_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")
_LONGEST_NAME: Final = 30
_DOTS: Final = "..."
_MILLISECONDS: Final = (
    ("year", 365 * 24 * 3600 * 1000),
    ("week", 7 * 24 * 3600 * 1000),
    ("day", 24 * 3600 * 1000),
    ("hour", 3600 * 1000),
    ("minute", 60 * 1000),
    ("second", 1000),
    ("millisecond", 1),
)


def bordered(heading: Sequence[str], rows: Iterable[Sequence[str]], *, rules: bool = False) -> str:
    """Return a table; without a heading it has only its borders, and with `rules` a line after every row."""
    cells = [[wrapped(str(cell)) for cell in row] for row in rows]
    columns = range(max([len(heading), *(len(row) for row in cells)], default=0))
    widths = [
        max([len(heading[i]) if heading else 0, *(len(line) for row in cells for line in row[i])])
        for i in columns
    ]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    lines = [rule]
    if heading:
        lines += [_line([_centred(heading[i], widths[i]) for i in columns]), rule]
    for row in cells:
        for number in range(max(len(cell) for cell in row)):
            texts = [cell[number] if number < len(cell) else "" for cell in row]
            lines.append(_line([_placed(text, widths[i]) for i, text in enumerate(texts)]))
        if rules:
            lines.append(rule)
    if not rules or not cells:
        lines.append(rule)
    return "\n".join(lines)


def wrapped(text: str) -> list[str]:
    """Return a text in lines that are as even as can be; the last one may be short."""
    words = text.split()
    if len(text) <= _WIDEST or not words:
        return [text]
    limit = max(_WIDEST, *(len(word) for word in words))

    def width(start: int, end: int) -> int:
        return sum(len(word) for word in words[start:end]) + end - start - 1

    @cache
    def best(start: int) -> tuple[int, tuple[int, ...]]:
        """Return the least raggedness from a word on, and where its lines end."""
        if width(start, len(words)) <= limit:
            return 0, (len(words),)
        found = []
        for end in range(start + 1, len(words)):
            if width(start, end) > limit:
                break
            rest, ends = best(end)
            found.append(((limit - width(start, end)) ** 2 + rest, (end, *ends)))
        return min(found, key=lambda each: each[0])

    ends = best(0)[1]
    starts = (0, *ends[:-1])
    return [" ".join(words[start:end]) for start, end in zip(starts, ends, strict=True)]


def age(since: timedelta) -> str:
    """Return an age in its largest unit: `1 week`, `7 hours`."""
    left = max(0, int(since.total_seconds() * 1000))
    for unit, size in _MILLISECONDS:
        if left >= size:
            count = left // size
            return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
    return "0 seconds"


def cut(name: str) -> str:
    """Return a name that fits into a column."""
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - len(_DOTS)] + _DOTS


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _centred(text: str, width: int) -> str:
    gap = width - len(text)
    return " " * (gap // 2) + text + " " * (gap - gap // 2)


def _placed(text: str, width: int) -> str:
    return text.rjust(width) if _NUMBER.fullmatch(text) else text.ljust(width)
