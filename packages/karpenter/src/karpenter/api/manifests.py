"""
Manifests: YAML or JSON text to objects as an API server stores them, and plain data to YAML.

A text may hold several documents and lists. ``null`` counts as absent. Objects without a namespace are in
``default`` if their kind is namespaced. A document that cannot be read is an :class:`InvalidObject` that
names it; nothing else is raised.

YAML is read as Kubernetes reads it, by way of JSON: timestamps stay text, ``1e3`` is a number, ``1:30`` is
not, keys are text and occur once. Anchors may not expand to much more than the text itself, nor contain
themselves; a limit that is passed is a :class:`YAMLOverLimit`. JSON is YAML, so both are read the same way.
Written YAML has no anchors and keeps the order of keys.

Only shapes are checked here. Constraints and rules are checked by :mod:`.validation`.
"""

from __future__ import annotations

import math
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from karpenter.api.kinds import KINDS
from karpenter.api.meta import MAX_DEPTH, InvalidObject, convert, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from yaml.events import (
        Event,
    )

    from karpenter.api.meta import Resource


_TAG = "tag:yaml.org,2002:"
_MAX_EXPANSION = 100_000
"""How many values anchors may stand for, beyond those that the text itself has room for."""

_LINE_WIDTH = 110

_TRUE = re.compile(r"true|True|TRUE|yes|Yes|YES|on|On|ON")
_FALSE = re.compile(r"false|False|FALSE|no|No|NO|off|Off|OFF")
_NULL = re.compile(r"~|null|Null|NULL|")
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*|0o?[0-7]+|0x[0-9a-fA-F]+|0b[01]+)")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_LONGEST_NUMBER = 1000
_LONGEST_TAG = 40


class YAMLOverLimit(InvalidObject):
    """A text whose anchors stand for too many values, or which is nested too deep."""


class _UnreadableError(ValueError):
    """What cannot be read, and where."""

    refusal: type[InvalidObject] = InvalidObject

    def __init__(self, problem: str, mark: Any) -> None:
        super().__init__(problem)
        self.problem = problem
        self.problem_mark = mark


class _OverLimitError(_UnreadableError):
    """What is larger than a document may be, and where."""

    refusal = YAMLOverLimit


def read_document(text: str, *, source: str) -> Any:
    """
    Return the first document of a text as plain data; None if all are empty.

    Raises:
        InvalidObject: naming `source`, the line, and what cannot be read.
    """
    return next(read_documents(text, source=source), None)


def read_documents(text: str, *, source: str, repeated: list[str] | None = None) -> Iterator[Any]:
    """
    Yield the documents of a text as plain data; empty ones are left out.

    With `repeated`, a key may occur more than once: the last one counts, and a sentence for each is added.

    Raises:
        InvalidObject: naming `source`, the line, and what cannot be read.
    """
    if text.lstrip()[:1] in {"{", "["}:
        try:
            document = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            pass  # not JSON alone: perhaps YAML in braces, or several documents
        else:
            yield document
            return
    events = _events(text, source)
    for event in events:
        if isinstance(event, DocumentStartEvent):
            budget = len(text) + _MAX_EXPANSION
            document = _Reader(events, budget=budget, repeated=repeated).read(source)
            if document is not None:
                yield document


def _events(text: str, source: str) -> Iterator[Event]:
    """Yield what the parser sees, until the text ends or makes no sense."""
    try:
        yield from yaml.parse(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, UnicodeError) as error:
        raise _refusal(error, source) from error


def _refusal(error: Exception, source: str) -> InvalidObject:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    place = f"line {mark.line + 1}" if mark is not None else ""
    kind = error.refusal if isinstance(error, _UnreadableError) else InvalidObject
    return kind(subject=source, field=place, problem=f"not YAML: {' '.join(str(problem).split())}")


class _Anchored(msgspec.Struct, frozen=True):
    """What an anchor stands for."""

    value: Any
    size: int
    """How many values it is."""

    height: int
    """How many levels are below its first."""


