"""
Whether what comes first was used first: nodes that are there before new ones, heavier pools before lighter.

Said only of plain pods, for which nothing but room, taints, ports and one set of node
requirements decides: what has room for such a pod in the end had room for it all along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.core.model.hostportusage import first_conflict, host_ports
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import fits, merge, pod_requests, subtract
from karpenter.core.model.taints import tolerates
from karpenter_local.testing.validator.bins import Bin, ExistingBin, NewBin
from karpenter_local.testing.validator.constraints import is_plain, node_terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from karpenter.api.pod import Pod
    from karpenter.core.scheduling.problem import Pool, Problem


def wrong_refusals(problem: Problem, bins: Sequence[Bin], refused: Sequence[Pod]) -> Iterator[str]:
    """Yield which pods were put on a new node, or refused, although something better had room."""
    old = [where for where in bins if isinstance(where, ExistingBin)]
    new = [where for where in bins if isinstance(where, NewBin)]
    for pod in [*refused, *(pod for where in new for pod in where.pods)]:
        roomy = [each.name for each in old if is_plain(problem, pod) and _has_room(problem, each, pod)]
        if roomy:
            yield f"{roomy[0]} has room for {pod.key}, which is not there"
    for pod in refused:
        if is_plain(problem, pod) and any(_serves(problem, pool, pod) for pool in problem.pools):
            yield f"{pod.key} was refused, although a pool without limits can serve it"
    for where in new:
        for pool in problem.pools[: problem.pools.index(where.pool)]:
            if all(is_plain(problem, pod) and _serves(problem, pool, pod) for pod in where.pods):
                yield f"{where.name} is of {where.pool.name}, though {pool.name} comes first"
                break


def _has_room(problem: Problem, where: ExistingBin, pod: Pod) -> bool:
    if where.node.quiet and pod.key in problem.moved:
        return False
    left = subtract(where.node.free, merge(pod_requests(each) for each in where.pods))
    taken = [*where.node.ports, *(port for each in where.pods for port in host_ports(each))]
    labels = Requirements.from_labels(where.node.labels)
    return (
        fits(pod_requests(pod), left)
        and tolerates(pod.spec.tolerations, where.node.taints)
        and labels.accepts(node_terms(pod)[0])
        and not first_conflict(host_ports(pod), taken)
    )


def _serves(problem: Problem, pool: Pool, pod: Pod) -> bool:
    """Say whether a pool can surely launch a node for one pod; not said of pools with special rules."""
    special = pool.limits or any(each.min_values for each in pool.requirements)
    reserved = any(each.reservation_id for kind in pool.types for each in kind.offerings)
    known = problem.rules.well_known
    wanted = node_terms(pod)[0]
    if special or reserved or not tolerates(pod.spec.tolerations, pool.taints):
        return False
    if not pool.requirements.accepts(wanted, known):
        return False
    labels = pool.requirements.intersect(wanted)
    total = merge(pod_requests(each) for each in (pod, *problem.daemons))
    ports = [port for each in problem.daemons for port in host_ports(each)]
    return not first_conflict(host_ports(pod), ports) and any(
        offering.available
        and not kind.requirements.conflict(labels)
        and labels.accepts(offering.requirements, known)
        and fits(total, kind.allocatable)
        for kind in pool.types
        for offering in kind.offerings
    )
