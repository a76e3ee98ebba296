import asyncio

from karpenter_local.apiserver.entry import Entry
from karpenter_local.apiserver.watch_cache import WatchCache, WatchCacheEvent
from karpenter_local.virtual import run_virtual


def change(revision: int, size: int = 10) -> WatchCacheEvent:
    return WatchCacheEvent("ADDED", Entry(f"a/{revision}", revision, b"x" * size, {}, {}), None)


def revisions(changes: list[WatchCacheEvent] | None) -> list[int] | None:
    return None if changes is None else [item.entry.revision for item in changes]


def test_a_cursor_reads_what_came_after_a_revision() -> None:
    """Readers see later changes in order, up to as many as they can take."""
    history = WatchCache(0)
    for revision in (2, 5, 9):
        history.append(change(revision))

    cursor = history.cursor(2)

    assert cursor is not None
    assert revisions(history.read(cursor, 10)) == [5, 9]
    assert revisions(history.read(cursor, 1)) == [5]


def test_a_long_history_forgets_its_beginning() -> None:
    """Old changes go; cursors into them, and revisions before them, are cut off."""
    history = WatchCache(0, max_events=10)
    slow = history.cursor(0)
    assert slow is not None
    for revision in range(1, 22):
        history.append(change(revision))

    assert history.read(slow, 10) is None
    assert history.compacted == 11
    assert history.cursor(10) is None
    assert history.cursor(11) is not None


def test_a_history_of_large_objects_is_bounded_by_their_bytes() -> None:
    """A few large objects weigh as much as many small ones."""
    history = WatchCache(0, max_bytes=1000)
    for revision in range(1, 101):
        history.append(change(revision, size=100))

    cursor = history.cursor(history.compacted)
    assert cursor is not None
    kept = revisions(history.read(cursor, 1000))
    assert kept is not None
    assert len(kept) <= 20


def test_compaction_forgets_on_request() -> None:
    """What a server compacts cannot be watched from any more."""
    history = WatchCache(0)
    for revision in (2, 3, 4):
        history.append(change(revision))

    history.compact(3)

    assert history.cursor(2) is None
    assert revisions(history.read(history.cursor(3) or 0, 10)) == [4]


def test_looking_back_is_newest_first() -> None:
    """Undoing starts with the last thing done."""
    history = WatchCache(0)
    for revision in (2, 3, 4):
        history.append(change(revision))

    found = history.since(2)

    assert found is not None
    assert [item.entry.revision for item in found] == [4, 3]


def test_waiting_ends_with_news_or_with_patience() -> None:
    """A waiter is woken by a change, and gives up when none comes; who gives up is not kept."""

    async def story() -> tuple[bool, bool, int]:
        history = WatchCache(0)
        waiting = asyncio.create_task(history.wait(10))
        await asyncio.sleep(1)
        history.append(change(2))
        return await waiting, await history.wait(5), len(history._waiting)

    assert run_virtual(story()) == (True, False, 0)
