"""
The consolidation policy Balanced: a move must save enough for what it disrupts.

The score of a move is the share of the NodePool's price that it saves, per share of the NodePool's
disruption cost that it causes. A move that scores less than :data:`BALANCED` is rejected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.core.disruption.codes import DisruptionCode
from karpenter.core.disruption.command import Command, MoveScore, Obstacle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karpenter.core.disruption.candidates import Candidate

# consolidationPolicy Balanced weighs savings against disruption; upstream's default for the threshold:
# https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/designs/balanced-consolidation.md
BALANCED: Final = 0.5
"""A move must save at least this share of the NodePool's price per share of its disruption cost."""


class PoolTotals(msgspec.Struct, frozen=True):
    """What a whole NodePool costs, and what emptying all of it would cost."""

    price: float
    cost: float


def balance(saving: float, cost: float, totals: PoolTotals) -> float:
    """Return the share of a NodePool's price that is saved, per share of its disruption cost."""
    if saving <= 0 or totals.price <= 0 or totals.cost <= 0:
        return 0.0
    if cost <= 0:
        return float("inf")
    return (saving / totals.price) / (cost / totals.cost)


def scores(
    candidates: Sequence[Candidate], command: Command, totals: Mapping[str, PoolTotals]
) -> tuple[MoveScore, ...]:
    """Return how a command scores for each NodePool with the policy Balanced, by name."""
    return tuple(
        _score(name, [each for each in candidates if each.pool.name == name], command, totals[name])
        for name in sorted({each.pool.name for each in candidates if _is_balanced(each)})
    )


def rejection(score: MoveScore, totals: PoolTotals) -> Obstacle | None:
    """Return why a move is rejected; None when it scores enough."""
    if score.score >= BALANCED:
        return None
    return (
        DisruptionCode.NOT_BALANCED,
        (
            f"saving ${score.saving * totals.price:.4f} an hour scores {score.score:.2f} for what it moves; "
            f"NodePool {score.pool} wants {BALANCED:g}"
        ),
    )


def _is_balanced(candidate: Candidate) -> bool:
    return candidate.pool.spec.disruption.consolidation_policy == "Balanced"


def _score(pool: str, mine: Sequence[Candidate], command: Command, totals: PoolTotals) -> MoveScore:
    cost = sum(each.cost for each in mine)
    price = sum(each.price or 0.0 for each in mine)
    saving = command.saving * (price / command.hourly_before if command.hourly_before else 0.0)
    return MoveScore(
        pool=pool,
        score=balance(saving, cost, totals),
        saving=saving / totals.price if totals.price else 0.0,
        disruption=cost / totals.cost if totals.cost else 0.0,
    )
