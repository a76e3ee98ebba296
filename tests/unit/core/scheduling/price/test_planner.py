"""Packing by price: what is taken apart, what is kept, and when the greedy answer stays."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec
import pytest

from karpenter.api.labels import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODEPOOL, ON_DEMAND, ZONE
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.decode import hourly
from karpenter.core.scheduling.price import planner
from karpenter.core.scheduling.price.planner import cheaper
from karpenter.core.scheduling.problem import Options, Plan, PodVolumes, Problem
from karpenter.core.scheduling.solve import search, solve
from karpenter_local.testing.builders import (
    affinity_term,
    instance_type,
    need,
    node,
    offering,
    only,
    pod,
    pool,
    problem,
    replicas,
    spread,
)
from karpenter_local.testing.validator import problems_of

BARGAIN = instance_type("bargain", cpu=4, memory=8, price=0.10)
HUGE = instance_type("huge", cpu=64, memory=128, price=4.00)
SERVERS = replicas(pod("s", cpu="900m", memory="1Gi"), 16)
"""Greedy puts them all on one huge machine; four bargains do for a tenth of the price."""


def packed(given: Problem, packing: Literal["greedy", "price"]) -> Plan:
    """Return the plan of a problem, packed one way or the other."""
    options = msgspec.structs.replace(given.options, packing=packing)
    return solve(msgspec.structs.replace(given, options=options))


def machines(plan: Plan, pool_name: str = "p") -> Counter[str]:
    """Return which types a plan buys for a pool, and how many of each."""
    return Counter(new.purchase.instance_type for new in plan.new_nodes if new.pool == pool_name)


def test_pods_are_packed_again_where_that_is_cheaper() -> None:
    """Greedy fills the largest machine; packing by price buys what holds the pods for less."""
    given = problem(SERVERS, pools=[pool("p", BARGAIN, HUGE)])

    assert machines(packed(given, "greedy")) == {"huge": 1}
    assert machines(packed(given, "price")) == {"bargain": 4}


def test_existing_nodes_keep_their_pods() -> None:
    """What the greedy run has put on existing nodes stays there."""
    given = problem(SERVERS, pools=[pool("p", BARGAIN, HUGE)], nodes=[node("n", free={"cpu": "4"})])

    plan = packed(given, "price")

    assert plan.placed == packed(given, "greedy").placed != {}
    assert machines(plan) == {"bargain": 3}


IMMOVABLE = {
    "pods with host ports stay": problem(
        replicas(pod("s", cpu="900m", memory="1Gi", ports=[80]), 3), pools=[pool("p", BARGAIN, HUGE)]
    ),
    "pods that must share a node stay": problem(
        replicas(pod("s", cpu="900m", memory="1Gi", app="s", near=[affinity_term(HOSTNAME, app="s")]), 16),
        pools=[pool("p", BARGAIN, HUGE)],
    ),
    "pools with minimum values stay": problem(
        SERVERS, pools=[pool("p", BARGAIN, HUGE, min_values={CAPACITY_TYPE: 2})]
    ),
    "pools with reserved capacity stay": problem(
        SERVERS,
        pools=[
            pool(
                "p",
                BARGAIN,
                HUGE,
                instance_type(
                    "r", cpu=64, sold=[offering("zone-1", "reserved", 0.1, reservation="r", left=1)]
                ),
            )
        ],
    ),
    "pods with volumes stay": problem(
        replicas(pod("s", cpu="900m", memory="1Gi"), 16),
        pools=[pool("p", BARGAIN, HUGE)],
        volumes={
            f"default/s-{n:03d}": PodVolumes(alternatives=(Requirements.only(ZONE, frozenset({"zone-1"})),))
            for n in range(16)
        },
    ),
    "pods whose zone is still open but counts stay": problem(
        replicas(pod("s", cpu="900m", memory="1Gi", app="s"), 16),
        pod("other", cpu="500", spreads=[spread(ZONE, app="s")]),
        pools=[pool("p", BARGAIN, HUGE)],
    ),
}


@pytest.mark.parametrize("given", [pytest.param(given, id=name) for name, given in IMMOVABLE.items()])
def test_what_is_not_only_about_money_stays(given: Problem) -> None:
    """Claims whose pods are bound by more than their size are not taken apart."""
    scheduler, _ = search(msgspec.structs.replace(given, options=Options(packing="greedy")))

    assert cheaper(scheduler) is scheduler
    assert planner._movable(scheduler) == []


def test_zones_are_kept_while_machines_change() -> None:
    """Pods that are spread stay in the zones that the greedy run gave them, on cheaper machines."""
    even = replicas(pod("s", cpu="900m", memory="1Gi", app="s", spreads=[spread(ZONE, app="s")]), 16)
    given = problem(even, pools=[pool("p", BARGAIN, HUGE)])

    plan = packed(given, "price")

    zones = Counter({new.purchase.zone: 0 for new in plan.new_nodes})
    for new in plan.new_nodes:
        zones[new.purchase.zone] += len(new.pods)
    assert sorted(zones.values()) == [5, 5, 6]
    assert set(machines(plan)) == {"bargain"}
    assert problems_of(given, plan) == []


def test_pods_that_avoid_each_other_still_do() -> None:
    """However cheap one machine for all would be, anti-affinity and spread over nodes hold."""
    apart = replicas(pod("a", cpu="900m", app="a", apart=[affinity_term(HOSTNAME, app="a")]), 3)
    pairs = replicas(pod("b", cpu="800m", app="b", spreads=[spread(HOSTNAME, app="b", skew=2)]), 6)
    cheap = instance_type("cheap", cpu=64, memory=128, price=0.05)
    given = problem(apart, pairs, SERVERS, pools=[pool("p", BARGAIN, HUGE, cheap)])

    plan = packed(given, "price")

    assert problems_of(given, plan) == []
    assert max(sum(name.startswith("default/a") for name in new.pods) for new in plan.new_nodes) == 1
    assert max(sum(name.startswith("default/b") for name in new.pods) for new in plan.new_nodes) <= 2


def test_pods_that_avoid_others_are_put_elsewhere_in_the_end() -> None:
    """Prices say nothing about anti-affinity, so pods that exclude each other are separated when placed."""
    avoided = replicas(pod("a", cpu="900m", memory="1Gi", app="a"), 6)
    avoiding = replicas(pod("b", cpu="900m", memory="1Gi", apart=[affinity_term(HOSTNAME, app="a")]), 6)
    given = problem(avoided, avoiding, pools=[pool("p", BARGAIN, HUGE)])

    plan = packed(given, "price")

    assert problems_of(given, plan) == []
    assert plan.refusals == ()
    assert plan.cost.hourly <= packed(given, "greedy").cost.hourly


def test_on_demand_pods_do_not_make_their_neighbours_dear() -> None:
    """A pod that must run on demand no longer takes spot pods with it."""
    strict = pod("d", cpu="900m", memory="1Gi", terms=[[only(CAPACITY_TYPE, ON_DEMAND)]])
    given = problem(SERVERS, strict, pools=[pool("p", BARGAIN, instance_type("large", cpu=32, price=0.9))])

    plan = packed(given, "price")

    assert sorted(new.purchase.capacity_type for new in plan.new_nodes) == [ON_DEMAND] + 4 * ["spot"]
    assert plan.cost.hourly < packed(given, "greedy").cost.hourly


def test_kept_claims_stay_within_limits() -> None:
    """Claims that are kept count against their pool's limits while the rest is packed by price."""
    big = instance_type("big", cpu=32, price=0.05)
    small = instance_type("small", cpu=4, price=0.20)
    given = problem(
        replicas(pod("a", cpu="1", ports=[80], on={NODEPOOL: "q"}), 2),
        pod("b", cpu="500m", on={NODEPOOL: "q"}),
        replicas(pod("s", cpu="900m", memory="1Gi", on={NODEPOOL: "p"}), 16),
        pools=[pool("q", big, small, limits={"cpu": "40"}), pool("p", BARGAIN, HUGE)],
    )

    plan = packed(given, "price")

    assert machines(plan, "q") == {"big": 1, "small": 1}
    assert machines(plan) == {"bargain": 4}
    assert problems_of(given, plan) == []


