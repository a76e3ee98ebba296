"""
Durations as Go writes them: ``90s``, ``1h30m``, ``1.5h``, ``-250ms``; and the word ``Never``.

Read exactly, in nanoseconds. As a :class:`~datetime.timedelta`, which knows nothing finer
than a microsecond, the rest rounds away from zero, so that a positive duration stays one.

Which durations a field allows is not known here: a field that forbids fractions, signs or
seconds says so in its own schema.

Truth values are read as Go's flags and environment variables spell them, too.
"""

from __future__ import annotations

import re
from datetime import timedelta
from functools import lru_cache
from typing import Final

from karpenter.base.pretty import excerpt

NEVER: Final = "Never"
"""Stands for a duration that does not end."""

_MICROSECOND: Final = 10**3
_MILLISECOND: Final = 10**6
_SECOND: Final = 10**9
# The grammar of Go's time.ParseDuration: https://pkg.go.dev/time#ParseDuration
_UNITS: Final = {
    "ns": 1,
    "us": _MICROSECOND,
    "\u00b5s": _MICROSECOND,  # the micro sign
    "\u03bcs": _MICROSECOND,  # the Greek letter mu
    "ms": _MILLISECOND,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_MAX_NANOSECONDS: Final = 2**63 - 1  # what Go can count: 292 years
_LONGEST_TEXT: Final = 100
_NUMBER: Final = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_UNIT: Final = "|".join(_UNITS)
_GRAMMAR: Final = re.compile(rf"[+-]?(?:0|(?:{_NUMBER}(?:{_UNIT}))+)")
_PART: Final = re.compile(rf"([0-9]*)\.?([0-9]*)({_UNIT})")
# What Go's strconv.ParseBool takes, and nothing else: https://pkg.go.dev/strconv#ParseBool
_ON: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_OFF: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})


class DurationError(ValueError):
    """The value is not a duration; the message is one sentence that names it."""


def parse_duration(text: object) -> timedelta:
    """
    Return the duration that `text` stands for.

    Raises:
        DurationError: if it is none, or longer than 292 years.
    """
    nanoseconds = parse_nanoseconds(text)
    microseconds = -(-abs(nanoseconds) // _MICROSECOND)
    return timedelta(microseconds=microseconds if nanoseconds >= 0 else -microseconds)


def parse_duration_or_never(text: object) -> timedelta | None:
    """
    Return the duration that `text` stands for, or None for ``Never``.

    Raises:
        DurationError: if it is neither, or longer than 292 years.
    """
    return None if text == NEVER else parse_duration(text)


def parse_nanoseconds(text: object) -> int:
    """
    Return the nanoseconds in the duration that `text` stands for.

    Raises:
        DurationError: if it is none, or longer than 292 years.
    """
    if not isinstance(text, str):
        raise _refuse(text)
    return _parse_text(text)


@lru_cache(maxsize=1024)
def _parse_text(text: str) -> int:
    if len(text) > _LONGEST_TEXT or not _GRAMMAR.fullmatch(text):
        raise _refuse(text)
    total = 0
    for whole, part, unit in _PART.findall(text):
        size = _UNITS[unit]
        total += int(whole or 0) * size + int(part or 0) * size // 10 ** len(part)
    if total > _MAX_NANOSECONDS:
        raise DurationError(f"{excerpt(text)} is too long a duration: expected at most 292 years")
    return -total if text.startswith("-") else total


def _refuse(text: object) -> DurationError:
    return DurationError(
        f"{excerpt(text)} is not a duration: expected numbers with units, such as 90s, 1h30m or 250ms"
    )


def render_duration(duration: timedelta) -> str:
    """Return the text that Go prints: ``1h30m0s``, ``1.5s``, ``250ms``, ``0s``."""
    microseconds = duration // timedelta(microseconds=1)
    sign = "-" if microseconds < 0 else ""
    seconds, fraction = divmod(abs(microseconds), 10**6)
    if seconds == 0:
        return f"{sign}{_render_fraction(fraction)}"
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(seconds * 10**6 + fraction, 6)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else f"{sign}{text}"


def _render_fraction(microseconds: int) -> str:
    if microseconds == 0:
        return "0s"
    if microseconds < _MICROSECOND:
        return f"{microseconds}\u00b5s"
    return f"{_decimal(microseconds, 3)}ms"


def _decimal(number: int, places: int) -> str:
    """Return number / 10^places without trailing zeros."""
    whole, part = divmod(number, 10**places)
    return f"{whole}.{part:0{places}d}".rstrip("0").rstrip(".") if part else str(whole)


def parse_switch(text: str) -> bool:
    """
    Return the truth value that a text stands for.

    The spellings are those of https://pkg.go.dev/strconv#ParseBool

    Raises:
        ValueError: it stands for none.
    """
    if text in _ON or text in _OFF:
        return text in _ON
    raise ValueError(f"{text!r} is not true or false")
