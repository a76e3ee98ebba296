"""
The watch cache of one kind: recent changes in order of revision, read by watches and by lists of the past.

The cache is bounded. A watcher keeps only a cursor into it, so a slow watcher costs no memory and blocks no
other: when the cache has dropped what is at its cursor, its stream ends and the client lists again.
Everything up to ``compacted`` was dropped; asking for an earlier revision is status 410. See
https://kubernetes.io/docs/reference/using-api/api-concepts/

Knows nothing of encodings on the wire except that an entry carries its JSON.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter_local.apiserver.entry import Entry

EventType = Literal["ADDED", "MODIFIED", "DELETED"]

# A watch from a version that is no longer kept gets 410 Gone, and its client lists anew:
# https://kubernetes.io/docs/reference/using-api/api-concepts/#410-gone-responses
MAX_EVENTS = 16_384
MAX_BYTES = 64 * 1024 * 1024


class WatchCacheEvent:
    """One write: the object after it, at its revision, and before it; a delete shows its last state."""

    __slots__ = ("_line", "before", "entry", "type")

    def __init__(self, type_: EventType, entry: Entry, before: Entry | None) -> None:
        self.type = type_
        self.entry = entry
        self.before = before
        self._line: bytes | None = None

    @property
    def line(self) -> bytes:
        """The watch event in JSON, encoded once for all watchers."""
        if self._line is None:
            self._line = b"".join((b'{"type":"', self.type.encode(), b'","object":', self.entry.raw, b"}"))
        return self._line


class WatchCache:
    """The recent changes of one kind, and a notification when there are more."""

    def __init__(self, compacted: int, *, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> None:
        self.compacted = compacted
        """Changes up to this revision are forgotten; a watch may start at it or later."""
        self._changes: list[WatchCacheEvent] = []
        self._revisions: list[int] = []
        self._dropped = 0
        self._bytes = 0
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._waiting: dict[asyncio.Future[None], None] = {}  # in order, so that a run can be repeated

    def append(self, change: WatchCacheEvent) -> None:
        """Add the newest change and wake every watcher."""
        self._changes.append(change)
        self._revisions.append(change.entry.revision)
        self._bytes += len(change.entry.raw)
        if len(self._changes) > 2 * self._max_events or self._bytes > 2 * self._max_bytes:
            count = max(len(self._changes) - self._max_events, 0)
            spare = self._bytes - sum(len(change.entry.raw) for change in self._changes[:count])
            while spare > self._max_bytes and count < len(self._changes) - 1:
                spare -= len(self._changes[count].entry.raw)
                count += 1
            self.compacted = max(self.compacted, self._revisions[count - 1])
            self._drop(count)
        self.notify()

    def notify(self) -> None:
        """Wake every watcher, with or without news."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self, seconds: float) -> bool:
        """Wait for the next change; return False when there was none for `seconds`."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._waiting[future] = None
        timer = loop.call_later(seconds, _give_up, future)
        try:
            await future
        except TimeoutError:
            return False
        finally:
            timer.cancel()
            self._waiting.pop(future, None)
        return True

    def cursor(self, revision: int) -> int | None:
        """Return where to read what came after `revision`, or None when some of it is forgotten."""
        if revision < self.compacted:
            return None
        return self._dropped + bisect_right(self._revisions, revision)

    def read(self, cursor: int, most: int) -> list[WatchCacheEvent] | None:
        """Return up to `most` changes from `cursor` on, or None when some of them are forgotten."""
        start = cursor - self._dropped
        if start < 0:
            return None
        return self._changes[start : start + most]

    def since(self, revision: int) -> Iterator[WatchCacheEvent] | None:
        """Return the changes after `revision`, newest first, or None when some of them are forgotten."""
        start = self.cursor(revision)
        if start is None:
            return None
        return reversed(self._changes[start - self._dropped :])

    def compact(self, revision: int) -> None:
        """Forget every change up to `revision`."""
        self._drop(bisect_right(self._revisions, revision))
        self.compacted = max(self.compacted, revision)

    def withdraw(self, revision: int) -> list[WatchCacheEvent]:
        """Forget every change after `revision`, and return them, newest first."""
        start = bisect_right(self._revisions, revision)
        gone = self._changes[start:]
        del self._changes[start:]
        del self._revisions[start:]
        self._bytes -= sum(len(change.entry.raw) for change in gone)
        return gone[::-1]

    def _drop(self, count: int) -> None:
        self._bytes -= sum(len(change.entry.raw) for change in self._changes[:count])
        del self._changes[:count]
        del self._revisions[:count]
        self._dropped += count


def _give_up(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_exception(TimeoutError())
