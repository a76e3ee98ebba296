"""
YAML in block style, as kubectl, Helm and Kustomize write it: a reader of lines, faster than libyaml.

The lines of manifests repeat themselves, so what a line says is kept by its text. Only scalars that begin
and end on one line are read here, with ``{}`` and ``[]``. Any other value, with the lines that are indented
deeper than its key, goes to the reader of all YAML that the caller gives. What does not fit is never
explained here: it is :class:`NotBlockYAML`, and the caller reads the document again with its other reader,
which knows whether that is an error, and which.

So this module decides nothing about YAML that libyaml would decide in another way. It is no deeper than
``_DEEPEST`` and keeps no more than ``_MOST_LINES`` lines.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DEEPEST: Final = 64
_MOST_LINES: Final = 16_384
_LONGEST_LINE: Final = 200
"""How long a line may be that is kept; most longer ones occur once."""

_LONGEST_SCALAR: Final = 1000
_LONGEST_KEY: Final = 500
"""libyaml allows 1024 characters, https://yaml.org/spec/1.1/#id872840"""

# Line breaks of YAML other than the line feed, a byte order mark and what may not occur are for libyaml.
_ASCII: Final = bytes([0x09, 0x0A, *range(0x20, 0x7F)])
_OTHER: Final = re.compile(
    r"[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)

_SKIP, _ENTRY, _ITEM, _ITEM_ENTRY, _BARE = range(5)
"""A line without content, ``key: value``, ``- value``, ``- key: value``, and any other."""

_SCALAR, _ABSENT, _EMPTY_MAP, _EMPTY_LIST, _OTHERWISE = range(5)
"""What a value is."""

_START: Final = re.compile(r"---(?=[ \t\n]|\Z)")
_NEXT_START: Final = re.compile(r"\n---(?=[ \t\n]|\Z)")
_KEY: Final = re.compile(
    r"""([A-Za-z0-9_/](?:[A-Za-z0-9_./-]|:(?![ ]|\Z))*|"[^"\\\t]*"|'[^'\t]*'):(?:[ ]|\Z)""", re.VERBOSE
)
_DOUBLE_QUOTED: Final = re.compile(r'"[^"\\\t]*"')
_SINGLE_QUOTED: Final = re.compile(r"'(?:[^'\t]|'')*'")
_QUOTES: Final = frozenset("\"'")
_EMPTY: Final = MappingProxyType({"{}": _EMPTY_MAP, "[]": _EMPTY_LIST})
_INDICATORS: Final = frozenset(",[]{}#&*!|>%@`")
"""How no scalar without quotes begins, https://yaml.org/spec/1.1/#id869221"""


class NotBlockYAML(ValueError):  # noqa: N818  it may be YAML: no error
    """A text that this reader does not know; it may be YAML or not."""


class _Line(NamedTuple):
    """Content of one line, read without its neighbours."""

    kind: int
    column: int = 0
    """Where the dash or the key is."""

    inner: int = 0
    """Where the key is, behind the dash."""

    key: str = ""
    form: int = _OTHERWISE
    value: Any = None


_NOTHING: Final = _Line(_SKIP)


def is_ordinary(text: str) -> bool:
    """Return whether a text holds only characters, and line breaks, that mean the same to both readers."""
    if text.isascii():
        return not text.encode().translate(None, _ASCII)
    return _OTHER.search(text) is None


def split_documents(text: str) -> Iterator[tuple[int, str]]:
    """Yield where each document begins, and its text; the first may be empty."""
    start = 0
    while True:
        found = _NEXT_START.search(text, start)
        if found is None:
            yield start, text[start:]
            return
        yield start, text[start : found.start() + 1]
        start = found.start() + 1


class BlockReader:
    """Reads documents of one text; `scalar` says what a word means, `whole` reads a piece of any YAML."""

    def __init__(self, scalar: Callable[[str], Any], whole: Callable[[str], Any]) -> None:
        self._scalar = scalar
        self._whole = whole
        self._known: dict[str, _Line] = {}
        self._lines: list[str] = []
        self._columns: list[int] = []
        self._holders: list[Any] = []
        self._open: str | None = None
        """The key of the innermost map whose value is in the lines to come."""

        self._last = -1
        """The line of the last entry, unless it has been read whole."""

    def read(self, text: str) -> Any:
        """
        Return a document as plain data.

        Raises:
            NotBlockYAML: it must be read in another way.
        """
        root: dict[str, Any] = {"": None}
        self._begin(root, text)
        lines = self._lines
        columns, holders, known, number = self._columns, self._holders, self._known, 0
        while number < len(lines):
            line = known.get(lines[number]) or self._look(lines[number])
            kind, column = line[0], line[1]
            if kind == _SKIP:
                number += 1
            elif kind == _BARE or (column > columns[-1] and self._open is None):
                number = self._read_again()
            else:
                dash = kind != _ENTRY
                if column != columns[-1] or self._open is not None or (type(holders[-1]) is list) is not dash:
                    self._move(column, dash=dash)
                number = self._put(number, line)
        return root[""]

    def _begin(self, root: dict[str, Any], text: str) -> None:
        """Begin a document, which is the value of the only key of `root`."""
        self._columns, self._holders, self._open, self._last = [-1], [root], "", -1
        self._lines = text.split("\n")
        if _START.match(text):
            if self._lines[0][3:].strip(" ")[:1] not in {"", "#"}:
                raise NotBlockYAML
            self._lines[0] = ""

    def _move(self, column: int, *, dash: bool) -> None:
        """Open and close maps and lists, until the innermost is that of a line at `column`."""
        columns, holders = self._columns, self._holders
        if self._open is not None and (column > columns[-1] or (dash and column == columns[-1])):
            opened: Any = [] if dash else {}
            holders[-1][self._open] = opened
            self._push(column, opened)
        self._open = None
        while column < columns[-1]:
            columns.pop()
            holders.pop()
        if not dash and type(holders[-1]) is list:
            columns.pop()  # a list may begin in the column of its key
            holders.pop()
        if columns[-1] != column or (type(holders[-1]) is list) is not dash:
            raise NotBlockYAML

    def _push(self, column: int, holder: Any) -> None:
        if len(self._columns) > _DEEPEST:
            raise NotBlockYAML
        self._columns.append(column)
        self._holders.append(holder)

    def _put(self, number: int, line: _Line) -> int:
        """Put what a line says where it belongs, and return the number of the line to go on with."""
        kind, _, inner, key, form, value = line
        holder = self._holders[-1]
        if kind == _ITEM_ENTRY:
            entry: dict[str, Any] = {}
            holder.append(entry)
            self._push(inner, entry)
            holder = entry
        elif kind == _ENTRY and key in holder:
            raise NotBlockYAML
        if form == _ABSENT:
            self._open = key
        elif form != _SCALAR:
            value = [] if form == _EMPTY_LIST else {}
        if kind == _ITEM:
            holder.append(value)
        else:
            holder[key] = value
        self._last = number
        return self._read_again() if form == _OTHERWISE else number + 1

    def _read_again(self) -> int:
        """Read the last entry whole, with the lines that are indented deeper."""
        number, lines = self._last, self._lines
        if number < 0:
            raise NotBlockYAML
        self._last, self._open = -1, None
        line = self._look(lines[number])
        column, end = line.inner, number + 1
        while end < len(lines) and (
            not (rest := lines[end].lstrip(" ")) or len(lines[end]) - len(rest) > column
        ):
            end += 1
        piece = "\n".join([" " * column + lines[number][column:], *lines[number + 1 : end]])
        found = self._whole(piece if end == len(lines) else f"{piece}\n")
        holder = self._holders[-1]
        if line.kind == _ITEM:
            (holder[-1],) = _expect(found, list)
        else:
            ((key, holder[line.key]),) = _expect(found, dict).items()
            assert key == line.key
        return end

    def _look(self, text: str) -> _Line:
        """Return what a line says that is not known yet."""
        line = self._said(text)
        if len(text) <= _LONGEST_LINE:
            if len(self._known) >= _MOST_LINES:
                self._known.clear()
            self._known[text] = line
        return line

    def _said(self, text: str) -> _Line:
        body = text.lstrip(" ")
        if not body or body[0] == "#":
            return _NOTHING
        column = len(text) - len(body)
        dash = body == "-" or body.startswith("- ")
        rest = body[1:].lstrip(" ") if dash else body
        inner = len(text) - len(rest)
        found = _KEY.match(rest)
        if found is not None and len(key := found[1]) <= _LONGEST_KEY:
            name = key[1:-1] if key[0] in _QUOTES else key
            form, value = self._value(rest[found.end() :])
            return _Line(_ITEM_ENTRY if dash else _ENTRY, column, inner, name, form, value)
        if not dash:
            return _Line(_BARE)
        form, value = self._value(rest)
        return _Line(_ITEM, column, column, "", _OTHERWISE if form == _ABSENT else form, value)

    def _value(self, text: str) -> tuple[int, Any]:
        """Return what follows a key or a dash, and its form."""
        text = text.strip(" ")
        first = text[:1]
        if first in {"", "#"}:
            return _ABSENT, None
        if text in _EMPTY:
            return _EMPTY[text], None
        if first in _QUOTES:
            if _DOUBLE_QUOTED.fullmatch(text):
                return _SCALAR, text[1:-1]
            if _SINGLE_QUOTED.fullmatch(text):
                return _SCALAR, text[1:-1].replace("''", "'")
            return _OTHERWISE, None
        comment = text.find(" #")
        if comment > 0:
            text = text[:comment].rstrip(" ")
        if (
            first in _INDICATORS
            or text[-1] == ":"
            or ": " in text
            or "\t" in text
            or len(text) > _LONGEST_SCALAR
        ):
            return _OTHERWISE, None
        if first in "-?:" and text[1:2] in {"", " "}:
            return _OTHERWISE, None
        return _SCALAR, self._scalar(text)


def _expect(found: Any, kind: type[Any]) -> Any:
    if not isinstance(found, kind) or len(found) != 1:
        raise NotBlockYAML
    return found
