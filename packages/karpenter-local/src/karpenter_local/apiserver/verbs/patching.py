"""Patch: change an object by saying only what changes, in one of four languages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter_local.apiserver import bodies, errors, incoming, options
from karpenter_local.apiserver.entry import Object, encode
from karpenter_local.apiserver.patches import merge, operations, strategic
from karpenter_local.apiserver.presenting import reply_raw, warnings
from karpenter_local.apiserver.schema.types import TypeDefinition, built_in_types
from karpenter_local.apiserver.verbs import applying
from karpenter_local.apiserver.writing import WriteOptions, update

if TYPE_CHECKING:
    from karpenter.kube.transport import Response
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.request import RequestInfo
    from karpenter_local.apiserver.resources import APIResource
    from karpenter_local.apiserver.views import ResponseView

# https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


def patch(backend: Backend, call: RequestInfo, view: ResponseView) -> Response:
    bodies.check_size(call.request)
    language = bodies.media_type(call.request.header("content-type"))
    if language not in languages(call.resource):
        if call.resource.custom:
            raise errors.unsupported_media_type(languages(call.resource))
        raise errors.APIStatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
    options.check(call)
    if language == applying.LANGUAGE:
        return applying.apply(backend, call, view)
    body = read_patch(call.request.body, language)
    stored = backend.kept(call.resource)
    old = backend.entry(stored, call.namespace, call.name)
    if old is None:
        raise errors.not_found(call.resource, call.name)
    definition = built_in_types().of_kind(call.resource.group, call.resource.version, call.resource.kind)
    before = old.object()
    # Changes are made beside the object, so that it need not be decoded twice; operations are made in place.
    apart = language == JSON_PATCH or not call.resource.stored
    value = backend.outgoing(call.resource, old.object()) if apart else before
    # A patch that is merged changes nothing but the fields that it names; a directive may mean any of them.
    merged = language != JSON_PATCH and not any(key.startswith("$") for key in body)
    touched = frozenset(body) if merged else None
    changed = change(language, value, body, definition)
    if isinstance(changed.get("metadata"), dict):
        changed["metadata"] = _own(changed["metadata"])
    try:
        changed, warned = backend.incoming(call, changed, (), touched, before)
    except incoming.Unfit as error:
        shown = call.request.body if language == STRATEGIC else encode(changed)
        raise errors.patch_invalid(shown.decode(errors="replace"), error.why) from None
    check_name(changed, call.name)
    intent = WriteOptions(
        manager=call.manager,
        version=call.resource.api_version,
        dry_run=call.dry_run,
        subresource=call.subresource,
        patch=True,
        user=backend.user(call.request),
    )
    entry = update(backend, stored, changed, old, intent, before)
    return reply_raw(view.one(entry), headers=warnings([*warned, *intent.warnings]))


def languages(resource: APIResource) -> tuple[str, ...]:
    """Return the content types in which a kind takes patches."""
    if resource.custom:
        return JSON_PATCH, MERGE, applying.LANGUAGE
    return JSON_PATCH, MERGE, STRATEGIC, applying.LANGUAGE


def change(language: str, value: Object, body: Any, definition: TypeDefinition | None) -> Object:
    """Return `value` as a patch would have it."""
    if language == JSON_PATCH:
        result = operations.apply(value, body)
    elif language == MERGE:
        result = merge.apply(value, body)
    else:
        assert definition is not None
        result = strategic.apply(value, body, definition)
    if not isinstance(result, dict):
        raise errors.patch_invalid(encode(result).decode(), "the patch leaves no object")
    return result


def _own(meta: Object) -> Object:
    """Return metadata that may be written to: all but the managed fields, which are only ever replaced."""
    return {
        key: part.copy() if isinstance(part, dict | list) and key != "managedFields" else part
        for key, part in meta.items()
    }


def check_name(value: Object, name: str) -> None:
    """Refuse a patch that renames the object."""
    meta = value.get("metadata")
    given = meta.get("name") if isinstance(meta, dict) else None
    if given and given != name:
        raise errors.bad_request(
            f"the name of the object ({given}) does not match the name on the URL ({name})"
        )


def read_patch(raw: bytes, language: str) -> Any:
    """Return the decoded body of a patch."""
    prefix = "" if language == STRATEGIC else "error decoding patch: "
    try:
        body = bodies.parse_json(raw).value
    except bodies.UnreadableBody as error:
        why = str(error).partition("json parse error: ")[2] or str(error)
        raise errors.bad_request(f"{prefix}{why}") from None
    wanted, name = (
        (list, "[]handlers.jsonPatchOp") if language == JSON_PATCH else (dict, "map[string]interface {}")
    )
    if not isinstance(body, wanted):
        got = bodies.json_type(body)
        raise errors.bad_request(f"{prefix}json: cannot unmarshal {got} into Go value of type {name}")
    return body
