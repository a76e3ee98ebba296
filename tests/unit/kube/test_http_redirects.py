"""A server that sends us elsewhere: requests and credentials go where the kubeconfig says."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
import pytest
from aiohttp import web

from karpenter.base.clock import SystemClock
from karpenter.kube.errors import BadRequest, NotConfigured, status_error
from karpenter.kube.http import Endpoint, HttpTransport, StaticCredentials
from karpenter.kube.kubeconfig import from_kubeconfig
from karpenter.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

REAL_TIME = True


@asynccontextmanager
async def served(answer: Callable[[web.BaseRequest], Awaitable[web.Response]]) -> AsyncIterator[str]:
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


def kubeconfig(folder: Path, server: str) -> str:
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "y"}}],
        "clusters": [{"name": "y", "cluster": {"server": server}}],
    }
    (folder / "config").write_bytes(msgspec.json.encode(config))
    return str(folder / "config")


@pytest.mark.parametrize(
    "server",
    [
        pytest.param("file:///etc/passwd", id="a file"),
        pytest.param("gopher://127.0.0.1", id="another protocol"),
        pytest.param("//127.0.0.1", id="no protocol"),
        pytest.param("https://", id="no host"),
        pytest.param("https://me:secret@127.0.0.1", id="a password"),
        pytest.param("https://127.0.0.1/a?b=", id="a query that would swallow the path"),
        pytest.param("https://127.0.0.1/a#b", id="a fragment that would, too"),
        pytest.param("https://127.0.0.1/\r\nX: y", id="a header"),
    ],
)
async def test_a_server_of_a_kubeconfig_is_an_address_of_http(server: str, tmp_path: Path) -> None:
    """What is none is refused before anything is asked, and a password in it is not repeated."""
    path = kubeconfig(tmp_path, server)
    with pytest.raises(NotConfigured, match="the server of the cluster is no address") as refused:
        await from_kubeconfig(path, environ={}, clock=SystemClock())

    assert "secret" not in str(refused.value)


async def test_a_server_may_be_written_in_capitals(tmp_path: Path) -> None:
    """The protocol is the same, and so is the trust in the server."""
    path = kubeconfig(tmp_path, "HTTPS://127.0.0.1:6443/k8s/")
    found = await from_kubeconfig(path, environ={}, clock=SystemClock())

    assert found.endpoint.server == "https://127.0.0.1:6443/k8s"
