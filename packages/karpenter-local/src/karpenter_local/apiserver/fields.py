"""
Which fields of which kinds a field selector may ask for, besides name and namespace.

The values are worked out once, when an object is stored, so that a watch with a field selector costs a
dictionary look-up per event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from karpenter_local.apiserver.entry import Object

# Each kind has a few fields that can be selected by, and a request by another one fails:
# https://kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors/#list-of-supported-fields
_PATHS: dict[str, tuple[str, ...]] = {
    "certificatesigningrequests.certificates.k8s.io": ("spec.signerName",),
    "jobs.batch": ("status.successful",),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    "replicasets.apps": ("status.replicas",),
    "replicationcontrollers": ("status.replicas",),
    "resourceslices.resource.k8s.io": ("spec.nodeName", "spec.driver"),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
    "events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
}
_REGARDING = {
    f"regarding.{name}": f"involvedObject.{name}"
    for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
}
_WHEN_ABSENT = {"spec.unschedulable": "false", "spec.hostNetwork": "false", "status.replicas": "0"}


def known(table: str) -> tuple[str, ...]:
    return _PATHS.get(table, ())


def reader(paths: tuple[str, ...]) -> Callable[[Object], Mapping[str, str]]:
    """Return a function from an object to the values of `paths`."""
    split = tuple((path, tuple(path.split("."))) for path in paths)

    def read(value: Object) -> Mapping[str, str]:
        return {path: _text(path, _dig(value, steps)) for path, steps in split}

    return read


def built_in(table: str) -> Callable[[Object], Mapping[str, str]] | None:
    """Return the reader of a built-in table, or None when there is nothing to read."""
    paths = _PATHS.get(table)
    if paths is None:
        return None
    return _event if table == "events" else reader(paths)


def renamed(field: str) -> str:
    """Return the stored name of a field; the events API calls what an event is about differently."""
    return _REGARDING.get(field, field)


_read_event = reader(tuple(path for path in _PATHS["events"] if path != "source"))


def _event(value: Object) -> Mapping[str, str]:
    source = (value.get("source") or {}).get("component") or value.get("reportingComponent") or ""
    return {**_read_event(value), "source": source}


def _dig(value: Any, steps: tuple[str, ...]) -> Any:
    for step in steps:
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def _text(path: str, value: Any) -> str:
    if value is None:
        return _WHEN_ABSENT.get(path, "")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