def test_a_limit_that_kept_claims_would_now_exceed_keeps_the_greedy_plan() -> None:
    """A kept claim that would take more of a limit than it did is reason enough to change nothing."""
    kinds = [
        instance_type("z", cpu=2, price=0.05),
        instance_type("w", cpu=8, price=3.00),
        instance_type("x", cpu=8, price=2.00),
        instance_type("y", cpu=12, price=1.00),
    ]
    given = problem(
        pod("a", cpu="1500m", ports=[80], on={NODEPOOL: "q"}),
        pod("b", cpu="1400m", ports=[80], on={NODEPOOL: "q", INSTANCE_TYPE: "w"}),
        pod("c", cpu="1000m", on={NODEPOOL: "q"}, terms=[[only(INSTANCE_TYPE, "x", "y")]]),
        replicas(pod("s", cpu="900m", memory="1Gi", on={NODEPOOL: "p"}), 16),
        pools=[pool("q", *kinds, limits={"cpu": "16"}), pool("p", BARGAIN, HUGE)],
    )

    plan = packed(given, "price")

    assert machines(plan, "q") == {"w": 1, "x": 1}
    assert machines(plan) == {"huge": 1}
    assert problems_of(given, plan) == []


def test_cheaper_machines_that_a_limit_forbids_are_not_bought() -> None:
    """When the limit on nodes leaves too few of the cheaper machines, the greedy plan stays."""
    given = problem(SERVERS, pools=[pool("p", BARGAIN, HUGE, limits={"nodes": "3"})])

    plan = packed(given, "price")

    assert machines(plan) == {"huge": 1}
    assert plan.refusals == ()