class _Reader:
    """Builds one document from what the parser sees."""

    def __init__(self, events: Iterator[Event], *, budget: int, repeated: list[str] | None) -> None:
        self._events = events
        self._budget = budget
        self._repeated = repeated
        self._anchors: dict[str, _Anchored] = {}
        self._least = MAX_DEPTH
        """The least depth that was left anywhere in the value that is being read."""

    def read(self, source: str) -> Any:
        """Return the document that has just begun."""
        try:
            return self._value(next(self._events), MAX_DEPTH)
        except _UnreadableError as error:
            raise _refusal(error, source) from error

    def _value(self, event: Event, depth: int) -> Any:
        self._descend(depth, event)
        before, outside = self._budget, self._least
        self._least = depth
        self._spend(1, event)
        match event:
            case AliasEvent(anchor=anchor):
                if anchor not in self._anchors:
                    raise _UnreadableError(f"*{anchor} stands for nothing yet", event.start_mark)
                held = self._anchors[anchor]
                self._spend(held.size, event)
                self._descend(depth - held.height, event)
                self._least = min(outside, depth - held.height)
                return held.value
            case ScalarEvent():
                value = _scalar(event)
            case SequenceStartEvent():
                value = self._sequence(event, depth)
            case MappingStartEvent():
                value = self._mapping(event, depth)
            case _:
                raise _UnreadableError("a value is missing", event.start_mark)
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(value, before - self._budget, depth - self._least)
        self._least = min(outside, self._least)
        return value

    def _descend(self, depth: int, event: Event) -> None:
        if depth <= 0:
            raise _OverLimitError("nested too deep", event.start_mark)

    def _spend(self, size: int, event: Event) -> None:
        self._budget -= size
        if self._budget < 0:
            raise _OverLimitError("too many values", event.start_mark)

    def _sequence(self, start: SequenceStartEvent, depth: int) -> list[Any]:
        _refuse_tags(start, "seq")
        items = []
        for event in self._events:
            if isinstance(event, SequenceEndEvent):
                break
            items.append(self._value(event, depth - 1))
        return items

    def _mapping(self, start: MappingStartEvent, depth: int) -> dict[str, Any]:
        _refuse_tags(start, "map")
        entries: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for event in self._events:
            if isinstance(event, MappingEndEvent):
                break
            if not isinstance(event, ScalarEvent):
                raise _UnreadableError("a key must be text", event.start_mark)
            value = self._value(next(self._events), depth - 1)
            if event.value == "<<" and event.implicit[0]:
                merged |= _merged(value, event)
            else:
                if event.value in entries:
                    self._repeat(event)
                entries[event.value] = value
        return {**merged, **entries} if merged else entries

    def _repeat(self, key: ScalarEvent) -> None:
        if self._repeated is None:
            raise _UnreadableError(f"the key {key.value!r} occurs twice", key.start_mark)
        mark: Any = key.start_mark
        self._repeated.append(f'line {mark.line + 1}: key "{key.value}" already set in map')


def _refuse_tags(event: Any, allowed: str) -> None:
    if event.tag not in {None, "!", f"{_TAG}{allowed}"}:
        raise _UnreadableError(f"{_shown(event.tag)} is nothing that JSON has", event.start_mark)


def _shown(tag: str) -> str:
    return tag.replace(_TAG, "!!")[:_LONGEST_TAG]


def _merged(value: Any, event: Event) -> dict[str, Any]:
    """Return what ``<<`` adds: a map, or several of which the first wins."""
    maps = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) for each in maps):
        raise _UnreadableError("<< needs a map", event.start_mark)
    return {key: member for each in reversed(maps) for key, member in each.items()}


def _scalar(event: ScalarEvent) -> Any:
    if event.tag in {None, "!"}:
        return _resolve(event.value, event) if event.implicit[0] else event.value
    kind = event.tag.removeprefix(_TAG)
    value = event.value if kind == "str" else _resolve(event.value, event)
    if kind in _TYPES and isinstance(value, _TYPES[kind]):
        return value
    raise _UnreadableError(f"the value has the tag {_shown(event.tag)} but is none", event.start_mark)


_TYPES: Mapping[str, Any] = MappingProxyType(
    {"str": str, "int": int, "float": int | float, "bool": bool, "null": type(None)}
)


