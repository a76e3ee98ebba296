"""Schedules against a calendar that is walked minute by minute, and laws of windows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from karpenter.base.cron import CronError, Schedule, parse_cron
from karpenter.core.disruption.budgets import BudgetWindow

RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
START = datetime(2026, 2, 20, tzinfo=UTC)
moments = st.datetimes(datetime(2026, 1, 1), datetime(2028, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001  zone beside


@st.composite
def terms(draw: st.DrawFn, low: int, high: int) -> tuple[str, frozenset[int], bool]:
    """Return the text of one term, its numbers, and whether it is a plain star."""
    step = draw(st.integers(1, 40))
    first = draw(st.integers(low, high))
    last = draw(st.integers(first, high))
    text, numbers, star = draw(
        st.sampled_from(
            [
                ("*", range(low, high + 1), True),
                ("?", range(low, high + 1), True),
                (f"*/{step}", range(low, high + 1, step), step == 1),
                (f"{first}", range(first, first + 1), False),
                (f"{first}/{step}", range(first, high + 1, step), False),
                (f"{first}-{last}", range(first, last + 1), False),
                (f"{first}-{last}/{step}", range(first, last + 1, step), False),
            ]
        )
    )
    return text, frozenset(numbers), star


@st.composite
def fields(draw: st.DrawFn, low: int, high: int) -> tuple[str, frozenset[int], bool]:
    """Return the text of one field, its numbers, and whether it has a plain star."""
    drawn = draw(st.lists(terms(low, high), min_size=1, max_size=3))
    numbers = frozenset[int]().union(*(term[1] for term in drawn))
    return ",".join(term[0] for term in drawn), numbers, any(term[2] for term in drawn)


schedules = st.tuples(*(fields(low, high) for low, high in RANGES))


def matches(schedule: tuple[tuple[str, frozenset[int], bool], ...], moment: datetime) -> bool:
    minute, hour, day, month, weekday = (field[1] for field in schedule)
    by_day, by_weekday = moment.day in day, moment.isoweekday() % 7 in weekday
    days_agree = (by_day and by_weekday) if schedule[2][2] or schedule[4][2] else (by_day or by_weekday)
    return moment.minute in minute and moment.hour in hour and moment.month in month and days_agree


@given(schedules, moments)
def test_next_is_a_hit_with_none_in_between(
    schedule: tuple[tuple[str, frozenset[int], bool], ...], moment: datetime
) -> None:
    """The next moment is on the schedule, later than asked, and no minute of the day before it is."""
    try:
        hit = parse_cron(" ".join(field[0] for field in schedule)).next_after(moment)
    except CronError as error:
        assert "never comes" in str(error)  # noqa: PT017  the law allows one refusal, and names it
        return
    assert hit is not None
    assert hit > moment
    assert matches(schedule, hit)
    before = max(hit - timedelta(days=1), moment + timedelta(minutes=1)).replace(second=0, microsecond=0)
    while before < hit:
        assert not matches(schedule, before)
        before += timedelta(minutes=1)


@given(
    st.sampled_from(["*/37 * * * *", "@hourly", "@daily", "30 6,18 * * mon-fri", "0 0 1,15 * 3"]),
    st.timedeltas(timedelta(), timedelta(days=2)),
    st.timedeltas(timedelta(), timedelta(days=20)),
)
def test_windows_are_half_open(text: str, duration: timedelta, offset: timedelta) -> None:
    """A window is open exactly when a moment of its schedule lies in (now - duration, now]."""
    schedule = parse_cron(text)
    now = START + offset
    begun = [hit for hit in hits_between(schedule, now - timedelta(days=3), now) if now - hit < duration]

    assert BudgetWindow(schedule, duration).is_open(now) == bool(begun)


def hits_between(schedule: Schedule, start: datetime, end: datetime) -> list[datetime]:
    """Return every moment of the schedule after `start` and until `end`."""
    hits = []
    hit = schedule.next_after(start)
    while hit is not None and hit <= end:
        hits.append(hit)
        hit = schedule.next_after(hit)
    return hits


garbage = st.one_of(
    st.text(max_size=60),
    st.text("0123456789*/,-? LW#@monjadilyn", max_size=30),
    st.lists(st.text("0123456789*/,-?", min_size=1, max_size=6), min_size=5, max_size=5).map(" ".join),
    st.integers(),
    st.none(),
    st.lists(st.none(), max_size=2),
)


def answer(value: object) -> str:
    """Return what comes of `value`: the schedule it reads as, or the sentence that refuses it."""
    try:
        return str(parse_cron(value).next_after(START))
    except CronError as error:
        return str(error)


@given(garbage)
def test_garbage_is_read_or_refused(value: object) -> None:
    """Whatever comes in, either a schedule or one sentence comes out."""
    assert "\n" not in answer(value)
