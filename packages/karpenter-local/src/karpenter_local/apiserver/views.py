"""
The shapes in which a client may ask for objects: as stored, in another version, as metadata only, as a table.

A view turns entries into bytes; what to show and in which order is the verb's business. Tables are in
:mod:`.tables`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from karpenter_local.apiserver.entry import Entry, Object, encode
from karpenter_local.apiserver.presenting import list_raw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karpenter_local.apiserver.resources import APIResource
    from karpenter_local.apiserver.watch_cache import WatchCacheEvent


class ResponseView(Protocol):
    """A shape for one object, for many, and for an event."""

    def one(self, entry: Entry) -> bytes: ...

    def many(self, meta: dict[str, Any], entries: Sequence[Entry]) -> bytes:
        """Return a list with `meta` as its metadata."""
        ...

    def line(self, type_: str, entry: Entry) -> bytes: ...

    def change(self, change: WatchCacheEvent) -> bytes:
        """Return a watch event for a change that the whole stream sees as it happened."""
        ...

    def bookmark(self, value: Object) -> bytes:
        """Return a bookmark; `value` is an object with no more than a revision."""
        ...


def event(type_: str, raw: bytes) -> bytes:
    return b"".join((b'{"type":"', type_.encode(), b'","object":', raw, b"}"))


class Stored:
    """Objects as they are stored."""

    def __init__(self, resource: APIResource) -> None:
        self._resource = resource
        self._head = resource.head
        self._skip = len(self._head)

    def one(self, entry: Entry) -> bytes:
        return entry.raw

    def many(self, meta: dict[str, Any], entries: Sequence[Entry]) -> bytes:
        """Return a list; items of built-in kinds go without kind and version, as the API has it."""
        resource = self._resource
        if resource.custom:
            items = [entry.raw for entry in entries]
        else:
            skip = self._skip
            items = [b"{" + entry.raw[skip:] for entry in entries]
        return list_raw(resource.list_kind, resource.api_version, meta, items)

    def line(self, type_: str, entry: Entry) -> bytes:
        return event(type_, entry.raw)

    def change(self, change: WatchCacheEvent) -> bytes:
        """Return the event that is encoded once for all."""
        return change.line

    def bookmark(self, value: Object) -> bytes:
        return event("BOOKMARK", encode(value))


class Converted:
    """Objects changed on the way out: another version, or metadata only."""

    def __init__(self, convert: Callable[[Object], Object], list_kind: str, api_version: str) -> None:
        self._convert = convert
        self._list_kind = list_kind
        self._api_version = api_version

    def one(self, entry: Entry) -> bytes:
        return encode(self._convert(entry.object()))

    def many(self, meta: dict[str, Any], entries: Sequence[Entry]) -> bytes:
        items = [self.one(entry) for entry in entries]
        return list_raw(self._list_kind, self._api_version, meta, items)

    def line(self, type_: str, entry: Entry) -> bytes:
        return event(type_, self.one(entry))

    def change(self, change: WatchCacheEvent) -> bytes:
        return event(change.type, self.one(change.entry))

    def bookmark(self, value: Object) -> bytes:
        """Return a bookmark; one of metadata is metadata only too, because clients decode nothing else."""
        if self._list_kind == "PartialObjectMetadataList":
            value = metadata_only(value)
            value["metadata"].pop("creationTimestamp", None)
        return event("BOOKMARK", encode(value))


def metadata_only(value: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": value["metadata"]}
