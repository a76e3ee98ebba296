"""
The classic order of consolidation: a prefix of one ranking together, else one machine alone.

Machines are ranked by what they save per cost of emptying them. The longest prefix of that
ranking that can go together, for at most one replacement, is looked for by halving; if there
is none, the first machine that can go alone does. At most a hundred machines are considered
together.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from karpenter.core.disruption.command import Command

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karpenter.core.disruption.budgets import Headroom
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.consolidation import Consolidation

_MOST_TOGETHER: Final = 100


def consolidate(
    candidates: Sequence[Candidate],
    consolidation: Consolidation,
    headroom: Headroom,
    stop: Callable[[], bool],
) -> Command | None:
    """Return the first command that pays."""
    ranked = sorted(candidates, key=lambda c: (-c.worth, c.name))
    return _together(ranked, consolidation, headroom, stop) or _alone(ranked, consolidation, headroom, stop)


def _together(
    ranked: Sequence[Candidate], consolidation: Consolidation, headroom: Headroom, stop: Callable[[], bool]
) -> Command | None:
    allowed = headroom.within(ranked)[:_MOST_TOGETHER]
    best: Command | None = None
    low, high = 1, len(allowed) - 1
    while low <= high and not stop():
        middle = (low + high) // 2
        found = consolidation.decide(allowed[: middle + 1])
        if isinstance(found, Command):
            best, low = found, middle + 1
        else:
            high = middle - 1
    return best


def _alone(
    ranked: Sequence[Candidate], consolidation: Consolidation, headroom: Headroom, stop: Callable[[], bool]
) -> Command | None:
    for candidate in _interleaved(ranked):
        if stop():
            return None
        if headroom.allows(candidate):
            found = consolidation.decide([candidate])
            if isinstance(found, Command):
                return found
    return None


def _interleaved(ranked: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates pool by pool in turn, each pool in its order."""
    pools: dict[str, list[Candidate]] = {}
    for candidate in ranked:
        pools.setdefault(candidate.pool.name, []).append(candidate)
    return [candidate for row in zip_longest(*pools.values()) for candidate in row if candidate is not None]
