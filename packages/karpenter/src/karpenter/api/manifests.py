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
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from karpenter.api.block_yaml import BlockReader, NotBlockYAML, is_ordinary, split_documents
from karpenter.api.kinds import KINDS
from karpenter.api.meta import MAX_DEPTH, InvalidObject, Resource, convert, name_of
from karpenter.base.text import escaped, is_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


_TAG = "tag:yaml.org,2002:"
_MAX_EXPANSION = 100_000
"""How many values anchors may stand for, beyond those that the text itself has room for."""

_LINE_WIDTH = 110
_OPENING = re.compile(r"\s*[{\[]")
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeError, RecursionError)

_TRUE = re.compile(r"true|True|TRUE|yes|Yes|YES|on|On|ON")
_FALSE = re.compile(r"false|False|FALSE|no|No|NO|off|Off|OFF")
_NULL = re.compile(r"~|null|Null|NULL|")
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*|0o?[0-7]+|0x[0-9a-fA-F]+|0b[01]+)")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_BEGINNINGS = frozenset("~tTfFyYnNoO0123456789+-.")
"""How a word without quotes begins that may stand for something other than itself."""

_LONGEST_NUMBER = 1000
_LONGEST_TAG = 40


class NotAnObject(InvalidObject):
    """Something that does not look like an object of Kubernetes: it has neither apiVersion nor kind."""


class YAMLOverLimit(InvalidObject):
    """A text whose anchors stand for too many values, or which is nested too deep."""


class _UnreadableError(ValueError):
    """A text that cannot be read, and where it fails."""

    refusal: type[InvalidObject] = InvalidObject

    def __init__(self, problem: str, mark: Any) -> None:
        super().__init__(problem)
        self.problem = problem
        self.problem_mark = mark


class _OverLimitError(_UnreadableError):
    """A text larger than a document may be, and where it is."""

    refusal = YAMLOverLimit


_NOT_YAML: Final = (yaml.YAMLError, UnicodeError, _UnreadableError)


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
    if _may_be_json(text):
        try:
            document = msgspec.json.decode(text)
        except _UNREADABLE:
            pass  # not JSON alone: perhaps YAML in braces, or several documents
        else:
            yield document
            return
    try:
        for document in _yaml_documents(text, repeated):
            if document is not None:
                yield document
    except _NOT_YAML as error:
        raise _refusal(error, source) from error


def _yaml_documents(text: str, repeated: list[str] | None) -> Iterator[Any]:
    """Yield the documents that are in block style, and from the first that is not on, what libyaml reads."""
    start = 0
    if is_ordinary(text):
        reader = BlockReader(_word, _read_entry)
        try:
            for start, document in split_documents(text):  # noqa: B007  where the rest begins is needed below
                yield reader.read(document)
        except NotBlockYAML:
            pass
        else:
            return
    rest = "\n" * text.count("\n", 0, start) + text[start:]  # lines keep their numbers
    yield from _libyaml_documents(rest, MAX_DEPTH, len(text) + _MAX_EXPANSION, repeated)


def _libyaml_documents(text: str, depth: int, budget: int, repeated: list[str] | None) -> Iterator[Any]:
    loader = yaml.CSafeLoader(text)
    try:
        while loader.check_event():
            if type(loader.get_event()) is DocumentStartEvent:
                yield _Reader(loader.get_event, budget=budget, repeated=repeated).read(depth)
    finally:
        loader.dispose()


