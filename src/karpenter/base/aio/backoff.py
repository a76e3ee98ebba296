"""
How long to wait before trying again.

A value with one question. Chance is an argument: whoever wants jitter passes a seeded ``random.Random``, so
that a simulation repeats itself. Who counts the failures, and what a failure is, is not known here.
"""

from random import Random

import msgspec

_MAX_DOUBLINGS = 64  # past any cap a caller could mean; keeps the power finite


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Waits that grow by `factor` from `first` up to `cap`, each stretched by up to `jitter` of itself."""

    first: float
    cap: float
    factor: float = 2.0
    jitter: float = 0.0

    def delay(self, failures: int, chance: Random | None = None) -> float:
        """Return the wait after `failures` in a row; the first failure waits `first`.

        Jitter only ever lengthens the wait, and may pass the cap by its share.
        """
        steps = min(max(failures - 1, 0), _MAX_DOUBLINGS)
        wait = min(self.first * self.factor**steps, self.cap)
        if chance is None:
            return wait
        return wait * (1 + self.jitter * chance.random())
