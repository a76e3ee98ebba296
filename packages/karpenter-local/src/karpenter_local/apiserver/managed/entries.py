"""
``metadata.managedFields``: the list of managers and their fields, read and written.

An entry is known by its manager, operation, version and subresource. At most ten managers of updates are
kept apart; older ones are merged into one.
"""

from __future__ import annotations

from typing import Any

import msgspec

from karpenter_local.apiserver.managed import sets
from karpenter_local.apiserver.managed.sets import Set

APPLY = "Apply"
UPDATE = "Update"
# The entry that old updates are merged into, once there are too many:
# https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/capmanagers.go
ANCIENT = "ancient-changes"
# https://kubernetes.io/docs/reference/using-api/server-side-apply/
_MAX_UPDATERS = 10


class Key(msgspec.Struct, frozen=True, order=True):
    """Identity of a manager."""

    operation: str
    manager: str
    api_version: str
    subresource: str = ""


class Managed(msgspec.Struct):
    """The fields of one manager, and when it last took one."""

    fields: Set
    time: str = ""
    in_order: Set | None = None
    """The set with its elements in order, where that is known."""


Managers = dict[Key, Managed]


class BadEntries(ValueError):  # noqa: N818  reads as what is the matter
    """The list that a client sent cannot be read."""


def read(entries: Any, *, in_order: bool = False) -> Managers:
    """Return the managers that a list in metadata names; what :func:`write` has written is in order."""
    found: Managers = {}
    for entry in entries or ():
        operation = entry.get("operation", "")
        if operation not in {APPLY, UPDATE}:
            raise BadEntries(f"operation is `{operation}` but should be `Apply` or `Update`")
        fields = entry.get("fieldsV1")
        if entry.get("fieldsType", "FieldsV1") != "FieldsV1" or not isinstance(fields, dict | None):
            raise BadEntries("fieldsType must be `FieldsV1`")
        key = Key(
            operation, entry.get("manager", ""), entry.get("apiVersion", ""), entry.get("subresource", "")
        )
        fields = fields or {}
        found[key] = Managed(fields, entry.get("time") or "", fields if in_order else None)
    return found


def write(managers: Managers) -> list[dict[str, Any]]:
    """Return the list for metadata: appliers first, then by time."""
    capped = _cap(managers)
    order = sorted(capped, key=lambda key: (key.operation, capped[key].time, key))
    entries = []
    for key in order:
        entry: dict[str, Any] = {
            "manager": key.manager,
            "operation": key.operation,
            "apiVersion": key.api_version,
        }
        if capped[key].time:
            entry["time"] = capped[key].time
        managed = capped[key]
        fields = managed.fields if managed.fields is managed.in_order else sets.ordered(managed.fields)
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": fields}
        if key.subresource:
            entry["subresource"] = key.subresource
        entries.append(entry)
    return entries


def _cap(managers: Managers) -> Managers:
    """Merge the oldest updaters when there are too many."""
    managers = {key: managed for key, managed in managers.items() if managed.fields}
    updaters = sorted(
        (key for key in managers if key.operation == UPDATE and not key.subresource),
        key=lambda key: (managers[key].time, key),
    )
    excess = len(updaters) - _MAX_UPDATERS
    if excess <= 0:
        return managers
    for key in updaters[: excess + 1]:
        target = Key(UPDATE, ANCIENT, key.api_version)
        old = managers.pop(key)
        bucket = managers.get(target)
        fields = sets.union(bucket.fields, old.fields) if bucket else old.fields
        managers[target] = Managed(fields, old.time)
    return managers
