"""Bodies of custom kinds: pruning, defaulting and field validation by their schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.schema import apply_defaults, prune_unknown_fields
from karpenter_local.apiserver import errors
from karpenter_local.apiserver.bodies import json_type
from karpenter_local.apiserver.entry import Object, encode
from karpenter_local.apiserver.field_errors import invalid
from karpenter_local.apiserver.incoming import unfit, untyped, warn_or_refuse
from karpenter_local.apiserver.options import validation_mode
from karpenter_local.apiserver.schema.conform import Mismatch, conform
from karpenter_local.apiserver.schema.types import built_in_types

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from karpenter_local.apiserver.custom.definition import Version
    from karpenter_local.apiserver.request import RequestInfo

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_HEAD = frozenset({"kind", "apiVersion", "metadata"})


def custom(  # noqa: PLR0917  all of them describe one body
    call: RequestInfo,
    version: Version,
    stored: Version,
    value: Object,
    repeated: Sequence[str],
    touched: Collection[str] | None = None,
    before: Object | None = None,
) -> tuple[Object, list[str]]:
    """
    Return a body of a custom kind as it is stored, and warnings about it.

    Of a patch of the status, nothing is looked at but the fields that it has `touched`: whatever the rest is,
    it stays as it is stored. So is what the metadata share with those of `before`.
    """
    mode = validation_mode(call)
    _check_kind(call, value)
    rest: Object = {}
    if touched is not None and call.subresource == "status":
        rest = {key: part for key, part in value.items() if key not in touched and key not in _HEAD}
        value = {key: part for key, part in value.items() if key not in rest}
    found = _metadata(version, value, before) if not rest or "metadata" in (touched or ()) else ()
    value, unknown = prune_unknown_fields(version.schema, value)
    sentences = [*repeated, *(f'unknown field "{path}"' for path in (*found, *unknown))]
    warn_or_refuse(version.resource, mode, sentences)
    value = apply_defaults(version.schema, value) | rest
    warned = sentences if mode == "Warn" else []
    if version.warning:
        warned = [version.warning, *warned]
    return to_stored(stored, value), warned


def configuration(
    call: RequestInfo, version: Version, value: Object, repeated: Sequence[str]
) -> tuple[Object, list[str]]:
    """Return the body of an apply with nothing filled in, and warnings about it."""
    _, unknown = prune_unknown_fields(version.schema, value)
    if unknown:
        raise untyped(call, value, f".{unknown[0]}: field not declared in schema")
    meta = value.get("metadata") or {}
    wrong = conform({**meta}, built_in_types().definition(_META))
    if wrong:
        raise untyped(call, value, f".metadata.{wrong[0]}: field not declared in schema")
    mode = validation_mode(call)
    warn_or_refuse(version.resource, mode, repeated)
    return value, list(repeated) if mode == "Warn" else []


def normal(stored: Version, value: Object) -> Object:
    _metadata(stored, value)
    value, _ = prune_unknown_fields(stored.schema, value)
    return to_stored(stored, apply_defaults(stored.schema, value))


def to_stored(stored: Version, value: Object) -> Object:
    value["apiVersion"] = stored.resource.api_version
    return value


def _check_kind(call: RequestInfo, value: Object) -> None:
    resource = call.resource
    kind, api_version = value.get("kind") or "", value.get("apiVersion") or ""
    if not kind:
        text = encode(value).decode()
        raise errors.unrecognized(resource.kind, f"Object 'Kind' is missing in '{text}'")
    if api_version != resource.api_version:
        raise errors.wrong_version(str(api_version), resource.api_version)
    if kind != resource.kind:
        name = (value.get("metadata") or {}).get("name", "")
        raise errors.invalid(
            str(kind), resource.group, name, [invalid("kind", kind, f"must be {resource.kind}")]
        )


def _metadata(version: Version, value: Object, before: Object | None = None) -> list[str]:
    meta = value.get("metadata")
    if meta is None:
        value["metadata"] = {}
        return []
    if not isinstance(meta, dict):
        got = json_type(meta)
        why = f"json: cannot unmarshal {got} into Go struct field .metadata of type v1.ObjectMeta"
        raise unfit(version.resource, why)
    try:
        kept = None if before is None else before["metadata"]
        found = conform(meta, built_in_types().definition(_META), before=kept)
        return [f"metadata.{path}" for path in found]
    except Mismatch as error:
        raise unfit(version.resource, str(error)) from None
