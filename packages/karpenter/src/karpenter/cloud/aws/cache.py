"""Remembering what was found for a while, and asking once for all who want to know it at the same time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable, Iterator
    from typing import Any

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


class TTLCache(Generic[K, V]):
    """What was found, by what was looked for. What cannot be found is not remembered."""

    def __init__(self, *, seconds: float, monotonic: Callable[[], float]) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self._held: dict[K, tuple[float, V]] = {}
        self._looking: dict[K, asyncio.Task[V]] = {}

    async def get(self, key: K, find: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Return what is remembered for `key`, or look for it."""
        held = self._held.get(key)
        if held is not None and held[0] > self._monotonic():
            return held[1]
        task = self._looking.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(find())
            self._looking[key] = task
            task.add_done_callback(lambda done: self._found(key, done))
        return await asyncio.shield(task)

    def peek(self, key: K) -> V | None:
        """Return what is remembered for `key`; None when nothing is."""
        held = self._held.get(key)
        return held[1] if held is not None and held[0] > self._monotonic() else None

    def put(self, key: K, value: V, *, seconds: float | None = None) -> None:
        """Remember something from now on, for the usual time or for so many seconds."""
        self._held[key] = (self._monotonic() + (self._seconds if seconds is None else seconds), value)

    def forget(self, key: K) -> None:
        """Remember nothing for `key` any longer."""
        self._held.pop(key, None)

    def items(self) -> Iterator[tuple[K, V]]:
        """Yield everything that is remembered at this moment, and drop the rest."""
        now = self._monotonic()
        self._held = {key: held for key, held in self._held.items() if held[0] > now}
        for key, (_, value) in tuple(self._held.items()):
            yield key, value

    def _found(self, key: K, done: asyncio.Task[V]) -> None:
        if self._looking.get(key) is done:
            del self._looking[key]
        if not done.cancelled() and done.exception() is None:
            self.put(key, done.result())
