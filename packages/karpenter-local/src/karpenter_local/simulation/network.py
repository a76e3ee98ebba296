"""
The transport between an operator and its API server, on which everything can go wrong.

Requests are refused, turned away, answered with errors, never answered, or carried out with the answer lost.
Watches are cut, held back, or send events twice. A server that was started again from an older history lists
objects to informers as they were a while ago. A replica can be cut off for a while: requests are not
answered, and fail afterwards. And the transport can be severed for good in the middle of a call, before it
was carried out or after: the death of a process, as the rest of the cluster sees it.

What goes wrong when is decided elsewhere; here it only happens. A listener hears of every write that was
carried out, :data:`WRITER` names the replica during one, and ``seen`` says up to which revision of each kind
the replica was told of the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from random import Random
from typing import TYPE_CHECKING, Final, Literal

import msgspec
import structlog

from karpenter.kube.errors import Unreachable
from karpenter.kube.transport import Request, Response, Streaming, Transport
from karpenter_local.sandbox.operators import REPLICA, never

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

OnWrite = Callable[[Request, Response], None]

CallFault = Literal["conflict", "busy", "error", "lost", "unreachable", "silent", "deaf"]
"""409, 429, 500, 500 though it was done, no connection, no answer ever, no answer ever though it was done."""

_THERE: Final = (0.0005, 0.01)
"""Seconds that a request takes to the server, and its answer back: others get in between."""

_UNTOUCHED: Final = frozenset({"conflict", "busy", "error", "silent"})
"""Faults of requests that never reach the server."""

WRITER: Final[ContextVar[str]] = ContextVar("writer", default="")
"""The replica whose request the API server carries out; empty if it is another client's."""

LEASES: Final = "/leases"
_SETTLED_SECONDS: Final = 30.0
"""Seconds after calls went wrong until none of them is tried again."""

_STATUS = {"conflict": (409, "Conflict"), "busy": (429, "TooManyRequests"), "error": (500, "InternalError")}
_STATUS["gone"] = (410, "Expired")
_STATUS["lost"] = _STATUS["error"]


class CallFaults(msgspec.Struct, kw_only=True):
    """Faults of calls at the moment."""

    share: float
    """How many of all calls go wrong, from 0 to 1."""

    kinds: tuple[CallFault, ...]
    chance: Random


class _Versioned(msgspec.Struct, frozen=True):
    resource_version: str = msgspec.field(name="resourceVersion", default="")


class _Listed(msgspec.Struct, frozen=True):
    metadata: _Versioned = _Versioned()


class _Line(msgspec.Struct, frozen=True):
    object: _Listed = _Listed()


