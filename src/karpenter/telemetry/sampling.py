"""
How much of the same is written down: the first hundred a second, and every hundredth after that.

A loop that goes wrong says the same thing thousands of times. Lines with the same event and level are counted
per second; nothing else is looked at, so two different events never silence each other.
"""

import logging
from typing import Final

from karpenter.base.clock import Clock

FIRST: Final = 100
THEREAFTER: Final = 100


class Sampler(logging.Filter):
    """Lets the first lines of each second through, and every so-manieth of the rest, per event."""

    def __init__(self, clock: Clock, *, first: int = FIRST, thereafter: int = THEREAFTER) -> None:
        super().__init__()
        self._clock = clock
        self._first = first
        self._thereafter = thereafter
        self._second = -1
        self._seen: dict[tuple[int, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether this line is written."""
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second = second
            self._seen.clear()
        key = (record.levelno, event_of(record))
        number = self._seen[key] = self._seen.get(key, 0) + 1
        return number <= self._first or (number - self._first) % self._thereafter == 0


def event_of(record: logging.LogRecord) -> str:
    """Return what a line is about: the event, or the text before its facts were filled in."""
    if isinstance(record.msg, dict):
        return str(record.msg.get("event", ""))
    return str(record.msg)
