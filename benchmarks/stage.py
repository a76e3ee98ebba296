"""
A stage for the operator: an embedded cluster in one process, the operator in another, and their figures.

Both are real processes that talk over HTTP with TLS on loopback; memory and processor time of the operator
are what the operating system says of its process.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

import aiohttp
import structlog

from karpenter.api.crd.definitions import DEFINITIONS, render
from karpenter.base.clock import SystemClock
from karpenter.kube.rest import untyped
from karpenter_local import kubeconfig
from karpenter_local.apiserver.http import HttpFront
from karpenter_local.cluster import LocalCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from multiprocessing.connection import Connection

    from karpenter.kube.client import Client

    Load = Callable[[Client], Awaitable[None]]

CRDS: Final = untyped(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", kind="CustomResourceDefinition", namespaced=False
)
_KIB: Final = 1024
_PORTS: Final = (18480, 18481)


class Usage(NamedTuple):
    """What a process has used so far."""

    cpu: float
    """Seconds of processor time."""

    most: int
    """The most memory in bytes that it ever held."""

    now: int
    """The memory in bytes that it holds."""


class Operator:
    """An operator in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log
        self._started = time.monotonic()

    def usage(self) -> Usage:
        """Return what the process has used so far."""
        pid = self._process.pid
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
        )
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        return Usage(
            cpu=ticks / os.sysconf("SC_CLK_TCK"),
            most=int(status["VmHWM"].split()[0]) * _KIB,
            now=int(status["VmRSS"].split()[0]) * _KIB,
        )

    async def leads(self) -> float:
        """Wait until it leads and has seen everything; return seconds since its start."""
        while b"operator.leads" not in self._log.read_bytes():
            assert self._process.poll() is None, "the operator has ended"
            await asyncio.sleep(0.02)
        return time.monotonic() - self._started

    async def looked(self) -> None:
        """Wait until it has looked once for something to save."""
        metric = "karpenter_voluntary_disruption_decision_evaluation_duration_seconds_count"
        async with aiohttp.ClientSession() as session:
            while True:
                async with session.get(f"http://127.0.0.1:{_PORTS[0]}/metrics") as answer:
                    if metric in await answer.text():
                        return
                await asyncio.sleep(5.0)


@contextmanager
def cluster(*, load: Load | None = None, alive: bool = True) -> Iterator[Path]:
    """
    Run an embedded cluster, and yield its kubeconfig.

    One that is not alive is an API server with what `load` has put there: nothing in it moves by itself.
    """
    fresh = multiprocessing.get_context("spawn")
    ours, theirs = fresh.Pipe()
    process = fresh.Process(target=_serve, args=(theirs, load, alive), daemon=True)
    process.start()
    try:
        with TemporaryDirectory() as folder:
            config = Path(folder) / "kubeconfig"
            config.write_text(ours.recv(), encoding="utf-8")
            yield config
    finally:
        process.terminate()
        process.join()


@contextmanager
def operator(kubeconfig: Path, **settings: str) -> Iterator[Operator]:
    """Run an operator against a cluster; settings are environment variables."""
    ports = {"METRICS_PORT": str(_PORTS[0]), "HEALTH_PROBE_PORT": str(_PORTS[1])}
    environment = {**os.environ, **ports, "KUBECONFIG": str(kubeconfig), **settings}
    log = kubeconfig.with_name("log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "karpenter.cli", "run"], env=environment, stdout=output, stderr=output
        )
        try:
            yield Operator(process, log)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _serve(pipe: Connection, load: Load | None, alive: bool) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    asyncio.run(_serving(pipe, load, alive))


async def _serving(pipe: Connection, load: Load | None, alive: bool) -> None:
    async with _world(alive) as (made, front):
        for each in DEFINITIONS:
            await made.create(CRDS, render(each))
        if load is not None:
            await load(made)
        certificates = front.certificates
        text = kubeconfig.render(
            name="bench", url=front.url, authority=certificates.authority, token=front.token
        )
        pipe.send(text)
        await asyncio.Event().wait()


@asynccontextmanager
async def _world(alive: bool) -> AsyncIterator[tuple[Client, HttpFront]]:
    made = LocalCluster(SystemClock(), http=True)
    if alive:
        async with made:
            assert made.front is not None
            yield made.client, made.front
        return
    front = HttpFront(made.server)
    await front.start()
    try:
        yield made.client, front
    finally:
        await front.stop()
