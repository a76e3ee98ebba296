"""The clock on an operator's machine: it may be wrong for a while, as clocks are."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.base.clock import Clock


class WrongClock:
    """Tells the time of another clock, too late or too early by so many seconds; waits are not affected."""

    def __init__(self, right: Clock) -> None:
        self._right = right
        self.ahead = 0.0

    def now(self) -> datetime:
        """Return what this clock takes for the time."""
        return self._right.now() + timedelta(seconds=self.ahead)

    def monotonic(self) -> float:
        """Return seconds that only ever grow."""
        return self._right.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        await self._right.sleep(seconds)
