"""
The hash that Go's ``hashstructure`` gives for a value, computed from the JSON that Go would decode.

Karpenter hashes its Go structs with version 2 of https://github.com/mitchellh/hashstructure, with lists
taken as sets, zero values left out and nil counted as zero. What is zero depends on the Go type of a field
and not on its JSON: ``""`` is zero for a ``string`` and a value for a ``*string``, ``[]`` is a value and an
absent list is not. So the Go types are declared as data, and a hash is taken of plain JSON data and a type.

Absent and ``null`` are one, as they are for Go's decoder. Knows no kind of object;
the types of NodePool and EC2NodeClass are declared where those are hashed.

A hash stays the same across processes, machines and releases. A structure is hashed from its parts: texts
and integers by themselves, maps and sets so that order does not matter, structs by their name and the names
of their fields. Every result is an unsigned 64-bit number, built on FNV-1 over little-endian bytes.

The arithmetic is that of version 2 of the format in which Go programs commonly hash their
structures (with lists taken as sets), so that a hash which another program wrote into an
annotation of the cluster can be compared with ours (https://github.com/mitchellh/hashstructure). A change
here changes every hash in every cluster.

Two equal members of a set cancel each other out, as they do there.

Which parts of an object are hashed is decided where the object is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import xor
from typing import Final, Protocol

import msgspec

from karpenter.base.duration import NEVER, DurationError, parse_nanoseconds
from karpenter.base.pretty import excerpt
from karpenter.base.quantity import QuantityError, parse_quantity

# The parameters of FNV-1a with 64 bits: https://www.rfc-editor.org/rfc/rfc9923
_OFFSET: Final = 14695981039346656037
_PRIME: Final = 1099511628211
_MASK: Final = 2**64 - 1


def hash_bytes(data: bytes) -> int:
    """Return the 64-bit FNV-1 hash of `data`."""
    result = _OFFSET
    for byte in data:
        result = (result * _PRIME & _MASK) ^ byte
    return result


def hash_text(text: str) -> int:
    return hash_bytes(text.encode("utf-8", "surrogatepass"))


def hash_integer(number: int) -> int:
    """
    Return the hash of a signed 64-bit integer.

    Raises:
        OverflowError: if it does not fit.
    """
    return hash_bytes(number.to_bytes(8, "little", signed=True))


def hash_set(members: Iterable[int]) -> int:
    """Return the hash of a set, or of a list taken as a set, from the hashes of its members."""
    return reduce(xor, members, 0)


def hash_map(entries: Mapping[str, str]) -> int:
    return hash_entries((hash_text(key), hash_text(value)) for key, value in entries.items())


def hash_entries(entries: Iterable[tuple[int, int]]) -> int:
    return _finish(hash_set(_pair(key, value) for key, value in entries))


def hash_struct(name: str, fields: Iterable[tuple[str, int]]) -> int:
    """Return the hash of a struct from its name and its fields, hashed, in the order of their declaration."""
    result = hash_text(name)
    for field, value in fields:
        result = _finish(result ^ _pair(hash_text(field), value))
    return result


def _pair(left: int, right: int) -> int:
    return hash_bytes(left.to_bytes(8, "little") + right.to_bytes(8, "little"))


def _finish(value: int) -> int:
    """Harden a hash of unordered parts, so that it cannot cancel out with another."""
    return hash_bytes(value.to_bytes(8, "little"))


class UnhashableError(ValueError):
    """The data cannot be decoded as its Go type; `path` names the field."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem


class GoType(Protocol):
    """A Go type: which JSON is its zero value, and what a value's hash is."""

    def is_zero(self, plain: object) -> bool:
        """Return whether a field of this type with this JSON is left out of its struct's hash."""
        ...

    def hash(self, plain: object, path: str) -> int:
        """
        Return the hash of a value.

        Raises:
            UnhashableError: if `plain` is not of this type.
        """
        ...


class GoString(msgspec.Struct, frozen=True):
    """A ``string``, or a type made of it."""

    def is_zero(self, plain: object) -> bool:
        return plain is None or plain == ""

    def hash(self, plain: object, path: str) -> int:
        return hash_text(_text(plain, path))


