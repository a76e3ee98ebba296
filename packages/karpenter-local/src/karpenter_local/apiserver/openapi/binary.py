"""
The version 2 document in protobuf, which is the only encoding that kubectl before 1.29 asks for.

Writes the parts that our documents have: paths with their options, and definitions with their extensions.
Extensions travel as YAML, of which JSON is a part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

ASKED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
GIVEN = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""As it is answered with: the at sign of the question is not allowed in a media type."""

_BYTES = 2
_SCHEMA = {"$ref": 1, "format": 2, "description": 4}
_REQUIRED, _ENUM, _ADDITIONAL, _TYPE, _ITEMS, _ALL_OF, _PROPERTIES, _EXTENSION = (
    19,
    20,
    21,
    22,
    23,
    24,
    25,
    31,
)
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}
_QUERY = 3


def encode(document: dict[str, Any]) -> bytes:
    """Return a version 2 document in protobuf."""
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    paths = b"".join(_named(2, path, _path(item)) for path, item in document["paths"].items())
    definitions = b"".join(_named(1, name, _schema(given)) for name, given in document["definitions"].items())
    return _text(1, document["swagger"]) + _bytes(2, info) + _bytes(8, paths) + _bytes(9, definitions)


def _schema(given: dict[str, Any]) -> bytes:
    parts = [_text(number, given[key]) for key, number in _SCHEMA.items() if given.get(key)]
    parts += [_text(_REQUIRED, name) for name in given.get("required", ())]
    parts += [_bytes(_ENUM, _any(value)) for value in given.get("enum", ())]
    extra = given.get("additionalProperties")
    if isinstance(extra, dict):
        parts.append(_bytes(_ADDITIONAL, _bytes(1, _schema(extra))))
    if given.get("type"):
        parts.append(_bytes(_TYPE, _text(1, given["type"])))
    if isinstance(given.get("items"), dict):
        parts.append(_bytes(_ITEMS, _bytes(1, _schema(given["items"]))))
    parts += [_bytes(_ALL_OF, _schema(inner)) for inner in given.get("allOf", ()) if isinstance(inner, dict)]
    if given.get("properties"):
        inner = b"".join(_named(1, name, _schema(part)) for name, part in given["properties"].items())
        parts.append(_bytes(_PROPERTIES, inner))
    parts += _extensions(_EXTENSION, given)
    return b"".join(parts)


def _path(item: dict[str, Any]) -> bytes:
    return b"".join(_bytes(_METHODS[method], _operation(given)) for method, given in item.items())


def _operation(given: dict[str, Any]) -> bytes:
    parts = [_text(5, given["operationId"])]
    parts += [_text(7, kind) for kind in given.get("consumes", ())]
    parts += [_bytes(8, _parameter(item)) for item in given.get("parameters", ()) if item["in"] == "query"]
    parts += _extensions(13, given)
    return b"".join(parts)


def _parameter(given: dict[str, Any]) -> bytes:
    query = _text(2, "query") + _text(4, given["name"]) + _text(6, "string")
    return _bytes(1, _bytes(2, _bytes(_QUERY, query)))


def _extensions(number: int, given: dict[str, Any]) -> Iterable[bytes]:
    return [_named(number, key, _any(value)) for key, value in given.items() if key.startswith("x-")]


def _any(value: Any) -> bytes:
    return _text(2, msgspec.json.encode(value).decode())


def _named(number: int, name: str, value: bytes) -> bytes:
    return _bytes(number, _text(1, name) + _bytes(2, value))


def _text(number: int, text: str) -> bytes:
    return _bytes(number, text.encode())


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:  # noqa: PLR2004  seven bits to a byte
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
