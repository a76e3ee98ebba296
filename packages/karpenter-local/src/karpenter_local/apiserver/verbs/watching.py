"""
Watch: a list that goes on.

A watch is a cursor into the kind's :class:`~karpenter_local.apiserver.watch_cache.History`. It owns no
queue: a client that reads slowly falls behind in the history, and when the history has moved past it, its
stream ends. Events leave in batches, so that a burst costs one wake-up per watcher and not one per event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver import errors
from karpenter_local.apiserver.entry import Entry, Object, encode
from karpenter_local.apiserver.options import refuse
from karpenter_local.apiserver.verbs.selecting import current, parse_revision, selector

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.request import RequestInfo
    from karpenter_local.apiserver.views import ResponseView
    from karpenter_local.apiserver.watch_cache import WatchCacheEvent

# --min-request-timeout of kube-apiserver:
# https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/
LONGEST_WATCH_SECONDS = 1800.0
"""Seconds after which a watch ends, unless the client asked for another limit."""
# kube-apiserver sends bookmarks about once a minute:
# https://kubernetes.io/docs/reference/using-api/api-concepts/
BOOKMARK_SECONDS = 60.0
_BATCH_EVENTS = 512


class Watch:
    """One accepted watch."""

    content_type = "application/json"

    def __init__(self, backend: Backend, call: RequestInfo, view: ResponseView) -> None:
        self._backend = backend
        self._clock = backend.clock
        self._view = view
        self._call = call
        self._selector = selector(backend, call)
        self._history = backend.store.table(call.resource.table).history
        self._bookmarks = call.flag("allowWatchBookmarks")
        self._marks_end = self._bookmarks and call.flag("sendInitialEvents")
        self._seconds = _seconds(call)
        self._until = self._next_bookmark = 0.0
        self._prefix = f"{call.namespace}/" if call.namespace else ""
        asked = _asked(call)
        if _wants_initial(call):
            self._first: Sequence[Entry] = current(backend, call, self._selector)
            self._after = backend.store.revision
        else:
            self._first = ()
            self._after = asked
        cursor = self._history.cursor(self._after)
        self._too_old = cursor is None
        self._cursor = cursor or 0

    async def batches(self) -> AsyncGenerator[Sequence[bytes], None]:
        if self._too_old:
            # An accepted watch says so in its stream, as clients of the API expect.
            yield [error_line(too_old(self._after, self._history.compacted))]
            return
        self._until = self._clock.monotonic() + self._seconds
        self._next_bookmark = self._clock.monotonic() + BOOKMARK_SECONDS
        for start in range(0, len(self._first), _BATCH_EVENTS):
            yield [self._view.line("ADDED", entry) for entry in self._first[start : start + _BATCH_EVENTS]]
        self._first = ()
        if self._marks_end:
            yield [self._view.bookmark(bookmark(self._call, self._after, initial_end=True))]
        while True:
            changes = self._history.read(self._cursor, _BATCH_EVENTS)
            if changes is None:
                return  # too slow: the client lists anew
            if changes:
                lines = await self._take(changes)
            elif self._clock.monotonic() >= self._until:
                if self._bookmarks:
                    yield [self._mark()]
                return
            else:
                lines = await self._pause()
            if lines:
                yield lines

    async def _take(self, changes: Sequence[WatchCacheEvent]) -> list[bytes]:
        """Return the events for some changes, once those are safe."""
        self._cursor += len(changes)
        newest = changes[-1].entry.revision
        await self._backend.store.settled(newest)
        lines = []
        for change in changes:
            if change.entry.revision <= self._after or not change.entry.key.startswith(self._prefix):
                continue
            line = self._line(change) if self._selector else self._view.change(change)
            if line is not None:
                lines.append(line)
        self._after = max(self._after, newest)
        return lines

    async def _pause(self) -> list[bytes]:
        """Wait for news; return a bookmark when one is due instead."""
        now = self._clock.monotonic()
        if self._bookmarks and now >= self._next_bookmark:
            self._next_bookmark = now + BOOKMARK_SECONDS
            return [self._mark()]
        due = min(self._until, self._next_bookmark) if self._bookmarks else self._until
        await self._history.wait(due - now)
        return []

    async def lines(self) -> AsyncGenerator[bytes, None]:
        batches = self.batches()
        try:
            async for batch in batches:
                for line in batch:
                    yield line
        finally:
            await batches.aclose()

    def _line(self, change: WatchCacheEvent) -> bytes | None:
        """Return the event that a watcher with a selector sees: objects enter and leave its sight."""
        before = change.before is not None and self._selector.matches(change.before)
        after = change.type != "DELETED" and self._selector.matches(change.entry)
        if after:
            if before or change.type == "ADDED":
                return self._view.change(change)
            return self._view.line("ADDED", change.entry)
        if not before:
            return None
        if change.type == "DELETED":
            return self._view.change(change)
        return self._view.line("DELETED", _last_seen(change))

    def _mark(self) -> bytes:
        """Return a bookmark; only when everything up to now has been sent."""
        self._after = max(self._after, self._backend.store.revision)
        return self._view.bookmark(bookmark(self._call, self._after))


def bookmark(call: RequestInfo, revision: int, *, initial_end: bool = False) -> Object:
    """Return the object of a bookmark: nothing but a revision to resume at."""
    meta: dict[str, object] = {"resourceVersion": str(revision)}
    if not call.resource.custom:
        meta["creationTimestamp"] = None
    if initial_end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"kind": call.resource.kind, "apiVersion": call.resource.api_version, "metadata": meta}


def too_old(asked: int, oldest: int) -> errors.APIStatusError:
    """The watch would have to start before what is remembered."""
    return errors.expired(f"too old resource version: {asked} ({oldest})")


def error_line(fault: errors.APIStatusError) -> bytes:
    return encode({"type": "ERROR", "object": fault.status()})


def _last_seen(change: WatchCacheEvent) -> Entry:
    """Return the object as the watcher last saw it, at the revision that took it out of sight."""
    before = change.before
    assert before is not None
    value = before.object()
    value["metadata"]["resourceVersion"] = str(change.entry.revision)
    return Entry(before.key, change.entry.revision, encode(value), before.labels, before.fields)


def _wants_initial(call: RequestInfo) -> bool:
    given = call.request.parameter("sendInitialEvents")
    match = call.request.parameter("resourceVersionMatch")
    field, causes = "resourceVersionMatch", []
    if given and match != "NotOlderThan":
        why = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        causes.append((field, "FieldValueForbidden", why))
    elif match and not given:
        why = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        causes.append((field, "FieldValueForbidden", why))
    if match not in {"", "NotOlderThan"}:
        why = f'Unsupported value: "{match}": supported values: "NotOlderThan"'
        causes.append((field, "FieldValueNotSupported", why))
    if causes:
        refuse("ListOptions", *causes)
    if given:
        return given.lower() in {"true", "1"}
    return call.request.parameter("resourceVersion") in {"", "0"}


def _asked(call: RequestInfo) -> int:
    """Return the revision to start after; what is no number is, oddly, the API's own fault."""
    try:
        return parse_revision(call.request.parameter("resourceVersion"))
    except errors.APIStatusError as fault:
        raise errors.APIStatusError(
            500, "", fault.message.removeprefix("invalid resource version: ")
        ) from None


def _seconds(call: RequestInfo) -> float:
    text = call.request.parameter("timeoutSeconds")
    if not text:
        return LONGEST_WATCH_SECONDS
    try:
        seconds = int(text)
    except ValueError:
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    return float(seconds) if seconds > 0 else LONGEST_WATCH_SECONDS
