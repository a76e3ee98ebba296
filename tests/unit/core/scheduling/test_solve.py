"""The solver as a whole: what a plan says, and what options change."""

from __future__ import annotations

import sys

import pytest

from karpenter.api.labels import HOSTNAME, ZONE
from karpenter.core.scheduling.problem import Cost, Options, Problem
from karpenter.core.scheduling.proof.prove import solve_and_prove
from karpenter.core.scheduling.solve import packed_by_price, plan_of, search, solve
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
)

SMALL = instance_type("small", cpu=4, memory=8, price=0.10)
HUGE = instance_type("huge", cpu=64, memory=128, price=4.00)
POOL = pool("p", SMALL, HUGE)


def sixteen(options: Options) -> Problem:
    """Return the problem of sixteen pods, for which four small machines cost a tenth of one huge one."""
    return problem(replicas(pod("a", cpu="1", memory="1Gi"), 16), pools=[POOL], options=options)


def test_nothing_to_do() -> None:
    """Without pods there is nothing to buy, place, refuse or prove."""
    plan = solve(problem(pools=[POOL]))

    assert (plan.new_nodes, plan.placed, plan.refusals, dict(plan.because)) == ((), {}, (), {})
    assert (plan.cost.hourly, plan.cost.lower_bound, plan.cost.gap, plan.complete) == (0.0, 0.0, 0.0, True)


def test_a_plan_says_everything() -> None:
    """Machines, placed pods, refusals, reasons and cost are all in the plan."""
    plan = solve(
        problem(
            pod("a", cpu="3"),
            pod("b", cpu="2"),
            pod("c", cpu="99"),
            pools=[POOL],
            nodes=[node("n", free={"cpu": "3"})],
        )
    )

    assert plan.placed == {"n": ("default/a",)}
    assert [new.pods for new in plan.new_nodes] == [("default/b",)]
    assert [refusal.pod for refusal in plan.refusals] == ["default/c"]
    assert sorted(plan.because) == ["default/a", "default/b"]
    assert plan.cost.hourly == pytest.approx(0.06)
    assert plan.complete


@pytest.mark.parametrize(
    ("options", "hourly"),
    [
        pytest.param(Options(packing="greedy"), 2.4, id="greedy fills the fewest machines"),
        pytest.param(Options(), 0.24, id="by default the cheapest machines are bought"),
        pytest.param(Options(effort=0), 0.24, id="without rounds of improvement as well"),
    ],
)
def test_packing(options: Options, hourly: float) -> None:
    """The option decides what is looked for."""
    assert solve(sixteen(options)).cost.hourly == pytest.approx(hourly)


def test_the_gap_to_the_bound_is_told() -> None:
    """A plan says how far it could be from the best there is."""
    plan = solve_and_prove(sixteen(Options(packing="greedy")))

    assert plan.cost.lower_bound == pytest.approx(0.24)
    assert plan.cost.gap == pytest.approx(9.0)
    assert plan.cost.method == "linear program"


def test_a_bound_is_never_above_the_price() -> None:
    """A plan that is as cheap as can be has no gap, not a negative one."""
    plan = solve_and_prove(sixteen(Options()))

    assert 0.0 <= plan.cost.gap < 1e-6


def test_no_bound_is_worked_out_unless_it_is_asked_for() -> None:
    """The operator only wants the plan."""
    plan = solve(sixteen(Options()))

    assert (plan.cost.lower_bound, plan.cost.method, plan.cost.gap) == (0.0, "", 0.0)


