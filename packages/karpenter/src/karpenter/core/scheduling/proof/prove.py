"""
A plan with the lower bound of its cost: what ``karpenter plan`` prints beside what the operator would launch.

The plan is that of :func:`karpenter.core.scheduling.solve.solve`. Three bounds are tried: that of divisible
pods, that of pods that keep apart or are spread, and of a small problem that of whole pods on whole machines.
A bound above the cost would be a wrong proof: it is dropped, and the plan stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.core.scheduling.decode import hourly
from karpenter.core.scheduling.price.whole import TOLERANCE
from karpenter.core.scheduling.problem import Cost, Plan, Problem
from karpenter.core.scheduling.proof.bound import divided_bound, lower_bound
from karpenter.core.scheduling.proof.exact import INTEGER_PROGRAM, exact_bound
from karpenter.core.scheduling.solve import plan_of, search

if TYPE_CHECKING:
    from karpenter.core.scheduling.pack.scheduler import Scheduler


def solve_and_prove(problem: Problem) -> Plan:
    """Return the plan that the operator would make, with a bound that no plan for the same pods is below."""
    scheduler, left = search(problem)
    if not scheduler.claims.count or scheduler.stop():
        return plan_of(scheduler, left)
    return plan_of(scheduler, left, proved_cost(scheduler, left))


def proved_cost(scheduler: Scheduler, left: dict[int, int]) -> Cost:
    """Return what a schedule costs, and the best lower bound that can be proved."""
    cost = hourly(scheduler)
    divided = divided_bound(scheduler, left) if _has_topology(scheduler) else None
    bound, method = divided if divided is not None else lower_bound(scheduler, left)
    if bound < cost * (1 - TOLERANCE) and scheduler.problem.options.packing == "price":
        exact = exact_bound(scheduler, left, cost)
        if exact is not None and exact > bound:
            bound, method = exact, INTEGER_PROGRAM
    if bound > cost * (1 + TOLERANCE) + TOLERANCE:
        return Cost(hourly=cost)
    return Cost(hourly=cost, lower_bound=min(bound, cost), method=method)


def _has_topology(scheduler: Scheduler) -> bool:
    """Whether any pods keep apart, or are spread over domains."""
    return any(
        each.pod_class.ports or each.demands.hosts or each.demands.domains
        for by_relaxation in scheduler.pod_data.values()
        for each in by_relaxation
    )
