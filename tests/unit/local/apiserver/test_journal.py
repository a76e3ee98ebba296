# ruff: noqa: ASYNC240  the files are small, and no other task waits for the loop
import asyncio
from pathlib import Path
from typing import Any

import pytest

from karpenter.kube.transport import Request, Response
from karpenter_local.apiserver.journal import FileJournal, JournalError
from karpenter_local.apiserver.server import Server
from karpenter_local.apiserver.store import ObjectStore


def opened(directory: Path, limit: int = 1 << 20) -> tuple[ObjectStore, FileJournal]:
    store = ObjectStore()
    journal = FileJournal(directory, limit=limit)
    journal.open(store)
    return store, journal


def write(store: ObjectStore, name: str, **extra: Any) -> None:
    store.put("configmaps", f"default/{name}", {"metadata": {"name": name}, **extra})


def state(store: ObjectStore) -> dict[str, bytes]:
    return {
        f"{table.name}/{key}": entry.raw for table in store.tables() for key, entry in table.entries.items()
    }


async def test_what_was_settled_is_there_again(tmp_path: Path) -> None:
    """A restart brings back every object at its revision, and deletions stay."""
    store, journal = opened(tmp_path)
    for name in ("a", "b", "c"):
        write(store, name)
    store.delete("configmaps", "default/b")
    await journal.close()

    again, second = opened(tmp_path)

    assert (state(again), again.revision) == (state(store), store.revision)
    await second.close()


async def test_watches_can_resume_after_a_restart(tmp_path: Path) -> None:
    """The log is also the history: a client that knows an older revision misses nothing."""
    store, journal = opened(tmp_path)
    write(store, "a")
    seen = store.revision
    write(store, "b")
    await journal.close()

    again, second = opened(tmp_path)

    history = again.table("configmaps").history
    cursor = history.cursor(seen)
    assert cursor is not None
    assert [change.entry.name for change in history.read(cursor, 10) or ()] == ["b"]
    await second.close()


async def test_a_torn_record_is_dropped(tmp_path: Path) -> None:
    """Bytes that a crash left behind were never answered for; what came before them stays."""
    store, journal = opened(tmp_path)
    write(store, "a")
    await journal.close()
    [log] = tmp_path.glob("log-*")
    whole = log.read_bytes()
    log.write_bytes(whole + whole[: len(whole) // 2])

    again, second = opened(tmp_path)
    write(again, "later")
    await second.close()
    third, last = opened(tmp_path)

    assert sorted(state(third)) == ["configmaps/default/a", "configmaps/default/later"]
    await last.close()


async def test_a_damaged_snapshot_is_not_guessed_at(tmp_path: Path) -> None:
    """Damage where a crash cannot cause it stops the start, and names the file."""
    store, journal = opened(tmp_path, limit=100)
    for number in range(20):
        write(store, f"n{number}")
    await journal.settled(store.revision)
    await journal.close()
    [snapshot] = tmp_path.glob("snapshot-*")
    content = bytearray(snapshot.read_bytes())
    content[20] ^= 0xFF
    snapshot.write_bytes(bytes(content))

    with pytest.raises(JournalError, match="is damaged at byte 0"):
        opened(tmp_path)


async def test_a_long_log_becomes_a_snapshot(tmp_path: Path) -> None:
    """Past its limit the log is replaced by the state, and nothing is lost meanwhile."""
    store, journal = opened(tmp_path, limit=2000)
    for number in range(100):
        write(store, f"n{number % 7}", data={"x": "y" * 20, "n": str(number)})
        await journal.settled(store.revision)
    await journal.close()

    again, second = opened(tmp_path)

    assert state(again) == state(store)
    assert sum(path.stat().st_size for path in tmp_path.glob("log-*")) < 10_000
    assert len(list(tmp_path.glob("snapshot-*"))) == 1
    await second.close()


async def test_many_writes_share_a_flush(tmp_path: Path) -> None:
    """Those who wait at the same time are told at the same time."""
    store, journal = opened(tmp_path)
    flushes = 0
    append = journal._append

    def counted(data: bytes) -> None:
        nonlocal flushes
        flushes += 1
        append(data)

    journal._append = counted  # type: ignore[method-assign]  # to count

    async def one(number: int) -> None:
        write(store, f"n{number}")
        await journal.settled(store.revision)

    await asyncio.gather(*(one(number) for number in range(50)))

    assert flushes <= 2
    await journal.close()


async def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    """Two servers on one directory would overwrite each other."""
    _, journal = opened(tmp_path)

    with pytest.raises(JournalError, match="in use by another process"):
        FileJournal(tmp_path)
    await journal.close()


async def test_a_full_disk_is_said_and_not_forgotten(tmp_path: Path) -> None:
    """Once a write could not be kept, none is accepted."""
    store, journal = opened(tmp_path)

    def full(_: bytes) -> None:
        raise OSError(28, "No space left on device")

    journal._append = full  # type: ignore[method-assign,assignment]  # a full disk
    write(store, "a")

    with pytest.raises(JournalError, match="No space left on device"):
        await journal.settled(store.revision)
    with pytest.raises(JournalError):
        write(store, "b")
    journal.abandon()


async def test_a_write_that_could_not_be_kept_is_not_there(tmp_path: Path) -> None:
    """After the refusal everything is as it was before: new, changed and deleted objects."""
    store, journal = opened(tmp_path)
    write(store, "kept", data="old")
    write(store, "deleted")
    await journal.settled(store.revision)
    before, revision = state(store), store.revision

    def full(_: bytes) -> None:
        raise OSError(28, "No space left on device")

    journal._append = full  # type: ignore[method-assign,assignment]  # a full disk
    write(store, "new")
    write(store, "kept", data="new")
    store.delete("configmaps", "default/deleted")
    with pytest.raises(JournalError):
        await journal.settled(store.revision)
    assert state(store) == before
    with pytest.raises(JournalError):
        write(store, "later")
    with pytest.raises(JournalError):
        store.delete("configmaps", "default/kept")
    assert state(store) == before
    assert list(store.table("configmaps").history.since(revision) or ()) == []
    journal.abandon()


async def test_a_request_is_refused_when_the_disk_is_full(tmp_path: Path) -> None:
    """The client hears why, and does not find the object."""
    store, journal = opened(tmp_path)
    server = Server(store=store)
    await store.settled(store.revision)

    def full(_: bytes) -> None:
        raise OSError(28, "No space left on device")

    journal._append = full  # type: ignore[method-assign,assignment]  # a full disk
    path = "/api/v1/namespaces/default/configmaps"
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}'
    headers = (("content-type", "application/json"),)
    refused = await server.answer(Request(method="POST", path=path, headers=headers, body=body))
    found = await server.answer(Request(method="GET", path=f"{path}/a"))

    assert isinstance(refused, Response)
    assert isinstance(found, Response)
    assert (refused.status, b"No space left on device" in refused.body, found.status) == (500, True, 404)
    journal.abandon()


async def test_the_files_are_for_their_owner_only(tmp_path: Path) -> None:
    """They hold secrets."""
    folder = tmp_path / "cluster"
    store, journal = opened(folder, limit=1)
    for number in range(3):
        write(store, str(number))
        await journal.settled(store.revision)
    await journal.close()

    modes = {path.name.split("-")[0]: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes == {"log": 0o600, "snapshot": 0o600, "lock": 0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
