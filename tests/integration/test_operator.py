"""From a pending pod to a running one: the whole operator on the embedded cluster and the cloud in memory."""

from __future__ import annotations

import asyncio

import pytest

from karpenter.api import labels
from karpenter.api.dra import ResourceSlice
from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter.api.meta import find_status_condition
from karpenter.api.nodepool import NodePool
from karpenter.cloud.errors import LaunchRefused
from karpenter.cloud.kwok import Behaviour, Fail, LoseResponse, NeverJoin
from karpenter.kube.patches import MergePatch
from karpenter_local.sandbox.cloud import create_kwok_node_class
from karpenter_local.sandbox.options import KwokOptions
from karpenter_local.sandbox.sandbox import Sandbox
from karpenter_local.virtual import run_virtual
from tests.integration.lagging import Lagging
from tests.integration.sandboxes import in_sandbox, through


@in_sandbox()
async def test_pods_that_wait_get_machines(sandbox: Sandbox) -> None:
    """Ten pods become claims, machines, nodes, and run; nothing is launched twice."""
    await sandbox.create_node_pool()
    await sandbox.deploy(replicas=10)
    await sandbox.until_running(10)
    await asyncio.sleep(60)

    claims, nodes = await sandbox.node_claims(), await sandbox.nodes()
    assert len(claims) == len(nodes) == sandbox.cloud.count()
    assert sum(float(str(node.status.allocatable["cpu"]).rstrip("m")) for node in nodes) >= 10


@in_sandbox()
async def test_a_claim_carries_all_that_is_needed(sandbox: Sandbox) -> None:
    """A claim names its pool, owner, hash, instance types and requests; its node takes over its labels."""
    await sandbox.create_node_pool(
        template={
            "metadata": {"labels": {"team": "web"}, "annotations": {"note": "yes"}},
            "spec": {"expireAfter": "48h", "terminationGracePeriod": "30s"},
        }
    )
    pool = await sandbox.client.get(NodePool, "default")
    await sandbox.deploy(replicas=1)
    await sandbox.until_running(1)
    await asyncio.sleep(1)

    claim, node = (await sandbox.node_claims())[0], (await sandbox.nodes())[0]
    assert claim.name.startswith("default-")
    assert claim.metadata.labels["team"] == node.metadata.labels["team"] == "web"
    assert claim.metadata.labels[labels.NODEPOOL] == "default"
    assert claim.metadata.annotations["note"] == node.metadata.annotations["note"] == "yes"
    assert claim.metadata.annotations[labels.NODEPOOL_HASH_VERSION] == "v3"
    assert claim.metadata.finalizers == node.metadata.finalizers == (labels.TERMINATION_FINALIZER,)
    owner = claim.metadata.owner_references[0]
    assert (owner.kind, owner.uid, owner.block_owner_deletion) == ("NodePool", pool.metadata.uid, True)
    assert node.metadata.owner_references[0].uid == claim.metadata.uid
    assert (claim.spec.expire_after, claim.spec.termination_grace_period) == ("48h", "30s")
    assert claim.spec.resources.requests == {"cpu": "1", "memory": "256Mi", "pods": "1"}
    types = next(each for each in claim.spec.requirements if each.key == labels.INSTANCE_TYPE)
    assert claim.metadata.labels[labels.INSTANCE_TYPE] in types.values
    assert {each.type: each.status for each in claim.status.conditions if each.type != "Consolidatable"} == {
        "Launched": "True",
        "Registered": "True",
        "Initialized": "True",
        "ConsistentStateFound": "True",
        "Ready": "True",
    }
    assert node.metadata.labels[labels.REGISTERED] == node.metadata.labels[labels.INITIALIZED] == "true"
    assert not node.spec.taints


@pytest.mark.parametrize(
    ("seconds", "late_kinds"),
    [
        pytest.param(3.0, ("nodeclaims", "nodes"), id="claims and nodes come a little late"),
        pytest.param(30.0, ("nodeclaims", "nodes"), id="claims and nodes come far too late"),
        pytest.param(15.0, ("pods",), id="pods come late"),
        pytest.param(15.0, ("nodes",), id="nodes come late, and the pods on them do not"),
        pytest.param(15.0, ("nodeclaims", "nodes", "pods", "nodepools"), id="everything comes late"),
    ],
)
def test_nothing_is_launched_twice_while_watches_lag(seconds: float, late_kinds: tuple[str, ...]) -> None:
    """The replies to our own writes count at once, however late the watches are."""

    async def scenario() -> None:
        async with Sandbox(name="test") as sandbox:
            late = through(lambda inner: Lagging(inner, seconds, *late_kinds))
            await sandbox.restart_operator(seams=late)
            await sandbox.create_node_pool()
            await sandbox.deploy(replicas=10)
            await sandbox.until(sandbox.cloud.count)
            launched = sandbox.cloud.count()
            await sandbox.deploy("more", replicas=5)
            await sandbox.until_running(15)
            await asyncio.sleep(90)

            assert launched <= sandbox.cloud.count() <= 4
            assert len(await sandbox.node_claims()) == sandbox.cloud.count()
            cpus = sum(
                int(m.labels["karpenter.kwok.sh/instance-cpu"]) for m in sandbox.kwok.control.machines()
            )
            assert cpus <= 24

    run_virtual(scenario())


