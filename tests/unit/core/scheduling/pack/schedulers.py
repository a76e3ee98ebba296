"""Runs to look into: a problem, encoded, with nothing placed or with everything placed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.core.scheduling.encode.encode import EncodedProblem
from karpenter.core.scheduling.pack import greedy
from karpenter.core.scheduling.pack.scheduler import Scheduler

if TYPE_CHECKING:
    from karpenter.core.scheduling.encode.preferences import PodData
    from karpenter.core.scheduling.problem import Problem
    from karpenter_local.testing.builders import Standing


def fresh(given: Problem) -> Scheduler:
    """Return a run of a problem in which nothing is placed yet."""
    return Scheduler(EncodedProblem(given))


def placed(given: Problem) -> Scheduler:
    """Return a run of a problem in which everything is placed, first come, first served."""
    run = fresh(given)
    greedy.pack(run, {each.number: len(each.pods) for each in run.encoded.classes})
    return run


def wish_of(run: Scheduler, name: str, reading: int = 0) -> PodData:
    """Return one reading of the class that a pod belongs to."""
    for each in run.encoded.classes:
        if any(pod.metadata.name == name for pod in each.pods):
            return run.wishes[each.number][reading]
    raise KeyError(name)


def bins(run: Scheduler) -> list[list[str]]:
    """Return the pods of every claim, in the order in which they came."""
    dealt: dict[int, int] = {}
    found: list[list[str]] = [[] for _ in range(run.claims.count)]
    for move in run.moves:
        start = dealt.get(move.wish.of.number, 0)
        dealt[move.wish.of.number] = start + move.many
        if move.bin >= run.nodes.count:
            some = move.wish.of.pods[start : start + move.many]
            found[move.bin - run.nodes.count] += [pod.metadata.name for pod in some]
    return found


def unlabelled(standing: Standing, key: str) -> Standing:
    """Return a node without one of its labels."""
    labels = {name: value for name, value in standing.existing.labels.items() if name != key}
    return msgspec.structs.replace(
        standing, existing=msgspec.structs.replace(standing.existing, labels=labels)
    )
