"""The virtual loop jumps over idle time, waits for threads, and says when nothing can ever happen."""

import asyncio
import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from karpenter_local.virtual import START, Stalled, VirtualClock, VirtualLoop, run_virtual

if TYPE_CHECKING:
    from karpenter.base.clock import Clock


async def elapsed(seconds: float) -> float:
    """Sleep, and say how long it took by the loop's own time."""
    loop = asyncio.get_running_loop()
    before = loop.time()
    await asyncio.sleep(seconds)
    return loop.time() - before


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(0.001, id="a millisecond"),
        pytest.param(3600.0, id="an hour"),
        pytest.param(400 * 24 * 3600.0, id="more than a year, past what one select call may wait"),
    ],
)
def test_sleep_takes_no_real_time(seconds: float) -> None:
    """A sleep of any length is exact in virtual time and free in real time."""
    started = time.monotonic()

    assert run_virtual(elapsed(seconds)) == pytest.approx(seconds)
    assert time.monotonic() - started < 5


async def test_timers_fire_in_the_order_they_are_due() -> None:
    """Tasks wake in order of their deadlines, whatever the order they slept in."""
    woken: list[float] = []

    async def nap(seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append(seconds)

    await asyncio.gather(nap(3), nap(1), nap(2))

    assert woken == [1, 2, 3]


async def test_a_timeout_fires_at_its_moment() -> None:
    """Asyncio's timeouts are virtual too."""
    loop = asyncio.get_running_loop()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(30):
            await asyncio.sleep(31)

    assert loop.time() == 30


async def test_time_stands_still_while_a_thread_works() -> None:
    """No timer fires while executor work is under way, however long that takes for real."""
    loop = asyncio.get_running_loop()
    fired: list[float] = []
    loop.call_later(0.001, lambda: fired.append(loop.time()))

    await asyncio.to_thread(time.sleep, 0.05)

    assert (loop.time(), fired) == (0.0, [])


def test_a_loop_that_can_never_wake_raises() -> None:
    """Everything waiting with no timer is a deadlock, and is reported as one."""

    async def wait_for_ever() -> None:
        await asyncio.sleep(2.5)
        await asyncio.Event().wait()

    with pytest.raises(Stalled, match=r"no timer is set, 2\.500 s after the start") as caught:
        run_virtual(wait_for_ever())

    assert caught.value.at == 2.5


async def test_real_sockets_still_work() -> None:
    """With a socket registered and no timer set, the loop waits for it instead of calling a deadlock."""
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    near.setblocking(False)
    with near, far:
        threading.Timer(0.02, far.send, [b"x"]).start()
        assert await loop.sock_recv(near, 1) == b"x"


async def test_the_clock_follows_the_loop() -> None:
    """A virtual clock reads the loop's start plus its time, on both of its scales."""
    clock: Clock = VirtualClock()

    await clock.sleep(90)

    assert (clock.now(), clock.monotonic()) == (START + timedelta(seconds=90), 90)


def test_a_run_may_start_at_any_time() -> None:
    """The start is an argument, so that tests can stand before a budget window or an expiry."""

    async def now() -> datetime:
        return VirtualClock().now()

    noon = datetime(2026, 2, 28, 12, tzinfo=UTC)

    assert run_virtual(now(), start=noon) == noon


def test_a_clock_can_be_made_outside_the_loop() -> None:
    """Given its loop, a clock needs no running one."""
    loop = VirtualLoop()
    try:
        assert VirtualClock(loop).now() == START
    finally:
        loop.close()


def test_a_virtual_clock_refuses_a_real_loop() -> None:
    """Reading virtual time where there is none would be a silent mistake."""

    async def make() -> None:
        VirtualClock()

    with pytest.raises(TypeError, match="run_virtual"):
        asyncio.run(make())


def test_a_timer_is_never_early() -> None:
    """A task that waits for a moment, and looks at the clock, need not wait again for a rounding error."""

    async def waits(due: float) -> int:
        loop, times = asyncio.get_running_loop(), 0
        while loop.time() < due:
            times += 1
            await asyncio.sleep(due - loop.time())
        return times

    async def main() -> list[int]:
        await asyncio.sleep(230.808 / 3)
        moments = [230.808 + number * 1e-7 for number in range(30)]
        return list(await asyncio.gather(*(waits(due) for due in moments)))

    assert run_virtual(main()) == [1] * 30
