"""Whose turn it is."""

import pytest

from karpenter_local.scheduler.queue import LONGEST_PARKED_SECONDS, SchedulingQueue
from karpenter_local.scheduler.reasons import Filter

ROOM = frozenset({Filter.RESOURCES})


def drain(queue: SchedulingQueue, now: float) -> list[str]:
    """Return everything whose turn it is, in order."""
    found = []
    while (key := queue.pop(now)) is not None:
        found.append(key)
    return found


def test_priority_before_arrival() -> None:
    """The highest priority comes first; among equals, who came first."""
    queue = SchedulingQueue()
    for key, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5)):
        queue.add(key, priority)

    assert drain(queue, 0.0) == ["b", "d", "a", "c"]


def test_a_parked_pod_waits_for_a_change_that_concerns_it() -> None:
    """A pod that was refused is tried again once its filter might say otherwise, after its backoff."""
    queue = SchedulingQueue()
    queue.add("a", 0)
    assert drain(queue, 0.0) == ["a"]
    queue.park("a", ROOM)

    queue.changed({Filter.TAINTS}, 5.0)
    assert drain(queue, 5.0) == []
    queue.changed(ROOM, 5.0)
    assert drain(queue, 5.0) == ["a"]


def test_backoff_doubles_up_to_ten_seconds() -> None:
    """Each failed try makes the next wait twice as long, up to ten seconds."""
    queue = SchedulingQueue()
    queue.add("a", 0)
    waits = []
    now = 0.0
    for _ in range(6):
        assert drain(queue, now) == ["a"]
        queue.park("a", ROOM)
        queue.changed(ROOM, now)
        due = queue.next_due()
        assert due is not None
        waits.append(due - now)
        now = due

    assert waits == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_nobody_waits_for_ever() -> None:
    """A parked pod is tried again after five minutes though nothing happened."""
    queue = SchedulingQueue()
    queue.add("a", 0)
    queue.pop(0.0)
    queue.park("a", ROOM)

    assert queue.next_due() == LONGEST_PARKED_SECONDS
    assert drain(queue, LONGEST_PARKED_SECONDS - 1) == []
    assert drain(queue, LONGEST_PARKED_SECONDS) == ["a"]


def test_a_pod_that_changed_is_tried_at_once() -> None:
    """A change of the pod itself ends its wait."""
    queue = SchedulingQueue()
    queue.add("a", 0)
    queue.pop(0.0)
    queue.park("a", ROOM)

    queue.add("a", 7)

    assert drain(queue, 0.1) == ["a"]


def test_retry_only_backs_off() -> None:
    """A failure that has nothing to do with the cluster's state is tried again after its backoff."""
    queue = SchedulingQueue()
    queue.add("a", 0)
    queue.pop(0.0)
    queue.retry("a", 0.0)

    assert drain(queue, 0.9) == []
    assert drain(queue, 1.0) == ["a"]


@pytest.mark.parametrize("where", ["ready", "parked", "backing off"])
def test_removed(where: str) -> None:
    """A pod that was removed is never tried again, wherever it waited."""
    queue = SchedulingQueue()
    queue.add("a", 0)
    if where != "ready":
        queue.pop(0.0)
        queue.park("a", ROOM)
    if where == "backing off":
        queue.changed(ROOM, 0.0)
    queue.remove("a")
    queue.park("a", ROOM)
    queue.retry("a", 0.0)

    assert "a" not in queue
    assert len(queue) == 0
    assert drain(queue, 10_000.0) == []
    assert queue.next_due() is None
