"""Every rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.simulation.rules.budgets import Budgets
from karpenter.simulation.rules.exchange import Exchange
from karpenter.simulation.rules.gated import Repair, Room, Sizes, Word
from karpenter.simulation.rules.leaving import Leaving
from karpenter.simulation.rules.limits import Limits
from karpenter.simulation.rules.ownership import Ownership
from karpenter.simulation.rules.pace import Pace
from karpenter.simulation.rules.protection import Protection
from karpenter.simulation.rules.service import Service
from karpenter.simulation.rules.steadiness import Steadiness

if TYPE_CHECKING:
    from karpenter.simulation.rules.book import Ledger, Rule
    from karpenter.simulation.world import World

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
