"""Why pods were put where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from karpenter.api.labels import INSTANCE_TYPE, ZONE
from karpenter.core.scheduling.solve import solve
from karpenter_local.testing.builders import (
    Preferences,
    instance_type,
    node,
    offering,
    only,
    pod,
    pool,
    problem,
    replicas,
    spread,
)

if TYPE_CHECKING:
    from karpenter.core.scheduling.problem import Problem

SMALL = instance_type("small", cpu=2, sold=[offering("zone-1", "spot", 0.05)])
LARGE = instance_type("large", cpu=8, sold=[offering("zone-2", "on-demand", 0.4)])
POOL = pool("p", SMALL, LARGE)
BOUGHT = (
    "no existing node takes it; small in zone-1 (spot, $0.0500 an hour) "
    "is the cheapest of 2 types that hold it"
)
FIRST = "node n is the first existing node that suits it and has room"
NODE = node("n", zone="zone-3")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            problem(pod("x"), pools=[POOL], nodes=[NODE]),
            FIRST,
            id="an existing node is named",
        ),
        pytest.param(
            problem(pod("x"), pools=[POOL]),
            BOUGHT,
            id="a machine that is bought is told with its price and how many others would do",
        ),
        pytest.param(
            problem(pod("x", on={INSTANCE_TYPE: "large"}), pools=[POOL]),
            "no existing node takes it; large in zone-2 (on-demand, $0.4000 an hour) "
            "is the only type that holds it",
            id="a type without alternatives is said to have none",
        ),
        pytest.param(
            problem(pod("x"), pod("y"), pools=[POOL]),
            f"{BOUGHT} together with 1 other pod",
            id="one other pod is counted",
        ),
        pytest.param(
            problem(pod("x"), replicas(pod("y"), 2), pools=[POOL]),
            f"{BOUGHT} together with 2 other pods",
            id="other pods are counted",
        ),
        pytest.param(
            problem(
                pod("x", prefers=Preferences(nodes=((1, [only(ZONE, "zone-9")]),))),
                pools=[POOL],
                nodes=[NODE],
            ),
            f"{FIRST}; it gave up a preferred node affinity",
            id="what was given up is told",
        ),
        pytest.param(
            problem(
                pod(
                    "x",
                    app="x",
                    terms=[[only(ZONE, "zone-8")], [only(ZONE, "zone-3")]],
                    spreads=[spread(ZONE, app="x", anyway=True)],
                ),
                pools=[POOL],
                nodes=[NODE],
            ),
            f"{FIRST}; it gave up a node affinity term",
            id="what was kept is not told",
        ),
        pytest.param(
            problem(
                pod(
                    "x",
                    app="x",
                    terms=[[only(ZONE, "zone-8")], [only(ZONE, "zone-8")], [only(ZONE, "zone-3")]],
                    spreads=[spread("rack", app="x", anyway=True)],
                ),
                pools=[POOL],
                nodes=[NODE],
            ),
            f"{FIRST}; it gave up a node affinity term, a node affinity term, an even spread over rack",
            id="everything that was given up is told in order",
        ),
        pytest.param(
            problem(
                pod("x", prefers=Preferences(nodes=((1, [only(ZONE, "zone-9")]),) * 40)),
                pools=[POOL],
                nodes=[NODE],
            ),
            f"{FIRST}; it gave up the lightest 8 of its preferences, a preferred node affinity (32 times)",
            id="what was not considered is told, and repetition is counted",
        ),
    ],
)
def test_because(given: Problem, expected: str) -> None:
    """Every placed pod can say why it is there."""
    assert solve(given).because["default/x"] == expected


def test_only_placed_pods_have_a_reason_for_their_place() -> None:
    """The reasons are those of all pods that got a place, each of which is asked by its key."""
    big = pod("big", cpu="64")
    because = solve(problem(replicas(pod("x"), 2), big, pools=[POOL], nodes=[NODE])).because

    assert sorted(because) == ["default/x-000", "default/x-001"]
    assert len(because) == 2
    assert "default/big" not in because


def test_equal_pods_know_their_own_places() -> None:
    """Pods of one class that went to different machines give different reasons."""
    two = node("m", zone="zone-3", free={"cpu": "100m"})

    because = solve(problem(replicas(pod("x"), 2), pools=[POOL], nodes=[two])).because

    assert because["default/x-000"].startswith("node m is")
    assert because["default/x-001"].startswith("no existing node takes it")
