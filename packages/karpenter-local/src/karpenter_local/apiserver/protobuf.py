"""
Bodies in the API's protobuf encoding, read into the same objects that JSON gives.

Some clients send built-in kinds this way and do not ask first. An envelope names kind and version; the
message inside is read by the field numbers that :mod:`.schema.types` knows. Answers are always JSON, which
every such client accepts.
"""

from __future__ import annotations

import base64
import struct
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from karpenter_local.apiserver.schema.types import FieldType, TypeDefinition, built_in_types

if TYPE_CHECKING:
    from collections.abc import Iterator


# https://kubernetes.io/docs/reference/using-api/api-concepts/
MAGIC = b"k8s\x00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIGN_BIT = 1 << 63


class ProtobufError(ValueError):
    """The bytes are not a message that we can read."""


def decode(raw: bytes) -> dict[str, Any]:
    if not raw.startswith(MAGIC):
        raise ProtobufError(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    envelope = _parts(raw[len(MAGIC) :])
    meta = _parts(envelope.get(1, [b""])[0])
    api_version, kind = (_text(meta.get(number, [b""])[0]) for number in (1, 2))
    group, _, version = api_version.rpartition("/")
    definition = built_in_types().of_kind(group, version, kind) or _general(kind)
    if definition is None:
        raise ProtobufError(f'no kind "{kind}" is registered for version "{api_version}"')
    value = _message(envelope.get(2, [b""])[0], definition)
    return {"kind": kind, "apiVersion": api_version, **value}


def _general(kind: str) -> TypeDefinition | None:
    """Return a kind that belongs to every group, such as the options of a delete."""
    name = f"io.k8s.apimachinery.pkg.apis.meta.v1.{kind}"
    return built_in_types().definition(name) if kind in {"DeleteOptions", "Status"} else None


def _fields(raw: bytes) -> Iterator[tuple[int, Any]]:
    position = 0
    while position < len(raw):
        tag, position = _varint(raw, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _varint(raw, position)
            yield number, value
        elif wire == _BYTES:
            length, position = _varint(raw, position)
            if position + length > len(raw):
                raise ProtobufError("proto: unexpected EOF")
            yield number, raw[position : position + length]
            position += length
        elif wire == _FIXED64:
            yield number, raw[position : position + 8]
            position += 8
        elif wire == _FIXED32:
            yield number, raw[position : position + 4]
            position += 4
        else:
            raise ProtobufError(f"proto: illegal wireType {wire}")


def _parts(raw: bytes) -> dict[int, list[Any]]:
    parts: dict[int, list[Any]] = {}
    for number, value in _fields(raw):
        parts.setdefault(number, []).append(value)
    return parts


def _varint(raw: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(raw):
            raise ProtobufError("proto: unexpected EOF")
        byte = raw[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004  the continuation bit
            return value, position
        shift += 7


def _message(raw: bytes, definition: TypeDefinition) -> dict[str, Any]:
    parts = _parts(raw)
    value: dict[str, Any] = {}
    for number, inner in definition.inline.items():
        for part in parts.get(number, ()):
            within = _parts(part)
            for inner_number, name in inner.items():
                if inner_number in within:
                    value[name] = _value(within[inner_number], definition.fields[name].type)
    for field in definition.fields.values():
        if field.number > 0 and field.number in parts and field.number not in definition.inline:
            value[field.name] = _value(parts[field.number], field.type)
    return value


def _value(given: list[Any], type_: FieldType) -> Any:
    inner = type_.inner
    if type_.code == "[":
        assert inner is not None
        return [_one(item, inner) for item in given]
    if type_.code == "{":
        assert inner is not None
        return dict(_entry(item, inner) for item in given)
    return _one(given[-1], type_)


def _entry(raw: bytes, type_: FieldType) -> tuple[str, Any]:
    parts = _parts(raw)
    key = _text(parts.get(1, [b""])[0])
    if type_.code == "[":  # lists in maps are wrapped in a message of their own
        return key, _value(_parts(parts.get(2, [b""])[0]).get(1, []), type_)
    return key, _one(parts[2][0], type_) if 2 in parts else None  # noqa: PLR2004  a map entry's value


def _one(item: Any, type_: FieldType) -> Any:
    match type_.code:
        case "s":
            return _text(item)
        case "b":
            return bool(item)
        case "i" | "l":
            return item - 2 * _SIGN_BIT if item & _SIGN_BIT else item
        case "d":
            return struct.unpack("<d", item)[0]
        case "y":
            return base64.b64encode(item).decode()
        case "t" | "u":
            return _time(item, type_.code)
        case "q":
            return _text(_parts(item).get(1, [b"0"])[0])
        case "x":
            return _int_or_string(item)
        case "o" | "j":
            raw = _parts(item).get(1, [b""])[0]
            return msgspec.json.decode(raw) if raw else None
        case _:
            return _message(item, type_.definition)


def _time(raw: bytes, code: str) -> str | None:
    parts = _parts(raw)
    if not parts:
        return None
    seconds, nanos = parts.get(1, [0])[0], parts.get(2, [0])[0]
    seconds = seconds - 2 * _SIGN_BIT if seconds & _SIGN_BIT else seconds
    moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ" if code == "t" else "%Y-%m-%dT%H:%M:%S.%fZ")


def _int_or_string(raw: bytes) -> int | str:
    parts = _parts(raw)
    if parts.get(1, [0])[0] == 1:
        return _text(parts.get(3, [b""])[0])
    number = int(parts.get(2, [0])[0])
    return number - 2 * _SIGN_BIT if number & _SIGN_BIT else number


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ProtobufError("proto: a string is not UTF-8") from None
