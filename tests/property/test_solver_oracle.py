"""The solver, held against its slow twin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from karpenter.core.scheduling.solve import solve
from karpenter_local.testing.oracle import OraclePlan, slow_solve
from karpenter_local.testing.problems import Mix, problems

if TYPE_CHECKING:
    from karpenter.core.scheduling.problem import Plan, Problem

Bins = tuple[dict[str, tuple[str, ...]], list[tuple[str, tuple[str, ...]]]]

pytestmark = pytest.mark.usefixtures("untraced")

laws = settings(
    max_examples=3 * settings().max_examples,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
)
different_sizes = Mix(same_sizes=False)
plain = Mix(
    same_sizes=False, spread=False, affinity=False, anti_affinity=False, preferences=False, reserved=False
)


def bins_of(plan: Plan) -> Bins:
    """Return who is where, in a form that can be compared with what the oracle says."""
    placed = {node: tuple(sorted(pods)) for node, pods in plan.placed.items()}
    return placed, [(new.pool, tuple(sorted(new.pods))) for new in plan.new_nodes]


def bins_of_outcome(outcome: OraclePlan) -> Bins:
    """Return who is where, as the oracle says."""
    placed = {node: tuple(sorted(pods)) for node, pods in outcome.placed.items()}
    return placed, [(pool, tuple(sorted(pods))) for pool, pods in outcome.claims]


@laws
@given(problems(different_sizes))
def test_solver_refuses_what_the_oracle_refuses(problem: Problem) -> None:
    """
    The greedy packer refuses exactly the pods that the oracle refuses, and is not dearer.

    The oracle says what we mean where upstream leaves it open or is known to be wrong (its
    docstring has the list). Pods of different templates differ in size here: the solver places
    equal pods together, so that templates of one size would be taken in another order than
    one pod at a time, which no rule forbids.
    """
    plan, outcome = solve(problem), slow_solve(problem)

    assert {each.pod for each in plan.refusals} == outcome.refused
    assert plan.cost.hourly <= outcome.hourly * (1 + 1e-9)


@laws
@given(problems(plain))
def test_solver_places_pods_where_the_oracle_places_them(problem: Problem) -> None:
    """Without ties between domains, every pod gets the very bin that the oracle gives it."""
    plan, outcome = solve(problem), slow_solve(problem)

    assert bins_of(plan) == bins_of_outcome(outcome)
    assert plan.cost.hourly == pytest.approx(outcome.hourly)
