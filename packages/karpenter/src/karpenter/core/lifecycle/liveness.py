"""
Liveness: deletes NodeClaims that are not launched, or whose Node does not register, in time.

The default timeouts are upstream's: five minutes for the launch, 15 minutes for registration.
"""

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

# A NodeClaim that cannot launch or register holds room in limits and keeps pods waiting, so it is deleted
# and the scheduler tries again: https://karpenter.sh/docs/concepts/nodeclaims/
LAUNCH_TIMEOUT: Final = timedelta(minutes=5)
REGISTRATION_TIMEOUT: Final = timedelta(minutes=15)


class LivenessTimeouts(msgspec.Struct, frozen=True, kw_only=True):
    """How long the launch and the registration of a claim may take."""

    launch: timedelta = LAUNCH_TIMEOUT
    registration: timedelta = REGISTRATION_TIMEOUT


def seconds_left(condition_set: ConditionSet, timeouts: LivenessTimeouts) -> float | None:
    """Return the seconds that are left for the present step of a claim; None once it is registered."""
    if condition_set.is_true(REGISTERED):
        return None
    if not condition_set.is_true(LAUNCHED):
        ends = condition_set.since(LAUNCHED) + timeouts.launch
    else:
        ends = condition_set.since(REGISTERED) + timeouts.registration
    return (ends - condition_set.now).total_seconds()


def delete_for_timeout(claim: NodeClaim, condition_set: ConditionSet) -> tuple[Effect, ...]:
    """Return the deletion of a claim whose time has run out."""
    if not condition_set.is_true(LAUNCHED):
        condition = condition_set.get(LAUNCHED)
        assert condition is not None
        noted = registration_outcome(claim, healthy=False, reason=condition.reason, message=condition.message)
        return (*noted, *delete_claim(claim, "launch_timeout", "it was not launched in time"))
    noted = registration_outcome(
        claim, healthy=False, reason="RegistrationFailed", message="Failed to register node"
    )
    return (*noted, *delete_claim(claim, "registration_timeout", "its node did not register in time"))
