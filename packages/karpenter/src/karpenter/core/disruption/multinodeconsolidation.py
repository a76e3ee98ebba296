"""
Multi-node consolidation: the longest prefix of one ranking that can go together, for at most one
replacement.

Nodes are ranked by what they save per cost of emptying them, and the prefix is found by binary search over
at most a hundred of them. :func:`consolidate_classic` is Karpenter's order: this first, else one node
alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.core.disruption.command import Command
from karpenter.core.disruption.singlenodeconsolidation import consolidate_one

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karpenter.core.disruption.budgets import Headroom
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.consolidation import Consolidation

# The binary search simulates about seven times for a hundred candidates, which fits into its minute:
# https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/disruption/multinodeconsolidation.go
_MOST_TOGETHER: Final = 100


def consolidate_classic(
    candidates: Sequence[Candidate],
    consolidation: Consolidation,
    headroom: Headroom,
    stop: Callable[[], bool],
) -> Command | None:
    """Return the first command that pays: for several nodes together, else for one alone."""
    ranked = sorted(candidates, key=lambda each: (-each.worth, each.name))
    several = consolidate_several(ranked, consolidation, headroom, stop)
    return several or consolidate_one(ranked, consolidation, headroom, stop)


def consolidate_several(
    ranked: Sequence[Candidate], consolidation: Consolidation, headroom: Headroom, stop: Callable[[], bool]
) -> Command | None:
    """Return the command for the longest prefix of a ranking that pays together."""
    allowed = headroom.within(ranked)[:_MOST_TOGETHER]
    best: Command | None = None
    # One node alone is left to single-node consolidation.
    low, high = 1, len(allowed) - 1
    while low <= high and not stop():
        middle = (low + high) // 2
        found = consolidation.decide(allowed[: middle + 1])
        if isinstance(found, Command):
            best, low = found, middle + 1
        else:
            high = middle - 1
    return best
