"""
Where long computations run: beside the event loop, or in it.

In production a decision may take seconds and runs in a thread, so that watches, leases and probes go on. In a
simulation it runs at once: there, time must not pass while somebody thinks.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from karpenter.telemetry.flight.questions import watched

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.telemetry.flight.recording import FlightRecorder

T = TypeVar("T")


class Worker(Protocol):
    """Somebody who computes."""

    async def run(self, compute: Callable[[], T]) -> T:
        """Return what `compute` returns."""
        ...


class Threaded:
    """Computes in a thread."""

    async def run(self, compute: Callable[[], T]) -> T:
        """Compute while the event loop goes on."""
        return await asyncio.to_thread(compute)


class Inline:
    """Computes at once."""

    async def run(self, compute: Callable[[], T]) -> T:
        """Compute while everybody waits."""
        return compute()


class Recorded:
    """Lets another compute, and has every decision written down."""

    def __init__(self, inner: Worker, flight: FlightRecorder) -> None:
        self._inner = inner
        self._flight = flight

    async def run(self, compute: Callable[[], T]) -> T:
        """Compute, and write down what was asked and what came out."""
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
