"""
What disruption decides: commands that remove machines, and why every other machine is kept.

Pure values, in the words of the public plan contract.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from karpenter.core.scheduling.problem import NewNode

EMPTY = "Empty"
DRIFTED = "Drifted"
UNDERUTILIZED = "Underutilized"
EXPIRED = "Expired"


class MoveScore(msgspec.Struct, frozen=True, kw_only=True):
    """What a move saves a pool that weighs savings against moves, in relation to what it disturbs."""

    pool: str
    score: float
    saving: float
    """The share of the pool's price that is saved."""

    disruption: float
    """The share of the pool's pods that is disturbed, by what moving them costs."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """Machines to remove, and what takes their place before they go."""

    reason: str
    candidates: tuple[str, ...]
    replacements: tuple[NewNode, ...] = ()
    moves: Mapping[str, str] = {}
    """Pod to the existing node that is to take it."""

    hourly_before: float = 0.0
    hourly_after: float = 0.0
    pods_moved: int = 0
    weights: tuple[MoveScore, ...] = ()
    """How the command was weighed, for each pool that asks for that."""

    @property
    def decision(self) -> str:
        """``delete``, or ``replace`` when something is launched first."""
        return "replace" if self.replacements else "delete"

    @property
    def kind(self) -> str:
        """How it was found, as metrics call it: of savings, whether for one machine or several together."""
        if self.reason == UNDERUTILIZED:
            return "single" if len(self.candidates) == 1 else "multi"
        return "empty" if self.reason == EMPTY else ""

    @property
    def saving(self) -> float:
        """What the command saves per hour."""
        return self.hourly_before - self.hourly_after


class KeptNode(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that stays, and what holds it."""

    node: str
    code: str
    message: str
    hourly: float = 0.0
    """What the machine costs per hour; 0 when that is not known."""


class SavingsBound(msgspec.Struct, frozen=True, kw_only=True):
    """How far savings could go at the very most."""

    machines: int
    """How many machines savings may touch."""

    hourly: float
    """What they cost now."""

    least: float
    """What no plan for their pods can cost less than; it may be out of reach."""


class DisruptionDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What one pass decides."""

    commands: tuple[Command, ...] = ()
    kept: tuple[KeptNode, ...] = ()
    outweighed: tuple[MoveScore, ...] = ()
    """Of pools that weigh savings against moves, the best move that was too light."""

    reach: SavingsBound | None = None
    """How far savings could go, where that was asked."""

    unreached: frozenset[str] = frozenset()
    """Drifted machines that there was no time for."""