def _resolve(text: str, event: Event) -> Any:
    """Return what a word without quotes stands for."""
    for pattern, construct in _PLAIN:
        if pattern.fullmatch(text):
            if len(text) > _LONGEST_NUMBER:
                raise _UnreadableError("a number is too long", event.start_mark)
            return construct(text)
    return text


def _to_int(text: str) -> int:
    digits = text.lstrip("+-").lower()
    sign = -1 if text.startswith("-") else 1
    if digits.startswith(("0x", "0b", "0o")):
        return sign * int(digits, 0)
    return sign * int(digits, 8 if digits.startswith("0") and len(digits) > 1 else 10)


def _to_float(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


_PLAIN: tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...] = (
    (_NULL, lambda _: None),
    (_TRUE, lambda _: True),
    (_FALSE, lambda _: False),
    (_INT, _to_int),
    (_FLOAT, _to_float),
)


class _Dumper(yaml.CSafeDumper):
    """Writes every value where it belongs, and texts of several lines as such."""

    def ignore_aliases(self, data: object) -> bool:
        """Write a value as often as it occurs."""
        del data
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(f"{_TAG}str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_implicit_resolver(f"{_TAG}float", re.compile(rf"^(?:{_FLOAT.pattern})$"), list("-+0123456789."))
_Dumper.add_implicit_resolver(f"{_TAG}int", re.compile(rf"^(?:{_INT.pattern})$"), list("-+0123456789"))


def render_documents(documents: list[Any]) -> str:
    """Return plain data as YAML, one document each."""
    return yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=_LINE_WIDTH,
        explicit_start=len(documents) > 1,
    )


DEFAULT_NAMESPACE: Final = "default"


class Document(msgspec.Struct, frozen=True):
    """One object of a text, as plain data."""

    source: str
    """The file, and which document of it when there are several."""

    plain: dict[str, Any]

    @property
    def identity(self) -> tuple[str, str]:
        """The apiVersion and kind."""
        return str(self.plain.get("apiVersion", "")), str(self.plain.get("kind", ""))

    @property
    def subject(self) -> str:
        """How the object is called in messages."""
        return name_of(self.plain)


def documents(text: str, source: str) -> Iterator[Document]:
    """
    Yield every object of a text.

    Raises:
        InvalidObject: naming the place that cannot be read.
    """
    for found in documents_or_refusals(text, source):
        if isinstance(found, InvalidObject):
            raise found
        yield found


def documents_or_refusals(text: str, source: str) -> Iterator[Document | InvalidObject]:
    """Yield every object of a text, and in its place why something is none."""
    found: list[object] = []
    refusal: InvalidObject | None = None
    try:
        found.extend(read_documents(text, source=source))
    except InvalidObject as error:
        refusal = error
    alone = len(found) == 1 and refusal is None
    for number, plain in enumerate(found, start=1):
        yield from _opened(plain, source if alone else f"{source}#{number}")
    if refusal is not None:
        yield refusal


def _opened(plain: object, place: str) -> Iterator[Document | InvalidObject]:
    if not isinstance(plain, dict) or not all(
        isinstance(plain.get(name), str) and plain[name] for name in ("apiVersion", "kind")
    ):
        yield InvalidObject(subject=place, problem="is not a Kubernetes object: it needs apiVersion and kind")
        return
    kind, items = plain["kind"], plain.get("items")
    if kind.endswith("List") and isinstance(items, list):
        for number, item in enumerate(items):
            yield from _opened(item, f"{place}[{number}]")
        return
    yield Document(place, plain)


def read_object(document: Document) -> Resource | None:
    """
    Return a document as one of the kinds we know; None for any other kind.

    Raises:
        InvalidObject: naming the object, the field and what is allowed.
    """
    kind = KINDS.get(document.identity)
    if kind is None:
        return None
    found = convert(document.plain, kind.struct, subject=document.subject)
    if not found.metadata.name and not found.metadata.generate_name:
        raise InvalidObject(subject=document.subject, field="metadata.name", problem="is required")
    if kind.namespaced and not found.metadata.namespace:
        meta = msgspec.structs.replace(found.metadata, namespace=DEFAULT_NAMESPACE)
        return msgspec.structs.replace(found, metadata=meta)
    return found
