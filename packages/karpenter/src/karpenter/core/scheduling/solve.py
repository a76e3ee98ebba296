"""
The solver: ``solve(problem) -> Plan``. The operator, `plan` and every simulation call this.

It encodes the problem, packs it greedily, packs it again by price unless the options say otherwise, and
decodes the cheapest schedule. The steps are in ``encode``, ``pack``, ``price``, ``decode`` and ``explain``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.core.scheduling.decode import DecodedPlan
from karpenter.core.scheduling.encode.encode import EncodedProblem
from karpenter.core.scheduling.explain import Because, refusals
from karpenter.core.scheduling.pack import greedy
from karpenter.core.scheduling.pack.scheduler import Scheduler
from karpenter.core.scheduling.price.bound import lower_bound
from karpenter.core.scheduling.price.exact import INTEGER_PROGRAM, TOLERANCE, exact_bound
from karpenter.core.scheduling.price.planner import cheaper, cheaper_with_devices
from karpenter.core.scheduling.problem import Cost, Plan

if TYPE_CHECKING:
    from karpenter.core.scheduling.problem import Problem


def solve(problem: Problem) -> Plan:
    """Decide which node every pod goes to, and which NodeClaims to create."""
    scheduler, left = search(problem)
    decoded = DecodedPlan(scheduler)
    cost = Cost(hourly=decoded.hourly)
    if problem.options.prove and scheduler.claims.count and not scheduler.stop():
        cost = _proved(scheduler, left, cost.hourly)
    return Plan(
        new_nodes=decoded.new_nodes,
        placed=decoded.placed,
        because=Because(scheduler, decoded.new_nodes),
        refusals=refusals(scheduler, left),
        cost=cost,
        complete=scheduler.is_complete,
    )


def _proved(scheduler: Scheduler, left: dict[int, int], hourly: float) -> Cost:
    """Return the cost of a schedule with the best lower bound that can be proved."""
    bound, method = lower_bound(scheduler, left)
    if bound < hourly * (1 - TOLERANCE):
        exact = exact_bound(scheduler, left, hourly)
        if exact is not None and exact > bound:
            bound, method = exact, INTEGER_PROGRAM
    # More than rounding errors above the plan would be a wrong proof, which must not be hidden.
    assert bound <= hourly * (1 + TOLERANCE) + TOLERANCE, f"bound {bound} above the cost {hourly}"
    return Cost(hourly=hourly, lower_bound=min(bound, hourly), method=method)


def search(problem: Problem) -> tuple[Scheduler, dict[int, int]]:
    """Return the best schedule that was found, and the pods that it leaves, per class number."""
    scheduler = Scheduler(EncodedProblem(problem))
    left = _pack(scheduler)
    if problem.options.packing == "price" and scheduler.claims.count and not scheduler.stop():
        if scheduler.devices is not None:
            scheduler, left = cheaper_with_devices(scheduler, left, _pack)
        scheduler = cheaper(scheduler)
    return scheduler, left


def _pack(scheduler: Scheduler) -> dict[int, int]:
    """Place what can be placed; return the pods that are left, per class number."""
    left = greedy.pack(scheduler, {each.number: len(each.pods) for each in scheduler.encoded.classes})
    if left and scheduler.reservations.left and scheduler.reservations.strict:
        scheduler.reservations.strict = False  # pods that reservations cannot serve may use other capacity
        left = greedy.pack(scheduler, left)
    return left
