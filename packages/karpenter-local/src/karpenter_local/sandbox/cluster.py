"""
Control planes of a sandbox: the embedded one, and the programs of Kubernetes with simulated kubelets.

Both are described by a :class:`RunningCluster`, so that clouds and operators need not know which one it is.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from secrets import randbits
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from karpenter.api.crd.definitions import DEFINITIONS, render
from karpenter.api.node import Node
from karpenter.base.clock import Clock, SystemClock
from karpenter.base.ratelimiting import TokenBucket
from karpenter.kube.client import Client
from karpenter.kube.errors import AlreadyExists
from karpenter.kube.http import HttpTransport
from karpenter.kube.targets import untyped
from karpenter_local.apiserver.inprocess import InProcess
from karpenter_local.cluster import ZONES, LocalCluster
from karpenter_local.kubelet.machine import demo_node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from karpenter.kube.transport import Transport
    from karpenter_local.apiserver.verbs.logs import ContainerLog
    from karpenter_local.kubelet.hollownodes import HollowNodes
    from karpenter_local.sandbox.options import ClusterOptions

_DEFINITIONS: Final = untyped(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", kind="CustomResourceDefinition", namespaced=False
)
_SEED_BITS: Final = 63


@dataclass(frozen=True, kw_only=True)
class RunningCluster:
    """A control plane that answers."""

    client: Client
    """Acts as a user does."""

    kubelets: HollowNodes
    connect: Callable[[str], Client]

    transport: Callable[[], Transport]

    url: str = ""
    kubeconfig: str = ""
    """How other programs reach it; empty where it listens on no port."""

    container_logs: dict[str, ContainerLog] | None = None
    """Where it is told what pods have written; None where it asks kubelets."""


def embedded_cluster(options: ClusterOptions, *, clock: Clock, seed: int) -> LocalCluster:
    return LocalCluster(
        clock,
        seed=seed,
        data_dir=options.state,
        http=options.http,
        port=options.port,
        kubelets=options.kubelets,
        controllers=options.controllers,
        kubernetes=options.kubernetes,
    )


@asynccontextmanager
async def running_embedded(cluster: LocalCluster) -> AsyncIterator[RunningCluster]:
    """Run our own API server, controllers, scheduler and kubelets in this process."""

    def transport() -> Transport:
        return InProcess(cluster.server, headers=(("user-agent", "karpenter"),))

    async with cluster:
        yield RunningCluster(
            client=cluster.client,
            kubelets=cluster.hollow_nodes,
            connect=cluster.connect,
            transport=transport,
            url=cluster.front.url if cluster.front is not None else "",
            kubeconfig=cluster.kubeconfig() if cluster.front is not None else "",
            container_logs=cluster.server.backend.container_logs,
        )


@asynccontextmanager
async def running_real(options: ClusterOptions) -> AsyncIterator[RunningCluster]:
    """
    Run etcd and the programs of Kubernetes as child processes, with our kubelets.

    Raises:
        BinariesMissing: the programs were not built.
    """
    from karpenter_local.controlplane import RealControlPlane, find_binaries  # noqa: PLC0415  few need it
    from karpenter_local.kubelets import Kubelets  # noqa: PLC0415  likewise

    assert options.state is not None, "a real control plane needs a directory"
    plane = RealControlPlane(
        options.state, binaries=find_binaries(), durable=options.durable, port=options.port
    )
    async with plane as started, http_transport(started.kubeconfig) as transport:
        clock = SystemClock()
        client = Client(
            transport,
            chance=Random(randbits(_SEED_BITS)),  # noqa: S311  jitter, not secrets
            bucket=TokenBucket(rate=1000, burst=1000),
        )
        async with Kubelets(client, clock=clock, settings=options.kubelets) as kubelets:
            yield RunningCluster(
                client=client,
                kubelets=kubelets.hollow_nodes,
                connect=lambda _component: client,
                transport=lambda: transport,
                url=started.url,
                kubeconfig=started.kubeconfig.read_text(encoding="utf-8"),
            )


@asynccontextmanager
async def http_transport(kubeconfig: Path) -> AsyncIterator[HttpTransport]:
    """Connect to the cluster of a kubeconfig over HTTP."""
    # It loads a library of a second, which an embedded cluster does without.
    from karpenter.kube.kubeconfig import from_kubeconfig  # noqa: PLC0415

    found = await from_kubeconfig(str(kubeconfig), environ={}, clock=SystemClock())
    transport = HttpTransport(found.endpoint, found.credentials)
    try:
        yield transport
    finally:
        await transport.close()


@asynccontextmanager
async def http_transport_of(cluster: RunningCluster) -> AsyncIterator[HttpTransport]:
    """Connect to a cluster of a sandbox over HTTP."""
    if not cluster.kubeconfig:
        raise RuntimeError("this cluster listens on no port; hint: ClusterOptions(http=True)")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kubeconfig"
        path.write_text(cluster.kubeconfig, encoding="utf-8")
        async with http_transport(path) as transport:
            yield transport


async def install_definitions(client: Client) -> None:
    """Install the CustomResourceDefinitions of Karpenter; those that are there are brought up to date."""
    for each in DEFINITIONS:
        body = render(each)
        try:
            await client.create(_DEFINITIONS, body)
        except AlreadyExists:
            await client.apply(_DEFINITIONS, body)


async def add_nodes(client: Client, options: ClusterOptions) -> None:
    """Create simulated worker nodes, but for those that an earlier run left."""
    for number in range(1, options.nodes + 1):
        try:
            await client.create(Node, demo_node(number, zones=options.zones or ZONES))
        except AlreadyExists:
            continue
