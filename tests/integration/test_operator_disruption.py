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
from karpenter.controllers import steering
from karpenter.kube.rest import MergePatch
from tests.integration.world import in_world

if TYPE_CHECKING:
    from tests.integration.world import World

EAGER = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}


async def _left_too_large(world: World) -> set[str]:
    """Leave a small pod alone on a machine that was bought for a large one; return the claims there are."""
    await world.pool(disruption=EAGER)
    await world.deploy("big", replicas=1, cpu="14")
    await world.deploy("small", replicas=1, cpu="500m")
    await world.settled(2)
    before = {claim.name for claim in await world.claims()}
    await world.scale("big", 0)
    return before


@in_world()
async def test_empty_machines_go(world: World) -> None:
    """When the pods are gone the machines follow, after a second look."""
    await world.pool(disruption=EAGER)
    await world.deploy(replicas=10)
    await world.settled(10)
    await world.scale("inflate", 0)
    took = await world.until(world.empty)

    assert 15 <= took < 90


@in_world()
async def test_machines_are_left_alone_for_as_long_as_the_pool_says(world: World) -> None:
    """ConsolidateAfter counts from the last pod that came or went."""
    await world.pool(disruption={**EAGER, "consolidateAfter": "10m"})
    await world.deploy(replicas=3)
    await world.settled(3)
    await asyncio.sleep(300)
    await world.scale("inflate", 0)
    took = await world.until(world.empty, within=900)

    assert took >= 600


@in_world(behaviour=Behaviour(launch=5.0))
async def test_a_replacement_is_complete_before_anything_goes(world: World) -> None:
    """A machine that is too large is replaced by a smaller one, with no pod left without a place."""
    before = await _left_too_large(world)
    fewest = 1
    while not {claim.name for claim in await world.claims()}.isdisjoint(before):
        fewest = min(fewest, len(await world.nodes()))
        await asyncio.sleep(0.5)
        assert world.clock.monotonic() < 600
    await world.settled(1)

    assert fewest >= 1
    claims = await world.claims()
    assert [claim.metadata.labels[INSTANCE_TYPE] for claim in claims] == ["c-1x-amd64-linux"]
    assert world.machines() == 1


@in_world()
async def test_drifted_machines_are_exchanged(world: World) -> None:
    """A change of the template replaces every machine, within the budget."""
    await world.pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]})
    await world.deploy(replicas=12)
    await world.settled(12)
    before = {claim.name for claim in await world.claims()}
    change = MergePatch({"spec": {"template": {"metadata": {"labels": {"version": "two"}}}}})
    await world.client.patch(NodePool, "default", change)

    async def are_exchanged() -> bool:
        claims = await world.claims()
        return all(c.metadata.labels.get("version") == "two" for c in claims) and bool(claims)

    await world.until(are_exchanged, within=900)
    await world.settled(12)
    assert before.isdisjoint(claim.name for claim in await world.claims())
    assert {node.metadata.labels["version"] for node in await world.nodes()} == {"two"}


@in_world()
async def test_a_provider_s_drift_is_seen(world: World) -> None:
    """What the cloud says has drifted is exchanged too."""
    await world.pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]})
    await world.deploy(replicas=1)
    await world.settled(1)
    first = (await world.claims())[0].name
    world.cloud.control.drift(world.cloud.control.machines()[0].provider_id, "ImageDrift")

    async def is_exchanged() -> bool:
        return first not in {claim.name for claim in await world.claims()}

    await world.until(is_exchanged, within=900)
    await world.settled(1)


@in_world()
async def test_a_replacement_that_never_comes_gives_the_machine_back(world: World) -> None:
    """A command whose replacement is lost is undone: the node takes pods again."""
    await world.pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]})
    await world.deploy(replicas=1)
    await world.settled(1)
    world.cloud.control.next("launch", NeverJoin(), NeverJoin())
    change = MergePatch({"spec": {"template": {"metadata": {"labels": {"version": "two"}}}}})
    node = (await world.nodes())[0].name
    await world.client.patch(NodePool, "default", change)

    async def is_closed() -> bool:
        found = await world.client.get(Node, node)
        return any(taint.key == DISRUPTED for taint in found.spec.taints)

    await world.until(is_closed)

    async def is_open() -> bool:
        return not await is_closed()

    took = await world.until(is_open, within=1200)
    assert took >= 600
    assert await world.running() == 1


@in_world()
async def test_a_restart_opens_what_nobody_remembers_having_closed(world: World) -> None:
    """After a restart closed nodes are opened again, and the decision is made anew."""
    await world.pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]})
    await world.deploy(replicas=1)
    await world.settled(1)
    world.cloud.control.next("launch", NeverJoin())
    change = MergePatch({"spec": {"template": {"metadata": {"labels": {"version": "two"}}}}})
    claim, node = (await world.claims())[0].name, (await world.nodes())[0].name
    await world.client.patch(NodePool, "default", change)

    async def reason() -> bool:
        found = await world.client.get(NodeClaim, claim)
        return find_status_condition(found.status.conditions, "DisruptionReason") is not None

    await world.until(reason)
    await world.stop()
    undone = MergePatch({"spec": {"template": {"metadata": {"labels": None}}}})
    await world.client.patch(NodePool, "default", undone)
    await world.start()

    async def is_open() -> bool:
        found = await world.client.get(Node, node)
        return not found.spec.taints and not await reason()

    await world.until(is_open)


