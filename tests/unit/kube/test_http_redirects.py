"""A server that sends us elsewhere: requests and credentials go where the kubeconfig says."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from karpenter.kube.errors import BadRequest, status_error
from karpenter.kube.http import Endpoint, HttpTransport, StaticCredentials
from karpenter.kube.rest import Request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

REAL_TIME = True


@asynccontextmanager
async def served(answer: Callable[[web.BaseRequest], Awaitable[web.Response]]) -> AsyncIterator[str]:
    """Serve on loopback."""
    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    """The answer is an error, and the other server, which may be any in our network, is never asked."""
    asked: list[str] = []

    async def elsewhere(request: web.BaseRequest) -> web.Response:
        asked.append(request.headers.get("authorization", ""))
        return web.json_response({"items": []})

    async with served(elsewhere) as other:

        async def redirect(_request: web.BaseRequest) -> web.Response:
            return web.Response(status=status, headers={"Location": f"{other}/latest/meta-data"})

        async with served(redirect) as url:
            transport = HttpTransport(Endpoint(server=url), StaticCredentials(token="secret"))
            request = Request(method="GET", path="/api/v1/pods")
            error = status_error(request, await transport.send(request))
            await transport.close()

    assert isinstance(error, BadRequest)
    assert asked == []