class GoInteger(msgspec.Struct, frozen=True):
    """An ``int32`` or ``int64``, or a ``bool``, which is hashed as an ``int8``."""

    size: int
    """How many bytes it has."""

    def is_zero(self, plain: object) -> bool:
        return plain is None or plain == 0

    def hash(self, plain: object, path: str) -> int:
        wanted = bool if self.size == 1 else int
        if plain is not None and type(plain) is not wanted:
            what = "true or false" if wanted is bool else "an integer"
            raise UnhashableError(path, f"expected {what}, not {excerpt(plain)}")
        try:
            return hash_bytes(int(plain or 0).to_bytes(self.size, "little", signed=True))
        except OverflowError as error:
            problem = f"{excerpt(plain)} does not fit into {8 * self.size} bits"
            raise UnhashableError(path, problem) from error


class GoDuration(msgspec.Struct, frozen=True):
    """A ``metav1.Duration``: a struct around a number of nanoseconds."""

    def is_zero(self, plain: object) -> bool:
        return plain is None or _nanoseconds(plain, "") == 0

    def hash(self, plain: object, path: str) -> int:
        """Return the hash of the length, however it is spelled."""
        length = 0 if plain is None else _nanoseconds(plain, path)
        return hash_struct("Duration", [("Duration", hash_integer(length))] if length else [])


class GoNillableDuration(msgspec.Struct, frozen=True):
    """Karpenter's ``NillableDuration``: ``Never`` is nil, so that a length of 0 is not zero."""

    def is_zero(self, plain: object) -> bool:
        """Return whether it is ``Never`` or absent."""
        return plain is None or plain == NEVER

    def hash(self, plain: object, path: str) -> int:
        """Return the hash of the length, however it is spelled."""
        if self.is_zero(plain):
            return hash_struct("NillableDuration", [])
        return hash_struct("NillableDuration", [("Duration", hash_integer(_nanoseconds(plain, path)))])


class GoTime(msgspec.Struct, frozen=True):
    """A ``metav1.Time``: a struct around a moment, which is hashed as Go writes moments in binary."""

    def is_zero(self, plain: object) -> bool:
        """Return whether it is absent; any moment that was decoded has a location and is not zero."""
        return plain is None

    def hash(self, plain: object, path: str) -> int:
        return hash_struct("Time", [] if plain is None else [("Time", hash_bytes(_binary_time(plain, path)))])


class GoQuantity(msgspec.Struct, frozen=True):
    """A ``resource.Quantity`` with the tag ``hash:"string"``: its canonical text is hashed."""

    def is_zero(self, plain: object) -> bool:
        """Return whether it is absent; used behind a pointer only."""
        return plain is None

    def hash(self, plain: object, path: str) -> int:
        """Return the hash of the amount, however it is spelled."""
        if isinstance(plain, str) and _BARE_SUFFIX.fullmatch(plain):
            return hash_text("0")
        try:
            return hash_text("" if plain is None else str(parse_quantity(plain)))
        except QuantityError as error:
            raise UnhashableError(path, str(error)) from error


class GoPointer(msgspec.Struct, frozen=True):
    """A pointer: zero only where it is nil, whatever it points to."""

    to: GoType

    def is_zero(self, plain: object) -> bool:
        return plain is None

    def hash(self, plain: object, path: str) -> int:
        """Return the hash of what it points to, which is the zero value where it is nil."""
        return self.to.hash(plain, path)


class GoSlice(msgspec.Struct, frozen=True):
    """A slice, taken as a set: order does not matter, and equal members cancel each other out."""

    of: GoType

    def is_zero(self, plain: object) -> bool:
        """Return whether it is nil; an empty slice is not."""
        return plain is None

    def hash(self, plain: object, path: str) -> int:
        if plain is None:
            return hash_set(())
        if not isinstance(plain, list | tuple):
            raise UnhashableError(path, f"expected a list, not {excerpt(plain)}")
        return hash_set(self.of.hash(each, f"{path}[{index}]") for index, each in enumerate(plain))


class GoMap(msgspec.Struct, frozen=True):
    """A map from texts."""

    to: GoType

    def is_zero(self, plain: object) -> bool:
        """Return whether it is nil; an empty map is not."""
        return plain is None

    def hash(self, plain: object, path: str) -> int:
        entries = _mapping(plain, path).items()
        return hash_entries(
            (hash_text(_text(key, path)), self.to.hash(value, f"{path}.{key}")) for key, value in entries
        )


