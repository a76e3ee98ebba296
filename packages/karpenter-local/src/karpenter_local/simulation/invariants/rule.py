"""What a rule is, and where violations are written down."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.base.clock import Clock
    from karpenter.kube.transport import Request, Response
    from karpenter_local.simulation.mirror import Wrote
    from karpenter_local.simulation.world import World


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """Something that must never happen, and did."""

    at: float
    """Seconds after the beginning."""

    rule: str
    what: str

    def __str__(self) -> str:
        """Return the violation as a line."""
        return f"{self.rule}: {self.what}"


class Ledger:
    """Violations, in the order in which they happened."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.violations: list[Violation] = []
        self.violated = asyncio.Event()

    def write(self, rule: str, what: str) -> None:
        """Write down a violation."""
        self.violations.append(Violation(at=self._clock.monotonic(), rule=rule, what=what))
        self.violated.set()


class Rule:
    """Something that must always hold. Rules override what they are interested in."""

    name: ClassVar[str]

    def __init__(self, world: World, ledger: Ledger) -> None:
        self.world = world
        self.mirror = world.mirror
        self._ledger = ledger

    def violated(self, what: str) -> None:
        """Say that the rule does not hold."""
        self._ledger.write(self.name, what)

    def wrote(self, wrote: Wrote) -> None:
        """Look at a write of anybody's."""

    def called(self, request: Request, response: Response) -> None:
        """Look at a write of the operator's, and at its answer."""

    def unrest(self) -> Iterable[str]:
        """Return what does not hold yet, and must hold once everything has come to rest."""
        return ()
