"""What a finished run means as a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.labels import (
    ARCH,
    CAPACITY_OVERLAY_APPLIED,
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    MIN_VALUES_RELAXED,
    NODEPOOL,
    ON_DEMAND,
    PRICE_OVERLAY_APPLIED,
    SPOT,
    ZONE,
)
from karpenter.core.scheduling import decode
from karpenter.core.scheduling.decode import ClaimInstanceTypeOptions, DecodedPlan, hourly
from karpenter.core.scheduling.problem import MAX_INSTANCE_TYPES, NewNode, Options, Problem
from karpenter.core.scheduling.solve import solve
from karpenter_local.testing.builders import (
    RESERVATION,
    affinity_term,
    instance_type,
    need,
    node,
    offering,
    offerings,
    only,
    pod,
    pool,
    problem,
    replicas,
    taint,
    tolerate,
)
from tests.unit.core.scheduling.pack import schedulers

if TYPE_CHECKING:
    from karpenter.core.model.catalog import InstanceType
    from karpenter.core.scheduling.pack.scheduler import Scheduler

GREEDY = Options(packing="greedy")
FAMILY = "example.com/family"
SMALL = instance_type("small", cpu=2, memory=4, price=0.10)
LARGE = instance_type("large", cpu=8, memory=16, price=0.40)


def only_node(given: Problem) -> NewNode:
    """Return the one machine that is bought for a problem."""
    (new,) = DecodedPlan(schedulers.placed(given)).new_nodes
    return new


def test_the_cheapest_offering_that_fits_is_bought() -> None:
    """A machine is bought by price, out of those that hold its pods and suit them."""
    new = only_node(problem(pod("a", cpu="3", on={ZONE: "zone-2"}), pools=[pool("p", SMALL, LARGE)]))

    assert (new.purchase.instance_type, new.purchase.zone, new.purchase.capacity_type) == (
        "large",
        "zone-2",
        SPOT,
    )
    assert new.purchase.price == pytest.approx(0.24)
    assert new.purchase.reservation_id == ""
    assert new.allocatable == LARGE.allocatable


def test_types_are_listed_cheapest_first() -> None:
    """A claim names every type that would do, by price; equals keep their order."""
    kinds = [
        instance_type("c", price=0.3),
        instance_type("b", price=0.1),
        instance_type("a", price=0.3),
        instance_type("tiny", cpu=1, price=0.01),
    ]

    new = only_node(problem(pod("x", cpu="2"), pools=[pool("p", *kinds)]))

    assert new.instance_types == ("b", "c", "a")
    assert new.requirements[INSTANCE_TYPE].values == {"a", "b", "c"}


def test_what_is_worked_out_is_kept() -> None:
    """Types, requirements and requests are worked out when asked, and once."""
    new = only_node(problem(pod("x"), pools=[pool("p", SMALL)]))

    assert new.instance_types is new.instance_types
    assert new.requirements is new.requirements
    assert new.requests is new.requests


def test_names_are_numbered_per_pool() -> None:
    """Machines are called after their pool, in the order in which they were opened."""
    apart = replicas(pod("a", app="a", apart=[affinity_term(HOSTNAME, app="a")]), 2)
    other = pod("b", cpu="50m", tolerations=[], on={NODEPOOL: "q"})

    found = DecodedPlan(
        schedulers.placed(problem(apart, other, pools=[pool("p", SMALL), pool("q", SMALL)]))
    ).new_nodes

    assert [new.name for new in found] == ["p-1", "p-2", "q-1"]
    assert [new.pods for new in found] == [("default/a-000",), ("default/a-001",), ("default/b",)]


def test_a_claim_carries_what_its_pool_says() -> None:
    """Taints, annotations and labels of the template are passed on."""
    ours = msgspec.structs.replace(
        pool("p", SMALL, node_labels={"team": "red"}, taints=(taint("t"),)),
        annotations={"note": "x"},
        startup_taints=(taint("s"),),
    )

    new = only_node(problem(pod("a", tolerations=[tolerate("t")]), pools=[ours]))

    assert (new.pool, new.taints, new.startup_taints) == ("p", (taint("t"),), (taint("s"),))
    assert new.annotations == {"note": "x", MIN_VALUES_RELAXED: "false"}
    assert new.labels == {NODEPOOL: "p", "team": "red"}


@pytest.mark.parametrize(
    ("overlaid", "expected"),
    [
        pytest.param((True, False), {PRICE_OVERLAY_APPLIED}, id="a price"),
        pytest.param((False, True), {CAPACITY_OVERLAY_APPLIED}, id="a capacity"),
        pytest.param((True, True), {PRICE_OVERLAY_APPLIED, CAPACITY_OVERLAY_APPLIED}, id="both"),
    ],
)
def test_overlays_are_noted(overlaid: tuple[bool, bool], expected: set[str]) -> None:
    """A claim whose machine an overlay has changed says so."""
    ours = msgspec.structs.replace(pool("p", SMALL), overlaid={"small": overlaid})

    new = only_node(problem(pod("a"), pools=[ours]))

    assert set(new.annotations) == {MIN_VALUES_RELAXED} | expected
    assert {new.annotations[key] for key in expected} == {"true"}


def test_labels_are_those_that_are_settled() -> None:
    """A label with one value is known, a custom one with a choice gets a value, the launch settles others."""
    ours = pool(
        "p",
        SMALL,
        LARGE,
        requires=[only("team", "red", "blue"), need("tier", "Exists"), need("old", "DoesNotExist")],
    )

    new = only_node(problem(pod("a", on={ZONE: "zone-1"}), pools=[ours]))

    assert new.labels == {NODEPOOL: "p", ZONE: "zone-1", "team": "blue", "tier": "0"}


def test_a_node_claim_never_names_a_host() -> None:
    """No claim carries the name of a node, neither as a label nor as a requirement."""
    scheduler = schedulers.placed(problem(pod("a"), pools=[pool("p", SMALL, requires=[only(HOSTNAME, "h")])]))

    (new,) = DecodedPlan(scheduler).new_nodes

    assert HOSTNAME not in new.labels
    assert HOSTNAME not in new.requirements


def test_requirements_are_narrowed_to_what_can_be_bought() -> None:
    """A claim says how its types are sold, beside all that pool and pods ask for."""
    on_demand = instance_type("od", price=0.1, sold=[offering("zone-1", ON_DEMAND, 0.1)])

    new = only_node(problem(pod("a", on={ARCH: "amd64"}), pools=[pool("p", on_demand)]))

    assert {r.key: sorted(r.values) for r in new.requirements} == {
        NODEPOOL: ["p"],
        ARCH: ["amd64"],
        INSTANCE_TYPE: ["od"],
        CAPACITY_TYPE: [ON_DEMAND],
    }


def test_only_the_reservations_of_what_is_named_are_asked_for() -> None:
    """A claim that a limit keeps from being the larger type does not ask for that type's reservation."""
    kinds = [
        instance_type("a", cpu=4, sold=[offering("zone-1", "reserved", 0.01, reservation="r1", left=9)]),
        instance_type("b", cpu=8, sold=[offering("zone-1", "reserved", 0.02, reservation="r2", left=9)]),
    ]
    apart = replicas(pod("x", app="x", apart=[affinity_term(HOSTNAME, app="x")]), 2)

    found = DecodedPlan(
        schedulers.placed(problem(apart, pools=[pool("p", *kinds, limits={"cpu": "9"})]))
    ).new_nodes

    assert [new.instance_types for new in found] == [("a",), ("a",)]
    assert [sorted(new.requirements[RESERVATION].values) for new in found] == [["r1"], ["r1"]]


