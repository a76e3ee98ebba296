"""
What led to a violation, told as shortly as it can be.

The script is cut down first; then the shortest life is lived once more with everything written down. Of a
long life only the end is told, and lines that repeat are told once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter_local.simulation.run import play
from karpenter_local.simulation.shrink import shrink

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from karpenter_local.simulation.run import Outcome
    from karpenter_local.simulation.script import Script

LINES: Final = 60


def tell(
    script: Script,
    outcome: Outcome,
    *,
    settings: Mapping[str, str] | None = None,
    tried: Callable[[], None] = lambda: None,
) -> list[str]:
    """Return the story of a life that ended in a violation; `tried` is called for every attempt."""

    def again(shorter: Script) -> Outcome:
        tried()
        return play(shorter, settings=settings)

    first = outcome.violations[0]
    shortest = shrink(script, first.rule, again)
    told = play(shortest, settings=settings, narrate=True)
    lines = list(told.timeline)
    dropped = len(script.steps) - len(shortest.steps)
    header = [
        f"seed {script.seed} violates {first}",
        f"the shortest story has {len(shortest.steps)} of {len(script.steps)} steps"
        + (f" ({dropped} were left out)" if dropped else ""),
    ]
    if len(lines) > LINES:
        steps = [line for line in lines[:-LINES] if _is_step(line)]
        lines = [*steps, f"  ...      {len(lines) - LINES - len(steps)} lines", *lines[-LINES:]]
    minutes, seconds = divmod(told.violations[0].at, 60) if told.violations else (0, 0)
    end = [f"{minutes:4.0f}:{seconds:04.1f}  VIOLATED {each}" for each in told.violations[:5]]
    return [*header, *lines, *end]


def _is_step(line: str) -> bool:
    return line[11:].startswith(("user", "fault"))
