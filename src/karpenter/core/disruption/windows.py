"""
When a budget is open: a schedule that opens it, and how long it stays so.

A window is open from each moment of its schedule, that moment included, until its
duration has passed, that moment excluded. Openings that overlap run into one another.

Pure: ``now`` is an argument. The grammar of schedules is in :mod:`karpenter.base.cron`,
what an open budget allows in :mod:`.budgets`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from karpenter.base.cron import Schedule, parse_cron
from karpenter.base.duration import parse_duration, render_duration


class WindowError(ValueError):
    """The window cannot be meant; the message is one sentence that says why."""


class Window(msgspec.Struct, frozen=True):
    """Times that come again and again, and how long each lasts."""

    schedule: Schedule
    duration: timedelta

    def is_open(self, now: datetime) -> bool:
        """Say whether an opening has begun and not yet ended."""
        try:
            since = now.astimezone(UTC) - self.duration
        except OverflowError:
            since = datetime.min.replace(tzinfo=UTC)
        hit = self.schedule.next_after(since)
        return hit is not None and hit <= now

    def __str__(self) -> str:
        """Return the window as an operator would say it."""
        return f"{render_duration(self.duration)} from {self.schedule}"


def parse_window(schedule: object, duration: object) -> Window:
    """
    Return the window of a schedule and a duration.

    Raises:
        WindowError: if one is missing, is not understood, or the duration is negative.
    """
    if schedule is None:
        raise WindowError("a duration without a schedule: expected both or neither")
    if duration is None:
        raise WindowError("a schedule without a duration: expected both or neither")
    try:
        opens, lasts = parse_cron(schedule), parse_duration(duration)
    except ValueError as error:
        raise WindowError(str(error)) from None
    if lasts < timedelta():
        raise WindowError(f"duration {render_duration(lasts)} is negative: expected zero or more")
    return Window(opens, lasts)
