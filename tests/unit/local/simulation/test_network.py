"""The transport on which everything can go wrong."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import structlog

from karpenter.kube.errors import Unreachable
from karpenter.kube.transport import Request, Response, Streaming
from karpenter_local.simulation.network import CallFault, CallFaults, FaultyTransport
from karpenter_local.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Coroutine


PATCH = Request(method="PATCH", path="/api/v1/nodes/a")
LIST = Request(method="GET", path="/api/v1/nodes")
WATCH = Request(method="GET", path="/api/v1/pods", query=(("watch", "true"),))


class Server:
    """Answers everything, and tells something every ten seconds."""

    def __init__(self) -> None:
        self.carried_out = 0

    async def send(self, request: Request) -> Response:
        self.carried_out += request.method != "GET"
        return Response(status=200, body=_list("9"))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response | Streaming]:
        del request
        yield Streaming(lines=self._lines())

    async def close(self) -> None: ...

    async def _lines(self) -> AsyncGenerator[bytes, None]:
        for number in range(1, 4):
            await asyncio.sleep(10)
            yield str(number).encode()


def faulty_transport(server: Server) -> FaultyTransport:
    """Return a transport to a server on which nothing goes wrong yet."""
    return FaultyTransport(server, chance=Random(1), on_write=lambda _request, _response: None)  # noqa: S311  chance of a test


async def answer(asked: Coroutine[Any, Any, Response]) -> str:
    """Return the status of an answer; ``silence`` if none comes within a minute."""
    try:
        async with asyncio.timeout(60):
            return str((await asked).status)
    except TimeoutError:
        return "silence"
    except Unreachable:
        return "unreachable"


@pytest.mark.parametrize(
    ("kind", "status", "carried_out"),
    [
        pytest.param("conflict", "409", 0, id="a conflict"),
        pytest.param("busy", "429", 0, id="a busy server"),
        pytest.param("error", "500", 0, id="an error"),
        pytest.param("lost", "500", 1, id="an error though it was done"),
        pytest.param("unreachable", "unreachable", 0, id="no connection"),
        pytest.param("silent", "silence", 0, id="silence"),
        pytest.param("deaf", "silence", 1, id="silence though it was done"),
    ],
)
def test_calls_go_wrong(kind: CallFault, status: str, carried_out: int) -> None:
    """Each kind of fault has its answer, and the call was carried out or not."""

    async def main() -> tuple[str, int]:
        server = Server()
        bad = faulty_transport(server)
        bad.faults = CallFaults(share=1.0, kinds=(kind,), chance=Random(1))  # noqa: S311  chance of a test
        return await answer(bad.send(PATCH)), server.carried_out

    assert run_virtual(main()) == (status, carried_out)


@pytest.mark.parametrize(
    ("controller", "answers", "seen"),
    [
        pytest.param("", ["7", "9"], 9, id="an informer is told of the older history, once"),
        pytest.param("nodeclaim.lifecycle", ["9", "9"], 0, id="a controller reads the newest version"),
    ],
)
def test_a_server_with_an_older_history(controller: str, answers: list[str], seen: int) -> None:
    """An informer lists what was a while ago; what a controller reads itself tells its informers nothing."""

    async def main() -> tuple[list[str], int]:
        bad = faulty_transport(Server())
        bad.restore({LIST.path: Response(status=200, body=_list("7"))})
        facts = {"controller": controller} if controller else {}
        with structlog.contextvars.bound_contextvars(**facts):
            bodies = [(await bad.send(LIST)).body for _ in range(2)]
        versions = [msgspec.json.decode(body)["metadata"]["resourceVersion"] for body in bodies]
        return versions, bad.seen.get("nodes", 0)

    assert run_virtual(main()) == (answers, seen)


def _list(version: str) -> bytes:
    return msgspec.json.encode({"metadata": {"resourceVersion": version}, "items": []})


@pytest.mark.parametrize(
    ("after", "carried_out"),
    [pytest.param(False, 1, id="before it is carried out"), pytest.param(True, 2, id="after it was")],
)
def test_a_process_dies_at_a_write(after: bool, carried_out: int) -> None:
    """From the chosen write on nothing is answered, and nothing else is carried out."""

    async def main() -> tuple[list[str], int, int]:
        server, died = Server(), []
        bad = faulty_transport(server)
        bad.sever_at(2, carried_out=after, then=lambda: died.append(True))
        answers = [await answer(bad.send(PATCH)) for _ in range(3)]
        return answers, server.carried_out, len(died)

    assert run_virtual(main()) == (["200", "silence", "silence"], carried_out, 1)


async def received(bad: FaultyTransport) -> list[tuple[float, str]]:
    """Return what a watch tells, and when."""
    loop = asyncio.get_running_loop()
    found: list[tuple[float, str]] = []
    try:
        async with bad.stream(WATCH) as stream:
            assert isinstance(stream, Streaming)
            async for line in stream.lines:
                found.append((round(loop.time()), line.decode()))  # noqa: PERF401  what came before a cut counts
    except Unreachable:
        found.append((round(loop.time()), "cut"))
    return found


def test_watches_are_held_back() -> None:
    """Events of the meantime come afterwards, in order."""

    async def main() -> list[tuple[float, str]]:
        bad = faulty_transport(Server())
        bad.hold(("pods",), until=25.0)
        return await received(bad)

    assert run_virtual(main()) == [(25, "1"), (35, "2"), (45, "3")]


def test_watches_are_cut() -> None:
    """A watch that is cut ends with an error, wherever it is."""

    async def main() -> list[tuple[float, str]]:
        bad = faulty_transport(Server())
        asyncio.get_running_loop().call_later(15, bad.cut)
        return await received(bad)

    assert run_virtual(main()) == [(10, "1"), (15, "cut")]


def test_watches_send_events_twice() -> None:
    """Some lines come twice, one after the other."""

    async def main() -> list[tuple[float, str]]:
        bad = faulty_transport(Server())
        bad.repeats = Random(3)  # noqa: S311  chance of a test
        return await received(bad)

    found = run_virtual(main())
    assert len(found) > 3
    assert [line for _, line in sorted(set(found))] == ["1", "2", "3"]
