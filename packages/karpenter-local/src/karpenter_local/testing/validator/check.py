"""Every check there is, one after the other."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from karpenter_local.testing.validator import fits, machines
from karpenter_local.testing.validator.bins import ExistingBin, NewBin, bins_of
from karpenter_local.testing.validator.refusals import wrong_refusals
from karpenter_local.testing.validator.topology import topology_violations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.core.scheduling.problem import Plan, Problem


def problems_of(problem: Problem, plan: Plan) -> list[str]:
    """Return everything that is wrong with a plan, one sentence each; nothing when it is sound."""
    return list(dict.fromkeys(_problems(problem, plan)))


def _problems(problem: Problem, plan: Plan) -> Iterator[str]:
    yield from _accounts(problem, plan)
    bins = bins_of(problem, plan)
    for where in bins:
        yield from fits.each_pod(problem, where)
        yield from fits.ports_of(problem, where)
        yield from fits.room_of(problem, where)
        yield from (
            fits.volumes_of(problem, where) if isinstance(where, ExistingBin) else _machine(problem, where)
        )
    new = [where for where in bins if isinstance(where, NewBin)]
    for pool in problem.pools:
        yield from machines.limits_of(pool, new)
    yield from machines.reservations_of(problem, new)
    yield from machines.cost_of(plan)
    yield from topology_violations(problem, bins)
    refused = {each.pod for each in plan.refusals}
    yield from wrong_refusals(problem, bins, [pod for pod in problem.pods if pod.key in refused])


def _machine(problem: Problem, where: NewBin) -> Iterator[str]:
    yield from machines.description_of(where)
    yield from machines.labels_of(where)
    yield from machines.types_of(where)
    yield from machines.purchase_of(where)
    yield from machines.choice_of(problem, where)


def _accounts(problem: Problem, plan: Plan) -> Iterator[str]:
    """Yield pods of the problem that the plan lacks or names twice, and pods that only the plan names."""
    seen = Counter(each.pod for each in plan.refusals)
    seen.update(key for keys in plan.placed.values() for key in keys)
    seen.update(key for new in plan.new_nodes for key in new.pods)
    known = {pod.key for pod in problem.pods}
    for key in sorted(known | seen.keys()):
        if key not in known:
            yield f"{key} is in the plan, but not in the problem"
        elif seen[key] != 1:
            yield f"{key} is in the plan {seen[key]} times"
    for node in plan.placed.keys() - {node.name for node in problem.nodes}:
        yield f"pods are placed on node {node}, which takes none"
    for new in plan.new_nodes:
        if new.pool not in {pool.name for pool in problem.pools}:
            yield f"new node {new.name} is of the pool {new.pool}, which there is not"
