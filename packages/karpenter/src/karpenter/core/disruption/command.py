"""
What disruption decides: commands that remove nodes, and why every other node is kept.

Pure values, in the words of the public plan contract. The codes of kept nodes are in :mod:`.codes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from karpenter.api.nodepool import NodePool
from karpenter.core.disruption.codes import DisruptionCode
from karpenter.core.scheduling.problem import NewNode

# Reasons as budgets name them: https://karpenter.sh/docs/concepts/disruption/#reasons
EMPTY = "Empty"
DRIFTED = "Drifted"
UNDERUTILIZED = "Underutilized"
EXPIRED = "Expired"
UNHEALTHY = "Unhealthy"
SCALED_DOWN = "ScaledDown"

Obstacle: TypeAlias = tuple[DisruptionCode, str]
"""What keeps a node: a code and a sentence."""

Obstacles: TypeAlias = dict[str, Obstacle]
"""What keeps each node, by its name."""


class MoveScore(msgspec.Struct, frozen=True, kw_only=True):
    """What a move saves a NodePool with the policy Balanced, in relation to what it disrupts."""

    pool: str
    score: float
    saving: float
    """The share of the NodePool's price that is saved."""

    disruption: float
    """The share of the NodePool's disruption cost that the move causes."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes to remove, and what replaces them before they go."""

    reason: str
    candidates: tuple[str, ...]
    replacements: tuple[NewNode, ...] = ()
    moves: Mapping[str, str] = {}
    """Pod to the existing node that is to take it."""

    hourly_before: float = 0.0
    hourly_after: float = 0.0
    pods_moved: int = 0
    preferred: tuple[str, ...] = ()
    """NodePools of higher weight that its pods go back to, whatever that saves; empty for other commands."""

    preference: float = 0.0
    """What going back is worth per hour, besides the saving."""

    scores: tuple[MoveScore, ...] = ()
    """How the command scores, for each NodePool with the policy Balanced."""

    pools: Mapping[str, NodePool] = {}
    """The NodePools of its replacements as they were when it was decided, by name."""

    number: int = 0
    """Which command of the operator it is, for logs and Events; 0 until it is decided."""

    @property
    def decision(self) -> str:
        """``delete``, or ``replace`` when something is launched first."""
        return "replace" if self.replacements else "delete"

    @property
    def consolidation_type(self) -> str:
        """How it was found, as metrics call it: of savings, whether for one node or several together."""
        if self.reason == UNDERUTILIZED:
            return "single" if len(self.candidates) == 1 else "multi"
        return "empty" if self.reason == EMPTY else ""

    @property
    def destinations(self) -> str:
        """The NodePools that its pods go back to, as words; empty for other commands."""
        bought = {node.pool for node in self.replacements} if self.preferred else ()
        return " and ".join(sorted(bought)) or " or ".join(self.preferred)

    @property
    def saving(self) -> float:
        return self.hourly_before - self.hourly_after


class KeptNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that stays, and what keeps it."""

    node: str
    code: DisruptionCode
    message: str
    hourly: float = 0.0
    """What the node costs per hour; 0 when that is not known."""


class SavingsBound(msgspec.Struct, frozen=True, kw_only=True):
    """How far savings could go at the very most."""

    nodes: int
    """How many nodes savings may touch."""

    hourly: float
    """What they cost now."""

    least: float
    """What no plan for their pods can cost less than; it may be out of reach."""
