"""
The fence of a leader: whether this replica may still write.

Leader election opens it until a moment and moves that moment with every renewal of the lease. Whatever
changes something outside of the process, in the API server or in the cloud, checks it immediately before.
A process that was stopped, or a machine that was suspended, cannot tell from its timers that a successor
leads by now, because all of them are late; the clock of the fence runs on meanwhile.

A fence that has refused once stays closed: what was decided before belongs to a term that is over. Without
leader election it is always open. It may be checked in any thread. It knows nothing of leases.
"""

from collections.abc import Callable
from math import inf


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
        """Whether a write was refused."""
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
