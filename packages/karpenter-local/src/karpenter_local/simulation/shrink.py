"""
Shrinks a scenario: whatever can be left out while the same invariant is still violated, is.

First whole halves are tried, then quarters, down to single steps; faults go before actions, because a
violation that needs fewer faults says more. Every attempt is a run of its own, so attempts are limited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter_local.simulation.faults import InjectedFault

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karpenter_local.simulation.run import RunResult
    from karpenter_local.simulation.scenario import Scenario, Step

ATTEMPTS: Final = 60


def shrink(
    scenario: Scenario, rule: str, run: Callable[[Scenario], RunResult], *, attempts: int = ATTEMPTS
) -> Scenario:
    """Return the shortest scenario found that still violates `rule`."""
    left = [attempts]

    def fails(shorter: Scenario) -> bool:
        left[0] -= 1
        return any(each.rule == rule for each in run(shorter).violations)

    for droppable in (_faults, _actions):
        size = max(1, len(droppable(scenario)) // 2)
        while left[0] > 0 and droppable(scenario):
            shorter = _without_some(scenario, droppable(scenario), size, fails, left)
            if shorter is None and size == 1:
                break
            if shorter is None:
                size = max(1, size // 2)
            else:
                scenario = shorter
                size = max(1, min(size, len(droppable(scenario)) // 2))
    return scenario


def _without_some(
    scenario: Scenario, steps: Sequence[Step], size: int, fails: Callable[[Scenario], bool], left: list[int]
) -> Scenario | None:
    for start in range(0, len(steps), size):
        if left[0] <= 0:
            return None
        shorter = scenario.without(steps[start : start + size])
        if fails(shorter):
            return shorter
    return None


def _faults(scenario: Scenario) -> list[Step]:
    return [step for step in scenario.steps if isinstance(step, InjectedFault)]


def _actions(scenario: Scenario) -> list[Step]:
    return [step for step in scenario.steps if not isinstance(step, InjectedFault) and not step.kept]
