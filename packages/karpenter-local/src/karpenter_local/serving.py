"""
A cluster that stands until it is told to go: started, announced, and stopped in order.

Two sorts of control plane stand behind the same seam (:class:`ControlPlane`): the embedded one, and the real
one with simulated kubelets. Both leave a kubeconfig; neither knows who waits for it.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from random import Random
from secrets import randbits
from typing import Protocol

import msgspec

from karpenter.api.node import Node
from karpenter.base.clock import SystemClock
from karpenter.base.ratelimiting import TokenBucket
from karpenter.kube.client import Client
from karpenter.kube.errors import AlreadyExists
from karpenter.kube.http import HttpTransport
from karpenter.kube.kubeconfig import from_kubeconfig
from karpenter.kube.transport import Transport
from karpenter_local import kubeconfig
from karpenter_local.apiserver.inprocess import InProcess
from karpenter_local.apiserver.notice import KUBERNETES, Facts, Notice
from karpenter_local.cluster import ZONES, LocalCluster
from karpenter_local.controlplane import RealControlPlane, find_binaries
from karpenter_local.kubelet.fleet import Fleet
from karpenter_local.kubelet.machine import demo_node
from karpenter_local.kubelet.settings import Settings
from karpenter_local.kubelets import Kubelets

_SEED_BITS = 63


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What cluster is asked for."""

    control_plane: str = "embedded"
    port: int = 0
    nodes: int = 0
    zones: tuple[str, ...] = ZONES
    """Where the nodes are."""

    kubernetes: str = KUBERNETES
    """The version that the embedded control plane says it has."""

    background: bool = False
    """Whether what is logged goes to the log of the notice."""

    keep: bool = False
    """Whether the state outlives the process."""


class Standing(msgspec.Struct, frozen=True):
    """A control plane that answers."""

    url: str
    kubeconfig: str
    client: Client
    transport: Transport
    """The way to it for whoever runs beside it in this process."""

    kubelets: Fleet


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """What runs beside a control plane."""

    karpenter: str = ""
    """Where the operator shows its metrics; empty if none runs."""

    environment: Mapping[str, str] = {}
    """What programs have to find in their environment to use it."""


class Companion(Protocol):
    """Runs something beside a control plane for as long as the context lasts, and says what it is."""

    def __call__(self, standing: Standing) -> AbstractAsyncContextManager[Beside]:
        """Start it; if it fails later, whoever entered is cancelled and the context raises why."""
        ...


class ControlPlane(Protocol):
    """Starts a control plane for as long as the context lasts."""

    def __call__(self, wish: Wish, notice: Notice) -> AbstractAsyncContextManager[Standing]:
        """Start it; leaving the context stops it."""
        ...


@asynccontextmanager
async def embedded(wish: Wish, notice: Notice) -> AsyncIterator[Standing]:
    """Run our own API server, controllers, scheduler and kubelets in this process."""
    cluster = LocalCluster(
        seed=randbits(_SEED_BITS),
        data_dir=notice.directory / "state" if wish.keep else None,
        http=True,
        port=wish.port,
        fleet=Settings(narrate=True),
        kubernetes=wish.kubernetes,
    )
    async with cluster:
        assert cluster.front is not None
        beside = InProcess(cluster.server, headers=(("user-agent", "karpenter"),))
        yield Standing(cluster.front.url, cluster.kubeconfig(), cluster.client, beside, cluster.fleet)


@asynccontextmanager
async def real(wish: Wish, notice: Notice) -> AsyncIterator[Standing]:
    """Run etcd and the programs of Kubernetes as child processes, with our kubelets."""
    directory = notice.directory / "real"
    started = RealControlPlane(directory, binaries=find_binaries(), durable=wish.keep, port=wish.port)
    async with started as plane:
        clock = SystemClock()
        cluster = await from_kubeconfig(str(plane.kubeconfig), environ={}, clock=clock)
        transport = HttpTransport(cluster.endpoint, cluster.credentials)
        client = Client(
            transport,
            chance=Random(randbits(_SEED_BITS)),  # noqa: S311  jitter, not secrets
            bucket=TokenBucket(rate=1000, burst=1000),
        )
        async with Kubelets(client, clock=clock, settings=Settings(narrate=True)) as kubelets:
            yield Standing(plane.url, plane.kubeconfig.read_text(), client, transport, kubelets.fleet)
        await client.close()


PLANES: dict[str, ControlPlane] = {"embedded": embedded, "real": real}


@asynccontextmanager
async def alone(standing: Standing) -> AsyncIterator[Beside]:
    """Run nothing beside a cluster."""
    del standing
    yield Beside()


async def serve(
    wish: Wish, notice: Notice, announce: Callable[[Facts], None], *, companion: Companion = alone
) -> None:
    """
    Run a cluster, and a companion beside it, until this process is told to stop.

    Raises:
        AlreadyRunning: one runs in the notice's directory.
    """
    notice.hold()
    try:
        async with PLANES[wish.control_plane](wish, notice) as standing:
            await _add_nodes(standing.client, wish.nodes, wish.zones)
            async with companion(standing) as beside:
                kubeconfig.write(notice.kubeconfig, standing.kubeconfig)
                facts = Facts(
                    pid=os.getpid(),
                    url=standing.url,
                    kubeconfig=str(notice.kubeconfig.resolve()),
                    control_plane=wish.control_plane,
                    started=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                    data_dir=str(notice.directory.resolve()) if wish.keep else "",
                    karpenter=beside.karpenter,
                    environment=dict(beside.environment),
                    log=str(notice.log.resolve()) if wish.background else "",
                )
                notice.post(facts)
                announce(facts)
                await _told_to_stop()
    finally:
        notice.withdraw()


async def _add_nodes(client: Client, count: int, zones: tuple[str, ...]) -> None:
    """Make the nodes that were asked for, but for those that an earlier run left."""
    for number in range(1, count + 1):
        try:
            await client.create(Node, demo_node(number, zones=zones))
        except AlreadyExists:
            continue


async def _told_to_stop() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop.set)
    try:
        await stop.wait()
    finally:
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)
