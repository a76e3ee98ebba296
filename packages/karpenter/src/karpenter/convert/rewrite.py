"""
Writing a changed document over the text of the old one, so that comments, quotes and order stay.

What is equal in both is copied line by line, moved to its new indentation; only what differs is written anew.
A comment above a field belongs to that field and moves with it. Knows YAML and nothing of Kubernetes.
The result is read back: should it not say what it has to, it is written without the old text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml
from yaml.events import AliasEvent
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from karpenter.api.manifests import read_documents, render_documents
from karpenter.api.meta import InvalidObject
from karpenter.convert.findings import NewDocument, Path, at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


_MARKER: Final = re.compile(r"---(?:[ \t]+|$)")
_DASH: Final = re.compile(r"^ *- +$")
_STEP: Final = 2


class TextSegment(msgspec.Struct, frozen=True, kw_only=True):
    """One document of a text, with the marker that separates it from the one before."""

    separator: str = ""
    body: str = ""
    line: int = 0
    """How many lines of the text come before the body."""


def split_documents(text: str) -> list[TextSegment]:
    """
    Return the documents of a text; joined they are the text.

    Three dashes at the beginning of a line always end a document, and the next one may begin on that line:
    https://yaml.org/spec/1.2.2/#912-document-markers
    """
    found: list[TextSegment] = []
    separator, body, begun = "", "", 0
    for number, line in enumerate(text.splitlines(keepends=True)):
        marker = _MARKER.match(line.rstrip("\r\n"))
        if marker is None:
            body += line
            continue
        found.append(TextSegment(separator=separator, body=body, line=begun))
        separator, body, begun = marker[0], line[marker.end() :], number
        if not body.strip() or body.startswith("#"):
            separator, body, begun = line, "", number + 1
    return [*found, TextSegment(separator=separator, body=body, line=begun)]


def rewrite(body: str, old: Any, new: Sequence[NewDocument]) -> str:
    """Return the text of documents that take the place of one, with as much of its text as still holds."""
    plains = [each.plain for each in new]
    text = _OldText(body, old) if _is_rewritable(body) else None
    if text is None:
        return render_documents(plains)
    parts = []
    for number, each in enumerate(new):
        writer = _Writer(text, each.moves, offset=text.offset)
        lines = writer.mapping(each.plain, (), () if number == 0 else None, 0)
        parts.append("".join(f"{line}\n" for line in lines))
    written = text.header + "---\n".join(parts) + text.footer
    return written if _says(written, plains) else render_documents(plains)


def _is_rewritable(body: str) -> bool:
    if body.lstrip()[:1] in {"{", "["} or "\t" in body or "\r" in body:
        return False
    try:
        return not any(isinstance(event, AliasEvent) for event in yaml.parse(body, Loader=yaml.CSafeLoader))
    except yaml.YAMLError:
        return False


def _says(text: str, plains: list[Any]) -> bool:
    try:
        found = list(read_documents(text, source=""))
    except InvalidObject:
        return False
    return _same(found, plains)


def _same(one: Any, other: Any) -> bool:
    """Say whether two values are equal in JSON, where 1 is not true."""
    return msgspec.json.encode(one) == msgspec.json.encode(other)


class _Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a field or an item stands in the old text."""

    first: int
    last: int
    column: int
    """Where its key begins, or for an item of a list its value."""

    before: tuple[str, ...] = ()
    """Comments and empty lines above it."""

    tail: tuple[str, ...] = ()
    """Comments below it that are indented like its content."""

    end: str = ""
    """The comment at the end of its line, or of its value if that is a scalar."""

    flow: bool = False


