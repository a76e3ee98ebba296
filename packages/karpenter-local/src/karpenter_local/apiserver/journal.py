"""
Writes that outlive the process: an append-only log beside a snapshot, in one directory.

Every write is one record of the log: length, checksum, content. An answer is given only when the log has
reached the disk, many writes to one flush. When the log has grown large, the whole state is written to a
new snapshot and the old files go. A torn record at the end of the log, which is all that a crash can leave,
was never answered and is dropped. A write that cannot be kept is refused and taken back.

    log-00000000000000000017       writes after revision 17, in order
    snapshot-00000000000000000017  everything as of revision 17
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import zlib
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from karpenter.base.files import make_private_folder, private
from karpenter_local.apiserver.watch_cache import EventType, WatchCacheEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from karpenter_local.apiserver.entry import Entry
    from karpenter_local.apiserver.store import ObjectStore

_HEAD = struct.Struct("<II")
_SNAPSHOT_AFTER_BYTES = 64 * 1024 * 1024
"""Bytes of log after which a snapshot is taken."""


class JournalError(Exception):
    """The directory cannot hold the state: it is in use, damaged, or full."""


class Record(msgspec.Struct, frozen=True, array_like=True):
    """One write."""

    table: str
    type: EventType
    key: str
    revision: int
    raw: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Record).decode


class FileJournal:
    """Keeps one store in one directory. Only one process at a time may have it open."""

    def __init__(self, directory: Path, *, limit: int = _SNAPSHOT_AFTER_BYTES) -> None:
        self._directory = directory
        self._limit = limit
        self._store: ObjectStore | None = None
        self._buffer: list[bytes] = []
        self._written = 0
        """The newest revision in the buffer or beyond."""
        self._durable = 0
        self._log: BinaryIO | None = None
        self._log_bytes = 0
        self._flushing: asyncio.Task[None] | None = None
        self._snapshot: asyncio.Task[None] | None = None
        self._failure: str = ""
        make_private_folder(directory)
        self._lock: int | None = _lock(directory)

    def open(self, store: ObjectStore) -> None:
        """Fill `store` with what the directory holds, and keep its writes from now on.

        Raises:
            JournalError: a file is damaged other than at its end; the directory is free again.
        """
        try:
            floor = 0
            snapshots = _files(self._directory, "snapshot")
            if snapshots:
                floor, path = snapshots[-1]
                for record in _read(path, whole=True):
                    store.restore(record.table, record.type, record.key, record.revision, record.raw)
                store.revision = max(store.revision, floor)
                store.compact(floor)
            logs = _files(self._directory, "log")
            for index, (_, path) in enumerate(logs):
                for record in _read(path, whole=index + 1 < len(logs)):
                    if record.revision > floor:
                        store.restore(record.table, record.type, record.key, record.revision, record.raw)
            self._store = store
            self._durable = self._written = store.revision
            self._begin_log(logs[-1][1] if logs else self._path("log", store.revision))
        except BaseException:
            self.abandon()
            raise
        store.journal = self

    def record(self, table: str, change: WatchCacheEvent) -> None:
        """Take one write; it is on disk once `settled` has returned for its revision."""
        if self._failure:
            raise JournalError(self._failure)
        entry = change.entry
        self._buffer.append(_frame(table, change.type, entry))
        self._written = entry.revision

    async def settled(self, revision: int) -> None:
        """Wait until every write up to `revision` is on disk."""
        while self._durable < min(revision, self._written):
            if self._failure:
                raise JournalError(self._failure)
            if self._flushing is None or self._flushing.done():
                self._flushing = asyncio.create_task(self._flush())
            await asyncio.shield(self._flushing)

    async def close(self) -> None:
        """Write what is left and let go of the directory."""
        await self.settled(self._written)
        if self._snapshot is not None:
            await self._snapshot
        self.abandon()

    def abandon(self) -> None:
        """Let go of the directory as it is; what was not settled may be lost."""
        if self._log is not None:
            self._log.close()
            self._log = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def _flush(self) -> None:
        while self._buffer:
            data, target = b"".join(self._buffer), self._written
            self._buffer.clear()
            try:
                await asyncio.to_thread(self._append, data)
            except OSError as error:
                self._failure = f"the journal cannot be written: {error}"
                self._buffer.clear()
                assert self._store is not None
                self._store.withdraw(self._durable)
                raise JournalError(self._failure) from error
            self._log_bytes += len(data)
            self._durable = target
        if self._log_bytes > self._limit and (self._snapshot is None or self._snapshot.done()):
            # Begin a new log, and write everything there is to a snapshot meanwhile.
            assert self._store is not None
            assert self._log is not None
            self._log.close()
            revision = self._store.revision
            entries = [
                (table.name, entry) for table in self._store.tables() for entry in table.entries.values()
            ]
            self._begin_log(self._path("log", revision))
            self._snapshot = asyncio.create_task(asyncio.to_thread(self._write_snapshot, revision, entries))

    def _append(self, data: bytes) -> None:
        assert self._log is not None
        self._log.write(data)
        self._log.flush()
        os.fdatasync(self._log.fileno())

    def _write_snapshot(self, revision: int, entries: Iterable[tuple[str, Entry]]) -> None:
        path = self._path("snapshot", revision)
        draft = path.with_suffix(".draft")
        with open(draft, "wb", opener=private) as file:
            file.writelines(_frame(table, "ADDED", entry) for table, entry in entries)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        _sync(self._directory)
        for kind in ("log", "snapshot"):
            for start, old in _files(self._directory, kind):
                if start < revision:
                    old.unlink()

    def _begin_log(self, path: Path) -> None:
        self._log = open(path, "ab", opener=private)  # noqa: SIM115  closed in abandon
        self._log_bytes = path.stat().st_size
        _sync(self._directory)

    def _path(self, kind: str, revision: int) -> Path:
        return self._directory / f"{kind}-{revision:020d}"


def _frame(table: str, type_: EventType, entry: Entry) -> bytes:
    payload = _encode(Record(table, type_, entry.key, entry.revision, entry.raw))
    return _HEAD.pack(len(payload), zlib.crc32(payload)) + payload


def _files(directory: Path, kind: str) -> list[tuple[int, Path]]:
    """Return the files of a kind with their revisions, oldest first."""
    found = []
    for path in directory.glob(f"{kind}-*"):
        number = path.name.removeprefix(f"{kind}-")
        if number.isdigit():
            found.append((int(number), path))
    return sorted(found)


def _read(path: Path, *, whole: bool) -> Iterator[Record]:
    """Yield the records of a file; unless it must be whole, a torn end is cut off."""
    data = path.read_bytes()
    position = 0
    while position < len(data):
        end = position + _HEAD.size
        if end <= len(data):
            length, checksum = _HEAD.unpack_from(data, position)
            payload = data[end : end + length]
            if len(payload) == length and zlib.crc32(payload) == checksum:
                yield _decode(payload)
                position = end + length
                continue
        if whole:
            raise JournalError(
                f"{path} is damaged at byte {position}; hint: move it away to go on without it"
            )
        with path.open("r+b") as file:
            file.truncate(position)
            os.fsync(file.fileno())
        return


def _lock(directory: Path) -> int:
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise JournalError(f"{directory} is in use by another process") from None
    return descriptor


def _sync(directory: Path) -> None:
    """Make new and removed names of a directory durable; where that is not possible, go on."""
    descriptor = os.open(directory, os.O_RDONLY)
    with contextlib.suppress(OSError):
        os.fsync(descriptor)
    os.close(descriptor)
