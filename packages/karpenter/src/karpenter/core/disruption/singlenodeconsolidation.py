"""
Single-node consolidation: the first node that can go alone, for at most one replacement.

NodePools take turns, each in the order of its ranking, so that a large NodePool does not keep the others
from being looked at within the time limit.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from karpenter.core.disruption.command import Command

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karpenter.core.disruption.budgets import Headroom
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.consolidation import Consolidation


def consolidate_one(
    ranked: Sequence[Candidate], consolidation: Consolidation, headroom: Headroom, stop: Callable[[], bool]
) -> Command | None:
    """Return the first command for one node that pays."""
    # https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/disruption/singlenodeconsolidation.go
    for candidate in _interleaved(ranked):
        if stop():
            return None
        if headroom.allows(candidate):
            found = consolidation.decide([candidate])
            if isinstance(found, Command):
                return found
    return None


def _interleaved(ranked: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates NodePool by NodePool in turn, each in its order."""
    pools: dict[str, list[Candidate]] = {}
    for candidate in ranked:
        pools.setdefault(candidate.pool.name, []).append(candidate)
    return [candidate for row in zip_longest(*pools.values()) for candidate in row if candidate is not None]
