"""
How long savings last: learned from when machines had to be bought again.

Where load comes and goes with the day, room that is given up in the evening is bought back in
the morning, and many of the pods that are moved for it would soon have left by themselves. There a saving
is worth less than where nothing ever comes back. So the life of a saving is observed: it ends when its
pool buys machines for pods that wait. Savings that still last count for as long as they have lasted.

Nothing is concluded from a few of them: until enough have ended, a saving is taken to last.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

LASTING: Final = timedelta(days=20)
"""How long a saving is taken to last where nothing else is known, and at most."""

SHORTEST: Final = timedelta(hours=8)
"""The least that a saving is taken to last: load that follows the day comes back after about as long."""

_ENOUGH: Final = 5
"""So many savings must have ended before anything is learned."""

_MEMORY: Final = timedelta(days=2)


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """A saving in a pool, from when it was made until the pool grew again."""

    pool: str
    since: datetime
    until: datetime | None = None
    """None while it lasts."""

    def lasted(self, now: datetime) -> timedelta:
        """Return for how long it has lasted by now."""
        return (self.until or now) - self.since


Lives = tuple[Life, ...]


def saved(lives: Lives, pools: Iterable[str], now: datetime) -> Lives:
    """Return what is known once something was saved in some pools."""
    recent = (each for each in lives if now - each.since < _MEMORY)
    return (*recent, *(Life(pool=pool, since=now) for pool in sorted(set(pools))))


def grown(lives: Lives, pools: AbstractSet[str], now: datetime) -> Lives:
    """Return what is known once some pools have bought machines for pods that wait."""
    return tuple(
        msgspec.structs.replace(each, until=now) if each.until is None and each.pool in pools else each
        for each in lives
    )


def expected_lives(lives: Lives, now: datetime) -> dict[str, timedelta]:
    """Return how long a saving is expected to last, by pool, where that has been learned."""
    found = {}
    for pool in sorted({each.pool for each in lives}):
        mine = [each for each in lives if each.pool == pool]
        ended = sum(each.until is not None for each in mine)
        if ended >= _ENOUGH:
            whole = sum((each.lasted(now) for each in mine), timedelta())
            found[pool] = min(max(whole / ended, SHORTEST), LASTING)
    return found
