"""Every rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.simulation.invariants.budgets import Budgets
from karpenter_local.simulation.invariants.exchange import Exchange
from karpenter_local.simulation.invariants.gated import Repair, Room, Sizes, Word
from karpenter_local.simulation.invariants.leaving import Leaving
from karpenter_local.simulation.invariants.limits import Limits
from karpenter_local.simulation.invariants.ownership import Ownership
from karpenter_local.simulation.invariants.pace import Pace
from karpenter_local.simulation.invariants.protection import Protection
from karpenter_local.simulation.invariants.service import Service
from karpenter_local.simulation.invariants.steadiness import Steadiness

if TYPE_CHECKING:
    from karpenter_local.simulation.invariants.rule import Ledger, Rule
    from karpenter_local.simulation.world import World

RULES: tuple[type[Rule], ...] = (
    Ownership,
    Leaving,
    Service,
    Steadiness,
    Limits,
    Budgets,
    Protection,
    Exchange,
    Pace,
    Sizes,
    Room,
    Word,
    Repair,
)


def all_rules(world: World, ledger: Ledger) -> list[Rule]:
    """Return every rule, watching one world."""
    return [rule(world, ledger) for rule in RULES]
