"""Simulated kubelets at work, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from karpenter.api.cluster import Event, Lease
from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.api.storage import CSINode
from karpenter.kube.errors import NotFound
from karpenter_local.cluster import LocalCluster
from karpenter_local.kubelet.hollownodes import UnknownNode
from karpenter_local.kubelet.script import PodTimings
from karpenter_local.kubelet.settings import KubeletSettings
from karpenter_local.virtual import VirtualClock

STEADY = KubeletSettings(habits=PodTimings(variation=0.0), narrate=True)


@pytest.fixture
async def cluster() -> AsyncIterator[LocalCluster]:
    """A cluster of one node whose pods all take the same time."""
    async with LocalCluster(VirtualClock(), seed=1, kubelets=STEADY) as running:
        await running.add_nodes(1)
        await asyncio.sleep(1)
        yield running


async def run(
    cluster: LocalCluster, name: str = "p", *, notes: dict[str, str] | None = None, **spec: Any
) -> None:
    """Bind a pod to the node, past the scheduler."""
    container = {"name": "main", "image": "pause", **spec.pop("container", {})}
    body = {
        "metadata": {"name": name, "annotations": notes or {}},
        "spec": {
            "nodeName": "node-1",
            "containers": [container],
            "terminationGracePeriodSeconds": 10,
            **spec,
        },
    }
    await cluster.client.create(Pod, body, namespace="default")


async def look(cluster: LocalCluster, name: str = "p") -> Pod:
    return await cluster.client.get(Pod, name, namespace="default")


async def phase(cluster: LocalCluster, name: str = "p") -> str:
    """Return a pod's phase, and whether it is ready."""
    found = await look(cluster, name)
    ready = any(each.type == "Ready" and each.status == "True" for each in found.status.conditions)
    return f"{found.status.phase}{' ready' if ready else ''}"


async def is_gone(cluster: LocalCluster, name: str = "p") -> bool:
    try:
        await look(cluster, name)
    except NotFound:
        return True
    return False


async def test_a_node_joins(cluster: LocalCluster) -> None:
    """A node that appears reports, holds a lease, and says what it can attach."""
    node = await cluster.client.get(Node, "node-1")
    lease = await cluster.client.get(Lease, "node-1", namespace="kube-node-lease")
    drivers = await cluster.client.get(CSINode, "node-1")

    assert node.status.allocatable["cpu"] == "4"
    assert [each.status for each in node.status.conditions if each.type == "Ready"] == ["True"]
    assert node.spec.taints == ()
    assert (lease.spec.holder_identity, lease.metadata.owner_references[0].uid) == (
        "node-1",
        node.metadata.uid,
    )
    assert [each.name for each in drivers.spec.drivers] == ["ebs.csi.aws.com"]
    assert cluster.hollow_nodes.nodes == ("node-1",)


async def test_a_node_says_where_volumes_are_reached(cluster: LocalCluster) -> None:
    """The driver for EBS calls the node's zone by a name of its own as well."""
    node = await cluster.client.get(Node, "node-1")
    drivers = await cluster.client.get(CSINode, "node-1")

    assert node.metadata.labels["topology.ebs.csi.aws.com/zone"] == "local-1a"
    assert drivers.spec.drivers[0].topology_keys == (
        "topology.ebs.csi.aws.com/zone",
        "topology.kubernetes.io/zone",
    )


async def test_a_lease_is_renewed(cluster: LocalCluster) -> None:
    """A lease is renewed every ten seconds, and made again if it is deleted."""
    before = await cluster.client.get(Lease, "node-1", namespace="kube-node-lease")
    await asyncio.sleep(10)
    after = await cluster.client.get(Lease, "node-1", namespace="kube-node-lease")
    assert before.spec.renew_time is not None
    assert after.spec.renew_time is not None
    assert 9 <= (after.spec.renew_time - before.spec.renew_time).total_seconds() <= 11

    await cluster.client.delete(Lease, "node-1", namespace="kube-node-lease")
    await asyncio.sleep(11)
    assert (
        await cluster.client.get(Lease, "node-1", namespace="kube-node-lease")
    ).spec.renew_time is not None


async def test_a_pod_runs(cluster: LocalCluster) -> None:
    """A pod is created, runs, is ready, and its start is told."""
    await run(cluster)
    await asyncio.sleep(0.5)
    assert await phase(cluster) == "Pending"
    await asyncio.sleep(1)
    assert await phase(cluster) == "Running ready"

    found = await look(cluster)
    assert (found.status.host_ip, found.status.pod_ip) == ("10.64.0.1", "10.192.1.2")
    await asyncio.sleep(0)
    told = [each.message for each in (await cluster.client.list(Event)).items if each.reason == "Started"]
    assert told == ["Started container main"]


