"""Random problems contain what they promise, and leave out what they are told to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, Phase, given, settings

from karpenter_local.testing.oracle import slow_solve
from karpenter_local.testing.problems import Mix, problems

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.core.scheduling.problem import Problem

quick = settings(
    max_examples=150,
    phases=[Phase.generate],
    database=None,
    suppress_health_check=list(HealthCheck),
)
nothing = Mix(
    nodes=0,
    pools=1,
    alternatives=False,
    spread=False,
    affinity=False,
    anti_affinity=False,
    preferences=False,
    taints=False,
    limits=False,
    min_values=False,
    reserved=False,
    daemons=False,
    ports=False,
    volumes=False,
    namespaces=False,
    sold_out=False,
    savings=False,
)


FEATURES: dict[str, Callable[[Problem], object]] = {
    "nodes with pods on them": lambda p: p.bound_pods and p.nodes,
    "limits": lambda p: any(pool.limits for pool in p.pools),
    "taints": lambda p: any(pool.taints for pool in p.pools),
    "minValues": lambda p: any(each.min_values for pool in p.pools for each in pool.requirements),
    "reservations": lambda p: any(o.reservation_id for q in p.pools for t in q.types for o in t.offerings),
    "volumes with zones": lambda p: any(each.alternatives for each in p.volumes.values()),
    "daemons": lambda p: p.daemons,
    "pods that are only moved": lambda p: p.moved,
    "several namespaces": lambda p: len({pod.namespace for pod in p.pods}) > 1,
    "preferences to be ignored": lambda p: p.options.preferences == "Ignore",
    "several machines": lambda p: len(slow_solve(p).claims) > 1,
    "room on nodes": lambda p: slow_solve(p).placed,
    "pods that cannot be placed": lambda p: slow_solve(p).refused,
}


def test_problems_have_everything() -> None:
    """Each kind of thing occurs in some problem, and each problem can be described."""
    seen: set[str] = set()

    @quick
    @given(problems())
    def look(problem: Problem) -> None:
        seen.update(name for name, has in FEATURES.items() if name not in seen and has(problem))
        assert problem.pods[0].key in repr(problem)

    look()

    assert seen == set(FEATURES)


@settings(quick, max_examples=50)
@given(problems(nothing))
def test_problems_leave_out_what_they_should(problem: Problem) -> None:
    """A mix without anything is pods, one pool, and nothing that could stand between them."""
    (pool,) = problem.pools
    assert not (problem.nodes)
    assert not (problem.daemons)
    assert not (problem.volumes)
    assert not (problem.moved)
    assert not (problem.bound_pods)
    assert not (pool.taints)
    assert not (pool.limits)
    assert all(offering.available for kind in pool.types for offering in kind.offerings)
    for pod in problem.pods:
        affinity = pod.spec.affinity
        assert not pod.spec.topology_spread_constraints
        assert affinity is None or not (affinity.pod_affinity or affinity.pod_anti_affinity)


@settings(quick, max_examples=50)
@given(problems(Mix(same_sizes=False)))
def test_sizes_tell_templates_apart(problem: Problem) -> None:
    """Where asked for, pods of different templates want different amounts of cpu."""
    sizes = {(pod.name[:2], str(pod.spec.containers[0].resources.requests["cpu"])) for pod in problem.pods}

    assert len(sizes) == len({name for name, _ in sizes}) == len({size for _, size in sizes})
