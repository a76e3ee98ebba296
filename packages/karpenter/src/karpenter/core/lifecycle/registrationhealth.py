"""
Registration health of a NodePool: the condition NodeRegistrationHealthy from the last four outcomes.

A pool is unhealthy when half of the last four launches failed to register. The condition is for users and
metrics: an unhealthy pool is still used.
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

# Upstream keeps four outcomes, and half of them failing is unhealthy:
# https://github.com/kubernetes-sigs/karpenter
OUTCOMES_KEPT: Final = 4
# The condition NodeRegistrationHealthy: https://karpenter.sh/docs/concepts/nodepools/
_UNHEALTHY_SHARE: Final = 0.5


class RegistrationHistory(msgspec.Struct, frozen=True):
    """The last outcomes of one NodePool, oldest first."""

    outcomes: tuple[bool, ...] = ()

    def after(self, outcome: bool) -> RegistrationHistory:
        return RegistrationHistory((*self.outcomes, outcome)[-OUTCOMES_KEPT:])

    @property
    def is_healthy(self) -> bool | None:
        """Whether enough machines registered; None without outcomes."""
        if not self.outcomes:
            return None
        return self.outcomes.count(False) / OUTCOMES_KEPT < _UNHEALTHY_SHARE


NO_HISTORY: Final = RegistrationHistory()


def history_of_condition(pool: NodePool) -> RegistrationHistory:
    """Return the history that the condition of a NodePool stands for, after a restart."""
    # The outcomes are in memory only; the condition keeps what they came to.
    status = next((c.status for c in pool.status.conditions if c.type == NODE_REGISTRATION_HEALTHY), "")
    return RegistrationHistory({"True": (True,), "False": (False, False)}.get(status, ()))


def record_outcome(
    pool: NodePool, history: RegistrationHistory, outcome: RegistrationOutcome, now: datetime
) -> tuple[RegistrationHistory, tuple[Effect, ...]]:
    """Return the history after an outcome, and the write of the NodePool's condition."""
    after = history.after(outcome.healthy)
    condition_set = pool_conditions(pool, now)
    if outcome.healthy and after.is_healthy:
        condition_set = condition_set.set_true(NODE_REGISTRATION_HEALTHY)
    elif (
        not outcome.healthy
        and after.is_healthy is False
        and condition_set.status(NODE_REGISTRATION_HEALTHY) != "False"
    ):
        condition_set = condition_set.set_false(
            NODE_REGISTRATION_HEALTHY, outcome.reason or "RegistrationFailed", outcome.message
        )
    return after, patch_object(pool, condition_set, because=outcome.because)


def is_outdated(pool: NodePool, node_class: NodeClass) -> bool:
    """Whether a NodePool or its node class has changed since its history began."""
    found = next((c for c in pool.status.conditions if c.type == NODE_REGISTRATION_HEALTHY), None)
    return (
        found is None
        or found.observed_generation != pool.metadata.generation
        or pool.status.node_class_observed_generation != node_class.generation
    )
