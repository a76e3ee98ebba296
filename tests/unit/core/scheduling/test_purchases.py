"""What is bought for all new nodes of a plan together."""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, ON_DEMAND_FLOOR, SPOT, ZONE
from karpenter.api.meta import ObjectMeta
from karpenter.api.price_annotations import Floor
from karpenter.core.model.pricing import Additions, Commitment, whole_prices
from karpenter.core.scheduling import purchases
from karpenter.core.scheduling.problem import NewNode, Options, Plan, Pool, Problem
from karpenter.core.scheduling.purchases import (
    UNNOTICED,
    OnDemandFloors,
    after_purchases,
    solve_with_commitments,
    spread_over_spot,
    with_commitments,
    with_floors,
)
from karpenter.core.scheduling.solve import solve
from karpenter.core.state.statenode import StateNode, state_nodes
from karpenter_local.testing.builders import instance_type, offering, pod, pool, problem, replicas
from tests.unit.core.disruption.clusters import cluster, machine
from tests.unit.core.disruption.clusters import pool as node_pool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karpenter.core.model.catalog import InstanceType

GREEDY = Options(packing="greedy")
RESERVED = Commitment(kind="ReservedInstance", name="ri", instance_type="c5.large", count=2)
"""Two machines of 4 normalized units each."""

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


def test_a_floor_changes_nodes_of_its_own_pool() -> None:
    """A node of another NodePool stays on spot, though it would become less dearer."""
    pods = [pod(name, cpu="1500m", on={INSTANCE_TYPE: name}) for name in ("c5.large", "x1.large")]
    plan = solve(problem(*pods, pools=[pool("a", CHEAP), pool("b", DEAR)], options=GREEDY))

    changed = OnDemandFloors({"a": Floor(1)}, {"a": {}}).apply(plan)

    assert {node.pool: node.purchase.capacity_type for node in changed.new_nodes} == {
        "a": ON_DEMAND,
        "b": SPOT,
    }


def test_a_pool_without_spot_nodes_keeps_its_floor() -> None:
    """Of two nodes on demand one may go where one is to stay."""
    safe = running("a", ON_DEMAND)
    floors = OnDemandFloors({"default": Floor(1)}, {"default": {ON_DEMAND: 2}})

    assert floors.without([safe]).broken_by([safe]) == ""


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


def covered(*types: InstanceType, left: float = 8.0, nodes: int = 5) -> Problem:
    """Return a problem in which a commitment pays for some machines."""
    extra = Additions(covered=((RESERVED, left),))
    return asked(*whole_prices(types, extra), nodes=nodes)


def test_commitments_pay_for_as_many_machines_as_they_have() -> None:
    """Two machines are paid for, the others are bought where they are cheapest."""
    plan = solve_with_commitments(covered(CHEAP, OTHER), ((RESERVED, 8.0),))
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


def test_what_is_left_of_other_commitments_is_used_too() -> None:
    """Pods beyond the first commitment go to what another one pays for, and only then to the market."""
    plan_for = Commitment(kind="SavingsPlan", name="sp", family="m5", hourly=0.3, rate=0.5)
    zonal = Commitment(kind="ReservedInstance", name="az", instance_type="x1.large", zone="zone-2", count=1)
    left = ((RESERVED, 8.0), (zonal, 1.0), (plan_for, 0.3))
    types = whole_prices((CHEAP, OTHER, DEAR), Additions(covered=left))
    plan = solve_with_commitments(asked(*types, nodes=9), left)
    paid = [node.purchase for node in plan.new_nodes if node.purchase.price < 0.001]

    assert Counter(bought.instance_type for bought in paid) == {"c5.large": 2, "m5.large": 3, "x1.large": 1}
    assert {bought.zone for bought in paid if bought.instance_type == "x1.large"} == {"zone-2"}
    assert ways(plan) == {ON_DEMAND: 6, SPOT: 3}
    assert plan.cost.hourly == pytest.approx(0.3, abs=1e-4)
    assert len({node.name for node in plan.new_nodes}) == 9


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_commitments_are_looked_at_so_many_times(rounds: int) -> None:
    """Each round uses up one commitment; what is left of others after the last is not used."""
    own = [
        Commitment(kind="ReservedInstance", name=name, instance_type=f"{name}.large", count=1)
        for name in ("c5", "m5", "x1")
    ]
    left = tuple((each, each.size) for each in own)
    types = whole_prices((CHEAP, OTHER, DEAR), Additions(covered=left))

    assert ways(solve_with_commitments(asked(*types, nodes=6), left, rounds))[ON_DEMAND] == rounds


