"""
Request bodies: from bytes to an object, with the API's refusals for what cannot be read.

Only encodings and the outermost shape are judged here; fields and types are judged against the schema later.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from karpenter.local import faults

if TYPE_CHECKING:
    from karpenter.kube.transport import Request
    from karpenter.local.entry import Object

JSON = "application/json"
YAML = "application/yaml"
ACCEPTED = (JSON, YAML, "application/vnd.kubernetes.protobuf")

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Body(msgspec.Struct, frozen=True):
    """A decoded body, and the keys that it gave more than once."""

    value: Any
    repeated: tuple[str, ...] = ()


def media_type(header: str) -> str:
    """Return the bare media type of a content-type header."""
    return header.partition(";")[0].strip().lower()


def read(request: Request) -> Body:
    """Return the body of `request`, which must be JSON or YAML."""
    kind = media_type(request.header("content-type")) or JSON
    check_size(request)
    if kind == JSON:
        return parse_json(request.body)
    if kind in {YAML, "application/x-yaml", "text/yaml"}:
        return parse_yaml(request.body)
    raise faults.unsupported_media_type(kind, ACCEPTED)


def read_object(request: Request) -> tuple[Object, tuple[str, ...]]:
    """Return the body as an object, and the keys that it repeats."""
    body = read(request)
    if not isinstance(body.value, dict):
        text = request.body.decode(errors="replace")
        raise faults.bad_request(
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {json_type(body.value)} into Go value of "
            f"type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string "
            f'"json:\\"kind,omitempty\\"" }}: {text[:64]}'
        )
    return body.value, body.repeated


def check_size(request: Request) -> None:
    """Refuse what is larger than any object may be."""
    if len(request.body) > faults.MAX_BODY:
        raise faults.too_large()


def parse_json(raw: bytes) -> Body:
    """Return decoded JSON; duplicate keys are looked for only where the bytes allow for them."""
    try:
        value = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise faults.bad_request(f"couldn't get version/kind; json parse error: {_why(raw, error)}") from None
    if len(_encode(value)) == len(raw):
        return Body(value)  # nothing was dropped in between
    return Body(value, _repeated(raw))


def parse_yaml(raw: bytes) -> Body:
    """Return decoded YAML."""
    try:
        value = yaml.load(raw, Loader=yaml.CSafeLoader)  # noqa: S506  CSafeLoader is the safe loader in C
        plain = _decode(_encode(value))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, msgspec.MsgspecError) as error:
        sentence = " ".join(str(error).split())
        raise faults.bad_request(f"error converting YAML to JSON: yaml: {sentence}") from None
    return Body(plain)


def json_type(value: Any) -> str:
    """Return what JSON calls the type of `value`."""
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _why(raw: bytes, error: Exception) -> str:
    if not raw.strip():
        return "unexpected end of JSON input"
    if isinstance(error, msgspec.DecodeError) and "truncated" in str(error):
        return "unexpected end of JSON input"
    return f"invalid JSON: {error}"


def _repeated(raw: bytes) -> tuple[str, ...]:
    found: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        seen = dict(items)
        if len(seen) < len(items):
            keys = [key for key, _ in items]
            found.extend(dict.fromkeys(key for key in keys if keys.count(key) > 1))
        return seen

    json.loads(raw, object_pairs_hook=pairs)
    return tuple(found)
