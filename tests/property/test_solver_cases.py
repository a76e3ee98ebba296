"""Problems that once went wrong: each is kept, so that it does not go wrong again."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest

from karpenter.api.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    ON_DEMAND,
    PREFER_NO_SCHEDULE,
    RESERVED,
    ZONE,
)
from karpenter.core.scheduling.problem import Options, Problem
from karpenter.core.scheduling.solve import solve
from karpenter_local.testing.builders import (
    Preferences,
    affinity_term,
    instance_type,
    node,
    offering,
    offerings,
    only,
    pod,
    pool,
    problem,
    replicas,
    spread,
    taint,
)
from karpenter_local.testing.oracle import slow_solve
from karpenter_local.testing.validator import problems_of

greedy = Options(packing="greedy")
small = instance_type("small", cpu=2, memory=2, price=0.11)
used_up = instance_type(
    "used-up",
    cpu=2,
    sold=[offering("zone-1", ON_DEMAND, 0.06), offering("zone-1", RESERVED, 0.0001, reservation="r", left=0)],
)
kept = instance_type(
    "kept",
    cpu=16,
    memory=16,
    sold=[*offerings(0.88), offering("zone-1", RESERVED, 0.001, reservation="r", left=1)],
)
choice = [
    small,
    instance_type("medium", cpu=2, memory=4, price=0.12),
    instance_type("large", cpu=4, memory=4, price=0.22),
]
second_zone_is_dear = instance_type(
    "t",
    cpu=2,
    memory=2,
    overhead={"cpu": 100},
    sold=[offering(f"zone-{n}", ON_DEMAND, price) for n, price in ((1, 0.11), (2, 0.111), (3, 0.11))],
)
team = "example.com/team"

CASES = [
    pytest.param(
        problem(
            pod("other", cpu="300m", app="a"),
            replicas(
                pod("even", cpu="200m", app="a", spreads=[spread(HOSTNAME, app="a", taints_policy="Honor")]),
                3,
            ),
            pools=[
                pool("first", choice[2], limits={"cpu": "10"}),
                pool("avoided", choice[2], taints=(taint("busy", PREFER_NO_SCHEDULE),)),
            ],
            options=greedy,
        ),
        id="pods on nodes that would rather not have them count when taints are honoured",
    ),
    pytest.param(
        problem(
            pod("a"),
            pools=[pool("p", used_up)],
            options=Options(packing="greedy", reserved="fallback"),
        ),
        id="a reservation that is used up is not bought again",
    ),
    pytest.param(
        problem(
            replicas(
                pod(
                    "a",
                    app="a",
                    spreads=[spread(key, app="a", anyway=True) for key in ("none/1", ZONE, "none/2")],
                ),
                4,
            ),
            pools=[pool("p", small)],
            options=greedy,
        ),
        id="spreads that may be ignored are given up first, third, second",
    ),
    pytest.param(
        problem(pod("a"), pools=[pool("p", small, used_up), pool("q", small)], options=greedy),
        id="waiting for a reservation is not a reason to try the next pool",
    ),
    pytest.param(
        problem(
            pod("a"),
            pools=[pool("p", kept, min_values={INSTANCE_TYPE: 1}, limits={"cpu": "10"})],
            options=greedy,
        ),
        id="a demanded choice does not lift limits",
    ),
    pytest.param(
        problem(
            replicas(pod("a"), 3),
            pod("g", resources={"example.com/gpu": "1"}),
            pools=[pool("p", small)],
            options=greedy,
        ),
        id="a resource that no type has is no division by zero",
    ),
    pytest.param(
        problem(
            pod("a", on={team: "red"}, terms=[[only(team, "blue")]]), pools=[pool("p", small)], options=greedy
        ),
        id="two values of one label at once are not the absence of the label",
    ),
    pytest.param(
        problem(
            pod("a", on={team: "red"}, prefers=Preferences(nodes=((1, [only(team, "blue")]),))),
            pools=[pool("p", small)],
            options=greedy,
        ),
        id="a preference against the selector does not replace it",
    ),
    pytest.param(
        problem(pod("a"), pools=[pool("p", kept, small, limits={"cpu": "10"})], options=greedy),
        id="a reserved machine beyond the limits is not waited for",
    ),
    pytest.param(
        problem(
            replicas(pod("a", memory="2Gi"), 3),
            pod("b"),
            pools=[pool("p", *choice, min_values={INSTANCE_TYPE: 2}, limits={"cpu": "10"})],
            options=greedy,
        ),
        id="limits leave every claim the choice it must have",
    ),
    pytest.param(
        problem(
            replicas(pod("a", cpu="600m", app="a"), 3),
            pod("b", cpu="200m", app="a"),
            pod("c", cpu="150m", app="a"),
            replicas(
                pod(
                    "d",
                    app="d",
                    prefers=Preferences(
                        nodes=((1, [only(ZONE, "zone-2")]),), near=((1, affinity_term(ZONE, app="a")),)
                    ),
                ),
                2,
            ),
            pools=[pool("p", second_zone_is_dear)],
            options=greedy,
        ),
        id="a claim that changed through one relaxation has changed for all",
    ),
    pytest.param(
        problem(
            pod("a", terms=[[only(ZONE, "zone-1")], [only(CAPACITY_TYPE, ON_DEMAND)]]),
            replicas(pod("b", near=[affinity_term(HOSTNAME, app="c")]), 2),
            pod("c", app="c"),
            pools=[pool("p", small, kept)],
            nodes=[node("n", free={"cpu": "0"})],
            options=greedy,
        ),
        id="every alternative counts for the bound",
    ),
]


@pytest.mark.parametrize("asked", CASES)
@pytest.mark.parametrize("packing", ["greedy", "price"])
def test_plans_that_once_were_unsound_are_sound(asked: Problem, packing: Literal["greedy", "price"]) -> None:
    """The validator finds nothing wrong with the plan."""
    asked = msgspec.structs.replace(asked, options=msgspec.structs.replace(asked.options, packing=packing))

    assert problems_of(asked, solve(asked)) == []


@pytest.mark.parametrize("asked", CASES)
def test_pods_that_once_went_elsewhere_go_where_the_oracle_puts_them(asked: Problem) -> None:
    """The same pods are refused as by the oracle, and the bill is not higher."""
    plan, outcome = solve(asked), slow_solve(asked)

    assert {each.pod for each in plan.refusals} == outcome.refused
    assert plan.cost.hourly <= outcome.hourly * (1 + 1e-9)
