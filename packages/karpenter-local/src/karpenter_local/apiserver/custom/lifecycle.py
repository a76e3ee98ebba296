"""
The lifecycle of a CustomResourceDefinition: names accepted, established, and its objects deleted before
itself.

A definition is served from the write that makes it; its conditions follow in a second write, as clients
that wait for them expect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter_local.apiserver.custom.definition import TABLE, read
from karpenter_local.apiserver.verbs.deleting import DeleteOptions, remove

if TYPE_CHECKING:
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.entry import Entry, Object

# A definition stays until its objects are gone:
# https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


def accept(backend: Backend, entry: Entry) -> None:
    """Serve what a new or changed definition defines, and say so in its status."""
    value = entry.object()
    if value["metadata"].get("deletionTimestamp"):
        retire(backend, value)
        return
    rival = _rival(backend, value)
    if rival:
        _conditions(backend, value, rival)
        return
    backend.serve(value["metadata"]["name"], read(value))
    _conditions(backend, value, "")


def retire(backend: Backend, value: Object) -> None:
    """Delete every object of a definition that is being deleted; when none is left, let the definition go."""
    spec = value["spec"]
    table = backend.store.table(f"{spec['names']['plural']}.{spec['group']}")
    resource = next(
        (v.resource for v in backend.versions_of(value["metadata"]["name"]) if v.resource.stored), None
    )
    if resource is not None:
        for key in list(table.keys):
            entry = table.entries[key]
            if not entry.object()["metadata"].get("deletionTimestamp"):
                remove(backend, resource, entry, DeleteOptions())
    if not table.keys:
        _let_go(backend, value["metadata"]["name"])


def object_removed(backend: Backend, group: str, plural: str) -> None:
    """Look again at a definition that may have been waiting for its last object."""
    entry = backend.store.get(TABLE, f"{plural}.{group}")
    if entry is not None and b'"deletionTimestamp"' in entry.raw:
        value = entry.object()
        if value["metadata"].get("deletionTimestamp") and not backend.store.table(f"{plural}.{group}").keys:
            _let_go(backend, entry.key)


def is_terminating(backend: Backend, group: str, plural: str) -> bool:
    entry = backend.store.get(TABLE, f"{plural}.{group}")
    if entry is None or b'"deletionTimestamp"' not in entry.raw:
        return False
    return bool(entry.object()["metadata"].get("deletionTimestamp"))


def _let_go(backend: Backend, name: str) -> None:
    entry = backend.store.get(TABLE, name)
    if entry is None:
        return
    value = entry.object()
    left = [item for item in value["metadata"].get("finalizers") or () if item != FINALIZER]
    backend.unserve(name)
    if left:
        value["metadata"]["finalizers"] = left
        backend.store.put(TABLE, name, value)
        return
    backend.store.delete(TABLE, name)


def _rival(backend: Backend, value: Object) -> str:
    """Return the reason why a definition's names cannot be accepted, or nothing."""
    spec, name = value["spec"], value["metadata"]["name"]
    for resource in backend.registry:
        if resource.group != spec["group"] or resource.table == name:
            continue
        taken = {resource.plural, resource.singular, *resource.short_names}
        if resource.kind == spec["names"]["kind"]:
            return f'"{resource.kind}" is already in use'
        wanted = {
            spec["names"]["plural"],
            spec["names"].get("singular"),
            *(spec["names"].get("shortNames") or ()),
        }
        if taken & wanted:
            return f'"{min(taken & wanted, key=str)}" is already in use'
    return ""


def _conditions(backend: Backend, value: Object, rival: str) -> None:
    status: dict[str, Any] = value.setdefault("status", {})
    now = backend.now()
    accepted = "False" if rival else "True"
    wanted = [
        _condition(
            "NamesAccepted",
            accepted,
            *(("KindConflict", rival) if rival else ("NoConflicts", "no conflicts found")),
        ),
        _condition(
            "Established",
            accepted,
            *(
                ("NotAccepted", "not all names are accepted")
                if rival
                else ("InitialNamesAccepted", "the initial names have been accepted")
            ),
        ),
    ]
    before = {item["type"]: item for item in status.get("conditions") or ()}
    for item in wanted:
        old = before.get(item["type"])
        same = old is not None and old["status"] == item["status"]
        item["lastTransitionTime"] = old["lastTransitionTime"] if same and old else now
    names = {"plural": "", "kind": ""} if rival else dict(value["spec"]["names"])
    stored = next(item["name"] for item in value["spec"]["versions"] if item.get("storage"))
    versions = list(status.get("storedVersions") or ())
    if stored not in versions:
        versions.append(stored)
    new = {"conditions": wanted, "acceptedNames": names, "storedVersions": versions}
    if new != status:
        value["status"] = new
        backend.store.put(TABLE, value["metadata"]["name"], value)


def _condition(kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "lastTransitionTime": None, "reason": reason, "message": message}
