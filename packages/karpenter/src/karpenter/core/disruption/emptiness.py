"""
Emptiness: nodes without pods that would run again go first, as many as budgets allow.

A node that holds room for a CapacityBuffer is not empty, and nodes of static NodePools are never removed
for it: :mod:`.deprovisioning` keeps their number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.core.disruption.codes import DisruptionCode
from karpenter.core.disruption.command import EMPTY, Command, Obstacles

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from karpenter.core.disruption.budgets import Headroom
    from karpenter.core.disruption.candidates import Candidate


def remove_empty(
    candidates: Iterable[Candidate], headroom: Headroom, buffered: AbstractSet[str], obstacles: Obstacles
) -> list[Command]:
    """Return the command that removes empty nodes; note those that a budget keeps."""
    ready = [
        each
        for each in candidates
        if each.is_empty and each.is_dynamic and not is_buffered(each, buffered) and not each.quiet
    ]
    # https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/disruption/emptiness.go
    going = headroom.within(sorted(ready, key=lambda each: (-each.worth, each.name)))
    for each in ready:
        obstacles[each.name] = (DisruptionCode.BUDGET, headroom.obstacle(each))
    return [empty_command(going)] if going else []


def is_buffered(candidate: Candidate, buffered: AbstractSet[str]) -> bool:
    """Whether a node, or the claim that it was launched for, holds room for a CapacityBuffer."""
    return candidate.name in buffered or candidate.claim.name in buffered


def empty_command(going: Iterable[Candidate]) -> Command:
    """Return the command that removes some empty nodes."""
    going = tuple(going)
    return Command(
        reason=EMPTY,
        candidates=tuple(each.name for each in going),
        hourly_before=sum(each.price or 0.0 for each in going),
        pods_moved=sum(len(each.pods) for each in going),
    )
