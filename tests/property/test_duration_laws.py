"""Laws of durations."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from karpenter.base.duration import (
    DurationError,
    parse_duration,
    parse_duration_or_never,
    parse_nanoseconds,
    render_duration,
)

UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
parts = st.tuples(st.integers(0, 10**4), st.text("0123456789", max_size=6), st.sampled_from(sorted(UNITS)))
durations = st.timedeltas(timedelta(days=-36500), timedelta(days=36500))


@given(st.lists(parts, min_size=1, max_size=4), st.sampled_from(["", "+", "-"]))
def test_reads_like_the_slow_reader(terms: list[tuple[int, str, str]], sign: str) -> None:
    """A duration is the sum of its parts, each cut off below a nanosecond."""
    text = sign + "".join(f"{whole}.{part}{unit}" for whole, part, unit in terms)
    expected = sum(
        int((whole + Fraction(int(part or "0"), 10 ** len(part))) * UNITS[unit])
        for whole, part, unit in terms
    )

    assert parse_nanoseconds(text) == (-expected if sign == "-" else expected)


@given(durations)
def test_printed_durations_read_back(duration: timedelta) -> None:
    """Printing a duration and relaxation it gives the same duration."""
    assert parse_duration(render_duration(duration)) == duration


garbage = st.one_of(
    st.text(max_size=120),
    st.text("0123456789.nsumh+-", max_size=20),
    st.integers(),
    st.floats(),
    st.none(),
    st.binary(max_size=4),
    st.lists(st.none(), max_size=2),
)


def answer(value: object) -> str:
    """Return what comes of `value`: the duration it reads as, or the sentence that refuses it."""
    try:
        return str(parse_duration_or_never(value))
    except DurationError as error:
        return str(error)


@given(garbage)
def test_garbage_is_read_or_refused(value: object) -> None:
    """Whatever comes in, either a duration or one sentence comes out."""
    assert "\n" not in answer(value)
