"""Nothing spins: however busy a small cluster is, it does not write thousands of times a second."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from karpenter_local.simulation.invariants.rule import Rule

if TYPE_CHECKING:
    from karpenter.kube.transport import Request, Response
    from karpenter_local.simulation.invariants.rule import Ledger
    from karpenter_local.simulation.world import World

_WINDOW: Final = 10.0
_MANY: Final = 300
"""Writes to one object within the window that nothing sensible needs."""


class Pace(Rule):
    """The operator does not write to the same object over and over."""

    name = "pace"

    def __init__(self, world: World, ledger: Ledger) -> None:
        super().__init__(world, ledger)
        self._since = 0.0
        self._writes: Counter[str] = Counter()

    def called(self, request: Request, response: Response) -> None:
        """Count what the operator writes; what is new each time, such as events, does not count."""
        del response
        if request.method == "POST" or self.world.is_contested:
            return
        now = self.world.clock.monotonic()
        if now - self._since > _WINDOW:
            self._since = now
            self._writes.clear()
        which = f"{request.method} {request.path}"
        self._writes[which] += 1
        if self._writes[which] == _MANY:
            self.violated(f"{which} was sent {_MANY} times within {now - self._since:.1f} s")
