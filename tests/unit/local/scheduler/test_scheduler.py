"""The scheduler at work on an API server, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from karpenter.api.cluster import Event, Namespace, Service
from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.api.storage import CSINode, PersistentVolumeClaim, StorageClass
from karpenter.kube.patches import MergePatch
from karpenter.kube.targets import untyped
from karpenter_local.cluster import LocalCluster
from karpenter_local.scheduler.eventhandlers import helped_by
from karpenter_local.scheduler.place import Placed
from karpenter_local.scheduler.reasons import Filter
from karpenter_local.virtual import VirtualClock
from tests.unit.local.scheduler.clusters import affinity, near, node

PRIORITIES = untyped("scheduling.k8s.io/v1", "priorityclasses", kind="PriorityClass", namespaced=False)


@pytest.fixture
async def cluster() -> AsyncIterator[LocalCluster]:
    """A cluster of two nodes."""
    async with LocalCluster(VirtualClock(), seed=1) as running:
        await running.add_nodes(2)
        await asyncio.sleep(1)
        yield running


async def make(cluster: LocalCluster, name: str, *, cpu: str = "100m", app: str = "", **spec: Any) -> Pod:
    """Make a pod and let the scheduler have a look at it."""
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    meta = {"name": name, "labels": {"app": app} if app else {}}
    body = {"metadata": meta, "spec": {"containers": [container], "terminationGracePeriodSeconds": 2, **spec}}
    await cluster.client.create(Pod, body, namespace="default")
    await asyncio.sleep(0.5)
    return await look(cluster, name)


async def look(cluster: LocalCluster, name: str) -> Pod:
    return await cluster.client.get(Pod, name, namespace="default")


def why(pod: Pod) -> str:
    return next((each.message for each in pod.status.conditions if each.type == "PodScheduled"), "")


async def told(cluster: LocalCluster, reason: str) -> list[str]:
    """Return the messages of all events with a reason."""
    return [each.message for each in (await cluster.client.list(Event)).items if each.reason == reason]


async def test_what_would_help_is_noticed(cluster: LocalCluster) -> None:
    """A pod that waits is tried again when a label, a taint, a cordon or room changes in its favour."""
    waiting = await make(cluster, "label", nodeSelector={"disk": "ssd"})
    assert waiting.spec.node_name == ""
    await cluster.client.patch(Node, "node-2", MergePatch({"metadata": {"labels": {"disk": "ssd"}}}))
    await asyncio.sleep(2)
    assert (await look(cluster, "label")).spec.node_name == "node-2"

    for name in ("node-1", "node-2"):
        await cluster.client.patch(Node, name, MergePatch({"spec": {"unschedulable": True}}))
    await asyncio.sleep(1)
    assert "2 node(s) were unschedulable" in why(await make(cluster, "cordon"))
    await cluster.client.patch(Node, "node-1", MergePatch({"spec": {"unschedulable": False}}))
    await asyncio.sleep(2)
    assert (await look(cluster, "cordon")).spec.node_name == "node-1"


async def test_room_that_is_made(cluster: LocalCluster) -> None:
    """A pod that lacks room gets the place of one that is deleted."""
    for number in (1, 2):
        await make(cluster, f"full-{number}", cpu="4")
    assert "2 Insufficient cpu" in why(await make(cluster, "next", cpu="4"))

    await cluster.client.delete(Pod, "full-1", namespace="default")
    await asyncio.sleep(5)

    assert (await look(cluster, "next")).status.phase == "Running"


async def test_a_namespace_that_is_relabelled(cluster: LocalCluster) -> None:
    """Affinity to pods of selected namespaces follows the labels of namespaces."""
    await cluster.client.create(Namespace, {"metadata": {"name": "other"}})
    body = {"metadata": {"name": "star", "labels": {"app": "star"}}}
    spec = {"nodeName": "node-2", "containers": [{"name": "main", "image": "pause"}]}
    await cluster.client.create(Pod, {**body, "spec": spec}, namespace="other")
    term = near("star", "kubernetes.io/hostname", namespaceSelector={"matchLabels": {"stage": "main"}})
    assert "affinity" in why(await make(cluster, "fan", affinity=affinity("podAffinity", term)))

    await cluster.client.patch(Namespace, "other", MergePatch({"metadata": {"labels": {"stage": "main"}}}))
    await asyncio.sleep(2)
    assert (await look(cluster, "fan")).spec.node_name == "node-2"
    await cluster.client.delete(Pod, "star", namespace="other")
    await cluster.client.delete(Namespace, "other")
    await asyncio.sleep(5)


async def test_volume_limits_follow_the_driver(cluster: LocalCluster) -> None:
    """How many volumes a node takes is what its driver says at the moment."""
    body = {
        "metadata": {"name": "fast"},
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    await cluster.client.create(StorageClass, body)
    for name in ("node-1", "node-2"):
        await cluster.client.delete(CSINode, name)
        none: dict[str, Any] = {
            "name": "ebs.csi.aws.com",
            "nodeID": name,
            "topologyKeys": [],
            "allocatable": {"count": 0},
        }
        await cluster.client.create(CSINode, {"metadata": {"name": name}, "spec": {"drivers": [none]}})
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}
    size = {"resources": {"requests": {"storage": "1Gi"}}}
    await cluster.client.create(
        PersistentVolumeClaim, {"metadata": {"name": "data"}, "spec": {**spec, **size}}, namespace="default"
    )
    uses = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    assert "2 node(s) exceed max volume count" in why(await make(cluster, "user", volumes=uses))

    await cluster.client.delete(CSINode, "node-1")
    await asyncio.sleep(10)
    assert (await look(cluster, "user")).spec.node_name == "node-1"


async def test_a_more_important_pod_takes_over_the_room_of_another(cluster: LocalCluster) -> None:
    """Room that is being made for a pod goes to a more important one that comes meanwhile."""
    for name, value in (("mid", 10), ("high", 100)):
        await cluster.client.create(PRIORITIES, {"metadata": {"name": name}, "value": value})
    slow = {"local.karpenter.sh/stop-seconds": "20"}
    for number in (1, 2):
        container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "4"}}}
        body = {
            "metadata": {"name": f"low-{number}", "annotations": slow},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 20},
        }
        await cluster.client.create(Pod, body, namespace="default")
    await asyncio.sleep(3)
    pinned: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": "node-1"}}
    mid = await make(cluster, "mid", cpu="4", priorityClassName="mid", **pinned)
    assert mid.status.nominated_node_name == "node-1"
    assert (await make(cluster, "mid-2", cpu="4", priorityClassName="mid", **pinned)).spec.node_name == ""

    await make(cluster, "high", cpu="4", priorityClassName="high", **pinned)
    await asyncio.sleep(60)

    assert (await look(cluster, "high")).spec.node_name == "node-1"
    assert (await look(cluster, "mid")).spec.node_name == ""
    assert len(await told(cluster, "Preempted")) == 1


async def test_a_pod_that_went_before_it_was_bound(cluster: LocalCluster) -> None:
    """A binding that the server refuses gives the room back and is told."""
    pod = await make(cluster, "quick", cpu="4", nodeSelector={"never": "there"})
    await cluster.client.delete(Pod, "quick", namespace="default")
    await asyncio.sleep(1)

    await cluster.scheduler._bind(pod, Placed("node-1"))
    await asyncio.sleep(0.1)

    assert any("not found" in message for message in await told(cluster, "FailedScheduling"))


async def test_a_claim_that_goes_while_it_is_bound(cluster: LocalCluster) -> None:
    """A pod whose claim disappears while its volume is being made is told, and tried again."""
    body = {
        "metadata": {"name": "fast"},
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    await cluster.client.create(StorageClass, body)
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    await cluster.client.create(
        PersistentVolumeClaim, {"metadata": {"name": "data"}, "spec": spec}, namespace="default"
    )
    uses = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    await make(cluster, "user", volumes=uses)
    release = MergePatch({"metadata": {"finalizers": None}})
    await cluster.client.patch(PersistentVolumeClaim, "data", release, namespace="default")
    await cluster.client.delete(PersistentVolumeClaim, "data", namespace="default")
    await asyncio.sleep(5)

    assert why(await look(cluster, "user")).startswith(
        '0/2 nodes are available: persistentvolumeclaim "data"'
    )


async def test_services_spread_their_pods(cluster: LocalCluster) -> None:
    """Pods behind one service are spread though they have no owner."""
    await cluster.client.create(
        Service,
        {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}},
        namespace="default",
    )
    await make(cluster, "load", cpu="200m", nodeSelector={"kubernetes.io/hostname": "node-1"})
    placed = [(await make(cluster, f"web-{number}", app="web")).spec.node_name for number in range(4)]

    assert placed.count("node-1") == placed.count("node-2") == 2


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(node("n"), node("n"), set(), id="nothing changed"),
        pytest.param(node("n"), node("n", unschedulable=True), {Filter.NODE_UNSCHEDULABLE}, id="cordon"),
        pytest.param(node("n"), node("n", room={"cpu": "9"}), {Filter.RESOURCES}, id="room"),
        pytest.param(
            node("n"),
            node("n", taints=[{"key": "a", "effect": "NoSchedule"}]),
            {Filter.TAINTS, Filter.SPREAD},
            id="taint",
        ),
    ],
)
def test_helped_by(before: Any, after: Any, expected: set[Filter]) -> None:
    """A change of a node concerns the filters that look at what changed."""
    assert helped_by(before, after) == expected
    assert helped_by(None, after) == set(Filter)
