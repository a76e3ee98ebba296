"""
Collecting triggers into batches.

The first trigger opens a window. Each trigger with a new key restarts its idle timer; the window closes when
that runs out, or when it has been open as long as it may be. A key that is already in the batch changes
nothing, so one noisy object cannot hold everyone up. Triggers that come while a batch is being worked on
open the next window.

Why triggers come, and what is done about them, is not known here.
"""

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar

import msgspec

K = TypeVar("K", bound=Hashable)


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait for more, in seconds."""

    idle: float = 1.0
    """Close after this long without a new key."""

    longest: float = 10.0
    """Close after this long in any case."""

    patience: float | None = 1.0
    """How long to wait for a first trigger before reporting that none came; None for as long as it takes."""


class Batcher(Generic[K]):
    """One window at a time; keys in order of arrival."""

    def __init__(self, window: Window | None = None) -> None:
        self._window = window or Window()
        self._keys: dict[K, None] = {}
        self._fresh = False  # a key came that no window has counted yet
        self._wake = asyncio.Event()

    def trigger(self, key: K) -> None:
        """Ask for a batch that has `key` in it."""
        if key not in self._keys:
            self._keys[key] = None
            self._fresh = True
            self._wake.set()

    async def wait(self) -> tuple[K, ...]:
        """Return the keys of the next batch; none if no trigger came within the patience."""
        if not await self._came_within(self._window.patience):
            return ()
        loop = asyncio.get_running_loop()
        closes = loop.time() + self._window.longest
        while (left := closes - loop.time()) > 0 and await self._came_within(min(self._window.idle, left)):
            pass
        keys = tuple(self._keys)
        self._keys.clear()
        return keys

    async def _came_within(self, seconds: float | None) -> bool:
        """Wait for a new key, and say whether one came."""
        if seconds is None:
            await self._wake.wait()
        else:
            timer = asyncio.get_running_loop().call_later(seconds, self._wake.set)
            try:
                await self._wake.wait()
            finally:
                timer.cancel()
        self._wake.clear()
        came, self._fresh = self._fresh, False
        return came
