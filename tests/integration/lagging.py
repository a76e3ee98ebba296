"""A transport whose watches are late, while answers come at once."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from karpenter.kube.transport import Request, Response, Streaming, Transport

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator


class Lagging:
    """Holds back what watches of some kinds tell, by so many seconds."""

    def __init__(self, inner: Transport, seconds: float, *plurals: str) -> None:
        self._inner = inner
        self._seconds = seconds
        self._plurals = plurals

    async def send(self, request: Request) -> Response:
        return await self._inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response | Streaming]:
        """Open a watch, and tell what it tells late."""
        async with self._inner.stream(request) as answer:
            if isinstance(answer, Streaming) and request.path.rpartition("/")[2] in self._plurals:
                late = self._late(answer.lines)
                try:
                    yield msgspec.structs.replace(answer, lines=late)
                finally:
                    await late.aclose()
            else:
                yield answer

    async def close(self) -> None:
        await self._inner.close()

    async def _late(self, lines: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        waiting: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        async def read() -> None:
            async for line in lines:
                waiting.put_nowait((loop.time() + self._seconds, line))
            waiting.put_nowait(None)

        reader = loop.create_task(read())
        try:
            while (found := await waiting.get()) is not None:
                due, line = found
                await asyncio.sleep(max(0.0, due - loop.time()))
                yield line
        finally:
            reader.cancel()
            await asyncio.wait([reader])
