"""
The server of the console: the page, its document, and answers to what people click on; nothing else.

It listens on loopback alone. Every path begins with a token that only the printed URL has, so that neither
other users of the machine nor other pages in the browser can read the cluster. A request must name the
server by a loopback name: a page of another site cannot reach it through a DNS name that it points here
(DNS rebinding). Nothing can be written: there are reads, and what-if, which is a computation.

Where the document comes from, and how questions are answered, is decided by a :class:`ConsoleSource`.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections import deque
from datetime import datetime, timedelta
from importlib import resources
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage

from karpenter.console.state import ConsoleDocument, PlanSummary, console_costs, encode, snapshot_at
from karpenter.console.whatif import pool_details, what_if

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from karpenter.why.answer import Explanation, Inquiry

LOOPBACK: Final = "127.0.0.1"
MOST_BODY: Final = 1024 * 1024
_KEPT: Final = 500
_QUEUED: Final = 200
_BEAT: Final = 15.0
_SAME: Final = timedelta(milliseconds=1)
"""The page has times in milliseconds, and a document in microseconds."""

_NAMES: Final = (LOOPBACK, "localhost", "[::1]")
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}

# https://developer.mozilla.org/docs/Web/HTTP/CSP
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Unanswerable(Exception):  # noqa: N818  says what it is
    """A question that has no answer; the message is one sentence."""


class _BadMoment(Exception):  # noqa: N818  says what it is
    """A time that is none."""


class ConsoleSource(Protocol):
    """Where the page's document comes from."""

    messages: MessageLog

    def document(self) -> ConsoleDocument: ...

    def inquiry(self, at: datetime | None) -> Inquiry:
        """
        Return the cluster at a moment, as questions are asked about it.

        Raises:
            Unanswerable: there is no cluster behind the page.
        """
        ...


class ConsoleMessage(msgspec.Struct, frozen=True):
    """One server-sent event."""

    number: int
    event: str
    data: bytes

    def line(self) -> bytes:
        return b"id: %d\nevent: %s\ndata: %s\n\n" % (self.number, self.event.encode(), self.data)


class MessageLog:
    """Messages to every page that is open; the last of them are kept for pages that come back."""

    def __init__(self) -> None:
        self._kept: deque[ConsoleMessage] = deque(maxlen=_KEPT)
        self._listeners: set[asyncio.Queue[ConsoleMessage]] = set()
        self.number = 0
        """The number of the last message."""

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def send(self, event: str, value: msgspec.Struct) -> None:
        """Send a message to every page; one that does not read is dropped and has to come back."""
        self.number += 1
        message = ConsoleMessage(self.number, event, encode(value))
        self._kept.append(message)
        for queue in tuple(self._listeners):
            try:
                queue.put_nowait(message)
            except asyncio.QueueFull:
                self._listeners.discard(queue)

    def subscribe(self, since: int) -> asyncio.Queue[ConsoleMessage] | None:
        """Return a queue with every message after number `since`; None if they are not kept any more."""
        missed = [each for each in self._kept if each.number > since]
        if since > self.number or len(missed) < self.number - since or len(missed) > _QUEUED:
            return None
        queue: asyncio.Queue[ConsoleMessage] = asyncio.Queue(_QUEUED * 2)
        for each in missed:
            queue.put_nowait(each)
        self._listeners.add(queue)
        return queue

    def unsubscribe(self, queue: asyncio.Queue[ConsoleMessage]) -> None:
        self._listeners.discard(queue)

    def is_open(self, queue: asyncio.Queue[ConsoleMessage]) -> bool:
        return queue in self._listeners


class FixedSource:
    """A document that does not change, but for plans that are worked out while the page is open."""

    def __init__(
        self, document: ConsoleDocument, inquire: Callable[[datetime | None], Inquiry] | None = None
    ) -> None:
        """`inquire` returns the cluster at a moment; without it there is nothing to ask."""
        self.messages = MessageLog()
        features = {"why": inquire is not None, "whatif": inquire is not None}
        self._document = msgspec.structs.replace(document, features=features)
        self._inquire = inquire

    def document(self) -> ConsoleDocument:
        """Return the document, with every plan so far."""
        return msgspec.structs.replace(self._document, revision=self.messages.number)

    def add_plan(self, plan: PlanSummary) -> None:
        """Add what the operator would have done at a moment."""
        plans = sorted((*self._document.plans, plan), key=lambda each: each.at)
        self._document = msgspec.structs.replace(self._document, plans=tuple(plans))
        self.messages.send("plan", plan)

    def inquiry(self, at: datetime | None) -> Inquiry:
        """Return the cluster at a moment; raises Unanswerable where there is none."""
        if self._inquire is None:
            raise Unanswerable("the page shows a saved plan, and its cluster is not at hand")
        return self._inquire(at)


