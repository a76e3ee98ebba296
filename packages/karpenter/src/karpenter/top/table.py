"""
Tables that fit the screen: columns shrink as far as they may, then the least important ones are left out.

One rule for every table that people read: a column without text in any row is left out; columns that may
shrink do so down to their least width; while that is not enough, the column with the highest `drop` goes.
What stays is never cut in the middle of a name, unless its column says that it may shrink. Where that is too
wide still, a table with a title has its last text below each row.

It knows nothing of nodes or plans. Bars are drawn here, because their width is what is left over.
"""

from __future__ import annotations

from functools import lru_cache
from textwrap import wrap
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeGuard

import msgspec
from rich import box
from rich.cells import cell_len
from rich.color import Color
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from karpenter.base.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence


DEFAULT_STYLE: Final = ("#04B575", "#FFFF00", "#FF0000")
"""Colours of what is well used, used in part, and hardly used."""


class TextConsole(Console):
    """Prints text as it is; where its reader is gone, that is an error as of any other output."""

    def __init__(self) -> None:
        super().__init__(highlight=False, markup=False, emoji=False)

    def on_broken_pipe(self) -> None:
        """Leave the exit code to the command."""
        raise  # noqa: PLE0704  called while BrokenPipeError is handled; rich would exit with 1


_FULL: Final = "█"
_EMPTY: Final = "░"
_GOOD: Final = 0.9
_OK: Final = 0.6
_GAP: Final = 2
_WIDE_GAP: Final = 3
_EDGES: Final = 2
"""Columns left and right of a table with a title."""

_ENDLESS: Final = 10_000
_LONG_WORD: Final = 40
"""Columns of a word from which on it may be broken."""

_LONG_NAME: Final = 72
"""The same in a table with a title, which has room below its rows."""

_INDENT: Final = 4


class Drawn(Protocol):
    """A cell that is drawn as wide as there is room."""

    @property
    def natural(self) -> int:
        """The columns that it takes where there is room."""
        ...

    def draw(self, width: int) -> Text:
        """Return the cell in so many columns."""
        ...


Cell: TypeAlias = "str | Text | Drawn"


class FittedColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a table."""

    title: str = ""
    drop: int = 0
    """The column with the highest number is left out first; one with 0 stays."""

    least: int = 0
    """Columns down to which it may shrink, by folding its text; 0 keeps every word whole."""

    cut: bool = False
    """Whether text that is too long ends in an ellipsis rather than on another line."""

    right: bool = False
    style: str = ""


class UsageBar(msgspec.Struct, frozen=True):
    """How much of something is used, as a bar."""

    share: float
    colours: tuple[str, ...] = DEFAULT_STYLE
    natural: int = 40
    percent: bool = True
    """Whether it ends in the share as a figure, which takes part of its width."""

    def draw(self, width: int) -> Text:
        """Return the bar in so many columns, each cell in its colour between bad and good."""
        suffix = f" {self.share:4.0%}" if self.percent else ""
        cells = max(width - len(suffix), 1)
        filled = round(max(0.0, min(self.share, 1.0)) * cells)
        return Text.assemble(_bar(filled, cells, self.colours), suffix, no_wrap=True)


@lru_cache(maxsize=1024)
def _bar(filled: int, cells: int, colours: tuple[str, ...]) -> Text:
    shades = gradient(colours[-1], colours[0], cells)
    parts = [(_FULL, shades[place]) for place in range(filled)]
    return Text.assemble(*parts, (_EMPTY * (cells - filled), "bright_black"))


def share_style(share: float, colours: Sequence[str] = DEFAULT_STYLE) -> str:
    """Return the colour of a share: good above 90 %, ok above 60 %."""
    good, ok, bad = colours
    return good if share > _GOOD else ok if share > _OK else bad


def fit(
    columns: Sequence[FittedColumn],
    rows: Sequence[Sequence[Cell]],
    width: int,
    gap: int = _GAP,
    *,
    word: int = _LONG_WORD,
) -> list[int]:
    """
    Return the width of each column in a table of `width`; 0 for those that are left out.

    A word of `word` columns and more may be broken.
    """
    natural = [
        max((_natural(row[place]) for row in rows), default=0) if _has_text(rows, place) else 0
        for place in range(len(columns))
    ]
    for place, column in enumerate(columns):
        if natural[place]:
            natural[place] = max(natural[place], cell_len(column.title))
    least = [
        min(
            size,
            max(column.least, cell_len(column.title), 0 if column.cut else _longest_word(rows, place, word)),
        )
        if column.least
        else size
        for place, (column, size) in enumerate(zip(columns, natural, strict=True))
    ]
    while _total(least, gap) > width:
        going = max((place for place, size in enumerate(natural) if size), key=lambda i: columns[i].drop)
        if not columns[going].drop:
            break
        natural[going] = least[going] = 0
    excess = _total(natural, gap) - width
    # The widest gives first, so that short texts stay on one line.
    while excess > 0:
        giving = max(range(len(columns)), key=lambda i: (natural[i] > least[i], natural[i]))
        if natural[giving] <= least[giving]:
            break
        natural[giving] -= 1
        excess -= 1
    return natural


def fitted(
    columns: Sequence[FittedColumn],
    rows: Sequence[Sequence[Cell]],
    width: int,
    *,
    title: str = "",
    heading: bool = True,
) -> RenderableType:
    """Return the table of `rows` in a width; with a `title` it has a rule below its heading."""
    rows = [[_printable(cell) for cell in row] for row in rows]
    if not title:
        return _table(columns, rows, fit(columns, rows, width), heading=heading)
    room, below = width - _EDGES, list[int]()
    folding = [place for place in range(len(columns)) if _folds(columns, rows, place)]
    beside = list(columns)
    while True:
        gap = _WIDE_GAP if _fits_whole(beside, rows, room) else _GAP
        widths = fit(beside, rows, room, gap, word=_LONG_NAME)
        for place in below:
            widths[place] = 0
        if _total(widths, gap) <= room or not folding:
            break
        below.insert(0, folding.pop())
        beside[below[0]] = FittedColumn(drop=_ENDLESS)
    if not below:
        return _table(columns, rows, widths, gap=gap, title=title)
    head = _table(columns, (), widths, gap=gap, title=title)
    head.title, head.show_edge = None, False
    parts: list[RenderableType] = [Text(title, "italic"), "", Padding(head, (0, 0, 0, 1))]
    for row in rows:
        parts.append(Padding(_table(columns, [row], widths, gap=gap, heading=False), (0, 0, 0, 1)))
        parts += [Padding(_drawn(row[place], room), (0, 0, 0, _INDENT)) for place in below]
    return Group(*parts, "")


def _fits_whole(columns: Sequence[FittedColumn], rows: Sequence[Sequence[Cell]], room: int) -> bool:
    return fit(columns, rows, room, _WIDE_GAP) == fit(columns, rows, _ENDLESS, _WIDE_GAP)


def _folds(columns: Sequence[FittedColumn], rows: Sequence[Sequence[Cell]], place: int) -> bool:
    """Whether a column is text that may take several lines."""
    column = columns[place]
    return bool(column.least) and not column.cut and not any(_is_drawn(row[place]) for row in rows)


def _table(
    columns: Sequence[FittedColumn],
    rows: Sequence[Sequence[Cell]],
    widths: Sequence[int],
    *,
    gap: int = _GAP,
    title: str = "",
    heading: bool = True,
) -> Table:
    table = Table(
        title=title or None,
        title_justify="left",
        box=box.SIMPLE_HEAD if title else None,
        pad_edge=False,
        # The rule below a heading has a column of its own between two columns.
        padding=(0, gap - 1 if title else gap, 0, 0),
        show_header=heading,
        header_style="bold" if title else "bright_black",
    )
    kept = [place for place, size in enumerate(widths) if size]
    for place in kept:
        column = columns[place]
        narrowed = column.least and not column.cut
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            style=column.style,
            no_wrap=not narrowed,
            overflow="ellipsis" if column.cut else "fold",
            width=widths[place],
        )
    for row in rows:
        table.add_row(*(_drawn(row[place], widths[place]) for place in kept))
    return table


class TableData(msgspec.Struct, frozen=True):
    """Columns and rows that are to be shown, perhaps page by page."""

    columns: tuple[FittedColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def table(self, width: int, *, heading: bool = True) -> RenderableType:
        return fitted(self.columns, self.rows, width, heading=heading)

    def heights(self, width: int) -> list[int]:
        """Return how many lines each row takes."""
        widths = fit(self.columns, self.rows, width)
        folded = [place for place, column in enumerate(self.columns) if column.least and not column.cut]
        return [
            max(
                [
                    1,
                    *(
                        len(wrap(str(row[i]), widths[i]))
                        for i in folded
                        if widths[i] and not _is_drawn(row[i])
                    ),
                ]
            )
            for row in self.rows
        ]

    def pages(self, width: int, room: int) -> list[TableData]:
        """Return the tables that its rows make, each with no more lines than there is room for."""
        found: list[list[tuple[Cell, ...]]] = [[]]
        left = room
        for row, height in zip(self.rows, self.heights(width), strict=True):
            if height > left and found[-1]:
                found.append([])
                left = room
            found[-1].append(row)
            left -= height
        return [TableData(self.columns, tuple(page)) for page in found]


def _printable(cell: Cell) -> Cell:
    """Return a cell without what a terminal would obey, however it came into a name or a message."""
    if isinstance(cell, str):
        return printable(cell)
    if isinstance(cell, Text) and not cell.plain.isprintable():
        cell = cell.copy()
        cell.plain = printable(cell.plain)
    return cell


def _drawn(cell: Cell, width: int) -> str | Text:
    return cell.draw(width) if _is_drawn(cell) else Text(cell) if isinstance(cell, str) else cell  # type: ignore[return-value]


def _is_drawn(cell: Cell) -> TypeGuard[Drawn]:
    return not isinstance(cell, str | Text)


def _natural(cell: Cell) -> int:
    if isinstance(cell, str):
        return cell_len(cell)
    return cell.cell_len if isinstance(cell, Text) else cell.natural


def _has_text(rows: Sequence[Sequence[Cell]], place: int) -> bool:
    return any(_is_drawn(row[place]) or str(row[place]).strip(" -") for row in rows)


def _longest_word(rows: Sequence[Sequence[Cell]], place: int, most: int) -> int:
    """Return how long the longest word of a column is, so that folding keeps words whole."""
    texts = [str(row[place]) for row in rows if not _is_drawn(row[place])]
    return min(max((cell_len(word) for text in texts for word in text.split()), default=0), most)


def _total(widths: Sequence[int], gap: int) -> int:
    shown = [size for size in widths if size]
    return sum(shown) + gap * max(len(shown) - 1, 0)


@lru_cache(maxsize=256)
def gradient(begin: str, end: str, steps: int) -> tuple[Style, ...]:
    """Return the colours from one to another; between them brightness and hue change evenly (CIE Luv)."""
    first, last = _luv(begin), _luv(end)
    shares = [place / max(steps - 1, 1) for place in range(steps)]
    mixed = (
        _rgb([low + (high - low) * share for low, high in zip(first, last, strict=True)]) for share in shares
    )
    return tuple(Style(color=Color.from_rgb(*each)) for each in mixed)


# CIE 1976 L*, u*, v* of sRGB with the white point D65: https://www.w3.org/Graphics/Color/sRGB
_WHITE: Final = (0.19783, 0.46832)
_TO_XYZ: Final = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
_FROM_XYZ: Final = ((3.2406, -1.5372, -0.4986), (-0.9689, 1.8758, 0.0415), (0.0557, -0.2040, 1.0570))
_LINEAR: Final = 0.0031308
_DARK: Final = 0.008856
_SLOPE: Final = 903.3


def _luv(colour: str) -> tuple[float, float, float]:
    parts = [each / 255 for each in Color.parse(colour).get_truecolor()]
    linear = [each / 12.92 if each <= _LINEAR * 12.92 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    x, y, z = (sum(a * b for a, b in zip(row, linear, strict=True)) for row in _TO_XYZ)
    light = 116 * y ** (1 / 3) - 16 if y > _DARK else _SLOPE * y
    whole = x + 15 * y + 3 * z
    u, v = (4 * x / whole, 9 * y / whole) if whole else _WHITE
    return light, 13 * light * (u - _WHITE[0]), 13 * light * (v - _WHITE[1])


def _rgb(luv: Sequence[float]) -> tuple[float, float, float]:
    light, u, v = luv
    if light <= 0:
        return 0.0, 0.0, 0.0
    u, v = u / (13 * light) + _WHITE[0], v / (13 * light) + _WHITE[1]
    y = ((light + 16) / 116) ** 3 if light > _SLOPE * _DARK else light / _SLOPE
    xyz = (y * 9 * u / (4 * v), y, y * (12 - 3 * u - 20 * v) / (4 * v))
    linear = [max(0.0, min(1.0, sum(a * b for a, b in zip(row, xyz, strict=True)))) for row in _FROM_XYZ]
    red, green, blue = (
        round(255 * (12.92 * each if each <= _LINEAR else 1.055 * each ** (1 / 2.4) - 0.055))
        for each in linear
    )
    return red, green, blue