def test_a_paid_machine_stays_of_the_type_that_was_chosen() -> None:
    """A commitment for any family pays for either type; a NodeClaim that it pays for is of one."""
    any_family = Commitment(kind="SavingsPlan", name="sp", hourly=1.0, rate=0.5)
    left = ((any_family, 1.0),)
    types = whole_prices((CHEAP, OTHER), Additions(covered=left))
    plan = solve_with_commitments(asked(*types, nodes=2), left)

    assert [chosen(node, INSTANCE_TYPE) for node in plan.new_nodes] == [
        {node.purchase.instance_type} for node in plan.new_nodes
    ]


def test_commitments_that_are_enough_pay_for_everything() -> None:
    """Where nothing is beyond them, one plan is all."""
    plan = solve_with_commitments(covered(CHEAP, left=36.0), ((RESERVED, 36.0),))

    assert ways(plan) == {ON_DEMAND: 5}
    assert plan.cost.hourly == pytest.approx(0, abs=1e-5)


def test_commitments_for_something_else_change_nothing() -> None:
    """A commitment that no machine may use leaves the plan as it is."""
    plan = solve_with_commitments(asked(OTHER, nodes=2), ((RESERVED, 8.0),))

    assert ways(plan) == {SPOT: 2}


def test_paid_capacity_keeps_limits() -> None:
    """What was bought first leaves less of a limit for the rest."""
    own = pool("default", CHEAP, limits={"cpu": "8", "example.com/gpu": "4"})
    (node, *_) = solve(asked(CHEAP, nodes=2)).new_nodes

    assert after_purchases(own, [node]).limits == {"cpu": 6000, "example.com/gpu": 4}
    assert after_purchases(own, []) is own


def test_limits_count_nodes() -> None:
    """Every machine that is bought takes one of the nodes that a pool may have."""
    own = pool("default", CHEAP, OTHER, limits={"nodes": "5", "cpu": "9"})
    first, second = solve(asked(CHEAP, nodes=2)).new_nodes
    other = msgspec.structs.replace(first, pool="other")

    assert after_purchases(own, [first, second]).limits == {"nodes": 3, "cpu": 5000}
    assert after_purchases(own, [first, other]).limits == {"nodes": 4, "cpu": 7000}
    assert after_purchases(own, [other]) is own
    assert after_purchases(pool("default", CHEAP), [first]).limits == {}


@pytest.mark.parametrize(
    ("requests", "allocatable", "fullness"),
    [
        pytest.param({"cpu": 500}, {"cpu": 1000, "pods": 1, "gpu": 0}, 0.5, id="of what is asked for"),
        pytest.param({"cpu": 500, "pods": 1}, {"cpu": 1000, "pods": 1}, 1.0, id="of the scarcest"),
        pytest.param({}, {}, 0.0, id="of nothing"),
    ],
)
def test_how_full_a_node_is(requests: dict[str, int], allocatable: dict[str, int], fullness: float) -> None:
    """A node is as full as the resource of which least is left."""
    node: Any = SimpleNamespace(requests=requests, allocatable=allocatable)

    assert purchases._fullness(node) == fullness


def test_the_fullest_machines_are_paid_for() -> None:
    """Where a commitment pays for one of two machines, it is the one that is used most."""
    pods = [pod("little", cpu="1200m"), pod("much", cpu="1900m")]
    types = whole_prices((CHEAP, OTHER), Additions(covered=((RESERVED, 4.0),)))
    given = problem(*pods, pools=[pool("default", *types)], options=GREEDY)

    plan = solve_with_commitments(given, ((RESERVED, 4.0),))

    assert [(node.name, node.pods, node.purchase.capacity_type) for node in plan.new_nodes] == [
        ("default-1", ("default/much",), ON_DEMAND),
        ("default-2", ("default/little",), SPOT),
    ]


def test_a_plan_of_two_is_complete_if_both_are() -> None:
    """A search that was stopped in either of them was stopped."""
    whole = solve(asked(CHEAP, nodes=1))
    part = msgspec.structs.replace(whole, complete=False)

    for first, second in ((whole, part), (part, whole), (part, part)):
        assert not purchases._combined(first, first.new_nodes, second).complete
    assert purchases._combined(whole, whole.new_nodes, whole).complete


