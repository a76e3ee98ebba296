"""
A transport that calls the server as a function.

No sockets and no threads, so that client, server and controllers share one virtual-time loop and the same
seed gives the same history. The bytes are those that HTTP would carry: nothing is skipped but the wire.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from karpenter.kube.errors import Unreachable
from karpenter.kube.transport import Handler, Pairs, Request, Response, Streaming


class InProcess:
    """Carries requests to `handler` in the same event loop, with `headers` added to each."""

    def __init__(self, handler: Handler, *, headers: Pairs = ()) -> None:
        self._handler = handler
        self._headers = headers
        self._closed = False

    async def send(self, request: Request) -> Response:
        """Return the handler's answer; a stream where one answer was due is the handler's mistake."""
        answer = await self._handle(request)
        if isinstance(answer, Streaming):
            await answer.lines.aclose()
            raise TypeError(
                f"{request.method} {request.path} was answered with a stream where one answer was due"
            )
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response | Streaming]:
        """Open a watch; the handler's generator is closed on leaving."""
        answer = await self._handle(request)
        try:
            yield answer
        finally:
            if isinstance(answer, Streaming):
                await answer.lines.aclose()

    async def close(self) -> None:
        self._closed = True

    async def _handle(self, request: Request) -> Response | Streaming:
        if self._closed:
            raise Unreachable("the transport is closed", request=request, sent=False)
        if self._headers:
            request = msgspec.structs.replace(request, headers=(*request.headers, *self._headers))
        return await self._handler.handle(request)