def test_requests_are_those_of_pods_and_the_least_of_daemons() -> None:
    """What every possible machine spends on daemons is asked for; what only some spend is not."""
    everywhere = pod("d", cpu="100m", memory="1Gi")
    on_large = pod(
        "e", cpu="50m", memory="1Gi", resources={"example.com/x": "1"}, on={INSTANCE_TYPE: "large"}
    )
    large = instance_type("large", cpu=8, memory=16, price=0.4, resources={"example.com/x": 4})
    given = problem(
        pod("a", cpu="1", memory="1Gi"), pools=[pool("p", SMALL, large)], daemons=[everywhere, on_large]
    )

    new = only_node(given)

    assert new.instance_types == ("small", "large")
    assert new.requests == {"cpu": 1100, "memory": 2 * 2**30, "pods": 2}


def many_types(count: int) -> list[InstanceType]:
    """Return very many types; the dearest are of another family."""
    return [
        instance_type(
            f"t{number:04d}",
            sold=offerings(1 + number / 1000, zones=["zone-1"]),
            type_labels={FAMILY: f"f{max(0, number - count + 3)}"},
        )
        for number in range(count)
    ]


def test_a_claim_names_no_more_than_the_cheapest_six_hundred() -> None:
    """Very long lists are cut by price."""
    new = only_node(problem(pod("a"), pools=[pool("p", *many_types(MAX_INSTANCE_TYPES + 9))]))

    assert new.instance_types == tuple(f"t{number:04d}" for number in range(600))


