"""Workload controllers at work: who adopts whom, what is refused, what goes with what."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.cluster import PodDisruptionBudget
from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.api.storage import PersistentVolumeClaim
from karpenter.kube.patches import MergePatch
from karpenter_local.controllers import templates
from karpenter_local.controllers.informers import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    REVISIONS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
)
from tests.unit.local.controllers.clusters import Small, small_cluster, template, workload

if TYPE_CHECKING:
    from karpenter.kube.targets import Plain


@pytest.fixture
async def small() -> AsyncIterator[Small]:
    """A cluster of two nodes."""
    async with small_cluster() as running:
        yield running


async def test_a_stray_pod_is_adopted(small: Small) -> None:
    """A pod that matches and has no controller counts as one of the set's own."""
    stray = {"metadata": {"name": "stray", "labels": {"app": "web"}}, "spec": template("web")["spec"]}
    await small.make(Pod, stray)
    await small.make(REPLICA_SETS, workload("web", replicas=2))

    found = await small.pods()

    assert len(found) == 2
    assert {each.metadata.owner_references[0].name for each in found} == {"web"}


async def test_a_pod_that_no_longer_matches_is_let_go(small: Small) -> None:
    """A pod whose label was changed is replaced, and left alone."""
    await small.make(REPLICA_SETS, workload("web", replicas=1))
    name = (await small.pods())[0].name

    await small.change(Pod, name, metadata={"labels": {"app": "debug"}})

    found = {each.name: each for each in await small.pods()}
    assert len(found) == 2
    assert found[name].metadata.owner_references == ()


async def test_a_stray_set_is_adopted(small: Small) -> None:
    """A replica set that matches and has no controller is adopted, and may be released again."""
    labels = {"app": "web", templates.HASH_LABEL: "old"}
    old = workload("web-old", replicas=1)
    old["spec"]["selector"] = {"matchLabels": labels}
    old["spec"]["template"]["metadata"]["labels"] = labels
    old["metadata"]["labels"] = labels
    await small.make(REPLICA_SETS, old)
    await small.make(DEPLOYMENTS, workload("web", replicas=1))

    taken = await small.get(REPLICA_SETS, "web-old")
    assert taken["metadata"]["ownerReferences"][0]["kind"] == "Deployment"
    await small.change(REPLICA_SETS, "web-old", metadata={"labels": {"app": "other"}})
    let_go = await small.get(REPLICA_SETS, "web-old")
    assert not let_go["metadata"].get("ownerReferences")


async def test_what_the_server_refuses_is_told(small: Small) -> None:
    """A pod that may not be made shows as a condition of the set and of its deployment, and as an event."""
    broken = workload("web", template=template("web", priorityClassName="missing"))
    await small.make(DEPLOYMENTS, broken)

    deployment = await small.get(DEPLOYMENTS, "web")
    failures = [each for each in deployment["status"]["conditions"] if each["type"] == "ReplicaFailure"]
    assert [each["reason"] for each in failures] == ["FailedCreate"]
    assert any("missing" in message for message in await small.told("FailedCreate"))


async def test_a_name_that_is_taken(small: Small) -> None:
    """A deployment whose set's name is taken by another finds another name."""
    probe = workload("web")
    made = await small.make(DEPLOYMENTS, probe)
    name = (await small.names(REPLICA_SETS))[0]
    await small.delete(DEPLOYMENTS, "web", propagation="Foreground")
    taken = workload(name)
    await small.make(REPLICA_SETS, taken)

    await small.make(DEPLOYMENTS, probe)
    await asyncio.sleep(5)

    assert made["metadata"]["name"] == "web"
    sets = [each for each in await small.names(REPLICA_SETS) if each != name]
    assert len(sets) == 1
    assert (await small.get(DEPLOYMENTS, "web"))["status"]["collisionCount"] == 1


async def test_a_paused_deployment_scales_but_does_not_roll(small: Small) -> None:
    """Pausing holds back templates, not counts; resuming lets the template through."""
    await small.make(DEPLOYMENTS, workload("web", replicas=1))
    await small.change(DEPLOYMENTS, "web", spec={"paused": True})
    reason = [each["reason"] for each in (await small.get(DEPLOYMENTS, "web"))["status"]["conditions"]]
    assert "DeploymentPaused" in reason

    await small.change(
        DEPLOYMENTS, "web", spec={"replicas": 3, "template": template("web", notes={"v": "2"})}
    )
    assert {each.metadata.annotations.get("v") for each in await small.pods()} == {None}
    assert len(await small.pods()) == 3

    await small.change(DEPLOYMENTS, "web", spec={"paused": False})
    await asyncio.sleep(10)
    assert {each.metadata.annotations.get("v") for each in await small.pods()} == {"2"}


