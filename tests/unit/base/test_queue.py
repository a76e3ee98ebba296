"""A key is queued once, never with two workers, and comes back when it changed meanwhile."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.base.queue import Backoff, QueueClosed, WorkQueue
from karpenter.base.ratelimiting import TokenBucket
from karpenter_local.virtual import run_virtual


async def drain(queue: WorkQueue[str]) -> list[str]:
    """Take and finish everything that is queued now."""
    taken = []
    while len(queue):
        async with queue.item() as key:
            taken.append(key)
    return taken


async def test_keys_come_out_in_the_order_they_went_in() -> None:
    """The queue is first in, first out."""
    queue = WorkQueue[str]()
    for key in ("c", "a", "b"):
        queue.add(key)

    assert await drain(queue) == ["c", "a", "b"]


async def test_a_key_is_queued_once() -> None:
    """Adding a key that waits already changes nothing."""
    queue = WorkQueue[str]()
    for key in ("a", "b", "a", "a"):
        queue.add(key)

    assert await drain(queue) == ["a", "b"]


async def test_a_key_added_during_its_work_comes_back_after() -> None:
    """No second worker gets a key that is being worked on; it is queued again when the first is done."""
    queue = WorkQueue[str]()
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.add("a")
    waiting = (len(queue), queue.processing)

    queue.done(key)

    assert (waiting, await drain(queue)) == ((0, 1), ["a"])


async def test_a_worker_waits_for_a_key() -> None:
    """Getting from an empty queue waits until something is added."""
    queue = WorkQueue[str]()
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(1)

    queue.add("a")

    assert await worker == "a"


async def test_a_key_for_later_comes_at_its_time() -> None:
    """A delayed key is added when its time has come, not before."""
    queue = WorkQueue[str]()
    queue.add_after("a", 5)
    waiting = (len(queue), queue.later)

    await queue.get()

    assert (waiting, asyncio.get_running_loop().time(), queue.later) == ((0, 1), 5, 0)


@pytest.mark.parametrize(
    ("delays", "expected"),
    [
        pytest.param([5, 3], 3, id="an earlier wish replaces a later one"),
        pytest.param([3, 5], 3, id="a later wish does not replace an earlier one"),
        pytest.param([0], 0, id="no delay is now"),
        pytest.param([-1], 0, id="neither is a delay in the past"),
    ],
)
async def test_the_earliest_wish_counts(delays: list[float], expected: float) -> None:
    """A key that is asked for at several times comes once, at the earliest."""
    queue = WorkQueue[str]()
    for delay in delays:
        queue.add_after("a", delay)

    await queue.get()
    came = asyncio.get_running_loop().time()
    queue.done("a")
    await asyncio.sleep(10)

    assert (came, len(queue)) == (expected, 0)


async def test_several_keys_for_later_come_in_order() -> None:
    """One timer serves all delayed keys."""
    queue = WorkQueue[str]()
    loop = asyncio.get_running_loop()
    for key, delay in (("c", 3), ("a", 1), ("b", 2)):
        queue.add_after(key, delay)

    came = []
    for _ in range(3):
        async with queue.item() as key:
            came.append((key, loop.time()))

    assert came == [("a", 1), ("b", 2), ("c", 3)]


async def test_failures_wait_longer_each_time_and_can_be_forgotten() -> None:
    """Each retry of a key doubles its wait; once forgotten it starts over."""
    queue = WorkQueue[str](backoff=Backoff(first=1, cap=10))
    loop = asyncio.get_running_loop()
    waits = []
    for forget in (False, False, True, False):
        if forget:
            queue.forget("a")
        queue.retry("a")
        before = loop.time()
        queue.done(await queue.get())
        waits.append(loop.time() - before)

    assert (waits, queue.failures("a"), queue.failures("b")) == ([1, 2, 1, 2], 2, 0)


async def test_retries_of_all_keys_share_a_bucket() -> None:
    """A storm of failures is spread by the bucket, however short the backoff of each."""
    queue = WorkQueue[str](backoff=Backoff(first=0.1, cap=1), bucket=TokenBucket(rate=1, burst=1))
    for key in ("a", "b", "c"):
        queue.retry(key)
    loop = asyncio.get_running_loop()

    came = []
    for _ in range(3):
        async with queue.item() as key:
            came.append((key, round(loop.time(), 6)))

    assert came == [("a", 0.1), ("b", 1), ("c", 2)]


async def test_settled_waits_for_queue_and_workers() -> None:
    """A queue is settled when nothing waits and nobody works; keys for later do not count."""
    queue = WorkQueue[str]()
    queue.add("a")
    queue.add_after("b", 100)

    async def work() -> None:
        async with queue.item():
            await asyncio.sleep(2)
            queue.add("a")
        async with queue.item():
            await asyncio.sleep(3)

    worker = asyncio.create_task(work())
    await queue.settled()

    assert asyncio.get_running_loop().time() == 5
    await worker


async def test_done_with_others_waiting_does_not_settle() -> None:
    """Finishing one key of two leaves the queue unsettled."""
    queue = WorkQueue[str]()
    queue.add("a")
    queue.add("b")
    queue.done(await queue.get())

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await queue.settled()


async def test_a_closed_queue_gives_what_it_has_then_says_so() -> None:
    """Closing lets workers finish what is queued, drops what was for later, and takes nothing new."""
    queue = WorkQueue[str]()
    queue.add("a")
    queue.add_after("b", 1)
    queue.close()
    queue.add("c")
    queue.add_after("d", 1)

    assert (await drain(queue), queue.later) == (["a"], 0)
    with pytest.raises(QueueClosed):
        await queue.get()


async def test_closing_wakes_idle_workers() -> None:
    """Workers that wait for a key learn that none will come."""
    queue = WorkQueue[str]()
    workers = [asyncio.create_task(queue.get()) for _ in range(2)]
    await asyncio.sleep(0)

    queue.close()
    results = await asyncio.gather(*workers, return_exceptions=True)

    assert [type(result) for result in results] == [QueueClosed, QueueClosed]


async def test_a_cancelled_worker_takes_no_key_with_it() -> None:
    """A worker that is cancelled while it waits leaves the next key to others."""
    queue = WorkQueue[str]()
    gone = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait([gone])
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(0)

    queue.add("a")

    assert await worker == "a"


async def test_a_worker_cancelled_as_it_is_called_passes_the_call_on() -> None:
    """A key offered to a worker in the same moment as its cancellation goes to the next worker."""
    queue = WorkQueue[str]()
    called = asyncio.create_task(queue.get())
    other = asyncio.create_task(queue.get())
    await asyncio.sleep(0)

    queue.add("a")
    called.cancel()

    assert await other == "a"
    assert called.cancelled()


async def test_a_worker_cancelled_before_the_call_is_passed_over() -> None:
    """A key is offered to the first worker that can still come."""
    queue = WorkQueue[str]()
    gone = asyncio.create_task(queue.get())
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(0)

    gone.cancel()
    queue.add("a")

    assert await worker == "a"
    assert gone.cancelled()


STEPS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(["add", "later", "retry"]),
        st.integers(0, 30),  # tenths of a second until the next step
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, workers=st.integers(1, 3), takes=st.integers(0, 20))
def test_nothing_is_lost_and_nothing_is_worked_on_twice(
    steps: list[tuple[str, str, int]], workers: int, takes: int
) -> None:
    """Whatever is asked for, and however slow the workers: work follows each wish, and never two on a key."""

    async def play() -> None:
        queue = WorkQueue[str](backoff=Backoff(first=0.3, cap=2))
        busy: set[str] = set()
        wished: dict[str, float] = {}
        begun: dict[str, float] = {}
        loop = asyncio.get_running_loop()

        async def work() -> None:
            while True:
                async with queue.item() as key:
                    assert key not in busy
                    busy.add(key)
                    begun[key] = loop.time()
                    await asyncio.sleep(takes / 10)
                    busy.discard(key)

        tasks = [asyncio.create_task(work()) for _ in range(workers)]
        for key, how, pause in steps:
            wished[key] = loop.time()
            {"add": queue.add, "later": lambda k: queue.add_after(k, 0.7), "retry": queue.retry}[how](key)
            await asyncio.sleep(pause / 10)
        await asyncio.sleep(1000)
        assert not any(task.done() for task in tasks)
        assert all(begun[key] >= when for key, when in wished.items())
        assert (len(queue), queue.later, queue.processing) == (0, 0, 0)
        queue.close()
        await asyncio.wait(tasks)
        assert {type(task.exception()) for task in tasks} == {QueueClosed}

    run_virtual(play())


class RecordedKeys:
    """Counts what goes through a queue."""

    def __init__(self) -> None:
        self.noted: list[object] = []

    def added(self) -> None:
        self.noted.append("added")

    def taken(self, waited: float) -> None:
        """Note how long a key has waited."""
        self.noted.append(waited)

    def retried(self) -> None:
        self.noted.append("retried")


async def test_metrics_of_a_queue() -> None:
    """Whoever watches hears of every key that waits, is taken or comes back; not of what was there before."""
    queue = WorkQueue[str](backoff=Backoff(first=1.0, cap=2.0))
    queue.add("early")
    queue.metrics = recorded = RecordedKeys()
    assert await queue.get() == "early"
    queue.add("key")
    await asyncio.sleep(2.0)
    assert await queue.get() == "key"
    queue.retry("key")
    queue.done("key")
    await asyncio.sleep(5.0)
    assert await queue.get() == "key"

    assert recorded.noted == ["added", 2.0, "retried", "added", 4.0]
