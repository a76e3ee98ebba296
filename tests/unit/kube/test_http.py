"""Over real sockets with TLS: bytes arrive as they were sent, and every way to fail has its name."""

import asyncio
import base64
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from karpenter.api.node import Node
from karpenter.kube.client import Client
from karpenter.kube.errors import NotFound, Unauthorized, Unreachable
from karpenter.kube.http import (
    RECHECK_SECONDS,
    Certificate,
    Endpoint,
    HttpTransport,
    StaticCredentials,
    Tls,
    Trust,
)
from karpenter.kube.informer import Informer
from karpenter.kube.transport import Pairs, Request, Response, Streaming
from tests.unit.kube.certificates import Authority
from tests.unit.kube.toy import Toy
from tests.unit.kube.wire import Port, listening, proxying

REAL_TIME = True

TOKEN = "t"

HELLO = Request(
    method="GET", path="/hello%20world", query=(("a", "b c&d"), ("a", "ü")), headers=(("accept", "x/y"),)
)
WATCH = Request(method="GET", path="/watch", query=(("watch", "true"),))


class Scripted:
    """A handler that plays what it was given."""

    def __init__(self, *lines: bytes, body: bytes = b"hi") -> None:
        self.lines = lines
        self.body = body
        self.seen: list[Request] = []
        self.closed = asyncio.Event()

    async def handle(self, request: Request) -> Response | Streaming:
        self.seen.append(request)
        if request.path == "/watch":
            return Streaming(lines=self._play())
        return Response(status=200, headers=(("x-served", "yes"),), body=self.body)

    async def _play(self) -> AsyncGenerator[bytes, None]:
        try:
            for line in self.lines:
                yield line
            await asyncio.sleep(60)
        finally:
            self.closed.set()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Whom everyone here trusts."""
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def served(authority: Authority) -> Certificate:
    """The server's certificate."""
    return authority.issue("api.example.com")


@asynccontextmanager
async def connected(
    port: Port, trust: Trust, *, proxy: str = "", certificate: Certificate | None = None, token: str = TOKEN
) -> AsyncIterator[HttpTransport]:
    endpoint = Endpoint(server=port.url, trust=trust, proxy=proxy)
    transport = HttpTransport(endpoint, StaticCredentials(token=token, certificate=certificate))
    try:
        yield transport
    finally:
        await transport.close()


@pytest.fixture
def trust(authority: Authority) -> Trust:
    """Trust in the authority."""
    return Trust(ca_file=authority.ca_file)


async def test_a_request_and_its_answer(served: Certificate, trust: Trust) -> None:
    """Path, query, headers and body go there and back; connection headers are added."""
    handler = Scripted(body=b"\x00\xff" * 100_000)
    async with listening(handler, certificate=served) as port, connected(port, trust) as transport:
        response = await transport.send(Request(method="POST", path="/x", query=HELLO.query, body=b"data"))

    (seen,) = handler.seen
    assert (seen.method, seen.path, seen.query, seen.body) == ("POST", "/x", HELLO.query, b"data")
    assert seen.header("authorization") == "Bearer t"
    assert seen.header("user-agent").startswith("karpenter/")
    assert (response.status, response.header("x-served"), response.body) == (200, "yes", handler.body)


async def test_paths_are_sent_as_they_are(served: Certificate, trust: Trust) -> None:
    """What is percent-encoded stays so; a server under a path gets the whole path."""
    handler = Scripted()
    async with listening(handler, certificate=served) as port:
        endpoint = Endpoint(server=f"{port.url}/clusters/c-1/", trust=trust)
        transport = HttpTransport(endpoint, StaticCredentials())
        await transport.send(HELLO)
        await transport.close()

    assert handler.seen[0].path == "/clusters/c-1/hello%20world"
    assert handler.seen[0].header("accept") == "x/y"
    assert handler.seen[0].header("authorization", "none") == "none"


async def test_plain_http(trust: Trust) -> None:
    """A server without TLS, such as kubectl proxy, works too."""
    async with listening(Scripted()) as port, connected(port, trust) as transport:
        assert (await transport.send(HELLO)).body == b"hi"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param((b"one", b"two", b"three"), id="short lines"),
        pytest.param((b"x" * 3_000_000, b"y"), id="a line longer than any buffer"),
        pytest.param(tuple(b"%d" % number for number in range(5000)), id="many lines"),
    ],
)
async def test_a_stream_comes_in_lines(served: Certificate, trust: Trust, lines: tuple[bytes, ...]) -> None:
    """However the bytes are cut on the way, each line comes whole."""
    async with (
        listening(Scripted(*lines), certificate=served) as port,
        connected(port, trust) as transport,
        transport.stream(WATCH) as answer,
    ):
        assert isinstance(answer, Streaming)
        assert tuple([await anext(answer.lines) for _ in lines]) == lines


