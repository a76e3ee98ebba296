"""Runs to look into: a problem, encoded, with nothing placed or with everything placed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.core.scheduling.encode.encode import EncodedProblem
from karpenter.core.scheduling.pack import greedy
from karpenter.core.scheduling.pack.scheduler import Scheduler

if TYPE_CHECKING:
    from karpenter.core.scheduling.pack.poddata import PodData
    from karpenter.core.scheduling.problem import Problem
    from karpenter_local.testing.builders import NodeWithPods


def fresh(given: Problem) -> Scheduler:
    """Return a run of a problem in which nothing is placed yet."""
    return Scheduler(EncodedProblem(given))


def placed(given: Problem) -> Scheduler:
    """
    Return a run of a problem in which everything is placed, first come, first served.

    Claims are found by asking one after the other, or with arrays of all claims: both find the same.
    """
    scheduler, by_arrays = fresh(given), fresh(given)
    by_arrays.search_limit.refusals = 0
    for each in (scheduler, by_arrays):
        greedy.pack(each, {some.number: len(some.pods) for some in each.encoded.classes})
    assert bins(by_arrays) == bins(scheduler)
    return scheduler


def pod_data_of(scheduler: Scheduler, name: str, compiled: int = 0) -> PodData:
    """Return one relaxation of the class that a pod belongs to."""
    for each in scheduler.encoded.classes:
        if any(pod.metadata.name == name for pod in each.pods):
            return scheduler.pod_data[each.number][compiled]
    raise KeyError(name)


def bins(scheduler: Scheduler) -> list[list[str]]:
    """Return the pods of every claim, in the order in which they came."""
    dealt: dict[int, int] = {}
    found: list[list[str]] = [[] for _ in range(scheduler.claims.count)]
    for placement in scheduler.placements:
        start = dealt.get(placement.pod_data.pod_class.number, 0)
        dealt[placement.pod_data.pod_class.number] = start + placement.pod_count
        if placement.bin >= scheduler.nodes.count:
            some = placement.pod_data.pod_class.pods[start : start + placement.pod_count]
            found[placement.bin - scheduler.nodes.count] += [pod.metadata.name for pod in some]
    return found


def unlabelled(standing: NodeWithPods, key: str) -> NodeWithPods:
    """Return a node without one of its labels."""
    labels = {name: value for name, value in standing.existing.labels.items() if name != key}
    return msgspec.structs.replace(
        standing, existing=msgspec.structs.replace(standing.existing, labels=labels)
    )
