"""
How long one look for machines to disrupt takes: each reason is timed for itself, and has its own time limit.

A reason that takes all of its time leaves the next one's alone. Everything before the first is counted to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.core.disruption.command import DRIFTED, EMPTY, UNDERUTILIZED
from karpenter.telemetry.metrics import disruption

if TYPE_CHECKING:
    from karpenter.base.clock import Clock
    from karpenter.telemetry.metrics import Metrics

LIMIT: Final = 60.0
"""Seconds that looking for one reason may take; what was found by then counts."""

_TYPES: Final = {EMPTY: "empty", DRIFTED: "", UNDERUTILIZED: "multi"}


class Stopwatch:
    """Times one look; asked and told by whoever looks, in whatever thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock.monotonic()
        self._late = False
        self._laps: list[tuple[str, float, bool]] = []

    def is_up(self) -> bool:
        """Whether the time for the present reason is up; once it is, it stays so."""
        self._late = self._late or self._clock.monotonic() - self._since > LIMIT
        return self._late

    def lap(self, reason: str) -> None:
        """Note that a reason was tried, and begin with the time of the next."""
        now = self._clock.monotonic()
        self._laps.append((reason, now - self._since, self._late))
        self._since, self._late = now, False

    def count(self, metrics: Metrics) -> None:
        """Count the reasons that were tried; those that were not reached took no time."""
        for reason, seconds, late in self._laps:
            kind = _TYPES[reason]
            metrics[disruption.EVALUATION_DURATION].observe(
                seconds, reason=reason.lower(), consolidation_type=kind
            )
            if late and reason == UNDERUTILIZED:
                metrics[disruption.CONSOLIDATION_TIMEOUTS].add(consolidation_type=kind)
