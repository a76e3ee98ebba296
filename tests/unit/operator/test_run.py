"""The operator as a process: it waits to lead, leads, says whether it could, and stops in order."""

from __future__ import annotations

import asyncio
import signal
from random import Random
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from karpenter.api.cluster import Lease
from karpenter.base.clock import SystemClock
from karpenter.kube.errors import NotConfigured
from karpenter.kube.leaderelection import LeadershipLost
from karpenter.kube.patches import MergePatch
from karpenter.operator.options import SettingError, parse_settings
from karpenter.operator.run import OperatorProcess, OperatorTarget, resident, run
from karpenter.telemetry.metrics import runtime
from karpenter_local.apiserver.inprocess import InProcess
from karpenter_local.apiserver.notice import ClusterDirectory
from karpenter_local.cluster import LocalCluster
from karpenter_local.sandbox.cluster import install_definitions
from karpenter_local.sandbox.options import ClusterOptions, KwokOptions
from karpenter_local.sandbox.sandbox import Sandbox
from karpenter_local.serving import LocalOptions, serve
from karpenter_local.virtual import VirtualClock, run_virtual
from tests.unit.operator.election import leading, until_it_leads

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from karpenter.kube.transport import Request, Response


FREE_PORTS = {"metrics-port": "0", "health-probe-port": "0"}
LOCK = "karpenter-leader-election"


class NotedRequests(InProcess):
    """A transport that notes what is asked."""

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__(cluster.server)
        self.paths: list[str] = []

    async def send(self, request: Request) -> Response:
        self.paths.append(request.path)
        return await super().send(request)


def process(
    cluster: LocalCluster, *, seed: int = 1, leases: NotedRequests | None = None, **settings: str
) -> OperatorProcess:
    """Return a replica of the operator that has not been started."""
    stated = {name.replace("_", "-"): value for name, value in settings.items()}
    return OperatorProcess(
        InProcess(cluster.server),
        target=OperatorTarget(),
        settings=parse_settings({**FREE_PORTS, **stated}),
        namespace="kube-system",
        clock=cluster.clock,
        chance=Random(seed),  # noqa: S311  a test's dice
        environ={},
        threads=False,
        host="127.0.0.1",
        lease_transport=leases,
    )


def in_cluster(
    test: Callable[[LocalCluster], Awaitable[None]],
) -> Callable[[], None]:
    """Run a test beside a cluster that knows our kinds, in virtual time."""

    async def scenario() -> None:
        async with Sandbox(cloud=KwokOptions(in_operator=True), operators=0) as sandbox:
            cluster = sandbox.cluster
            await test(cluster)

    def wrapped() -> None:
        run_virtual(scenario())

    wrapped.__doc__ = test.__doc__
    return wrapped


async def holder(cluster: LocalCluster) -> str:
    return (await cluster.client.get(Lease, LOCK, namespace="kube-system")).spec.holder_identity


