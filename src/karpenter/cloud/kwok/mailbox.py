"""
News of interruptions, kept until someone says that they were acted on.

As with a real queue, news that were told and not acknowledged are told again after a while, to whoever asks
then.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from karpenter.cloud.interface import Interruption

if TYPE_CHECKING:
    from karpenter.base.clock import Clock


class _Letter(msgspec.Struct):
    news: Interruption
    cluster: str
    hidden_until: float = 0.0


class Mailbox:
    """News by cluster."""

    def __init__(self, clock: Clock, *, told_again: float) -> None:
        self._clock = clock
        self._told_again = told_again
        self._letters: dict[str, _Letter] = {}
        self._changed = asyncio.Event()

    def put(self, cluster: str, news: Interruption) -> None:
        """Keep news for a cluster, and wake whoever waits."""
        self._letters[news.id] = _Letter(news, cluster)
        self._changed.set()

    def take(self, cluster: str) -> tuple[Interruption, ...]:
        """Return what can be told to a cluster now, and hide it for a while."""
        now = self._clock.monotonic()
        told = [each for each in self._of(cluster) if each.hidden_until <= now]
        for each in told:
            each.hidden_until = now + self._told_again
        return tuple(each.news for each in told)

    def acknowledge(self, news: Interruption) -> None:
        """Forget news."""
        self._letters.pop(news.id, None)

    async def wait(self, cluster: str) -> None:
        """Wait until there may be something to take."""
        self._changed.clear()
        now = self._clock.monotonic()
        soonest = min((each.hidden_until for each in self._of(cluster)), default=None)
        try:
            async with asyncio.timeout(None if soonest is None else max(0.0, soonest - now)):
                await self._changed.wait()
        except TimeoutError:
            return

    def _of(self, cluster: str) -> list[_Letter]:
        return [each for each in self._letters.values() if each.cluster == cluster]
