"""
The solver: ``solve(problem) -> Plan``. The operator, `plan` and every simulation call this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.core.scheduling import greedy
from karpenter.core.scheduling.decode import hourly, new_nodes, placed
from karpenter.core.scheduling.encode import Encoded
from karpenter.core.scheduling.plan import Cost, Plan
from karpenter.core.scheduling.planner import cheaper
from karpenter.core.scheduling.run import Run
from karpenter.core.scheduling.verdicts import refusals

if TYPE_CHECKING:
    from karpenter.core.scheduling.problem import Problem


def solve(problem: Problem) -> Plan:
    """Decide where every pod goes, and which machines to launch for it."""
    encoded = Encoded(problem)
    run = Run(encoded)
    left = greedy.pack(run, {each.number: len(each.pods) for each in encoded.classes})
    if problem.options.packing == "price" and run.claims.count and not run.stop():
        run = cheaper(run)
    return Plan(
        new_nodes=new_nodes(run),
        placed=placed(run),
        refusals=refusals(run, left),
        cost=Cost(hourly=hourly(run)),
    )
