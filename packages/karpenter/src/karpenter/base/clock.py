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


class Clock(Protocol):
    """The time, and a way to wait."""

    def now(self) -> datetime:
        """Return the wall-clock time, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds since some fixed moment, on the scale of ``loop.time()``; never steps back."""
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
        """Return the machine's monotonic seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait for real."""
        await asyncio.sleep(seconds)
