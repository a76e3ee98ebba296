"""
HTTP servers of the operator: probes on one port, metrics on another.

``/healthz`` answers while the process runs. ``/readyz`` also needs an API server that serves NodePools and
NodeClaims and, on the leader, a complete cluster state. Metrics are written piece by piece, so that a
scrape of a large cluster does not block the event loop. Connections are bounded, in number and in time.

aiohttp waits for a request as long as the other side likes, so that a few slow clients could hold every file
descriptor of the operator. A connection is closed when its request does not arrive in time, when it is idle
for too long, and when an answer is not read. When there are too many, the one that has waited longest
without a request goes; while all are being answered, a new one is refused.
"""

from __future__ import annotations

import asyncio
import cProfile
import io
import logging
import math
import pstats
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from karpenter.telemetry.metrics import CONTENT_TYPE, Metrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a server allows; times are in seconds."""

    connections: int = 64
    request: float = 10.0
    """From the first byte of a request, or the opening of a connection, to the end of its headers."""

    idle: float = 120.0
    """Between two requests; Prometheus keeps its connection for a scrape every minute."""

    answer: float = 120.0
    """From the end of the headers to the end of the answer; a profile takes up to a minute."""


DEFAULT_LIMITS: Final = ConnectionLimits()


class BoundedConnections:
    """The connections of one server."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._held: dict[asyncio.BaseTransport, _BoundedConnection] = {}

    def protocol(self, inner: asyncio.Protocol) -> asyncio.Protocol:
        """Return a protocol that passes everything on to `inner`, within the limits."""
        return _BoundedConnection(inner, self._limits, self._held)

    @web.middleware
    async def middleware(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Note when a request begins and ends."""
        held = self._held.get(request.transport) if request.transport is not None else None
        if held is None:
            return await handler(request)
        held.answering()
        try:
            return await handler(request)
        finally:
            held.answered()


class _BoundedConnection(asyncio.Protocol):
    """One connection, and the time at which it is closed."""

    def __init__(
        self,
        inner: asyncio.Protocol,
        limits: ConnectionLimits,
        held: dict[asyncio.BaseTransport, _BoundedConnection],
    ) -> None:
        self._inner = inner
        self._limits = limits
        self._held = held
        self._transport: Any = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_idle = False
        self.is_answering = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request, unless there are too many connections."""
        self._transport = transport
        self._inner.connection_made(transport)
        if len(self._held) >= self._limits.connections:
            waiting = (each for each in self._held.values() if not each.is_answering)
            next(waiting, self).abort()
        if not self._transport.is_closing():
            self._held[transport] = self
            self._close_in(self._limits.request)

    def data_received(self, data: bytes) -> None:
        """Pass on; the first bytes after a pause begin a request."""
        if self._is_idle:
            self._is_idle = False
            self._close_in(self._limits.request)
        self._inner.data_received(data)

    def answering(self) -> None:
        self.is_answering = True
        self._close_in(self._limits.answer)

    def answered(self) -> None:
        """Note that the answer is written, or about to be."""
        self.is_answering = False
        self._is_idle = True
        if self._held.pop(self._transport, None) is not None:
            # In the order of the last request, so that the first is the one that waits longest.
            self._held[self._transport] = self
            self._close_in(self._limits.idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self._inner.connection_lost(exc)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def _close_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)

    def abort(self) -> None:
        self._transport.abort()
        self._forget()

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._held.pop(self._transport, None)


log = structlog.stdlib.get_logger(__name__)

_requests: Final = logging.getLogger(f"{__name__}.requests")
_requests.addFilter(
    # What is no request is answered with 400. Each would be logged with a traceback.
    lambda record: not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))
)

_PIECES_PER_TURN: Final = 50
"""Pieces of metrics after which other tasks get a turn."""

_MAX_PROFILE_SECONDS: Final = 60.0
_SHOWN_FUNCTIONS: Final = 60


