"""Tables on the wire: a row per object, and beside it as much of the object as the client wants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter_local.apiserver import errors
from karpenter_local.apiserver.entry import Entry, Object, encode
from karpenter_local.apiserver.views import event, metadata_only

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from karpenter_local.apiserver.tables.columns import TableColumn
    from karpenter_local.apiserver.watch_cache import WatchCacheEvent

_INCLUDES = frozenset({"", "Metadata", "Object", "None"})


class TableView:
    """A view that shows objects as rows. In a watch, the headings come with the first event only."""

    def __init__(
        self, columns: tuple[TableColumn, ...], now: Callable[[], datetime], include: str = ""
    ) -> None:
        if include not in _INCLUDES:
            raise errors.bad_request(f'unrecognized includeObject value: "{include}"')
        self._columns = columns
        self._now = now
        self._include = include or "Metadata"
        self._headed = False

    def one(self, entry: Entry) -> bytes:
        return encode(self._table({"resourceVersion": str(entry.revision)}, [entry]))

    def many(self, meta: dict[str, Any], entries: Sequence[Entry]) -> bytes:
        return encode(self._table(meta, entries))

    def line(self, type_: str, entry: Entry) -> bytes:
        table = self._table({"resourceVersion": str(entry.revision)}, [entry])
        if self._headed:
            table["columnDefinitions"] = None
        self._headed = True
        return event(type_, encode(table))

    def change(self, change: WatchCacheEvent) -> bytes:
        return self.line(change.type, change.entry)

    def bookmark(self, value: Object) -> bytes:
        """Return a bookmark whose object is a table with a row that says nothing."""
        meta = {key: part for key, part in value["metadata"].items() if key != "creationTimestamp"}
        row = {"cells": ["" for _ in self._columns], "object": metadata_only({"metadata": meta})}
        table = self._table({"resourceVersion": meta["resourceVersion"]}, [])
        return event("BOOKMARK", encode({**table, "columnDefinitions": None, "rows": [row]}))

    def _table(self, meta: dict[str, Any], entries: Sequence[Entry]) -> dict[str, Any]:
        now = self._now()
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": meta,
            "columnDefinitions": [column.definition() for column in self._columns],
            "rows": [self._row(entry, now) for entry in entries],
        }

    def _row(self, entry: Entry, now: datetime) -> dict[str, Any]:
        value = entry.object()
        row: dict[str, Any] = {"cells": [column.cell(value, now) for column in self._columns]}
        if self._include == "Metadata":
            row["object"] = metadata_only(value)
        elif self._include == "Object":
            row["object"] = value
        else:
            row["object"] = None
        return row
