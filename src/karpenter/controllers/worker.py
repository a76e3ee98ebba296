"""
Where long computations run: beside the event loop, or in it.

In production a decision may take seconds and runs in a thread, so that watches, leases and probes go on. In a
simulation it runs at once: there, time must not pass while somebody thinks.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

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
