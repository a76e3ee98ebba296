"""The environment says which servers are reached through a proxy."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from karpenter.kube.errors import Unreachable
from karpenter.kube.http import Endpoint, HttpTransport, StaticCredentials, Trust, proxy_for
from karpenter.kube.transport import Request
from karpenter_local.cluster import LocalCluster

PROXY = "http://gate:3128"


@pytest.mark.parametrize(
    ("server", "environ", "expected"),
    [
        pytest.param("https://api:6443", {}, "", id="no proxy"),
        pytest.param("https://api:6443", {"HTTPS_PROXY": PROXY}, PROXY, id="upper case"),
        pytest.param("https://api:6443", {"https_proxy": PROXY}, PROXY, id="lower case"),
        pytest.param("https://api:6443", {"HTTP_PROXY": PROXY}, "", id="the proxy of another scheme"),
        pytest.param("http://api", {"HTTP_PROXY": PROXY}, PROXY, id="plain HTTP"),
        pytest.param("https://api", {"ALL_PROXY": PROXY}, PROXY, id="the proxy of all schemes"),
        pytest.param("https://api", {"HTTPS_PROXY": "gate:3128"}, PROXY, id="a proxy without a scheme"),
        pytest.param(
            "https://localhost:6443", {"HTTPS_PROXY": PROXY}, "", id="never for this machine by name"
        ),
        pytest.param("https://127.0.0.1:6443", {"HTTPS_PROXY": PROXY}, "", id="nor by address"),
        pytest.param("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, "", id="nor by the newer address"),
    ],
)
def test_proxy_for(server: str, environ: dict[str, str], expected: str) -> None:
    """The proxy depends on the scheme; the machine itself is always reached directly."""
    assert proxy_for(server, environ) == expected


@pytest.mark.parametrize(
    ("server", "exempt", "expected"),
    [
        pytest.param("https://10.0.0.1", "10.0.0.0/8", "", id="a network covers its addresses"),
        pytest.param("https://11.0.0.1", "10.0.0.0/8", PROXY, id="and no others"),
        pytest.param("https://api.corp", "10.0.0.0/8", PROXY, id="and no names"),
        pytest.param("https://10.0.0.1", "10.0.0.0/99", PROXY, id="a network that is none covers nothing"),
        pytest.param("https://api.corp", "corp", "", id="a name covers what is under it"),
        pytest.param("https://api.corp", ".corp", "", id="also with a dot"),
        pytest.param("https://api.corp", "*.corp", "", id="also with a star"),
        pytest.param("https://apicorp", "corp", PROXY, id="but not what merely ends like it"),
        pytest.param("https://api.corp", "API.corp", "", id="in any case"),
        pytest.param("https://10.0.0.1:6443", "10.0.0.1:6443", "", id="an address with its port"),
        pytest.param("https://10.0.0.1:6443", "10.0.0.1:443", PROXY, id="not with another"),
        pytest.param("https://[fd00::1]:6443", "fd00::1", "", id="a newer address"),
        pytest.param("https://api", "*", "", id="everything"),
        pytest.param("https://api", " one , api ", "", id="one of several"),
        pytest.param("https://api", "", PROXY, id="nothing"),
    ],
)
def test_no_proxy(server: str, exempt: str, expected: str) -> None:
    """Names, addresses, networks and ports can be exempt."""
    assert proxy_for(server, {"HTTPS_PROXY": PROXY, "NO_PROXY": exempt}) == expected


@asynccontextmanager
async def socks_proxy(asked: list[str]) -> AsyncIterator[str]:
    """Run a SOCKS5 proxy without authentication (RFC 1928) that leads every name to this machine."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, methods = await reader.readexactly(2)
        await reader.readexactly(methods)
        writer.write(b"\x05\x00")
        *_, kind = await reader.readexactly(4)
        assert kind == 3, "the proxy resolves the name"
        name = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        port = int.from_bytes(await reader.readexactly(2), "big")
        asked.append(f"{name}:{port}")
        there = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x05\x00\x00\x01" + b"\x00" * 6)
        await asyncio.gather(carry(reader, there[1]), carry(there[0], writer), return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"socks5://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def test_a_socks_proxy(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Requests go through a SOCKS proxy, which resolves the name; the server is checked as ever."""
    pytest.importorskip("aiohttp_socks", reason="the extra socks is not installed")
    asked: list[str] = []
    async with LocalCluster(http=True, controllers=False) as cluster, socks_proxy(asked) as proxy:
        assert cluster.front is not None
        authority = tmp_path_factory.mktemp("ca") / "ca.crt"
        authority.write_bytes(cluster.front.certificates.authority)
        port = cluster.front.url.rpartition(":")[2]
        endpoint = Endpoint(
            server=f"https://localhost:{port}", trust=Trust(ca_file=str(authority)), proxy=proxy
        )
        transport = HttpTransport(endpoint, StaticCredentials(token=cluster.front.token))
        answer = await transport.send(Request(method="GET", path="/version"))
        await transport.close()

    assert (answer.status, asked) == (200, [f"localhost:{port}"])


async def test_a_socks_proxy_that_is_not_there() -> None:
    """The error names the proxy, and not the password in its URL."""
    pytest.importorskip("aiohttp_socks", reason="the extra socks is not installed")
    endpoint = Endpoint(server="https://api.example", proxy="socks5://me:secret@127.0.0.1:1")
    transport = HttpTransport(endpoint, StaticCredentials())

    with pytest.raises(Unreachable, match=r"cannot connect through the proxy 127\.0\.0\.1:1") as caught:
        await transport.send(Request(method="GET", path="/version"))
    await transport.close()

    assert "secret" not in str(caught.value)
