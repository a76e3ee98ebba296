"""
The transport over HTTP: bytes to and from a real API server.

Adds to each request what belongs to the connection (credentials, agent, proxy, TLS) and nothing that belongs
to its meaning. A refusal of the credentials (401) is answered once with renewed ones, if there are any.
Where the server is and who we are comes from :mod:`.kubeconfig`.
"""

import asyncio
import errno
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
import msgspec
import yarl

from karpenter import __version__
from karpenter.kube.credentials import Credentials
from karpenter.kube.errors import Unreachable
from karpenter.kube.tls import Tls, Trust
from karpenter.kube.transport import Pairs, Request, Response, Streaming

UNAUTHORIZED = 401

AGENT: Pairs = (
    ("user-agent", f"karpenter/{__version__}"),
    # Inside a data centre, packing costs both ends more time than it saves on the wire.
    ("accept-encoding", "identity"),
)


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server is, and how to know it."""

    server: str
    """Its URL, which may end in a path under which the whole API lies."""

    trust: Trust = Trust()
    proxy: str = ""


class HttpTransport:
    """Carries requests to one server over pooled connections."""

    def __init__(
        self,
        endpoint: Endpoint,
        credentials: Credentials,
        *,
        connections: int = 64,
        connect_within: float = 10.0,
    ) -> None:
        self.endpoint = endpoint
        self._base = endpoint.server.rstrip("/")
        self.host = urlsplit(self._base).netloc
        self._secure = urlsplit(self._base).scheme == "https"
        self._credentials = credentials
        self._tls = Tls(endpoint.trust)
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_within)
        self._slots = asyncio.Semaphore(connections)  # streams do not count: they stay open for minutes
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def send(self, request: Request) -> Response:
        """Return the server's answer, whatever its status."""
        async with self._slots:
            answer = await self._open(request)
            try:
                return Response(
                    status=answer.status, headers=_headers(answer), body=await _read(answer, request)
                )
            finally:
                answer.release()

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response | Streaming]:
        """Open a watch; leaving closes its connection."""
        answer = await self._open(request)
        try:
            if answer.status != 200:  # noqa: PLR2004  OK
                body = await _read(answer, request)
                yield Response(status=answer.status, headers=_headers(answer), body=body)
            else:
                lines = _lines(answer, request)
                try:
                    yield Streaming(lines=lines, headers=_headers(answer))
                finally:
                    await lines.aclose()
        finally:
            answer.close()

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    async def _open(self, request: Request) -> aiohttp.ClientResponse:
        shown = await self._credentials.headers()
        answer = await self._open_with(request, shown)
        if answer.status == UNAUTHORIZED and await self._credentials.renew(shown):
            answer.release()
            answer = await self._open_with(request, await self._credentials.headers())
        return answer

    async def _open_with(self, request: Request, shown: Pairs) -> aiohttp.ClientResponse:
        if self._closed:
            raise Unreachable("the transport is closed", request=request, sent=False)
        try:
            context = self._context()
        except OSError as error:
            raise Unreachable(f"cannot use its certificates: {error}", request=request, sent=False) from error
        try:
            return await self._connected().request(
                request.method,
                self._url(request),
                headers=(*AGENT, *request.headers, *shown),
                data=request.body or None,
                ssl=context,
                server_hostname=self._server_name(),
                proxy=self.endpoint.proxy or None,
                allow_redirects=False,
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise Unreachable(f"cannot connect{_nobody(error)}", request=request, sent=False) from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(_why(error), request=request) from error

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60), timeout=self._timeout
            )
        return self._session

    def _context(self) -> ssl.SSLContext | bool:
        if not self._secure:
            return False
        return self._tls.context(self._credentials.certificate, now=asyncio.get_running_loop().time())

    def _server_name(self) -> str | None:
        return self.endpoint.trust.server_name or None if self._secure else None

    def _url(self, request: Request) -> yarl.URL:
        query = urlencode(request.query, quote_via=quote)
        return yarl.URL(f"{self._base}{request.path}{'?' if query else ''}{query}", encoded=True)


def _headers(answer: aiohttp.ClientResponse) -> Pairs:
    return tuple((name.lower(), value) for name, value in answer.headers.items())


def _nobody(error: aiohttp.ClientError | TimeoutError) -> str:
    """Return where nobody answered, and why, in the words of the system; certificates have their own."""
    if not isinstance(error, aiohttp.ClientConnectorError) or isinstance(error.os_error, ssl.SSLError):
        return f": {error}"
    system = error.os_error
    number = system.errno or 0
    why = os.strerror(number) if number in errno.errorcode else system.strerror or system
    return f" to {error.host}:{error.port}: {why}"


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


async def _read(answer: aiohttp.ClientResponse, request: Request) -> bytes:
    try:
        return await answer.read()
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(f"the answer broke off: {_why(error)}", request=request) from error


async def _lines(answer: aiohttp.ClientResponse, request: Request) -> AsyncGenerator[bytes, None]:
    """Split what comes at line breaks; a line may be as long as an object is large."""
    rest: list[bytes] = []
    try:
        async for chunk in answer.content.iter_any():
            first, *others = chunk.split(b"\n")
            rest.append(first)
            for line in others:
                yield b"".join(rest)
                rest = [line]
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(f"the watch broke off: {_why(error)}", request=request) from error
    if any(rest):
        yield b"".join(rest)
