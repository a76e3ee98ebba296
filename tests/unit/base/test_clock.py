"""The system clock is the machine's."""

import asyncio
import time
from datetime import UTC, datetime

from karpenter.base.clock import Clock, SystemClock


def test_now_is_the_time_in_utc() -> None:
    """The wall clock is given in UTC."""
    clock: Clock = SystemClock()

    before = datetime.now(UTC)
    now = clock.now()

    assert before <= now <= datetime.now(UTC)
    assert now.tzinfo is UTC


def test_monotonic_is_on_the_scale_of_the_loop() -> None:
    """Deadlines computed from the clock can be given to the running loop."""

    async def gap() -> float:
        return asyncio.get_running_loop().time() - SystemClock().monotonic()

    assert abs(asyncio.run(gap())) < 1


def test_sleep_waits() -> None:
    """A sleep takes at least as long as asked."""
    started = time.monotonic()

    asyncio.run(SystemClock().sleep(0.01))

    assert time.monotonic() - started >= 0.009


def test_boottime_is_the_clock_that_runs_while_the_machine_is_suspended() -> None:
    """Linux has such a clock, and it is never behind the monotonic one."""
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    found = SystemClock().boottime()

    assert before <= found <= time.clock_gettime(time.CLOCK_BOOTTIME)
    assert found >= time.monotonic() - 1
