"""
Types that all API objects share: metadata, owner references, label selectors and conditions; and their
decoding and encoding: bytes or plain data to frozen structs, and back.

Decoding ignores constraints, because an API server has checked them already, and is strict about types: a
wrong type raises :class:`InvalidObject`, whose text is one sentence and
whose parts are attributes. ``null`` counts as absent, as it does for Kubernetes. Unknown fields are
dropped, so a decoded object may be patched but never PUT.

Schemas and rules are in :mod:`.schema`; the kinds are in the other modules of this package.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
import msgspec.inspect
from msgspec import Meta, field

from karpenter.api.constraints import MAX_KEY, QUALIFIED_NAME, constraint
from karpenter.base.pretty import excerpt


class InvalidObject(ValueError):  # noqa: N818  reads as what it is: an object that is not valid
    """An object that cannot be read, with the place and what is allowed there."""

    def __init__(self, *, subject: str, field: str = "", problem: str) -> None:
        place = f"{subject}: {field}" if field else subject
        super().__init__(f"{place}: {problem}")
        self.subject = subject
        """What was being read, such as ``NodePool/default``."""
        self.field = field
        """Where it is wrong, such as ``spec.weight``; empty when all of it is."""
        self.problem = problem
        """What is wrong and what is allowed."""


MAX_DEPTH = 256
"""How deep an object may be nested; far more than any kind of Kubernetes needs."""


T = TypeVar("T")


class Wire(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """
    Anything spelled on the wire as Kubernetes spells it; absent fields stay absent.

    A field that holds its default is not written, unless the default is :func:`always`. A patch that
    sets a field back to its default has to say so itself.
    """


class _AbsentMap(dict[str, Any]):
    """The type of :data:`ABSENT_MAP`: one value, which stays that value when it is copied."""

    __slots__ = ()

    def __reduce__(self) -> str:
        return "ABSENT_MAP"


class _AbsentList(tuple[Any, ...]):
    """The type of :data:`ABSENT_LIST`: one value, which stays that value when it is copied."""

    __slots__ = ()

    def __reduce__(self) -> str:
        return "ABSENT_LIST"


ABSENT_MAP: Any = _AbsentMap()
"""
The default of a map that was not given: equal to ``{}``, and not written, as ``{}`` is.