async def test_leaving_a_stream_tells_the_server(served: Certificate, trust: Trust) -> None:
    """The server's side ends when nobody listens."""
    handler = Scripted(b"one")
    async with listening(handler, certificate=served) as port, connected(port, trust) as transport:
        async with transport.stream(WATCH) as answer:
            assert isinstance(answer, Streaming)
            await anext(answer.lines)
            assert port.open == 1
        async with asyncio.timeout(5):
            await handler.closed.wait()


async def test_a_stream_that_breaks_off(served: Certificate, trust: Trust) -> None:
    """A connection that dies in the middle is an error, not the end of the watch."""
    async with (
        listening(Scripted(b"one", b"BREAK"), certificate=served) as port,
        connected(port, trust) as transport,
        transport.stream(WATCH) as answer,
    ):
        assert isinstance(answer, Streaming)
        assert await anext(answer.lines) == b"one"
        with pytest.raises(Unreachable, match="the watch broke off"):
            await anext(answer.lines)


async def test_a_stream_may_be_refused(served: Certificate, trust: Trust) -> None:
    """A refusal is handed over with its body."""
    async with listening(Toy(), certificate=served) as port, connected(port, trust) as transport:
        request = Request(method="GET", path="/api/v1/nodes/n1")
        async with transport.stream(request) as answer:
            assert isinstance(answer, Response)
            assert answer.status == 404
            assert b"not found" in answer.body


async def test_nobody_is_there(trust: Trust) -> None:
    """A refused connection was never sent, so anything may be tried again."""
    async with listening(Scripted()) as port:
        gone = port.url
    port.url = gone
    async with connected(port, trust) as transport:
        with pytest.raises(
            Unreachable, match=r"cannot connect to [a-z0-9.]+:\d+: Connection refused$"
        ) as caught:
            await transport.send(HELLO)

    assert not caught.value.sent


