"""
The rules of field ownership for updates and for server-side apply.

An update owns the fields that it changed; their previous owners lose them. An apply owns the fields of its
configuration; where that changes a value that another manager owns, it is refused with the list of conflicts,
unless forced. A field that an applier leaves out of its next configuration is removed, unless another manager
owns it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from karpenter_local.apiserver.entry import Object, encode
from karpenter_local.apiserver.managed import entries, sets
from karpenter_local.apiserver.managed.compare import Comparison, compare, fields_of
from karpenter_local.apiserver.managed.entries import UPDATE, Key, Managed, Managers
from karpenter_local.apiserver.managed.merge import merge
from karpenter_local.apiserver.managed.prune import prune
from karpenter_local.apiserver.managed.sets import Set
from karpenter_local.apiserver.managed.shapes import Shape

# https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
_NEVER_OWNED: Set = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        ".": {},
        "f:name": {},
        "f:namespace": {},
        "f:uid": {},
        "f:selfLink": {},
        "f:generation": {},
        "f:creationTimestamp": {},
        "f:resourceVersion": {},
        "f:managedFields": {},
        "f:clusterName": {},
    },
}
# Owns the fields of objects from before their first apply:
# https://kubernetes.io/docs/reference/using-api/server-side-apply/#upgrading-from-client-side-apply-to-server-side-apply
BEFORE_APPLY = "before-first-apply"
_MAX_KNOWN_UPDATES = 2048
"""Updates whose outcome is kept at a time."""


class Conflicts(Exception):  # noqa: N818  what the API calls them
    """An apply would change fields of others: pairs of a manager's description and a field."""

    def __init__(self, causes: list[tuple[str, str]]) -> None:
        super().__init__(f"{len(causes)} fields have other owners")
        self.causes = causes


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """Who writes, when, how the object is taken apart, and what this way of writing can never own."""

    key: Key
    now: str
    shape: Shape
    ignored: Set

    def own(self, fields: Set) -> Set:
        """Return what of `fields` can be owned: not identity, and not what this write cannot touch."""
        return sets.without(sets.difference(fields, _NEVER_OWNED), self.ignored)


def created_fields(value: Object, blank: Object, write: Write) -> Set:
    """Return what the creator of an object owns, in order: everything that is not in a blank one."""
    return sets.ordered(write.own(compare(blank, value, write.shape).touched))


def after_create(value: Object, fields: Set, write: Write) -> list[Any]:
    """Return the managed fields of a new object, whose creator owns `fields`."""
    given = value["metadata"].get("managedFields")
    managers: Managers = {} if _is_reset(given) else entries.read(given)
    for other in managers.values():
        other.fields = sets.difference(other.fields, fields)
    if fields:
        mine = managers.get(write.key)
        if mine is None:
            managers[write.key] = Managed(fields, write.now, in_order=fields)
        else:
            managers[write.key] = Managed(sets.union(mine.fields, fields), write.now)
    return entries.write(managers)


def after_update(
    value: Object, before: Object, write: Write, known: dict[bytes, OwnedAfter]
) -> list[Any] | None:
    """
    Return the managed fields after an update; None leaves an object without any as it is.

    Objects of one owner go through the same updates, so what the managers own afterwards is kept in `known`.
    """
    given = value["metadata"].get("managedFields")
    was = before["metadata"].get("managedFields")
    if _is_reset(given):
        return []
    if not was and not given:
        return None
    # What is stored is in order; a client may have sent it back in another.
    in_order = not given or given is was or encode(given) == encode(was)
    managers = entries.read(given or was, in_order=in_order)
    # Where the list is the same, comparing leaves it out anyway.
    apart = given is not was
    found = compare(_bare(before) if apart else before, _bare(value) if apart else value, write.shape)
    held = [other.fields for other in managers.values()]
    changes = (found.added, found.modified, found.removed)
    question = encode((write.key, write.ignored, list(managers), held, changes))
    after = known.get(question)
    if after is None:
        if len(known) >= _MAX_KNOWN_UPDATES:
            known.clear()
        after = known[question] = _owned_after(managers, found, write)
    for key, fields in after.fields.items():
        other = managers.setdefault(key, Managed({}))
        other.fields = other.in_order = fields
    if after.took:
        managers[write.key].time = write.now
    return entries.write(managers)


