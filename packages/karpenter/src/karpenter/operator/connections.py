"""
Bounds the connections of a server: how many there are, and how long each may take.

aiohttp waits for a request as long as the other side likes, so that a few slow clients could hold every file
descriptor of the operator. A connection is closed when its request does not arrive in time, when it is idle
for too long, and when an answer is not read. When there are too many, the one that has waited longest
without a request goes; while all are being answered, a new one is refused.

Knows nothing of requests but when they begin and end.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import web

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
        """Note that a request is complete."""
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
        """Pass on, and forget."""
        self._forget()
        self._inner.connection_lost(exc)

    def eof_received(self) -> bool | None:
        """Pass on."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """Pass on."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass on."""
        self._inner.resume_writing()

    def _close_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()
        self._forget()

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._held.pop(self._transport, None)
