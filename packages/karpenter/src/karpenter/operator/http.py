"""
HTTP servers of the operator: probes on one port, metrics on another.

``/healthz`` answers while the process runs. ``/readyz`` also needs an API server that serves NodePools and
NodeClaims and, on the leader, a complete cluster state. Metrics are written piece by piece, so that a
scrape of a large cluster does not block the event loop. Connections are bounded, in number and in time.
"""

from __future__ import annotations

import asyncio
import cProfile
import io
import math
import pstats
from typing import TYPE_CHECKING, Final

import structlog
from aiohttp import web

from karpenter.operator.connections import DEFAULT_LIMITS, BoundedConnections
from karpenter.telemetry.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from karpenter.operator.connections import ConnectionLimits
    from karpenter.telemetry.metrics import Metrics

log = structlog.stdlib.get_logger(__name__)

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
        """Serve no more."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for runner in self._runners:
            await runner.cleanup()
        self._runners.clear()

    async def _serve(self, what: str, app: web.Application, bounded: BoundedConnections) -> None:
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
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
