"""From a pending pod to a running one: the whole operator on the embedded cluster and the cloud in memory."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from karpenter.api import labels
from karpenter.api.dra import ResourceSlice
from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter.api.nodepool import NodePool
from karpenter.base.ratelimiting import TokenBucket
from karpenter.cloud.errors import LaunchRefused
from karpenter.cloud.kwok import Behaviour, Fail, LoseAnswer, NeverJoin
from karpenter.core.state.view import condition
from karpenter.kube.client import Client
from karpenter.kube.verbs import MergePatch
from karpenter_local.apiserver.inprocess import InProcess
from karpenter_local.virtual import run_virtual
from tests.integration.lagging import Lagging
from tests.integration.world import World, in_world


@in_world()
async def test_pods_that_wait_get_machines(world: World) -> None:
    """Ten pods become claims, machines, nodes, and run; nothing is launched twice."""
    await world.pool()
    await world.deploy(replicas=10)
    await world.settled(10)
    await asyncio.sleep(60)

    claims, nodes = await world.claims(), await world.nodes()
    assert len(claims) == len(nodes) == world.machines()
    assert sum(float(str(node.status.allocatable["cpu"]).rstrip("m")) for node in nodes) >= 10


@in_world()
async def test_a_claim_carries_all_that_is_needed(world: World) -> None:
    """A claim names its pool, owner, hash, instance types and requests; its node takes over its labels."""
    await world.pool(
        template={
            "metadata": {"labels": {"team": "web"}, "annotations": {"note": "yes"}},
            "spec": {"expireAfter": "48h", "terminationGracePeriod": "30s"},
        }
    )
    pool = await world.client.get(NodePool, "default")
    await world.deploy(replicas=1)
    await world.settled(1)
    await asyncio.sleep(1)

    claim, node = (await world.claims())[0], (await world.nodes())[0]
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
        async with World() as world:
            await world.stop()
            inner = InProcess(world.cluster.server)
            late = Lagging(inner, seconds, *late_kinds)
            client = Client(late, chance=Random(1), bucket=TokenBucket(rate=1e9, burst=1e9))  # noqa: S311
            await world.start(client)
            await world.pool()
            await world.deploy(replicas=10)
            await world.until(world.machines)
            launched = world.machines()
            await world.deploy("more", replicas=5)
            await world.settled(15)
            await asyncio.sleep(90)

            assert launched <= world.machines() <= 4
            assert len(await world.claims()) == world.machines()
            cpus = sum(
                int(m.labels["karpenter.kwok.sh/instance-cpu"]) for m in world.cloud.control.machines()
            )
            assert cpus <= 24

    run_virtual(scenario())


@in_world()
async def test_a_tight_plan_is_not_loosened_while_its_machines_come(world: World) -> None:
    """Pods that were given places are not looked at again before they could have taken them."""
    delayed = {"spec": {"nodeRegistrationDelay": "5s"}}
    await world.client.patch(KWOKNodeClass, "default", MergePatch(delayed))
    await world.pool()
    claims: list[int] = []
    assert world.operator is not None
    world.operator.provisioner.subscribe(lambda decision: claims.append(len(decision.claims)))
    await world.deploy("small", replicas=60, cpu="900m")
    await world.deploy("large", replicas=60, cpu="3500m")
    await world.until(world.machines)
    world.operator.provisioner.trigger("somebody asks again")
    await world.until(lambda: len(claims) > 1)

    assert claims[0] > 0
    assert claims[1:] == [0]


@in_world()
async def test_pods_are_told_where_they_go_or_why_not(world: World) -> None:
    """A pod with a place is nominated; one that nothing can serve learns why."""
    await world.pool()
    await world.deploy("fits", replicas=1)
    await world.deploy("huge", replicas=1, cpu="100000")
    await world.until(lambda: world.events("FailedScheduling"))
    await asyncio.sleep(10)

    told = [each for each in await world.events("FailedScheduling") if each.source.component == "karpenter"]
    assert [each.involved_object.name.partition("-")[0] for each in told] == ["huge"]
    assert {each.involved_object.name.partition("-")[0] for each in await world.events("Nominated")} == {
        "fits"
    }


@in_world()
async def test_a_pool_without_its_class_is_not_used(world: World) -> None:
    """A pool says why it cannot be used, and gets machines once that is put right."""
    template = {
        "spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "b"}}
    }
    await world.pool(template=template)
    await world.deploy(replicas=1)
    await asyncio.sleep(30)
    pool = await world.client.get(NodePool, "default")
    found = condition(pool.status.conditions, "NodeClassReady")
    assert found is not None
    assert (found.status, found.reason) == ("False", "NodeClassNotFound")
    assert not await world.claims()

    await world.node_class("b")
    await world.settled(1)


@in_world()
async def test_limits_are_kept(world: World) -> None:
    """A pool launches no more than its limits allow, however many pods wait."""
    await world.pool(limits={"cpu": "8"})
    await world.deploy(replicas=20)
    await asyncio.sleep(120)

    cpus = [int(m.labels["karpenter.kwok.sh/instance-cpu"]) for m in world.cloud.control.machines()]
    assert 4 <= sum(cpus) <= 8
    pool = await world.client.get(NodePool, "default")
    assert pool.status.nodes == len(cpus)
    assert pool.status.resources["cpu"] == str(sum(cpus))


@in_world()
async def test_what_is_sold_out_is_not_waited_for(world: World) -> None:
    """A claim that cannot be had is given up, and the pods get other machines."""
    world.cloud.control.sell_out(zone="test-zone-a")
    world.cloud.control.sell_out(zone="test-zone-b")
    world.cloud.control.sell_out(zone="test-zone-c")
    await world.pool()
    await world.deploy(replicas=3)
    await world.settled(3)

    zones = {node.metadata.labels[labels.ZONE] for node in await world.nodes()}
    assert zones == {"test-zone-d"}


@in_world()
async def test_a_claim_without_any_offering_is_given_up(world: World) -> None:
    """When nothing at all can be had, claims are removed with a word, and pods wait for better times."""
    world.cloud.control.sell_out()
    await world.pool()
    await world.deploy(replicas=1)
    await world.until(lambda: world.events("InsufficientCapacityError"))
    world.cloud.control.restock()
    await world.settled(1)

    assert len(await world.claims()) == 1


@in_world()
async def test_a_lost_answer_launches_nothing_twice(world: World) -> None:
    """A launch whose answer was lost is asked for again, and gives the machine that is there."""
    world.cloud.control.next("launch", LoseAnswer(), LoseAnswer())
    await world.pool()
    await world.deploy(replicas=1)
    await world.settled(1)

    assert world.machines() == 1


@in_world()
async def test_a_refused_launch_says_why_and_is_tried_again(world: World) -> None:
    """What the cloud says becomes the reason of the condition, until it changes its mind."""
    refusals = [Fail(LaunchRefused(reason="Unauthorized", message="no right to launch"))] * 3
    world.cloud.control.next("launch", *refusals)
    await world.pool()
    await world.deploy(replicas=1)

    async def says_why() -> bool:
        found = [condition(claim.status.conditions, "Launched") for claim in await world.claims()]
        return any(each is not None and each.reason == "Unauthorized" for each in found)

    await world.until(says_why)
    await world.settled(1)
    assert world.machines() == 1


@in_world()
async def test_a_machine_that_never_joins_is_replaced(world: World) -> None:
    """After fifteen minutes without a node the claim is given up, and another takes its place."""
    world.cloud.control.next("launch", NeverJoin())
    await world.pool()
    await world.deploy(replicas=1)
    await asyncio.sleep(14 * 60)
    first = (await world.claims())[0]
    assert not await world.nodes()

    await world.settled(1)
    assert [claim.name for claim in await world.claims()] != [first.name]
    assert world.machines() == 1


@pytest.mark.parametrize("moment", [0.5, 1.0, 1.2, 1.6, 2.0, 2.2, 2.5, 3.0])
def test_a_restart_at_any_moment_loses_nothing(moment: float) -> None:
    """Whenever the operator is killed, its successor finishes the work, with no machine too many."""

    async def scenario() -> None:
        async with World(behaviour=Behaviour(launch=1.0)) as world:
            await world.pool()
            await world.deploy(replicas=10)
            await asyncio.sleep(moment)
            await world.stop()
            await asyncio.sleep(1.0)
            await world.start()
            await world.settled(10)
            await asyncio.sleep(200)

            assert len(await world.claims()) == len(await world.nodes()) == world.machines()
            assert world.machines() == 2

    run_virtual(scenario())


@in_world()
async def test_startup_taints_keep_a_node_from_being_complete(world: World) -> None:
    """A node is complete when whoever owns a startup taint has removed it."""
    taint = {"key": "example.com/setup", "effect": "NoSchedule"}
    await world.pool(template={"spec": {"startupTaints": [taint]}})
    await world.deploy(replicas=1)
    await world.until(world.nodes)
    await asyncio.sleep(10)
    claim = (await world.claims())[0]
    found = condition(claim.status.conditions, "Initialized")
    assert found is not None
    assert (found.status, found.reason) == ("Unknown", "StartupTaintsExist")

    node = (await world.nodes())[0]
    await world.client.patch(type(node), node.name, MergePatch({"spec": {"taints": None}}))
    await world.settled(1)


@in_world(settings={"ignore-dra-requests": "false"})
async def test_a_node_is_complete_once_its_devices_are_shown(world: World) -> None:
    """With devices switched on, a node whose pods need a driver waits until that has shown a whole pool."""
    await world.pool(
        template={"metadata": {"annotations": {labels.REQUESTED_DRA_DRIVERS: "gpu.example.com"}}}
    )
    await world.deploy(replicas=1)
    await world.until(world.nodes)
    await asyncio.sleep(10)
    (claim,), (node,) = await world.claims(), await world.nodes()
    found = condition(claim.status.conditions, "Initialized")
    assert found is not None
    assert (found.status, found.reason) == ("Unknown", "DRADriverPoolsNotPublished")

    pool = {"name": "gpus", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": node.name, "devices": []}
    await world.client.create(ResourceSlice, {"metadata": {"name": "gpus"}, "spec": spec})

    async def complete() -> bool:
        return (await world.nodes())[0].metadata.labels.get(labels.INITIALIZED) == "true"

    await world.until(complete)
