"""Probes and metrics, asked for as a kubelet and Prometheus do."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp
import pytest

from karpenter.base.clock import SystemClock
from karpenter.operator.http import Endpoints, PortTaken
from karpenter.telemetry.metrics import Metrics, claims

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Asked:
    """Endpoints that run, and somebody who asks."""

    def __init__(self, *, profiling: bool = False) -> None:
        self.missing = ""
        self.metrics = Metrics(clock=SystemClock())
        self.endpoints = Endpoints(
            ready=self._ready,
            metrics=lambda: self.metrics,
            health_port=0,
            metrics_port=0,
            profiling=profiling,
            host="127.0.0.1",
        )

    async def get(self, what: str, path: str) -> tuple[int, str]:
        """Return the answer to a request."""
        url = f"http://127.0.0.1:{self.endpoints.ports[what]}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return response.status, await response.text()

    async def _ready(self) -> str:
        return self.missing


@asynccontextmanager
async def asked(*, profiling: bool = False) -> AsyncIterator[Asked]:
    """Serve for a while."""
    serving = Asked(profiling=profiling)
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
        refused = await serving.get("metrics", "/debug/pprof/profile?seconds=soon")

        assert refused == (400, "seconds is not a number\n")


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
