"""
The operator as a process: find the cluster, serve probes, wait for leadership, run, stop in order.

SIGTERM stops the controllers first and releases the lease after that, so that another replica starts at
once. A lost lease ends the process, because its caches may be outdated. :class:`KubeClusterObjects` is the
part of the Kubernetes API that a cloud provider may use.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
import structlog

from karpenter import __version__
from karpenter.api.meta import Resource
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.base.ratelimiting import Fence, TokenBucket
from karpenter.cloud.cloudprovider import ProviderContext
from karpenter.cloud.errors import CloudUnreachable
from karpenter.cloud.registry import find_provider
from karpenter.kube.client import Client
from karpenter.kube.errors import (
    AlreadyExists,
    KubeError,
    NotFound,
    ServerFailed,
    TooManyRequests,
    Unreachable,
)
from karpenter.kube.http import HttpTransport
from karpenter.kube.leaderelection import LeaderElector, LockName, Terms
from karpenter.operator.http import Endpoints
from karpenter.operator.operator import Operator, OperatorDependencies
from karpenter.telemetry.metrics import Metrics, runtime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from karpenter.base.clock import Clock
    from karpenter.kube.transport import Transport
    from karpenter.operator.options import Settings


log = structlog.stdlib.get_logger(__name__)

# The kubelet probes every 10 seconds by default:
# https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/
_READY_CACHE_SECONDS: Final = 10.0
"""Seconds for which the result of a readiness check is cached."""

_MEMORY_PERIOD: Final = 10.0
# Past its limit a container is killed without a word; below it the log can say so:
# https://kubernetes.io/docs/tasks/configure-pod-container/assign-memory-resource/
_MEMORY_SHARE: Final = 0.9

R = TypeVar("R", bound=Resource)
_UNAVAILABLE = (Unreachable, ServerFailed, TooManyRequests)


class OperatorTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Which cluster and which cloud provider the operator runs for."""

    provider: str = "kwok"
    cluster: str = ""
    """The name under which machines are tagged; a provider may have one of its own for those without."""

    kubeconfig: str = ""
    context: str = ""


class OperatorProcess:
    """One replica of the operator, on any transport to any cluster."""

    def __init__(
        self,
        transport: Transport,
        *,
        target: OperatorTarget,
        settings: Settings,
        namespace: str,
        clock: Clock,
        chance: Random,
        environ: Mapping[str, str],
        threads: bool = True,
        host: str | None = None,
        ca_bundle: str | None = None,
        terms: Terms | None = None,
        lease_transport: Transport | None = None,
    ) -> None:
        """
        Take what the process is made of.

        `host` is the one address on which probes and metrics are served; without it, all are. `ca_bundle` is
        what the transport trusts the API server by, in base64, where that is known. `terms` are those of
        the lease, for which `lease_transport` is, if there is one.
        """
        self._terms = terms
        self._fence = Fence(clock.boottime)
        self._ca_bundle = ca_bundle
        self._target = target
        self._settings = settings
        self._clock = clock
        self._chance = chance
        self._environ = environ
        self._threads = threads
        bucket = TokenBucket(rate=settings.kube_client_qps, burst=settings.kube_client_burst)
        self.client = Client(transport, chance=chance, bucket=bucket, fence=self._fence)
        # Renewing a lease must not wait behind a thousand other requests.
        # A client without the shared rate limit and, over HTTP, with connections of its own: a late renewal
        # would lose the leadership. It has no fence, which the lease itself opens.
        self._lease_client = Client(lease_transport or transport, chance=chance)
        self._namespace = settings.leader_election_namespace or namespace
        self._idle_metrics = Metrics(clock=clock, process=True)
        self._idle_metrics[runtime.LEADER].set(0.0, name=settings.leader_election_name)
        self._idle_metrics[runtime.LEADER_SLOW_PATH].add(0.0, name=settings.leader_election_name)
        self.operator: Operator | None = None
        self.leads = asyncio.Event()
        """Set when the operator has begun to work."""

        self._asked: tuple[float, str] | None = None
        self.endpoints = Endpoints(
            ready=self._missing,
            metrics=lambda: self.operator.metrics if self.operator is not None else self._idle_metrics,
            health_port=settings.health_probe_port,
            metrics_port=settings.metrics_port,
            profiling=settings.enable_profiling,
            host=host,
        )

    async def run(self) -> None:
        """
        Serve, wait to lead, and lead until cancelled.

        Raises:
            LeadershipLost: another replica is the leader now; the process should restart.
        """
        log.info(
            "operator.started",
            version=__version__,
            provider=self._target.provider,
            cluster=self._target.cluster,
        )
        await self.endpoints.start()
        try:
            async with _watched_memory(self._settings.memory_limit, self._clock):
                if self._settings.shadow:
                    # Nothing that a shadow does is a write; a closed fence refuses what would be one.
                    self._fence.close()
                    await self._work()
                elif self._settings.disable_leader_election:
                    await self._work()
                else:
                    await self._lead()
        finally:
            await self.endpoints.stop()
            log.info("operator.stopped")

    async def _lead(self) -> None:
        lock = LockName(
            namespace=self._namespace,
            name=self._settings.leader_election_name,
            identity=f"{socket.gethostname()}_{self._chance.getrandbits(64):016x}",
        )
        election = LeaderElector(
            self._lease_client,
            lock,
            clock=self._clock,
            chance=self._chance,
            terms=self._terms,
            fence=self._fence,
            on_slow_path=self._count_slow_path,
        )
        await election.lead(self._work)

    def _count_slow_path(self) -> None:
        metrics = self.operator.metrics if self.operator is not None else self._idle_metrics
        metrics[runtime.LEADER_SLOW_PATH].add(name=self._settings.leader_election_name)

    async def _work(self) -> None:
        context = ProviderContext(
            clock=self._clock,
            chance=self._chance,
            cluster=self._target.cluster,
            objects=KubeClusterObjects(self.client),
            settings=self._environ,
            ca_bundle=self._ca_bundle,
            version=lambda: _server_version(self.client),
            fence=self._fence,
        )
        async with find_provider(self._target.provider)(context) as cloud:
            parts = OperatorDependencies(
                client=self.client,
                cloud=cloud,
                settings=self._settings,
                clock=self._clock,
                chance=self._chance,
                threads=self._threads,
                process_metrics=True,
                fence=self._fence,
            )
            async with Operator(parts) as operator:
                self.operator = operator
                operator.metrics[runtime.LEADER].set(1.0, name=self._settings.leader_election_name)
                operator.metrics[runtime.LEADER_SLOW_PATH].add(0.0, name=self._settings.leader_election_name)
                self.leads.set()
                log.info("operator.leads")
                try:
                    await asyncio.get_running_loop().create_future()  # until cancelled
                finally:
                    self.operator = None

    async def _missing(self) -> str:
        """Return why we could not work now; nothing if we could."""
        operator = self.operator
        if operator is not None and not operator.synced:
            return "not everything in the cluster was seen yet"
        now = self._clock.monotonic()
        if self._asked is None or now - self._asked[0] > _READY_CACHE_SECONDS:
            self._asked = (now, await self._unserved())
        return self._asked[1]

    async def _unserved(self) -> str:
        for kind in (NodePool, NodeClaim):
            try:
                async for _ in self.client.pages(kind, limit=1):
                    break
            except KubeError as error:
                return f"{kind.kind} cannot be read: {error}"
        return ""