@in_world()
async def test_protected_pods_hold_their_machines(world: World) -> None:
    """A node with a pod that must not be disrupted stays, and says why."""
    await world.pool(disruption=EAGER)
    note = {"labels": {"app": "inflate"}, "annotations": {"karpenter.sh/do-not-disrupt": "true"}}
    await world.deploy("big", replicas=1, cpu="14")
    await world.deploy(replicas=1, cpu="500m", metadata=note)
    await world.settled(2)
    before = {claim.name for claim in await world.claims()}
    await world.scale("big", 0)
    await asyncio.sleep(300)

    assert {claim.name for claim in await world.claims()} <= before
    assert await world.running() == 1
    assert await world.events("DisruptionBlocked")


@in_world()
async def test_a_budget_of_zero_lets_nothing_go(world: World) -> None:
    """With no budget nothing is disrupted, and the pool says so."""
    await world.pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "0"}]})
    await world.deploy(replicas=3)
    await world.settled(3)
    await world.scale("inflate", 0)
    await asyncio.sleep(300)

    assert world.machines() == 1
    told = await world.events("DisruptionBlocked")
    assert any(each.involved_object.kind == "NodePool" for each in told)


@in_world(settings={"surge-before-evict": "true"})
async def test_a_successor_is_ready_before_a_single_replica_goes(world: World) -> None:
    """A budget that allows nothing does not hold the machine, and the workload is never without a pod."""
    await world.pool(disruption=EAGER)
    await world.deploy("big", replicas=1, cpu="14")
    await world.deploy("only", replicas=1, cpu="500m")
    budget = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "only"}}}
    await world.client.create(
        PodDisruptionBudget, {"metadata": {"name": "only"}, "spec": budget}, namespace="default"
    )
    await world.settled(2)
    before = {claim.name for claim in await world.claims()}
    await world.scale("big", 0)
    fewest = 1
    while not {claim.name for claim in await world.claims()}.isdisjoint(before):
        fewest = min(fewest, await world.running())
        await asyncio.sleep(0.5)
        assert world.clock.monotonic() < 900
    await world.settled(1)

    assert fewest >= 1
    assert world.machines() == 1


@in_world(settings={"steer-scale-down": "true"})
async def test_a_workload_that_shrinks_empties_a_machine(world: World) -> None:
    """Its pods on the machine with the fewest go first, and nothing is evicted to be rid of the machine."""
    never = {"nodes": "0", "reasons": ["Underutilized", "Drifted"]}
    await world.pool(disruption={"consolidateAfter": "0s", "budgets": [never]})
    await world.deploy("web", replicas=4, cpu="900m")
    await world.settled(4)
    await world.scale("web", 5)
    await world.settled(5)
    homes = {pod.name: pod.spec.node_name for pod in (await world.client.list(Pod)).items}
    crowds = Counter(homes.values())
    (emptiest, few), *_ = sorted(crowds.items(), key=lambda each: each[1])
    assert 1 == few < max(crowds.values())
    await asyncio.sleep(steering.PERIOD)
    await world.scale("web", 4)
    await asyncio.sleep(120)

    assert {pod.name for pod in (await world.client.list(Pod)).items} == {
        name for name, node in homes.items() if node != emptiest
    }
    assert emptiest not in {node.name for node in await world.nodes()}


@in_world()
async def test_a_budget_that_cannot_be_read_blocks_its_pool_and_says_so(world: World) -> None:
    """A schedule that nobody understands never opens the door; the pool is told what is wrong."""
    await world.pool(disruption={"consolidateAfter": "0s"})
    broken = {"nodes": "100%", "schedule": "0 0 31 2 *", "duration": "1h"}
    await world.deploy(replicas=1)
    await world.settled(1)
    change = MergePatch({"spec": {"disruption": {"budgets": [broken]}}})
    await world.client.patch(NodePool, "default", change)
    await world.scale("inflate", 0)
    await asyncio.sleep(120)

    assert world.machines() == 1
    events = await world.events("DisruptionBlocked")
    assert any("a budget cannot be read" in each.message for each in events)


@in_world(behaviour=Behaviour(launch=40.0))
async def test_a_pod_that_is_protected_while_the_replacement_starts_keeps_its_machine(world: World) -> None:
    """The machine is opened again, nobody is evicted, and the replacement goes for want of use."""
    before = await _left_too_large(world)

    async def is_closed() -> bool:
        return any(taint.key == DISRUPTED for node in await world.nodes() for taint in node.spec.taints)

    await world.until(is_closed)
    (pod,) = [each for each in await world.pods() if each.name.startswith("small")]
    note = MergePatch({"metadata": {"annotations": {DO_NOT_DISRUPT: "true"}}})
    await world.client.patch(Pod, pod.name, note, namespace="default")
    await asyncio.sleep(180)

    assert {claim.name for claim in await world.claims()} == before
    assert not await is_closed()
    assert not await world.events("Evicted")


@in_world()
async def test_a_machine_goes_soon_after_its_last_pod_has_ended(world: World) -> None:
    """That a pod has run to its end is news, though it is still there."""
    await world.pool(disruption=EAGER)
    box = {"name": "work", "image": "work", "resources": {"requests": {"cpu": "1"}}}
    job = {"metadata": {"name": "job"}, "spec": {"restartPolicy": "Never", "containers": [box]}}
    await world.client.create(Pod, job, namespace="default")
    await world.settled(1)
    await asyncio.sleep(400)
    ended = MergePatch({"status": {"phase": "Succeeded"}})
    await world.client.patch(Pod, "job", ended, namespace="default", subresource="status")
    took = await world.until(world.empty)

    assert took < 60