async def cancelled(task: asyncio.Task[None]) -> None:
    """Tell a process to stop and wait until it has."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@in_cluster
async def test_the_lease_is_given_back(cluster: LocalCluster) -> None:
    """A process that is told to stop leaves the lease to the one that waits, which leads within seconds."""
    first, second = process(cluster), process(cluster, seed=2)
    tasks = [await leading(first), asyncio.create_task(second.run())]
    assert await holder(cluster)
    await asyncio.sleep(60)
    assert not second.leads.is_set()

    await cancelled(tasks[0])
    assert first.operator is None
    before = cluster.clock.monotonic()
    await until_it_leads(second, tasks[1])
    assert cluster.clock.monotonic() - before < 5

    await cancelled(tasks[1])
    assert await holder(cluster) == ""


@in_cluster
async def test_the_lease_has_connections_of_its_own(cluster: LocalCluster) -> None:
    """Renewals must not wait behind other requests, and nothing else must wait before them."""
    leases = NotedRequests(cluster)
    task = await leading(process(cluster, leases=leases))
    await asyncio.sleep(60)
    await cancelled(task)

    assert len(leases.paths) > 10
    assert all("/leases" in path for path in leases.paths)


@in_cluster
async def test_a_lease_that_is_lost(cluster: LocalCluster) -> None:
    """When another process has the lease, the work ends and the process says which leads."""
    replica = process(cluster)
    task = await leading(replica)
    stolen = MergePatch({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600}})
    await cluster.client.patch(Lease, LOCK, stolen, namespace="kube-system")

    with pytest.raises(LeadershipLost, match="thief"):
        await task
    assert replica.operator is None


@in_cluster
async def test_a_lease_that_another_has_touched_is_read_again(cluster: LocalCluster) -> None:
    """The leader goes on, and leader_election_slowpath_total counts that the first renewal failed."""
    replica = process(cluster)
    task = await leading(replica)
    assert replica.operator is not None
    counted = replica.operator.metrics[runtime.LEADER_SLOW_PATH]
    assert counted.value(name=LOCK) == 0.0
    touched = MergePatch({"metadata": {"annotations": {"touched": "true"}}})
    await cluster.client.patch(Lease, LOCK, touched, namespace="kube-system")
    await asyncio.sleep(60)

    assert counted.value(name=LOCK) == 1.0
    assert replica.leads.is_set()
    await cancelled(task)


@in_cluster
async def test_without_a_lease(cluster: LocalCluster) -> None:
    """A single replica may do without a lease."""
    replica = process(cluster, disable_leader_election="true")
    task = await leading(replica)
    leases = (await cluster.client.list(Lease)).items

    assert LOCK not in {each.name for each in leases}
    await cancelled(task)


@in_cluster
async def test_ready(cluster: LocalCluster) -> None:
    """A replica that waits is ready, too; one that leads is ready when it has seen everything."""
    replica = process(cluster)
    assert await replica._missing() == ""
    task = await leading(replica)
    assert replica.operator is not None
    assert await replica._missing() == ""
    replica.operator.store.complete = False

    assert await replica._missing() == "not everything in the cluster was seen yet"
    await cancelled(task)


def test_not_ready() -> None:
    """Without our kinds a replica is not ready; that is asked anew after ten seconds, and not before."""

    async def scenario() -> None:
        async with LocalCluster(VirtualClock(), seed=1) as cluster:
            replica = process(cluster)
            assert (await replica._missing()).startswith("NodePool cannot be read")
            await install_definitions(cluster.client)
            assert (await replica._missing()).startswith("NodePool cannot be read")
            await asyncio.sleep(11)
            assert await replica._missing() == ""

    run_virtual(scenario())


@in_cluster
async def test_memory(cluster: LocalCluster) -> None:
    """A process that is close to its limit says so."""
    assert resident() > 2**20
    replica = process(cluster, memory_limit="1")
    with capture_logs() as logs:
        task = await leading(replica)
        await cancelled(task)

    assert [each["limit"] for each in logs if each["event"] == "memory.nearly_exhausted"] == [1]


async def test_a_signal_ends_it(tmp_path: Path) -> None:
    """SIGTERM ends the operator in order: the work, the lease, the endpoints."""
    config = tmp_path / "kubeconfig"
    sandbox = Sandbox(
        clock="real", cluster=ClusterOptions(http=True), cloud=KwokOptions(in_operator=True), operators=0
    )
    async with sandbox:
        config.write_text(sandbox.running.kubeconfig)
        settings = parse_settings(FREE_PORTS)
        which = OperatorTarget(kubeconfig=str(config))
        with capture_logs() as logs:
            task = asyncio.create_task(run(settings, which, clock=SystemClock(), environ={}))
            async with asyncio.timeout(20):
                while "operator.leads" not in [each["event"] for each in logs]:  # noqa: ASYNC110  its log is all that shows
                    await asyncio.sleep(0.05)
            signal.raise_signal(signal.SIGTERM)
            await task

    told = [each["event"] for each in logs if each["event"].startswith(("operator.", "lease."))]
    assert told == [
        "operator.started",
        "lease.acquired",
        "operator.leads",
        "lease.released",
        "operator.stopped",
        "operator.signalled",
    ]


async def test_no_cluster(tmp_path: Path) -> None:
    """Without a cluster nothing starts."""
    with pytest.raises(NotConfigured):
        await run(
            parse_settings(FREE_PORTS),
            OperatorTarget(kubeconfig=str(tmp_path / "none")),
            clock=SystemClock(),
            environ={},
        )


def test_a_bad_setting_of_the_operator_beside_a_local_cluster(tmp_path: Path) -> None:
    """What the environment states wrongly is refused before anything starts."""
    with pytest.raises(SettingError, match="setting batch-idle-duration"):
        asyncio.run(
            serve(
                LocalOptions(with_karpenter=True),
                ClusterDirectory(tmp_path),
                lambda _: None,
                environ={"BATCH_IDLE_DURATION": "-1s"},
            )
        )
    assert not list(tmp_path.iterdir())
