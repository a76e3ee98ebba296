"""
Request bodies: from bytes to an object, with the API's refusals for what cannot be read.

Only encodings and the outermost shape are judged here; fields and types are judged against the schema later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from karpenter.api.manifests import read_documents
from karpenter.api.meta import InvalidObject
from karpenter_local.apiserver import duplicates, errors, protobuf

if TYPE_CHECKING:
    from karpenter.kube.transport import Request

# https://kubernetes.io/docs/reference/using-api/api-concepts/#alternate-representations-of-resources
JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCEPTED = (JSON, YAML, PROTOBUF)

_EXCERPT_LENGTH = 64
# The words in which Go's decoder refuses a body; clients of tests compare them:
# https://pkg.go.dev/encoding/json#UnmarshalTypeError
_TYPE_META = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class UnreadableBody(ValueError):  # noqa: N818  reads as what is the matter
    """The bytes are not what their content type says."""


class Body(msgspec.Struct, frozen=True):
    """A decoded body, and sentences about the keys that it gave more than once."""

    value: Any
    repeated: tuple[str, ...] = ()


def media_type(header: str) -> str:
    """Return the bare media type of a content-type header."""
    return header.partition(";")[0].strip().lower()


def read(request: Request, kind: str) -> Body:
    """Return the body of `request` as an object of `kind`, which only error messages need."""
    encoding = media_type(request.header("content-type")) or JSON
    check_size(request)
    try:
        if encoding == JSON:
            body = parse_json(request.body)
        elif encoding in {YAML, "application/x-yaml", "text/yaml"}:
            body = parse_yaml(request.body)
        elif encoding == PROTOBUF:
            body = Body(protobuf.decode(request.body))
        else:
            raise errors.unsupported_media_type(ACCEPTED)
    except (UnreadableBody, protobuf.ProtobufError) as error:
        raise errors.unrecognized(kind, f"{error} ({_shown(request.body)})") from None
    if body.value is None:
        return Body({})
    if not isinstance(body.value, dict):
        got, shown = json_type(body.value), request.body[:32].hex()
        why = f"json: cannot unmarshal {got} into Go value of type {_TYPE_META}"
        raise errors.unrecognized(kind, f"couldn't get version/kind; json parse error: {why} ({shown})")
    return body


def check_size(request: Request) -> None:
    if len(request.body) > errors.MAX_BODY:
        raise errors.too_large()


def parse_json(raw: bytes) -> Body:
    """Return decoded JSON; duplicate keys are looked for only where the bytes allow for them."""
    try:
        value = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableBody(f"couldn't get version/kind; json parse error: {_why(raw, error)}") from None
    if len(_encode(value)) == len(raw):
        return Body(value)  # nothing was dropped in between
    return Body(value, duplicates.in_json(raw))


def parse_yaml(raw: bytes) -> Body:
    """Return decoded YAML, which JSON is too."""
    if raw[:1] == b"{":
        try:
            return parse_json(raw)
        except UnreadableBody:
            pass  # YAML in braces is still YAML
    repeated: list[str] = []
    try:
        value = next(read_documents(raw.decode(), source="yaml", repeated=repeated), None)
        plain = _decode(_encode(value))
    except (InvalidObject, UnicodeError, RecursionError, msgspec.MsgspecError) as error:
        raise UnreadableBody(str(error)) from None
    return Body(plain, tuple(repeated))


def json_type(value: Any) -> str:
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


def _shown(raw: bytes) -> str:
    if not raw:
        return "<empty>"
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return raw[:_EXCERPT_LENGTH].hex()
    return text if len(text) <= _EXCERPT_LENGTH else f"{text[:_EXCERPT_LENGTH]} ..."
