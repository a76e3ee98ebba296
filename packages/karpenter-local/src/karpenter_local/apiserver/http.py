"""
The server on a port: TLS on loopback, a bearer token, and nothing else between sockets and
:class:`.server.Server`.

Watch events that are ready together are written together. A client that stops reading is dropped after a
while; until then it costs one blocked task and no memory.
"""

from __future__ import annotations

import asyncio
import gzip
import hmac
import secrets
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

from aiohttp import web

from karpenter.kube.transport import Pairs, Request, Response
from karpenter_local.apiserver import errors
from karpenter_local.apiserver.authorization import AUTHENTICATED
from karpenter_local.apiserver.presenting import refuse
from karpenter_local.apiserver.verbs.logs import FollowedLog
from karpenter_local.apiserver.verbs.watching import Watch
from karpenter_local.certificates import ServerCertificates, server_certificates

if TYPE_CHECKING:
    from karpenter_local.apiserver.server import Server

HOST = "127.0.0.1"
_KEPT_HEADERS = ("accept", "content-type", "user-agent", "impersonate-user")
# kube-apiserver compresses responses from 128 KiB on:
# https://kubernetes.io/docs/reference/using-api/api-concepts/
_COMPRESS_FROM_BYTES = 128 * 1024
"""Bytes from which on a body is compressed for clients that can unpack it."""

_STUCK_WRITE_SECONDS = 60.0
"""Seconds for which a write may wait for a client that does not read."""

_SECONDS_BETWEEN_WRITES = 0.02
"""Seconds from one write of a stream to the next; the first after a pause is not delayed."""

_EVENTS_PER_WRITE = 64
"""Events that are worth a write of their own at once."""

_SHUTDOWN_SECONDS = 0.5
"""Seconds for which the shutdown waits for active requests. Watches never end by themselves."""


class SecureServer:
    """Listens, authenticates, and hands over."""

    def __init__(
        self, server: Server, *, token: str | None = None, certificates: ServerCertificates | None = None
    ) -> None:
        self.server = server
        self.token = token or secrets.token_urlsafe(32)
        self.certificates = certificates or server_certificates()
        self.url = ""
        self._runner: web.ServerRunner | None = None

    async def start(self, port: int = 0) -> str:
        """Begin to listen on loopback; return the URL."""
        low_level = web.Server(self._serve, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(low_level, handle_signals=False, shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, port, ssl_context=_context(self.certificates), backlog=1024)
        await site.start()
        bound = self._runner.addresses[0]
        self.url = f"https://{HOST}:{bound[1]}"
        return self.url

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _serve(self, incoming: web.BaseRequest) -> web.StreamResponse:
        client = self._client(incoming.headers.get("authorization", ""))
        if client is None:
            return _answer(refuse(errors.unauthorized()))
        body = await _read(incoming)
        if body is None:
            return _answer(refuse(errors.too_large()))
        headers = [(key, incoming.headers[key]) for key in _KEPT_HEADERS if key in incoming.headers]
        headers += [
            ("impersonate-group", group) for group in incoming.headers.getall("impersonate-group", ())
        ]
        if client:
            headers.append((AUTHENTICATED, client))
        request = Request(
            method=incoming.method,
            path=incoming.rel_url.raw_path,
            query=_query(incoming.rel_url.raw_query_string),
            headers=tuple(headers),
            body=body,
        )
        answer = await self.server.answer(request)
        if isinstance(answer, Watch | FollowedLog):
            return await _stream(incoming, answer)
        outgoing = _answer(answer)
        if len(answer.body) > _COMPRESS_FROM_BYTES and "gzip" in incoming.headers.get("accept-encoding", ""):
            outgoing.body = await asyncio.to_thread(gzip.compress, answer.body, 1, mtime=0)
            outgoing.headers["content-encoding"] = "gzip"
        return outgoing

    def _client(self, header: str) -> str | None:
        """Return the service account that a client is, nothing for the administrator, and None for others."""
        scheme, _, given = header.partition(" ")
        given = given.strip()
        if scheme.lower() != "bearer":
            return None
        if hmac.compare_digest(given.encode(), self.token.encode()):
            return ""
        backend = self.server.backend
        user = backend.tokens.user(given, now=backend.clock.now())
        return user.name if user is not None else None


def _query(text: str) -> Pairs:
    if not text:
        return ()
    pairs = (item.partition("=") for item in text.split("&") if item)
    return tuple((unquote_plus(key), unquote_plus(value)) for key, _, value in pairs)


async def _read(incoming: web.BaseRequest) -> bytes | None:
    """Return the body, or None when it is larger than any may be."""
    if not incoming.body_exists:
        return b""
    if (incoming.content_length or 0) > errors.MAX_BODY:
        return None
    body = bytearray()
    async for chunk in incoming.content.iter_any():
        body += chunk
        if len(body) > errors.MAX_BODY:
            return None
    return bytes(body)


def _answer(response: Response) -> web.Response:
    outgoing = web.Response(status=response.status, body=response.body)
    for key, value in response.headers:
        outgoing.headers.add(key, value)
    return outgoing


async def _stream(incoming: web.BaseRequest, stream: Watch | FollowedLog) -> web.StreamResponse:
    outgoing = web.StreamResponse(headers={"content-type": stream.content_type})
    outgoing.enable_chunked_encoding()
    await outgoing.prepare(incoming)
    batches = stream.batches()
    loop = asyncio.get_running_loop()
    try:
        async for batch in batches:
            began = loop.time()
            async with asyncio.timeout(_STUCK_WRITE_SECONDS):
                await outgoing.write(b"\n".join((*batch, b"")))
            # What happens meanwhile is written together: a write costs both ends as much as several events.
            if len(batch) < _EVENTS_PER_WRITE:
                await asyncio.sleep(max(0.0, began + _SECONDS_BETWEEN_WRITES - loop.time()))
        await outgoing.write_eof()
    except (ConnectionError, TimeoutError):
        outgoing.force_close()
        if incoming.transport is not None:
            incoming.transport.abort()
    finally:
        await batches.aclose()
    return outgoing


def _context(certificates: ServerCertificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory() as folder:
        chain, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
        chain.write_bytes(certificates.certificate)
        key.write_bytes(certificates.key)
        context.load_cert_chain(chain, key)
    return context