def test_paid_machines_keep_the_choice_that_a_pool_demands() -> None:
    """A NodePool that demands a choice of types keeps it, though a commitment is for one type."""
    types = whole_prices((CHEAP, OTHER), Additions(covered=((RESERVED, 36.0),)))
    own = pool("default", *types, min_values={INSTANCE_TYPE: 2})

    plan = solve_with_commitments(asked(nodes=2, own=own), ((RESERVED, 36.0),))

    assert [chosen(node, INSTANCE_TYPE) for node in plan.new_nodes] == [{"c5.large", "m5.large"}] * 2


def test_the_machines_that_become_least_dearer_are_bought_on_demand() -> None:
    """Of two machines the one whose on-demand price is nearer to its spot price is changed."""
    pods = [pod(name, cpu="1500m", on={INSTANCE_TYPE: name}) for name in ("c5.large", "x1.large")]
    plan = solve(problem(*pods, pools=[pool("default", CHEAP, DEAR)], options=GREEDY))

    changed = OnDemandFloors({"default": Floor(1)}, {"default": {}}).apply(plan)

    assert {node.purchase.instance_type: node.purchase.capacity_type for node in changed.new_nodes} == {
        "c5.large": SPOT,
        "x1.large": ON_DEMAND,
    }
    assert changed.cost.added == pytest.approx(0.01)
    assert changed.cost.hourly == pytest.approx(0.3)


def test_a_floor_keeps_the_choice_that_a_pool_demands() -> None:
    """A node that would be left with one type stays as it is."""
    spot_only = instance_type("s5.large", cpu=2, sold=(offering("zone-1", SPOT, 0.1),))
    own = pool("default", CHEAP, spot_only, min_values={INSTANCE_TYPE: 2})
    plan = solve(asked(nodes=2, own=own))

    assert OnDemandFloors({"default": Floor(1)}, {"default": {}}).apply(plan) is plan


def test_nodes_that_come_and_go_are_counted() -> None:
    """Nodes of pools with a floor are counted by capacity type."""
    floors = OnDemandFloors({"default": Floor(1)}, {"default": {ON_DEMAND: 3}})
    plan = solve(asked(CHEAP, nodes=2))
    elsewhere = [msgspec.structs.replace(node, pool="other") for node in plan.new_nodes]

    assert floors.with_nodes((*plan.new_nodes, *elsewhere)).running == {"default": {ON_DEMAND: 3, SPOT: 2}}
    assert floors.without([running("a", ON_DEMAND), running("b", ON_DEMAND)]).running == {
        "default": {ON_DEMAND: 1}
    }


def test_floors_are_stated_by_annotations() -> None:
    """Nodes of pools that state a floor count, unless they are deleted."""
    stated = msgspec.structs.replace(
        node_pool("default"), metadata=ObjectMeta(name="default", annotations={ON_DEMAND_FLOOR: "20%"})
    )
    there = [running("a"), running("b", ON_DEMAND), running("c", ON_DEMAND), running("d", own="other")]
    there += [msgspec.structs.replace(running("e"), marked=True)]

    found = OnDemandFloors.of([stated, node_pool("other")], there)

    assert found.floors == {"default": Floor(20, percent=True)}
    assert found.running == {"default": {SPOT: 1, ON_DEMAND: 2}}
    assert OnDemandFloors.of([node_pool("other")], there) == OnDemandFloors()


def test_how_many_machines_go_where() -> None:
    """A hundred machines: each goes where its price, and what its place has beyond twenty, are least."""
    after = spread_over_spot(solve(asked(CHEAP, OTHER, DEAR)), [], 0.5)
    prices = {("c5.large", "zone-1"): 0.100, ("m5.large", "zone-1"): 0.101, ("c5.large", "zone-2"): 0.102}
    # The next machine of each would cost about the same: 0.1 * (1 + 0.005 * 16) and so on.
    level = {key: price * (1 + 0.005 * (places(after)[key] - 20)) for key, price in prices.items()}

    assert places(after) == {
        ("c5.large", "zone-1"): 36,
        ("m5.large", "zone-1"): 33,
        ("c5.large", "zone-2"): 31,
    }
    assert max(level.values()) - min(level.values()) < 0.001


