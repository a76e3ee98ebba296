"""Minimum choice of values, and reserved capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from karpenter.api.labels import (
    ARCH,
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    MIN_VALUES_RELAXED,
    ON_DEMAND,
    RESERVED,
    ZONE,
)
from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
from karpenter.core.scheduling.pack.reservationmanager import (
    ReservationManager,
    cheapest_types,
    distinct_values,
    fitting_offerings,
    violates_min_values,
)
from karpenter.core.scheduling.problem import Options, Plan, Pool
from karpenter.core.scheduling.solve import solve
from karpenter_local.testing.builders import (
    RESERVATION,
    RULES,
    affinity_term,
    instance_type,
    offering,
    offerings,
    only,
    pod,
    pool,
    problem,
    replicas,
)
from karpenter_local.testing.validator import problems_of
from tests.unit.core.scheduling.pack.schedulers import bins, fresh, placed

if TYPE_CHECKING:
    from karpenter.api.pod import Pod
    from karpenter.core.model.catalog import InstanceType, Offering

FAMILY = "example.com/family"
AXIS = ("cpu", "memory", "pods")
GREEDY = Options(packing="greedy")
S = [
    instance_type(f"s{cpu}", cpu=cpu, memory=2 * cpu, type_labels={FAMILY: family})
    for cpu, family in ((2, "c"), (4, "c"), (8, "m"))
]


def template(*types: InstanceType) -> Template:
    """Return the template of a pool with some types."""
    return Template(
        0, pool("p", *types, min_values={INSTANCE_TYPE: 2, FAMILY: 2}), [], AXIS, RULES.well_known
    )


def alone(count: int, cpu: str = "1") -> tuple[Pod, ...]:
    """Return so many pods, no two of which share a machine."""
    return replicas(pod("a", app="a", cpu=cpu, apart=[affinity_term(HOSTNAME, app="a")]), count)


def from_reservation(name: str, left: int, zone: str = "zone-1") -> Offering:
    return offering(zone, RESERVED, 0.001, reservation=name, left=left)


def bought(plan: Plan) -> list[tuple[str, str]]:
    """Return the type and the reservation of every machine of a plan."""
    return sorted((new.purchase.instance_type, new.purchase.reservation_id) for new in plan.new_nodes)


# Choice.


def test_only_types_with_room_are_a_choice() -> None:
    """What cannot hold a claim's pods does not count for its choice."""
    scheduler = fresh(problem(pod("a"), pools=[pool("p", *S)]))
    state = scheduler.base(scheduler.templates[0])

    bits = fitting_offerings(state, (3000, 1, 1))

    assert [state.template.table.types[k].name for k in state.template.table.types_of(bits)] == [
        "s4",
        "s8",
    ]


def test_variety_counts_the_values_of_what_is_left() -> None:
    """Only keys that demand a minimum are counted, over all types that are left."""
    ours = template(*S)

    assert distinct_values(ours, ours.bits) == {INSTANCE_TYPE: 3, FAMILY: 2}
    assert distinct_values(ours, 0) == {INSTANCE_TYPE: 0, FAMILY: 0}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param({"a": 2, "b": 1}, False, id="enough of everything"),
        pytest.param({"a": 1, "b": 1}, True, id="too few of one"),
    ],
)
def test_falling_short(found: dict[str, int], expected: bool) -> None:
    """Every key must have as many values as it demands."""
    assert violates_min_values(found, {"a": 2, "b": 1}) is expected


@pytest.mark.parametrize(
    ("least", "expected"),
    [
        pytest.param({}, ["s2"], id="the cheapest alone"),
        pytest.param({INSTANCE_TYPE: 2}, ["s2", "s4"], id="as many as it takes"),
        pytest.param({FAMILY: 2}, ["s2", "s8"], id="those that add a value"),
        pytest.param({INSTANCE_TYPE: 9}, ["s2", "s4", "s8"], id="all when there are too few"),
    ],
)
def test_cheapest_types(least: dict[str, int], expected: list[str]) -> None:
    """A claim counts as the cheapest types that give it the choice it must have."""
    ours = template(S[2], S[0], S[1])

    found = cheapest_types(ours, ours.bits, least)

    assert [ours.table.types[kind].name for kind in found] == expected


def test_a_type_that_adds_to_no_key_that_lacks_is_left_out() -> None:
    """One architecture is enough, so the second type, of another one and the same family, is passed by."""
    kinds = ((2, "c", "amd64"), (4, "c", "arm64"), (8, "m", "amd64"))
    types = [
        instance_type(f"s{cpu}", cpu=cpu, arch=arch, type_labels={FAMILY: family})
        for cpu, family, arch in kinds
    ]
    ours = template(*types)

    found = cheapest_types(ours, ours.bits, {ARCH: 1, FAMILY: 2})

    assert [ours.table.types[kind].name for kind in found] == ["s2", "s8"]


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param(
            replicas(pod("a", cpu="1"), 9), [4, 4, 1], id="a claim takes no pod that costs it its choice"
        ),
        pytest.param((pod("a", cpu="5"),), [], id="a pod that leaves no choice from the start is refused"),
    ],
)
def test_minimum_values_are_kept(pods: tuple[Pod, ...], expected: list[int]) -> None:
    """While claims are filled, the least choice of values is kept."""
    scheduler = placed(problem(pods, pools=[pool("p", *S, min_values={INSTANCE_TYPE: 2})], options=GREEDY))

    assert [len(each) for each in bins(scheduler)] == expected