class OwnedAfter(msgspec.Struct, frozen=True):
    """Fields of each manager after an update, in order, and whether the writer took any of them."""

    fields: dict[Key, Set]
    took: bool


def _owned_after(managers: Managers, found: Comparison, write: Write) -> OwnedAfter:
    touched = write.own(found.touched)
    owned: dict[Key, Set] = {}
    for key, other in managers.items():
        left = other.fields if key == write.key else sets.difference(other.fields, touched)
        owned[key] = sets.difference(left, found.removed)
    if touched:
        owned[write.key] = sets.union(owned.get(write.key, {}), touched)
    return OwnedAfter(
        {
            key: fields if key in managers and fields is managers[key].in_order else sets.ordered(fields)
            for key, fields in owned.items()
        },
        bool(touched),
    )


class Applied:
    """Outcome of an apply: the object, and the managers afterwards."""

    __slots__ = ("managers", "value")

    def __init__(self, value: Object, managers: list[Any]) -> None:
        self.value = value
        self.managers = managers


def apply(live: Object, given: Object, write: Write, *, force: bool) -> Applied:
    """Lay a configuration over an object.

    Raises:
        Conflicts: it would change what others own, and is not forced.
    """
    key, shape = write.key, write.shape
    managers = entries.read(live["metadata"].get("managedFields"))
    if not managers and live["metadata"].get("resourceVersion"):
        fields = sets.difference(fields_of(_bare(live), shape), _NEVER_OWNED)
        managers[Key(UPDATE, BEFORE_APPLY, key.api_version)] = Managed(fields)
    mine = managers.get(key)
    last = mine.fields if mine else {}
    config = _bare(given)
    fields = write.own(fields_of(config, shape))
    merged = merge(live, config, shape)
    others = {other: managed for other, managed in managers.items() if other != key}
    owned = fields
    for managed in others.values():
        owned = sets.union(owned, managed.fields)
    merged = prune(_bare(merged), shape, last, owned) or {}
    merged = {"kind": live["kind"], "apiVersion": live["apiVersion"], **merged}
    merged["metadata"] = {**_identity(live["metadata"]), **(merged.get("metadata") or {})}
    found = compare(_bare(live), _bare(merged), shape)
    _settle(others, found, force=force)
    unchanged = mine is not None and mine.fields == fields and not found
    others[key] = Managed(fields, mine.time if unchanged and mine else write.now)
    return Applied(merged, entries.write(others))


def _settle(others: Managers, found: Comparison, *, force: bool) -> None:
    touched = found.touched
    causes: list[tuple[str, str]] = []
    for other, managed in others.items():
        clash = sets.intersection(managed.fields, touched)
        if clash:
            causes.extend((describe(other), path) for path in sets.paths(clash))
            managed.fields = sets.difference(managed.fields, clash)
        managed.fields = sets.difference(managed.fields, found.removed)
    if causes and not force:
        raise Conflicts(sorted(causes))


def describe(key: Key) -> str:
    """Return a manager as conflict messages name it."""
    text = f'"{key.manager}"'
    if key.operation == UPDATE:
        if key.subresource:
            text += f' with subresource "{key.subresource}"'
        text += f" using {key.api_version}"
    elif key.subresource:
        text += f' with subresource "{key.subresource}"'
    return text


def _is_reset(given: Any) -> bool:
    return isinstance(given, list) and len(given) == 1 and not given[0]


def _bare(value: Object) -> Object:
    meta = value.get("metadata") or {}
    if "managedFields" not in meta:
        return value
    return {**value, "metadata": {key: part for key, part in meta.items() if key != "managedFields"}}


def _identity(meta: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata that no configuration can take away."""
    keys = (
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    )
    return {key: meta[key] for key in keys if key in meta}