class _OldText:
    """A text, and where everything stands in it."""

    def __init__(self, body: str, old: Any) -> None:
        self.lines = body.splitlines()
        self.old = old
        self.places: dict[Path, _Place] = {}
        self.offset = 0
        root = yaml.compose(body, Loader=yaml.CSafeLoader)
        self.header, self.footer = "", ""
        if isinstance(root, MappingNode) and root.value:
            first = root.value[0][0].start_mark.line
            last = self._walk(root, (), first)
            self.header = "".join(f"{line}\n" for line in self.lines[:first])
            self.footer = "".join(f"{line}\n" for line in self.lines[last + 1 :])

    def _walk(self, node: Node, path: Path, above: int) -> int:
        """Note where the members of a node stand, which begins at line `above`; return its last line."""
        if _is_inline(node):
            return self._last(node)
        members = list(self._members(node))
        if any(column < 0 for *_, column in members):
            return max((self._last(value) for _, value, *_ in members), default=node.start_mark.line)
        if isinstance(node, SequenceNode) and path in self.places and members:
            dash = len(self.lines[members[0][2]]) - len(self.lines[members[0][2]].lstrip())
            self.offset = max(0, min(_STEP, dash - self.places[path].column))
        last = above - 1
        for number, (key, value, first, column) in enumerate(members):
            below = (*path, key)
            gap = self.lines[last + 1 : first] if number else self.lines[above:first]
            dash = len(self.lines[first]) - len(self.lines[first].lstrip())
            tail = _tail_of(gap, dash) if number else 0
            if tail:
                previous = (*path, members[number - 1][0])
                kept = msgspec.structs.replace(self.places[previous], tail=tuple(gap[:tail]))
                self.places[previous] = kept
            place = _Place(
                first=first,
                last=first,
                column=column,
                before=tuple(gap[tail:]),
                end=self._end(value, first),
                flow=_is_inline(value) and not isinstance(value, ScalarNode),
            )
            self.places[below] = place
            inner = value.start_mark.line if value.start_mark.line == first else first + 1
            last = max(first, self._walk(value, below, inner))
            self.places[below] = msgspec.structs.replace(self.places[below], last=last)
        return last

    def _members(self, node: Node) -> Iterator[tuple[str | int, Node, int, int]]:
        if isinstance(node, MappingNode):
            for key, value in node.value:
                yield key.value, value, key.start_mark.line, key.start_mark.column
        elif isinstance(node, SequenceNode):
            for number, item in enumerate(node.value):
                line, column = item.start_mark.line, item.start_mark.column
                yield number, item, line, column if _DASH.match(self.lines[line][:column]) else -1

    def _last(self, node: Node) -> int:
        if isinstance(node, ScalarNode) and node.style in {"|", ">"}:
            return self._block_end(node)
        if isinstance(node, ScalarNode) and not node.value and node.style is None:
            return node.start_mark.line
        end = node.end_mark
        if _is_inline(node):
            return end.line if end.column else end.line - 1
        return max((self._last(value) for _, value, *_ in self._members(node)), default=node.start_mark.line)

    def _block_end(self, node: ScalarNode) -> int:
        """Return the last line of a block scalar: it goes on as long as lines are indented like its first."""
        start = node.start_mark.line
        keeps = "+" in self.lines[start][node.start_mark.column :].partition("#")[0]
        indent, last = -1, start
        for number in range(start + 1, len(self.lines)):
            line = self.lines[number]
            if not line.strip():
                last = number if keeps else last
                continue
            own = len(line) - len(line.lstrip())
            if indent < 0:
                if own <= len(self.lines[start]) - len(self.lines[start].lstrip(" -")) - 1:
                    break
                indent = own
            if own < indent:
                break
            last = number
        return last

    def _end(self, value: Node, first: int) -> str:
        """Return the comment behind a field, on the line of its key or at the end of its value."""
        if isinstance(value, ScalarNode) and value.style in {"|", ">"}:
            return ""
        if _is_inline(value) and (value.end_mark.column or not getattr(value, "value", "")):
            rest = self.lines[value.end_mark.line][value.end_mark.column :] if value.end_mark.column else ""
        else:
            _, _, rest = self.lines[first].partition(":")
            if value.start_mark.line == first:
                return ""
        return rest.strip() if rest.strip().startswith("#") else ""


def _is_inline(node: Node) -> bool:
    return isinstance(node, ScalarNode) or bool(getattr(node, "flow_style", False))


def _tail_of(gap: list[str], column: int) -> int:
    """Return how many of the lines between two fields belong to the first."""
    deeper = [n for n, line in enumerate(gap) if line.strip() and len(line) - len(line.lstrip()) > column]
    return deeper[-1] + 1 if deeper else 0


