"""What is bought for all new nodes of a plan together."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, SPOT, ZONE
from karpenter.core.model.pricing import Additions, Commitment, Floor, whole_prices
from karpenter.core.scheduling.problem import Options
from karpenter.core.scheduling.purchases import (
    UNNOTICED,
    OnDemandFloors,
    after_purchases,
    solve_with_commitments,
    spread_over_spot,
)
from karpenter.core.scheduling.solve import solve
from karpenter.core.state.statenode import state_nodes
from karpenter_local.testing.builders import instance_type, offering, pod, pool, problem, replicas
from tests.unit.core.disruption.clusters import cluster, machine

if TYPE_CHECKING:
    from karpenter.core.model.catalog import InstanceType
    from karpenter.core.scheduling.problem import NewNode, Plan, Pool, Problem
    from karpenter.core.state.statenode import StateNode

GREEDY = Options(packing="greedy", prove=False)
RESERVED = Commitment(kind="ReservedInstance", name="ri", instance_type="c5.large", count=2)
NODES = 100


def sold(name: str, **spot: float) -> InstanceType:
    """Return an instance type that holds one pod, at 20 cents on demand, and at these prices on spot."""
    offerings = [offering(zone.replace("_", "-"), SPOT, price) for zone, price in spot.items()]
    places = {zone.replace("_", "-") for zone in spot}
    offerings += [offering(zone, ON_DEMAND, 0.2) for zone in sorted(places)]
    return instance_type(name, cpu=2, sold=offerings)


CHEAP = sold("c5.large", zone_1=0.100, zone_2=0.102)
OTHER = sold("m5.large", zone_1=0.101, zone_2=0.110)
DEAR = sold("x1.large", zone_1=0.190, zone_2=0.190)


def asked(*types: InstanceType, nodes: int = NODES, own: Pool | None = None) -> Problem:
    """Return the problem of so many pods that each need a node."""
    pods = replicas(pod("web", cpu="1500m"), nodes)
    return problem(pods, pools=[own or pool("default", *types)], options=GREEDY)


def places(plan: Plan) -> Counter[tuple[str, str]]:
    """Return how many nodes of each type are bought in each zone."""
    return Counter((node.purchase.instance_type, node.purchase.zone) for node in plan.new_nodes)


def ways(plan: Plan) -> Counter[str]:
    """Return how many nodes are bought in which way."""
    return Counter(node.purchase.capacity_type for node in plan.new_nodes)


def running(name: str, way: str = SPOT, kind: str = "c5.large", *, own: str = "default") -> StateNode:
    """Return a node that runs."""
    (found,) = state_nodes(cluster(machine(name, kind, bought=way, pool=own)))
    return found


def chosen(node: NewNode, key: str) -> frozenset[str]:
    """Return the values that a NodeClaim allows of a label."""
    return node.requirements[key].values


def test_spot_machines_are_spread_where_others_cost_little_more() -> None:
    """A hundred machines of one type in one zone become several types and zones; what is dear stays out."""
    before = solve(asked(CHEAP, OTHER, DEAR))
    after = spread_over_spot(before, [], 0.5)
    found = places(after)

    assert places(before) == {("c5.large", "zone-1"): NODES}
    assert max(found.values()) <= 40
    assert found.keys() == {("c5.large", "zone-1"), ("c5.large", "zone-2"), ("m5.large", "zone-1")}
    assert after.cost.hourly == pytest.approx(sum(node.purchase.price for node in after.new_nodes))
    assert after.cost.hourly < before.cost.hourly * 1.02
    assert after.cost.added == pytest.approx(after.cost.hourly - before.cost.hourly)


def test_a_claim_that_was_spread_is_launched_as_planned() -> None:
    """Its claim names the zone and only types that cost no less there, so the wanted one is the cheapest."""
    after = spread_over_spot(solve(asked(CHEAP, OTHER, DEAR)), [], 0.5)
    by_place = {(node.purchase.instance_type, node.purchase.zone): node for node in after.new_nodes}
    moved = by_place["m5.large", "zone-1"]

    assert chosen(moved, ZONE) == {"zone-1"}
    assert chosen(moved, INSTANCE_TYPE) == {"m5.large", "x1.large"}
    assert chosen(moved, CAPACITY_TYPE) == {SPOT, ON_DEMAND}
    assert moved.labels[ZONE] == "zone-1"
    assert chosen(by_place["c5.large", "zone-1"], INSTANCE_TYPE) == {"c5.large", "m5.large", "x1.large"}


@pytest.mark.parametrize(
    ("nodes", "strength"),
    [pytest.param(UNNOTICED, 0.5, id="few"), pytest.param(NODES, 0.0, id="disabled")],
)
def test_few_machines_are_bought_where_they_are_cheapest(nodes: int, strength: float) -> None:
    """A plan with few machines, or without a price of concentration, stays as it is."""
    plan = solve(asked(CHEAP, OTHER, nodes=nodes))

    assert spread_over_spot(plan, [], strength) is plan


def test_machines_that_run_count() -> None:
    """Machines that are there already make the next ones of their type in their zone dearer."""
    there = [running(f"node-{number}") for number in range(60)]
    for nodes in (1, 20):
        plan = spread_over_spot(solve(asked(CHEAP, OTHER, nodes=nodes)), there, 0.5)

        assert places(plan)["c5.large", "zone-1"] == 0


def test_minimum_values_are_kept() -> None:
    """A NodePool that demands a choice of types keeps it: such nodes are not narrowed."""
    own = pool("default", CHEAP, OTHER, min_values={INSTANCE_TYPE: 2})
    plan = spread_over_spot(solve(asked(own=own)), [], 0.5)

    assert {len(chosen(node, INSTANCE_TYPE)) for node in plan.new_nodes} == {2}
    assert ("m5.large", "zone-1") not in places(plan)


@pytest.mark.parametrize(
    ("floor", "there", "on_demand"),
    [
        pytest.param(Floor(3), [], 3, id="a number"),
        pytest.param(Floor(25, percent=True), [], 3, id="a share"),
        pytest.param(Floor(3), [ON_DEMAND, ON_DEMAND], 1, id="some run on demand"),
        pytest.param(Floor(50, percent=True), [SPOT, SPOT], 6, id="some run on spot"),
        pytest.param(Floor(0), [], 0, id="nothing"),
    ],
)
def test_some_of_a_pool_stays_on_demand(floor: Floor, there: list[str], on_demand: int) -> None:
    """As many nodes are bought on demand as the floor lacks."""
    floors = OnDemandFloors({"default": floor}, {"default": Counter(there)})
    plan = floors.apply(solve(asked(CHEAP, OTHER, nodes=10)))

    assert ways(plan) == +Counter({ON_DEMAND: on_demand, SPOT: 10 - on_demand})


def test_the_floor_of_another_pool_changes_nothing() -> None:
    """A floor holds for its own NodePool."""
    plan = solve(asked(CHEAP, nodes=2))

    assert OnDemandFloors({"other": Floor(1)}, {"other": {}}).apply(plan) is plan


def test_what_is_not_sold_on_demand_stays_on_spot() -> None:
    """A floor buys on demand what it can."""
    spot_only = instance_type("c5.large", cpu=2, sold=(offering("zone-1", SPOT, 0.1),))
    floors = OnDemandFloors({"default": Floor(1)}, {"default": {}})

    assert ways(floors.apply(solve(asked(spot_only, nodes=2)))) == {SPOT: 2}


def test_what_goes_may_break_a_floor() -> None:
    """An on-demand node that goes may leave too few; a spot node, or one that is replaced, does not."""
    safe, other = running("a", ON_DEMAND), running("b", SPOT)
    floors = OnDemandFloors({"default": Floor(1)}, {"default": {ON_DEMAND: 1, SPOT: 1}})

    assert floors.without([safe]).broken_by([safe]) == "NodePool default keeps 1 of its nodes on demand"
    assert not floors.without([other]).broken_by([other])
    assert not floors.without([running("c", ON_DEMAND, own="more")]).broken_by([other])


def covered(*types: InstanceType, left: float = 2.0, nodes: int = 5) -> Problem:
    """Return a problem in which a commitment pays for some machines."""
    extra = Additions(covered=((RESERVED, left),))
    return asked(*whole_prices(types, extra), nodes=nodes)


def test_commitments_pay_for_as_many_machines_as_they_have() -> None:
    """Two machines are paid for, the others are bought where they are cheapest."""
    plan = solve_with_commitments(covered(CHEAP, OTHER), ((RESERVED, 2.0),))
    paid = [node for node in plan.new_nodes if node.purchase.price < 0.001]

    assert ways(plan) == {ON_DEMAND: 2, SPOT: 3}
    assert [chosen(node, INSTANCE_TYPE) for node in paid] == [{"c5.large"}, {"c5.large"}]
    assert [chosen(node, CAPACITY_TYPE) for node in paid] == [{ON_DEMAND}, {ON_DEMAND}]
    assert len({node.name for node in plan.new_nodes}) == 5
    assert sorted(key for node in plan.new_nodes for key in node.pods) == [
        f"default/web-{number:03d}" for number in range(5)
    ]
    assert plan.cost.hourly == pytest.approx(0.3, abs=1e-5)
    assert plan.cost.added == 0
    assert plan.because.keys() == {key for node in plan.new_nodes for key in node.pods}


def test_commitments_that_are_enough_pay_for_everything() -> None:
    """Where nothing is beyond them, one plan is all."""
    plan = solve_with_commitments(covered(CHEAP, left=9.0), ((RESERVED, 9.0),))

    assert ways(plan) == {ON_DEMAND: 5}
    assert plan.cost.hourly == pytest.approx(0, abs=1e-5)


def test_commitments_for_something_else_change_nothing() -> None:
    """A commitment that no machine may use leaves the plan as it is."""
    plan = solve_with_commitments(asked(OTHER, nodes=2), ((RESERVED, 2.0),))

    assert ways(plan) == {SPOT: 2}


def test_paid_capacity_keeps_limits() -> None:
    """What was bought first leaves less of a limit for the rest."""
    own = pool("default", CHEAP, limits={"cpu": "8", "example.com/gpu": "4"})
    (node, *_) = solve(asked(CHEAP, nodes=2)).new_nodes

    assert after_purchases(own, [node]).limits == {"cpu": 6000, "example.com/gpu": 4}
    assert after_purchases(own, []) is own
