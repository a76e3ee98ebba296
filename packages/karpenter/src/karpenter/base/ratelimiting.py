"""
A token bucket: so many at once, so many a second after that.

Waiters are served in the order they came. Time is the running loop's.
"""

import asyncio


class TokenBucket:
    """Holds up to `burst` tokens and gains `rate` a second."""

    def __init__(self, *, rate: float, burst: float) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError(
                f"a bucket needs a rate above 0 and a burst of at least 1, not {rate} and {burst}"
            )
        self.rate = rate
        self.burst = burst
        self._tokens = float(burst)
        self._filled_at: float | None = None

    def try_take(self) -> bool:
        """Take a token if one is there."""
        self._fill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def reserve(self) -> float:
        """Take a token that is there, or will be, and return how many seconds to wait for it."""
        self._fill()
        self._tokens -= 1
        return max(0.0, -self._tokens / self.rate)

    async def take(self) -> None:
        """Wait for a token and take it. A waiter that is cancelled leaves its token behind."""
        wait = self.reserve()
        if not wait:
            return
        try:
            await asyncio.sleep(wait)
        except asyncio.CancelledError:
            self._tokens += 1
            raise

    def _fill(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._filled_at is not None:
            self._tokens = min(self.burst, self._tokens + (now - self._filled_at) * self.rate)
        self._filled_at = now
