"""
Collects triggers into batches.

The first trigger opens a window. Each trigger with a new key restarts the idle timer; the window closes when
that runs out, when it has been open for its longest time, or when it is full. A key that is in the batch
already changes nothing, so one object that changes all the time cannot hold the batch open. A reminder opens
a window or joins the open one, and does not restart its timer. Triggers that come while a batch is being
worked on open the next window.

This module does not know why triggers come, or what is done about them. :mod:`karpenter.cloud.aws.batcher`
sends requests to AWS in such batches, and the provisioner schedules pods in them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from itertools import islice
from typing import Generic, TypeVar

import msgspec

K = TypeVar("K", bound=Hashable)


class BatchWindow(msgspec.Struct, frozen=True, kw_only=True):
    """When a window closes; times are in seconds."""

    idle: float = 1.0
    """Close after this long without a new key."""

    longest: float = 10.0
    """Close after this long in any case."""

    max_items: int | None = None
    """Close as soon as there are this many keys; None for no limit."""

    timeout: float | None = 1.0
    """How long to wait for a first trigger before an empty batch is returned; None for ever."""


class Batcher(Generic[K]):
    """One window at a time; keys in order of arrival."""

    def __init__(self, window: BatchWindow | None = None) -> None:
        self._window = window or BatchWindow()
        self._keys: dict[K, None] = {}
        self._fresh = False  # a key came that no window has counted yet
        self._is_open = False
        self._wake = asyncio.Event()

    def trigger(self, key: K) -> None:
        if key not in self._keys:
            self._keys[key] = None
            self._announce()

    def remind(self, key: K) -> None:
        """Ask for a batch that has `key` in it, without keeping the others of the batch waiting."""
        if self._is_open:
            self._keys[key] = None
        else:
            self.trigger(key)

    async def wait(self) -> tuple[K, ...]:
        """Return the keys of the next batch; none if no trigger came within the timeout."""
        if not await self._came_within(self._window.timeout):
            return ()
        loop = asyncio.get_running_loop()
        closes = loop.time() + self._window.longest
        self._is_open = True
        try:
            while not self._is_full() and (left := closes - loop.time()) > 0:
                if not await self._came_within(min(self._window.idle, left)):
                    break
        finally:
            self._is_open = False
        keys = tuple(islice(self._keys, self._window.max_items))
        for key in keys:
            del self._keys[key]
        if self._keys:  # the rest opens the next window
            self._announce()
        return keys

    def _is_full(self) -> bool:
        return self._window.max_items is not None and len(self._keys) >= self._window.max_items

    def _announce(self) -> None:
        self._fresh = True
        self._wake.set()

    async def _came_within(self, seconds: float | None) -> bool:
        """Wait for a new key, and return whether one came."""
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