class PortTaken(RuntimeError):  # noqa: N818  says what is wrong
    """A port that the settings name cannot be listened on."""

    def __init__(self, port: int, what: str, because: str) -> None:
        super().__init__(f"cannot serve {what} on port {port}: {because}")


class Endpoints:
    """The two servers."""

    def __init__(
        self,
        *,
        ready: Callable[[], Awaitable[str]],
        metrics: Callable[[], Metrics],
        health_port: int,
        metrics_port: int,
        profiling: bool = False,
        host: str | None = None,
        limits: ConnectionLimits = DEFAULT_LIMITS,
    ) -> None:
        """`ready` returns what is missing, or nothing; without a `host`, every address is listened on."""
        self._ready = ready
        self._metrics = metrics
        self._wanted = {"probes": health_port, "metrics": metrics_port}
        self._profiling = profiling
        self._host = host
        self._limits = limits
        self._profiles = 0
        self._runners: list[web.AppRunner] = []
        self._servers: list[asyncio.Server] = []
        self.ports: dict[str, int] = {}
        """Where each server listens."""

    async def start(self) -> None:
        """
        Begin to serve.

        Raises:
            PortTaken: another process listens on the port.
        """
        bounded = {what: BoundedConnections(self._limits) for what in self._wanted}
        probes, metrics = (web.Application(middlewares=[each.middleware]) for each in bounded.values())
        probes.router.add_get("/healthz", self._healthz)
        probes.router.add_get("/readyz", self._readyz)
        metrics.router.add_get("/metrics", self._scrape)
        if self._profiling:
            metrics.router.add_get("/debug/pprof/profile", self._profile)
        for what, app in (("probes", probes), ("metrics", metrics)):
            await self._serve(what, app, bounded[what])

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()
        for runner in self._runners:
            await runner.cleanup()
        self._runners.clear()

    async def _serve(self, what: str, app: web.Application, bounded: BoundedConnections) -> None:
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, logger=_requests)
        await runner.setup()
        self._runners.append(runner)
        port = self._wanted[what]
        handler = runner.server
        assert handler is not None
        try:
            server = await asyncio.get_running_loop().create_server(
                lambda: bounded.protocol(handler()), self._host, port
            )
        except OSError as error:
            await self.stop()
            raise PortTaken(port, what, error.strerror or str(error)) from error
        self._servers.append(server)
        self.ports[what] = server.sockets[0].getsockname()[1]
        log.info("endpoint.opened", serves=what, port=self.ports[what])

    async def _healthz(self, request: web.Request) -> web.Response:
        del request
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        del request
        missing = await self._ready()
        return web.Response(text=f"{missing or 'ok'}\n", status=503 if missing else 200)

    async def _scrape(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": CONTENT_TYPE})
        await response.prepare(request)
        pieces: list[str] = []
        for number, piece in enumerate(self._metrics().parts(), start=1):
            pieces.append(piece)
            if number % _PIECES_PER_TURN == 0:
                await response.write("".join(pieces).encode())
                pieces.clear()
                await asyncio.sleep(0)
        await response.write("".join(pieces).encode())
        await response.write_eof()
        return response

    async def _profile(self, request: web.Request) -> web.Response:
        """Tell which functions of the loop's thread take the time."""
        try:
            seconds = float(request.query.get("seconds", "5"))
        except ValueError:
            seconds = math.nan
        if not math.isfinite(seconds):
            return web.Response(text="seconds is not a number\n", status=400)
        if self._profiles:
            return web.Response(text="another profile is being taken\n", status=409)
        self._profiles += 1
        profile = cProfile.Profile()
        profile.enable()
        try:
            await asyncio.sleep(min(max(seconds, 0.0), _MAX_PROFILE_SECONDS))
        finally:
            profile.disable()
            self._profiles -= 1
        text = io.StringIO()
        pstats.Stats(profile, stream=text).sort_stats("cumulative").print_stats(_SHOWN_FUNCTIONS)
        return web.Response(text=text.getvalue())
