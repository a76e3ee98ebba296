"""Probes and metrics, asked for as a kubelet and Prometheus do."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import aiohttp
import pytest

from karpenter.base.clock import SystemClock
from karpenter.operator.http import ConnectionLimits, Endpoints, PortTaken
from karpenter.telemetry.metrics import Metrics, claims

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Asked:
    """Endpoints that run, and somebody who asks."""

    def __init__(self, *, profiling: bool = False, limits: ConnectionLimits) -> None:
        self.missing = ""
        self.metrics = Metrics(clock=SystemClock())
        self.endpoints = Endpoints(
            ready=self._ready,
            metrics=lambda: self.metrics,
            health_port=0,
            metrics_port=0,
            profiling=profiling,
            host="127.0.0.1",
            limits=limits,
        )

    async def get(self, what: str, path: str) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.endpoints.ports[what]}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return response.status, await response.text()

    async def _ready(self) -> str:
        return self.missing


@asynccontextmanager
async def asked(*, profiling: bool = False, limits: ConnectionLimits | None = None) -> AsyncIterator[Asked]:
    serving = Asked(profiling=profiling, limits=limits or ConnectionLimits())
    await serving.endpoints.start()
    try:
        yield serving
    finally:
        await serving.endpoints.stop()


async def test_alive() -> None:
    """A process that answers is alive, whatever it lacks."""
    async with asked() as serving:
        serving.missing = "everything"

        assert await serving.get("probes", "/healthz") == (200, "ok\n")


async def test_ready() -> None:
    """Readiness follows what is missing, and says it."""
    async with asked() as serving:
        assert await serving.get("probes", "/readyz") == (200, "ok\n")
        serving.missing = "NodePool cannot be read"

        assert await serving.get("probes", "/readyz") == (503, "NodePool cannot be read\n")


async def test_metrics() -> None:
    """A scrape shows every metric, also when there are so many that it is written in pieces."""
    async with asked() as serving:
        for number in range(200):
            serving.metrics[claims.CREATED].add(
                reason="provisioned", nodepool=f"pool-{number}", min_values_relaxed="false"
            )
        status, text = await serving.get("metrics", "/metrics")

    assert status == 200
    assert text.count("\nkarpenter_nodeclaims_created_total{") == 200
    assert text.endswith("\n")


async def test_each_on_its_own_port() -> None:
    """Probes are not on the port of the metrics, nor profiles on any unless asked for."""
    async with asked() as serving:
        assert (await serving.get("metrics", "/healthz"))[0] == 404
        assert (await serving.get("probes", "/metrics"))[0] == 404
        assert (await serving.get("metrics", "/debug/pprof/profile"))[0] == 404


async def test_a_profile() -> None:
    """A profile tells where the time went; a time that is none is refused."""
    async with asked(profiling=True) as serving:
        status, text = await serving.get("metrics", "/debug/pprof/profile?seconds=0")
        assert (status, "function calls" in text) == (200, True)
        for time in ("soon", "nan", "inf", "-inf", ""):
            refused = await serving.get("metrics", f"/debug/pprof/profile?seconds={time}")
            assert refused == (400, "seconds is not a number\n")


async def test_two_profiles_are_not_taken_at_once() -> None:
    """The second would stop the first."""
    async with asked(profiling=True) as serving:
        first = asyncio.create_task(serving.get("metrics", "/debug/pprof/profile?seconds=0.5"))
        await asyncio.sleep(0.2)
        second = await serving.get("metrics", "/debug/pprof/profile?seconds=0")

        assert second == (409, "another profile is being taken\n")
        assert (await first)[0] == 200


REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
SOON = ConnectionLimits(connections=3, request=0.2, idle=0.2, answer=0.2)


async def closed(reader: asyncio.StreamReader) -> bool:
    """Return whether the other side closes the connection within two seconds."""
    with suppress(ConnectionError):
        async with asyncio.timeout(2):
            await reader.read()
    return True


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing is sent"),
        pytest.param(REQUEST[:20], id="half a request is sent"),
        pytest.param(REQUEST, id="nothing is sent after a request"),
        pytest.param(REQUEST + REQUEST[:20], id="half a request is sent after another"),
    ],
)
async def test_a_connection_without_a_request_is_closed(sent: bytes) -> None:
    """A client that sends nothing, or byte by byte, holds no file descriptor for long."""
    async with asked(limits=SOON) as serving:
        reader, writer = await asyncio.open_connection("127.0.0.1", serving.endpoints.ports["probes"])
        writer.write(sent)
        assert await closed(reader)
        writer.close()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00", id="a greeting of TLS"),
        pytest.param(b"GET /healthz?" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", id="a line without end"),
        pytest.param(b"GET /\xd9\xa1 HTTP/1.1\r\n\r\n", id="an address that is none"),
        pytest.param(b"GET / HTTP/1.1\r\nA\r\n\r\n", id="a header that is none"),
    ],
)
async def test_what_is_no_request_is_not_logged(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """It is answered, and no client can fill the log with tracebacks."""
    async with asked() as serving:
        reader, writer = await asyncio.open_connection("127.0.0.1", serving.endpoints.ports["probes"])
        writer.write(sent)
        assert (await reader.read()).startswith(b"HTTP/1.0 400")
        writer.close()

    assert [record for record in caplog.records if record.exc_info] == []


async def test_an_answer_that_takes_too_long_is_given_up() -> None:
    """A client that does not read its answer is not waited for."""
    async with asked(limits=SOON, profiling=True) as serving:
        reader, writer = await asyncio.open_connection("127.0.0.1", serving.endpoints.ports["metrics"])
        writer.write(REQUEST.replace(b"/healthz", b"/debug/pprof/profile?seconds=30"))
        assert await closed(reader)
        writer.close()
        await asyncio.sleep(0)
        assert (await serving.get("metrics", "/debug/pprof/profile?seconds=0"))[0] == 200


async def test_probes_are_answered_however_many_connections_there_are() -> None:
    """The connection that has waited longest makes room."""
    async with asked(limits=ConnectionLimits(connections=3)) as serving:
        port = serving.endpoints.ports["probes"]
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(6)]

        assert await serving.get("probes", "/healthz") == (200, "ok\n")
        assert [await closed(reader) for reader, _ in held[:4]] == [True] * 4
        for _, writer in held:
            writer.close()


async def test_a_connection_is_refused_while_all_are_being_answered() -> None:
    """An answer that is being written is not cut off for a new connection."""
    async with asked(limits=ConnectionLimits(connections=1), profiling=True) as serving:
        first = asyncio.create_task(serving.get("metrics", "/debug/pprof/profile?seconds=0.5"))
        await asyncio.sleep(0.2)
        with pytest.raises(aiohttp.ClientError):
            await serving.get("metrics", "/metrics")
        assert (await first)[0] == 200


async def test_a_port_that_is_taken() -> None:
    """A port that somebody else has is named, with what it was for, and nothing is left listening."""
    async with asked() as serving:
        taken = serving.endpoints.ports["metrics"]
        second = Endpoints(
            ready=serving._ready,
            metrics=lambda: serving.metrics,
            health_port=0,
            metrics_port=taken,
            host="127.0.0.1",
        )
        with pytest.raises(PortTaken, match=f"cannot serve metrics on port {taken}: .*in use"):
            await second.start()

        assert second._runners == []