class GoField(msgspec.Struct, frozen=True):
    """A field of a struct."""

    name: str
    """As Go spells it; it is part of the hash."""

    key: str
    """As JSON spells it."""

    type: GoType
    ignored: bool = False
    """Whether the field has the tag ``hash:"ignore"``; it still counts for whether the struct is zero."""


class GoStruct(msgspec.Struct, frozen=True):
    """A struct; fields that are zero are left out."""

    name: str
    """As Go spells it, without its package; it is part of the hash."""

    fields: tuple[GoField, ...]
    """In the order of their declaration, which is part of the hash."""

    def is_zero(self, plain: object) -> bool:
        found = _mapping(plain, "")
        return all(field.type.is_zero(found.get(field.key)) for field in self.fields)

    def hash(self, plain: object, path: str) -> int:
        """Return the hash of the fields that count."""
        found = _mapping(plain, path)
        counted = (each for each in self.fields if not each.ignored)
        return hash_struct(
            self.name,
            (
                (each.name, each.type.hash(found[each.key], f"{path}.{each.key}" if path else each.key))
                for each in counted
                if not each.type.is_zero(found.get(each.key))
            ),
        )


STRING: Final = GoString()
BOOL: Final = GoInteger(1)
INT32: Final = GoInteger(4)
INT64: Final = GoInteger(8)
DURATION: Final = GoDuration()
NILLABLE_DURATION: Final = GoNillableDuration()
TIME: Final = GoTime()
QUANTITY: Final = GoQuantity()
STRING_MAP: Final = GoMap(STRING)
ANY_SLICE: Final = GoSlice(STRING)
"""A slice that is never hashed: only whether it is nil matters."""

_BARE_SUFFIX: Final = re.compile("[numkMGTPE]|[KMGTPE]i")
"""A suffix without a number, which Go reads as 0, and which the schema of volume sizes lets through."""

_RFC3339: Final = re.compile(
    r"(?P<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d+))?(?P<zone>Z|[+-]\d\d:\d\d)"
)
# Go's time.Time counts from the year 1, and its MarshalBinary begins with a version:
# https://pkg.go.dev/time#Time.MarshalBinary
_YEAR_ONE: Final = datetime(1, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_NANOSECOND_DIGITS: Final = 9
_TIME_VERSION: Final = 1


def _binary_time(plain: object, path: str) -> bytes:
    """
    Return a moment as Go's ``time.Time.MarshalBinary`` writes it: version, seconds, nanoseconds, offset.

    Kubernetes turns every moment that it decodes into local time, and Karpenter runs in UTC, so the offset is
    0; it would be -1 for ``time.UTC``. https://pkg.go.dev/k8s.io/apimachinery/pkg/apis/meta/v1#Time
    """
    match = _RFC3339.fullmatch(_text(plain, path))
    try:
        if match is None:
            raise ValueError  # noqa: TRY301  one sentence for both
        moment = datetime.fromisoformat(match["second"] + match["zone"].replace("Z", "+00:00"))
    except ValueError as error:
        raise UnhashableError(path, f"expected a moment, as in RFC 3339, not {excerpt(plain)}") from error
    seconds = (moment - _YEAR_ONE) // _SECOND
    nanoseconds = int((match["fraction"] or "0")[:_NANOSECOND_DIGITS].ljust(_NANOSECOND_DIGITS, "0"))
    offset = 0
    return (
        _TIME_VERSION.to_bytes(1, "big")
        + seconds.to_bytes(8, "big", signed=True)
        + nanoseconds.to_bytes(4, "big")
        + offset.to_bytes(2, "big", signed=True)
    )


def _nanoseconds(plain: object, path: str) -> int:
    try:
        return parse_nanoseconds(plain)
    except DurationError as error:
        raise UnhashableError(path, str(error)) from error


def _text(plain: object, path: str) -> str:
    if plain is None:
        return ""
    if not isinstance(plain, str):
        raise UnhashableError(path, f"expected a text, not {excerpt(plain)}")
    return plain


def _mapping(plain: object, path: str) -> Mapping[str, object]:
    if plain is None:
        return {}
    if not isinstance(plain, Mapping):
        raise UnhashableError(path, f"expected a map, not {excerpt(plain)}")
    return plain
