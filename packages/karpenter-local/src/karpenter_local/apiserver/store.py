"""
Every object of the cluster, and one revision that counts all writes.

Objects live in tables, one per kind of storage (``pods``, ``deployments.apps``); each table knows its keys
in order and its recent :class:`~.watch_cache.History`. A write is synchronous: it takes the next revision,
stamps it into the object, encodes once, appends to the journal and wakes the watchers. For compare-and-swap a
writer compares ``revision`` first: there is no await between the two, so nothing can come in between.

What may be written and by whom is decided by the verbs. The journal, if any, is :mod:`.journal`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any, Protocol

from karpenter_local.apiserver.entry import Entry, Object, encode
from karpenter_local.apiserver.watch_cache import EventType, WatchCache, WatchCacheEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Fields = Callable[[Object], Mapping[str, str]]


class Journal(Protocol):
    """Where writes are kept on disk."""

    def record(self, table: str, change: WatchCacheEvent) -> None:
        """Take one write, in order. It is safe once `settled` has returned for its revision."""
        ...

    async def settled(self, revision: int) -> None:
        """Wait until every write up to `revision` would survive a crash."""
        ...


def no_fields(_: Object) -> Mapping[str, str]:
    """Say that a kind has no selectable fields but name and namespace."""
    return {}


class StoreTable:
    """All objects of one kind."""

    def __init__(self, name: str, compacted: int, fields: Fields = no_fields) -> None:
        self.name = name
        self.fields = fields
        self.entries: dict[str, Entry] = {}
        self.keys: list[str] = []
        """Every key, in order."""
        self.history = WatchCache(compacted)

    def entry(self, key: str, revision: int, value: Object) -> Entry:
        labels = value["metadata"].get("labels") or {}
        return Entry(key, revision, encode(value), labels, self.fields)

    def between(self, namespace: str) -> list[str]:
        """Return the keys in `namespace` in order; an empty one means everywhere."""
        if not namespace:
            return self.keys
        start = bisect_left(self.keys, f"{namespace}/")
        end = bisect_left(self.keys, f"{namespace}0")  # "0" follows "/"
        return self.keys[start:end]

    def set(self, entry: Entry) -> Entry | None:
        """Put `entry` in its place; return what was there."""
        before = self.entries.get(entry.key)
        if before is None:
            insort(self.keys, entry.key)
        self.entries[entry.key] = entry
        return before

    def unset(self, key: str) -> Entry | None:
        before = self.entries.pop(key, None)
        if before is not None:
            del self.keys[bisect_left(self.keys, key)]
        return before


class ObjectStore:
    """The state of one cluster."""

    def __init__(self, journal: Journal | None = None) -> None:
        self.revision = 1
        self.journal = journal
        self._tables: dict[str, StoreTable] = {}
        self._fields: dict[str, Fields] = {}
        self._compacted = 0

    def tables(self) -> Iterable[StoreTable]:
        """Return every table that has ever held something."""
        return self._tables.values()

    def table(self, name: str) -> StoreTable:
        """Return a table; it need not hold anything yet."""
        found = self._tables.get(name)
        return self.open(name, self._compacted) if found is None else found

    def open(self, name: str, since: int | None = None) -> StoreTable:
        """Return a table; if it is new, it remembers nothing before `since`, or before now."""
        found = self._tables.get(name)
        if found is None:
            fields = self._fields.get(name, no_fields)
            found = self._tables[name] = StoreTable(name, self.revision if since is None else since, fields)
        return found

    def select_by(self, name: str, fields: Fields) -> None:
        """Say which fields of a table's objects selectors may ask for."""
        self._fields[name] = fields
        if (table := self._tables.get(name)) is not None:
            table.fields = fields
            for key, entry in table.entries.items():
                table.entries[key] = Entry(key, entry.revision, entry.raw, entry.labels, fields)

    def rewrite(self, name: str, api_version: str) -> None:
        """
        Put every object of a table under another version of its kind, silently: nothing else about it
        changes.
        """
        table = self.table(name)
        for key, entry in table.entries.items():
            value = entry.object()
            if value["apiVersion"] != api_version:
                value["apiVersion"] = api_version
                table.entries[key] = Entry(key, entry.revision, encode(value), entry.labels, entry.fields)

    def get(self, table: str, key: str) -> Entry | None:
        found = self._tables.get(table)
        return None if found is None else found.entries.get(key)

    def put(self, table: str, key: str, value: Object) -> Entry:
        """Write `value`, stamped with the next revision. `value` belongs to the store from here on."""
        target = self.table(table)
        revision = self.revision + 1
        value["metadata"]["resourceVersion"] = str(revision)
        entry = target.entry(key, revision, value)
        before = target.entries.get(key)
        change = WatchCacheEvent("MODIFIED" if before else "ADDED", entry, before)
        self._record(target, change)
        target.set(entry)
        target.history.append(change)
        return entry

    def delete(self, table: str, key: str, value: Object | None = None) -> Entry:
        """Remove the object; return its last state, or `value`, stamped with the delete's revision."""
        target = self.table(table)
        before = target.entries[key]
        revision = self.revision + 1
        final = before.object() if value is None else value
        final["metadata"]["resourceVersion"] = str(revision)
        last = target.entry(key, revision, final)
        change = WatchCacheEvent("DELETED", last, before)
        self._record(target, change)
        target.unset(key)
        target.history.append(change)
        return last

    def restore(self, table: str, type_: EventType, key: str, revision: int, raw: bytes) -> None:
        """Repeat a write that a journal kept."""
        target = self.table(table)
        labels: Any = Entry(key, revision, raw, {}, {}).object()["metadata"].get("labels") or {}
        entry = Entry(key, revision, raw, labels, target.fields)
        before = target.unset(key) if type_ == "DELETED" else target.set(entry)
        self.revision = max(self.revision, revision)
        target.history.append(WatchCacheEvent(type_, entry, before))

    def compact(self, revision: int | None = None) -> None:
        """Forget the history up to `revision`, or all of it, as a server does from time to time."""
        self._compacted = self.revision if revision is None else revision
        for table in self._tables.values():
            table.history.compact(self._compacted)

    async def settled(self, revision: int) -> None:
        """Wait until what was written up to `revision` is safe."""
        if self.journal is not None:
            await self.journal.settled(revision)

    def withdraw(self, revision: int) -> None:
        """Take back every write after `revision`; none was answered."""
        for table in self._tables.values():
            for change in table.history.withdraw(revision):
                if change.before is None:
                    table.unset(change.entry.key)
                else:
                    table.set(change.before)

    def _record(self, table: StoreTable, change: WatchCacheEvent) -> None:
        """Hand a write to the journal, before anything shows it: a journal may refuse."""
        if self.journal is not None:
            self.journal.record(table.name, change)
        self.revision = change.entry.revision
