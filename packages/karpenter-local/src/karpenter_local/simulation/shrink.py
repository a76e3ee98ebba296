"""
Cutting a script down to what matters: whatever can be left out and still ends in the same violation, is.

First whole halves are tried, then quarters, down to single steps; mishaps go before wishes, because a story
with fewer mishaps says more. Every attempt is a life of its own, so attempts are limited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter_local.simulation.faults import Mishap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karpenter_local.simulation.run import Outcome
    from karpenter_local.simulation.script import Script, Step

ATTEMPTS: Final = 60


def shrink(
    script: Script, rule: str, play: Callable[[Script], Outcome], *, attempts: int = ATTEMPTS
) -> Script:
    """Return the shortest script found that still violates `rule`."""
    left = [attempts]

    def fails(shorter: Script) -> bool:
        left[0] -= 1
        return any(each.rule == rule for each in play(shorter).violations)

    for droppable in (_mishaps, _wishes):
        size = max(1, len(droppable(script)) // 2)
        while left[0] > 0 and droppable(script):
            shorter = _without_some(script, droppable(script), size, fails, left)
            if shorter is None and size == 1:
                break
            if shorter is None:
                size = max(1, size // 2)
            else:
                script = shorter
                size = max(1, min(size, len(droppable(script)) // 2))
    return script


def _without_some(
    script: Script, steps: Sequence[Step], size: int, fails: Callable[[Script], bool], left: list[int]
) -> Script | None:
    """Return the script without some run of so many steps, if it still fails."""
    for start in range(0, len(steps), size):
        if left[0] <= 0:
            return None
        shorter = script.without(steps[start : start + size])
        if fails(shorter):
            return shorter
    return None


def _mishaps(script: Script) -> list[Step]:
    return [step for step in script.steps if isinstance(step, Mishap)]


def _wishes(script: Script) -> list[Step]:
    return [step for step in script.steps if not isinstance(step, Mishap) and not step.kept]
