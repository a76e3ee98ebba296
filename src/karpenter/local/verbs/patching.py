"""Patch: change an object by saying only what changes, in one of four languages told apart by content type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter.local import bodies, faults
from karpenter.local.patches import merge, operations
from karpenter.local.presenting import reply_raw, warnings
from karpenter.local.writing import Intent, update

if TYPE_CHECKING:
    from karpenter.kube.transport import Response
    from karpenter.local.backend import Backend
    from karpenter.local.entry import Object
    from karpenter.local.request import Call
    from karpenter.local.views import View

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def patch(backend: Backend, call: Call, view: View) -> Response:
    """Change what is stored as the body says."""
    bodies.check_size(call.request)
    language = bodies.media_type(call.request.header("content-type"))
    stored = backend.kept(call.resource)
    if language == APPLY:
        return backend.apply(call, view)
    accepted = (JSON_PATCH, MERGE, APPLY) if call.resource.custom else (JSON_PATCH, MERGE, STRATEGIC, APPLY)
    if language not in accepted:
        raise faults.unsupported_media_type(accepted)
    body = _decode(call.request.body)
    old = backend.entry(stored, call.namespace, call.name)
    if old is None:
        raise faults.not_found(call.resource, call.name)
    value = backend.outgoing(call.resource, old.object())
    changed = change(backend, call, language, value, body)
    changed, warned = backend.incoming(call, changed, ())
    intent = Intent(manager=call.manager, dry_run=call.dry_run, subresource=call.subresource)
    entry = update(backend, stored, changed, old, intent)
    return reply_raw(view.one(entry), headers=warnings(warned))


def change(backend: Backend, call: Call, language: str, value: Object, body: Any) -> Object:
    """Return `value` as `body` would have it."""
    if language == JSON_PATCH:
        result = operations.apply(value, body)
    elif not isinstance(body, dict):
        raise faults.bad_request("error decoding patch: json: cannot unmarshal into a map")
    elif language == MERGE:
        result = merge.apply(value, body)
    else:
        result = backend.strategic(call.resource, value, body)
    if not isinstance(result, dict):
        raise faults.bad_request("the patch leaves no object")
    return result


def _decode(raw: bytes) -> Any:
    try:
        return bodies.parse_json(raw).value
    except bodies.Unreadable as error:
        why = str(error).partition("json parse error: ")[2] or str(error)
        raise faults.bad_request(f"error decoding patch: {why}") from None