async def test_a_pod_that_becomes_ready_later(cluster: LocalCluster) -> None:
    """A pod may take its time to be ready, or never be."""
    await run(cluster, notes={"local.karpenter.sh/ready-seconds": "5"})
    await run(cluster, "q", notes={"local.karpenter.sh/ready-seconds": "never"})
    await asyncio.sleep(2)
    assert await phase(cluster) == "Running"
    await asyncio.sleep(5)
    assert await phase(cluster) == "Running ready"
    await asyncio.sleep(500)
    assert await phase(cluster, "q") == "Running"


async def test_a_pod_with_a_readiness_probe(cluster: LocalCluster) -> None:
    """A pod is ready when its probe would first succeed, and runs before."""
    probe = {"httpGet": {"port": 80}, "initialDelaySeconds": 8}
    await run(cluster, container={"readinessProbe": probe})

    await asyncio.sleep(7)
    before = await phase(cluster)
    await asyncio.sleep(3)

    assert (before, await phase(cluster)) == ("Running", "Running ready")


@pytest.mark.parametrize(
    ("seconds", "after", "gone"),
    [
        pytest.param(5, 4, False, id="while it sleeps"),
        pytest.param(5, 6, True, id="after its sleep"),
        pytest.param(60, 11, True, id="at the end of its grace period"),
    ],
)
async def test_a_pod_with_a_stop_hook(cluster: LocalCluster, seconds: int, after: float, gone: bool) -> None:
    """A pod stops after its preStop hook, but never later than its grace period."""
    await run(cluster, container={"lifecycle": {"preStop": {"sleep": {"seconds": seconds}}}})
    await asyncio.sleep(3)

    await cluster.client.delete(Pod, "p", namespace="default")
    await asyncio.sleep(after)

    assert await is_gone(cluster) is gone


async def test_a_pod_ends_by_itself(cluster: LocalCluster) -> None:
    """A pod that runs once succeeds or fails when its time is up."""
    notes = {"local.karpenter.sh/run-seconds": "5"}
    await run(cluster, notes=notes, restartPolicy="Never")
    await run(cluster, "q", notes={**notes, "local.karpenter.sh/exit-code": "2"}, restartPolicy="Never")
    await asyncio.sleep(5.5)
    assert await phase(cluster) == "Running ready"
    await asyncio.sleep(1)

    assert (await phase(cluster), await phase(cluster, "q")) == ("Succeeded", "Failed")


async def test_a_pod_is_restarted_in_place(cluster: LocalCluster) -> None:
    """A container that fails is started again, ever later, where the pod says so."""
    notes = {"local.karpenter.sh/run-seconds": "5", "local.karpenter.sh/exit-code": "1"}
    await run(cluster, notes=notes, restartPolicy="OnFailure")
    await asyncio.sleep(60)

    found = await look(cluster)
    assert found.status.phase == "Running"
    assert found.status.container_statuses[0].restart_count == 3


async def test_a_deadline(cluster: LocalCluster) -> None:
    """A pod that is active for too long has failed."""
    await run(cluster, activeDeadlineSeconds=30)
    await asyncio.sleep(29)
    assert await phase(cluster) == "Running ready"
    await asyncio.sleep(2)

    found = await look(cluster)
    assert (found.status.phase, found.status.reason) == ("Failed", "DeadlineExceeded")


async def test_a_pod_that_does_not_fit(cluster: LocalCluster) -> None:
    """A pod bound past the scheduler is turned away if there is no room, and room comes back when pods go."""
    greedy = {"resources": {"requests": {"cpu": "3"}}}
    await run(cluster, container=greedy)
    await asyncio.sleep(2)
    await run(cluster, "q", container=greedy)
    await asyncio.sleep(2)
    assert (await look(cluster, "q")).status.reason == "OutOfcpu"

    await cluster.client.delete(Pod, "p", namespace="default")
    await asyncio.sleep(2)
    await run(cluster, "r", container=greedy)
    await asyncio.sleep(2)
    assert await phase(cluster, "r") == "Running ready"


