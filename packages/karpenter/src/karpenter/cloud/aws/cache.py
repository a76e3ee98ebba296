"""
A cache with a time to live, whose misses share one look-up.

Providers cache what they describe in AWS, so that many NodeClaims cost few calls. An error is not cached.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable, Iterator

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


class TTLCache(Generic[K, V]):
    """Values by key, each for a number of seconds."""

    def __init__(self, *, seconds: float, monotonic: Callable[[], float]) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self._held: dict[K, tuple[float, V]] = {}
        self._loading: dict[K, asyncio.Task[V]] = {}

    async def get(self, key: K, load: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Return the cached value of `key`, or load it; callers that miss at the same time share one load."""
        held = self._held.get(key)
        if held is not None and held[0] > self._monotonic():
            return held[1]
        task = self._loading.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(load())
            self._loading[key] = task
            task.add_done_callback(lambda done: self._loaded(key, done))
        return await asyncio.shield(task)  # a caller that is cancelled does not end the load of the others

    def peek(self, key: K) -> V | None:
        """Return the cached value of `key`; None when there is none."""
        held = self._held.get(key)
        return held[1] if held is not None and held[0] > self._monotonic() else None

    def put(self, key: K, value: V, *, seconds: float | None = None) -> None:
        """Cache a value from now on, for the usual time or for `seconds`."""
        self._held[key] = (self._monotonic() + (self._seconds if seconds is None else seconds), value)

    def forget(self, key: K) -> None:
        self._held.pop(key, None)

    def items(self) -> Iterator[tuple[K, V]]:
        """Yield every key and value that has not expired; the expired ones are dropped."""
        now = self._monotonic()
        # Expired entries are dropped here, so that a cache that is listed does not grow.
        self._held = {key: held for key, held in self._held.items() if held[0] > now}
        for key, (_, value) in tuple(self._held.items()):
            yield key, value

    def _loaded(self, key: K, done: asyncio.Task[V]) -> None:
        if self._loading.get(key) is done:
            del self._loading[key]
        if not done.cancelled() and done.exception() is None:
            self.put(key, done.result())