class ConsoleServer:
    """Serves one page. Entering starts it; ``url`` is then where it is."""

    def __init__(
        self,
        source: ConsoleSource,
        *,
        explain: Callable[[Inquiry, str], Explanation],
        port: int = 0,
        token: str = "",
    ) -> None:
        """`explain` answers ``kind/name``, and raises Unanswerable where there is no such object."""
        self._source = source
        self._explain = explain
        self._port = port
        self._token = token or token_urlsafe(24)
        self._asking = asyncio.Lock()
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def __aenter__(self) -> ConsoleServer:  # noqa: PYI034  never subclassed
        app = web.Application(middlewares=[self._guard], client_max_size=MOST_BODY)
        app.router.add_get("/{token}/", self._page)
        app.router.add_get("/{token}/assets/{name}", self._asset)
        app.router.add_get("/{token}/document", self._document)
        app.router.add_get("/{token}/events", self._events)
        app.router.add_get("/{token}/why", self._why)
        app.router.add_get("/{token}/pool", self._pool)
        app.router.add_get("/{token}/costs", self._costs)
        app.router.add_post("/{token}/whatif", self._what_if)
        self._runner = web.AppRunner(
            app, access_log=None, logger=_log(), shutdown_timeout=0.5, handle_signals=False
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, LOOPBACK, self._port)
        try:
            await site.start()
        except OSError:
            await self._runner.cleanup()
            raise
        self._port = self._runner.addresses[0][1]
        self.url = f"http://{LOOPBACK}:{self._port}/{self._token}/"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Refuse other hosts, other origins and other tokens, and add the headers of every answer."""
        hosts = {f"{name}:{self._port}" for name in _NAMES}
        origin = request.headers.get("Origin")
        token = request.path.split("/")[1] if request.path.startswith("/") else ""
        if not request.path.startswith("/") or request.method == "CONNECT":
            # As OPTIONS * and CONNECT do: https://www.rfc-editor.org/rfc/rfc9112#section-3.2
            response: web.StreamResponse = _refused(400, "the request names no path of this server")
        elif request.headers.get("Host", "").lower() not in hosts:
            response = _refused(403, "the console is reached by its loopback name only")
        elif not hmac.compare_digest(token.encode(), self._token.encode()):
            response = _refused(403, "the URL that karpenter console has printed is needed")
        elif origin is not None and origin.partition("://")[2].lower() not in hosts:
            response = _refused(403, "another page asks")
        else:
            try:
                response = await handler(request)
            except _BadMoment as error:
                response = _refused(400, str(error))
            except web.HTTPException as error:
                response = _refused(error.status, error.reason)
        if not response.prepared:
            response.headers.update(_HEADERS)
        return response

    async def _page(self, request: web.Request) -> web.Response:
        del request
        return _file("index.html")

    async def _asset(self, request: web.Request) -> web.Response:
        return _file(request.match_info["name"])

    async def _document(self, request: web.Request) -> web.Response:
        del request
        return web.Response(body=encode(self._source.document()), content_type="application/json")

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """Send what changes for as long as the page is open."""
        given = request.headers.get("Last-Event-ID") or request.query.get("since", "")
        messages = self._source.messages
        since = int(given) if given.isascii() and given.isdigit() else messages.number
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        await response.prepare(request)
        queue = messages.subscribe(since)
        if queue is None:
            await response.write(b"event: again\ndata: {}\n\n")
            return response
        try:
            while messages.is_open(queue) or not queue.empty():
                try:
                    message = await asyncio.wait_for(queue.get(), _BEAT)
                    await response.write(message.line())
                except TimeoutError:
                    await response.write(b": there\n\n")
        except ConnectionResetError:
            pass  # the page was closed
        finally:
            messages.unsubscribe(queue)
        return response

    async def _why(self, request: web.Request) -> web.Response:
        target = request.query.get("object", "")
        return await self._answer(request, lambda inquiry: self._explain(inquiry, target))

    async def _pool(self, request: web.Request) -> web.Response:
        name = request.query.get("name", "")

        def details(inquiry: Inquiry) -> msgspec.Struct:
            if name not in inquiry.view.pools:
                raise Unanswerable(f"there is no NodePool {name}")
            return pool_details(inquiry, inquiry.view.pools[name])

        return await self._answer(request, details)

    async def _costs(self, request: web.Request) -> web.Response:
        """Answer what workloads cost at a moment; nothing needs to be decided for that."""
        at = _moment(request)
        document = self._source.document()
        found = await asyncio.to_thread(
            lambda: console_costs(snapshot_at(document, at and at + _SAME), document.team_label)
        )
        return web.Response(body=encode(found), content_type="application/json")

    async def _what_if(self, request: web.Request) -> web.Response:
        try:
            manifest = (await request.read()).decode()
        except UnicodeDecodeError:
            return _refused(400, "the manifest is not UTF-8 text")
        return await self._answer(request, lambda inquiry: what_if(inquiry, manifest))

    async def _answer(self, request: web.Request, ask: Callable[[Inquiry], msgspec.Struct]) -> web.Response:
        """Answer a question in a thread, one at a time: each may take as long as a decision."""
        moment = _moment(request)
        async with self._asking:
            try:
                inquiry = self._source.inquiry(moment)
                found = await asyncio.to_thread(ask, inquiry)
            except Unanswerable as error:
                return _refused(404, str(error))
        return web.Response(body=encode(found), content_type="application/json")


def _moment(request: web.Request) -> datetime | None:
    """Return the moment that is asked about; None for the last one."""
    at = request.query.get("at", "")
    try:
        return msgspec.convert(at, datetime) if at else None
    except msgspec.ValidationError:
        raise _BadMoment(f"at: {at!r} is not a time such as 2026-01-31T09:00:00Z") from None


def _log() -> logging.Logger:
    """Return where exceptions of the server are told; requests that are no HTTP are answered, not told."""
    log = logging.getLogger(__name__)
    log.addFilter(_is_ours)
    return log


def _is_ours(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], BadHttpMessage))


def _refused(status: int, problem: str) -> web.Response:
    return web.json_response({"error": problem}, status=status)


def _file(name: str) -> web.Response:
    text = asset(name)
    if text is None:
        return _refused(404, "there is no such file")
    kind = _TYPES["." + name.rpartition(".")[2]]
    return web.Response(text=text, content_type=kind, charset="utf-8")


def asset(name: str) -> str | None:
    """Return a file of the page; None where there is none of that name."""
    found = {each.name: each for each in resources.files("karpenter.console").joinpath("assets").iterdir()}
    return found[name].read_text("utf-8") if name in found else None
