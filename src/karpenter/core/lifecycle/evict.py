"""
How one pod is made to leave its node: asked, waited for, or deleted because time is up.

An eviction asks the API server, which asks the disruption budgets. Once the node's time is nearly up the pod
is deleted instead, with what is left of that time and at least a second to end.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from karpenter.core.state.pods import can_be_evicted, is_active, is_finished

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.api.pod import Pod

_DEFAULT_GRACE: Final = 30
FORCEFUL: Final = "Forceful Termination"
"""Why a pod is evicted when no decision of ours is behind it."""


class Ask(msgspec.Struct, frozen=True):
    """Ask for the pod's eviction."""


class Wait(msgspec.Struct, frozen=True):
    """The pod may not be evicted now; look again."""


class Drop(msgspec.Struct, frozen=True):
    """The pod leaves already, or has left."""


class Force(msgspec.Struct, frozen=True):
    """Delete the pod, with so many seconds to end."""

    grace: int


Way: TypeAlias = Ask | Wait | Drop | Force


def way_out(pod: Pod | None, uid: str, by: datetime | None, now: datetime) -> Way:
    """Return how a pod is to leave its node now; `by` is when its node goes, pods or no pods."""
    if pod is None or pod.metadata.uid != uid or is_finished(pod):
        return Drop()
    if by is not None and is_overdue(pod, by, now):
        return Force(max(int((by - now).total_seconds()), 1))
    if not is_active(pod):
        return Drop()
    return Ask() if can_be_evicted(pod, now) else Wait()


def is_overdue(pod: Pod, by: datetime, now: datetime) -> bool:
    """Whether a pod has to be deleted now to be gone in time."""
    ends = pod.metadata.deletion_timestamp
    if ends is not None:
        return ends > by
    return now > by - timedelta(seconds=grace_of(pod))


def grace_of(pod: Pod) -> int:
    """Return the seconds that a pod wants for its end."""
    own = pod.spec.termination_grace_period_seconds
    return _DEFAULT_GRACE if own is None else own
