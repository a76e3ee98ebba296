"""A batch closes when new keys stop coming, or when it has been open long enough."""

import asyncio

import pytest

from karpenter.base.batcher import Batcher, BatchWindow


def later(batcher: Batcher[str], at: float, key: str) -> None:
    """Trigger at a moment of virtual time."""
    asyncio.get_running_loop().call_at(at, batcher.trigger, key)


async def cancelled(batcher: Batcher[str], key: str) -> None:
    """Trigger, wait for the batch, and give that up before it closes."""
    batcher.trigger(key)
    waiter = asyncio.create_task(batcher.wait())
    await asyncio.sleep(0.5)
    waiter.cancel()
    await asyncio.wait([waiter])


@pytest.mark.parametrize(
    ("triggers", "expected", "closes"),
    [
        pytest.param([], (), 1.0, id="no trigger within the timeout gives an empty batch"),
        pytest.param([(0.4, "a")], ("a",), 1.4, id="one trigger waits the idle time for company"),
        pytest.param([(0.0, "a"), (0.7, "b"), (1.4, "c")], ("a", "b", "c"), 2.4, id="new keys keep it open"),
        pytest.param([(0.0, "a"), (0.7, "a")], ("a",), 1.0, id="a key that is in already does not"),
        pytest.param([(0.0, "a"), (1.5, "b")], ("a",), 1.0, id="a late key has to take the next one"),
        pytest.param(
            [(n * 0.9, f"k{n}") for n in range(20)],
            tuple(f"k{n}" for n in range(12)),
            10.0,
            id="a steady stream is cut at the longest window",
        ),
    ],
)
async def test_window(triggers: list[tuple[float, str]], expected: tuple[str, ...], closes: float) -> None:
    """The idle timer restarts with each new key; the longest window ends it in any case."""
    batcher = Batcher[str]()
    for at, key in triggers:
        later(batcher, at, key)

    keys = await batcher.wait()

    assert keys == expected
    assert asyncio.get_running_loop().time() == pytest.approx(closes)


async def test_a_batch_may_wait_for_its_first_key_for_ever() -> None:
    """Without timeout to lose, nothing wakes before a trigger comes."""
    batcher = Batcher[str](BatchWindow(timeout=None))
    later(batcher, 86400.0, "a")

    assert await batcher.wait() == ("a",)
    assert asyncio.get_running_loop().time() == pytest.approx(86401.0)


async def test_triggers_between_batches_open_the_next_window() -> None:
    """What comes while a batch is being worked on is not lost."""
    batcher = Batcher[str]()
    batcher.trigger("a")
    await batcher.wait()
    await asyncio.sleep(5)
    batcher.trigger("b")
    batcher.trigger("a")

    assert await batcher.wait() == ("b", "a")


async def test_a_batch_starts_empty() -> None:
    """Keys of one batch are not in the next."""
    batcher = Batcher[str]()
    batcher.trigger("a")
    await batcher.wait()

    assert await batcher.wait() == ()


@pytest.mark.parametrize(
    ("first", "expected", "closes"),
    [
        pytest.param("trigger", ("a", "b"), 1.0, id="joins the open window, and does not restart its timer"),
        pytest.param("remind", ("a", "b"), 1.0, id="opens a window where none is open"),
    ],
)
async def test_reminders(first: str, expected: tuple[str, ...], closes: float) -> None:
    """A reminder gets its batch without keeping the other keys waiting."""
    batcher = Batcher[str]()
    getattr(batcher, first)("a")
    asyncio.get_running_loop().call_at(0.7, batcher.remind, "b")

    assert await batcher.wait() == expected
    assert asyncio.get_running_loop().time() == pytest.approx(closes)


async def test_a_reminder_after_a_batch_opens_the_next_window() -> None:
    """A window that was closed, or whose waiter was cancelled, is joined by nothing."""
    batcher = Batcher[str](BatchWindow(idle=1, longest=10))
    await cancelled(batcher, "a")
    batcher.remind("b")

    assert await batcher.wait() == ("a", "b")
    batcher.remind("c")
    assert await batcher.wait() == ("c",)


async def test_a_cancelled_wait_keeps_its_keys() -> None:
    """Triggers survive a waiter that was cancelled."""
    batcher = Batcher[str](BatchWindow(idle=1, longest=10))
    await cancelled(batcher, "a")
    batcher.trigger("b")

    assert await batcher.wait() == ("a", "b")


async def test_the_window_is_a_setting() -> None:
    """Idle and longest come from the user's settings."""
    batcher = Batcher[str](BatchWindow(idle=3, longest=4))
    batcher.trigger("a")
    later(batcher, 2.0, "b")

    await batcher.wait()

    assert asyncio.get_running_loop().time() == 4


async def test_a_batch_that_is_full_does_not_wait() -> None:
    """A batch closes as soon as it has the most items it may have; the rest are the next batch."""
    batcher = Batcher[str](BatchWindow(max_items=2))
    for key in ("a", "b", "c"):
        batcher.trigger(key)

    assert await batcher.wait() == ("a", "b")
    assert asyncio.get_running_loop().time() == pytest.approx(0.0)
    assert await batcher.wait() == ("c",)
    assert asyncio.get_running_loop().time() == pytest.approx(1.0)
