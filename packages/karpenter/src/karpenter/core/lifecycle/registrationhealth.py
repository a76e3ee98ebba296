"""
Whether machines of a pool become nodes: the last few outcomes, and what they say together.

Half of the last four failed means unhealthy. Nothing depends on it but what users see: a pool is used either
way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.core.lifecycle.conditions import NODE_REGISTRATION_HEALTHY, patch_object, pool_conditions

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.api.nodepool import NodePool
    from karpenter.core.effects import Effect, RegistrationOutcome
    from karpenter.core.state.cluster import NodeClass

REMEMBERED: Final = 4
_TOO_MANY: Final = 0.5


class RegistrationHistory(msgspec.Struct, frozen=True):
    """The last outcomes of one pool, oldest first."""

    outcomes: tuple[bool, ...] = ()

    def after(self, outcome: bool) -> RegistrationHistory:
        """Return the history with one outcome more."""
        return RegistrationHistory((*self.outcomes, outcome)[-REMEMBERED:])

    @property
    def is_healthy(self) -> bool | None:
        """Whether enough machines became nodes; None while there is nothing to go by."""
        if not self.outcomes:
            return None
        return self.outcomes.count(False) / REMEMBERED < _TOO_MANY


NO_HISTORY: Final = RegistrationHistory()


def history_of_condition(pool: NodePool) -> RegistrationHistory:
    """Return the history that a pool's condition tells of, after a restart."""
    status = next((c.status for c in pool.status.conditions if c.type == NODE_REGISTRATION_HEALTHY), "")
    return RegistrationHistory({"True": (True,), "False": (False, False)}.get(status, ()))


def record_outcome(
    pool: NodePool, history: RegistrationHistory, outcome: RegistrationOutcome, now: datetime
) -> tuple[RegistrationHistory, tuple[Effect, ...]]:
    """Return the history after an outcome, and what follows for the pool's condition."""
    after = history.after(outcome.healthy)
    board = pool_conditions(pool, now)
    if outcome.healthy and after.is_healthy:
        board = board.true(NODE_REGISTRATION_HEALTHY)
    elif (
        not outcome.healthy
        and after.is_healthy is False
        and board.status(NODE_REGISTRATION_HEALTHY) != "False"
    ):
        board = board.false(
            NODE_REGISTRATION_HEALTHY, outcome.reason or "RegistrationFailed", outcome.message
        )
    return after, patch_object(pool, board, because=outcome.because)


def is_outdated(pool: NodePool, node_class: NodeClass) -> bool:
    """Whether a pool, or its node class, has changed since its history began."""
    found = next((c for c in pool.status.conditions if c.type == NODE_REGISTRATION_HEALTHY), None)
    return (
        found is None
        or found.observed_generation != pool.metadata.generation
        or pool.status.node_class_observed_generation != node_class.generation
    )
