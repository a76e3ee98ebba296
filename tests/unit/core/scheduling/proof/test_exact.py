"""Small problems are solved with whole machines and whole pods, and the bound is never above the optimum."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest

from karpenter.api.labels import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE
from karpenter.core.model.requirements import NOTHING_REQUIRED
from karpenter.core.scheduling.pack.scheduler import Scheduler
from karpenter.core.scheduling.price import repack
from karpenter.core.scheduling.price.divided import DomainSplit
from karpenter.core.scheduling.price.planner import UnplacedPods
from karpenter.core.scheduling.price.whole import Bin, Pattern, PatternProblem, Solution
from karpenter.core.scheduling.proof import exact, machines
from karpenter.core.scheduling.proof.machines import MachineSearch
from karpenter.core.scheduling.proof.prove import solve_and_prove
from karpenter.core.scheduling.solve import search
from karpenter_local.testing.builders import (
    affinity_term,
    instance_type,
    node,
    offering,
    pod,
    pool,
    problem,
    replicas,
    spread,
)
from karpenter_local.testing.validator import problems_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.core.scheduling.problem import Problem

ZONES = ("zone-1", "zone-2")


class Group(msgspec.Struct, frozen=True):
    """Equal pods of a tiny problem."""

    cpu: int
    count: int
    rule: str


def drawn(seed: int) -> tuple[list[Group], dict[tuple[int, str], float]]:
    """Return a few pods and the price of each size of machine in each zone."""
    rng = random.Random(seed)  # noqa: S311  a repeatable problem, not a secret
    groups = [
        Group(rng.randint(1, 4), rng.randint(1, 3), rng.choice(["", "spread", "apart", "zone-1"]))
        for _ in range(rng.randint(1, 2))
    ]
    return groups, {(size, zone): round(size * rng.uniform(0.5, 1.5), 3) for size in (4, 7) for zone in ZONES}


def stated(
    groups: list[Group],
    prices: dict[tuple[int, str], float],
    *,
    ports: Sequence[int] = (),
    min_values: dict[str, int] | None = None,
    nodes: Sequence[Any] = (),
) -> Problem:
    """Return the tiny problem as manifests would state it."""
    types = [
        instance_type(
            f"t{size}",
            cpu=size,
            memory=64,
            sold=[offering(zone, "on-demand", prices[size, zone]) for zone in ZONES],
        )
        for size in (4, 7)
    ]
    pods = []
    for number, each in enumerate(groups):
        app = f"app-{number}"
        pods.append(
            replicas(
                pod(
                    app,
                    cpu=str(each.cpu),
                    app=app,
                    ports=ports,
                    spreads=[spread(ZONE, app=app)] if each.rule == "spread" else [],
                    apart=[affinity_term(HOSTNAME, app=app)] if each.rule == "apart" else [],
                    on={ZONE: each.rule} if each.rule in ZONES else {},
                ),
                each.count,
            )
        )
    return problem(*pods, pools=[pool("p", *types, min_values=min_values)], nodes=nodes)


def oracle(groups: list[Group], prices: dict[tuple[int, str], float]) -> float:
    """Return the lowest cost of all ways to put every pod on one of as many machines as there are pods."""
    pods = [(number, each) for number, each in enumerate(groups) for _ in range(each.count)]
    best = float("inf")
    for numbers in product(range(len(pods)), repeat=len(pods)):
        if any(number > max(numbers[:position], default=-1) + 1 for position, number in enumerate(numbers)):
            continue  # machines are numbered in the order in which they are first used
        loads = [
            [pods[position] for position, number in enumerate(numbers) if number == machine]
            for machine in range(max(numbers) + 1)
        ]
        if any(load.count(each) > 1 and each[1].rule == "apart" for load in loads for each in load):
            continue
        for zones in product(ZONES, repeat=len(loads)):
            best = min(best, _cost(groups, loads, zones, prices))
    return best


def _cost(
    groups: list[Group],
    loads: list[list[tuple[int, Group]]],
    zones: tuple[str, ...],
    prices: dict[tuple[int, str], float],
) -> float:
    for number, group in enumerate(groups):
        held = [
            sum(load.count((number, group)) for load, at in zip(loads, zones, strict=True) if at == zone)
            for zone in ZONES
        ]
        if group.rule == "spread" and max(held) - min(held) > 1:
            return float("inf")
        if group.rule == "zone-1" and held[1]:
            return float("inf")
    return sum(
        min(
            (
                price
                for (size, at), price in prices.items()
                if at == zone and sum(each.cpu for _, each in load) <= size
            ),
            default=float("inf"),
        )
        for load, zone in zip(loads, zones, strict=True)
    )


IMPROVED = (77, 103, 187, 242, 252, 322, 391, 395)
"""Problems in which greedy packing and packing by price miss the optimum."""

ALIKE = (193, 320)
"""Problems with two classes of equal pods, each of which keeps its own pods apart."""


@pytest.mark.parametrize("seed", [*range(30), *IMPROVED, *ALIKE])
def test_tiny_problems_are_solved_exactly(seed: int) -> None:
    """The bound of a tiny problem is what the best of all plans costs; the plan keeps every rule."""
    groups, prices = drawn(seed)
    given = stated(groups, prices)

    plan = solve_and_prove(given)

    assert plan.cost.lower_bound == pytest.approx(oracle(groups, prices))
    assert plan.cost.hourly >= plan.cost.lower_bound
    assert problems_of(given, plan) == []


@pytest.mark.parametrize("seed", [*range(20), *ALIKE])
def test_bound_is_never_above_the_optimum(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the search ends early, the bound stays at or below the best of all plans."""
    monkeypatch.setattr(exact, "_WORK", 1)
    groups, prices = drawn(seed)

    found = solve_and_prove(stated(groups, prices)).cost

    assert 0 < found.lower_bound <= oracle(groups, prices) * (1 + 1e-9)


