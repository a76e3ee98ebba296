"""Durations as Go writes them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from karpenter.base.duration import (
    DurationError,
    parse_duration,
    parse_duration_or_never,
    parse_nanoseconds,
    parse_switch,
    render_duration,
)

SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        pytest.param("0", 0, id="zero needs no unit"),
        pytest.param("-0", 0, id="nor a sign"),
        pytest.param("0s", 0, id="but may have one"),
        pytest.param("90s", 90 * SECOND, id="seconds"),
        pytest.param("1h30m", 5400 * SECOND, id="parts add"),
        pytest.param("30m1h", 5400 * SECOND, id="in any order"),
        pytest.param("1m1m", 120 * SECOND, id="as often as one likes"),
        pytest.param("1.5h", 5400 * SECOND, id="fractions"),
        pytest.param(".5s", SECOND // 2, id="fractions without a whole"),
        pytest.param("1.s", SECOND, id="a point without a fraction"),
        pytest.param("-1h", -3600 * SECOND, id="negative"),
        pytest.param("+1h", 3600 * SECOND, id="positive, said aloud"),
        pytest.param("250ms", SECOND // 4, id="milliseconds"),
        pytest.param("5us", 5000, id="microseconds"),
        pytest.param("5\u00b5s", 5000, id="with the micro sign"),
        pytest.param("5\u03bcs", 5000, id="with a Greek mu"),
        pytest.param("7ns", 7, id="nanoseconds"),
        pytest.param("1.9ns", 1, id="less than a nanosecond is cut off"),
        pytest.param("2562047h47m16.854775807s", 2**63 - 1, id="the longest there is"),
    ],
)
def test_nanoseconds(text: str, nanoseconds: int) -> None:
    """A duration is numbers with units, read exactly."""
    assert parse_nanoseconds(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        pytest.param("720h", timedelta(days=30), id="hours"),
        pytest.param("1ns", timedelta(microseconds=1), id="a little stays something"),
        pytest.param("-1ns", timedelta(microseconds=-1), id="also below zero"),
    ],
)
def test_as_timedelta(text: str, duration: timedelta) -> None:
    """What is finer than a microsecond rounds away from zero."""
    assert parse_duration(text) == duration


def test_never() -> None:
    """Never is not a duration, and has a function of its own."""
    assert (parse_duration_or_never("Never"), parse_duration_or_never("1s")) == (None, timedelta(seconds=1))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("5", id="a number without a unit"),
        pytest.param("s", id="a unit without a number"),
        pytest.param(".s", id="a point and a unit"),
        pytest.param("1d", id="days"),
        pytest.param("1H", id="capital units"),
        pytest.param("1h 30m", id="a blank"),
        pytest.param("1h-30m", id="a sign in the middle"),
        pytest.param("never", id="a word"),
        pytest.param("\u0661s", id="digits of another script"),
        pytest.param("1s" * 51, id="an endless text"),
        pytest.param(30, id="a bare number"),
        pytest.param(None, id="null"),
    ],
)
def test_refused(text: object) -> None:
    """What is not a duration is refused with one sentence that says what is allowed."""
    with pytest.raises(DurationError, match="is not a duration: expected numbers with units, such as 90s"):
        parse_duration(text)


def test_too_long() -> None:
    """A duration that Go cannot count is refused."""
    with pytest.raises(
        DurationError, match=r"^'2562048h' is too long a duration: expected at most 292 years$"
    ):
        parse_duration("2562048h")


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        pytest.param(timedelta(), "0s", id="nothing"),
        pytest.param(timedelta(seconds=1), "1s", id="seconds"),
        pytest.param(timedelta(seconds=1.5), "1.5s", id="a fraction of a second"),
        pytest.param(timedelta(minutes=2), "2m0s", id="minutes name their seconds"),
        pytest.param(timedelta(days=1), "24h0m0s", id="hours name their minutes"),
        pytest.param(timedelta(milliseconds=250), "250ms", id="milliseconds"),
        pytest.param(timedelta(microseconds=1500), "1.5ms", id="a fraction of a millisecond"),
        pytest.param(timedelta(microseconds=5), "5\u00b5s", id="microseconds"),
        pytest.param(timedelta(hours=-1), "-1h0m0s", id="negative"),
    ],
)
def test_render(duration: timedelta, text: str) -> None:
    """A duration prints as Go prints it."""
    assert render_duration(duration) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", True), ("t", True), ("TRUE", True), ("True", True), ("0", False), ("F", False), ("false", False)],
)
def test_the_spellings_of_go_are_read(text: str, value: bool) -> None:
    """What strconv.ParseBool reads is read."""
    assert parse_switch(text) is value


@pytest.mark.parametrize("text", ["", "yes", "tRUE", "2"])
def test_other_spellings_are_refused(text: str) -> None:
    """The refusal repeats what was written."""
    with pytest.raises(ValueError, match=f"'{text}' is not true or false"):
        parse_switch(text)
