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
from karpenter.top.snapshot import costs
from karpenter.top.text import (
    GREY,
    NO_DECISIONS,
    NO_NODES,
    cost_table,
    decision_table,
    last_line,
    node_table,
    pending_table,
    stay_table,
    summary,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from karpenter.top.pending import PendingPod
    from karpenter.top.snapshot import TopOptions, TopSnapshot
    from karpenter.top.table import TableData

VIEWS: Final = ("nodes", "stays", "pending", "decisions", "costs")
"""What the screen lists, in the order of its key."""

_PENDING_SHOWN: Final = 3
"""Lines below the nodes that pods that wait have at least."""

_MOST_DOTS: Final = 10
_TEXTS: Final = frozenset({"name", "pool", "zone", "type"})
"""What is sorted from A to Z; figures begin with the largest."""

HELP: Final = (
    ("← → h l pgup pgdn", "previous and next page"),
    ("home end", "first and last page"),
    ("tab v", "the next list: nodes, reasons, waiting, decisions, costs"),
    ("1 2 3 4 5", "one of these lists"),
    ("s", "sort by the next column"),
    ("r", "turn the order round"),
    ("/", "show only nodes with the words that follow"),
    ("", "  enter keeps them, backspace takes a letter, esc drops them"),
    ("?", "this help, and back"),
    ("q ctrl+c", "quit"),
    ("esc", "leave the help, drop the words, or quit"),
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

    def list_view(self, number: int) -> None:
        self.view = VIEWS[number - 1]
        self.page = 0
        self.is_helping = False

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
            lines = [
                Text.assemble((f"{keys:<20}", "bold"), told, no_wrap=True, overflow="ellipsis")
                for keys, told in HELP
            ]
            return Group(Text("karpenter top", "bold"), Text(""), *lines)
        room = height - len(self.options.resources) - 1 - 2
        if self.view == "nodes":
            body = self._nodes(snapshot, width, room)
        elif self.view == "stays":
            body = self._listed(stay_table(snapshot), NO_NODES, width, room)
        elif self.view == "pending":
            body = self._listed(pending_table(snapshot.pending), "No pod waits.", width, room)
        elif self.view == "decisions":
            body = self._listed(decision_table(snapshot), NO_DECISIONS, width, room)
        elif self.options.pricing:
            data = cost_table(costs(snapshot, self.options), snapshot.currency)
            body = self._listed(data, NO_NODES, width, room)
        else:
            body = Text(""), Text("Prices are turned off.")
        head = summary(snapshot, self.options, width)
        return Group(head, *body, self._dots(), self._footer(snapshot, width))

    def _nodes(self, snapshot: TopSnapshot, width: int, room: int) -> Sequence[RenderableType]:
        """Return a page of nodes; below it what waits, reasons where there is room, and the last decision."""
        waiting = min(len(snapshot.pending), _PENDING_SHOWN)
        most = (room - waiting - bool(waiting) - 2) // len(self.options.resources)
        rows = self._paged(snapshot.rows, most) if snapshot.rows else ()
        if rows:
            table = node_table(rows, self.options, width, now=snapshot.now, advice=snapshot.advice)
            taken: Sequence[RenderableType] = (table,)
            room -= 1 + len(rows) * len(self.options.resources)
        else:
            self._turn_to(0, 0)
            taken = Text(""), Text(NO_NODES)
            room -= 2
        return *taken, *self._below(snapshot, width, room)

    def _below(self, snapshot: TopSnapshot, width: int, room: int) -> Iterator[RenderableType]:
        """Yield what is below the nodes in so many lines: whole sentences where they fit, else causes."""
        room -= 1
        if snapshot.pending:
            shown = _fitting(snapshot.pending, width, room - 1)
            room -= sum(shown.heights(width)) + 1
            yield Text("")
            yield shown.table(width, heading=False)
        reasons = stay_table(snapshot) if snapshot.advice is not None and snapshot.rows else None
        if reasons is not None and sum(reasons.heights(width)) + 2 <= room:
            yield Text("")
            yield reasons.table(width)
        yield last_line(snapshot)

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


def _fitting(pods: Sequence[PendingPod], width: int, room: int) -> TableData:
    """Return the table of pods that wait with as much of their reasons as fits so many lines."""
    for detail in ("sentence", "cause"):
        found = pending_table(pods, detail=detail, heading=False)
        if sum(found.heights(width)) <= room:
            return found
    return pending_table(pods[:room], detail="line", heading=False)
