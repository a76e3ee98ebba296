"""The solver: ``solve(problem) -> Plan``. The operator, `plan` and every simulation call this."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.core.scheduling.decode import DecodedPlan
from karpenter.core.scheduling.dynamicresources.by_price import cheaper_with_devices
from karpenter.core.scheduling.encode.encode import EncodedProblem
from karpenter.core.scheduling.explain import Because, refusals
from karpenter.core.scheduling.pack import greedy
from karpenter.core.scheduling.pack.scheduler import Scheduler
from karpenter.core.scheduling.price.bound import lower_bound
from karpenter.core.scheduling.price.planner import cheaper
from karpenter.core.scheduling.problem import Cost, Plan

if TYPE_CHECKING:
    from karpenter.core.scheduling.problem import Problem


def solve(problem: Problem) -> Plan:
    """Decide where every pod goes, and which machines to launch for it."""
    run, left = search(problem)
    outcome = DecodedPlan(run)
    cost = Cost(hourly=outcome.hourly)
    if problem.options.prove and run.claims.count and not run.stop():
        bound, method = lower_bound(run, left)
        cost = Cost(hourly=cost.hourly, lower_bound=min(bound, cost.hourly), method=method)
    return Plan(
        new_nodes=outcome.new_nodes,
        placed=outcome.placed,
        because=Because(run, outcome.new_nodes),
        refusals=refusals(run, left),
        cost=cost,
        complete=run.is_complete,
    )


def search(problem: Problem) -> tuple[Scheduler, dict[int, int]]:
    """Return the best run that was found, and the pods it leaves, per class number."""
    run = Scheduler(EncodedProblem(problem))
    left = _pack(run)
    if problem.options.packing == "price" and run.claims.count and not run.stop():
        if run.devices is not None:
            run, left = cheaper_with_devices(run, left, _pack)
        run = cheaper(run)
    return run, left


def _pack(run: Scheduler) -> dict[int, int]:
    """Place what can be placed; return what is left, per class number."""
    left = greedy.pack(run, {each.number: len(each.pods) for each in run.encoded.classes})
    if left and run.reservations.left and run.reservations.strict:
        run.reservations.strict = False  # what reservations cannot serve may still be bought
        left = greedy.pack(run, left)
    return left
