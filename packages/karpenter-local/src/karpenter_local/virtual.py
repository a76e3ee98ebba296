"""
An event loop whose time passes only when no task has anything to do, and the clocks that read it.

When no callback is ready, no socket is readable and no executor work is under way, the loop does not wait
for its next timer: it jumps there. Every asyncio sleep and timeout is then exact, free and repeatable, and
the code under it needs no change.

    async def main() -> datetime:
        await asyncio.sleep(3600)
        return VirtualClock().now()

    run_virtual(main(), start=datetime(2025, 1, 1, tzinfo=UTC))  # 2025-01-01 01:00, at once

Simulation relies on two guarantees: time never moves while executor work (``asyncio.to_thread``) is under
way, and a loop in which every task waits and no timer is set raises :class:`Stalled` instead of hanging. Real
sockets work, but their timing is the machine's: what must be repeatable talks in process.
"""

from __future__ import annotations

import asyncio
import selectors
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Executor
    from contextvars import Context

    from karpenter.base.clock import Clock


T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START = datetime(2025, 1, 1, tzinfo=UTC)
"""Where virtual time begins by default."""

_DIGITS = 6
"""
Virtual time moves in whole microseconds. A timer is never early, so that a task that waits for a moment and
finds it still to come does not wait for ever, a billionth of a second at a time; and timers a rounding error
apart are due together.
"""

_TICK = 10.0**-_DIGITS
_SELF_PIPE = 1  # the loop's own wake-up socket, the one descriptor that is always registered


class Stalled(RuntimeError):  # noqa: N818  a state of the loop, named as the log names it
    """Every task waits, no timer is set, and nothing outside can wake the loop."""

    def __init__(self, *, at: float) -> None:
        super().__init__(f"every task waits and no timer is set, {at:.3f} s after the start")
        self.at = at


class _JumpingSelector(selectors.DefaultSelector):
    """Polls instead of waiting; the wait that was asked for is added to ``elapsed``."""

    def __init__(self) -> None:
        super().__init__()
        self.elapsed = 0.0
        self.outside = 0
        """Executor calls under way: while there are any, the loop waits for real and time stands still."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        hurried = timeout is not None and timeout <= 0
        if hurried and not self.outside and len(self.get_map()) <= _SELF_PIPE:
            return []  # callbacks are ready, and no event can come from outside
        events = super().select(0)
        if events or hurried:
            return events
        if self.outside:
            return super().select(None)
        if timeout is None:
            if len(self.get_map()) <= _SELF_PIPE:
                raise Stalled(at=self.elapsed)
            return super().select(None)
        self.elapsed = round(self.elapsed + timeout, _DIGITS)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """A selector event loop that jumps over idle time. ``time()`` is zero at the moment `start`."""

    def __init__(self, start: datetime = START) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        self.start = start
        # The default, a nanosecond, is lost in a float after four months.
        self._clock_resolution = _TICK / 2

    def time(self) -> float:
        return self._jumping.elapsed

    def hold(self, seconds: float) -> None:
        """Let time pass while a callback runs, as on a busy machine: what is due meanwhile is late."""
        self._jumping.elapsed = round(self._jumping.elapsed + seconds, _DIGITS)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back at the first whole microsecond that is not before `when`."""
        due = round(when, _DIGITS)
        if due < when:
            due = round(due + _TICK, _DIGITS)
        return super().call_at(due, callback, *args, context=context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run `func` in a thread; virtual time stands still until it is done."""
        future = super().run_in_executor(executor, func, *args)
        self._jumping.outside += 1
        future.add_done_callback(self._came_back)
        return future

    async def shutdown_default_executor(self, *args: Any, **kwargs: Any) -> None:
        """Wait for the threads to end, for real."""
        self._jumping.outside += 1
        try:
            await super().shutdown_default_executor(*args, **kwargs)
        finally:
            self._jumping.outside -= 1

    def _came_back(self, _: asyncio.Future[Any]) -> None:
        self._jumping.outside -= 1


class VirtualClock:
    """The clock of a virtual loop: ``now()`` is the loop's start plus the loop's time."""

    def __init__(self, loop: VirtualLoop | None = None) -> None:
        running = loop or asyncio.get_running_loop()
        if not isinstance(running, VirtualLoop):
            raise TypeError("a VirtualClock needs a VirtualLoop; start the program with run_virtual()")
        self._loop = running

    def now(self) -> datetime:
        return self._loop.start + timedelta(seconds=self._loop.time())

    def monotonic(self) -> float:
        """Return virtual seconds since the loop's start."""
        return self._loop.time()

    def boottime(self) -> float:
        """Return the same: a virtual machine is never suspended."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Let virtual time pass, and other tasks run."""
        await asyncio.sleep(seconds)


def run_virtual(main: Coroutine[Any, Any, T], *, start: datetime = START) -> T:
    """Run `main` to its end in virtual time, as :func:`asyncio.run` does in real time."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(start)) as runner:
        return runner.run(main)


class WrongClock:
    """Tells the time of another clock, too late or too early by so many seconds; waits are not affected."""

    def __init__(self, right: Clock) -> None:
        self._right = right
        self.ahead = 0.0

    def now(self) -> datetime:
        """Return what this clock takes for the time."""
        return self._right.now() + timedelta(seconds=self.ahead)

    def monotonic(self) -> float:
        return self._right.monotonic()

    def boottime(self) -> float:
        """Return seconds that only ever grow, too."""
        return self._right.boottime()

    async def sleep(self, seconds: float) -> None:
        await self._right.sleep(seconds)
