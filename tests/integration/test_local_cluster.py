"""The embedded cluster as a whole, in process and in virtual time."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from karpenter.api.cluster import Event, Namespace, PodDisruptionBudget
from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from karpenter.kube.errors import NotFound, TooManyRequests
from karpenter.kube.patches import MergePatch
from karpenter.kube.rest import Selection
from karpenter.kube.targets import Plain, Untyped, untyped
from karpenter_local.cluster import LocalCluster
from karpenter_local.controllers.informers import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from karpenter_local.virtual import VirtualClock, run_virtual
from tests.integration.settling import until

HERE = Selection(namespace="default")
CONFIG_MAPS = untyped("v1", "configmaps", kind="ConfigMap", namespaced=True)


@pytest.fixture
async def cluster() -> AsyncIterator[LocalCluster]:
    """A cluster of three nodes in three zones."""
    async with LocalCluster(VirtualClock(), seed=1) as running:
        await running.add_nodes(3)
        await asyncio.sleep(1)
        yield running


def template(app: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> Plain:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "500m"}}}
    return {
        "metadata": {"labels": {"app": app}, "annotations": annotations or {}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 2, **spec},
    }


def workload(app: str, **spec: Any) -> Plain:
    """Return a workload that manages the pods of an app."""
    body = {"selector": {"matchLabels": {"app": app}}, "template": template(app), **spec}
    return {"metadata": {"name": app}, "spec": body}


async def make(cluster: LocalCluster, kind: Untyped, body: Plain) -> Plain:
    """Make an object in the namespace ``default``."""
    return await cluster.client.create(kind, body, namespace="default")


async def status(cluster: LocalCluster, kind: Untyped, name: str) -> Plain:
    found = await cluster.client.get(kind, name, namespace="default")
    return dict(found.get("status") or {})


async def pods(cluster: LocalCluster) -> tuple[Pod, ...]:
    """Return all pods of the namespace ``default``."""
    return (await cluster.client.list(Pod, HERE)).items


async def events(cluster: LocalCluster, reason: str) -> list[str]:
    return [each.message for each in (await cluster.client.list(Event)).items if each.reason == reason]


async def change(cluster: LocalCluster, kind: Untyped, name: str, **spec: Any) -> None:
    await cluster.client.patch(kind, name, MergePatch({"spec": spec}), namespace="default")


async def test_a_deployment_becomes_running_pods(cluster: LocalCluster) -> None:
    """Pods are made, spread over the nodes, started and counted."""
    await make(cluster, DEPLOYMENTS, workload("web", replicas=3))

    await until(lambda: status(cluster, DEPLOYMENTS, "web"), lambda s: s.get("availableReplicas") == 3)

    found = await pods(cluster)
    assert {each.spec.node_name for each in found} == {"node-1", "node-2", "node-3"}
    assert {each.status.phase for each in found} == {"Running"}
    assert sorted(await events(cluster, "Scheduled")) == sorted(
        f"Successfully assigned default/{each.name} to {each.spec.node_name}" for each in found
    )


async def test_a_rollout_and_a_way_back(cluster: LocalCluster) -> None:
    """A new template replaces the pods without a gap; the old one brings its set back with a new revision."""
    await make(cluster, DEPLOYMENTS, workload("web", replicas=4))
    done = lambda s: s.get("updatedReplicas") == s.get("availableReplicas") == s.get("replicas") == 4  # noqa: E731
    await until(lambda: status(cluster, DEPLOYMENTS, "web"), done)
    least = 4

    async def look() -> Plain:
        nonlocal least
        found = await status(cluster, DEPLOYMENTS, "web")
        least = min(least, found.get("availableReplicas", 0))
        return found

    await change(cluster, DEPLOYMENTS, "web", template=template("web", annotations={"v": "2"}))
    await asyncio.sleep(0.5)
    await until(look, done)
    assert least >= 3
    await change(cluster, DEPLOYMENTS, "web", template=template("web", annotations={"v": None}))  # type: ignore[dict-item]  # null removes
    await asyncio.sleep(0.5)
    await until(look, done)

    sets = (await cluster.client.list(REPLICA_SETS, HERE)).items
    revision = "deployment.kubernetes.io/revision"
    assert sorted((s["metadata"]["annotations"][revision], s["spec"]["replicas"]) for s in sets) == [
        ("2", 0),
        ("3", 4),
    ]


async def test_scaling_to_nothing_and_recreating(cluster: LocalCluster) -> None:
    """Pods go when none are wanted; with Recreate, new pods come only after the old ones went."""
    await make(cluster, DEPLOYMENTS, workload("web", replicas=2, strategy={"type": "Recreate"}))
    await until(lambda: status(cluster, DEPLOYMENTS, "web"), lambda s: s.get("availableReplicas") == 2)

    await change(cluster, DEPLOYMENTS, "web", template=template("web", annotations={"v": "2"}))
    versions: set[frozenset[str]] = set()

    async def look() -> Plain:
        versions.add(frozenset(each.metadata.annotations.get("v", "1") for each in await pods(cluster)))
        return await status(cluster, DEPLOYMENTS, "web")

    await until(look, lambda s: s.get("updatedReplicas") == 2 and s.get("availableReplicas") == 2)
    assert frozenset({"1", "2"}) not in versions

    await change(cluster, DEPLOYMENTS, "web", replicas=0)
    await until(lambda: pods(cluster), lambda found: not found)


async def test_pods_that_do_not_fit_say_so(cluster: LocalCluster) -> None:
    """A pod that fits nowhere is told why, and gets its place when room is made."""
    big = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "5"}}}
    await cluster.client.create(
        Pod, {"metadata": {"name": "big"}, "spec": {"containers": [big]}}, namespace="default"
    )

    async def condition() -> tuple[str, str]:
        found = await cluster.client.get(Pod, "big", namespace="default")
        scheduled = [each for each in found.status.conditions if each.type == "PodScheduled"]
        return (scheduled[0].status, scheduled[0].message) if scheduled else ("", "")

    told = await until(condition, lambda found: found[0] == "False")
    assert told[1] == (
        "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: "
        "0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )
    assert await events(cluster, "FailedScheduling") == [told[1]]
    await cluster.add_nodes(1, room={"cpu": "16", "memory": "16Gi", "pods": "10"})
    await until(condition, lambda found: found[0] == "True")


async def test_a_stateful_set_keeps_its_order_and_its_volumes(cluster: LocalCluster) -> None:
    """Pods come in order, each with a volume in its zone, and find it again when they come back."""
    await cluster.client.create(
        StorageClass,
        {
            "metadata": {"name": "zonal"},
            "provisioner": "ebs.csi.aws.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "zonal",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    await make(
        cluster, STATEFUL_SETS, workload("db", replicas=2, serviceName="db", volumeClaimTemplates=[claim])
    )
    await until(lambda: status(cluster, STATEFUL_SETS, "db"), lambda s: s.get("availableReplicas") == 2)

    first = await cluster.client.get(Pod, "db-0", namespace="default")
    second = await cluster.client.get(Pod, "db-1", namespace="default")
    assert first.status.start_time is not None
    assert second.status.start_time is not None
    assert first.status.start_time < second.status.start_time
    bound = await cluster.client.get(PersistentVolumeClaim, "data-db-1", namespace="default")
    volume = await cluster.client.get(PersistentVolume, bound.spec.volume_name)
    home = await cluster.client.get(Node, second.spec.node_name)
    assert volume.spec.node_affinity is not None
    assert volume.spec.node_affinity.required is not None
    zone = volume.spec.node_affinity.required.node_selector_terms[0].match_expressions[0].values
    assert zone == (home.metadata.labels["topology.kubernetes.io/zone"],)

    await change(cluster, STATEFUL_SETS, "db", replicas=1)
    attachments = lambda: cluster.client.list(VolumeAttachment)  # noqa: E731
    await until(attachments, lambda found: len(found.items) == 1)
    await change(cluster, STATEFUL_SETS, "db", replicas=2)
    await until(lambda: status(cluster, STATEFUL_SETS, "db"), lambda s: s.get("availableReplicas") == 2)
    again = await cluster.client.get(Pod, "db-1", namespace="default")
    assert again.spec.node_name == second.spec.node_name


async def test_a_daemon_set_follows_the_nodes(cluster: LocalCluster) -> None:
    """Every node has its pod, also one that comes later, and a node that goes takes its pod along."""
    await make(cluster, DAEMON_SETS, workload("agent"))
    await until(lambda: status(cluster, DAEMON_SETS, "agent"), lambda s: s.get("numberAvailable") == 3)

    await cluster.add_nodes(1)
    await until(lambda: status(cluster, DAEMON_SETS, "agent"), lambda s: s.get("numberAvailable") == 4)
    await cluster.client.delete(Node, "node-2")
    await until(lambda: pods(cluster), lambda found: len(found) == 3)

    assert {each.spec.node_name for each in await pods(cluster)} == {"node-1", "node-3", "node-4"}
    await change(cluster, DAEMON_SETS, "agent", template=template("agent", annotations={"v": "2"}))
    await until(lambda: status(cluster, DAEMON_SETS, "agent"), lambda s: s.get("updatedNumberScheduled") == 3)


async def test_jobs_end_well_or_badly(cluster: LocalCluster) -> None:
    """A job is complete when enough pods succeeded, failed when too many did not, and gone when told to."""

    def job(name: str, notes: dict[str, str], **spec: Any) -> Plain:
        body = {"template": template(name, annotations=notes, restartPolicy="Never"), **spec}
        return {"metadata": {"name": name}, "spec": body}

    await make(cluster, JOBS, job("good", {}, completions=3, parallelism=2))
    await make(cluster, JOBS, job("bad", {"local.karpenter.sh/exit-code": "1"}, backoffLimit=1))
    await make(cluster, JOBS, job("brief", {}, ttlSecondsAfterFinished=5))
    await make(
        cluster, JOBS, job("late", {"local.karpenter.sh/run-seconds": "forever"}, activeDeadlineSeconds=30)
    )

    def ended(found: Plain) -> list[str]:
        return [
            each["type"] for each in found.get("conditions", ()) if each["type"] in {"Complete", "Failed"}
        ]

    good = await until(lambda: status(cluster, JOBS, "good"), ended)
    bad = await until(lambda: status(cluster, JOBS, "bad"), ended, within=120)
    late = await until(lambda: status(cluster, JOBS, "late"), ended, within=120)

    assert (ended(good), good["succeeded"]) == (["Complete"], 3)
    assert (ended(bad), bad["failed"]) == (["Failed"], 2)
    assert {each["reason"] for each in late["conditions"]} == {"DeadlineExceeded"}
    listed = lambda: cluster.client.list(JOBS, HERE)  # noqa: E731
    await until(listed, lambda found: "brief" not in [each["metadata"]["name"] for each in found.items])
    await until(lambda: pods(cluster), lambda found: not any(each.metadata.finalizers for each in found))


async def test_a_cron_job_ticks(cluster: LocalCluster) -> None:
    """A job is started every minute, and three that succeeded are kept."""
    spec = {"template": template("tick", restartPolicy="Never")}
    await make(
        cluster,
        CRON_JOBS,
        {"metadata": {"name": "tick"}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": spec}}},
    )

    await asyncio.sleep(630)

    jobs = (await cluster.client.list(JOBS, HERE)).items
    assert len(jobs) == 3
    assert len(await events(cluster, "SuccessfulCreate")) > 3
    assert (await status(cluster, CRON_JOBS, "tick"))["lastScheduleTime"] == "2025-01-01T00:10:00Z"


async def test_a_budget_holds_evictions_back(cluster: LocalCluster) -> None:
    """As many pods can be evicted as the budget allows, and the next when a new one is ready."""
    await make(cluster, DEPLOYMENTS, workload("web", replicas=3))
    await cluster.client.create(
        PodDisruptionBudget,
        {
            "metadata": {"name": "web"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        },
        namespace="default",
    )
    budget = lambda: cluster.client.get(PodDisruptionBudget, "web", namespace="default")  # noqa: E731
    await until(budget, lambda found: found.status.disruptions_allowed == 1)
    victims = [each.name for each in await pods(cluster)]

    await cluster.client.evict(victims[0], namespace="default")
    with pytest.raises(TooManyRequests):
        await cluster.client.evict(victims[1], namespace="default")

    await until(
        budget, lambda found: found.status.disruptions_allowed == 1 and found.status.current_healthy == 3
    )
    await cluster.client.evict(victims[1], namespace="default")


async def test_a_silent_node_loses_its_pods(cluster: LocalCluster) -> None:
    """A node that is not heard of for 40 s is unreachable; five minutes later its pods run elsewhere."""
    await make(cluster, DEPLOYMENTS, workload("web", replicas=3))
    await until(lambda: status(cluster, DEPLOYMENTS, "web"), lambda s: s.get("availableReplicas") == 3)
    loop = asyncio.get_running_loop()
    began = loop.time()
    cluster.hollow_nodes.make("node-2", "silent")

    async def ready() -> str:
        node = await cluster.client.get(Node, "node-2")
        return next(each.status for each in node.status.conditions if each.type == "Ready")

    await until(ready, lambda found: found == "Unknown", within=90)
    assert 35 <= loop.time() - began <= 60
    node = lambda: cluster.client.get(Node, "node-2")  # noqa: E731
    await until(
        node, lambda found: {each.key for each in found.spec.taints} == {"node.kubernetes.io/unreachable"}
    )
    await until(
        lambda: pods(cluster),
        lambda found: (
            sum(p.status.phase == "Running" and p.metadata.deletion_timestamp is None for p in found) == 3
            and {p.spec.node_name for p in found if p.metadata.deletion_timestamp is None}
            == {"node-1", "node-3"}
        ),
        within=600,
    )
    assert 335 <= loop.time() - began <= 370

    cluster.hollow_nodes.make("node-2", "fine")
    await until(ready, lambda found: found == "True")
    await until(lambda: pods(cluster), lambda found: len(found) == 3)


async def test_a_node_that_is_gone_leaves_nothing_behind(cluster: LocalCluster) -> None:
    """Pods of a node that was deleted are cleared away and replaced."""
    await make(cluster, DEPLOYMENTS, workload("web", replicas=3))
    await until(lambda: status(cluster, DEPLOYMENTS, "web"), lambda s: s.get("availableReplicas") == 3)

    cluster.hollow_nodes.make("node-3", "dead")
    await cluster.client.delete(Node, "node-3")

    await until(
        lambda: pods(cluster),
        lambda found: len(found) == 3 and {each.spec.node_name for each in found} == {"node-1", "node-2"},
        within=120,
    )


async def test_owners_take_their_own_along(cluster: LocalCluster) -> None:
    """Deleting an owner deletes what belongs to it: afterwards, before, or not at all, as asked."""
    for name in ("background", "foreground", "orphan"):
        await make(cluster, DEPLOYMENTS, workload(name, replicas=1))
        await until(partial(status, cluster, DEPLOYMENTS, name), lambda s: s.get("availableReplicas") == 1)

    async def left() -> tuple[list[str], list[str], list[str]]:
        sets = (await cluster.client.list(REPLICA_SETS, HERE)).items
        deployments = (await cluster.client.list(DEPLOYMENTS, HERE)).items
        return (
            [each["metadata"]["name"] for each in deployments],
            [each["metadata"]["labels"]["app"] for each in sets],
            [each.metadata.labels["app"] for each in await pods(cluster)],
        )

    for name in ("background", "foreground", "orphan"):
        await cluster.client.delete(DEPLOYMENTS, name, namespace="default", propagation=name.capitalize())

    await until(left, lambda found: found == ([], ["orphan"], ["orphan"]))


async def test_a_namespace_goes_with_everything_in_it(cluster: LocalCluster) -> None:
    """A namespace is emptied before it goes, and waits for what cannot go yet."""
    await cluster.client.create(Namespace, {"metadata": {"name": "doomed"}})
    stuck = {"metadata": {"name": "stuck", "finalizers": ["example.com/wait"]}}
    await cluster.client.create(CONFIG_MAPS, stuck, namespace="doomed")
    await cluster.client.create(DEPLOYMENTS, workload("web", replicas=2), namespace="doomed")
    await asyncio.sleep(5)
    await cluster.client.delete(Namespace, "doomed")
    await asyncio.sleep(30)
    assert (await cluster.client.list(Pod, Selection(namespace="doomed"))).items == ()

    unhold = MergePatch({"metadata": {"finalizers": None}})
    await cluster.client.patch(CONFIG_MAPS, "stuck", unhold, namespace="doomed")

    names = lambda: cluster.client.list(Namespace)  # noqa: E731
    await until(names, lambda found: "doomed" not in [each.name for each in found.items])


async def test_preemption(cluster: LocalCluster) -> None:
    """A pod of higher priority displaces lesser ones, with their grace, and runs in their place."""
    classes = untyped("scheduling.k8s.io/v1", "priorityclasses", kind="PriorityClass", namespaced=False)
    await cluster.client.create(classes, {"metadata": {"name": "high"}, "value": 1000})
    await make(cluster, DEPLOYMENTS, workload("low", replicas=21))
    await until(lambda: status(cluster, DEPLOYMENTS, "low"), lambda s: s.get("availableReplicas") == 21)

    urgent = template("urgent", priorityClassName="high")
    urgent["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
    urgent["metadata"]["name"] = "urgent"
    await cluster.client.create(Pod, urgent, namespace="default")

    found = lambda: cluster.client.get(Pod, "urgent", namespace="default")  # noqa: E731
    placed = await until(found, lambda each: each.status.phase == "Running")
    assert placed.status.nominated_node_name in {"", placed.spec.node_name}
    assert len(await events(cluster, "Preempted")) == 7


def history(seed: int) -> str:
    """Return a digest of everything that is stored after a busy hour in a cluster with this seed."""

    async def live() -> str:
        async with LocalCluster(VirtualClock(), seed=seed) as cluster:
            await cluster.add_nodes(4)
            await make(cluster, DEPLOYMENTS, workload("web", replicas=9))
            await make(cluster, DAEMON_SETS, workload("agent"))
            spec = {"template": template("tick", restartPolicy="Never")}
            cron = {"schedule": "*/7 * * * *", "jobTemplate": {"spec": spec}}
            await make(cluster, CRON_JOBS, {"metadata": {"name": "tick"}, "spec": cron})
            await asyncio.sleep(600)
            await change(cluster, DEPLOYMENTS, "web", template=template("web", annotations={"v": "2"}))
            cluster.hollow_nodes.make("node-2", "silent")
            await asyncio.sleep(1800)
            cluster.hollow_nodes.make("node-2", "fine")
            await cluster.client.delete(Node, "node-3")
            await asyncio.sleep(1200)
            digest = hashlib.sha256(str(cluster.server.store.revision).encode())
            for table in sorted(cluster.server.store.tables(), key=lambda each: each.name):
                for key in sorted(table.entries):
                    digest.update(table.entries[key].raw)
            return digest.hexdigest()

    return run_virtual(live())


def test_the_same_seed_gives_the_same_history() -> None:
    """An hour of a cluster's life is the same byte for byte with the same seed, and another with another."""
    assert history(1) == history(1) != history(2)


