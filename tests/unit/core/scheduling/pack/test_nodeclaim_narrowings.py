"""Which way a claim may be narrowed to take a pod."""

from __future__ import annotations

import pytest

from karpenter.api.labels import ARCH, CAPACITY_TYPE, ON_DEMAND, SPOT, ZONE
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.problem import PodVolumes, Problem
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
    spread,
    taint,
)
from tests.unit.core.scheduling.pack.schedulers import fresh, pod_data_of

RACK = "example.com/rack"
SOLD = [
    offering("zone-1", SPOT, 0.3),
    offering("zone-2", SPOT, 0.1),
    offering("zone-3", ON_DEMAND, 0.2),
]
POOL = pool("p", instance_type("t", sold=SOLD))
BUSY = node("n", pod("w", app="web"), zone="zone-2", free={"cpu": "0"})


def zones(given: Problem, key: str = ZONE) -> list[list[str]]:
    """Return the values of a label that a new claim could be narrowed to, way by way."""
    scheduler = fresh(given)
    next_states = scheduler.narrowings(pod_data_of(scheduler, "x")).of(scheduler.base(scheduler.templates[0]))
    return [sorted(next_state.domains(key) or ()) for next_state in next_states]


EVERYWHERE = ["zone-1", "zone-2", "zone-3"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(problem(pod("x"), pools=[POOL]), [EVERYWHERE], id="a plain pod leaves everything open"),
        pytest.param(
            problem(pod("x", on={ZONE: "zone-1"}), pools=[POOL]), [["zone-1"]], id="a requirement narrows"
        ),
        pytest.param(
            problem(pod("x", on={ZONE: "zone-9"}), pools=[POOL]), [], id="an impossible one is no way"
        ),
        pytest.param(
            problem(pod("x"), pools=[pool("p", instance_type("t"), taints=(taint("gpu"),))]),
            [],
            id="an untolerated taint is no way",
        ),
        pytest.param(
            problem(pod("x", on={ARCH: "a"}, terms=[[only(ARCH, "b")]]), pools=[POOL]),
            [],
            id="nor is a contradiction",
        ),
        pytest.param(
            problem(pod("x", app="web", spreads=[spread(ZONE, app="web")]), pools=[POOL]),
            [["zone-2"], ["zone-3"], ["zone-1"]],
            id="a spread picks one zone, the cheapest of equally empty ones first",
        ),
        pytest.param(
            problem(
                pod("x", app="web", spreads=[spread(ZONE, app="web", skew=2)]), pools=[POOL], nodes=[BUSY]
            ),
            [["zone-3"], ["zone-1"], ["zone-2"]],
            id="a spread prefers the emptiest zone",
        ),
        pytest.param(
            problem(pod("x", app="web", spreads=[spread(ZONE, app="web")]), pools=[POOL], nodes=[BUSY]),
            [["zone-3"], ["zone-1"]],
            id="a spread leaves out zones that are too full",
        ),
        pytest.param(
            problem(pod("x", near=[affinity_term(ZONE, app="web")]), pools=[POOL], nodes=[BUSY]),
            [["zone-2"]],
            id="an affinity keeps the zones that have matching pods",
        ),
        pytest.param(
            problem(pod("x", app="new", near=[affinity_term(ZONE, app="new")]), pools=[POOL]),
            [["zone-2"], ["zone-3"], ["zone-1"]],
            id="the first of its kind settles for one zone, the cheapest first",
        ),
        pytest.param(
            problem(pod("x", near=[affinity_term(ZONE, app="db")]), pools=[POOL]),
            [],
            id="matching pods that are nowhere leave no state",
        ),
        pytest.param(
            problem(pod("x", apart=[affinity_term(ZONE, app="web")]), pools=[POOL], nodes=[BUSY]),
            [["zone-1", "zone-3"]],
            id="an anti-affinity leaves all empty zones open",
        ),
        pytest.param(
            problem(
                pod(
                    "x",
                    app="web",
                    apart=[affinity_term(ZONE, app="db")],
                    spreads=[spread(ZONE, app="web", skew=5)],
                ),
                pools=[POOL],
                nodes=[node("n", pod("d", app="db"), zone="zone-2", free={"cpu": "0"})],
            ),
            [["zone-3"], ["zone-1"]],
            id="several demands on one label hold together",
        ),
        pytest.param(
            problem(
                pod(
                    "x",
                    app="web",
                    spreads=[spread(ZONE, app="web"), spread(CAPACITY_TYPE, app="web")],
                ),
                pools=[POOL],
            ),
            [["zone-2"], ["zone-3"], ["zone-1"]],
            id="demands on several labels are combined, leaving out what is not sold",
        ),
    ],
)
def test_ways(given: Problem, expected: list[list[str]]) -> None:
    """The ways to take a pod are told best first."""
    assert zones(given) == expected


def test_volumes_are_alternatives() -> None:
    """A pod whose volume can be reached from several places has a way for each that is possible."""
    places = tuple(Requirements.only(ZONE, frozenset({zone})) for zone in ("zone-3", "zone-9", "zone-1"))
    volumes = {"default/x": PodVolumes(alternatives=places)}

    assert zones(problem(pod("x"), pools=[POOL], volumes=volumes)) == [["zone-3"], ["zone-1"]]


def test_an_open_label_takes_the_values_that_counts_permit() -> None:
    """Where the pool allows any value of a label, affinity decides which."""
    racks = pool("p", instance_type("t"), requires=[need(RACK, "Exists")])
    there = node("n", pod("w", app="web"), node_labels={RACK: "a"}, free={"cpu": "0"})
    given = problem(pod("x", near=[affinity_term(RACK, app="web")]), pools=[racks], nodes=[there])

    assert zones(given, RACK) == [["a"]]


def test_ways_are_remembered_until_a_count_changes() -> None:
    """The same answer is given again, unless pods were placed that matter to the pod."""
    scheduler = fresh(problem(pod("x", app="web", spreads=[spread(ZONE, app="web")]), pools=[POOL]))
    pod_data = pod_data_of(scheduler, "x")
    narrowings, base = scheduler.narrowings(pod_data), scheduler.base(scheduler.templates[0])
    first = narrowings.of(base)

    again = narrowings.of(base)
    pod_data.demands.domains[0].group.add("zone-2")

    assert again is first
    assert [sorted(next_state.domains(ZONE) or ()) for next_state in narrowings.of(base)] == [
        ["zone-3"],
        ["zone-1"],
    ]
    assert scheduler.narrowings(pod_data) is narrowings


def test_the_number_of_combinations_is_bounded() -> None:
    """With several topology keys of many values, only the best combinations are looked at."""
    racks = [f"r{number}" for number in range(20)]
    rooms = pool("p", instance_type("t"), requires=[only(RACK, *racks), only("row", *racks)])
    fussy = pod("x", app="web", spreads=[spread(RACK, app="web"), spread("row", app="web")])

    assert len(zones(problem(fussy, pools=[rooms]), RACK)) == 64


def test_combinations_that_are_not_sold_do_not_count() -> None:
    """However many combinations lead nowhere, those that lead somewhere are found."""
    kinds = [
        instance_type(
            f"t{number}", sold=[offering(f"zone-{number}", SPOT, number)], type_labels={RACK: f"r{number}"}
        )
        for number in range(20)
    ]
    fussy = pod("x", app="web", spreads=[spread(RACK, app="web"), spread(ZONE, app="web")])

    assert len(zones(problem(fussy, pools=[pool("p", *kinds, requires=[need(RACK, "Exists")])]))) == 20