def test_machines_on_demand_or_going_do_not_count() -> None:
    """Only spot machines that stay make the next ones dearer."""
    plan = solve(asked(CHEAP, OTHER, nodes=5))
    safe = [running(f"safe-{number}", ON_DEMAND) for number in range(60)]
    going = [msgspec.structs.replace(running(f"going-{number}"), marked=True) for number in range(60)]

    assert spread_over_spot(plan, [*safe, *going], 0.5) is plan


def test_a_floor_is_kept_where_the_choice_stays() -> None:
    """A node that still has two types on demand is bought on demand."""
    own = pool("default", CHEAP, OTHER, min_values={INSTANCE_TYPE: 2})
    plan = OnDemandFloors({"default": Floor(1)}, {"default": {}}).apply(solve(asked(nodes=2, own=own)))

    assert ways(plan) == {ON_DEMAND: 1, SPOT: 1}


def test_a_commitment_in_one_zone_is_used_there() -> None:
    """A machine that a commitment pays for in one zone is bought as nothing else."""
    zonal = msgspec.structs.replace(RESERVED, zone="zone-1")
    given = asked(*whole_prices((CHEAP, OTHER), Additions(covered=((zonal, 2.0),))), nodes=1)

    (node,) = solve_with_commitments(given, ((zonal, 2.0),)).new_nodes

    assert (node.purchase.capacity_type, node.purchase.zone) == (ON_DEMAND, "zone-1")
    assert purchases.options_of(node).bits().bit_count() == 1


def test_a_regional_reserved_instance_pays_for_machines_of_another_size() -> None:
    """One c5.2xlarge is 16 units: four c5.large of 4 units are paid for, and the fifth is bought on spot."""
    regional = Commitment(kind="ReservedInstance", name="ri", instance_type="c5.2xlarge", count=1)
    left = ((regional, regional.size),)
    given = asked(*whole_prices((CHEAP, OTHER), Additions(covered=left)), nodes=5)

    plan = solve_with_commitments(given, left)

    assert ways(plan) == {ON_DEMAND: 4, SPOT: 1}
    assert plan.cost.hourly == pytest.approx(0.1, abs=1e-5)


@pytest.mark.parametrize(
    ("types", "left", "expected"),
    [
        pytest.param((CHEAP, OTHER), 8.0, [ON_DEMAND, ON_DEMAND, SPOT], id="8 units pay for two of three"),
        pytest.param((CHEAP,), 36.0, [ON_DEMAND, ON_DEMAND, ON_DEMAND], id="36 units pay for all"),
        pytest.param((OTHER,), 8.0, [SPOT, SPOT, SPOT], id="a commitment for something else pays for none"),
    ],
)
def test_machines_that_are_beyond_a_commitment(
    types: tuple[InstanceType, ...], left: float, expected: list[str]
) -> None:
    """New machines are bought only as what a commitment pays for, and then on spot."""
    nodes = solve(covered(*types, nodes=3)).new_nodes
    found = with_commitments(nodes, ((RESERVED, left),))

    assert [node.purchase.capacity_type for node in found] == expected


def test_a_machine_beyond_a_commitment_stays_where_there_is_no_spot() -> None:
    """What can be bought on demand only is left as it is."""
    dear = instance_type("c5.large", cpu=2, sold=(offering("zone-1", ON_DEMAND, 0.2),))
    (node,) = solve(covered(dear, nodes=1)).new_nodes

    assert with_commitments([node], ((RESERVED, 0.0),)) == (node,)


def stocked(*, dear: float = 0.4) -> list[InstanceType]:
    """Return a type for ten pods and one for two, at 20 % of their on-demand price on spot."""
    zone = "zone-1"
    return [
        instance_type("large", cpu=11, sold=(offering(zone, ON_DEMAND, 1.0), offering(zone, SPOT, 0.2))),
        instance_type("small", cpu=3, sold=(offering(zone, ON_DEMAND, dear), offering(zone, SPOT, 0.08))),
    ]


def floored(problem: Problem, floor: Floor, there: Mapping[str, int] = MappingProxyType({})) -> Plan:
    """Return a plan that keeps a floor of the pool."""
    return with_floors(solve(problem), problem, OnDemandFloors({"default": floor}, {"default": there}), ())


