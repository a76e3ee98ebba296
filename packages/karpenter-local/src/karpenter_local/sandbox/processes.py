"""
A sandbox and an operator as processes of their own that talk over HTTP with TLS on loopback.

Memory and processor time are what the operating system says of each process.
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
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

import aiohttp
import structlog

from karpenter.base.memory import few_collections
from karpenter_local.controlplane.ports import free_ports
from karpenter_local.sandbox.options import ClusterOptions, KwokOptions
from karpenter_local.sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from multiprocessing.connection import Connection

    from karpenter.kube.client import Client

    Load = Callable[[Client], Awaitable[None]]

_KIB: Final = 1024
_STOP_WITHIN: Final = 20
_EVALUATED: Final = "karpenter_voluntary_disruption_decision_evaluation_duration_seconds_count"


class ProcessUsage(NamedTuple):
    """Processor time and memory that a process has used so far."""

    cpu: float
    """Seconds of processor time."""

    most: int
    """The most memory in bytes that it ever held."""

    now: int
    """The memory in bytes that it holds."""


def usage_of(pid: int) -> ProcessUsage:
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
    )
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ProcessUsage(
        cpu=ticks / os.sysconf("SC_CLK_TCK"),
        most=int(status["VmHWM"].split()[0]) * _KIB,
        now=int(status["VmRSS"].split()[0]) * _KIB,
    )


class ClusterSubprocess(NamedTuple):
    """An embedded cluster in a process of its own."""

    kubeconfig: Path
    pid: int

    def usage(self) -> ProcessUsage:
        return usage_of(self.pid)


class OperatorSubprocess:
    """An operator in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, metrics_port: int) -> None:
        self._process = process
        self._log = log
        self._metrics_port = metrics_port
        self._started = time.monotonic()

    def usage(self) -> ProcessUsage:
        return usage_of(self._process.pid)

    async def until_leading(self) -> float:
        """Wait until it leads and has seen everything; return seconds since its start."""
        while b"operator.leads" not in self._log.read_bytes():
            assert self._process.poll() is None, "the operator has ended"
            await asyncio.sleep(0.02)
        return time.monotonic() - self._started

    async def until_evaluated(self) -> None:
        """Wait until it has looked once for something to disrupt."""
        async with aiohttp.ClientSession() as session:
            while True:
                async with session.get(f"http://127.0.0.1:{self._metrics_port}/metrics") as answer:
                    if _EVALUATED in await answer.text():
                        return
                await asyncio.sleep(5.0)


@contextmanager
def cluster_process(*, load: Load | None = None, controllers: bool = True) -> Iterator[ClusterSubprocess]:
    """
    Run an embedded cluster.

    Without `controllers` it is an API server with what `load` has put there: nothing moves by itself.
    """
    fresh = multiprocessing.get_context("spawn")
    ours, theirs = fresh.Pipe()
    process = fresh.Process(target=_serve, args=(theirs, load, controllers), daemon=True)
    process.start()
    try:
        with TemporaryDirectory() as folder:
            config = Path(folder) / "kubeconfig"
            config.write_text(ours.recv(), encoding="utf-8")
            assert process.pid is not None
            yield ClusterSubprocess(config, process.pid)
    finally:
        process.terminate()
        process.join()


@contextmanager
def operator_process(kubeconfig: Path, **settings: str) -> Iterator[OperatorSubprocess]:
    """Run an operator against a cluster; settings are environment variables."""
    metrics_port, probe_port = free_ports(2)
    ports = {"METRICS_PORT": str(metrics_port), "HEALTH_PROBE_PORT": str(probe_port)}
    environment = {**os.environ, **ports, "KUBECONFIG": str(kubeconfig), **settings}
    log = kubeconfig.with_name("log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "karpenter.cli", "run"], env=environment, stdout=output, stderr=output
        )
        try:
            yield OperatorSubprocess(process, log, metrics_port)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _serve(pipe: Connection, load: Load | None, controllers: bool) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with few_collections():
        asyncio.run(_serve_cluster(pipe, load, controllers=controllers))


async def _serve_cluster(pipe: Connection, load: Load | None, *, controllers: bool) -> None:
    sandbox = Sandbox(
        clock="real",
        cluster=ClusterOptions(http=True, controllers=controllers),
        cloud=KwokOptions(in_operator=True),
        operators=0,
    )
    async with sandbox:
        if load is not None:
            await load(sandbox.client)
        pipe.send(sandbox.running.kubeconfig)
        await asyncio.Event().wait()
