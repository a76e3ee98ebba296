"""
How old what is shown of a live cluster may be.

A watch that is silent may be that of a cluster in which nothing happens, or of one that is gone: after a lost
connection it is noticed after a minute and a half. The API server is therefore asked every few seconds for
its version, which costs it nothing, as often as there is a page or a screen to tell.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from karpenter.kube.errors import KubeError, StatusError, Unauthorized

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.base.clock import Clock
    from karpenter.kube.client import Client

_EVERY: Final = 10.0
_UNSEEN: Final = 60.0
"""Seconds between two questions while there is none to tell."""

_EVERY_WHILE_LOST: Final = 2.0
_STEP: Final = 1.0
_WITHIN: Final = 5.0
_STALE: Final = 5.0
"""Seconds without an answer after which what is shown is said to be old."""


class Heartbeat:
    """When the API server answered last."""

    def __init__(self, client: Client, clock: Clock, *, wanted: Callable[[], bool] = lambda: True) -> None:
        """The server is asked often while `wanted`, such as by an open page, and once a minute otherwise."""
        self._client, self._clock, self._wanted = client, clock, wanted
        self._answered = clock.monotonic()
        self.problem = ""
        """Why there is no answer; empty while there is one."""

    @property
    def age(self) -> float:
        """Seconds that what is shown is old; zero while the server answers."""
        passed = self._clock.monotonic() - self._answered
        return passed if self.problem and passed >= _STALE else 0.0

    @property
    def sentence(self) -> str:
        """How old it is, and why; empty while it is not."""
        return f"not up to date: as of {self.age:.0f} s ago ({self.problem})" if self.age else ""

    async def run(self) -> None:
        while True:
            asked_at = self._clock.monotonic()
            await self._beat()
            while self._clock.monotonic() - asked_at < self._interval:  # noqa: ASYNC110  a page may open
                await asyncio.sleep(_STEP)

    @property
    def _interval(self) -> float:
        if not self._wanted():
            return _UNSEEN
        return _EVERY_WHILE_LOST if self.problem else _EVERY

    async def _beat(self) -> None:
        try:
            await self._client.ping(within=_WITHIN)
        except Unauthorized as error:
            self.problem = str(error)  # its watches end, too
            return
        except StatusError:
            pass  # what refuses is there
        except KubeError as error:
            self.problem = str(error)
            return
        self._answered, self.problem = self._clock.monotonic(), ""