def some(types: Sequence[InstanceType], count: int = 10, **spec: Any) -> Problem:
    """Return the problem of so many pods of one cpu."""
    pods = replicas(pod("web", cpu="1", **spec), count)
    return problem(pods, pools=[pool("default", *types)], options=Options())


def bought(plan: Plan) -> Counter[str]:
    return Counter(f"{n.purchase.instance_type}/{n.purchase.capacity_type}" for n in plan.new_nodes)


@pytest.mark.parametrize(
    ("types", "floor", "expected", "hourly"),
    [
        pytest.param(
            stocked(),
            Floor(20, percent=True),
            {"small/on-demand": 1, "large/spot": 1},
            0.6,
            id="2 of 10 pods apart cost 0.4 + 0.2, which is less than 1.0",
        ),
        pytest.param(
            stocked(dear=0.9),
            Floor(20, percent=True),
            {"large/on-demand": 1},
            1.0,
            id="0.9 + 0.2 is more than 1.0",
        ),
        pytest.param(stocked(), Floor(1), {"large/on-demand": 1}, 1.0, id="a number means whole nodes"),
        pytest.param(
            stocked(), Floor(100, percent=True), {"large/on-demand": 1}, 1.0, id="all pods are not a share"
        ),
        pytest.param(stocked(), Floor(0, percent=True), {"large/spot": 1}, 0.2, id="no floor"),
    ],
)
def test_a_share_of_the_pods_is_packed_apart(
    types: list[InstanceType], floor: Floor, expected: dict[str, int], hourly: float
) -> None:
    """Ten pods fit on one machine of 0.2 on spot and 1.0 on demand; the cheaper way is taken."""
    plan = floored(some(types), floor)

    assert bought(plan) == expected
    assert plan.cost.hourly == pytest.approx(hourly)
    assert plan.cost.added == pytest.approx(hourly - 0.2)
    assert sorted(key for node in plan.new_nodes for key in node.pods) == [
        f"default/web-{number:03d}" for number in range(10)
    ]


def test_many_nodes_are_exchanged_whole() -> None:
    """Of eleven nodes three are a share that is close enough; pods stay together."""
    plan = floored(some(stocked(), 121), Floor(20, percent=True))

    assert bought(plan) == {"large/on-demand": 3, "large/spot": 8}


def test_pods_are_not_packed_apart_where_the_floor_would_be_kept_less() -> None:
    """With nine nodes on spot two must be on demand, then three: as one can be bought, it is a whole one."""
    plan = floored(some(stocked()), Floor(20, percent=True), {SPOT: 9})

    assert bought(plan) == {"large/on-demand": 1}


def test_pods_that_may_not_be_on_demand_are_not_packed_apart() -> None:
    """What requires spot is left alone, and no pod loses its place for a floor."""
    plan = floored(some(stocked(), on={CAPACITY_TYPE: SPOT}), Floor(20, percent=True))

    assert bought(plan) == {"large/spot": 1}
    assert not plan.refusals


def test_no_pod_loses_its_place_for_a_floor() -> None:
    """Pods that are apart have no place where nothing is sold on demand, so the plan stays as it is."""
    spot_only = [instance_type("large", cpu=11, sold=(offering("zone-1", SPOT, 0.2),))]
    plan = floored(some(spot_only), Floor(20, percent=True))

    assert bought(plan) == {"large/spot": 1}
    assert not plan.refusals


def test_the_floor_of_a_pool_without_new_nodes_moves_no_pods() -> None:
    """A NodePool that is short and gets no nodes has no pods to pack apart."""
    asked_for = some(stocked())
    floors = OnDemandFloors({"other": Floor(50, percent=True)}, {"other": {SPOT: 2}})

    assert bought(with_floors(solve(asked_for), asked_for, floors, ())) == {"large/spot": 1}


def test_pods_are_packed_apart_where_whole_nodes_keep_no_floor() -> None:
    """The machine for ten pods is sold on spot only; two pods go to the one that is sold on demand."""
    _, small = stocked()
    spot_only = instance_type("large", cpu=11, sold=(offering("zone-1", SPOT, 0.2),))
    plan = floored(some([spot_only, small]), Floor(20, percent=True))

    assert bought(floored(some([spot_only, small]), Floor(1))) == {"large/spot": 1}
    assert bought(plan) == {"small/on-demand": 1, "large/spot": 1}