class _Writer:
    """Writes one document."""

    def __init__(self, text: _OldText, moves: Mapping[Path, Path], *, offset: int) -> None:
        self._text, self._moves, self._offset = text, moves, offset

    def mapping(self, plain: dict[str, Any], path: Path, old: Path | None, indent: int) -> list[str]:
        lines: list[str] = []
        for key, value in plain.items():
            below = (*path, key)
            source = self._moves.get(below, (*old, key) if old is not None else None)
            lines += self._field(key, value, below, source, indent)
        return lines

    def _field(self, key: str, value: Any, path: Path, old: Path | None, indent: int) -> list[str]:
        place = self._text.places.get(old) if old is not None else None
        if place is None or old is None:
            return self._anew(key, value, path, old, indent, "")
        lines = (
            [] if old == next(iter(self._text.places), None) else _moved(place.before, place.column, indent)
        )
        if _same(at(self._text.old, old), value):
            copied = self._copied(place, indent)
            if old[-1] != key:
                name = render_documents([{key: None}]).partition(": null")[0]
                _, colon, rest = copied[0].partition(":")
                copied[0] = f"{' ' * indent}{name}{colon}{rest}"
            return lines + copied + list(_moved(place.tail, place.column, indent))
        lines += self._anew(key, value, path, old, indent, place.end, flow=place.flow)
        return lines + list(_moved(place.tail, place.column, indent))

    def _copied(self, place: _Place, indent: int) -> list[str]:
        first, *rest = self._text.lines[place.first : place.last + 1]
        return [" " * indent + first[place.column :], *_moved(rest, place.column, indent)]

    def _anew(  # noqa: PLR0917  what a field is, and where
        self, key: str, value: Any, path: Path, old: Path | None, indent: int, end: str, *, flow: bool = False
    ) -> list[str]:
        comment = f"  {end}" if end else ""
        name = render_documents([{key: None}]).partition(": null")[0]
        head = f"{' ' * indent}{name}:"
        if isinstance(value, dict) and value:
            return [head + comment, *self.mapping(value, path, old, indent + _STEP)]
        if isinstance(value, list) and value:
            if flow and not any(isinstance(each, dict | list) for each in value):
                return [f"{head} {_flow(value)}{comment}"]
            return [head + comment, *self._sequence(value, path, old, indent + self._offset)]
        lines = render_documents([{key: value}]).splitlines()
        if len(lines) == 1:
            lines[0] += comment
        return [f"{' ' * indent}{line}".rstrip() for line in lines]

    def _sequence(self, values: list[Any], path: Path, old: Path | None, indent: int) -> list[str]:
        before = at(self._text.old, old) if old is not None else None
        matched = _matched(values, before if isinstance(before, list) else [])
        lines: list[str] = []
        for number, (value, source) in enumerate(zip(values, matched, strict=True)):
            place = self._text.places.get((*old, source)) if old is not None and source is not None else None
            if place is not None:
                lines += _moved(place.before, place.column - _STEP, indent)
            if place is not None and _same(before[source], value):  # type: ignore[index]
                item = self._copied(place, indent + _STEP)
            elif isinstance(value, dict) and value:
                below = (*old, source) if old is not None and source is not None else None
                item = self.mapping(value, (*path, number), below, indent + _STEP)
            else:
                item = [f"{' ' * indent}{line}" for line in render_documents([[value]]).splitlines()]
                lines += item
                continue
            item = [line for line in item if line.strip()]
            lines += [f"{' ' * indent}- {item[0].lstrip()}", *item[1:]]
            if place is not None:
                lines += _moved(place.tail, place.column, indent + _STEP)
        return lines


def _matched(values: list[Any], old: list[Any]) -> list[int | None]:
    """Return for every item which old one it was: an equal one, else the one in its place if that is free."""
    equal: dict[int, int] = {}
    for number, value in enumerate(values):
        for source, each in enumerate(old):
            if source not in equal.values() and _same(each, value):
                equal[number] = source
                break
    taken = set(equal.values())
    return [
        equal.get(number, number if number < len(old) and number not in taken else None)
        for number in range(len(values))
    ]


def _moved(lines: Sequence[str], column: int, indent: int) -> list[str]:
    found = []
    for line in lines:
        own = len(line) - len(line.lstrip())
        found.append(" " * max(0, own - column + indent) + line.lstrip() if line.strip() else "")
    return found


def _flow(values: list[Any]) -> str:
    return ", ".join(render_documents([[value]]).splitlines()[0].removeprefix("- ") for value in values).join(
        "[]"
    )