async def test_a_deployment_that_is_stuck(small: Small) -> None:
    """A rollout without progress is called stuck after its deadline, and is fine again when it moves."""
    broken = template("web", notes={"local.karpenter.sh/ready-seconds": "never"})
    await small.make(DEPLOYMENTS, workload("web", replicas=1, progressDeadlineSeconds=30, template=broken))
    await asyncio.sleep(60)

    async def progressing() -> str:
        found = await small.get(DEPLOYMENTS, "web")
        return next(str(c["reason"]) for c in found["status"]["conditions"] if c["type"] == "Progressing")

    assert await progressing() == "ProgressDeadlineExceeded"
    fixed = template("web", notes={"local.karpenter.sh/ready-seconds": "0"})
    await small.change(DEPLOYMENTS, "web", spec={"template": fixed})
    await asyncio.sleep(10)
    assert await progressing() == "NewReplicaSetAvailable"


async def test_old_sets_are_forgotten(small: Small) -> None:
    """No more old sets are kept than the deployment wants."""
    await small.make(DEPLOYMENTS, workload("web", replicas=1, revisionHistoryLimit=1))
    for number in range(3):
        await small.change(DEPLOYMENTS, "web", spec={"template": template("web", notes={"v": str(number)})})
        await asyncio.sleep(5)

    assert len(await small.names(REPLICA_SETS)) == 2


async def test_claims_that_go_with_their_pods(small: Small) -> None:
    """A stateful set may take its claims along when it shrinks, and when it goes."""
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
    spec: dict[str, Any] = {
        "replicas": 2,
        "serviceName": "db",
        "podManagementPolicy": "Parallel",
        "volumeClaimTemplates": [claim],
        "persistentVolumeClaimRetentionPolicy": policy,
    }
    await small.make(STATEFUL_SETS, workload("db", **spec))
    assert await small.names(PersistentVolumeClaim) == ["data-db-0", "data-db-1"]

    await small.change(STATEFUL_SETS, "db", spec={"replicas": 1})
    await asyncio.sleep(5)
    assert await small.names(PersistentVolumeClaim) == ["data-db-0"]
    await small.delete(STATEFUL_SETS, "db", propagation="Background")
    await asyncio.sleep(10)
    assert await small.names(PersistentVolumeClaim) == []


async def test_history_is_brought_to_the_front(small: Small) -> None:
    """Going back to an earlier template brings its revision to the front; old ones are trimmed."""
    await small.make(DAEMON_SETS, workload("agent", revisionHistoryLimit=1))
    for note in ("2", "3", None):
        await small.change(DAEMON_SETS, "agent", spec={"template": template("agent", notes={"v": note})})
        await asyncio.sleep(10)

    revisions = [await small.get(REVISIONS, name) for name in await small.names(REVISIONS)]

    assert sorted(each["revision"] for each in revisions) == [3, 4]


async def test_a_failed_daemon_is_replaced(small: Small) -> None:
    """A daemon's pod that has failed is deleted and made anew."""
    await small.make(DAEMON_SETS, workload("agent"))
    victim = (await small.pods())[0].name
    failed = MergePatch({"status": {"phase": "Failed"}})
    await small.client.patch(Pod, victim, failed, namespace="default", subresource="status")
    await asyncio.sleep(5)

    assert victim not in await small.names(Pod)
    assert len(await small.names(Pod)) == 2
    assert await small.told("FailedDaemonPod")


@pytest.mark.parametrize(
    ("policy", "running"),
    [
        pytest.param("Allow", 3, id="side by side"),
        pytest.param("Forbid", 1, id="not while one runs"),
        pytest.param("Replace", 1, id="in its place"),
    ],
)
async def test_cron_jobs_that_overlap(small: Small, policy: str, running: int) -> None:
    """What happens to a job that is due while another runs is the cron job's choice."""
    endless = template("tick", restartPolicy="Never", notes={"local.karpenter.sh/run-seconds": "forever"})
    spec = {
        "schedule": "* * * * *",
        "concurrencyPolicy": policy,
        "jobTemplate": {"spec": {"template": endless}},
    }
    await small.make(CRON_JOBS, {"metadata": {"name": "tick"}, "spec": spec})
    await asyncio.sleep(190)

    cron = await small.get(CRON_JOBS, "tick")
    assert len(cron["status"]["active"]) == running
    assert bool(await small.told("JobAlreadyActive")) is (policy == "Forbid")
    assert len(await small.told("SuccessfulCreate")) >= (1 if policy == "Forbid" else 3)


