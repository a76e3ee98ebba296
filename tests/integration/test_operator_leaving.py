"""How machines leave: deleted by people, expired, broken, interrupted; emptied first, ended last."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from karpenter.api.cluster import PodDisruptionBudget
from karpenter.api.labels import DISRUPTED, EXCLUDE_FROM_LOAD_BALANCERS
from karpenter.api.meta import find_status_condition
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.cloud.kwok import Behaviour
from karpenter.kube.rest import MergePatch
from tests.integration.world import in_world

if TYPE_CHECKING:
    from datetime import timedelta

    from tests.integration.world import World

SLOW = Behaviour(launch=1.0, shutdown=20.0)


async def guard(world: World, app: str, **spec: object) -> None:
    """Protect the pods of a Deployment."""
    body = {"metadata": {"name": app}, "spec": {"selector": {"matchLabels": {"app": app}}, **spec}}
    await world.client.create(PodDisruptionBudget, body, namespace="default")


@pytest.mark.parametrize("kind", [Node, NodeClaim])
def test_deleting_a_node_or_its_claim_is_the_same(kind: type[Node | NodeClaim]) -> None:
    """Whichever is deleted, pods move, the machine ends, and node and claim go last."""

    @in_world(behaviour=SLOW)
    async def scenario(world: World) -> None:
        await world.pool()
        await world.deploy(replicas=3)
        await world.settled(3)
        claim, node = (await world.claims())[0], (await world.nodes())[0]
        await world.client.delete(kind, node.name if kind is Node else claim.name)
        await asyncio.sleep(1.5)
        leaving = await world.client.get(Node, node.name)
        assert any(taint.key == DISRUPTED for taint in leaving.spec.taints)
        assert leaving.metadata.labels[EXCLUDE_FROM_LOAD_BALANCERS] == "karpenter"

        async def is_gone() -> bool:
            names = {each.name for each in (*await world.claims(), *await world.nodes())}
            return not names & {claim.name, node.name}

        took = await world.until(is_gone)
        assert took >= 20  # the machine took so long to end
        await world.settled(3)
        assert len(await world.claims()) == len(await world.nodes()) == world.machines() == 1

    scenario()


@in_world()
async def test_deleting_a_pool_removes_its_machines(world: World) -> None:
    """A pool takes its claims, nodes and machines along."""
    await world.pool()
    await world.deploy(replicas=10)
    await world.settled(10)
    await world.client.delete(NodePool, "default")
    await world.until(world.empty)

    assert all(pod.status.phase == "Pending" for pod in await world.pods())


@in_world()
async def test_a_budget_is_kept_while_a_node_is_emptied(world: World) -> None:
    """Pods of a budget leave one at a time, and the next only when the last one runs again."""
    await world.pool()
    await world.deploy(replicas=4)
    await world.settled(4)
    await guard(world, "inflate", maxUnavailable=1)
    await asyncio.sleep(1)
    node = (await world.nodes())[0]
    await world.client.delete(Node, node.name)
    fewest = 4
    while node.name in {each.name for each in await world.nodes()}:
        pods = await world.pods()
        ready = sum(
            1 for pod in pods for c in pod.status.conditions if c.type == "Ready" and c.status == "True"
        )
        fewest = min(fewest, ready)
        await asyncio.sleep(0.1)
        assert world.clock.monotonic() < 600

    assert fewest == 3
    await world.settled(4)


@in_world()
async def test_a_pod_that_must_not_be_disrupted_holds_its_node(world: World) -> None:
    """A node waits for a protected pod until its owner lets go."""
    await world.pool()
    note = {"labels": {"app": "inflate"}, "annotations": {"karpenter.sh/do-not-disrupt": "true"}}
    await world.deploy(replicas=1, metadata=note)
    await world.settled(1)
    claim, pod = (await world.claims())[0], (await world.pods())[0]
    await world.client.delete(NodeClaim, claim.name)
    await asyncio.sleep(600)
    assert (await world.client.get(NodeClaim, claim.name)).metadata.deletion_timestamp is not None
    assert await world.events("FailedDraining")

    change = MergePatch({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": None}}})
    await world.client.patch(Pod, pod.name, change, namespace="default")

    async def is_gone() -> bool:
        return claim.name not in {each.name for each in await world.claims()}

    await world.until(is_gone)


@in_world()
async def test_the_grace_period_ends_all_waiting(world: World) -> None:
    """Once the grace period is over neither a budget nor an annotation holds a node."""
    await world.pool(template={"spec": {"terminationGracePeriod": "5m"}})
    note = {"labels": {"app": "inflate"}, "annotations": {"karpenter.sh/do-not-disrupt": "true"}}
    await world.deploy(replicas=2, metadata=note, terminationGracePeriodSeconds=60)
    await guard(world, "inflate", maxUnavailable=0)
    await world.settled(2)
    claim = (await world.claims())[0]
    await world.client.delete(NodeClaim, claim.name)

    async def is_gone() -> bool:
        return claim.name not in {each.name for each in await world.claims()}

    took = await world.until(is_gone, within=600)
    assert 235 < took < 330
    assert await world.events("Disrupted")
    assert await world.events("TerminationGracePeriodExpiring")


@in_world()
async def test_machines_expire(world: World) -> None:
    """A claim that is too old goes, and its pods get another machine."""
    await world.pool(template={"spec": {"expireAfter": "1h"}})
    await world.deploy(replicas=1)
    await world.settled(1)
    first = (await world.claims())[0].name
    await asyncio.sleep(3600)
    await world.settled(1)
    await asyncio.sleep(30)

    assert [claim.name for claim in await world.claims()] != [first]
    assert len(await world.claims()) == world.machines() == 1


@in_world()
async def test_a_machine_that_died_is_collected(world: World) -> None:
    """A claim whose machine is gone goes within minutes, and the pods run elsewhere."""
    await world.pool()
    await world.deploy(replicas=1)
    await world.settled(1)
    node, machine = (await world.nodes())[0], world.cloud.control.machines()[0]
    world.cluster.fleet.make(node.name, "silent")
    world.cloud.control.kill(machine.provider_id, noticed_after=3600)

    async def is_replaced() -> bool:
        names = {each.name for each in await world.nodes()}
        return bool(names) and node.name not in names

    await world.until(is_replaced, within=900)
    await world.until(world.running, within=900)
    assert len(await world.claims()) == world.machines() == 1


@in_world()
async def test_a_machine_without_a_claim_is_ended(world: World) -> None:
    """A machine whose claim was forced away is found and ended."""
    await world.pool()
    await world.deploy(replicas=1)
    await world.settled(1)
    await world.stop()
    claim, node = (await world.claims())[0], (await world.nodes())[0]
    await world.scale("inflate", 0)
    for kind, name in ((NodeClaim, claim.name), (Node, node.name)):
        await world.client.patch(kind, name, MergePatch({"metadata": {"finalizers": None}}))
        await world.client.delete(kind, name)
    assert world.machines() == 1
    await world.start()
    await world.until(world.empty)


@in_world()
async def test_interrupted_machines_are_emptied_in_time(world: World) -> None:
    """News of an interruption moves the pods before the machine is taken away."""
    await world.pool()
    await world.deploy(replicas=2)
    await world.settled(2)
    machine, claim = world.cloud.control.machines()[0], (await world.claims())[0]
    world.cloud.control.interrupt(machine.provider_id, notice=120)

    async def is_gone() -> bool:
        return claim.name not in {each.name for each in await world.claims()}

    assert await world.until(is_gone) < 100
    await world.settled(2)
    assert await world.events("SpotInterrupted")


@in_world()
async def test_a_restart_in_the_middle_of_a_drain_goes_on(world: World) -> None:
    """How far a node has come is in its claim, so a successor goes on from there."""
    await world.pool()
    await world.deploy(replicas=3)
    await world.settled(3)
    await guard(world, "inflate", maxUnavailable=0)
    await asyncio.sleep(1)
    claim = (await world.claims())[0]
    await world.client.delete(NodeClaim, claim.name)
    await asyncio.sleep(10)
    await world.stop()
    found = find_status_condition(
        (await world.client.get(NodeClaim, claim.name)).status.conditions, "Drained"
    )
    assert found is not None
    assert (found.status, found.reason) == ("Unknown", "Draining")
    await world.client.delete(PodDisruptionBudget, "inflate", namespace="default")
    await world.start()

    async def is_gone() -> bool:
        return claim.name not in {each.name for each in await world.claims()}

    await world.until(is_gone)
    await world.settled(3)


@in_world()
async def test_ordinary_pods_leave_before_daemons_and_critical_ones(world: World) -> None:
    """Only one tier of pods is asked to leave at a time."""
    await world.pool()
    await world.deploy("plain", replicas=1, terminationGracePeriodSeconds=20)
    await world.deploy("vital", replicas=1, priorityClassName="system-cluster-critical")
    await world.settled(2)
    node = (await world.nodes())[0]
    await world.client.delete(Node, node.name)
    left: dict[str, timedelta] = {}
    start = world.clock.now()
    while node.name in {each.name for each in await world.nodes()}:
        here = {pod.name.partition("-")[0] for pod in await world.pods() if pod.spec.node_name == node.name}
        for app in {"plain", "vital"} - here - left.keys():
            left[app] = world.clock.now() - start
        await asyncio.sleep(0.5)
        assert world.clock.monotonic() < 600

    assert left["plain"] < left["vital"]
