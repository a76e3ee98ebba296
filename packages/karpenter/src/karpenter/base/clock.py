"""
What time it is, as something that can be passed in.

Code that needs the wall clock takes a :class:`Clock`; code that only waits uses asyncio's own sleeps and
timeouts. Both then run unchanged under :mod:`karpenter_local.virtual`, where a day passes in seconds. The
core takes neither: there ``now`` is an argument.
"""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol

# On Linux CLOCK_MONOTONIC stands still while the machine is suspended and CLOCK_BOOTTIME does not:
# https://man7.org/linux/man-pages/man2/clock_gettime.2.html
_BOOTTIME: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """The time, and a way to wait."""

    def now(self) -> datetime:
        """Return the wall-clock time, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds since some fixed moment, on the scale of ``loop.time()``; never steps back."""
        ...

    def boottime(self) -> float:
        """Return seconds since some fixed moment, those included in which the machine was suspended."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; others run meanwhile, even when `seconds` is zero."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the machine's time, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def boottime(self) -> float:
        """Return the machine's seconds since it was booted."""
        return time.clock_gettime(_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