SMALL = instance_type("small", cpu=2, memory=4, price=0.10)
LARGE = instance_type("large", cpu=8, memory=32, price=0.36)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(
            problem(
                replicas(pod("a", cpu="1500m", app="a", spreads=[spread(ZONE, app="a")]), 4),
                pools=[pool("p", SMALL, LARGE)],
            ),
            id="a spread over zones needs a machine in each",
        ),
        pytest.param(
            problem(
                replicas(pod("a", cpu="1500m"), 3),
                pools=[pool("p", SMALL)],
                nodes=[node("n", free={"cpu": "2", "memory": "4Gi", "pods": "9"})],
            ),
            id="room on an existing node is free and there once",
        ),
        pytest.param(
            problem(
                replicas(
                    pod("a", cpu="1500m", app="a", spreads=[spread(ZONE, app="a", skew=2, min_domains=9)]), 5
                ),
                pools=[pool("p", SMALL)],
            ),
            id="fewer domains than minDomains",
        ),
        pytest.param(
            problem(replicas(pod("a", cpu="100m", ports=[80]), 3), pools=[pool("p", SMALL)]),
            id="host ports allow one pod per node",
        ),
        pytest.param(
            problem(
                replicas(pod("a", cpu="100m", app="a", spreads=[spread(HOSTNAME, app="a")]), 3),
                pools=[pool("p", SMALL)],
            ),
            id="a spread over hosts allows maxSkew pods per node",
        ),
        pytest.param(
            problem(
                pod("a", cpu="1500m", on={CAPACITY_TYPE: "on-demand"}),
                pod("b", cpu="1500m"),
                pools=[pool("p", SMALL), pool("q", LARGE)],
            ),
            id="two NodePools",
        ),
    ],
)
def test_proved(given: Problem) -> None:
    """A plan that is the cheapest there is says so."""
    plan = solve_and_prove(given)

    assert plan.cost.optimal
    assert problems_of(given, plan) == []


