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
from karpenter.kube.patches import MergePatch
from karpenter_local.sandbox.options import KwokOptions
from tests.integration.sandboxes import in_sandbox

if TYPE_CHECKING:
    from datetime import timedelta

    from karpenter_local.sandbox.sandbox import Sandbox

SLOW = Behaviour(launch=1.0, shutdown=20.0)


async def guard(sandbox: Sandbox, app: str, **spec: object) -> None:
    body = {"metadata": {"name": app}, "spec": {"selector": {"matchLabels": {"app": app}}, **spec}}
    await sandbox.client.create(PodDisruptionBudget, body, namespace="default")


@pytest.mark.parametrize("kind", [Node, NodeClaim])
def test_deleting_a_node_or_its_claim_is_the_same(kind: type[Node | NodeClaim]) -> None:
    """Whichever is deleted, pods move, the machine ends, and node and claim go last."""

    @in_sandbox(cloud=KwokOptions(behaviour=SLOW))
    async def scenario(sandbox: Sandbox) -> None:
        await sandbox.create_node_pool()
        await sandbox.deploy(replicas=3)
        await sandbox.until_running(3)
        claim, node = (await sandbox.node_claims())[0], (await sandbox.nodes())[0]
        await sandbox.client.delete(kind, node.name if kind is Node else claim.name)
        await asyncio.sleep(1.5)
        leaving = await sandbox.client.get(Node, node.name)
        assert any(taint.key == DISRUPTED for taint in leaving.spec.taints)
        assert leaving.metadata.labels[EXCLUDE_FROM_LOAD_BALANCERS] == "karpenter"

        async def is_gone() -> bool:
            names = {each.name for each in (*await sandbox.node_claims(), *await sandbox.nodes())}
            return not names & {claim.name, node.name}

        took = await sandbox.until(is_gone)
        assert took >= 20  # the machine took so long to end
        await sandbox.until_running(3)
        assert len(await sandbox.node_claims()) == len(await sandbox.nodes()) == sandbox.cloud.count() == 1

    scenario()


@in_sandbox()
async def test_deleting_a_pool_removes_its_machines(sandbox: Sandbox) -> None:
    """A pool takes its claims, nodes and machines along."""
    await sandbox.create_node_pool()
    await sandbox.deploy(replicas=10)
    await sandbox.until_running(10)
    await sandbox.client.delete(NodePool, "default")
    await sandbox.until(sandbox.is_empty)

    assert all(pod.status.phase == "Pending" for pod in await sandbox.pods())


@in_sandbox()
async def test_a_budget_is_kept_while_a_node_is_emptied(sandbox: Sandbox) -> None:
    """Pods of a budget leave one at a time, and the next only when the last one runs again."""
    await sandbox.create_node_pool()
    await sandbox.deploy(replicas=4)
    await sandbox.until_running(4)
    await guard(sandbox, "inflate", maxUnavailable=1)
    await asyncio.sleep(1)
    node = (await sandbox.nodes())[0]
    await sandbox.client.delete(Node, node.name)
    fewest = 4
    while node.name in {each.name for each in await sandbox.nodes()}:
        pods = await sandbox.pods()
        ready = sum(
            1 for pod in pods for c in pod.status.conditions if c.type == "Ready" and c.status == "True"
        )
        fewest = min(fewest, ready)
        await asyncio.sleep(0.1)
        assert sandbox.clock.monotonic() < 600

    assert fewest == 3
    await sandbox.until_running(4)


