"""
What is to be done when, for thousands of nodes and pods at once: one heap, one timer, one task.

Each subject has at most one entry. Everything that is due at a moment is handed out together, in the order
in which it was put in, so that the same events always lead to the same order of writes.
"""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Hashable
from itertools import count
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

MAX_CONCURRENT_STEPS = 64
"""Steps under way at a time."""


class DueQueue(Generic[K]):
    """Subjects by when they are due."""

    def __init__(self) -> None:
        self._due: dict[K, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = count()
        self._woken = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    def put(self, key: K, due: float) -> None:
        """Let `key` be due at a moment of the loop's time, whatever was planned for it before."""
        entry = (due, next(self._order))
        self._due[key] = entry
        heapq.heappush(self._heap, (*entry, key))
        self._woken.set()

    def drop(self, key: K) -> None:
        self._due.pop(key, None)

    def take_due(self, now: float) -> list[K]:
        found = []
        while self._heap and self._heap[0][0] <= now:
            due, order, key = heapq.heappop(self._heap)
            if self._due.get(key) == (due, order):
                del self._due[key]
                found.append(key)
        return found

    async def run(self, step: Callable[[K], Awaitable[None]]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._woken.clear()
            due = self.take_due(loop.time())
            for start in range(0, len(due), MAX_CONCURRENT_STEPS):
                await asyncio.gather(*(step(key) for key in due[start : start + MAX_CONCURRENT_STEPS]))
            if not due:
                await self._wait(loop)

    async def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][:2]:
            heapq.heappop(self._heap)
        try:
            async with asyncio.timeout_at(self._heap[0][0] if self._heap else None):
                await self._woken.wait()
        except TimeoutError:
            return
        _ = loop
