"""
Explains a violation with the shortest scenario that leads to it.

The scenario is shrunk first; then the shortest one is run once more with a timeline. Of a long run only the
end is shown, and lines that repeat are shown once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter_local.simulation.run import RunResult, run_scenario
from karpenter_local.simulation.shrink import shrink

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from karpenter_local.simulation.scenario import Scenario

LINES: Final = 60


def explain(
    scenario: Scenario,
    result: RunResult,
    *,
    settings: Mapping[str, str] | None = None,
    tried: Callable[[], None] = lambda: None,
) -> list[str]:
    """Return the lines that explain the violation of a run; `tried` is called for every attempt."""

    def again(shorter: Scenario) -> RunResult:
        tried()
        return run_scenario(shorter, settings=settings)

    first = result.violations[0]
    shortest = shrink(scenario, first.rule, again)
    shown = run_scenario(shortest, settings=settings, timeline=True)
    lines = list(shown.timeline)
    dropped = len(scenario.steps) - len(shortest.steps)
    header = [
        f"seed {scenario.seed} violates {first}",
        f"the shortest scenario has {len(shortest.steps)} of {len(scenario.steps)} steps"
        + (f" ({dropped} were left out)" if dropped else ""),
    ]
    if len(lines) > LINES:
        steps = [line for line in lines[:-LINES] if line[11:].startswith(("user", "fault"))]
        lines = [*steps, f"  ...      {len(lines) - LINES - len(steps)} lines", *lines[-LINES:]]
    minutes, seconds = divmod(shown.violations[0].at, 60) if shown.violations else (0, 0)
    end = [f"{minutes:4.0f}:{seconds:04.1f}  VIOLATED {each}" for each in shown.violations[:5]]
    return [*header, *lines, *end]
