"""A stock-out and its end: pods fall back to a NodePool of lower weight, and go back if that is wanted."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.labels import CAPACITY_TYPE, NODEPOOL, ZONE
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.kube.patches import MergePatch
from karpenter_local.simulation.actions import AddPool, Deploy
from karpenter_local.simulation.faults import SellOut
from karpenter_local.simulation.report import explain
from karpenter_local.simulation.run import run_scenario
from karpenter_local.simulation.scenario import Scenario, Step
from tests.integration.sandboxes import in_sandbox

if TYPE_CHECKING:
    from karpenter_local.sandbox.sandbox import Sandbox

HERE, THERE = "test-zone-a", "test-zone-b"
MINUTE = 60.0


async def _pool(sandbox: Sandbox, name: str, zone: str, **spec: Any) -> None:
    """Create a NodePool of one zone; both zones cost the same."""
    wanted = {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "karpenter.sh/capacity-type": "on-demand",
        ZONE: zone,
    }
    terms = [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()]
    eager = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
    await sandbox.create_node_pool(name, disruption=eager, template={"spec": {"requirements": terms}}, **spec)


async def _fall_back(sandbox: Sandbox) -> None:
    """Let the preferred NodePool be sold out when a node is needed."""
    await _pool(sandbox, "best", HERE, weight=10)
    await _pool(sandbox, "spare", THERE)
    sandbox.kwok.control.sell_out(zone=HERE)
    await sandbox.deploy("web", replicas=1, cpu="3500m")
    await sandbox.until_running(1)
    assert await _pools(sandbox) == {"spare": 1}


async def _pools(sandbox: Sandbox) -> Counter[str]:
    return Counter(claim.metadata.labels[NODEPOOL] for claim in await sandbox.node_claims())


async def _is_back(sandbox: Sandbox) -> bool:
    return await _pools(sandbox) == {"best": 1} and await sandbox.running_pods() == 1


@in_sandbox(settings={"preferred-pool-price": "0.1"})
async def test_pods_go_back_once_and_not_to_and_fro(sandbox: Sandbox) -> None:
    """After a stock-out pods go back when it has been over for minutes; after a second one they stay."""
    await _fall_back(sandbox)
    sandbox.kwok.control.restock(zone=HERE)
    took = await sandbox.until(lambda: _is_back(sandbox), within=30 * MINUTE)
    told = {event.message for event in await sandbox.events("ConsolidationCandidate")}

    assert took >= 5 * MINUTE
    assert all("back to NodePool best" in message for message in told)
    assert told

    sandbox.kwok.control.sell_out(zone=HERE)
    for machine in list(sandbox.kwok.machines()):
        sandbox.kwok.control.kill(machine.provider_id)
    fallen = await sandbox.until(lambda: _is_spare(sandbox), within=30 * MINUTE)
    assert fallen
    sandbox.kwok.control.restock(zone=HERE)
    names = {claim.name for claim in await sandbox.node_claims()}
    await asyncio.sleep(25 * MINUTE)

    assert {claim.name for claim in await sandbox.node_claims()} == names


async def _is_spare(sandbox: Sandbox) -> bool:
    return await _pools(sandbox) == {"spare": 1} and await sandbox.running_pods() == 1


@pytest.mark.long
@in_sandbox(settings={"preferred-pool-price": "0.1"})
async def test_stock_that_is_not_there_moves_nothing(sandbox: Sandbox) -> None:
    """While launches fail nodes stay; a budget of none holds them when stock is there again."""
    await _fall_back(sandbox)
    before = {pod.name for pod in await sandbox.pods()}
    await asyncio.sleep(20 * MINUTE)

    assert {pod.name for pod in await sandbox.pods()} == before
    assert await _pools(sandbox) == {"spare": 1}

    shut = MergePatch({"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}})
    await sandbox.client.patch(NodePool, "spare", shut)
    sandbox.kwok.control.restock(zone=HERE)
    await asyncio.sleep(15 * MINUTE)

    assert {pod.name for pod in await sandbox.pods()} == before


@pytest.mark.long
@pytest.mark.usefixtures("untraced")
def test_nothing_is_violated_while_stock_comes_and_goes() -> None:
    """Budgets hold, replacements come first, and two machines are bought: one fallen back, one preferred."""
    pools = (
        AddPool(at=0.0, name="best", weight=10, zone=HERE, consolidate_after="0s"),
        AddPool(at=0.0, name="spare", zone=THERE, consolidate_after="0s", budgets=("1",)),
    )
    apps = [Deploy(at=2.0, name=f"app-{n}", replicas=1, milli=3500, min_available=0) for n in range(2)]
    stock = [SellOut(at=start, zone=HERE, seconds=300.0) for start in (1.0, 1500.0)]
    settings = {"preferred-pool-price": "0.1", "consolidation-strategy": "global"}
    steps: list[Step] = [*pools, *apps, *stock]
    steps.sort(key=lambda step: step.at)
    scenario = Scenario(seed=1, seconds=2400.0, steps=tuple(steps), settings=settings)
    result = run_scenario(scenario)

    assert not result.violations, "\n".join(explain(scenario, result))
    assert result.machines == 2


@pytest.mark.long
@in_sandbox()
async def test_pods_stay_where_they_are_unless_that_is_wanted(sandbox: Sandbox) -> None:
    """As with Karpenter, weights are not asked again after launch."""
    await _fall_back(sandbox)
    names = {claim.name for claim in (await sandbox.client.list(NodeClaim)).items}
    sandbox.kwok.control.restock(zone=HERE)
    await asyncio.sleep(30 * MINUTE)

    assert {claim.name for claim in await sandbox.node_claims()} == names


async def _back_to_spot(sandbox: Sandbox) -> None:
    """Sell out spot while a node is needed, and wait until on-demand is replaced once it is sold again."""
    ways = [{"key": CAPACITY_TYPE, "operator": "In", "values": ["spot", "on-demand"]}]
    eager = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
    await sandbox.create_node_pool(disruption=eager, template={"spec": {"requirements": ways}})
    sandbox.kwok.control.sell_out(capacity_type="spot")
    await sandbox.deploy("web", replicas=1, cpu="3500m")
    await sandbox.until_running(1)
    assert await _ways(sandbox) == {"on-demand"}

    sandbox.kwok.control.restock(capacity_type="spot")

    async def is_spot() -> bool:
        return await _ways(sandbox) == {"spot"} and await sandbox.running_pods() == 1

    await sandbox.until(is_spot, within=30 * MINUTE)


async def _ways(sandbox: Sandbox) -> set[str]:
    return {claim.metadata.labels.get(CAPACITY_TYPE, "") for claim in await sandbox.node_claims()}


@pytest.mark.long
@in_sandbox()
async def test_on_demand_goes_back_to_spot_after_a_stock_out(sandbox: Sandbox) -> None:
    """Spot is cheaper, so that is a saving like any other, whatever the number of spot types."""
    await _back_to_spot(sandbox)


@pytest.mark.long
@in_sandbox(settings={"consolidation-strategy": "classic"})
async def test_on_demand_goes_back_to_spot_in_the_classic_way(sandbox: Sandbox) -> None:
    """Karpenter's methods find the same."""
    await _back_to_spot(sandbox)
