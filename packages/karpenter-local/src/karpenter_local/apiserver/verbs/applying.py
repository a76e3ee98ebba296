"""
Server-side apply: a client applies a configuration of an object, and owns the fields of it.

The object is created if it does not exist. Ownership and conflicts are decided in
:mod:`karpenter_local.apiserver.managed`.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from karpenter_local.apiserver import bodies, errors
from karpenter_local.apiserver.field_errors import invalid
from karpenter_local.apiserver.managed.owners import Conflicts
from karpenter_local.apiserver.managed.tracker import Author, blank
from karpenter_local.apiserver.presenting import reply_raw, warnings
from karpenter_local.apiserver.writing import WriteOptions, create, update

if TYPE_CHECKING:
    from karpenter.kube.transport import Response
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.entry import Entry, Object
    from karpenter_local.apiserver.request import RequestInfo
    from karpenter_local.apiserver.views import ResponseView

# https://kubernetes.io/docs/reference/using-api/server-side-apply/#api-implementation
LANGUAGE = "application/apply-patch+yaml"


def apply(backend: Backend, call: RequestInfo, view: ResponseView) -> Response:
    """Merge the configuration in the body into the object, or make the object from it."""
    manager = call.request.parameter("fieldManager")
    given, warned = _read(backend, call)
    name = (given.get("metadata") or {}).get("name")
    if name and name != call.name:
        raise errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({call.name})"
        )
    stored = backend.kept(call.resource)
    old = backend.entry(stored, call.namespace, call.name)
    if old is None:
        if call.subresource:
            raise errors.not_found(call.resource, call.name)
        # What is merged into it must not be in the next object that is made from nothing.
        live = {
            "kind": call.resource.kind,
            "apiVersion": call.resource.api_version,
            **deepcopy(blank(stored)),
        }
        live["metadata"] = {"name": call.name}
    else:
        live = old.object()
        _check_identity(call, given, live)
    try:
        author = Author(manager, call.resource.api_version, call.subresource)
        result = backend.owners.apply(stored, live, given, author, force=call.flag("force"))
    except Conflicts as conflicts:
        raise errors.apply_conflict(conflicts.causes) from None
    intent = WriteOptions(
        manager=manager,
        dry_run=call.dry_run,
        subresource=call.subresource,
        applied=result.managers,
        user=backend.user(call.request),
    )
    entry, status = _write(backend, call, result.value, old, intent)
    return reply_raw(view.one(entry), status=status, headers=warnings([*warned, *intent.warnings]))


def _write(
    backend: Backend, call: RequestInfo, value: Object, old: Entry | None, intent: WriteOptions
) -> tuple[Entry, int]:
    stored = backend.kept(call.resource)
    if old is not None:
        value = backend.normal(stored, value)
        return update(backend, stored, value, old, intent), 200
    value["metadata"]["name"] = call.name
    value = backend.normal(stored, value)
    return create(backend, stored, call.namespace, value, intent), 201


def _read(backend: Backend, call: RequestInfo) -> tuple[Object, list[str]]:
    try:
        body = bodies.parse_yaml(call.request.body)
    except bodies.UnreadableBody as error:
        raise errors.bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    if not isinstance(body.value, dict):
        got = bodies.json_type(body.value)
        raise errors.bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: "
            f"json: cannot unmarshal {got} into Go value of type map[string]interface {{}}"
        )
    given = body.value
    api_version, kind = given.get("apiVersion") or "", given.get("kind") or ""
    if (api_version, kind) != (call.resource.api_version, call.resource.kind):
        group, _, version = str(api_version).rpartition("/")
        raise errors.bad_request(f"invalid object type: {group}/{version}, Kind={kind}")
    if (given.get("metadata") or {}).get("managedFields"):
        raise errors.bad_request("metadata.managedFields must be nil")
    return backend.configuration(call, given, body.repeated)


def _check_identity(call: RequestInfo, given: Object, live: Object) -> None:
    meta = given.get("metadata") or {}
    if meta.get("uid") and meta["uid"] != live["metadata"]["uid"]:
        error = invalid("metadata.uid", meta["uid"], "field is immutable")
        raise errors.invalid(call.resource.kind, call.resource.group, call.name, [error])
    revision = meta.get("resourceVersion")
    if revision and revision != live["metadata"]["resourceVersion"]:
        raise errors.conflict(call.resource, call.name)