@in_sandbox()
async def test_a_tight_plan_is_not_loosened_while_its_machines_come(sandbox: Sandbox) -> None:
    """Pods that were given places are not looked at again before they could have taken them."""
    delayed = {"spec": {"nodeRegistrationDelay": "5s"}}
    await sandbox.client.patch(KWOKNodeClass, "default", MergePatch(delayed))
    await sandbox.create_node_pool()
    claims: list[int] = []
    assert sandbox.leader is not None
    sandbox.leader.operator.provisioner.subscribe(lambda decision: claims.append(len(decision.claims)))
    await sandbox.deploy("small", replicas=60, cpu="900m")
    await sandbox.deploy("large", replicas=60, cpu="3500m")
    await sandbox.until(sandbox.cloud.count)
    sandbox.leader.operator.provisioner.trigger("the test asks again")
    await sandbox.until(lambda: len(claims) > 1)

    assert claims[0] > 0
    assert claims[1:] == [0]


@in_sandbox()
async def test_pods_are_told_where_they_go_or_why_not(sandbox: Sandbox) -> None:
    """A pod with a place is nominated; one that nothing can serve learns why."""
    await sandbox.create_node_pool()
    await sandbox.deploy("fits", replicas=1)
    await sandbox.deploy("huge", replicas=1, cpu="100000")
    await sandbox.until(lambda: sandbox.events("FailedScheduling"))
    await asyncio.sleep(10)

    told = [each for each in await sandbox.events("FailedScheduling") if each.source.component == "karpenter"]
    assert [each.involved_object.name.partition("-")[0] for each in told] == ["huge"]
    assert {each.involved_object.name.partition("-")[0] for each in await sandbox.events("Nominated")} == {
        "fits"
    }


@in_sandbox()
async def test_a_pool_without_its_class_is_not_used(sandbox: Sandbox) -> None:
    """A pool says why it cannot be used, and gets machines once that is put right."""
    template = {
        "spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "b"}}
    }
    await sandbox.create_node_pool(template=template)
    await sandbox.deploy(replicas=1)
    await asyncio.sleep(30)
    pool = await sandbox.client.get(NodePool, "default")
    found = find_status_condition(pool.status.conditions, "NodeClassReady")
    assert found is not None
    assert (found.status, found.reason) == ("False", "NodeClassNotFound")
    assert not await sandbox.node_claims()

    await create_kwok_node_class(sandbox.client, "b")
    await sandbox.until_running(1)


@in_sandbox()
async def test_limits_are_kept(sandbox: Sandbox) -> None:
    """A pool launches no more than its limits allow, however many pods wait."""
    await sandbox.create_node_pool(limits={"cpu": "8"})
    await sandbox.deploy(replicas=20)
    await asyncio.sleep(120)

    cpus = [int(m.labels["karpenter.kwok.sh/instance-cpu"]) for m in sandbox.kwok.control.machines()]
    assert 4 <= sum(cpus) <= 8
    pool = await sandbox.client.get(NodePool, "default")
    assert pool.status.nodes == len(cpus)
    assert pool.status.resources["cpu"] == str(sum(cpus))


@in_sandbox()
async def test_what_is_sold_out_is_not_waited_for(sandbox: Sandbox) -> None:
    """A claim that cannot be had is given up, and the pods get other machines."""
    sandbox.kwok.control.sell_out(zone="test-zone-a")
    sandbox.kwok.control.sell_out(zone="test-zone-b")
    sandbox.kwok.control.sell_out(zone="test-zone-c")
    await sandbox.create_node_pool()
    await sandbox.deploy(replicas=3)
    await sandbox.until_running(3)

    zones = {node.metadata.labels[labels.ZONE] for node in await sandbox.nodes()}
    assert zones == {"test-zone-d"}


@in_sandbox()
async def test_a_claim_without_any_offering_is_given_up(sandbox: Sandbox) -> None:
    """When nothing at all can be had, claims are removed with a word, and pods wait for better times."""
    sandbox.kwok.control.sell_out()
    await sandbox.create_node_pool()
    await sandbox.deploy(replicas=1)
    await sandbox.until(lambda: sandbox.events("InsufficientCapacityError"))
    sandbox.kwok.control.restock()
    await sandbox.until_running(1)

    assert len(await sandbox.node_claims()) == 1


