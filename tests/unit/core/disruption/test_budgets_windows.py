"""When windows are open."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from karpenter.core.disruption.budgets import WindowError, parse_window

DAY = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday


@pytest.mark.parametrize(
    ("schedule", "duration", "clock", "expected"),
    [
        pytest.param("0 9 * * *", "8h", "08:59:59", False, id="before it opens"),
        pytest.param("0 9 * * *", "8h", "09:00:00", True, id="the moment it opens"),
        pytest.param("0 9 * * *", "8h", "10:00:00", True, id="in the middle"),
        pytest.param("0 9 * * *", "8h", "16:59:59", True, id="the last second"),
        pytest.param("0 9 * * *", "8h", "17:00:00", False, id="the moment it closes"),
        pytest.param("0 22 * * *", "4h", "01:00:00", True, id="over midnight"),
        pytest.param("0 9 * * sun", "48h", "08:00:00", True, id="since yesterday"),
        pytest.param("@hourly", "90m", "23:59:59", True, id="openings that overlap never close"),
        pytest.param("@hourly", "1h", "12:00:00", True, id="openings that touch never close"),
        pytest.param("0 9 * * *", "0s", "09:00:00", False, id="no duration never opens"),
        pytest.param("@yearly", "8760h", "12:00:00", True, id="all year long"),
    ],
)
def test_open(schedule: str, duration: str, clock: str, expected: bool) -> None:
    """A window is open from each moment of its schedule until just before its duration has passed."""
    now = datetime.fromisoformat(f"{DAY.date()}T{clock}+00:00")

    assert parse_window(schedule, duration).is_open(now) is expected


def test_other_time_zones_are_read_as_utc() -> None:
    """Windows open in UTC, whatever the zone of the clock."""
    tokyo = DAY.replace(hour=9).astimezone(timezone(timedelta(hours=9)))

    assert parse_window("0 9 * * *", "1h").is_open(tokyo)


def test_the_edges_of_the_calendar() -> None:
    """Nothing breaks where the calendar begins or ends."""
    window = parse_window("@yearly", "1000000h")

    assert (
        window.is_open(datetime.min.replace(tzinfo=UTC)),
        parse_window("@yearly", "1h").is_open(datetime(9999, 6, 1, tzinfo=UTC)),
    ) == (False, False)


def test_text() -> None:
    """A window says itself."""
    assert str(parse_window("0 9 * * *", "8h")) == "8h0m0s from 0 9 * * *"


@pytest.mark.parametrize(
    ("schedule", "duration", "sentence"),
    [
        pytest.param(None, "8h", "a duration without a schedule: expected both or neither", id="no schedule"),
        pytest.param(
            "@daily", None, "a schedule without a duration: expected both or neither", id="no duration"
        ),
        pytest.param("daily", "8h", "'daily' is not a schedule: expected five fields", id="schedule"),
        pytest.param("@daily", "8", "'8' is not a duration: expected numbers with units", id="duration"),
        pytest.param("@daily", "-8h", "duration -8h0m0s is negative: expected zero or more", id="negative"),
    ],
)
def test_refused(schedule: str | None, duration: str | None, sentence: str) -> None:
    """A window that cannot be meant is refused with one sentence."""
    with pytest.raises(WindowError, match=f"^{sentence}"):
        parse_window(schedule, duration)