def test_custom_labels_that_exclude_each_other_are_told_apart_in_the_end() -> None:
    """Offerings say nothing about custom labels, so what does not go together is separated when placed."""
    red = replicas(pod("r", cpu="900m", memory="1Gi", on={"team": "red"}), 7)
    blue = replicas(pod("b", cpu="900m", memory="1Gi", on={"team": "blue"}), 9)
    given = problem(red, blue, pools=[pool("p", BARGAIN, HUGE, requires=[only("team", "red", "blue")])])

    plan = packed(given, "price")

    assert problems_of(given, plan) == []
    assert {name[8] for new in plan.new_nodes for name in new.pods if new.labels["team"] == "red"} == {"r"}
    assert plan.cost.hourly < packed(given, "greedy").cost.hourly


def test_a_label_that_only_affinity_defines_is_left_to_the_greedy_packer() -> None:
    """A pod whose label is only known on its claim has no machine of its own, so it is placed as before."""
    without = pod("a", cpu="900m", terms=[[need("team", "NotIn", "red")]])
    blue = pod("b", cpu="800m", on={"team": "blue"})
    given = problem(without, blue, pools=[pool("p", BARGAIN, HUGE)])

    plan = packed(given, "price")

    assert [new.pods for new in plan.new_nodes] == [("default/a", "default/b")]
    assert plan.cost == packed(given, "greedy").cost


def test_pods_of_about_one_size_are_packed_as_equals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number of different pods, those of about one size share a place, and all have room."""
    monkeypatch.setattr(planner, "_MOST_ITEMS", 2)
    sizes = [pod(f"s{n}", cpu=f"{700 + n}m", memory=f"{100 + 3 * n}Mi") for n in range(12)]
    given = problem(*sizes, pod("t", cpu="200m"), pools=[pool("p", BARGAIN, HUGE)])

    plan = packed(given, "price")

    assert problems_of(given, plan) == []
    assert plan.cost.hourly < packed(given, "greedy").cost.hourly


def test_machines_are_filled_up_with_what_pods_really_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods that were packed as if all were as large as the largest leave room, which others get."""
    monkeypatch.setattr(planner, "_MOST_ITEMS", 1)
    sizes = [pod(f"s{n}", cpu="500m" if n else "900m", memory="100Mi") for n in range(20)]
    given = problem(*sizes, pools=[pool("p", BARGAIN, HUGE)])

    plan = packed(given, "price")

    assert problems_of(given, plan) == []
    assert machines(plan) == {"bargain": 3}  # were all as large as the largest, they would need five


def test_pods_of_many_choices_are_settled_on_few_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number of different choices each pod is packed for one machine, and still has its choice."""
    monkeypatch.setattr(planner, "_MOST_KINDS", 1)
    kinds = [BARGAIN, HUGE]
    picky = [
        pod(f"s{n}", cpu="900m", memory="100Mi", terms=[[need("team", "NotIn", f"x{n}")]]) for n in range(6)
    ]
    bound = pod("t", cpu="200m", on={INSTANCE_TYPE: "huge"})
    given = problem(*picky, bound, pools=[pool("p", *kinds)])

    plan = packed(given, "price")

    assert problems_of(given, plan) == []
    assert plan.cost.hourly <= packed(given, "greedy").cost.hourly


def test_too_many_different_pods_are_left_to_the_greedy_packer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number of pods that differ in more than size, packing by price takes too long."""
    monkeypatch.setattr(planner, "_MOST_ITEMS", 1)
    monkeypatch.setattr(planner, "_TOO_MANY", 1)
    given = problem(
        SERVERS, pod("t", cpu="200m", on={INSTANCE_TYPE: "huge"}), pools=[pool("p", BARGAIN, HUGE)]
    )

    assert machines(packed(given, "price")) == {"huge": 1}


def test_a_stopped_search_keeps_the_greedy_plan() -> None:
    """When time is up before packing by price has begun, what the greedy run found is the plan."""
    calls = iter([False, True, True, True, True, True])
    given = problem(SERVERS, pools=[pool("p", BARGAIN, HUGE)], options=Options(stop=lambda: next(calls)))

    plan = packed(given, "price")

    assert machines(plan) == {"huge": 1}
    assert plan.complete


def test_a_search_that_is_stopped_between_pools_keeps_the_greedy_plan() -> None:
    """When time is up while pools are packed by price, nothing of it is used."""
    scheduler, _ = search(
        problem(SERVERS, pools=[pool("p", BARGAIN, HUGE)], options=Options(packing="greedy"))
    )
    scheduler.stop = lambda: True

    assert cheaper(scheduler) is scheduler


def test_what_is_cheaper_places_every_pod() -> None:
    """A cheaper run has the same pods as the one that it was made from."""
    scheduler, left = search(
        problem(SERVERS, pools=[pool("p", BARGAIN, HUGE)], options=Options(packing="greedy"))
    )

    better = cheaper(scheduler)

    assert left == {}
    assert hourly(better) == pytest.approx(4 * 0.10 * 0.6)
    assert sum(placement.pod_count for placement in better.placements) == len(SERVERS)
