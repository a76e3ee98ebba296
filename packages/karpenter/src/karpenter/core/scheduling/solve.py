"""
The solver: ``solve(problem) -> Plan``. The operator, `plan` and every simulation call this.

It encodes the problem, packs it greedily, packs it again by price unless the options say otherwise, and
decodes the cheapest schedule. The steps are in ``encode``, ``pack``, ``price``, ``decode`` and ``explain``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.core.scheduling.decode import DecodedPlan, hourly
from karpenter.core.scheduling.encode.encode import EncodedProblem
from karpenter.core.scheduling.explain import Because, refusals
from karpenter.core.scheduling.pack import greedy
from karpenter.core.scheduling.pack.scheduler import Scheduler
from karpenter.core.scheduling.price.bound import lower_bound
from karpenter.core.scheduling.price.exact import INTEGER_PROGRAM, TOLERANCE, cheapest_schedule
from karpenter.core.scheduling.price.planner import cheaper, cheaper_with_devices
from karpenter.core.scheduling.problem import Cost, Plan

if TYPE_CHECKING:
    from karpenter.core.scheduling.problem import Problem


def solve(problem: Problem) -> Plan:
    """Decide which node every pod goes to, and which NodeClaims to create."""
    scheduler, left = search(problem)
    cost: Cost | None = None
    if problem.options.prove and scheduler.claims.count and not scheduler.stop():
        scheduler, cost = _proved(scheduler, left)
    decoded = DecodedPlan(scheduler)
    return Plan(
        new_nodes=decoded.new_nodes,
        placed=decoded.placed,
        because=Because(scheduler, decoded.new_nodes),
        refusals=refusals(scheduler, left),
        cost=cost if cost is not None else Cost(hourly=decoded.hourly),
        complete=scheduler.is_complete,
    )


def _proved(scheduler: Scheduler, left: dict[int, int]) -> tuple[Scheduler, Cost]:
    """Return the cheapest schedule with the best lower bound that can be proved."""
    cost = hourly(scheduler)
    bound, method = lower_bound(scheduler, left)
    if bound < cost * (1 - TOLERANCE) and scheduler.problem.options.packing == "price":
        scheduler, exact = cheapest_schedule(scheduler, left, cost)
        cost = hourly(scheduler)
        if exact is not None and exact > bound:
            bound, method = exact, INTEGER_PROGRAM
    # More than rounding errors above the plan would be a wrong proof, which must not be hidden.
    assert bound <= cost * (1 + TOLERANCE) + TOLERANCE, f"bound {bound} above the cost {cost}"
    return scheduler, Cost(hourly=cost, lower_bound=min(bound, cost), method=method)


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
