"""
Server-side apply: a client says what it wants of an object, and owns that.

The object is made if it is not there. Who owns what, and what conflicts, is decided in
:mod:`karpenter_local.apiserver.managed`.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from karpenter_local.apiserver import bodies, faults
from karpenter_local.apiserver.complaints import bad
from karpenter_local.apiserver.managed.owners import Conflicts
from karpenter_local.apiserver.managed.tracker import Author, blank
from karpenter_local.apiserver.presenting import reply_raw, warnings
from karpenter_local.apiserver.writing import Intent, create, update

if TYPE_CHECKING:
    from karpenter.kube.transport import Response
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.entry import Entry, Object
    from karpenter_local.apiserver.request import Call
    from karpenter_local.apiserver.views import View

LANGUAGE = "application/apply-patch+yaml"


def apply(backend: Backend, call: Call, view: View) -> Response:
    """Merge the configuration in the body into the object, or make the object from it."""
    manager = call.request.parameter("fieldManager")
    given, warned = _read(backend, call)
    name = (given.get("metadata") or {}).get("name")
    if name and name != call.name:
        raise faults.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({call.name})"
        )
    stored = backend.kept(call.resource)
    old = backend.entry(stored, call.namespace, call.name)
    if old is None:
        if call.subresource:
            raise faults.not_found(call.resource, call.name)
        live = _seed(call, blank(stored))
    else:
        live = old.object()
        _check_identity(call, given, live)
    try:
        author = Author(manager, call.resource.api_version, call.subresource)
        result = backend.owners.apply(stored, live, given, author, force=call.flag("force"))
    except Conflicts as conflicts:
        raise faults.apply_conflict(conflicts.causes) from None
    intent = Intent(
        manager=manager, dry_run=call.dry_run, subresource=call.subresource, applied=result.managers
    )
    entry, status = _write(backend, call, result.value, old, intent)
    return reply_raw(view.one(entry), status=status, headers=warnings(warned))


def _write(
    backend: Backend, call: Call, value: Object, old: Entry | None, intent: Intent
) -> tuple[Entry, int]:
    stored = backend.kept(call.resource)
    if old is not None:
        value = backend.normal(stored, value)
        return update(backend, stored, value, old, intent), 200
    value["metadata"]["name"] = call.name
    value = backend.normal(stored, value)
    return create(backend, stored, call.namespace, value, intent), 201


def _read(backend: Backend, call: Call) -> tuple[Object, list[str]]:
    try:
        body = bodies.parse_yaml(call.request.body)
    except bodies.Unreadable as error:
        raise faults.bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    if not isinstance(body.value, dict):
        got = bodies.json_type(body.value)
        raise faults.bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: "
            f"json: cannot unmarshal {got} into Go value of type map[string]interface {{}}"
        )
    given = body.value
    api_version, kind = given.get("apiVersion") or "", given.get("kind") or ""
    if (api_version, kind) != (call.resource.api_version, call.resource.kind):
        group, _, version = str(api_version).rpartition("/")
        raise faults.bad_request(f"invalid object type: {group}/{version}, Kind={kind}")
    if (given.get("metadata") or {}).get("managedFields"):
        raise faults.bad_request("metadata.managedFields must be nil")
    return backend.configuration(call, given, body.repeated)


def _check_identity(call: Call, given: Object, live: Object) -> None:
    meta = given.get("metadata") or {}
    if meta.get("uid") and meta["uid"] != live["metadata"]["uid"]:
        complaint = bad("metadata.uid", meta["uid"], "field is immutable")
        raise faults.invalid(call.resource.kind, call.resource.group, call.name, [complaint])
    revision = meta.get("resourceVersion")
    if revision and revision != live["metadata"]["resourceVersion"]:
        raise faults.conflict(call.resource, call.name)


def _seed(call: Call, empty: Object) -> Object:
    # What is merged into it must not be in the next object that is made from nothing.
    seed = {"kind": call.resource.kind, "apiVersion": call.resource.api_version, **deepcopy(empty)}
    seed["metadata"] = {"name": call.name}
    return seed
