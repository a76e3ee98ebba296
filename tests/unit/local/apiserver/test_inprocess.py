"""Without a wire, the handler is called with the bytes that a wire would carry."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from karpenter.kube.errors import Unreachable
from karpenter.kube.transport import Handler, Request, Response, Streaming, Transport
from karpenter_local.apiserver.inprocess import InProcess

PODS = Request(
    method="GET", path="/api/v1/pods", query=(("limit", "5"), ("limit", "6")), headers=(("accept", "x"),)
)
WATCH = Request(method="GET", path="/api/v1/pods", query=(("watch", "true"),))


class Echo:
    """A handler that remembers, and streams on request."""

    def __init__(self) -> None:
        self.seen: list[Request] = []
        self.closed = False

    async def handle(self, request: Request) -> Response | Streaming:
        self.seen.append(request)
        if request.parameter("watch"):
            return Streaming(lines=self._lines())
        return Response(status=200, headers=(("x-path", request.path),), body=request.body)

    async def _lines(self) -> AsyncGenerator[bytes, None]:
        try:
            yield b"1"
            yield b"2"
            await asyncio.Event().wait()
        finally:
            self.closed = True


async def test_a_request_reaches_the_handler_as_it_is() -> None:
    """Nothing is changed on the way there, or back."""
    handler = Echo()
    transport: Transport = InProcess(handler)

    response = await transport.send(PODS)

    assert handler.seen == [PODS]
    assert (response.ok, response.header("x-path"), response.header("none", "-")) == (
        True,
        "/api/v1/pods",
        "-",
    )


async def test_headers_of_the_connection_are_added() -> None:
    """A transport may say who is calling, as credentials do on a wire."""
    handler: Handler = Echo()
    transport = InProcess(handler, headers=(("x-remote-user", "scheduler"),))

    await transport.send(PODS)

    assert isinstance(handler, Echo)
    assert handler.seen[0].headers == (("accept", "x"), ("x-remote-user", "scheduler"))


async def test_leaving_a_stream_closes_it() -> None:
    """The handler learns that the client has gone."""
    handler = Echo()

    async with InProcess(handler).stream(WATCH) as answer:
        assert isinstance(answer, Streaming)
        assert [await anext(answer.lines), await anext(answer.lines)] == [b"1", b"2"]
        assert not handler.closed

    assert handler.closed


async def test_a_stream_may_be_refused() -> None:
    """One answer instead of a stream is handed to the caller."""
    async with InProcess(Echo()).stream(PODS) as answer:
        assert isinstance(answer, Response)


async def test_a_stream_where_an_answer_was_due_is_the_handlers_mistake() -> None:
    """The mistake is named, and the stream is not left open."""
    with pytest.raises(TypeError, match="answered with a stream"):
        await InProcess(Echo()).send(WATCH)


async def test_a_closed_transport_sends_nothing() -> None:
    """Closing is final."""
    handler = Echo()
    transport = InProcess(handler)
    await transport.close()

    with pytest.raises(Unreachable, match="closed") as caught:
        await transport.send(PODS)

    assert (handler.seen, caught.value.sent) == ([], False)


def test_the_first_of_several_values_counts() -> None:
    """A query key may repeat; the first value is the one that is read."""
    assert (PODS.parameter("limit"), PODS.parameter("none", "-"), PODS.header("accept")) == ("5", "-", "x")