async def run(
    settings: Settings,
    target: OperatorTarget,
    *,
    clock: Clock,
    environ: Mapping[str, str],
    terms: Terms | None = None,
) -> None:
    """
    Run the operator against the cluster that the environment points to, until a signal says stop.

    Raises:
        NotConfigured: there is no cluster to talk to.
        UnknownProvider, BrokenProvider: there is no such cloud.
        PortTaken: probes or metrics cannot be served.
        LeadershipLost: the lease was lost.
    """
    find_provider(target.provider)
    # It loads a library of a second, which an embedded cluster does without.
    from karpenter.kube.kubeconfig import find_cluster  # noqa: PLC0415

    cluster = await find_cluster(
        environ=environ, clock=clock, kubeconfig=target.kubeconfig, context=target.context
    )
    transport = HttpTransport(cluster.endpoint, cluster.credentials)
    leases = HttpTransport(cluster.endpoint, cluster.credentials)
    process = OperatorProcess(
        transport,
        target=target,
        settings=settings,
        namespace=cluster.namespace,
        clock=clock,
        chance=SystemRandom(),
        environ=environ,
        ca_bundle=cluster.endpoint.trust.bundle(),
        terms=terms,
        lease_transport=leases,
    )
    task = asyncio.get_running_loop().create_task(process.run(), name="operator")
    with _signals(task.cancel):
        try:
            await task
        except asyncio.CancelledError:
            log.info("operator.signalled")
        finally:
            await transport.close()
            await leases.close()


class _signals:  # noqa: N801  reads as what it does: with _signals(...)
    """Calls `stop` on SIGTERM and SIGINT, once."""

    def __init__(self, stop: Callable[[], object]) -> None:
        self._stop = stop

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


@asynccontextmanager
async def _watched_memory(limit: int, clock: Clock) -> AsyncIterator[None]:
    """Collect garbage eagerly while the process is close to what it may use."""

    async def watch() -> None:
        while True:
            used = resident()
            if used > limit * _MEMORY_SHARE:
                log.warning("memory.nearly_exhausted", used=used, limit=limit)
                gc.collect()
            await clock.sleep(_MEMORY_PERIOD)

    if limit <= 0:
        yield
        return
    task = asyncio.get_running_loop().create_task(watch(), name="memory")
    try:
        yield
    finally:
        task.cancel()


def resident() -> int:
    """Return the resident memory of the process in bytes; zero where the system has no /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


async def _server_version(client: Client) -> str:
    """
    Return the Kubernetes version of the API server, such as ``1.33``.

    Raises:
        CloudUnreachable: the API server cannot be asked.
    """
    try:
        return await client.server_version()
    except KubeError as error:
        raise CloudUnreachable(f"the version of the API server is not known: {error}") from error


class KubeClusterObjects:
    """The objects of the cluster that a provider may look at or make."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get(self, kind: type[R], name: str, *, namespace: str = "") -> R | None:
        """Return an object of the whole cluster, or of a namespace; None when there is none."""
        try:
            return await self._client.get(kind, name, namespace=namespace)
        except NotFound:
            return None
        except _UNAVAILABLE as error:
            raise CloudUnreachable(str(error)) from error

    async def list(self, kind: type[R]) -> tuple[R, ...]:
        try:
            return (await self._client.list(kind)).items
        except _UNAVAILABLE as error:
            raise CloudUnreachable(str(error)) from error

    async def create(self, made: Resource) -> None:
        """Create an object. One of that name that is there already counts as created."""
        try:
            await self._client.create(type(made), made)
        except AlreadyExists:
            return
        except _UNAVAILABLE as error:
            raise CloudUnreachable(str(error)) from error

    async def delete(self, kind: type[Resource], name: str) -> None:
        """Ask for the deletion of an object. One that is not there counts as deleted."""
        try:
            await self._client.delete(kind, name)
        except NotFound:
            return
        except _UNAVAILABLE as error:
            raise CloudUnreachable(str(error)) from error
