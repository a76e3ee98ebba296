"""What goes wrong with calls to AWS at the moment: some share of all, or the next ones of an operation."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Literal

import msgspec

Trouble = Literal["throttled", "error", "failing", "unreachable", "lost", "silent", "deaf", "lost for good"]
"""
Too many calls; an error of AWS's own; the same though it was done; no connection; done with the answer lost;
no answer ever; no answer ever though it was done; done, and the answer is lost however often it is asked for.
"""


class Weather(msgspec.Struct, kw_only=True):
    """What goes wrong with calls."""

    share: float = 0.0
    kinds: tuple[Trouble, ...] = ()
    chance: Random | None = None
    waiting: dict[str, list[Trouble]] = msgspec.field(default_factory=lambda: defaultdict(list))
    """Troubles that wait for calls of an operation."""

    def pick(self, operation: str) -> Trouble | None:
        """Return what goes wrong with a call, if anything does."""
        if self.waiting.get(operation):
            return self.waiting[operation].pop(0)
        if self.chance is None or self.chance.random() >= self.share:
            return None
        return self.chance.choice(self.kinds)

    def calm(self) -> None:
        """Let calls go well from now on."""
        self.chance = None
        self.waiting.clear()
