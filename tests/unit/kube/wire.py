"""A handler on a real port with TLS, and a proxy in front of it; both remember whom they met."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from karpenter.kube.http import Certificate
from karpenter.kube.transport import Handler, Request, Response, Streaming


class Port:
    """What a server saw of its clients."""

    def __init__(self) -> None:
        self.url = ""
        self.headers: list[dict[str, str]] = []
        self.clients: list[str] = []
        self.open = 0
        self.accepted: set[str] | None = None
        """The authorization headers that are good; None for all."""


@asynccontextmanager
async def listening(
    handler: Handler, *, certificate: Certificate | None = None, ca_file: str = ""
) -> AsyncIterator[Port]:
    """Serve `handler` on loopback, with TLS if there is a certificate."""
    port = Port()

    async def serve(incoming: web.BaseRequest) -> web.StreamResponse:
        port.headers.append({name.lower(): value for name, value in incoming.headers.items()})
        port.clients.append(_client(incoming))
        if port.accepted is not None and incoming.headers.get("authorization") not in port.accepted:
            return web.json_response({"kind": "Status", "code": 401, "reason": "Unauthorized"}, status=401)
        answer = await handler.handle(
            Request(
                method=incoming.method,
                path=incoming.rel_url.raw_path,
                query=tuple(incoming.rel_url.query.items()),
                headers=tuple((name.lower(), value) for name, value in incoming.headers.items()),
                body=await incoming.read(),
            )
        )
        if isinstance(answer, Response):
            return web.Response(status=answer.status, body=answer.body, headers=dict(answer.headers))
        return await _stream(incoming, answer, port)

    runner = web.ServerRunner(
        web.Server(serve, handler_cancellation=True, access_log=None), shutdown_timeout=0.1
    )
    await runner.setup()
    context = _context(certificate, ca_file) if certificate else None
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port.url = f"{'https' if certificate else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield port
    finally:
        await runner.cleanup()


async def _stream(incoming: web.BaseRequest, answer: Streaming, port: Port) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(incoming)
    port.open += 1
    try:
        async for line in answer.lines:
            if line == b"BREAK":
                assert incoming.transport is not None
                incoming.transport.abort()
                break
            await response.write(line + b"\n")
    finally:
        port.open -= 1
        await answer.lines.aclose()
    return response


def _client(incoming: web.BaseRequest) -> str:
    assert incoming.transport is not None
    shown: dict[str, Any] = incoming.transport.get_extra_info("peercert") or {}
    return next(
        (value for part in shown.get("subject", ()) for key, value in part if key == "commonName"), ""
    )


def _context(certificate: Certificate, ca_file: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ca_file or None)
    context.load_cert_chain(certificate.cert_file, certificate.key_file)
    context.verify_mode = ssl.CERT_OPTIONAL if ca_file else ssl.CERT_NONE
    return context


@asynccontextmanager
async def proxying(seen: list[str]) -> AsyncIterator[str]:
    """Run a proxy that only tunnels; `seen` collects what it was asked to connect to."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        where = head.split()[1]
        seen.append(where)
        host, _, number = where.rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(number))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer), return_exceptions=True)
        writer.close()

    server = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()