def test_best_effort_lowers_what_cannot_be_had() -> None:
    """A new claim that cannot have the choice takes what there is, says so, and keeps that."""
    large = pool("p", *S, min_values={INSTANCE_TYPE: 2, FAMILY: 2})
    given = problem(
        pod("a", cpu="5"),
        pod("b", cpu="1"),
        pools=[large],
        options=Options(packing="greedy", min_values="BestEffort"),
    )

    plan = solve(given)

    (new,) = plan.new_nodes
    assert new.pods == ("default/a", "default/b")
    assert new.instance_types == ("s8",)
    assert new.annotations[MIN_VALUES_RELAXED] == "true"
    assert {r.key: r.min_values for r in new.requirements if r.min_values} == {INSTANCE_TYPE: 1, FAMILY: 1}


def test_best_effort_changes_nothing_where_there_is_enough() -> None:
    """A claim that has its choice keeps the whole demand."""
    given = problem(
        replicas(pod("a", cpu="1"), 5),
        pools=[pool("p", *S, min_values={INSTANCE_TYPE: 2})],
        options=Options(packing="greedy", min_values="BestEffort"),
    )

    plan = solve(given)

    assert [len(new.pods) for new in plan.new_nodes] == [4, 1]
    assert {new.annotations[MIN_VALUES_RELAXED] for new in plan.new_nodes} == {"false"}
    assert plan.new_nodes[0].requirements[INSTANCE_TYPE].min_values == 2


# Reservations.


def reservations(*sold: Offering, strict: bool = True) -> tuple[ReservationManager, Template]:
    """Return the reservations of one type that is sold in some ways."""
    ours = Template(0, pool("p", instance_type("t", sold=sold)), [], AXIS, RULES.well_known)
    return ReservationManager([ours], strict=strict), ours


def test_the_scarcest_figure_of_a_reservation_counts() -> None:
    """When offerings disagree about what is left of a reservation, the least is believed."""
    ours, _ = reservations(
        from_reservation("r1", 3), from_reservation("r1", 2, "zone-2"), offering("zone-1", ON_DEMAND, 1)
    )

    assert ours.left == {"r1": 2}


def test_an_unknown_number_left_is_none() -> None:
    """A reservation that does not say how much it holds has nothing to give."""
    ours, _ = reservations(offering("zone-1", RESERVED, 0.1, reservation="r1"))

    assert ours.left == {"r1": 0}


def test_holding_and_releasing() -> None:
    """A claim holds one machine of each reservation it could use, and gives back what it no longer can."""
    ours, _ = reservations(from_reservation("r1", 2), from_reservation("r2", 1))

    ours.hold(0, frozenset({"r1", "r2"}))
    between = dict(ours.left)
    ours.hold(0, frozenset({"r1"}))

    assert between == {"r1": 1, "r2": 0}
    assert ours.left == {"r1": 1, "r2": 1}
    assert [sorted(ours.held(claim)) for claim in (0, 1)] == [["r1"], []]


@pytest.mark.parametrize(
    ("strict", "left", "held", "expected"),
    [
        pytest.param(True, 1, None, {"r1"}, id="a new claim gets what is left"),
        pytest.param(
            True, 0, None, None, id="strictly, a claim that could use reserved capacity must get some"
        ),
        pytest.param(False, 0, None, frozenset(), id="otherwise it goes without"),
        pytest.param(True, 0, {"r1"}, {"r1"}, id="what a claim holds it keeps"),
    ],
)
def test_obtainable(strict: bool, left: int, held: set[str] | None, expected: frozenset[str] | None) -> None:
    """A claim can hold what is left of a reservation, or what it holds already; None is a refusal."""
    ours, ours_template = reservations(from_reservation("r1", left), strict=strict)
    if held:
        ours.left["r1"] = 1
        ours.hold(0, frozenset(held))

    found = ours.obtainable(0 if held else None, ours_template, ours_template.bits)

    assert found == expected


def test_strictly_the_last_reservation_is_not_given_up() -> None:
    """A pod that would cost a claim all it holds is refused, unless falling back is allowed."""
    for strict, expected in ((True, None), (False, frozenset[str]())):
        ours, ours_template = reservations(
            from_reservation("r1", 1), offering("zone-2", ON_DEMAND, 1), strict=strict
        )
        ours.hold(0, frozenset({"r1"}))

        assert ours.obtainable(0, ours_template, 0b10) == expected