_read_line: Final = msgspec.json.Decoder(_Line).decode
_read_list: Final = msgspec.json.Decoder(_Listed).decode


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
        self._cuts = 0
        self._lost_until = 0.0
        self._waiting: dict[asyncio.Timeout, None] = {}
        """The waits for a line, in order: a set would have another order in every process."""

        self._severed = False
        self._countdown = 0
        self._carried_out = False
        self._armed_by = b""
        self._dies: Callable[[], None] | None = None
        self.seen: dict[str, int] = {}
        """The revision up to which the replica knows each kind, by plural name."""

        self.caught_up: dict[str, float] = {}
        """When the replica was last told of each kind after a delay."""

        self.began: dict[str, float] = {}
        """When each kind was first listed: what happened before is known from its outcome alone."""

        self._troubled_until = 0.0
        self._alone_until = 0.0
        self._older: dict[str, Response] = {}
        """Lists of a while ago, which answer the next request for each path."""

        self._gone: set[str] = set()
        """Paths whose next watch is told that its history is gone."""

    @property
    def is_troubled(self) -> bool:
        """Whether calls go wrong, or did a moment ago: what arrives now may have been sent long before."""
        return self.faults is not None or asyncio.get_running_loop().time() < self._troubled_until

    def hold(self, plurals: tuple[str, ...], until: float) -> None:
        """Let watches of these kinds send nothing before a moment."""
        for plural in plurals:
            self._held_until[plural] = until

    def lose_evictions(self, until: float) -> None:
        """Let no eviction reach the server before a moment."""
        self._lost_until = until

    def cut(self) -> None:
        """Break every watch that is open; what one of them holds back is lost."""
        self._cuts += 1
        now = asyncio.get_running_loop().time()
        for each in tuple(self._waiting):
            each.reschedule(now)

    def sever_at(
        self, calls: int, *, carried_out: bool, then: Callable[[], None], armed_by: bytes = b""
    ) -> None:
        """
        Carry nothing from the so-manieth write on; that one is carried out or not, but never answered.

        Writes are counted from the first one whose body holds `armed_by`.
        """
        self._countdown, self._carried_out, self._dies = calls, carried_out, then
        self._armed_by = armed_by

    def isolate(self, until: float) -> None:
        """Carry nothing before a moment, and fail what waited for it."""
        self._alone_until = until
        self._troubled_until = until + _SETTLED_SECONDS
        self.cut()

    async def snapshot(self, paths: tuple[str, ...]) -> dict[str, Response]:
        accept = (("accept", "application/json"),)
        found = {
            path: await self._inner.send(Request(method="GET", path=path, headers=accept)) for path in paths
        }
        return {path: response for path, response in found.items() if response.ok}

    def restore(self, older: dict[str, Response]) -> None:
        """Break every watch, and answer the next list of each path with an older one."""
        self._older = dict(older)
        self._gone = set(older)
        self._troubled_until = asyncio.get_running_loop().time() + _SETTLED_SECONDS
        self.cut()

    def recover(self) -> None:
        if self.faults is not None:
            self._troubled_until = asyncio.get_running_loop().time() + _SETTLED_SECONDS
        self.faults = self.repeats = self._dies = None
        self._countdown = 0
        self._alone_until = self._lost_until = 0.0
        self._held_until.clear()
        self._older.clear()
        self._gone.clear()

    def end_faults(self) -> None:
        self.faults = None
        self._troubled_until = asyncio.get_running_loop().time() + _SETTLED_SECONDS

    def sever(self) -> None:
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
        if self._severed:
            await never()
        await self._wait_alone(request)
        if request.method != "GET" and LEASES not in request.path:
            if self._armed_by and self._armed_by in request.body:
                self._armed_by = b""
            if not self._armed_by and (end := self.count()):
                if end == "after":
                    await self._deliver(request)
                await never()
        kind = self._fault()
        if kind == "conflict" and request.method == "GET":
            kind = "error"  # reading never conflicts
        if kind == "unreachable" or self._loses(request):
            raise Unreachable("the connection was refused", request=request, sent=False)
        if kind in _UNTOUCHED:
            return await self._refuse(kind)
        response = await self._deliver(request)
        return response if kind is None else await self._refuse(kind)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response | Streaming]:
        if self._severed:
            await never()
        await self._wait_alone(request)
        if self._fault() is not None:
            raise Unreachable("the connection was refused", request=request, sent=False)
        if request.path in self._gone:
            self._gone.discard(request.path)
            yield _refusal("gone")
            return
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
        await self._inner.close()

    def _fault(self) -> CallFault | None:
        faults = self.faults
        if faults is None or faults.chance.random() >= faults.share:
            return None
        return faults.chance.choice(faults.kinds)

    def _loses(self, request: Request) -> bool:
        return request.path.endswith("/eviction") and asyncio.get_running_loop().time() < self._lost_until

    async def _refuse(self, kind: str) -> Response:
        if kind in {"silent", "deaf"}:
            await never()
        return _refusal(kind)

    async def _wait_alone(self, request: Request) -> None:
        """Wait while the replica is cut off, and fail then."""
        left = self._alone_until - asyncio.get_running_loop().time()
        if left > 0:
            await asyncio.sleep(left)
            raise Unreachable("the connection was lost", request=request, sent=False)

    async def _deliver(self, request: Request) -> Response:
        await asyncio.sleep(self._chance.uniform(*_THERE))
        is_list = request.method == "GET" and not _is_of_controller()
        older = self._older.pop(request.path, None) if is_list else None
        if older is None:
            token = WRITER.set(REPLICA.get())
            try:
                response = await self._inner.send(request)
            finally:
                WRITER.reset(token)
        else:
            response = older
        if request.method != "GET":
            self._on_write(request, response)
        await asyncio.sleep(self._chance.uniform(*_THERE))
        if is_list and response.ok:
            plural = request.path.rpartition("/")[2]
            if version := _read_list(response.body).metadata.resource_version:
                self.seen[plural] = int(version)
                self.caught_up[plural] = asyncio.get_running_loop().time()
                self.began.setdefault(plural, self.caught_up[plural])
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
            cuts = self._cuts
            if (left := self._held_until.get(plural, 0.0) - loop.time()) > 0:
                await asyncio.sleep(left)
                self.caught_up[plural] = loop.time()
            if loop.time() < self._alone_until or cuts != self._cuts:
                raise Unreachable("the connection was lost", request=request, sent=True)
            if version := _version(line):
                self.seen[plural] = version
            yield line
            if self.repeats is not None and self.repeats.random() < 0.5:  # noqa: PLR2004  every other line
                yield line


def _is_of_controller() -> bool:
    """Whether a controller asks: it reads the newest version, and its informers learn nothing of that."""
    return "controller" in structlog.contextvars.get_contextvars()


def _version(line: bytes) -> int:
    """Return the revision that a line of a watch tells of; 0 if it tells of none."""
    try:
        return int(_read_line(line).object.metadata.resource_version or 0)
    except (msgspec.DecodeError, ValueError):
        return 0


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
