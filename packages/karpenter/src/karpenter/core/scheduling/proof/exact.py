"""
The exact bound of a small problem: the least that whole machines with whole pods can cost.

What the search knows, every plan must obey: requests, node selectors and affinity, taints, how many pods of
a class may share a node, how a class with a topology spread of its own is divided over domains, limits of
NodePools; minValues count in part. What it does not know (reservations, affinity between classes) can only
make plans dearer, so its optimum is a lower bound for every problem, and a plan that costs as much is
optimal. Room on existing nodes is a machine that costs nothing and is there once.

Few combinations of machines are cheap enough and large enough, so they are listed, and what is left is
whether the pods fit on them. Before long a better plan is sought by repacking a few machines at a time
(:mod:`.neighbourhood`), so that fewer combinations are cheap enough. A search that does not come to an end
proves what it has reached. Needs the library ``highspy``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.core.scheduling.price.bound import dual_values, placed_counts
from karpenter.core.scheduling.price.linear import library
from karpenter.core.scheduling.price.neighbourhood import repacked
from karpenter.core.scheduling.price.repack import is_plain, may_repack, pattern_problem, solution_of
from karpenter.core.scheduling.price.whole import CHEAPER, PatternProblem, Solution
from karpenter.core.scheduling.proof.machines import MachineSearch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.core.scheduling.pack.scheduler import Scheduler

INTEGER_PROGRAM: Final = "integer program over linear program values"
"""Names the method; it needs the same library as the linear program."""

_PODS: Final = 100
_CLASSES: Final = 30
_PODS_OF_FEW_CLASSES: Final = 1000
_NODES: Final = 12
_WORK: Final = 700_000
_WORK_OF_MANY: Final = 200_000
"""Steps that are taken, of two to four microseconds each: no clock, so that a decision can be made again."""

_MANY: Final = 50
"""Pods above which fewer steps are taken: a proof is then rarely reached, and a better plan soon."""

_FIRST_WORK: Final = 30_000
"""Steps before a better plan is sought: many problems are solved by then."""

_MORE_WORK: Final = 100_000
"""Steps after a better plan was sought again."""

_REPACKING: Final = 300_000
"""Steps in which a few machines at a time are packed again."""


def exact_bound(first: Scheduler, left: Mapping[int, int], hourly: float) -> float | None:
    """Return the least that any plan for the same pods costs; None where the problem is too large."""
    placed = placed_counts(first, left)
    pods = sum(placed.values())
    small = pods <= _PODS or (len(placed) <= _CLASSES and pods <= _PODS_OF_FEW_CLASSES)
    if not small or first.nodes.count > _NODES or library() is None:
        return None
    given, supply = pattern_problem(first, placed)
    worth = dual_values(supply).pod
    if first.stop():
        return None
    search = MachineSearch(given, worth, hourly, dual=True)
    work = _WORK if pods <= _MANY else _WORK_OF_MANY
    if any(left.values()) or not may_repack(first) or not is_plain(first, given):
        least, _ = search.run(_FIRST_WORK + work)
    else:
        least = _searched(search, given, solution_of(first, given), work)
    return min(least, hourly)


def _searched(search: MachineSearch, given: PatternProblem, known: Solution | None, work: int) -> float:
    """Return the least that any plan costs; a better plan than the `known` one leaves less to try."""
    least, solved = search.run(_FIRST_WORK)
    for more in (work, _MORE_WORK):
        if least >= search.best * CHEAPER:
            break
        known = solved if solved is not None else known
        if known is not None:
            known = repacked(given, known, _REPACKING)
            search.offer(known)
        least, solved = search.run(search.work + more)
        if solved is None or solved is known:  # there is nothing else to begin with
            break
    return least
