"""Disruption carried out: emptiness, consolidation, drift; second looks, replacements first, and rollback."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from karpenter.api.cluster import PodDisruptionBudget
from karpenter.api.labels import DISRUPTED, DO_NOT_DISRUPT, INSTANCE_TYPE
from karpenter.api.meta import find_status_condition
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.cloud.kwok import Behaviour, NeverJoin
from karpenter.controllers.disruption import STEERING_PERIOD
from karpenter.kube.patches import MergePatch
from karpenter_local.sandbox.options import KwokOptions
from tests.integration.sandboxes import in_sandbox

if TYPE_CHECKING:
    from karpenter_local.sandbox.sandbox import Sandbox

EAGER = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}


async def _left_too_large(sandbox: Sandbox) -> set[str]:
    """Leave a small pod alone on a machine that was bought for a large one; return the claims there are."""
    await sandbox.create_node_pool(disruption=EAGER)
    await sandbox.deploy("big", replicas=1, cpu="14")
    await sandbox.deploy("small", replicas=1, cpu="500m")
    await sandbox.until_running(2)
    before = {claim.name for claim in await sandbox.node_claims()}
    await sandbox.scale("big", 0)
    return before


@in_sandbox()
async def test_empty_machines_go(sandbox: Sandbox) -> None:
    """When the pods are gone the machines follow, after a second look."""
    await sandbox.create_node_pool(disruption=EAGER)
    await sandbox.deploy(replicas=10)
    await sandbox.until_running(10)
    await sandbox.scale("inflate", 0)
    took = await sandbox.until(sandbox.is_empty)

    assert 15 <= took < 90


@in_sandbox()
async def test_machines_are_left_alone_for_as_long_as_the_pool_says(sandbox: Sandbox) -> None:
    """ConsolidateAfter counts from the last pod that came or went."""
    await sandbox.create_node_pool(disruption={**EAGER, "consolidateAfter": "10m"})
    await sandbox.deploy(replicas=3)
    await sandbox.until_running(3)
    await asyncio.sleep(300)
    await sandbox.scale("inflate", 0)
    took = await sandbox.until(sandbox.is_empty, within=900)

    assert took >= 600


@in_sandbox(cloud=KwokOptions(behaviour=Behaviour(launch=5.0)))
async def test_a_replacement_is_complete_before_anything_goes(sandbox: Sandbox) -> None:
    """A machine that is too large is replaced by a smaller one, with no pod left without a place."""
    before = await _left_too_large(sandbox)
    fewest = 1
    while not {claim.name for claim in await sandbox.node_claims()}.isdisjoint(before):
        fewest = min(fewest, len(await sandbox.nodes()))
        await asyncio.sleep(0.5)
        assert sandbox.clock.monotonic() < 600
    await sandbox.until_running(1)

    assert fewest >= 1
    claims = await sandbox.node_claims()
    assert [claim.metadata.labels[INSTANCE_TYPE] for claim in claims] == ["c-1x-amd64-linux"]
    assert sandbox.cloud.count() == 1


@in_sandbox()
async def test_drifted_machines_are_exchanged(sandbox: Sandbox) -> None:
    """A change of the template replaces every machine, within the budget."""
    await sandbox.create_node_pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]})
    await sandbox.deploy(replicas=12)
    await sandbox.until_running(12)
    before = {claim.name for claim in await sandbox.node_claims()}
    change = MergePatch({"spec": {"template": {"metadata": {"labels": {"version": "two"}}}}})
    await sandbox.client.patch(NodePool, "default", change)

    async def are_exchanged() -> bool:
        claims = await sandbox.node_claims()
        return all(c.metadata.labels.get("version") == "two" for c in claims) and bool(claims)

    await sandbox.until(are_exchanged, within=900)
    await sandbox.until_running(12)
    assert before.isdisjoint(claim.name for claim in await sandbox.node_claims())
    assert {node.metadata.labels["version"] for node in await sandbox.nodes()} == {"two"}


@in_sandbox()
async def test_a_provider_s_drift_is_seen(sandbox: Sandbox) -> None:
    """What the cloud says has drifted is exchanged too."""
    await sandbox.create_node_pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]})
    await sandbox.deploy(replicas=1)
    await sandbox.until_running(1)
    first = (await sandbox.node_claims())[0].name
    sandbox.kwok.control.drift(sandbox.kwok.control.machines()[0].provider_id, "ImageDrift")

    async def is_exchanged() -> bool:
        return first not in {claim.name for claim in await sandbox.node_claims()}

    await sandbox.until(is_exchanged, within=900)
    await sandbox.until_running(1)


@in_sandbox()
async def test_a_replacement_that_never_comes_gives_the_machine_back(sandbox: Sandbox) -> None:
    """A command whose replacement is lost is undone: the node takes pods again."""
    await sandbox.create_node_pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]})
    await sandbox.deploy(replicas=1)
    await sandbox.until_running(1)
    sandbox.kwok.control.next("launch", NeverJoin(), NeverJoin())
    change = MergePatch({"spec": {"template": {"metadata": {"labels": {"version": "two"}}}}})
    node = (await sandbox.nodes())[0].name
    await sandbox.client.patch(NodePool, "default", change)

    async def is_closed() -> bool:
        found = await sandbox.client.get(Node, node)
        return any(taint.key == DISRUPTED for taint in found.spec.taints)

    await sandbox.until(is_closed)

    async def is_open() -> bool:
        return not await is_closed()

    took = await sandbox.until(is_open, within=1200)
    assert took >= 600
    assert await sandbox.running_pods() == 1


@in_sandbox()
async def test_a_restart_untaints_nodes_of_commands_that_it_does_not_know(sandbox: Sandbox) -> None:
    """After a restart closed nodes are opened again, and the decision is made anew."""
    await sandbox.create_node_pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]})
    await sandbox.deploy(replicas=1)
    await sandbox.until_running(1)
    sandbox.kwok.control.next("launch", NeverJoin())
    change = MergePatch({"spec": {"template": {"metadata": {"labels": {"version": "two"}}}}})
    claim, node = (await sandbox.node_claims())[0].name, (await sandbox.nodes())[0].name
    await sandbox.client.patch(NodePool, "default", change)

    async def reason() -> bool:
        found = await sandbox.client.get(NodeClaim, claim)
        return find_status_condition(found.status.conditions, "DisruptionReason") is not None

    await sandbox.until(reason)
    await sandbox.stop_operator()
    undone = MergePatch({"spec": {"template": {"metadata": {"labels": None}}}})
    await sandbox.client.patch(NodePool, "default", undone)
    await sandbox.start_operator()

    async def is_open() -> bool:
        found = await sandbox.client.get(Node, node)
        return not found.spec.taints and not await reason()

    await sandbox.until(is_open)


@in_sandbox()
async def test_protected_pods_hold_their_machines(sandbox: Sandbox) -> None:
    """A node with a pod that must not be disrupted stays, and says why."""
    await sandbox.create_node_pool(disruption=EAGER)
    note = {"labels": {"app": "inflate"}, "annotations": {"karpenter.sh/do-not-disrupt": "true"}}
    await sandbox.deploy("big", replicas=1, cpu="14")
    await sandbox.deploy(replicas=1, cpu="500m", metadata=note)
    await sandbox.until_running(2)
    before = {claim.name for claim in await sandbox.node_claims()}
    await sandbox.scale("big", 0)
    await asyncio.sleep(300)

    assert {claim.name for claim in await sandbox.node_claims()} <= before
    assert await sandbox.running_pods() == 1
    assert await sandbox.events("DisruptionBlocked")


@in_sandbox()
async def test_a_budget_of_zero_lets_nothing_go(sandbox: Sandbox) -> None:
    """With no budget nothing is disrupted, and the pool says so."""
    await sandbox.create_node_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "0"}]})
    await sandbox.deploy(replicas=3)
    await sandbox.until_running(3)
    await sandbox.scale("inflate", 0)
    await asyncio.sleep(300)

    assert sandbox.cloud.count() == 1
    told = await sandbox.events("DisruptionBlocked")
    assert any(each.involved_object.kind == "NodePool" for each in told)


@in_sandbox(settings={"surge-before-evict": "true"})
async def test_a_successor_is_ready_before_a_single_replica_goes(sandbox: Sandbox) -> None:
    """A budget that allows nothing does not hold the machine, and the workload is never without a pod."""
    await sandbox.create_node_pool(disruption=EAGER)
    await sandbox.deploy("big", replicas=1, cpu="14")
    await sandbox.deploy("only", replicas=1, cpu="500m")
    budget = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "only"}}}
    await sandbox.client.create(
        PodDisruptionBudget, {"metadata": {"name": "only"}, "spec": budget}, namespace="default"
    )
    await sandbox.until_running(2)
    before = {claim.name for claim in await sandbox.node_claims()}
    await sandbox.scale("big", 0)
    fewest = 1
    while not {claim.name for claim in await sandbox.node_claims()}.isdisjoint(before):
        fewest = min(fewest, await sandbox.running_pods())
        await asyncio.sleep(0.5)
        assert sandbox.clock.monotonic() < 900
    await sandbox.until_running(1)

    assert fewest >= 1
    assert sandbox.cloud.count() == 1


@in_sandbox(settings={"steer-scale-down": "true"})
async def test_a_workload_that_shrinks_empties_a_machine(sandbox: Sandbox) -> None:
    """Its pods on the machine with the fewest go first, and nothing is evicted to be rid of the machine."""
    never = {"nodes": "0", "reasons": ["Underutilized", "Drifted"]}
    await sandbox.create_node_pool(disruption={"consolidateAfter": "0s", "budgets": [never]})
    await sandbox.deploy("web", replicas=4, cpu="900m")
    await sandbox.until_running(4)
    await sandbox.scale("web", 5)
    await sandbox.until_running(5)
    homes = {pod.name: pod.spec.node_name for pod in (await sandbox.client.list(Pod)).items}
    crowds = Counter(homes.values())
    (emptiest, few), *_ = sorted(crowds.items(), key=lambda each: each[1])
    assert 1 == few < max(crowds.values())
    await asyncio.sleep(STEERING_PERIOD)
    await sandbox.scale("web", 4)
    await asyncio.sleep(120)

    assert {pod.name for pod in (await sandbox.client.list(Pod)).items} == {
        name for name, node in homes.items() if node != emptiest
    }
    assert emptiest not in {node.name for node in await sandbox.nodes()}


@in_sandbox()
async def test_a_budget_that_cannot_be_read_blocks_its_pool_and_says_so(sandbox: Sandbox) -> None:
    """A schedule that cannot be read allows no disruption; the status of the NodePool says what is wrong."""
    await sandbox.create_node_pool(disruption={"consolidateAfter": "0s"})
    broken = {"nodes": "100%", "schedule": "0 0 31 2 *", "duration": "1h"}
    await sandbox.deploy(replicas=1)
    await sandbox.until_running(1)
    change = MergePatch({"spec": {"disruption": {"budgets": [broken]}}})
    await sandbox.client.patch(NodePool, "default", change)
    await sandbox.scale("inflate", 0)
    await asyncio.sleep(120)

    assert sandbox.cloud.count() == 1
    events = await sandbox.events("DisruptionBlocked")
    assert any("a budget cannot be read" in each.message for each in events)


@in_sandbox(cloud=KwokOptions(behaviour=Behaviour(launch=40.0)))
async def test_a_pod_that_is_protected_while_the_replacement_starts_stays(
    sandbox: Sandbox,
) -> None:
    """The node is untainted, no pod is evicted, and the replacement is deleted because it is empty."""
    before = await _left_too_large(sandbox)

    async def is_closed() -> bool:
        return any(taint.key == DISRUPTED for node in await sandbox.nodes() for taint in node.spec.taints)

    await sandbox.until(is_closed)
    (pod,) = [each for each in await sandbox.pods() if each.name.startswith("small")]
    note = MergePatch({"metadata": {"annotations": {DO_NOT_DISRUPT: "true"}}})
    await sandbox.client.patch(Pod, pod.name, note, namespace="default")
    await asyncio.sleep(180)

    assert {claim.name for claim in await sandbox.node_claims()} == before
    assert not await is_closed()
    assert not await sandbox.events("Evicted")


@in_sandbox()
async def test_a_machine_goes_soon_after_its_last_pod_has_ended(sandbox: Sandbox) -> None:
    """That a pod has run to its end is news, though it is still there."""
    await sandbox.create_node_pool(disruption=EAGER)
    box = {"name": "work", "image": "work", "resources": {"requests": {"cpu": "1"}}}
    job = {"metadata": {"name": "job"}, "spec": {"restartPolicy": "Never", "containers": [box]}}
    await sandbox.client.create(Pod, job, namespace="default")
    await sandbox.until_running(1)
    await asyncio.sleep(400)
    ended = MergePatch({"status": {"phase": "Succeeded"}})
    await sandbox.client.patch(Pod, "job", ended, namespace="default", subresource="status")
    took = await sandbox.until(sandbox.is_empty)

    assert took < 60
