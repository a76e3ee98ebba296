"""What works only behind a gate: repair, static pools, overlays and buffers, on the whole operator."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter.api.labels import INSTANCE_TYPE
from karpenter.api.meta import find_status_condition
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import PodTemplate
from karpenter.cloud.errors import LaunchRefused
from karpenter.cloud.kwok import Fail
from karpenter.kube.patches import MergePatch
from karpenter_local.sandbox.sandbox import Sandbox
from karpenter_local.virtual import run_virtual
from tests.integration.lagging import Lagging
from tests.integration.sandboxes import in_sandbox, through

REPAIR = {"feature-gates": "NodeRepair=true"}
STATIC = {"feature-gates": "StaticCapacity=true"}
OVERLAYS = {"feature-gates": "NodeOverlay=true"}
BUFFERS = {"feature-gates": "CapacityBuffer=true"}
POD = {"containers": [{"name": "app", "image": "pause", "resources": {"requests": {"cpu": "1"}}}]}


async def resize(sandbox: Sandbox, replicas: int) -> None:
    await sandbox.client.patch(NodePool, "default", MergePatch({"spec": {"replicas": replicas}}))


async def complete(sandbox: Sandbox, count: int) -> None:
    """Let time pass until so many claims are ready, and no other is there."""

    async def so() -> bool:
        found = [
            find_status_condition(each.status.conditions, "Ready") for each in await sandbox.node_claims()
        ]
        return len(found) == count and all(each is not None and each.status == "True" for each in found)

    await sandbox.until(so)


@in_sandbox(settings=REPAIR)
async def test_a_broken_node_is_replaced(sandbox: Sandbox) -> None:
    """After ten minutes of not being ready a node is replaced, and its pods run again."""
    await sandbox.create_node_pool()
    await sandbox.deploy(replicas=3)
    await sandbox.until_running(3)
    (broken,) = await sandbox.nodes()
    sandbox.cluster.hollow_nodes.make(broken.name, "unready")
    await asyncio.sleep(9 * 60)
    assert broken.name in {node.name for node in await sandbox.nodes()}

    async def replaced() -> bool:
        return broken.name not in {node.name for node in await sandbox.nodes()}

    await sandbox.until(replaced, within=180)
    await sandbox.until_running(3)


@in_sandbox(settings=REPAIR)
async def test_nothing_is_replaced_when_most_are_broken(sandbox: Sandbox) -> None:
    """Where half of a pool is broken, the nodes say so and stay."""
    await sandbox.create_node_pool()
    await sandbox.deploy(replicas=2, cpu="30")
    await sandbox.until_running(2)
    await sandbox.deploy("more", replicas=2, cpu="200")
    await sandbox.until_running(4)
    nodes = await sandbox.nodes()
    assert len(nodes) >= 3
    for node in nodes[:2]:
        sandbox.cluster.hollow_nodes.make(node.name, "unready")
    await sandbox.until(lambda: sandbox.events("NodeRepairBlocked"), within=700)
    await asyncio.sleep(60)

    assert {node.name for node in nodes} <= {node.name for node in await sandbox.nodes()}


@in_sandbox()
async def test_a_broken_node_stays_while_the_gate_is_closed(sandbox: Sandbox) -> None:
    """Without the feature gate broken nodes are not replaced."""
    await sandbox.create_node_pool()
    await sandbox.deploy(replicas=1)
    await sandbox.until_running(1)
    (node,) = await sandbox.nodes()
    sandbox.cluster.hollow_nodes.make(node.name, "unready")
    await asyncio.sleep(1200)

    assert node.name in {each.name for each in await sandbox.nodes()}


@in_sandbox(settings=STATIC)
async def test_a_static_pool_keeps_its_size(sandbox: Sandbox) -> None:
    """A pool has as many machines as it says, grows and shrinks with that, and replaces what is lost."""
    await sandbox.create_node_pool(replicas=3)
    await complete(sandbox, 3)
    await resize(sandbox, 5)
    await complete(sandbox, 5)
    sandbox.kwok.control.kill(sandbox.kwok.control.machines()[0].provider_id)
    await asyncio.sleep(400)
    await complete(sandbox, 5)
    await resize(sandbox, 2)
    await complete(sandbox, 2)
    await sandbox.until(lambda: sandbox.cloud.count() == 2)
    await resize(sandbox, 0)
    await sandbox.until(sandbox.is_empty)


@in_sandbox(settings=STATIC)
async def test_a_static_pool_keeps_its_limit(sandbox: Sandbox) -> None:
    """No more machines are launched than the limit on nodes allows."""
    await sandbox.create_node_pool(replicas=5, limits={"nodes": "2"})
    await complete(sandbox, 2)
    await asyncio.sleep(120)
    assert sandbox.cloud.count() == 2

    await sandbox.client.patch(NodePool, "default", MergePatch({"spec": {"limits": {"nodes": "4"}}}))
    await complete(sandbox, 4)


@in_sandbox(settings=STATIC)
async def test_pods_use_static_nodes_and_get_none(sandbox: Sandbox) -> None:
    """A static pool serves pods with what it has, and launches nothing for them."""
    await sandbox.create_node_pool(replicas=1)
    await complete(sandbox, 1)
    await sandbox.deploy(replicas=40, cpu="400m")
    await asyncio.sleep(120)

    assert 0 < await sandbox.running_pods() < 40
    assert sandbox.cloud.count() == 1


@in_sandbox()
async def test_static_pools_do_nothing_while_the_gate_is_closed(sandbox: Sandbox) -> None:
    """Without the gate a pool with replicas launches nothing."""
    await sandbox.create_node_pool(replicas=3)
    await asyncio.sleep(120)

    assert not await sandbox.node_claims()


@in_sandbox(settings=STATIC)
async def test_failed_launches_of_a_static_pool_are_not_multiplied(sandbox: Sandbox) -> None:
    """A launch that is refused for a while is tried again; the pool ends with what it wants."""
    refusals = [Fail(LaunchRefused(reason="Unauthorized", message="no right to launch"))] * 6
    sandbox.kwok.control.next("launch", *refusals)
    await sandbox.create_node_pool(replicas=3)
    await complete(sandbox, 3)
    await asyncio.sleep(200)

    assert sandbox.cloud.count() == len(await sandbox.node_claims()) == 3


@pytest.mark.parametrize("seconds", [3.0, 30.0])
def test_static_pools_launch_nothing_twice_while_watches_lag(seconds: float) -> None:
    """Replies to our own writes count at once, however late the watches of claims, nodes and pools are."""

    async def scenario() -> None:
        async with Sandbox(name="test", settings=STATIC) as sandbox:
            late = through(lambda inner: Lagging(inner, seconds, "nodeclaims", "nodes"))
            await sandbox.restart_operator(seams=late)
            await sandbox.create_node_pool(replicas=3)
            most = 0
            for _ in range(480):
                await asyncio.sleep(0.25)
                most = max(most, sandbox.cloud.count(), len(await sandbox.node_claims()))
            await resize(sandbox, 1)
            await complete(sandbox, 1)
            await asyncio.sleep(90)

            assert most == 3
            assert sandbox.cloud.count() == 1

    run_virtual(scenario())


def overlay(name: str, types: list[str], **spec: Any) -> dict[str, Any]:
    """Return an overlay about some instance types."""
    requirements = [{"key": INSTANCE_TYPE, "operator": "In", "values": types}]
    return {"metadata": {"name": name}, "spec": {"requirements": requirements, **spec}}


@in_sandbox(settings=OVERLAYS)
async def test_overlays_say_if_they_hold_and_change_what_is_bought(sandbox: Sandbox) -> None:
    """Of two of one weight one is refused; the price of the other decides which machine is launched."""
    await sandbox.create_node_pool()
    wanted = "m-256x-amd64-linux"
    await sandbox.client.create(NodeOverlay, overlay("cheap", [wanted], price="0.0001", weight=5))
    await sandbox.client.create(NodeOverlay, overlay("also", [wanted], price="0.0002", weight=5))

    async def standing(name: str) -> tuple[str, str]:
        found = await sandbox.client.get(NodeOverlay, name)
        said = find_status_condition(found.status.conditions, "ValidationSucceeded")
        return (said.status, said.reason) if said is not None else ("", "")

    async def refused() -> bool:
        return await standing("also") == ("False", "Conflict")

    await sandbox.until(refused)
    assert await standing("cheap") == ("True", "ValidationSucceeded")
    await sandbox.deploy(replicas=1)
    await sandbox.until_running(1)
    (claim,) = await sandbox.node_claims()
    assert claim.metadata.annotations["karpenter.sh/price-overlay-applied"] == "true"

    await sandbox.client.delete(NodeOverlay, "cheap")

    async def holds() -> bool:
        return await standing("also") == ("True", "ValidationSucceeded")

    await sandbox.until(holds)


@in_sandbox(settings=BUFFERS)
async def test_buffers_get_their_room_and_say_so(sandbox: Sandbox) -> None:
    """A buffer says that its template is missing, gets nodes once it is there, and says that they exist."""
    await sandbox.create_node_pool()
    spec = {"podTemplateRef": {"name": "web"}, "replicas": 3}
    await sandbox.client.create(
        CapacityBuffer, {"metadata": {"name": "spare"}, "spec": spec}, namespace="default"
    )

    async def said(kind: str) -> tuple[str, str]:
        found = await sandbox.client.get(CapacityBuffer, "spare", namespace="default")
        held = find_status_condition(found.status.conditions, kind)
        return (held.status, held.reason) if held is not None else ("", "")

    async def says(kind: str, status: str, reason: str) -> None:
        async def so() -> bool:
            return await said(kind) == (status, reason)

        await sandbox.until(so)

    await says("ReadyForProvisioning", "False", "PodTemplateNotFound")
    await says("Provisioning", "False", "NotReadyForProvisioning")
    await sandbox.client.create(
        PodTemplate, {"metadata": {"name": "web"}, "template": {"spec": POD}}, namespace="default"
    )
    await says("ReadyForProvisioning", "True", "Resolved")
    await says("Provisioning", "False", "RequiresNewCapacity")
    await says("Provisioning", "True", "FitsExistingCapacity")
    assert sandbox.cloud.count() >= 1
    found = await sandbox.client.get(CapacityBuffer, "spare", namespace="default")
    assert found.status.replicas == 3

    await sandbox.client.patch(
        CapacityBuffer, "spare", MergePatch({"spec": {"replicas": 0}}), namespace="default"
    )
    await says("Provisioning", "False", "BufferEmpty")


@in_sandbox(settings=BUFFERS)
async def test_the_room_of_a_buffer_stays(sandbox: Sandbox) -> None:
    """Nodes that hold nothing but the room of a buffer are never removed as empty."""
    delayed = {"spec": {"nodeRegistrationDelay": "8s"}}
    await sandbox.client.patch(KWOKNodeClass, "default", MergePatch(delayed))
    await sandbox.create_node_pool(disruption={"consolidateAfter": "0s"})
    for kind, body in (
        (PodTemplate, {"metadata": {"name": "web"}, "template": {"spec": POD}}),
        (
            CapacityBuffer,
            {"metadata": {"name": "spare"}, "spec": {"podTemplateRef": {"name": "web"}, "replicas": 3}},
        ),
    ):
        await sandbox.client.create(kind, body, namespace="default")

    async def bought() -> bool:
        return bool(await sandbox.node_claims())

    await sandbox.until(bought)
    first = {claim.name for claim in await sandbox.node_claims()}
    for _ in range(40):
        await asyncio.sleep(5)
        assert {claim.name for claim in await sandbox.node_claims()} == first