def test_where_nothing_is_reserved_nothing_is_held() -> None:
    """Offerings on demand need no reservation."""
    ours, ours_template = reservations(from_reservation("r1", 1), offering("zone-2", ON_DEMAND, 1))

    assert ours.obtainable(None, ours_template, 0b10) == frozenset()


def test_usable() -> None:
    """A claim is bought out of what it holds; one that holds nothing is never bought as reserved."""
    ours, ours_template = reservations(
        from_reservation("r1", 1), from_reservation("r2", 1), offering("zone-2", ON_DEMAND, 1)
    )

    assert ours.usable(frozenset({"r2"}), ours_template, 0b111) == 0b010
    assert ours.usable(frozenset(), ours_template, 0b111) == 0b100


BOTH = instance_type("both", cpu=4, sold=[*offerings(0.2), from_reservation("r1", 2)])
DEAR = instance_type("dear", cpu=4, price=0.9)


@pytest.mark.parametrize(
    ("ours", "count", "mode", "expected"),
    [
        pytest.param(
            [pool("p", BOTH)], 2, "strict", [("both", "r1")] * 2, id="reserved machines are bought first"
        ),
        pytest.param(
            [pool("p", BOTH)],
            3,
            "strict",
            [("both", ""), ("both", "r1"), ("both", "r1")],
            id="what reservations cannot serve is bought in a second pass",
        ),
        pytest.param(
            [pool("p", BOTH)],
            3,
            "fallback",
            [("both", ""), ("both", "r1"), ("both", "r1")],
            id="or at once where falling back is allowed",
        ),
        pytest.param(
            [pool("p", BOTH), pool("q", DEAR)],
            3,
            "strict",
            [("both", ""), ("both", "r1"), ("both", "r1")],
            id="waiting for a reservation does not drive pods to a later pool",
        ),
        pytest.param(
            [pool("p", instance_type("only", sold=[from_reservation("r1", 1)])), pool("q", DEAR)],
            2,
            "strict",
            [("dear", ""), ("only", "r1")],
            id="a pool that sells nothing else leaves the rest to the next",
        ),
    ],
)
def test_reserved_capacity(ours: list[Pool], count: int, mode: str, expected: list[tuple[str, str]]) -> None:
    """Reserved machines serve as many pods as there are, and no more."""
    options = Options(packing="greedy", reserved="strict" if mode == "strict" else "fallback")
    given = problem(alone(count), pools=ours, options=options)

    plan = solve(given)

    assert bought(plan) == expected
    assert problems_of(given, plan) == []


def test_a_claim_that_holds_reservations_says_which() -> None:
    """Such a claim may only be launched as reserved, out of what it holds."""
    kinds = [
        instance_type("a", sold=[*offerings(0.2), from_reservation("r1", 1)]),
        instance_type("b", sold=[*offerings(0.2), from_reservation("r2", 1, "zone-2")]),
    ]

    (new,) = solve(problem(pod("x"), pools=[pool("p", *kinds)])).new_nodes

    assert new.requirements[CAPACITY_TYPE].values == {RESERVED}
    assert new.requirements[RESERVATION].values == {"r1", "r2"}
    assert new.instance_types == ("a", "b")


def test_a_narrowed_claim_gives_reservations_back() -> None:
    """When a pod narrows a claim to one zone, what it held elsewhere serves others."""
    kinds = [
        instance_type("a", cpu=8, sold=[from_reservation("r1", 1, "zone-1")]),
        instance_type("b", cpu=8, sold=[from_reservation("r2", 1, "zone-2")]),
    ]
    given = problem(
        pod("x", cpu="3", app="x", apart=[affinity_term(HOSTNAME, app="x")]),
        pod("y", cpu="2", app="x", apart=[affinity_term(HOSTNAME, app="x")]),
        pod("z", cpu="1", terms=[[only(ZONE, "zone-1")]]),
        pools=[pool("p", *kinds)],
        options=Options(packing="greedy", reserved="fallback"),
    )

    plan = solve(given)

    assert plan.refusals == ()
    assert bought(plan) == [("a", "r1"), ("b", "r2")]
    assert problems_of(given, plan) == []


def test_waiting_for_a_reservation_gives_up_no_preference() -> None:
    """A pod that only lacks a reservation keeps its preferences until the second pass."""
    kinds = [
        instance_type("near", sold=[*offerings(0.2, zones=["zone-1"]), from_reservation("r1", 0)]),
        instance_type("far", sold=offerings(0.1, zones=["zone-2"])),
    ]
    fond = pod("x", terms=[[only(ZONE, "zone-1")], [only(ZONE, "zone-2")]])

    plan = solve(problem(fond, pools=[pool("p", *kinds)], options=GREEDY))

    assert bought(plan) == [("near", "")]
