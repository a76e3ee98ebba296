"""Small problems are solved with whole machines and whole pods, and the bound is never above the optimum."""

from __future__ import annotations

import random
from itertools import product
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.labels import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE
from karpenter.core.scheduling.price import exact
from karpenter.core.scheduling.price.exact import (
    Bin,
    DomainSplit,
    PatternProblem,
    cheapest,
    cheapest_machines,
    patterns,
)
from karpenter.core.scheduling.solve import search, solve
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
    for machines in product(range(len(pods)), repeat=len(pods)):
        if any(number > max(machines[:position], default=-1) + 1 for position, number in enumerate(machines)):
            continue  # machines are numbered in the order in which they are first used
        loads = [
            [pods[position] for position, number in enumerate(machines) if number == machine]
            for machine in range(max(machines) + 1)
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
    """The plan of a tiny problem costs what the best of all plans costs, keeps every rule, and is proved."""
    groups, prices = drawn(seed)
    given = stated(groups, prices)

    plan = solve(given)

    assert plan.cost.hourly == pytest.approx(oracle(groups, prices))
    assert plan.cost.optimal
    assert problems_of(given, plan) == []


@pytest.mark.parametrize("seed", [*range(20), *ALIKE])
def test_bound_is_never_above_the_optimum(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where patterns are too many, the bound stays at or below the best of all plans."""
    monkeypatch.setattr(exact, "_STEPS", 3)
    groups, prices = drawn(seed)

    found = solve(stated(groups, prices)).cost

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
    plan = solve(given)

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

    plan = solve(given)

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

    cost = solve(given).cost

    assert 0 < cost.lower_bound <= cost.hourly


def test_a_stopped_search_proves_nothing_more() -> None:
    """A search that is stopped keeps its plan and has no exact bound."""
    given = stated(*drawn(IMPROVED[0]))
    scheduler, left = search(given)
    scheduler.stop = lambda: True

    assert exact.cheapest_schedule(scheduler, left, 9.0) == (scheduler, None)


def test_many_pods_are_not_solved_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A problem with many pods and many classes keeps the bound of the linear program."""
    monkeypatch.setattr(exact, "_PODS", 1)
    monkeypatch.setattr(exact, "_CLASSES", 1)

    found = solve(problem(pod("a", cpu="1"), pod("b", cpu="1500m"), pools=[pool("p", SMALL, LARGE)])).cost

    assert found.method == "linear program"


def test_too_many_patterns() -> None:
    """More patterns than the program takes are not enumerated to the end."""
    items = 12
    given = PatternProblem(
        count=(9,) * items,
        want=tuple((item + 3,) for item in range(items)),
        cap=(9,) * items,
        bins=(Bin((60,), 1.0, tuple(range(items))),),
        value=(0.0,) * items,
    )

    assert patterns(given, 9.0) is None


def test_more_patterns_than_the_program_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is not given more patterns than it can choose from in time."""
    monkeypatch.setattr(exact, "_PATTERNS", 0)
    given = PatternProblem(count=(1,), want=((1,),), cap=(1,), bins=(Bin((1,), 1.0, (0,)),), value=(0.0,))

    assert patterns(given, 5.0) is None


def test_a_resource_that_is_not_asked_for_does_not_limit() -> None:
    """Pods that do not ask for a resource fit machines that have none of it."""
    given = PatternProblem(
        count=(2, 2),
        want=((1, 0), (2, 0)),
        cap=(2, 2),
        bins=(Bin((6, 0), 1.0, (0, 1)),),
        value=(0.0, 0.0),
    )

    solved = cheapest(given, patterns(given, 5.0) or [])
    machines = cheapest_machines(given, 5.0)

    assert solved is not None
    assert machines is not None
    assert solved.cost == pytest.approx(1.0)
    assert machines.least == pytest.approx(1.0)


def test_a_spread_that_two_classes_share_is_left_out() -> None:
    """Pods of another class that count in a spread may be anywhere, so the program does not divide."""
    rule = [spread(ZONE, app="a")]
    given = problem(
        replicas(pod("a", cpu="1500m", app="a", spreads=rule), 3),
        replicas(pod("b", cpu="1", app="a", spreads=rule), 3),
        pools=[pool("p", SMALL, LARGE)],
    )

    cost = solve(given).cost

    assert 0 < cost.lower_bound <= cost.hourly


def test_a_pattern_that_holds_less_for_more_is_left_out() -> None:
    """Only the cheapest machine for a pattern counts, and none that another one covers."""
    given = PatternProblem(
        count=(2,),
        want=((1,),),
        cap=(2,),
        bins=(Bin((1,), 2.0, (0,)), Bin((2,), 1.0, (0,)), Bin((2,), 1.5, (0,))),
        value=(0.0,),
    )

    found = patterns(given, 5.0)

    assert found is not None
    assert [(each.holds, each.price) for each in found] == [((2,), 1.0)]
    solved = cheapest(given, found)
    assert solved is not None
    assert solved.cost == pytest.approx(1.0)


def test_pods_that_no_pattern_holds_have_no_solution() -> None:
    """A program without a solution proves nothing."""
    given = PatternProblem(count=(1,), want=((5,),), cap=(1,), bins=(Bin((1,), 1.0, ()),), value=(0.0,))

    assert cheapest(given, patterns(given, 5.0) or []) is None
    assert cheapest_machines(given, 0.5) is None


def test_a_split_that_cannot_be_is_worth_nothing() -> None:
    """More pods than the domains may have under maxSkew prove no value."""
    split = DomainSplit(9, (0, 1), (0, 0), 1, from_zero=True)

    assert exact._least_divided(split, [1.0, 2.0]) == 0.0
