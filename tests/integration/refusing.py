"""A transport that refuses some requests a few times, as a busy server does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.kube.transport import Request, Response, Streaming, Transport

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager


class Refusing:
    """Answers the next requests of a method and kind with a conflict, and carries all others."""

    def __init__(self, inner: Transport, method: str, plural: str) -> None:
        self._inner = inner
        self._which = (method, f"/{plural}/")
        self.times = 0

    async def send(self, request: Request) -> Response:
        method, part = self._which
        if not self.times or request.method != method or part not in request.path:
            return await self._inner.send(request)
        self.times -= 1
        status = {"kind": "Status", "status": "Failure", "reason": "Conflict", "message": "no", "code": 409}
        return Response(status=409, body=msgspec.json.encode(status))

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response | Streaming]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()