@in_sandbox()
async def test_a_pod_that_must_not_be_disrupted_holds_its_node(sandbox: Sandbox) -> None:
    """A node waits for a protected pod until its owner lets go."""
    await sandbox.create_node_pool()
    note = {"labels": {"app": "inflate"}, "annotations": {"karpenter.sh/do-not-disrupt": "true"}}
    await sandbox.deploy(replicas=1, metadata=note)
    await sandbox.until_running(1)
    claim, pod = (await sandbox.node_claims())[0], (await sandbox.pods())[0]
    await sandbox.client.delete(NodeClaim, claim.name)
    await asyncio.sleep(600)
    assert (await sandbox.client.get(NodeClaim, claim.name)).metadata.deletion_timestamp is not None
    assert await sandbox.events("FailedDraining")

    change = MergePatch({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": None}}})
    await sandbox.client.patch(Pod, pod.name, change, namespace="default")

    async def is_gone() -> bool:
        return claim.name not in {each.name for each in await sandbox.node_claims()}

    await sandbox.until(is_gone)


@in_sandbox()
async def test_the_grace_period_ends_all_waiting(sandbox: Sandbox) -> None:
    """Once the grace period is over neither a budget nor an annotation holds a node."""
    await sandbox.create_node_pool(template={"spec": {"terminationGracePeriod": "5m"}})
    note = {"labels": {"app": "inflate"}, "annotations": {"karpenter.sh/do-not-disrupt": "true"}}
    await sandbox.deploy(replicas=2, metadata=note, terminationGracePeriodSeconds=60)
    await guard(sandbox, "inflate", maxUnavailable=0)
    await sandbox.until_running(2)
    claim = (await sandbox.node_claims())[0]
    await sandbox.client.delete(NodeClaim, claim.name)

    async def is_gone() -> bool:
        return claim.name not in {each.name for each in await sandbox.node_claims()}

    took = await sandbox.until(is_gone, within=600)
    assert 235 < took < 330
    assert await sandbox.events("Disrupted")
    assert await sandbox.events("TerminationGracePeriodExpiring")


@in_sandbox()
async def test_machines_expire(sandbox: Sandbox) -> None:
    """A claim that is too old goes, and its pods get another machine."""
    await sandbox.create_node_pool(template={"spec": {"expireAfter": "1h"}})
    await sandbox.deploy(replicas=1)
    await sandbox.until_running(1)
    first = (await sandbox.node_claims())[0].name
    await asyncio.sleep(3600)
    await sandbox.until_running(1)
    await asyncio.sleep(30)

    assert [claim.name for claim in await sandbox.node_claims()] != [first]
    assert len(await sandbox.node_claims()) == sandbox.cloud.count() == 1


@in_sandbox()
async def test_a_machine_that_died_is_collected(sandbox: Sandbox) -> None:
    """A claim whose machine is gone goes within minutes, and the pods run elsewhere."""
    await sandbox.create_node_pool()
    await sandbox.deploy(replicas=1)
    await sandbox.until_running(1)
    node, machine = (await sandbox.nodes())[0], sandbox.kwok.control.machines()[0]
    sandbox.cluster.hollow_nodes.make(node.name, "silent")
    sandbox.kwok.control.kill(machine.provider_id, noticed_after=3600)

    async def is_replaced() -> bool:
        names = {each.name for each in await sandbox.nodes()}
        return bool(names) and node.name not in names

    await sandbox.until(is_replaced, within=900)
    await sandbox.until(sandbox.running_pods, within=900)
    assert len(await sandbox.node_claims()) == sandbox.cloud.count() == 1


@in_sandbox()
async def test_a_machine_without_a_claim_is_ended(sandbox: Sandbox) -> None:
    """A machine whose claim was forced away is found and ended."""
    await sandbox.create_node_pool()
    await sandbox.deploy(replicas=1)
    await sandbox.until_running(1)
    await sandbox.stop_operator()
    claim, node = (await sandbox.node_claims())[0], (await sandbox.nodes())[0]
    await sandbox.scale("inflate", 0)
    for kind, name in ((NodeClaim, claim.name), (Node, node.name)):
        await sandbox.client.patch(kind, name, MergePatch({"metadata": {"finalizers": None}}))
        await sandbox.client.delete(kind, name)
    assert sandbox.cloud.count() == 1
    await sandbox.start_operator()
    await sandbox.until(sandbox.is_empty)


@in_sandbox()
async def test_interrupted_machines_are_emptied_in_time(sandbox: Sandbox) -> None:
    """News of an interruption moves the pods before the machine is taken away."""
    await sandbox.create_node_pool()
    await sandbox.deploy(replicas=2)
    await sandbox.until_running(2)
    machine, claim = sandbox.kwok.control.machines()[0], (await sandbox.node_claims())[0]
    sandbox.kwok.control.interrupt(machine.provider_id, notice=120)

    async def is_gone() -> bool:
        return claim.name not in {each.name for each in await sandbox.node_claims()}

    assert await sandbox.until(is_gone) < 100
    await sandbox.until_running(2)
    assert await sandbox.events("SpotInterrupted")


@in_sandbox()
async def test_a_restart_in_the_middle_of_a_drain_goes_on(sandbox: Sandbox) -> None:
    """How far a node has come is in its claim, so a successor goes on from there."""
    await sandbox.create_node_pool()
    await sandbox.deploy(replicas=3)
    await sandbox.until_running(3)
    await guard(sandbox, "inflate", maxUnavailable=0)
    await asyncio.sleep(1)
    claim = (await sandbox.node_claims())[0]
    await sandbox.client.delete(NodeClaim, claim.name)
    await asyncio.sleep(10)
    await sandbox.stop_operator()
    found = find_status_condition(
        (await sandbox.client.get(NodeClaim, claim.name)).status.conditions, "Drained"
    )
    assert found is not None
    assert (found.status, found.reason) == ("Unknown", "Draining")
    await sandbox.client.delete(PodDisruptionBudget, "inflate", namespace="default")
    await sandbox.start_operator()

    async def is_gone() -> bool:
        return claim.name not in {each.name for each in await sandbox.node_claims()}

    await sandbox.until(is_gone)
    await sandbox.until_running(3)


@in_sandbox()
async def test_ordinary_pods_leave_before_daemons_and_critical_ones(sandbox: Sandbox) -> None:
    """Only one tier of pods is asked to leave at a time."""
    await sandbox.create_node_pool()
    await sandbox.deploy("plain", replicas=1, terminationGracePeriodSeconds=20)
    await sandbox.deploy("vital", replicas=1, priorityClassName="system-cluster-critical")
    await sandbox.until_running(2)
    node = (await sandbox.nodes())[0]
    await sandbox.client.delete(Node, node.name)
    left: dict[str, timedelta] = {}
    start = sandbox.clock.now()
    while node.name in {each.name for each in await sandbox.nodes()}:
        here = {pod.name.partition("-")[0] for pod in await sandbox.pods() if pod.spec.node_name == node.name}
        for app in {"plain", "vital"} - here - left.keys():
            left[app] = sandbox.clock.now() - start
        await asyncio.sleep(0.5)
        assert sandbox.clock.monotonic() < 600

    assert left["plain"] < left["vital"]