Karpenter's hashes tell a map that was not given from an empty one, so structs that are hashed must too.
"""

ABSENT_LIST: Any = _AbsentList()
"""The default of a list that was not given: equal to ``()``, and not written, as ``()`` is."""


@cache
def tells_absent(kind: type[msgspec.Struct]) -> bool:
    """Whether structs of a kind, at any depth, tell a map or list that was not given from an empty one."""
    return _tells_absent(msgspec.inspect.type_info(kind), set())


def _tells_absent(info: msgspec.inspect.Type, seen: set[type]) -> bool:
    if isinstance(info, msgspec.inspect.StructType):
        if info.cls in seen:
            return False
        seen.add(info.cls)
        return any(
            each.default is ABSENT_MAP or each.default is ABSENT_LIST or _tells_absent(each.type, seen)
            for each in info.fields
        )
    if isinstance(info, msgspec.inspect.Metadata):
        return _tells_absent(info.type, seen)
    if isinstance(info, msgspec.inspect.UnionType):
        return any(_tells_absent(each, seen) for each in info.types)
    if isinstance(info, msgspec.inspect.DictType):
        return _tells_absent(info.value_type, seen)
    item = getattr(info, "item_type", None)
    return item is not None and _tells_absent(item, seen)


def always(value: T) -> T:
    """Return a default that is written all the same, for fields that the API wants to see."""
    written: T = msgspec.field(default_factory=lambda: value)
    return written


Quantity = str | int | float
"""An amount as written: ``100m``, ``1Gi``, or a bare number."""

ResourceList = dict[str, Quantity]
"""Resource name to amount, as written."""

IntOrString = int | str
"""A count, or a text such as a percentage or a port name."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_MSGSPEC_ERROR = re.compile(r"(?P<problem>.*?)(?: - at `(?P<path>[^`]*)`)?", re.DOTALL)


def decode(data: bytes | str, as_type: type[T], *, subject: str = "") -> T:
    """Read one JSON text as `as_type`; `subject` names it in the error."""
    try:
        return msgspec.json.decode(data, type=as_type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # a null where a value is expected also lands here: look again, slowly
    try:
        plain = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidObject(subject=subject or as_type.__name__, problem=f"not JSON: {error}") from error
    return convert(plain, as_type, subject=subject)


def convert(plain: object, as_type: type[T], *, subject: str = "") -> T:
    """Read plain dictionaries and lists as `as_type`; `subject` names the object in the error."""
    name = subject or name_of(plain, default=as_type.__name__)
    try:
        return msgspec.convert(drop_nulls(plain, subject=name), as_type)
    except msgspec.ValidationError as error:
        field, problem = explain(str(error))
        raise InvalidObject(subject=name, field=field, problem=problem) from error
    except (RecursionError, OverflowError) as error:
        raise InvalidObject(subject=name, problem="nested or sized beyond what any object needs") from error


def explain(text: str) -> tuple[str, str]:
    """Split what msgspec says into the field, as Kubernetes writes it, and the problem."""
    match = _MSGSPEC_ERROR.fullmatch(text)
    assert match is not None
    path = (match["path"] or "$").removeprefix("$").removeprefix(".")
    problem = match["problem"]
    for pattern, words in _PHRASES:
        problem = pattern.sub(words, problem)
    problem = _NAMED_TYPE.sub(_typed, problem)
    return path, problem[:1].lower() + problem[1:]


_PHRASES = (
    (re.compile("Invalid RFC3339 encoded datetime"), "it is no time such as 2026-01-31T09:00:00Z"),
    (re.compile("Invalid base64 encoded string"), "it is not base64"),
    (re.compile(r"Object contains unknown field `([^`]*)`"), r"there is no field \1"),
    (re.compile(r"Object missing required field `([^`]*)`"), r"the field \1 is missing"),
    (re.compile(r"Invalid enum value (.+)", re.DOTALL), r"\1 is none of the values that are allowed"),
)
_NAMED_TYPE = re.compile(r"(?P<after>expected |got |Expected |)`(?P<types>[^`]+)`")
_TYPES_IN_WORDS = {
    "any": "anything",
    "array": "a list",
    "bool": "true or false",
    "bytes": "base64",
    "datetime": "a time such as 2026-01-31T09:00:00Z",
    "float": "a number",
    "int": "a whole number",
    "null": "null",
    "object": "an object",
    "str": "a text",
}


def _typed(match: re.Match[str]) -> str:
    """Return types of Python in words; what else is quoted is a name, and stays."""
    if not match["after"]:
        return match["types"]
    types = match["types"].split(" | ")
    kept = [each for each in types if each != "null"] or types
    if {"int", "float"} <= set(kept):
        kept.remove("int")
    return match["after"] + " or ".join(_TYPES_IN_WORDS.get(each, each) for each in kept)


def drop_nulls(plain: object, *, subject: str = "object") -> object:
    """
    Drop every ``null`` member, at any depth: Kubernetes takes null for absent.

    Raises:
        InvalidObject: if the data is nested beyond reason, or holds text that cannot be written.
    """
    return _prune(plain, subject, MAX_DEPTH)


def _prune(plain: object, subject: str, depth: int) -> object:
    if depth == 0:
        raise InvalidObject(subject=subject, problem=f"nested more than {MAX_DEPTH} levels deep")
    if isinstance(plain, Mapping):
        return {
            _prune(key, subject, depth - 1): _prune(value, subject, depth - 1)
            for key, value in plain.items()
            if value is not None
        }
    if isinstance(plain, list | tuple):
        return [_prune(value, subject, depth - 1) for value in plain if value is not None]
    if isinstance(plain, str) and not plain.isascii() and _SURROGATE.search(plain):
        raise InvalidObject(subject=subject, problem=f"{excerpt(plain)} is not text: it has half a character")
    return plain


def check_depth(plain: object, *, subject: str = "object") -> None:
    """
    Refuse data that is nested beyond reason, before anything walks down into it.

    Raises:
        InvalidObject: if it is.
    """
    level = [plain]
    for _ in range(MAX_DEPTH):
        level = [below for each in level for below in _members(each)]
        if not level:
            return
    raise InvalidObject(subject=subject, problem=f"nested more than {MAX_DEPTH} levels deep")


def _members(plain: object) -> Iterable[object]:
    if isinstance(plain, Mapping):
        return plain.values()
    return plain if isinstance(plain, list | tuple) else ()


def name_of(plain: object, *, default: str = "object") -> str:
    """Say which object this is, as ``Kind/name`` or ``Kind/namespace/name``, as far as it says itself."""
    if not isinstance(plain, Mapping):
        return default
    metadata = plain.get("metadata")
    kind = plain.get("kind")
    parts = [kind if isinstance(kind, str) and kind else default]
    if isinstance(metadata, Mapping):
        parts += [
            part for key in ("namespace", "name") if isinstance(part := metadata.get(key), str) and part
        ]
    return "/".join(parts)


def encode(value: Wire) -> bytes:
    """Write a struct as JSON; an object says its apiVersion and kind."""
    return msgspec.json.encode(to_plain(value))


def to_plain(value: Wire) -> dict[str, Any]:
    """Turn a struct into plain dictionaries and lists; an object says its apiVersion and kind."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    if isinstance(value, Object):
        return {"apiVersion": value.api_version, "kind": value.kind, **plain}
    return plain


class Object(Wire, frozen=True, kw_only=True):
    """A kind of its own: it says which, also where the API leaves that out (in lists)."""

    api_version: ClassVar[str]
    kind: ClassVar[str]


Timestamp = Annotated[datetime, Meta(tz=True)]
"""A time with its offset from UTC, as an API server requires."""


class OwnerReference(Wire, frozen=True, kw_only=True):
    """The object that another one belongs to and goes away with."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class FieldOwned(Wire, frozen=True, kw_only=True):
    """An entry of managedFields names this field; what it says of parts of it is not read."""


class StatusFields(Wire, frozen=True, kw_only=True):
    """The fields of a status that an entry of managedFields names; one is read."""

    nominated_node_name: FieldOwned | None = field(name="f:nominatedNodeName", default=None)


class FieldsV1(Wire, frozen=True, kw_only=True):
    """The fields of an object that an entry of managedFields names."""

    status: StatusFields | None = field(name="f:status", default=None)


class ManagedFieldsEntry(Wire, frozen=True, kw_only=True):
    """Fields of an object that one client has set, and when it last did."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    time: Timestamp | None = None
    fields_v1: FieldsV1 = field(name="fieldsV1", default=FieldsV1())

    @property
    def nominates(self) -> bool:
        """Whether the client has set ``status.nominatedNodeName``."""
        return self.fields_v1.status is not None and self.fields_v1.status.nominated_node_name is not None


class ObjectMeta(Wire, frozen=True, kw_only=True):
    """The identity, labels, owners and lifecycle of an object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    """Set when deletion is requested; the object exists until its finalizers are removed."""

    deletion_grace_period_seconds: int | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    managed_fields: tuple[ManagedFieldsEntry, ...] = ()
    """Who has set ``status.nominatedNodeName``; entries about other fields are not kept."""

    def __post_init__(self) -> None:
        if self.managed_fields:
            # Every object has some of these, and they are as large as the object.
            kept = tuple(each for each in self.managed_fields if each.nominates)
            msgspec.structs.force_setattr(self, "managed_fields", kept)


class Resource(Object, frozen=True, kw_only=True):
    """An object with metadata: everything that can be listed and watched."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        """The name, unique per kind and namespace."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """The namespace; empty for objects of the whole cluster."""
        return self.metadata.namespace

    @property
    def key(self) -> str:
        """``namespace/name``, or just the name for objects of the whole cluster."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


class LabelSelectorRequirement(Wire, frozen=True, kw_only=True):
    """One condition on one label."""

    key: str
    operator: str
    """In, NotIn, Exists or DoesNotExist."""

    values: tuple[str, ...] = ()


class LabelSelector(Wire, frozen=True, kw_only=True):
    """Conditions on labels, all of which must hold; an empty selector matches everything."""

    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Condition(Wire, frozen=True, kw_only=True):
    """One aspect of an object's state, as its controller saw it last."""

    type: Annotated[str, constraint(max_length=MAX_KEY, pattern=QUALIFIED_NAME)]
    """Which aspect."""

    status: Annotated[str, constraint(enum=["True", "False", "Unknown"], required=True)] = always("Unknown")
    """Whether it holds."""

    reason: Annotated[
        str, constraint(max_length=1024, pattern=r"^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$")
    ] = ""
    """Why, in one word, for programs."""

    message: Annotated[str, constraint(max_length=32768)] = ""
    """Why, in a sentence, for people."""

    last_transition_time: Annotated[Timestamp | None, constraint(required=True)] = None
    """When the status changed last."""

    observed_generation: Annotated[int, constraint(minimum=0)] = 0
    """The generation of the object that the condition speaks of."""


class LocalReference(Wire, frozen=True, kw_only=True):
    """Another object of the same namespace, by name."""

    name: str = ""


class ObjectReference(Wire, frozen=True, kw_only=True):
    """Another object; fields that its writer left out are empty."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class ListMeta(Wire, frozen=True, kw_only=True):
    """The revision of a list to watch from, and the token of its next page."""

    resource_version: str = ""
    continue_: str = field(name="continue", default="")
    remaining_item_count: int | None = None


def find_status_condition(conditions: Iterable[Condition], kind: str) -> Condition | None:
    return next((each for each in conditions if each.type == kind), None)


def is_status_condition_true(conditions: Iterable[Condition], kind: str) -> bool:
    """Return whether the condition of one type exists and is True."""
    found = find_status_condition(conditions, kind)
    return found is not None and found.status == "True"


def status_condition_since(conditions: Iterable[Condition], kind: str) -> datetime | None:
    found = find_status_condition(conditions, kind)
    return found.last_transition_time if found is not None else None