def test_the_solver_does_without_the_library_for_linear_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, plans are made all the same, and the bound says how it was proved."""
    monkeypatch.setitem(sys.modules, "highspy", None)

    plan = solve_and_prove(sixteen(Options()))

    assert plan.cost.hourly == pytest.approx(0.24)
    assert plan.cost.method == "equal values for all machines"


@pytest.mark.parametrize(
    ("preferences", "zone"),
    [pytest.param("Respect", "zone-3", id="respected"), pytest.param("Ignore", "zone-1", id="ignored")],
)
def test_preferences(preferences: str, zone: str) -> None:
    """Preferences are kept where they can be, or not looked at."""
    sold = [offering("zone-1", "spot", 0.1), offering("zone-3", "spot", 0.9)]
    fond = pod("a", prefers=Preferences(nodes=((1, [only(ZONE, "zone-3")]),)))
    options = Options(preferences="Respect" if preferences == "Respect" else "Ignore")

    (new,) = solve(problem(fond, pools=[pool("p", instance_type("t", sold=sold))], options=options)).new_nodes

    assert new.purchase.zone == zone


def test_what_reservations_cannot_serve_is_tried_again_without_them() -> None:
    """A second pass buys on demand what waited for reserved capacity in the first."""
    sold = [*offerings(0.2), offering("zone-1", "reserved", 0.001, reservation="r", left=1)]
    apart = replicas(pod("a", app="a", apart=[affinity_term(HOSTNAME, app="a")]), 2)

    scheduler, left = search(problem(apart, pools=[pool("p", instance_type("t", sold=sold))]))

    assert left == {}
    assert not scheduler.reservations.strict


# Stopping.


def test_a_search_that_is_stopped_says_that_it_is_not_complete() -> None:
    """What was found by then is the plan, and pods that were not considered are refused as such."""
    answers = iter([False, *[True] * 20])
    given = problem(pod("a", cpu="2"), pod("b"), pools=[POOL], options=Options(stop=lambda: next(answers)))

    plan = solve(given)

    assert [new.pods for new in plan.new_nodes] == [("default/a",)]
    assert [refusal.pod for refusal in plan.refusals] == ["default/b"]
    assert plan.cost.lower_bound == 0.0
    assert not plan.complete


def test_a_search_that_had_time_for_every_pod_is_complete() -> None:
    """Being told to stop after the last pod was placed leaves nothing out but the search for savings."""
    answers = iter([False, *[True] * 20])

    plan = solve(sixteen(Options(stop=lambda: next(answers))))

    assert plan.complete
    assert plan.refusals == ()
    assert [new.purchase.instance_type for new in plan.new_nodes] == ["huge"]


@pytest.mark.parametrize(
    ("cost", "gap", "optimal"),
    [
        pytest.param(Cost(hourly=0.5, lower_bound=0.5), 0.0, True, id="as cheap as can be"),
        pytest.param(Cost(hourly=0.75, lower_bound=0.5), 0.5, False, id="half as much again"),
        pytest.param(Cost(hourly=0.5), 0.0, False, id="nothing was proved"),
    ],
)
def test_what_a_cost_says_about_its_bound(cost: Cost, gap: float, optimal: bool) -> None:
    """A gap is a share of the bound; without a bound there is none, and nothing is proved."""
    assert (cost.gap, cost.optimal) == (gap, optimal)


def test_a_type_with_none_of_a_resource_is_bought() -> None:
    """A type that says that it has no GPU has room for pods that want none."""
    without = instance_type("without", cpu=4, memory=8, resources={"example.com/gpu": 0})

    plan = solve(problem(pod("a"), pools=[pool("p", without)], daemons=[pod("d", cpu="100m")]))

    assert [new.purchase.instance_type for new in plan.new_nodes] == ["without"]


def test_a_greedy_schedule_is_packed_by_price_later() -> None:
    """What comes out is what packing by price finds at once, and the greedy schedule stays as it is."""
    greedy = search(sixteen(Options(packing="greedy")))
    before = plan_of(*greedy)

    found = plan_of(*packed_by_price(*greedy))

    assert found.cost.hourly == solve(sixteen(Options(packing="price"))).cost.hourly == pytest.approx(0.24)
    assert [(new.purchase, new.pods) for new in plan_of(*greedy).new_nodes] == [
        (new.purchase, new.pods) for new in before.new_nodes
    ]
    assert before.cost.hourly == solve(sixteen(Options(packing="greedy"))).cost.hourly == pytest.approx(2.4)
    assert plan_of(*greedy, Cost(hourly=1.0)).cost == Cost(hourly=1.0)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(problem(pod("a"), nodes=[node("n")], pools=[POOL]), id="nothing is launched"),
        pytest.param(sixteen(Options(packing="greedy", stop=lambda: True)), id="the time is up"),
    ],
)
def test_a_schedule_that_is_not_packed_by_price(given: Problem) -> None:
    """It is returned as it is."""
    scheduler, left = search(given)

    assert packed_by_price(scheduler, left) == (scheduler, left)