async def test_what_was_stored_outlives_the_process(tmp_path: Path) -> None:
    """A cluster with a data directory goes on where it was, with new uids for new things."""
    clock = VirtualClock()
    async with LocalCluster(clock, seed=1, data_dir=tmp_path) as cluster:
        await cluster.add_nodes(1)
        await make(cluster, DEPLOYMENTS, workload("web", replicas=2))
        await until(lambda: status(cluster, DEPLOYMENTS, "web"), lambda s: s.get("availableReplicas") == 2)
        before = {each.metadata.uid for each in await pods(cluster)}

    async with LocalCluster(clock, seed=1, data_dir=tmp_path) as cluster:
        assert {each.metadata.uid for each in await pods(cluster)} == before
        await change(cluster, DEPLOYMENTS, "web", replicas=4)
        await until(lambda: status(cluster, DEPLOYMENTS, "web"), lambda s: s.get("availableReplicas") == 4)
        after = {each.metadata.uid for each in await pods(cluster)}

    assert before < after
    assert len(after) == 4


async def test_a_kubeconfig_needs_a_port() -> None:
    """A cluster that listens nowhere has no kubeconfig to give."""
    with pytest.raises(RuntimeError, match="listens on no port"):
        LocalCluster(VirtualClock()).kubeconfig()


async def test_a_pod_that_is_gone(cluster: LocalCluster) -> None:
    """A pod that was deleted is gone after its grace at the latest."""
    slow = {"local.karpenter.sh/stop-seconds": "99"}
    body = {**template("brief"), "metadata": {"name": "brief", "annotations": slow}}
    await cluster.client.create(Pod, body, namespace="default")

    async def found() -> Pod:
        return await cluster.client.get(Pod, "brief", namespace="default")

    await until(found, lambda each: each.status.phase == "Running")

    await cluster.client.delete(Pod, "brief", namespace="default")
    await asyncio.sleep(1.5)
    assert (await found()).metadata.deletion_timestamp is not None
    await asyncio.sleep(1.5)
    with pytest.raises(NotFound):
        await found()
