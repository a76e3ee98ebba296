"""Giving up claims that do not come to life: no machine in time, or no node in time."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.core.lifecycle.conditions import LAUNCHED, REGISTERED, delete_claim
from karpenter.core.lifecycle.registration import registration_outcome

if TYPE_CHECKING:
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.core.effects import Effect
    from karpenter.core.lifecycle.conditions import ConditionSet

LAUNCH_TIMEOUT: Final = timedelta(minutes=5)
REGISTRATION_TIMEOUT: Final = timedelta(minutes=15)


class LivenessTimeouts(msgspec.Struct, frozen=True, kw_only=True):
    """How long each step of a claim may take."""

    launch: timedelta = LAUNCH_TIMEOUT
    registration: timedelta = REGISTRATION_TIMEOUT


def seconds_left(board: ConditionSet, patience: LivenessTimeouts) -> float | None:
    """Return how long a claim may still take for its present step; None when it has come far enough."""
    if board.is_true(REGISTERED):
        return None
    if not board.is_true(LAUNCHED):
        ends = board.since(LAUNCHED) + patience.launch
    else:
        ends = board.since(REGISTERED) + patience.registration
    return (ends - board.now).total_seconds()


def delete_for_timeout(claim: NodeClaim, board: ConditionSet) -> tuple[Effect, ...]:
    """Return what removes a claim that took too long."""
    if not board.is_true(LAUNCHED):
        condition = board.get(LAUNCHED)
        assert condition is not None
        noted = registration_outcome(claim, healthy=False, reason=condition.reason, message=condition.message)
        return (*noted, *delete_claim(claim, "launch_timeout", "its machine did not start in time"))
    noted = registration_outcome(
        claim, healthy=False, reason="RegistrationFailed", message="Failed to register node"
    )
    return (*noted, *delete_claim(claim, "registration_timeout", "its machine did not become a node in time"))