async def test_cron_jobs_that_do_not_tick(small: Small) -> None:
    """A suspended cron job starts nothing; one that slept too long says so and starts one."""
    job = {"spec": {"template": template("tick", restartPolicy="Never")}}
    spec = {"schedule": "* * * * *", "suspend": True, "jobTemplate": job}
    await small.make(CRON_JOBS, {"metadata": {"name": "tick"}, "spec": spec})
    await asyncio.sleep(3 * 3600)
    assert await small.names(JOBS) == []

    await small.change(CRON_JOBS, "tick", spec={"suspend": False})
    assert len(await small.names(JOBS)) == 1
    assert len(await small.told("TooManyMissedTimes")) == 1


async def test_a_job_that_is_deleted_lets_its_pods_go(small: Small) -> None:
    """The pods of a deleted job are not held by the job's own finalizer."""
    endless = template("work", restartPolicy="Never", notes={"local.karpenter.sh/run-seconds": "forever"})
    await small.make(JOBS, {"metadata": {"name": "work"}, "spec": {"template": endless}})
    await small.delete(JOBS, "work", propagation="Background")
    await asyncio.sleep(10)

    assert await small.names(Pod) == []


async def test_a_job_that_is_suspended_and_resumed(small: Small) -> None:
    """Suspending takes the pods away, resuming brings new ones, and both are told."""
    endless = template("work", restartPolicy="Never", notes={"local.karpenter.sh/run-seconds": "forever"})
    await small.make(JOBS, {"metadata": {"name": "work"}, "spec": {"template": endless}})
    await small.change(JOBS, "work", spec={"suspend": True})
    await asyncio.sleep(5)
    assert await small.names(Pod) == []

    await small.change(JOBS, "work", spec={"suspend": False})
    assert len(await small.names(Pod)) == 1
    assert (await small.told("Suspended"), await small.told("Resumed")) == (
        ["Job suspended"],
        ["Job resumed"],
    )


async def test_an_eviction_that_came_to_nothing(small: Small) -> None:
    """A pod that was to be evicted and is still there after two minutes counts again."""
    await small.make(DEPLOYMENTS, workload("web", replicas=2))
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await small.make(PodDisruptionBudget, {"metadata": {"name": "web"}, "spec": budget})
    name = (await small.pods())[0].name
    noted = {"disruptedPods": {name: "2025-01-01T00:00:08Z"}, "disruptionsAllowed": 0}
    await small.client.patch(
        PodDisruptionBudget, "web", MergePatch({"status": noted}), namespace="default", subresource="status"
    )
    await asyncio.sleep(60)
    held = await small.get(PodDisruptionBudget, "web")
    assert (held.status.disruptions_allowed, list(held.status.disrupted_pods)) == (0, [name])

    await asyncio.sleep(70)
    again = await small.get(PodDisruptionBudget, "web")
    assert (again.status.disruptions_allowed, again.status.disrupted_pods) == (1, {})


async def test_a_service_account_is_made_again(small: Small) -> None:
    """Every namespace has a default service account, also after it was deleted."""
    before = await small.get(SERVICE_ACCOUNTS, "default")
    await small.delete(SERVICE_ACCOUNTS, "default")
    after = await small.get(SERVICE_ACCOUNTS, "default")

    assert before["metadata"]["uid"] != after["metadata"]["uid"]


async def test_pods_that_nobody_will_end(small: Small) -> None:
    """A pod that was written off with its node is cleared away though the node is still listed."""
    await small.make(REPLICA_SETS, workload("web", replicas=1))
    victim = (await small.pods())[0]
    small.cluster.hollow_nodes.make(victim.spec.node_name, "silent")
    await asyncio.sleep(60)
    await small.client.delete(Pod, victim.name, namespace="default")
    await asyncio.sleep(60)
    assert victim.name in await small.names(Pod)

    node = await small.client.get(Node, victim.spec.node_name)
    kept: list[Plain] = [{"key": each.key, "effect": each.effect} for each in node.spec.taints]
    written_off = {"key": "node.kubernetes.io/out-of-service", "value": "gone", "effect": "NoExecute"}
    await small.client.patch(Node, node.name, MergePatch({"spec": {"taints": [*kept, written_off]}}))
    await asyncio.sleep(30)
    assert victim.name not in await small.names(Pod)
