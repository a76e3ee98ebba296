"""
What a request passes before it is sent: a rate limit, and the fence of a leader.

A token bucket grants so many at once, and so many a second after that. Waiters are served in the order they
came. Time is the running loop's.

The fence says whether this replica may still write. Leader election opens it until a moment and moves that
moment with every renewal of the lease. Whatever changes something outside of the process, in the API server
or in the cloud, checks it immediately before. A process that was stopped, or a machine that was suspended,
cannot tell from its timers that a successor leads by now, because all of them are late; the clock of the
fence runs on meanwhile.

A fence that has refused once stays closed: what was decided before belongs to a term that is over. Without
leader election it is always open. It may be checked in any thread. It knows nothing of leases.
"""

import asyncio
from collections.abc import Callable
from math import inf


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
            self.give_back()
            raise

    def give_back(self) -> None:
        """Put back a token that was taken and is not needed."""
        self._tokens += 1

    def _fill(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._filled_at is not None:
            self._tokens = min(self.burst, self._tokens + (now - self._filled_at) * self.rate)
        self._filled_at = now


class Unlimited(TokenBucket):
    """Grants every token at once, for a server in the same process."""

    def __init__(self) -> None:
        super().__init__(rate=inf, burst=inf)

    def reserve(self) -> float:
        """Take a token, which need not be waited for."""
        return 0.0

    async def take(self) -> None: ...

    def _fill(self) -> None:
        """Leave the tokens as they are: there are always more."""


class LeaseNotHeld(Exception):  # noqa: N818  a fact; losing a lease is no fault
    """A write was refused in this process, because its lease was not renewed in time."""

    def __init__(self, write: str) -> None:
        super().__init__(
            f"{write}: this replica no longer holds the lease, or renewed it too late; nothing was sent"
        )
        self.write = write


class Fence:
    """Lets writes pass until a moment."""

    def __init__(self, boottime: Callable[[], float] = lambda: 0.0) -> None:
        """`boottime` is the clock: seconds that also pass while the process is stopped or suspended."""
        self._boottime = boottime
        self._until = inf
        self._refused = False
        self.on_refused: Callable[[], None] = lambda: None
        """Called at the first refusal, in the thread that was refused."""

    @property
    def refused(self) -> bool:
        return self._refused

    def open_until(self, moment: float) -> None:
        """Let writes pass until a moment of the clock, unless one was refused already."""
        self._until = moment

    def close(self) -> None:
        """Let no write pass from now on; leader election begins with that."""
        self._until = -inf

    def check(self, write: str) -> None:
        """
        Return if a write may be sent now.

        Raises:
            LeaseNotHeld: it may not; nor may any other from now on.
        """
        if not self._refused and self._boottime() < self._until:
            return
        first, self._refused = not self._refused, True
        if first:
            self.on_refused()
        raise LeaseNotHeld(write)


OPEN = Fence()
"""A fence that lets everything pass: where no lease is needed. It is never closed."""
