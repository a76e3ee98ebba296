"""Ownership for the server: picks the shape and the blank of a kind, and the key of a writer."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from karpenter_local.apiserver.entry import Object, encode
from karpenter_local.apiserver.managed import owners, shapes
from karpenter_local.apiserver.managed.entries import APPLY, UPDATE, BadEntries, Key
from karpenter_local.apiserver.schema.conform import zero
from karpenter_local.apiserver.schema.types import built_in_types

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter_local.apiserver.managed.sets import Set
    from karpenter_local.apiserver.managed.shapes import Shape
    from karpenter_local.apiserver.resources import APIResource

_STATUS: Set = {"f:status": {}}
_ALL_BUT_STATUS: Set = {"f:spec": {}, "f:metadata": {"f:labels": {}, "f:annotations": {}}}


_CREATED_OFTEN = frozenset({"Event", "Pod"})
_MOST_STRUCTURES = 1024


class Author(msgspec.Struct, frozen=True):
    """By whom, in which version, and through which subresource an object is written."""

    manager: str
    version: str
    subresource: str = ""


class Tracker:
    """Keeps managed fields up to date."""

    def __init__(self, now: Callable[[], str], custom: Callable[[APIResource], Shape]) -> None:
        self._now = now
        self._custom = custom
        self._structures: dict[tuple[Any, ...], Set] = {}
        """What creators own, by the structure of what they create."""

        self._writes: dict[tuple[Any, ...], owners.Write] = {}
        """The last write of each author to each kind: many are made in one second."""

        self._updates: dict[bytes, owners.OwnedAfter] = {}
        """What managers own after an update, by what they owned before and what it changed."""

    def shape(self, resource: APIResource) -> Shape:
        """Return how objects of a kind are taken apart."""
        if resource.custom:
            return self._custom(resource)
        return shapes.of_kind(resource.group, resource.version, resource.kind)

    def on_create(self, resource: APIResource, value: Object, author: Author) -> None:
        """Note the creator of an object as the owner of its fields."""
        write = self._write(resource, UPDATE, author)
        fields = self._created(resource, value, write, author.subresource)
        try:
            found = owners.after_create(value, fields, write)
        except BadEntries:
            value["metadata"].pop("managedFields", None)
            found = owners.after_create(value, fields, write)
        _set(value, found)

    def _created(self, resource: APIResource, value: Object, write: owners.Write, subresource: str) -> Set:
        """Return what the creator owns; most new objects have the structure of others before them."""
        if resource.custom or resource.kind not in _CREATED_OFTEN:
            return owners.created_fields(value, blank(resource), write)
        key = (resource.group, resource.version, resource.kind, subresource, structure(value))
        fields = self._structures.get(key)
        if fields is None:
            if len(self._structures) >= _MOST_STRUCTURES:
                self._structures.clear()
            fields = self._structures[key] = owners.created_fields(value, blank(resource), write)
        return fields

    def on_update(self, resource: APIResource, value: Object, before: Object, author: Author) -> None:
        write = self._write(resource, UPDATE, author)
        try:
            found = owners.after_update(value, before, write, self._updates)
        except BadEntries:
            value["metadata"].pop("managedFields", None)
            found = owners.after_update(value, before, write, self._updates)
        if found is not None:
            _set(value, found)

    def apply(
        self, resource: APIResource, live: Object, given: Object, author: Author, *, force: bool
    ) -> owners.Applied:
        """Lay a configuration over an object; raises :class:`.owners.Conflicts`."""
        return owners.apply(live, given, self._write(resource, APPLY, author), force=force)

    def _write(self, resource: APIResource, operation: str, author: Author) -> owners.Write:
        question = (operation, author, resource.group, resource.version, resource.plural)
        known = None if resource.custom else self._writes.get(question)
        now = self._now()
        if known is not None and known.now == now:
            return known
        made = owners.Write(
            key=Key(operation, author.manager, author.version, author.subresource),
            now=now,
            shape=self.shape(resource),
            ignored=ignored_fields(resource, author.subresource),
        )
        if len(self._writes) >= _MOST_STRUCTURES:
            self._writes.clear()
        self._writes[question] = made
        return made


def structure(value: Any) -> Any:
    """Return what of an object decides which fields it has: keys, whole lists, and what is empty."""
    if type(value) is dict:
        return tuple([(key, structure(part)) for key, part in value.items()])
    if type(value) is list:
        return encode(value)
    return None if value else (type(value), value)


def ignored_fields(resource: APIResource, subresource: str) -> Set:
    """Return what a write to this part of an object never owns, because it cannot change it."""
    if subresource == "status":
        return _ALL_BUT_STATUS if resource.custom else {"f:spec": {}}
    if resource.has_status:
        return _STATUS
    return {}


def blank(resource: APIResource) -> Object:
    """Return an object of which nothing is set, as it would be written."""
    if resource.custom:
        return {"apiVersion": resource.api_version, "kind": resource.kind}
    return _blank(resource.group, resource.version, resource.kind)


@cache
def _blank(group: str, version: str, kind: str) -> Object:
    definition = built_in_types().of_kind(group, version, kind)
    assert definition is not None, kind
    return zero(definition)


def _set(value: Object, found: list[Any]) -> None:
    if found:
        value["metadata"]["managedFields"] = found
    else:
        value["metadata"].pop("managedFields", None)