@pytest.mark.parametrize(
    "others",
    [
        pytest.param({"nodes": [node("n", free={"cpu": "0"})]}, id="existing nodes"),
        pytest.param({"min_values": {INSTANCE_TYPE: 2}}, id="minValues"),
        pytest.param({"ports": [80]}, id="host ports"),
    ],
)
def test_what_the_program_does_not_know_keeps_the_plan(others: dict[str, Any]) -> None:
    """A cheaper solution is not used where moves depend on more than prices; the bound holds."""
    groups, prices = drawn(IMPROVED[0])
    given = stated(
        groups,
        prices,
        ports=others.get("ports", ()),
        min_values=others.get("min_values"),
        nodes=others.get("nodes", ()),
    )

    plan = solve_and_prove(given)

    assert plan.cost.lower_bound <= plan.cost.hourly
    assert problems_of(given, plan) == []


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"near": [affinity_term(ZONE, app="a")]}, id="affinity over zones"),
        pytest.param({"spreads": [spread(ZONE, app="a", anyway=True)]}, id="a spread that can be dropped"),
        pytest.param({"spreads": [spread(ZONE, app="b")]}, id="a spread of other pods"),
    ],
)
def test_other_topology_is_left_out_of_the_program(asked: dict[str, Any]) -> None:
    """What the program does not know never raises the bound above the plan."""
    given = problem(
        replicas(pod("a", cpu="1500m", app="a", **asked), 3),
        pod("b", app="b"),
        pools=[pool("p", SMALL, LARGE)],
    )

    cost = solve_and_prove(given).cost

    assert 0 < cost.lower_bound <= cost.hourly


def test_a_stopped_search_proves_nothing_more() -> None:
    """A search that is stopped has no exact bound."""
    given = stated(*drawn(IMPROVED[0]))
    scheduler, left = search(given)
    scheduler.stop = lambda: True

    assert exact.exact_bound(scheduler, left, 9.0) is None


def test_many_pods_are_not_solved_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A problem with many pods and many classes keeps the bound of the linear program."""
    monkeypatch.setattr(exact, "_PODS", 1)
    monkeypatch.setattr(exact, "_CLASSES", 1)

    found = solve_and_prove(
        problem(pod("a", cpu="1"), pod("b", cpu="1500m"), pools=[pool("p", SMALL, LARGE)])
    ).cost

    assert found.method == "linear program"


def test_a_spread_that_two_classes_share_is_left_out() -> None:
    """Pods of another class that count in a spread may be anywhere, so the program does not divide."""
    rule = [spread(ZONE, app="a")]
    given = problem(
        replicas(pod("a", cpu="1500m", app="a", spreads=rule), 3),
        replicas(pod("b", cpu="1", app="a", spreads=rule), 3),
        pools=[pool("p", SMALL, LARGE)],
    )

    cost = solve_and_prove(given).cost

    assert 0 < cost.lower_bound <= cost.hourly


def searched(given: PatternProblem, most: float) -> tuple[float, float | None]:
    """Return the bound and the cost of the best plan below `most`."""
    least, solved = MachineSearch(given, np.zeros(len(given.count)), most).run(100_000)
    return least, None if solved is None else solved.cost


@pytest.mark.parametrize(
    ("given", "cost"),
    [
        pytest.param(
            PatternProblem(
                count=(2,),
                want=((1,),),
                cap=(2,),
                bins=(Bin((1,), 2.0, (0,)), Bin((2,), 1.0, (0,)), Bin((2,), 1.5, (0,))),
            ),
            1.0,
            id="the cheapest machine that holds both",
        ),
        pytest.param(
            PatternProblem(count=(2, 2), want=((1, 0), (2, 0)), cap=(2, 2), bins=(Bin((6, 0), 1.0, (0, 1)),)),
            1.0,
            id="a machine without a resource that is not asked for",
        ),
        pytest.param(
            PatternProblem(
                count=(3,),
                want=((2,),),
                cap=(3,),
                bins=(Bin((2,), 1.0, (0,)), Bin((4,), 0.0, (0,), once=True)),
            ),
            1.0,
            id="a node with room for two of three",
        ),
        pytest.param(
            PatternProblem(
                count=(3, 3),
                want=((2,), (2,)),
                cap=(3, 3),
                bins=(Bin((3,), 1.0, (0,)), Bin((3,), 2.0, (1,))),
                splits=(DomainSplit(3, (0, 1), (0, 0), 1, from_zero=False),),
            ),
            4.0,
            id="a division over two domains of which one is dear",
        ),
        pytest.param(
            PatternProblem(
                count=(1, 1, 1),
                want=((60, 20), (40, 50), (30, 30)),
                cap=(1, 1, 1),
                bins=(Bin((100, 100), 1.0, (0, 1, 2)), Bin((60, 60), 0.7, (0, 1, 2))),
            ),
            1.7,
            id="three pods of which two fit together",
        ),
    ],
)
def test_the_cheapest_machines_are_found(given: PatternProblem, cost: float) -> None:
    """The cheapest whole machines for whole pods are found, and nothing cheaper is possible."""
    least, found = searched(given, 9.0)
    assert least == pytest.approx(cost, rel=2e-6)
    assert found == pytest.approx(cost)


def test_a_plan_that_is_the_cheapest_is_kept() -> None:
    """When there is no cheaper plan than the one at hand, its cost is the bound."""
    given = PatternProblem(count=(2,), want=((1,),), cap=(2,), bins=(Bin((2,), 1.0, (0,)),))

    assert searched(given, 1.0) == (1.0, None)


def test_pods_that_no_machine_holds_have_no_plan() -> None:
    """A problem without a plan has none below any cost."""
    given = PatternProblem(count=(1,), want=((5,),), cap=(1,), bins=(Bin((1,), 1.0, ()),))

    assert searched(given, 7.0) == (7.0, None)


APART = PatternProblem(
    count=(3, 3), want=((2,), (3,)), cap=(3, 3), bins=(Bin((7,), 1.0, (0, 1)), Bin((5,), 0.8, (0, 1)))
)


def test_machines_on_which_pods_may_fit_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not found out whether pods fit, the bound is that of the machines."""
    monkeypatch.setattr(machines, "on_machines", lambda *_: (None, 0))
    monkeypatch.setattr(machines, "exchanged", lambda *_: (None, 1))

    least, cost = searched(APART, 9.0)

    assert cost is None
    assert 2.0 <= least <= 2.6 * (1 + 1e-6)


