"""
Whether machines of a pool become nodes: the last few outcomes, and what they say together.

Half of the last four failed means unhealthy. Nothing depends on it but what users see: a pool is used either
way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.core.lifecycle.conditions import REGISTRATION_HEALTHY, amend, pool_board

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.api.nodepool import NodePool
    from karpenter.core.effects import Effect, RegistrationOutcome
    from karpenter.core.state.cluster import NodeClass

REMEMBERED: Final = 4
_TOO_MANY: Final = 0.5


class History(msgspec.Struct, frozen=True):
    """The last outcomes of one pool, oldest first."""

    outcomes: tuple[bool, ...] = ()

    def after(self, outcome: bool) -> History:
        """Return the history with one outcome more."""
        return History((*self.outcomes, outcome)[-REMEMBERED:])

    @property
    def is_healthy(self) -> bool | None:
        """Whether enough machines became nodes; None while there is nothing to go by."""
        if not self.outcomes:
            return None
        return self.outcomes.count(False) / REMEMBERED < _TOO_MANY


NO_HISTORY: Final = History()


def recalled(pool: NodePool) -> History:
    """Return the history that a pool's condition tells of, after a restart."""
    status = next((c.status for c in pool.status.conditions if c.type == REGISTRATION_HEALTHY), "")
    return History({"True": (True,), "False": (False, False)}.get(status, ()))


def noted(
    pool: NodePool, history: History, outcome: RegistrationOutcome, now: datetime
) -> tuple[History, tuple[Effect, ...]]:
    """Return the history after an outcome, and what follows for the pool's condition."""
    after = history.after(outcome.healthy)
    board = pool_board(pool, now)
    if outcome.healthy and after.is_healthy:
        board = board.true(REGISTRATION_HEALTHY)
    elif not outcome.healthy and after.is_healthy is False and board.status(REGISTRATION_HEALTHY) != "False":
        board = board.false(REGISTRATION_HEALTHY, outcome.reason or "RegistrationFailed", outcome.message)
    return after, amend(pool, board, because=outcome.because)


def is_outdated(pool: NodePool, node_class: NodeClass) -> bool:
    """Whether a pool, or its node class, has changed since its history began."""
    found = next((c for c in pool.status.conditions if c.type == REGISTRATION_HEALTHY), None)
    return (
        found is None
        or found.observed_generation != pool.metadata.generation
        or pool.status.node_class_observed_generation != node_class.generation
    )
