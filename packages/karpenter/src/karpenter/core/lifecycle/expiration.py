"""
Expiration: a NodeClaim is deleted when it is older than expireAfter.

Expiration is forceful: disruption budgets do not apply, but the node drains like any other.
See https://karpenter.sh/docs/concepts/disruption/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.core.effects import NOTHING, Step
from karpenter.core.lifecycle.conditions import delete_claim
from karpenter.core.lifecycle.disruption_conditions import expires_at

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.pod import Pod


def expire(claim: NodeClaim, now: datetime, pods: Iterable[Pod] = ()) -> Step:
    """Return the deletion of an expired claim and its `pods`, or in how many seconds it expires."""
    moment = expires_at(claim)
    if moment is None or claim.metadata.deletion_timestamp is not None:
        return NOTHING
    if now < moment:
        return Step(again=(moment - now).total_seconds())
    because = f"it is older than {claim.spec.expire_after}"
    return Step(effects=delete_claim(claim, "expired", because, pods))
