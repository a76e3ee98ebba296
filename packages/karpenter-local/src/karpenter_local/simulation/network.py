"""
The transport between an operator and its API server, on which everything can go wrong.

Requests are refused, turned away, answered with errors, never answered, or carried out with the answer lost.
Watches are cut, held back, or send events twice. And the transport can be severed for good in the middle of a
call, before it was carried out or after: the death of a process, as the rest of the cluster sees it.

What goes wrong when is decided elsewhere; here it only happens. A listener hears of every write that was
carried out.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from karpenter.kube.errors import Unreachable
from karpenter.kube.rest import Response, Streaming
from karpenter_local.sandbox.operators import never

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from karpenter.kube.rest import Request, Transport

    OnWrite = Callable[[Request, Response], None]

CallFault = Literal["conflict", "busy", "error", "lost", "unreachable", "silent", "deaf"]
"""409, 429, 500, 500 though it was done, no connection, no answer ever, no answer ever though it was done."""

_THERE: Final = (0.0005, 0.01)
"""Seconds that a request takes to the server, and its answer back: others get in between."""

_UNTOUCHED: Final = frozenset({"conflict", "busy", "error", "silent"})
"""Faults of requests that never reach the server."""

_STATUS = {"conflict": (409, "Conflict"), "busy": (429, "TooManyRequests"), "error": (500, "InternalError")}
_STATUS["lost"] = _STATUS["error"]


class CallFaults(msgspec.Struct, kw_only=True):
    """What goes wrong with calls at the moment."""

    share: float
    """How many of all calls go wrong, from 0 to 1."""

    kinds: tuple[CallFault, ...]
    chance: Random


class FaultyTransport:
    """A transport that fails as it is told."""

    def __init__(self, inner: Transport, *, chance: Random, on_write: OnWrite) -> None:
        self._inner = inner
        self._chance = chance
        self._on_write = on_write
        self.faults: CallFaults | None = None
        self.repeats: Random | None = None
        """If given, watches send some events twice."""

        self._held_until: dict[str, float] = {}
        self._waiting: dict[asyncio.Timeout, None] = {}
        """The waits for a line, in order: a set would have another order in every process."""

        self._severed = False
        self._countdown = 0
        self._carried_out = False
        self._dies: Callable[[], None] | None = None

    def hold(self, plurals: tuple[str, ...], until: float) -> None:
        """Let watches of these kinds send nothing before a moment."""
        for plural in plurals:
            self._held_until[plural] = until

    def cut(self) -> None:
        """Break every watch that is open."""
        now = asyncio.get_running_loop().time()
        for each in tuple(self._waiting):
            each.reschedule(now)

    def sever_at(self, calls: int, *, carried_out: bool, then: Callable[[], None]) -> None:
        """Carry nothing from the so-manieth write on; that one is carried out or not, but never answered."""
        self._countdown, self._carried_out, self._dies = calls, carried_out, then

    def recover(self) -> None:
        """End every fault."""
        self.faults = self.repeats = self._dies = None
        self._countdown = 0
        self._held_until.clear()

    def sever(self) -> None:
        """Carry nothing from now on."""
        self._severed = True
        self._countdown = 0
        if self._dies is not None:
            self._dies()
            self._dies = None

    def count(self) -> Literal["", "before", "after"]:
        """Count a call that changes something; say if it is the last, and which side of it is cut off."""
        if not self._countdown:
            return ""
        self._countdown -= 1
        if self._countdown:
            return ""
        self.sever()
        return "after" if self._carried_out else "before"

    async def send(self, request: Request) -> Response:
        """Carry a request, or not."""
        if self._severed:
            await never()
        if request.method != "GET" and (end := self.count()):
            if end == "after":
                await self._deliver(request)
            await never()
        kind = self._fault()
        if kind == "unreachable":
            raise Unreachable("the connection was refused", request=request, sent=False)
        if kind in _UNTOUCHED:
            return await self._refuse(kind)
        response = await self._deliver(request)
        return response if kind is None else await self._refuse(kind)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response | Streaming]:
        """Open a watch."""
        if self._severed:
            await never()
        if self._fault() is not None:
            raise Unreachable("the connection was refused", request=request, sent=False)
        async with self._inner.stream(request) as answer:
            if not isinstance(answer, Streaming):
                yield answer
                return
            lines = self._lines(answer.lines, request)
            try:
                yield msgspec.structs.replace(answer, lines=lines)
            finally:
                await lines.aclose()

    async def close(self) -> None:
        """Let go."""
        await self._inner.close()

    def _fault(self) -> CallFault | None:
        faults = self.faults
        if faults is None or faults.chance.random() >= faults.share:
            return None
        return faults.chance.choice(faults.kinds)

    async def _refuse(self, kind: str) -> Response:
        if kind in {"silent", "deaf"}:
            await never()
        return _refusal(kind)

    async def _deliver(self, request: Request) -> Response:
        await asyncio.sleep(self._chance.uniform(*_THERE))
        response = await self._inner.send(request)
        if request.method != "GET":
            self._on_write(request, response)
        await asyncio.sleep(self._chance.uniform(*_THERE))
        return response

    async def _lines(
        self, lines: AsyncGenerator[bytes, None], request: Request
    ) -> AsyncGenerator[bytes, None]:
        plural, loop = request.path.rpartition("/")[2], asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout(None) as waiting:
                    self._waiting[waiting] = None
                    line = await anext(lines)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise Unreachable("the connection was lost", request=request, sent=True) from None
            finally:
                self._waiting.pop(waiting, None)
            if self._severed:
                await never()
            if plural in self._held_until:
                await asyncio.sleep(self._held_until[plural] - loop.time())
            yield line
            if self.repeats is not None and self.repeats.random() < 0.5:  # noqa: PLR2004  every other line
                yield line


def _refusal(kind: str) -> Response:
    code, reason = _STATUS[kind]
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": "the simulation says no",
        "reason": reason,
        "code": code,
    }
    headers = [("content-type", "application/json")]
    if kind == "busy":
        headers.append(("retry-after", "1"))
    return Response(status=code, headers=tuple(headers), body=msgspec.json.encode(status))