def _read_entry(text: str) -> Any:
    """
    Return the only value of a text.

    It may not have more values than characters, so that all entries together stay in the budget of
    their document.
    """
    try:
        (found,) = _libyaml_documents(text, MAX_DEPTH // 2, len(text), None)
    except (*_NOT_YAML, ValueError) as error:
        raise NotBlockYAML from error
    return found


def _may_be_json(text: str) -> bool:
    return _OPENING.match(text) is not None


def _refusal(error: Exception, source: str) -> InvalidObject:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    place = f"line {mark.line + 1}" if mark is not None else ""
    kind = error.refusal if isinstance(error, _UnreadableError) else InvalidObject
    return kind(subject=source, field=place, problem=f"not YAML: {' '.join(str(problem).split())}")


class _Anchored(msgspec.Struct, frozen=True):
    """Value of an anchor."""

    value: Any
    size: int
    """How many values it is."""

    height: int
    """How many levels are below its first."""


class _Reader:
    """Builds one document from what the parser sees."""

    def __init__(self, event: Callable[[], Any], *, budget: int, repeated: list[str] | None) -> None:
        self._event = event
        self._budget = budget
        self._repeated = repeated
        self._anchors: dict[str, _Anchored] = {}
        self._least = MAX_DEPTH
        """The least depth that was left anywhere in the value that is being read."""

    def read(self, depth: int) -> Any:
        """Return the document that has just begun, which is nested no deeper than `depth`."""
        return self._value(self._event(), depth)

    def _value(self, event: Any, depth: int) -> Any:
        # Half of the time of reading is spent here, so the most frequent events come first.
        if depth <= 0 or self._budget <= 0:
            self._descend(depth, event)
            self._spend(1, event)
        before, outside = self._budget, self._least
        self._budget, self._least = before - 1, depth
        kind = type(event)
        if kind is ScalarEvent:
            value = _scalar(event)
        elif kind is MappingStartEvent:
            value = self._mapping(event, depth)
        elif kind is SequenceStartEvent:
            value = self._sequence(event, depth)
        elif kind is AliasEvent:
            return self._alias(event, depth, outside)
        else:
            raise _UnreadableError("a value is missing", event.start_mark)
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(value, before - self._budget, depth - self._least)
        self._least = min(self._least, outside)
        return value

    def _alias(self, event: Any, depth: int, outside: int) -> Any:
        if event.anchor not in self._anchors:
            raise _UnreadableError(f"*{event.anchor} stands for nothing yet", event.start_mark)
        held = self._anchors[event.anchor]
        self._spend(held.size, event)
        self._descend(depth - held.height, event)
        self._least = min(outside, depth - held.height)
        return held.value

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
        while type(event := self._event()) is not SequenceEndEvent:
            items.append(self._value(event, depth - 1))
        return items

    def _mapping(self, start: MappingStartEvent, depth: int) -> dict[str, Any]:
        _refuse_tags(start, "map")
        entries: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while type(event := self._event()) is not MappingEndEvent:
            if type(event) is not ScalarEvent:
                raise _UnreadableError("a key must be text", event.start_mark)
            key, value = event.value, self._value(self._event(), depth - 1)
            if key == "<<" and event.implicit[0]:
                merged |= _merged(value, event)
            else:
                if key in entries:
                    if self._repeated is None:
                        raise _UnreadableError(f"the key {event.value!r} occurs twice", event.start_mark)
                    mark: Any = event.start_mark
                    self._repeated.append(f'line {mark.line + 1}: key "{event.value}" already set in map')
                entries[key] = value
        return {**merged, **entries} if merged else entries


def _refuse_tags(event: Any, allowed: str) -> None:
    if event.tag is not None and event.tag not in {"!", f"{_TAG}{allowed}"}:
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
    if event.tag is None or event.tag == "!":
        text: str = event.value
        plain = event.implicit[0] and (not text or text[0] in _BEGINNINGS)
        return _resolve(text, event) if plain else text
    kind = event.tag.removeprefix(_TAG)
    value = event.value if kind == "str" else _resolve(event.value, event)
    if kind in _TYPES and isinstance(value, _TYPES[kind]):
        return value
    raise _UnreadableError(f"the value has the tag {_shown(event.tag)} but is none", event.start_mark)


_TYPES: Mapping[str, Any] = MappingProxyType(
    {"str": str, "int": int, "float": int | float, "bool": bool, "null": type(None)}
)


def _resolve(text: str, event: Event) -> Any:
    if len(text) > _LONGEST_NUMBER:
        if any(pattern.fullmatch(text) for pattern, _ in _PLAIN):
            raise _UnreadableError("a number is too long", event.start_mark)
        return text
    return _meaning(text)


def _word(text: str) -> Any:
    """Return what a word without quotes stands for that is no longer than a number may be."""
    return _meaning(text) if text[0] in _BEGINNINGS else text


@lru_cache(maxsize=4096)
def _meaning(text: str) -> Any:
    for pattern, construct in _PLAIN:
        if pattern.fullmatch(text):
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
    style = '"' if not is_plain(text) else "|" if "\n" in text else None
    return dumper.represent_scalar(f"{_TAG}str", text, style=style)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_implicit_resolver(f"{_TAG}float", re.compile(rf"^(?:{_FLOAT.pattern})$"), list("-+0123456789."))
_Dumper.add_implicit_resolver(f"{_TAG}int", re.compile(rf"^(?:{_INT.pattern})$"), list("-+0123456789"))


def render_documents(documents: list[Any]) -> str:
    return escaped(
        yaml.dump_all(
            documents,
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            width=_LINE_WIDTH,
            explicit_start=len(documents) > 1,
        )
    )


DEFAULT_NAMESPACE: Final = "default"


class _Names(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Identified(msgspec.Struct, frozen=True, rename="camel"):
    """Kind and metadata, which every object has."""

    api_version: str
    kind: str
    metadata: _Names = _Names()


class _RawItems(msgspec.Struct, frozen=True, rename="camel"):
    """A list whose items are not decoded yet."""

    api_version: str
    kind: str
    items: list[msgspec.Raw]


_IDENTIFIED: Final = msgspec.json.Decoder(_Identified)
_RAW_ITEMS: Final = msgspec.json.Decoder(_RawItems)
_DECODERS: Final = MappingProxyType(
    {identity: msgspec.json.Decoder(kind.struct) for identity, kind in KINDS.items() if not kind.ours}
)
"""
Decoders of the kinds of Kubernetes, none of which has a field that tells null from absent.

A large list of objects is decoded by them alone; a null elsewhere, and anything else that does not match,
is read again as plain data.
"""


class Document:
    """One object of a text, as plain data; an item of a JSON list is decoded when its data are asked for."""

    __slots__ = ("_names", "_plain", "bounded", "identity", "raw", "source", "subject")

    def __init__(
        self,
        source: str,
        plain: dict[str, Any] | None = None,
        *,
        raw: msgspec.Raw | None = None,
        bounded: bool = False,
    ) -> None:
        self.source = source
        """The file, and which document of it when there are several."""

        self.raw = raw
        """The JSON of the object, where it is an item of a list in JSON."""

        self.bounded = bounded or raw is not None
        """Whether it is known to be nested no deeper than an object may be, and to hold whole characters."""

        self._plain = plain
        self._names: _Names | None = None
        if raw is None:
            held = self.plain
            identity, subject = (str(held.get("apiVersion", "")), str(held.get("kind", ""))), name_of(held)
        else:
            given = _IDENTIFIED.decode(raw)
            self._names = given.metadata
            names = (given.kind, given.metadata.namespace, given.metadata.name)
            identity, subject = (given.api_version, given.kind), "/".join(filter(None, names))
        self.identity: tuple[str, str] = identity
        """The apiVersion and kind."""

        self.subject: str = subject
        """How the object is called in messages."""

    @property
    def plain(self) -> dict[str, Any]:
        if self._plain is None:
            assert self.raw is not None
            self._plain = _plain(self.raw, self.source)
        return self._plain

    @property
    def names(self) -> tuple[object, object]:
        """The namespace and the name, as far as they are given."""
        if self._names is not None:
            return self._names.namespace, self._names.name
        held = self._metadata
        return held.get("namespace"), held.get("name")

    @property
    def stored(self) -> bool:
        """Whether an API server has stored the object, as ``kubectl get`` prints it, and so validated it."""
        if self._names is not None:
            return bool(self._names.uid or self._names.resource_version)
        return bool(self._metadata.get("uid") or self._metadata.get("resourceVersion"))

    @property
    def _metadata(self) -> Mapping[str, Any]:
        found = self.plain.get("metadata")
        return found if isinstance(found, dict) else {}


def _plain(raw: msgspec.Raw, source: str) -> Any:
    try:
        return msgspec.json.decode(raw)
    except _UNREADABLE:  # a number that JSON has and no program: YAML keeps it as text
        return read_document(str(bytes(raw), "utf-8"), source=source)


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
    items = _items(text)
    if items is not None:
        for number, raw in enumerate(items):
            yield from _opened_raw(raw, f"{source}[{number}]")
        return
    found: list[object] = []
    refusal: InvalidObject | None = None
    try:
        found.extend(read_documents(text, source=source))
    except InvalidObject as error:
        refusal = error
    alone = len(found) == 1 and refusal is None
    bounded = not _may_be_json(text)
    for number, plain in enumerate(found, start=1):
        yield from _opened(plain, source if alone else f"{source}#{number}", bounded=bounded)
    if refusal is not None:
        yield refusal


def _items(text: str) -> list[msgspec.Raw] | None:
    """Return the items of a text that is one list in JSON, as ``kubectl get -o json`` writes it."""
    if not text.startswith("{"):
        return None
    try:
        found = _RAW_ITEMS.decode(text)
    except _UNREADABLE:
        return None
    return found.items if found.api_version and found.kind.endswith("List") else None


def _opened_raw(raw: msgspec.Raw, place: str) -> Iterator[Document | InvalidObject]:
    content = bytes(raw)
    if content.count(b"{") + content.count(b"[") < MAX_DEPTH:
        try:
            found = Document(place, raw=raw)
        except _UNREADABLE:
            pass  # the names are missing, or no texts
        else:
            if all(found.identity) and not found.identity[1].endswith("List"):
                yield found
                return
    try:
        plain = _plain(raw, place)
    except InvalidObject as error:
        yield error
    else:
        yield from _opened(plain, place)


def _opened(plain: object, place: str, *, bounded: bool = False) -> Iterator[Document | InvalidObject]:
    if not isinstance(plain, dict) or not all(
        isinstance(plain.get(name), str) and plain[name] for name in ("apiVersion", "kind")
    ):
        given = plain.keys() if isinstance(plain, dict) else set()
        is_meant = {"apiVersion", "kind"} & given or given >= {"metadata", "spec"}
        refused = InvalidObject if is_meant else NotAnObject
        yield refused(subject=place, problem="is not a Kubernetes object: it needs apiVersion and kind")
        return
    kind, items = plain["kind"], plain.get("items")
    if kind.endswith("List") and isinstance(items, list):
        for number, item in enumerate(items):
            yield from _opened(item, f"{place}[{number}]", bounded=bounded)
        return
    yield Document(place, plain, bounded=bounded)


def _typed(document: Document) -> Resource | None:
    """Return what a document says, where that can be decoded as it is."""
    decoder = _DECODERS.get(document.identity)
    if decoder is None or not document.bounded:
        return None
    try:
        if document.raw is not None:
            return decoder.decode(document.raw)
        return msgspec.convert(document.plain, decoder.type)
    except (*_UNREADABLE, OverflowError):
        return None  # a null where a value is expected also lands here


def read_object(document: Document) -> Resource | None:
    """
    Return a document as one of the kinds we know; None for any other kind.

    Raises:
        InvalidObject: naming the object, the field and what is allowed.
    """
    kind = KINDS.get(document.identity)
    if kind is None:
        return None
    found = _typed(document) or convert(document.plain, kind.struct, subject=document.subject)
    if not found.metadata.name and not found.metadata.generate_name:
        raise InvalidObject(subject=document.subject, field="metadata.name", problem="is required")
    if kind.namespaced and not found.metadata.namespace:
        meta = msgspec.structs.replace(found.metadata, namespace=DEFAULT_NAMESPACE)
        return msgspec.structs.replace(found, metadata=meta)
    return found
