"""
What makes the gap between a plan and its lower bound, kind of constraint by kind of constraint.

The problem is solved again, plan and bound, without one kind of constraint at a time. By how much the gap
falls is what that kind makes of it: either the bound does not count it in full, or it makes a cheap plan hard
to find. Kinds can overlap, so the parts need not add up; what no part explains is whole machines. Meant for
``karpenter plan``: the operator does not ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.pod import Pod, PodAffinity, PodSpec
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.proof.prove import solve_and_prove

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.core.scheduling.problem import Cost, Plan, Pool, Problem

_WORTH_TELLING: Final = 0.01
"""The least gap that is explained."""

_LEAST_PART: Final = 0.001
_PODS: Final = 2000
"""Above this many pods, solving again takes too long."""


def solve_and_explain_gap(problem: Problem) -> Plan:
    """Return a plan with its bound, and with what makes the gap between them."""
    plan = solve_and_prove(problem)
    return msgspec.structs.replace(plan, cost=with_gap_parts(plan.cost, problem))


def with_gap_parts(cost: Cost, problem: Problem) -> Cost:
    """Return a cost with what makes its gap, the largest part first."""
    if cost.gap < _WORTH_TELLING or len(problem.pods) > _PODS:
        return cost
    found = []
    for name, without in _KINDS.items():
        relaxed = without(problem)
        if relaxed is not None:
            part = cost.gap - solve_and_prove(relaxed).cost.gap
            if part >= _LEAST_PART:
                found.append((name, part))
    found.sort(key=lambda each: -each[1])
    return msgspec.structs.replace(cost, gap_parts=tuple(found))


def _with_specs(problem: Problem, change: Callable[[PodSpec], PodSpec]) -> Problem | None:
    """Return the problem with other pod specs; None when every spec stays as it is."""
    pods = tuple(_with_spec(pod, change(pod.spec)) for pod in problem.pods)
    if all(one is other for one, other in zip(pods, problem.pods, strict=True)):
        return None
    return msgspec.structs.replace(problem, pods=pods)


def _with_spec(pod: Pod, spec: PodSpec) -> Pod:
    return pod if spec is pod.spec else msgspec.structs.replace(pod, spec=spec)


def _without_spread(problem: Problem) -> Problem | None:
    def change(spec: PodSpec) -> PodSpec:
        if not spec.topology_spread_constraints:
            return spec
        return msgspec.structs.replace(spec, topology_spread_constraints=())

    found = _with_specs(problem, change)
    if not problem.spread_defaults:
        return found
    return msgspec.structs.replace(found if found is not None else problem, spread_defaults={})


def _without_affinity(field: str) -> Callable[[Problem], Problem | None]:
    def change(spec: PodSpec) -> PodSpec:
        affinity = spec.affinity
        if affinity is None or getattr(affinity, field) in (None, PodAffinity()):
            return spec
        return msgspec.structs.replace(spec, affinity=msgspec.structs.replace(affinity, **{field: None}))

    return lambda problem: _with_specs(problem, change)


def _with_pools(problem: Problem, change: Callable[[Pool], Pool]) -> Problem | None:
    pools = tuple(map(change, problem.pools))
    return None if pools == problem.pools else msgspec.structs.replace(problem, pools=pools)


def _without_limits(problem: Problem) -> Problem | None:
    return _with_pools(problem, lambda pool: msgspec.structs.replace(pool, limits={}))


def _without_min_values(problem: Problem) -> Problem | None:
    def change(pool: Pool) -> Pool:
        entries = [each.without_min_values() for each in pool.requirements]
        return msgspec.structs.replace(pool, requirements=Requirements.of(entries))

    return _with_pools(problem, change)


_KINDS: Final[dict[str, Callable[[Problem], Problem | None]]] = {
    "topology spread": _without_spread,
    "pod anti-affinity": _without_affinity("pod_anti_affinity"),
    "pod affinity": _without_affinity("pod_affinity"),
    "limits": _without_limits,
    "minValues": _without_min_values,
}
