"""
Runs decisions, which may take seconds.

They run in a thread in production, so that watches, leases and probes continue, and inline in a simulation,
where time must not pass meanwhile.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from karpenter.replay.replay import watched

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.replay.recorder import FlightRecorder


T = TypeVar("T")


class Executor(Protocol):
    """Runs a computation."""

    async def run(self, compute: Callable[[], T]) -> T:
        """Return the result of `compute`."""
        ...


class ThreadExecutor:
    """Runs computations in a thread."""

    async def run(self, compute: Callable[[], T]) -> T:
        """Run `compute` while the event loop continues."""
        return await asyncio.to_thread(compute)


class InlineExecutor:
    """Runs computations in the event loop."""

    async def run(self, compute: Callable[[], T]) -> T:
        """Run `compute` at once."""
        return compute()


class RecordingExecutor:
    """Runs computations with another executor, and writes every decision to the flight record."""

    def __init__(self, inner: Executor, flight: FlightRecorder) -> None:
        self._inner = inner
        self._flight = flight

    async def run(self, compute: Callable[[], T]) -> T:
        """Run `compute`, and record its arguments and its result."""
        number = self._flight.asked(compute) if isinstance(compute, partial) else 0
        if not number:
            return await self._inner.run(compute)
        cut: list[bool] = []
        assert isinstance(compute, partial)
        try:
            result: T = await self._inner.run(watched(compute, lambda: cut.append(True)))
        except BaseException:
            self._flight.failed(number)
            raise
        self._flight.answered(number, result, cut=bool(cut))
        return result