def test_machines_on_which_pods_do_not_fit_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """When pods fit none of the machines that are cheaper, the plan at hand is the cheapest."""
    monkeypatch.setattr(machines, "on_machines", lambda *_: (Solution(float("inf"), ()), 0))
    monkeypatch.setattr(machines, "exchanged", lambda *_: (None, 1))

    least, cost = searched(APART, 2.7)

    assert cost is None
    assert least == pytest.approx(2.7)


def test_a_pod_that_is_too_large_for_a_node() -> None:
    """A solution that puts a pod where it has no room is refused."""
    given = problem(pod("a", cpu="3"), pools=[pool("p", LARGE)], nodes=[node("n", free={"cpu": "1"})])
    scheduler = Scheduler(search(given)[0].encoded)
    part = scheduler.pod_data[0][0], NOTHING_REQUIRED
    unplaced = UnplacedPods([[part]], Counter({part: 1}))

    assert not repack._on_node(scheduler, unplaced, 0, Pattern((1,), 0.0, 0))


def test_pods_that_a_node_takes() -> None:
    """The pods of a pattern are put on the node."""
    pods = replicas(pod("a", cpu="1", app="a"), 2)
    given = problem(pods, pools=[pool("p", LARGE)], nodes=[node("n", free={"cpu": "2", "pods": "9"})])
    scheduler = Scheduler(search(given)[0].encoded)
    part = scheduler.pod_data[0][0], NOTHING_REQUIRED
    unplaced = UnplacedPods([[part]], Counter({part: 2}))

    assert repack._on_node(scheduler, unplaced, 0, Pattern((2,), 0.0, 0))
    assert [(each.bin, each.pod_count) for each in scheduler.placements] == [(0, 1), (0, 1)]


def test_a_plan_that_is_not_known_as_patterns_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a search ends early and the plan at hand is not known as patterns, the bound still holds."""
    monkeypatch.setattr(exact, "_WORK", 1)
    monkeypatch.setattr(exact, "solution_of", lambda *_: None)

    found = solve_and_prove(varied(0)).cost

    assert 0 < found.lower_bound <= found.hourly


def test_a_node_that_refuses_pods_keeps_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solution that the scheduler refuses is not used."""
    groups, prices = drawn(IMPROVED[0])
    given = stated(groups, prices, nodes=[node("n", free={"cpu": "1"})])
    before = solve_and_prove(given).cost.hourly
    monkeypatch.setattr(repack, "_on_node", lambda *_: False)

    assert solve_and_prove(given).cost.hourly >= before


