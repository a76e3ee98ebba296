"""
What a client and an API server say to each other: requests and answers as values.

A :class:`Transport` carries requests to an API server: bytes there, bytes back. Two exist: :mod:`.http`
(aiohttp, any cluster) and ``karpenter_local`` (a function call, for tests and simulation). The client above
cannot tell them apart, so a test that swaps one for the other tests the same code.

A :class:`Handler` is the server's side. The embedded API server implements this one method once; an aiohttp
front turns sockets into ``handle`` calls, and the in-process transport calls it without sockets.

What both sides may rely on:

- ``path`` is as on the wire before the query (``/api/v1/namespaces/default/pods/web-0``), percent-encoded
  where a client must, and holds no ``?``. ``query`` holds decoded pairs in the order sent; a key may repeat.
- Header names are lower case. ``accept`` is always sent, and ``content-type`` with every body: patches are
  told apart by it.
- A request that ends in one answer gets a :class:`Response`, whatever its status: an error is a Response
  whose body is a ``Status`` object, never an exception. A handler that raises is a bug.
- A watch (``watch=true`` in the query) that is accepted gets a :class:`Streaming`; one that is refused at
  once gets a Response (410, 403...). A watch that fails later sends an ``ERROR`` event as its last line.
- Each item of ``Streaming.lines`` is one whole JSON document with no line break in it or after it.
- The client may leave a stream at any time: ``lines.aclose()`` is then awaited, so a generator cleans up in
  its ``finally``. The server ends a watch by letting the generator return.
- A caller may be cancelled at any await. A handler therefore decides and stores without awaiting in between.

Nothing here sends or retries.
"""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

Pairs = tuple[tuple[str, str], ...]


def first(pairs: Pairs, name: str, default: str = "") -> str:
    """Return the first value under `name`; in headers, `name` must be lower case."""
    for key, value in pairs:  # a loop, since this is asked a dozen times per request
        if key == name:
            return value
    return default


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request as a value."""

    method: str
    """GET, POST, PUT, PATCH or DELETE."""

    path: str
    query: Pairs = ()
    headers: Pairs = ()
    body: bytes = b""

    def parameter(self, name: str, default: str = "") -> str:
        """Return the first query parameter called `name`."""
        return first(self.query, name, default)

    def header(self, name: str, default: str = "") -> str:
        """Return the first header called `name`, given in lower case."""
        return first(self.headers, name, default)


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """One whole answer."""

    status: int
    headers: Pairs = ()
    body: bytes = b""

    @property
    def ok(self) -> bool:
        """Whether the server did what was asked."""
        return 200 <= self.status < 300  # noqa: PLR2004  the HTTP classes

    def header(self, name: str, default: str = "") -> str:
        """Return the first header called `name`, given in lower case."""
        return first(self.headers, name, default)


class Streaming(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that goes on: a watch."""

    lines: AsyncGenerator[bytes, None]
    """One JSON document each; the receiver closes it."""

    status: int = 200
    headers: Pairs = ()


class Transport(Protocol):
    """The client's side: carries requests to one API server, with its credentials."""

    async def send(self, request: Request) -> Response:
        """Return the server's answer, whatever its status.

        Raises:
            Unreachable: no answer came; the request may or may not have been carried out.
        """
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response | Streaming]:
        """Open a watch; leaving the context closes it. A Response means that the server refused.

        Raises:
            Unreachable: on entering, or while reading ``lines`` when the connection breaks.
        """
        ...

    async def close(self) -> None:
        """Let go of connections. Sending afterwards is an error."""
        ...


class Handler(Protocol):
    """The server's side: answers one request at a time, many at once."""

    async def handle(self, request: Request) -> Response | Streaming:
        """Answer `request`. Refusals are Responses; see the module's rules."""
        ...
