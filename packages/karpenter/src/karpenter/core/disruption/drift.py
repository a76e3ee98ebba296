"""
Drift: nodes that no longer match their NodePool are replaced, one at a time.

The price is not asked. Empty nodes go first, then those that drifted first; one whose pods have no other
place is passed over. Static NodePools are in :mod:`.staticdrift`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from karpenter.core.disruption.codes import DisruptionCode
from karpenter.core.disruption.command import DRIFTED, Command, Obstacle, Obstacles
from karpenter.core.lifecycle.disruption_conditions import drifted_since

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from karpenter.core.disruption.budgets import Headroom
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.simulate import Simulator
    from karpenter.core.scheduling.problem import NewNode

UNREACHED: Final[Obstacle] = (
    DisruptionCode.OUT_OF_TIME,
    "the look at drifted machines ended before its turn; it is among the next",
)
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


def replace_drifted(
    candidates: Sequence[Candidate],
    simulator: Simulator,
    headroom: Headroom,
    obstacles: Obstacles,
    *,
    stop: Callable[[], bool],
    overdue: AbstractSet[str] = frozenset(),
) -> list[Command]:
    """
    Return the command for the first drifted node that can go; note what keeps the others.

    Once `stop` says so, what was not reached is noted as such; `overdue` nodes were not reached before.
    """
    # https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/disruption/drift.go
    allowed = [candidate for candidate in candidates if headroom.allows(candidate)]
    ordered = sorted(allowed, key=lambda each: (each.name not in overdue, drift_order(each)))
    for place, candidate in enumerate(ordered):
        if stop():
            obstacles |= {each.name: UNREACHED for each in ordered[place:]}
            break
        found = simulator.without([candidate], savings=False)
        if found.stranded:
            first = found.stranded[0]
            message = f"pod {first.pod} would have no other place: {first.message}"
            obstacles[candidate.name] = (DisruptionCode.CANNOT_MOVE, message)
            continue
        return [drift_command(candidate, found.replacements, found.moves)]
    return []


def drift_order(candidate: Candidate) -> tuple[bool, datetime, str]:
    """Return where a drifted node stands in the order in which they go: empty ones first, then by age."""
    return bool(candidate.pods), drifted_since(candidate.claim) or _NEVER, candidate.name


def drift_command(
    candidate: Candidate, replacements: tuple[NewNode, ...], moves: Mapping[str, str]
) -> Command:
    return Command(
        reason=DRIFTED,
        candidates=(candidate.name,),
        replacements=replacements,
        moves=moves,
        hourly_before=candidate.price or 0.0,
        hourly_after=sum(node.purchase.price for node in replacements),
        pods_moved=len(candidate.pods),
    )