@in_sandbox()
async def test_a_lost_answer_launches_nothing_twice(sandbox: Sandbox) -> None:
    """A launch whose answer was lost is asked for again, and gives the machine that is there."""
    sandbox.kwok.control.next("launch", LoseResponse(), LoseResponse())
    await sandbox.create_node_pool()
    await sandbox.deploy(replicas=1)
    await sandbox.until_running(1)

    assert sandbox.cloud.count() == 1


@in_sandbox()
async def test_a_refused_launch_says_why_and_is_tried_again(sandbox: Sandbox) -> None:
    """What the cloud says becomes the reason of the condition, until it changes its mind."""
    refusals = [Fail(LaunchRefused(reason="Unauthorized", message="no right to launch"))] * 3
    sandbox.kwok.control.next("launch", *refusals)
    await sandbox.create_node_pool()
    await sandbox.deploy(replicas=1)

    async def says_why() -> bool:
        found = [
            find_status_condition(claim.status.conditions, "Launched")
            for claim in await sandbox.node_claims()
        ]
        return any(each is not None and each.reason == "Unauthorized" for each in found)

    await sandbox.until(says_why)
    await sandbox.until_running(1)
    assert sandbox.cloud.count() == 1


@in_sandbox()
async def test_a_machine_that_never_joins_is_replaced(sandbox: Sandbox) -> None:
    """After fifteen minutes without a node the claim is given up, and another takes its place."""
    sandbox.kwok.control.next("launch", NeverJoin())
    await sandbox.create_node_pool()
    await sandbox.deploy(replicas=1)
    await asyncio.sleep(14 * 60)
    first = (await sandbox.node_claims())[0]
    assert not await sandbox.nodes()

    await sandbox.until_running(1)
    assert [claim.name for claim in await sandbox.node_claims()] != [first.name]
    assert sandbox.cloud.count() == 1


@pytest.mark.parametrize("moment", [0.5, 1.0, 1.2, 1.6, 2.0, 2.2, 2.5, 3.0])
def test_a_restart_at_any_moment_loses_nothing(moment: float) -> None:
    """Whenever the operator is killed, its successor finishes the work, with no machine too many."""

    async def scenario() -> None:
        async with Sandbox(name="test", cloud=KwokOptions(behaviour=Behaviour(launch=1.0))) as sandbox:
            await sandbox.create_node_pool()
            await sandbox.deploy(replicas=10)
            await asyncio.sleep(moment)
            await sandbox.stop_operator()
            await asyncio.sleep(1.0)
            await sandbox.start_operator()
            await sandbox.until_running(10)
            await asyncio.sleep(200)

            assert len(await sandbox.node_claims()) == len(await sandbox.nodes()) == sandbox.cloud.count()
            assert sandbox.cloud.count() == 2

    run_virtual(scenario())


@in_sandbox()
async def test_startup_taints_keep_a_node_from_being_complete(sandbox: Sandbox) -> None:
    """A node is initialized once the owner of a startup taint has removed it."""
    taint = {"key": "example.com/setup", "effect": "NoSchedule"}
    await sandbox.create_node_pool(template={"spec": {"startupTaints": [taint]}})
    await sandbox.deploy(replicas=1)
    await sandbox.until(sandbox.nodes)
    await asyncio.sleep(10)
    claim = (await sandbox.node_claims())[0]
    found = find_status_condition(claim.status.conditions, "Initialized")
    assert found is not None
    assert (found.status, found.reason) == ("Unknown", "StartupTaintsExist")

    node = (await sandbox.nodes())[0]
    await sandbox.client.patch(type(node), node.name, MergePatch({"spec": {"taints": None}}))
    await sandbox.until_running(1)


@in_sandbox(settings={"ignore-dra-requests": "false"})
async def test_a_node_is_complete_once_its_devices_are_shown(sandbox: Sandbox) -> None:
    """With devices switched on, a node whose pods need a driver waits until that has shown a whole pool."""
    await sandbox.create_node_pool(
        template={"metadata": {"annotations": {labels.REQUESTED_DRA_DRIVERS: "gpu.example.com"}}}
    )
    await sandbox.deploy(replicas=1)
    await sandbox.until(sandbox.nodes)
    await asyncio.sleep(10)
    (claim,), (node,) = await sandbox.node_claims(), await sandbox.nodes()
    found = find_status_condition(claim.status.conditions, "Initialized")
    assert found is not None
    assert (found.status, found.reason) == ("Unknown", "DRADriverPoolsNotPublished")

    pool = {"name": "gpus", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": node.name, "devices": []}
    await sandbox.client.create(ResourceSlice, {"metadata": {"name": "gpus"}, "spec": spec})

    async def complete() -> bool:
        return (await sandbox.nodes())[0].metadata.labels.get(labels.INITIALIZED) == "true"

    await sandbox.until(complete)