def varied(seed: int) -> Problem:
    """Return a few deployments, of which some are spread over zones or kept apart."""
    rng = random.Random(seed)  # noqa: S311  as above
    sizes = [
        instance_type(f"t{size}", cpu=size, memory=4 * size, price=0.05 * size * rng.uniform(0.9, 1.1))
        for size in (2, 4, 8)
    ]
    pods = [
        replicas(
            pod(
                f"app-{number}",
                cpu=f"{rng.randint(1, 30)}00m",
                app=f"app-{number}",
                spreads=[spread(ZONE, app=f"app-{number}")] if number % 3 == 0 else [],
                apart=[affinity_term(HOSTNAME, app=f"app-{number}")] if number % 3 == 1 else [],
            ),
            rng.randint(1, 6),
        )
        for number in range(6)
    ]
    return problem(*pods, pools=[pool("p", *sizes)], nodes=[node("n", free={"cpu": "1"})] if seed % 2 else [])


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.long) for n in range(4, 40))]
)
def test_a_search_that_ends_early_keeps_the_rules(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that is improved a few machines at a time keeps every rule, and its bound holds."""
    monkeypatch.setattr(exact, "_WORK", 1)
    given = varied(seed)

    plan = solve_and_prove(given)

    assert problems_of(given, plan) == []
    assert 0 < plan.cost.lower_bound <= plan.cost.hourly
    monkeypatch.undo()
    assert solve_and_prove(given).cost.lower_bound <= plan.cost.hourly * (1 + 1e-6)


def test_pods_of_several_domains_are_no_known_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim that may still be in several zones is not taken for a pattern."""
    given = stated([Group(2, 3, "spread"), Group(1, 2, "")], drawn(1)[1])
    scheduler, _ = search(given)
    found, _ = repack.pattern_problem(
        scheduler, {each.number: len(each.pods) for each in scheduler.encoded.classes}
    )
    known = repack.solution_of(scheduler, found)
    assert known is not None
    ((first, second),) = known.divided
    assert {first, second} == {1, 2}
    monkeypatch.setattr(type(scheduler.claims.states[0]), "domains", lambda *_: None)
    assert repack.solution_of(scheduler, found) is None


def test_a_claim_that_no_machine_holds_is_no_known_plan() -> None:
    """A schedule with more on a claim than any machine holds is not taken over."""
    given = stated([Group(3, 2, "")], drawn(1)[1])
    scheduler, _ = search(given)
    found, _ = repack.pattern_problem(
        scheduler, {each.number: len(each.pods) for each in scheduler.encoded.classes}
    )
    assert found.supply is not None
    small = msgspec.structs.replace(found.supply, room=found.supply.room * 0)

    assert repack.solution_of(scheduler, msgspec.structs.replace(found, supply=small)) is None


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param({"spreads": [spread(ZONE, app="a")]}, id="spread over zones"),
        pytest.param({"apart": [affinity_term(HOSTNAME, app="a")]}, id="kept apart"),
    ],
)
def test_rules_raise_the_bound_of_large_problems(
    rules: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a problem is too large to be solved exactly, spread and anti-affinity still count."""
    monkeypatch.setattr(exact, "_PODS", 1)
    monkeypatch.setattr(exact, "_CLASSES", 0)
    dear = instance_type(
        "m",
        cpu=16,
        memory=64,
        sold=[offering("test-zone-a", "on-demand", 1.0), offering("test-zone-b", "on-demand", 3.0)],
    )
    plain = problem(replicas(pod("a", cpu="1", app="a"), 40), pools=[pool("p", dear)])
    given = problem(replicas(pod("a", cpu="1", app="a", **rules), 40), pools=[pool("p", dear)])

    found = solve_and_prove(given).cost

    assert found.lower_bound > solve_and_prove(plain).cost.lower_bound * 1.3
    assert found.lower_bound <= found.hourly


def test_room_on_nodes_is_used_so_that_machines_are_saved() -> None:
    """Pods go to the existing nodes on which they save most."""
    sold = [offering("test-zone-a", "on-demand", 1.0)]
    machine = instance_type("m", cpu=4, memory=64, sold=sold)
    given = problem(
        replicas(pod("a", cpu="3"), 2),
        replicas(pod("b", cpu="2"), 2),
        pools=[pool("p", machine)],
        nodes=[node("n", free={"cpu": "4", "memory": "32Gi"})],
    )

    plan = solve_and_prove(given)

    assert plan.cost.hourly == pytest.approx(2.0)
    assert plan.cost.optimal
    assert problems_of(given, plan) == []
