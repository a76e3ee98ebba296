"""Cron schedules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from karpenter.base.cron import CronError, parse_cron

FRIDAY = datetime(2026, 1, 2, 10, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("* * * * *", "2026-01-02T10:31", id="every minute"),
        pytest.param("0 9 * * *", "2026-01-03T09:00", id="every morning"),
        pytest.param("*/20 * * * *", "2026-01-02T10:40", id="every twenty minutes"),
        pytest.param("5/20 * * * *", "2026-01-02T10:45", id="every twenty minutes from five past"),
        pytest.param("10-40/15 * * * *", "2026-01-02T10:40", id="steps within a range"),
        pytest.param("0 12,18 * * *", "2026-01-02T12:00", id="a list"),
        pytest.param("0 ,,12, * * *", "2026-01-02T12:00", id="a list with holes"),
        pytest.param("0 9 * * mon-fri", "2026-01-05T09:00", id="weekdays by name"),
        pytest.param("0 9 * * SAT", "2026-01-03T09:00", id="names in capitals"),
        pytest.param("0 9 * * 0", "2026-01-04T09:00", id="Sunday is zero"),
        pytest.param("0 0 1 feb ?", "2026-02-01T00:00", id="months by name, a question mark for any"),
        pytest.param("0 0 29 2 *", "2028-02-29T00:00", id="leap days"),
        pytest.param("0 0 13 * 1", "2026-01-05T00:00", id="day of month or of week"),
        pytest.param("0 0 13 * *", "2026-01-13T00:00", id="only day of month"),
        pytest.param("0 0 */10 * 1", "2026-01-05T00:00", id="a star with a step restricts"),
        pytest.param("0 0 */1 * 2", "2026-01-06T00:00", id="a star with a step of one does not"),
        pytest.param("0 0 30 2 1", "2026-02-02T00:00", id="no such day, but a weekday"),
        pytest.param(" 0\t9  * * * ", "2026-01-03T09:00", id="blanks of any kind"),
        pytest.param("@hourly", "2026-01-02T11:00", id="hourly"),
        pytest.param("@daily", "2026-01-03T00:00", id="daily"),
        pytest.param("@midnight", "2026-01-03T00:00", id="midnight"),
        pytest.param("@weekly", "2026-01-04T00:00", id="weekly"),
        pytest.param("@monthly", "2026-02-01T00:00", id="monthly"),
        pytest.param("@yearly", "2027-01-01T00:00", id="yearly"),
        pytest.param("@annually", "2027-01-01T00:00", id="annually"),
    ],
)
def test_next(text: str, expected: str) -> None:
    """A schedule names the next moment."""
    hit = parse_cron(text).next_after(FRIDAY)

    assert hit is not None
    assert hit.isoformat() == f"{expected}:00+00:00"


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        pytest.param(timedelta(), 60, id="a hit itself is past"),
        pytest.param(timedelta(microseconds=-1), 0, id="just before"),
        pytest.param(timedelta(microseconds=1), 60, id="just after"),
    ],
)
def test_next_is_strictly_after(offset: timedelta, expected: int) -> None:
    """The next moment is never the one that was asked about."""
    assert parse_cron("* * * * *").next_after(FRIDAY + offset) == FRIDAY + timedelta(seconds=expected)


def test_other_time_zones_are_read_as_utc() -> None:
    """A schedule is in UTC, whatever the zone of the moment."""
    berlin = FRIDAY.astimezone(timezone(timedelta(hours=1)))

    assert parse_cron("0 11 * * *").next_after(berlin) == FRIDAY.replace(hour=11, minute=0)


def test_the_calendar_ends() -> None:
    """After the last moment there is nothing."""
    assert parse_cron("@yearly").next_after(datetime(9999, 6, 1, tzinfo=UTC)) is None


def test_equal_schedules_print_as_written() -> None:
    """A schedule prints as its author wrote it."""
    assert str(parse_cron("@daily")) == "@daily"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("", "'' is not a schedule: expected five fields", id="nothing"),
        pytest.param("0 9 * *", "is not a schedule: expected five fields", id="four fields"),
        pytest.param("0 0 9 * * *", "is not a schedule: expected five fields", id="seconds"),
        pytest.param("@every 1h", "is not a schedule", id="every"),
        pytest.param("@reboot", "is not a schedule", id="reboot"),
        pytest.param("@Daily", "or one of @yearly", id="a name in capitals"),
        pytest.param("TZ=Europe/Berlin 0 9 * * *", "is not a schedule", id="a time zone"),
        pytest.param("* " * 600, "is not a schedule", id="an endless text"),
        pytest.param(None, "null is not a schedule", id="null"),
        pytest.param(5, "5 is not a schedule", id="a number"),
        pytest.param("60 * * * *", "minute '60' is not understood: expected 0 to 59, as", id="minute 60"),
        pytest.param("* 24 * * *", "hour '24' is not understood: expected 0 to 23", id="hour 24"),
        pytest.param("* * 0 * *", "day of month '0' is not understood: expected 1 to 31", id="day 0"),
        pytest.param(
            "* * * 13 *", "month '13' is not understood: expected 1 to 12 or jan to dec", id="month 13"
        ),
        pytest.param(
            "* * * * 7", "day of week '7' is not understood: expected 0 to 6 or sun to sat", id="Sunday as 7"
        ),
        pytest.param("* * L * *", "day of month 'L' is not understood", id="last day"),
        pytest.param("* * * * 1#1", "day of week '1#1' is not understood", id="first Monday"),
        pytest.param("* * * * monday", "day of week 'monday' is not understood", id="long names"),
        pytest.param("5-1 * * * *", "minute '5-1' is not understood", id="a range backwards"),
        pytest.param("1-2-3 * * * *", "minute '1-2-3' is not understood", id="a range of three"),
        pytest.param("- * * * *", "minute '-' is not understood", id="a dash"),
        pytest.param("*/0 * * * *", r"minute '\*/0' is not understood", id="a step of zero"),
        pytest.param("*/ * * * *", r"minute '\*/' is not understood", id="no step"),
        pytest.param("*/2/2 * * * *", r"minute '\*/2/2' is not understood", id="two steps"),
        pytest.param("*-5 * * * *", r"minute '\*-5' is not understood", id="a star in a range"),
        pytest.param("+5 * * * *", r"minute '\+5' is not understood", id="a sign"),
        pytest.param("\u0661 * * * *", "minute '\u0661' is not understood", id="digits of another script"),
        pytest.param(f"{'1' * 99} * * * *", "minute '1+'... is not understood", id="an endless number"),
        pytest.param(", * * * *", "minute ',' is not understood", id="an empty list"),
        pytest.param(
            "0 0 30 2 *", "'0 0 30 2 *' never comes: expected a day that one of its months has", id="never"
        ),
    ],
)
def test_refused(text: object, sentence: str) -> None:
    """What is not a schedule is refused with one sentence that names the field and what is allowed."""
    with pytest.raises(CronError) as refusal:
        parse_cron(text)

    refusal.match(sentence if "\\" in sentence or "1+" in sentence else sentence.replace("*", r"\*"))
