"""
Cron schedules: five fields or a name such as ``@daily``, always in UTC.

The grammar is the narrow one that NodePools have always had: numbers, ranges, lists and
steps, names of months and weekdays, ``*`` and ``?``. What other crons add (seconds, ``L``,
``#``, Sunday as 7, ``@every``) is refused rather than guessed at. When both the day of
the month and the day of the week are restricted, either is enough; a day field counts as
restricted unless it is a star, with no step or a step of one.

Everything is written out before the library behind this sees it, so that its own reading
of the same signs cannot differ. A schedule that never comes, like 30 February, is refused.

Pure: the moment is an argument.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
from cronsim import CronSim, CronSimError

from karpenter.base.pretty import excerpt

# The macros that robfig/cron knows, by which Karpenter reads schedules of budgets:
# https://pkg.go.dev/github.com/robfig/cron/v3#hdr-Predefined_schedules
_NAMED: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_LONGEST_TEXT: Final = 1000
_LONGEST_NUMBER: Final = 9


class CronError(ValueError):
    """The value is not a schedule; the message is one sentence that names the field and what is allowed."""


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field(
        "month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
    ),
    _Field("day of week", 0, 6, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)


class Schedule(msgspec.Struct, frozen=True):
    """Moments that come again and again, to the minute."""

    text: str
    """As it was written."""

    written_out: str
    """Five fields of stars and plain lists of numbers."""

    def next_after(self, moment: datetime) -> datetime | None:
        """
        Return the first moment of the schedule strictly after `moment`, in UTC.

        None where the calendar ends first (in the year 9999).
        """
        try:
            return next(CronSim(self.written_out, moment.astimezone(UTC)))
        except OverflowError:
            return None

    def __str__(self) -> str:
        return self.text


def parse_cron(text: object) -> Schedule:
    """
    Return the schedule that `text` stands for.

    Raises:
        CronError: naming the field, the value, and what is allowed.
    """
    if not isinstance(text, str) or len(text) > _LONGEST_TEXT:
        raise CronError(f"{excerpt(text)} is not a schedule: {_EXPECTED}")
    return _parse_text(text)


_EXPECTED: Final = (
    "expected five fields (minute, hour, day of month, month, day of week) or one of " + ", ".join(_NAMED)
)


@lru_cache(maxsize=1024)
def _parse_text(text: str) -> Schedule:
    parts = _NAMED.get(text.strip(), text).split()
    if len(parts) != len(_FIELDS):
        raise CronError(f"{excerpt(text)} is not a schedule: {_EXPECTED}")
    written_out = " ".join(_write_out(field, part) for field, part in zip(_FIELDS, parts, strict=True))
    try:
        CronSim(written_out, datetime.min)  # noqa: DTZ901  only looked at, never compared
    except CronSimError:
        raise CronError(f"{excerpt(text)} never comes: expected a day that one of its months has") from None
    return Schedule(text, written_out)


def _write_out(field: _Field, text: str) -> str:
    """Return a star, or every number of the field as a list."""
    terms = [_parse_term(field, term) for term in text.split(",") if term]
    if not terms:
        raise _refuse(field, text)
    if None in terms:
        return "*"
    return ",".join(map(str, sorted({number for term in terms if term is not None for number in term})))


def _parse_term(field: _Field, text: str) -> range | None:
    span, slash, step_text = text.partition("/")
    step = _parse_number(step_text) if slash else 1
    if not step:
        raise _refuse(field, text)
    if span in {"*", "?"}:
        return range(field.low, field.high + 1, step) if step > 1 else None
    low_text, dash, high_text = span.partition("-")
    low = _parse_value(field, low_text)
    open_end = field.high if slash else low
    high = _parse_value(field, high_text) if dash else open_end
    if low is None or high is None or not field.low <= low <= high <= field.high:
        raise _refuse(field, text)
    return range(low, high + 1, step)


def _parse_value(field: _Field, text: str) -> int | None:
    lowered = text.lower()
    if lowered in field.names:
        return field.names.index(lowered) + field.low
    return _parse_number(text)


def _parse_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER else None


def _refuse(field: _Field, text: str) -> CronError:
    names = f" or {field.names[0]} to {field.names[-1]}" if field.names else ""
    return CronError(
        f"{field.name} {excerpt(text)} is not understood: expected {field.low} to {field.high}{names},"
        " as numbers, ranges (1-5), lists (1,3), steps (*/2) or *"
    )
