from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING

import pytest

from karpenter.kube.client import Client
from karpenter.kube.errors import Status, Unreachable, status_error_of
from karpenter.session.heartbeat import Heartbeat
from karpenter.top.feed import LiveFeed
from karpenter_local.apiserver.inprocess import InProcess
from karpenter_local.apiserver.server import Server
from karpenter_local.virtual import VirtualClock, run_virtual

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from karpenter.kube.transport import Request, Response, Streaming


class FailingTransport:
    """Carries requests to a server until it is told how they fail."""

    def __init__(self) -> None:
        self._inner = InProcess(Server())
        self.code = 0
        """With what requests fail: an HTTP status, or -1 where no answer comes."""

    async def send(self, request: Request) -> Response:
        if self.code < 0:
            raise Unreachable("connection refused", request=request)
        if self.code:
            raise status_error_of(request, Status(code=self.code, message="no"))
        return await self._inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response | Streaming]:
        async with self._inner.stream(request) as answer:
            yield answer

    async def close(self) -> None:
        await self._inner.close()


async def _age_after(transport: FailingTransport, code: int, seconds: float) -> float:
    heart = Heartbeat(Client(transport, chance=Random(1)), VirtualClock())  # noqa: S311  retries
    task = asyncio.create_task(heart.run())
    await asyncio.sleep(25)
    transport.code = code
    await asyncio.sleep(seconds)
    age = heart.age
    task.cancel()
    return age


@pytest.mark.parametrize(
    ("code", "seconds", "age"),
    [
        pytest.param(0, 60, 0, id="a server that answers"),
        pytest.param(403, 60, 0, id="a server that refuses is there"),
        pytest.param(-1, 2, 0, id="nothing was asked since"),
        pytest.param(-1, 60, 65, id="no answer"),
        pytest.param(401, 60, 65, id="credentials that are not accepted any more"),
    ],
)
def test_how_old_what_is_shown_is(code: int, seconds: float, age: float) -> None:
    """What is shown is as old as the last answer of the API server."""
    assert run_virtual(_age_after(FailingTransport(), code, seconds)) == pytest.approx(age, abs=1)


def test_the_node_viewer_says_how_old_it_is() -> None:
    """Its first note is the age, before anything that may not be read."""

    async def notes() -> tuple[str, ...]:
        transport = FailingTransport()
        feed = LiveFeed(Client(transport, chance=Random(1)), clock=VirtualClock())  # noqa: S311  retries
        await feed.start()
        await asyncio.sleep(25)
        transport.code = -1
        await asyncio.sleep(60)
        told = tuple(feed.notes())
        await feed.stop()
        return told

    (first, *_) = run_virtual(notes())
    assert first.startswith("not up to date: as of 65 s ago (GET /version: connection refused)")