@pytest.mark.parametrize(
    ("families", "last"),
    [
        pytest.param(1, ("t0597", "t0598", "t0599"), id="the cheapest are of one family, which is enough"),
        pytest.param(2, ("t0597", "t0598", "t0607"), id="the cheapest of a second family stays"),
        pytest.param(3, ("t0597", "t0607", "t0608"), id="and of a third"),
    ],
)
def test_a_list_that_is_cut_keeps_its_choice_of_values(families: int, last: tuple[str, ...]) -> None:
    """Dear types that are needed for the least choice of values stay, in the order of price; no others."""
    kinds = many_types(MAX_INSTANCE_TYPES + 9)
    least = {FAMILY: families, INSTANCE_TYPE: 600}

    new = only_node(problem(pod("a"), pools=[pool("p", *kinds, min_values=least)], options=GREEDY))

    assert len(new.instance_types) == 600
    assert new.instance_types[-3:] == last


@pytest.mark.parametrize(
    ("least", "said", "relaxed"),
    [
        pytest.param(2, 2, "false", id="as many as there are"),
        pytest.param(3, 2, "true", id="more than there are, which is lowered"),
    ],
)
def test_a_claim_says_how_much_choice_it_keeps(least: int, said: int, relaxed: str) -> None:
    """With minValuesPolicy BestEffort a claim asks for no more values than can be bought."""
    options = Options(packing="greedy", min_values="BestEffort")
    given = problem(
        pod("a"), pools=[pool("p", SMALL, LARGE, min_values={INSTANCE_TYPE: least})], options=options
    )

    new = only_node(given)

    assert new.requirements[INSTANCE_TYPE].min_values == said
    assert new.annotations[MIN_VALUES_RELAXED] == relaxed


def test_a_zone_that_was_chosen_stays() -> None:
    """A claim that was narrowed to a zone keeps it when it is narrowed further."""
    scheduler = schedulers.placed(problem(pod("a"), pools=[pool("p", SMALL, LARGE)]))
    fitting = ClaimInstanceTypeOptions(scheduler, 0)

    zoned = fitting.narrowed(fitting.bits(), "zone-2")

    assert zoned.narrowed(fitting.bits()).requirements(("small",))[ZONE].values == {"zone-2"}
    assert zoned.narrowed(fitting.bits(), "zone-1").requirements(("small",))[ZONE].values == {"zone-1"}


def test_a_claim_asks_for_what_daemons_take_on_every_type() -> None:
    """A daemon of large machines alone is no part of what a claim requests, while small would do."""
    daemons = [
        pod("all", cpu="100m", memory="0"),
        pod("some", cpu="500m", memory="0", on={INSTANCE_TYPE: "large"}),
    ]

    new = only_node(problem(pod("a", cpu="1", memory="0"), pools=[pool("p", SMALL, LARGE)], daemons=daemons))

    assert new.requests["cpu"] == 1100


def test_a_claim_asks_for_what_daemons_alone_request() -> None:
    """A resource of which the pods request nothing is requested as much as the daemons need."""
    kind = instance_type("x", resources={"example.com/x": 4})
    daemon = pod("d", cpu="100m", memory="0", resources={"example.com/x": "2"})

    new = only_node(problem(pod("a", cpu="1", memory="0"), pools=[pool("p", kind)], daemons=[daemon]))

    assert new.requests == {"cpu": 1100, "example.com/x": 2, "pods": 2}


def test_capacity_types_are_those_of_the_types_that_are_named() -> None:
    """What only types beyond the cut are sold as is not asked for."""
    kinds = [
        *(
            instance_type(f"s{n:03d}", sold=[offering("zone-1", SPOT, 0.1)])
            for n in range(MAX_INSTANCE_TYPES)
        ),
        instance_type("od", sold=[offering("zone-1", ON_DEMAND, 0.2)]),
    ]

    new = only_node(problem(pod("a"), pools=[pool("p", *kinds)]))

    assert new.requirements[CAPACITY_TYPE].values == {SPOT}


