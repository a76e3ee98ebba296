"""What works only behind a gate: repair, static pools, overlays and buffers, on the whole operator."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.labels import INSTANCE_TYPE
from karpenter.api.meta import find_status_condition
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import PodTemplate
from karpenter.base.ratelimiting import TokenBucket
from karpenter.cloud.errors import LaunchRefused
from karpenter.cloud.kwok import Fail
from karpenter.kube.client import Client
from karpenter.kube.rest import MergePatch
from karpenter_local.apiserver.inprocess import InProcess
from karpenter_local.virtual import run_virtual
from tests.integration.lagging import Lagging
from tests.integration.world import World, in_world

REPAIR = {"feature-gates": "NodeRepair=true"}
STATIC = {"feature-gates": "StaticCapacity=true"}
OVERLAYS = {"feature-gates": "NodeOverlay=true"}
BUFFERS = {"feature-gates": "CapacityBuffer=true"}
POD = {"containers": [{"name": "app", "image": "pause", "resources": {"requests": {"cpu": "1"}}}]}


async def resize(world: World, replicas: int) -> None:
    """Ask for another number of machines."""
    await world.client.patch(NodePool, "default", MergePatch({"spec": {"replicas": replicas}}))


async def complete(world: World, count: int) -> None:
    """Let time pass until so many claims are ready, and no other is there."""

    async def so() -> bool:
        found = [find_status_condition(each.status.conditions, "Ready") for each in await world.claims()]
        return len(found) == count and all(each is not None and each.status == "True" for each in found)

    await world.until(so)


@in_world(settings=REPAIR)
async def test_a_broken_node_is_replaced(world: World) -> None:
    """After ten minutes of not being ready a node is replaced, and its pods run again."""
    await world.pool()
    await world.deploy(replicas=3)
    await world.settled(3)
    (broken,) = await world.nodes()
    world.cluster.fleet.make(broken.name, "unready")
    await asyncio.sleep(9 * 60)
    assert broken.name in {node.name for node in await world.nodes()}

    async def replaced() -> bool:
        return broken.name not in {node.name for node in await world.nodes()}

    await world.until(replaced, within=180)
    await world.settled(3)


@in_world(settings=REPAIR)
async def test_nothing_is_replaced_when_most_are_broken(world: World) -> None:
    """Where half of a pool is broken, the nodes say so and stay."""
    await world.pool()
    await world.deploy(replicas=2, cpu="30")
    await world.settled(2)
    await world.deploy("more", replicas=2, cpu="200")
    await world.settled(4)
    nodes = await world.nodes()
    assert len(nodes) >= 3
    for node in nodes[:2]:
        world.cluster.fleet.make(node.name, "unready")
    await world.until(lambda: world.events("NodeRepairBlocked"), within=700)
    await asyncio.sleep(60)

    assert {node.name for node in nodes} <= {node.name for node in await world.nodes()}


@in_world()
async def test_a_broken_node_stays_while_the_gate_is_closed(world: World) -> None:
    """Nobody replaces nodes that nobody asked to have replaced."""
    await world.pool()
    await world.deploy(replicas=1)
    await world.settled(1)
    (node,) = await world.nodes()
    world.cluster.fleet.make(node.name, "unready")
    await asyncio.sleep(1200)

    assert node.name in {each.name for each in await world.nodes()}


@in_world(settings=STATIC)
async def test_a_static_pool_keeps_its_size(world: World) -> None:
    """A pool has as many machines as it says, grows and shrinks with that, and replaces what is lost."""
    await world.pool(replicas=3)
    await complete(world, 3)
    await resize(world, 5)
    await complete(world, 5)
    world.cloud.control.kill(world.cloud.control.machines()[0].provider_id)
    await asyncio.sleep(400)
    await complete(world, 5)
    await resize(world, 2)
    await complete(world, 2)
    await world.until(lambda: world.machines() == 2)
    await resize(world, 0)
    await world.until(world.empty)


@in_world(settings=STATIC)
async def test_a_static_pool_keeps_its_limit(world: World) -> None:
    """No more machines are launched than the limit on nodes allows."""
    await world.pool(replicas=5, limits={"nodes": "2"})
    await complete(world, 2)
    await asyncio.sleep(120)
    assert world.machines() == 2

    await world.client.patch(NodePool, "default", MergePatch({"spec": {"limits": {"nodes": "4"}}}))
    await complete(world, 4)


@in_world(settings=STATIC)
async def test_pods_use_static_nodes_and_get_none(world: World) -> None:
    """A static pool serves pods with what it has, and launches nothing for them."""
    await world.pool(replicas=1)
    await complete(world, 1)
    await world.deploy(replicas=40, cpu="400m")
    await asyncio.sleep(120)

    assert 0 < await world.running() < 40
    assert world.machines() == 1


@in_world()
async def test_static_pools_do_nothing_while_the_gate_is_closed(world: World) -> None:
    """Without the gate a pool with replicas launches nothing."""
    await world.pool(replicas=3)
    await asyncio.sleep(120)

    assert not await world.claims()


@in_world(settings=STATIC)
async def test_failed_launches_of_a_static_pool_are_not_multiplied(world: World) -> None:
    """A launch that is refused for a while is tried again; the pool ends with what it wants."""
    refusals = [Fail(LaunchRefused(reason="Unauthorized", message="no right to launch"))] * 6
    world.cloud.control.next("launch", *refusals)
    await world.pool(replicas=3)
    await complete(world, 3)
    await asyncio.sleep(200)

    assert world.machines() == len(await world.claims()) == 3


@pytest.mark.parametrize("seconds", [3.0, 30.0])
def test_static_pools_launch_nothing_twice_while_watches_lag(seconds: float) -> None:
    """Replies to our own writes count at once, however late the watches of claims, nodes and pools are."""

    async def scenario() -> None:
        async with World(settings=STATIC) as world:
            await world.stop()
            late = Lagging(InProcess(world.cluster.server), seconds, "nodeclaims", "nodes")
            client = Client(late, chance=Random(1), bucket=TokenBucket(rate=1e9, burst=1e9))  # noqa: S311
            await world.start(client)
            await world.pool(replicas=3)
            most = 0
            for _ in range(480):
                await asyncio.sleep(0.25)
                most = max(most, world.machines(), len(await world.claims()))
            await resize(world, 1)
            await complete(world, 1)
            await asyncio.sleep(90)

            assert most == 3
            assert world.machines() == 1

    run_virtual(scenario())


def overlay(name: str, types: list[str], **spec: Any) -> dict[str, Any]:
    """Return an overlay about some instance types."""
    requirements = [{"key": INSTANCE_TYPE, "operator": "In", "values": types}]
    return {"metadata": {"name": name}, "spec": {"requirements": requirements, **spec}}


@in_world(settings=OVERLAYS)
async def test_overlays_say_if_they_hold_and_change_what_is_bought(world: World) -> None:
    """Of two of one weight one is refused; the price of the other decides which machine is launched."""
    await world.pool()
    wanted = "m-256x-amd64-linux"
    await world.client.create(NodeOverlay, overlay("cheap", [wanted], price="0.0001", weight=5))
    await world.client.create(NodeOverlay, overlay("also", [wanted], price="0.0002", weight=5))

    async def standing(name: str) -> tuple[str, str]:
        found = await world.client.get(NodeOverlay, name)
        said = find_status_condition(found.status.conditions, "ValidationSucceeded")
        return (said.status, said.reason) if said is not None else ("", "")

    async def refused() -> bool:
        return await standing("also") == ("False", "Conflict")

    await world.until(refused)
    assert await standing("cheap") == ("True", "ValidationSucceeded")
    await world.deploy(replicas=1)
    await world.settled(1)
    (claim,) = await world.claims()
    assert claim.metadata.annotations["karpenter.sh/price-overlay-applied"] == "true"

    await world.client.delete(NodeOverlay, "cheap")

    async def holds() -> bool:
        return await standing("also") == ("True", "ValidationSucceeded")

    await world.until(holds)


@in_world(settings=BUFFERS)
async def test_buffers_get_their_room_and_say_so(world: World) -> None:
    """A buffer says that its template is missing, gets nodes once it is there, and says that they exist."""
    await world.pool()
    spec = {"podTemplateRef": {"name": "web"}, "replicas": 3}
    await world.client.create(
        CapacityBuffer, {"metadata": {"name": "spare"}, "spec": spec}, namespace="default"
    )

    async def said(kind: str) -> tuple[str, str]:
        found = await world.client.get(CapacityBuffer, "spare", namespace="default")
        held = find_status_condition(found.status.conditions, kind)
        return (held.status, held.reason) if held is not None else ("", "")

    async def says(kind: str, status: str, reason: str) -> None:
        async def so() -> bool:
            return await said(kind) == (status, reason)

        await world.until(so)

    await says("ReadyForProvisioning", "False", "PodTemplateNotFound")
    await says("Provisioning", "False", "NotReadyForProvisioning")
    await world.client.create(
        PodTemplate, {"metadata": {"name": "web"}, "template": {"spec": POD}}, namespace="default"
    )
    await says("ReadyForProvisioning", "True", "Resolved")
    await says("Provisioning", "False", "RequiresNewCapacity")
    await says("Provisioning", "True", "FitsExistingCapacity")
    assert world.machines() >= 1
    found = await world.client.get(CapacityBuffer, "spare", namespace="default")
    assert found.status.replicas == 3

    await world.client.patch(
        CapacityBuffer, "spare", MergePatch({"spec": {"replicas": 0}}), namespace="default"
    )
    await says("Provisioning", "False", "BufferEmpty")