@pytest.mark.parametrize(
    ("notes", "grace", "lasts"),
    [
        pytest.param({}, None, 0.5, id="containers stop when told to"),
        pytest.param({"local.karpenter.sh/stop-seconds": "4"}, None, 4.0, id="or take their time"),
        pytest.param(
            {"local.karpenter.sh/stop-seconds": "99"}, None, 10.0, id="but not longer than the grace"
        ),
        pytest.param({"local.karpenter.sh/stop-seconds": "99"}, 2, 2.0, id="which may be shortened"),
        pytest.param({"local.karpenter.sh/stop-seconds": "99"}, 0, 0.0, id="to nothing"),
    ],
)
async def test_termination(
    cluster: LocalCluster, notes: dict[str, str], grace: int | None, lasts: float
) -> None:
    """A pod that is deleted stops within its grace, and is gone then."""
    await run(cluster, notes=notes)
    await asyncio.sleep(3)
    await cluster.client.delete(Pod, "p", namespace="default", grace=grace)
    if lasts:
        await asyncio.sleep(lasts - 0.1)
        assert not await is_gone(cluster)
    await asyncio.sleep(0.2)

    assert await is_gone(cluster)


async def test_a_second_thought(cluster: LocalCluster) -> None:
    """A second delete with less grace shortens the first."""
    await run(cluster, notes={"local.karpenter.sh/stop-seconds": "99"})
    await asyncio.sleep(3)
    await cluster.client.delete(Pod, "p", namespace="default")
    await asyncio.sleep(1)
    await cluster.client.delete(Pod, "p", namespace="default", grace=1)
    await asyncio.sleep(1.1)

    assert await is_gone(cluster)


async def test_an_unready_node(cluster: LocalCluster) -> None:
    """A node that says it is not ready is tainted, and its pods are not ready; when it is well, all is."""
    await run(cluster)
    await asyncio.sleep(3)
    cluster.hollow_nodes.make("node-1", "unready", why="runtime is down")
    await asyncio.sleep(1)

    node = await cluster.client.get(Node, "node-1")
    assert {each.key for each in node.spec.taints} == {"node.kubernetes.io/not-ready"}
    assert [each.message for each in node.status.conditions if each.type == "Ready"] == ["runtime is down"]
    assert await phase(cluster) == "Running"

    cluster.hollow_nodes.make("node-1", "fine")
    await asyncio.sleep(1)
    assert (await cluster.client.get(Node, "node-1")).spec.taints == ()
    assert await phase(cluster) == "Running ready"


async def test_a_silent_node(cluster: LocalCluster) -> None:
    """Nothing happens on a silent node until it is back; then it goes on where it was."""
    cluster.hollow_nodes.make("node-1", "silent")
    await run(cluster)
    await asyncio.sleep(100)
    assert await phase(cluster) == "Pending"
    assert cluster.hollow_nodes.health("node-1").state == "silent"

    cluster.hollow_nodes.make("node-1", "fine")
    await asyncio.sleep(2)
    assert await phase(cluster) == "Running ready"


async def test_a_slow_node(cluster: LocalCluster) -> None:
    """Everything takes longer on a slow node."""
    cluster.hollow_nodes.slow_down("node-1", factor=10)
    await run(cluster)
    await asyncio.sleep(9)
    assert await phase(cluster) == "Pending"
    await asyncio.sleep(2)
    assert await phase(cluster) == "Running ready"
    await cluster.client.delete(Pod, "p", namespace="default")
    await asyncio.sleep(4.5)
    assert not await is_gone(cluster)


async def test_a_static_pod(cluster: LocalCluster) -> None:
    """A static pod is mirrored, runs, and is mirrored again when the mirror is deleted."""
    manifest = {"metadata": {"name": "proxy"}, "spec": {"containers": [{"name": "main", "image": "pause"}]}}
    key = cluster.hollow_nodes.run_static("node-1", manifest)
    await asyncio.sleep(3)
    first = await cluster.client.get(Pod, "proxy-node-1", namespace="kube-system")
    assert (key, first.status.phase) == ("kube-system/proxy-node-1", "Running")

    await cluster.client.delete(Pod, "proxy-node-1", namespace="kube-system")
    await asyncio.sleep(5)
    again = await cluster.client.get(Pod, "proxy-node-1", namespace="kube-system")
    assert again.metadata.uid != first.metadata.uid


async def test_a_node_that_goes_and_comes_back(cluster: LocalCluster) -> None:
    """A node that is deleted is forgotten; one of the same name joins anew, at the same address."""
    await cluster.client.delete(Node, "node-1")
    await asyncio.sleep(1)
    assert cluster.hollow_nodes.nodes == ()
    with pytest.raises(UnknownNode, match="node-1"):
        cluster.hollow_nodes.make("node-1", "fine")

    await cluster.add_nodes(1)
    await asyncio.sleep(1)
    node = await cluster.client.get(Node, "node-1")
    assert node.status.addresses[0].address == "10.64.0.1"
    await run(cluster)
    await asyncio.sleep(2)
    assert await phase(cluster) == "Running ready"