def test_a_fitting_can_be_narrowed() -> None:
    """What a claim could be bought as can be looked at with fewer offerings, leaving the first as it was."""
    scheduler = schedulers.placed(problem(pod("a"), pools=[pool("p", SMALL, LARGE)]))
    fitting = ClaimInstanceTypeOptions(scheduler, 0)

    assert fitting.narrowed(0b111111 << 6).type_names() == ("large",)
    assert fitting.type_names() == ("small", "large")
    assert fitting.table is scheduler.templates[0].table
    assert fitting.template is scheduler.templates[0]


def test_a_reservation_is_bought_as_often_as_it_is_held() -> None:
    """Of two claims that could become the same, the one without a reservation is bought on demand."""
    sold = [offering("zone-1", ON_DEMAND, 0.2), offering("zone-1", "reserved", 0.01, reservation="r", left=1)]
    apart = replicas(pod("a", app="a", apart=[affinity_term(HOSTNAME, app="a")]), 2)
    options = Options(packing="greedy", reserved="fallback")

    scheduler = schedulers.placed(
        problem(apart, pools=[pool("p", instance_type("t", sold=sold))], options=options)
    )

    bought = [new.purchase.capacity_type for new in DecodedPlan(scheduler).new_nodes]
    assert sorted(bought) == [ON_DEMAND, "reserved"]


def test_a_claim_has_no_label_that_the_machine_brings() -> None:
    """Of a label of users one value is chosen; zone and capacity type are known when it is launched."""
    wants = [need("tier", "In", "b", "a"), need(ZONE, "In", "zone-1", "zone-2")]
    new = only_node(problem(pod("a", on={"tier": "b"}), pools=[pool("p", SMALL, requires=wants)]))
    free = only_node(problem(pod("a"), pools=[pool("p", SMALL, requires=wants)]))

    assert (new.labels["tier"], free.labels["tier"]) == ("b", "a")
    assert {ZONE, CAPACITY_TYPE, HOSTNAME}.isdisjoint(free.labels)


def test_placed_pods_are_told_by_node() -> None:
    """Nodes that take no pod are left out."""
    scheduler = schedulers.placed(problem(pod("a"), nodes=[node("n1", free={"cpu": "0"}), node("n2")]))

    assert DecodedPlan(scheduler).placed == {"n2": ("default/a",)}
    assert hourly(scheduler) == 0.0
    assert DecodedPlan(scheduler).new_nodes == ()


def test_the_price_of_a_run_is_that_of_its_machines() -> None:
    """What all machines cost together is known without working out the rest."""
    scheduler = schedulers.placed(problem(replicas(pod("a", cpu="2"), 3), pools=[pool("p", SMALL)]))

    assert hourly(scheduler) == pytest.approx(3 * 0.06)
    assert hourly(scheduler) == pytest.approx(
        sum(new.purchase.price for new in DecodedPlan(scheduler).new_nodes)
    )


def test_claims_of_one_state_are_each_bought_as_what_holds_them() -> None:
    """Claims that could become the same differ in what they need."""
    apart = [affinity_term(HOSTNAME, app="a")]
    given = problem(
        pod("big", cpu="6", app="a", apart=apart),
        pod("small", cpu="1", app="a", apart=apart),
        pools=[pool("p", SMALL, LARGE)],
    )

    assert [new.purchase.instance_type for new in DecodedPlan(schedulers.placed(given)).new_nodes] == [
        "large",
        "small",
    ]


def test_nodes_of_a_plan_are_those_of_its_run() -> None:
    """A plan is read off the run that was found."""
    plan = solve(problem(pod("a"), pools=[pool("p", SMALL)], options=GREEDY))

    assert [new.pods for new in plan.new_nodes] == [("default/a",)]


def test_purchases_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The price of a run is asked before it is chosen, and what it buys afterwards; until more is placed."""
    scheduler = schedulers.placed(problem(replicas(pod("a", cpu="2"), 3), pools=[pool("p", SMALL)]))
    asked: list[int] = []
    purchases = decode._purchases

    def noted(of: Scheduler, allowed: Any) -> Any:
        asked.append(len(of.placements))
        return purchases(of, allowed)

    monkeypatch.setattr(decode, "_purchases", noted)
    before = hourly(scheduler)
    assert [new.purchase.price for new in DecodedPlan(scheduler).new_nodes] == pytest.approx([before / 3] * 3)
    assert len(asked) == 1

    scheduler.placements.add(next(iter(scheduler.placements)).pod_data, scheduler.nodes.count, 0)
    assert hourly(scheduler) == before
    assert asked == [asked[0], asked[0] + 1]