async def test_a_connection_that_ends_without_an_answer() -> None:
    """A request that was sent and not answered may have been carried out."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        endpoint = Endpoint(server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        transport = HttpTransport(endpoint, StaticCredentials())
        with pytest.raises(Unreachable, match="ServerDisconnected") as caught:
            await transport.send(Request(method="POST", path="/"))
        await transport.close()

    assert caught.value.sent


async def test_an_answer_that_breaks_off() -> None:
    """Half an answer is none."""

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(half, "127.0.0.1", 0)
    async with server:
        endpoint = Endpoint(server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        transport = HttpTransport(endpoint, StaticCredentials())
        with pytest.raises(Unreachable, match="the answer broke off"):
            await transport.send(HELLO)
        await transport.close()


async def test_a_last_line_without_its_end() -> None:
    """A stream that ends in the middle of nothing gives what it has."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\none\ntwo")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        endpoint = Endpoint(server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        transport = HttpTransport(endpoint, StaticCredentials())
        async with transport.stream(WATCH) as answer:
            assert isinstance(answer, Streaming)
            assert [line async for line in answer.lines] == [b"one", b"two"]
        await transport.close()


@pytest.mark.parametrize(
    ("make", "works"),
    [
        pytest.param(lambda ca: Trust(ca_file=ca), True, id="by its address"),
        pytest.param(lambda ca: Trust(ca_file=ca, server_name="api.example.com"), True, id="by another name"),
        pytest.param(
            lambda ca: Trust(ca_file=ca, server_name="evil.example.com"), False, id="not by a wrong name"
        ),
        pytest.param(lambda _: Trust(), False, id="not without its authority"),
        pytest.param(
            lambda _: Trust(verify=False), True, id="without a check, if that is what the user says"
        ),
    ],
)
async def test_trust(
    served: Certificate, authority: Authority, make: Callable[[str], Trust], works: bool
) -> None:
    """The server must prove who it is, as the kubeconfig says."""
    trust = make(authority.ca_file)
    async with listening(Scripted(), certificate=served) as port, connected(port, trust) as transport:
        if works:
            assert (await transport.send(HELLO)).status == 200
        else:
            with pytest.raises(Unreachable, match="cannot connect") as caught:
                await transport.send(HELLO)
            assert not caught.value.sent


async def test_certificates_that_are_not_there(served: Certificate) -> None:
    """A missing file is named, and nothing was sent."""
    trust = Trust(ca_file="nowhere.crt")
    async with listening(Scripted(), certificate=served) as port, connected(port, trust) as transport:
        with pytest.raises(Unreachable, match=r"certificates.*nowhere\.crt") as caught:
            await transport.send(HELLO)

    assert not caught.value.sent


async def test_a_client_certificate_is_shown(served: Certificate, authority: Authority, trust: Trust) -> None:
    """The server learns who we are from the certificate."""
    mine = authority.issue("karpenter")
    async with (
        listening(Scripted(), certificate=served, ca_file=authority.ca_file) as port,
        connected(port, trust, certificate=mine, token="") as transport,
    ):
        await transport.send(HELLO)

    assert port.clients == ["karpenter"]


async def test_through_a_proxy(served: Certificate, trust: Trust) -> None:
    """The proxy only sees where to; TLS is between us and the server."""
    seen: list[str] = []
    async with (
        listening(Scripted(), certificate=served) as port,
        proxying(seen) as proxy,
        connected(port, trust, proxy=proxy) as transport,
    ):
        response = await transport.send(HELLO)

    assert (response.status, seen) == (200, [port.url.removeprefix("https://")])


async def test_a_closed_transport_sends_nothing(trust: Trust) -> None:
    """Closing is final, also for a transport that was never used."""
    transport = HttpTransport(Endpoint(server="https://127.0.0.1:1", trust=trust), StaticCredentials())
    await transport.close()

    with pytest.raises(Unreachable, match="closed"):
        await transport.send(HELLO)


class Changing:
    """Credentials of which the first is stale."""

    certificate = None

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.refused: list[Pairs] = []

    async def headers(self) -> Pairs:
        return (("authorization", self.tokens[0]),)

    async def renew(self, refused: Pairs) -> bool:
        """Go on to the next token, if there is one."""
        self.refused.append(refused)
        if len(self.tokens) == 1:
            return False
        self.tokens.pop(0)
        return True


async def test_a_refused_token_is_renewed_once(served: Certificate, trust: Trust) -> None:
    """After a 401 the request is sent once more with new credentials, and its body with it."""
    handler = Scripted()
    credentials = Changing("old", "new")
    async with listening(handler, certificate=served) as port:
        port.accepted = {"new"}
        transport = HttpTransport(Endpoint(server=port.url, trust=trust), credentials)
        response = await transport.send(Request(method="POST", path="/x", body=b"data"))
        async with transport.stream(WATCH) as answer:
            assert isinstance(answer, Streaming)
        await transport.close()

    assert (response.status, credentials.refused) == (200, [(("authorization", "old"),)])
    assert handler.seen[0].body == b"data"


async def test_a_token_that_stays_refused(served: Certificate, trust: Trust, chance: Random) -> None:
    """Without other credentials, the refusal is the answer."""
    async with listening(Scripted(), certificate=served) as port:
        port.accepted = set()
        transport = HttpTransport(Endpoint(server=port.url, trust=trust), Changing("old"))
        client = Client(transport, chance=chance)
        with pytest.raises(Unauthorized):
            await client.get(Node, "n1")
        await client.close()

    assert len(port.headers) == 1


async def test_client_and_informer_over_the_wire(served: Certificate, trust: Trust, chance: Random) -> None:
    """What works in process works over TLS: the layers above cannot tell."""
    toy = Toy()
    toy.put("nodes", "n1")
    async with listening(toy, certificate=served) as port, connected(port, trust) as transport:
        client = Client(transport, chance=chance)
        informer = Informer(client, Node, chance=chance)
        told = asyncio.Event()
        task = asyncio.create_task(informer.run())
        async with asyncio.timeout(10):
            await informer.wait_synced()
            informer.subscribe(lambda event: told.set() if event.key == "n2" else None)
            await client.create(Node, {"metadata": {"name": "n2"}})
            await told.wait()
        with pytest.raises(NotFound):
            await client.get(Node, "n3")
        task.cancel()
        await asyncio.wait([task])

    assert [node.name for node in informer.store] == ["n1", "n2"]


def test_a_context_is_made_once_and_again_when_its_files_change(authority: Authority, trust: Trust) -> None:
    """New connections use the certificates as they are, looked at once a minute."""
    mine = authority.issue("rotating")
    tls = Tls(trust)

    first = tls.context(mine, now=0)
    assert tls.context(mine, now=RECHECK_SECONDS + 1) is first

    authority.issue("rotating")
    os.utime(mine.cert_file, ns=(1, 1))
    assert tls.context(mine, now=RECHECK_SECONDS + 2) is first
    second = tls.context(mine, now=2 * RECHECK_SECONDS + 2)
    assert second is not first
    assert tls.context(None, now=2 * RECHECK_SECONDS + 3) is not second


def test_a_certificate_of_another_key(authority: Authority, tmp_path: Path) -> None:
    """A certificate that does not fit its key is refused when the context is made."""
    mine = authority.issue("mine")
    wrong = tmp_path / "wrong.key"
    wrong.write_text("no key")

    with pytest.raises(OSError, match="PEM"):
        Tls(Trust()).context(Certificate(mine.cert_file, str(wrong)), now=0)


def test_the_certificates_that_we_trust(tmp_path: Path) -> None:
    """They can be told to others, byte by byte in base64; there are none where the machine's count."""
    file = tmp_path / "ca.crt"
    file.write_bytes(b"-----BEGIN CERTIFICATE-----\n")

    assert base64.b64decode(Trust(ca_file=str(file)).bundle()) == file.read_bytes()
    assert Trust().bundle() == ""
