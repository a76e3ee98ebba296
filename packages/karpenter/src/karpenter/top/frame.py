"""
What the screen of ``karpenter top`` holds at one moment: the list, its page, the order, and the words typed.

:class:`TopFrame` turns a snapshot into the lines of a screen of any size. It knows keys by what they do, not
by their names, and no terminal: those are in :mod:`.screen`. Pages hold as many rows as fit; a page that is
no longer there becomes the last one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from karpenter.base.text import printable
from karpenter.top.model import SORTS, NodeRow, NodeSort
from karpenter.top.text import (
    GREY,
    NO_DECISIONS,
    NO_NODES,
    decision_table,
    last_line,
    node_table,
    pending_table,
    stay_table,
    summary,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.top.snapshot import TopOptions, TopSnapshot
    from karpenter.top.table import TableData

VIEWS: Final = ("nodes", "stays", "pending", "decisions")
"""What the screen lists, in the order of its key."""

_PENDING_SHOWN: Final = 3
_TALL: Final = 40
"""Lines from which on more pods that wait are shown below the nodes."""

_MOST_DOTS: Final = 10
_TEXTS: Final = frozenset({"name", "pool", "zone", "type"})
"""What is sorted from A to Z; figures begin with the largest."""

HELP: Final = (
    ("←/→ h/l pgup/pgdn", "previous and next page"),
    ("home end", "first and last page"),
    ("tab v", "nodes, why they stay, pods that wait, last decisions"),
    ("s", "sort by the next column"),
    ("r", "turn the order round"),
    ("/", "show only nodes with these words"),
    ("?", "this help"),
    ("q esc ctrl+c", "quit"),
)


class TopFrame:
    """The state of the screen, and how it looks."""

    def __init__(self, options: TopOptions) -> None:
        self.options = options
        self.view = VIEWS[0]
        self.page = self.pages = 0
        self.words = ""
        self.is_helping = self.is_typing = False

    def turn(self, pages: int) -> None:
        self.page = max(0, min(self.page + pages, self.pages - 1))

    def next_view(self) -> None:
        self.view = VIEWS[(VIEWS.index(self.view) + 1) % len(VIEWS)]
        self.page = 0

    def next_sort(self) -> None:
        by = self.options.order.by
        following = SORTS[(SORTS.index(by) + 1) % len(SORTS)] if by in SORTS else SORTS[0]
        self._sort(NodeSort(following, following not in _TEXTS))

    def reverse(self) -> None:
        order = self.options.order
        self._sort(NodeSort(order.by, not order.descending))

    def _sort(self, order: NodeSort) -> None:
        self.options = msgspec.structs.replace(self.options, order=order)

    def type(self, key: str, character: str | None) -> None:
        """Take a key while words are typed."""
        if key == "enter":
            self.is_typing = False
        elif key == "backspace":
            self.words = self.words[:-1]
        elif character is not None and character.isprintable():
            self.words += character
        self.page = 0

    def back(self) -> bool:
        """Leave the help, or drop the words that were typed; return False where there are neither."""
        if self.is_helping:
            self.is_helping = False
        elif self.is_typing or self.words:
            self.is_typing, self.words = False, ""
        else:
            return False
        return True

    def draw(self, snapshot: TopSnapshot, width: int, height: int) -> RenderableType:
        if self.is_helping:
            lines = [Text.assemble((f"{keys:<20}", "bold"), told) for keys, told in HELP]
            return Group(Text("karpenter top", "bold"), Text(""), *lines)
        room = height - len(self.options.resources) - 1 - 2
        if self.view == "nodes":
            body = self._nodes(snapshot, width, room)
        elif self.view == "stays":
            body = self._listed(stay_table(snapshot), NO_NODES, width, room)
        elif self.view == "pending":
            body = self._listed(pending_table(snapshot.pending), "No pod waits.", width, room)
        else:
            body = self._listed(decision_table(snapshot), NO_DECISIONS, width, room)
        head = summary(snapshot, self.options, width)
        return Group(head, *body, self._dots(), self._footer(snapshot, width))

    def _nodes(self, snapshot: TopSnapshot, width: int, room: int) -> Sequence[RenderableType]:
        """Return a page of nodes, with the first pods that wait and the last decision below."""
        waiting = snapshot.pending[: _PENDING_SHOWN if room < _TALL else 3 * _PENDING_SHOWN]
        below: list[RenderableType] = [last_line(snapshot)]
        if waiting:
            below = [Text(""), pending_table(waiting, cut=True).table(width, heading=False), *below]
        if not snapshot.rows:
            self._turn_to(0, 0)
            return Text(""), Text(NO_NODES), *below
        room -= len(waiting) + bool(waiting) + 1
        rows = self._paged(snapshot.rows, (room - 1) // len(self.options.resources))
        table = node_table(rows, self.options, width, now=snapshot.now, advice=snapshot.advice)
        return table, *below

    def _listed(self, data: TableData, empty: str, width: int, room: int) -> Sequence[RenderableType]:
        """Return the page of a list that is shown, or what is said of an empty one."""
        pages = data.pages(width, room - 1) if data.rows else []
        self._turn_to(self.page, len(pages))
        return (pages[self.page].table(width),) if pages else (Text(""), Text(empty))

    def _paged(self, rows: Sequence[NodeRow], most: int) -> Sequence[NodeRow]:
        """Return the nodes of the page that is shown, of which so many fit."""
        most = max(most, 1)
        self._turn_to(self.page, -(-len(rows) // most))
        return rows[self.page * most : (self.page + 1) * most]

    def _turn_to(self, page: int, pages: int) -> None:
        self.pages = pages
        self.page = max(0, min(page, pages - 1))

    def _dots(self) -> Text:
        if self.pages > _MOST_DOTS:
            return Text(f"page {self.page + 1}/{self.pages}", GREY)
        return Text("".join("•" if page == self.page else "·" for page in range(self.pages)), GREY)

    def _footer(self, snapshot: TopSnapshot, width: int) -> Text:
        if self.is_typing:
            return Text(f"/{self.words}█  enter: keep • esc: clear", GREY)
        words = f" • filter: {self.words}" if self.words else ""
        note = f" • {printable(snapshot.notes[0])}" if snapshot.notes else ""
        keys = f"←/→ page • q: quit • ?: help • tab: {self.view} • s: {self.options.order}"
        line = Text(f"{keys}{words}{note}", GREY, no_wrap=True)
        line.truncate(width, overflow="ellipsis")
        return line
