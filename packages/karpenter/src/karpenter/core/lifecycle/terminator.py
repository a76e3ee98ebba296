"""
Emptying a node: which pods are waited for, and who goes first.

Ordinary pods leave before daemons, and critical ones last, so that what others need is there until the end.
Only one tier is asked to leave at a time. Pods that would be late otherwise are made to leave at once.

How one pod is made to leave its node: asked, waited for, or deleted because time is up.

An eviction asks the API server, which asks the disruption budgets. Once the node's time is nearly up the pod
is deleted instead, with what is left of that time and at least a second to end.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from karpenter.api.pod import Pod
from karpenter.core.state.pod import (
    is_active,
    is_evictable,
    is_owned_by_daemonset,
    is_owned_by_node,
    is_terminal,
    is_terminating,
    tolerates_disrupted_taint,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime


_DEFAULT_GRACE: Final = 30
FORCEFUL: Final = "Forceful Termination"
"""Why a pod is evicted when no decision of ours is behind it."""


class EvictPod(msgspec.Struct, frozen=True):
    """Ask for the pod's eviction."""


class RetryEviction(msgspec.Struct, frozen=True):
    """The pod may not be evicted now; look again."""


class EvictionDone(msgspec.Struct, frozen=True):
    """The pod leaves already, or has left."""


class DeletePod(msgspec.Struct, frozen=True):
    """Delete the pod, with so many seconds to end."""

    grace: int


EvictionAction: TypeAlias = EvictPod | RetryEviction | EvictionDone | DeletePod


def eviction_action(pod: Pod | None, uid: str, by: datetime | None, now: datetime) -> EvictionAction:
    """Return how a pod is to leave its node now; `by` is when its node goes, pods or no pods."""
    if pod is None or pod.metadata.uid != uid or is_terminal(pod):
        return EvictionDone()
    if by is not None and is_overdue(pod, by, now):
        return DeletePod(max(int((by - now).total_seconds()), 1))
    if not is_active(pod):
        return EvictionDone()
    return EvictPod() if is_evictable(pod, now) else RetryEviction()


def is_overdue(pod: Pod, by: datetime, now: datetime) -> bool:
    """Whether a pod has to be deleted now to be gone in time."""
    ends = pod.metadata.deletion_timestamp
    if ends is not None:
        return ends > by
    return now > by - timedelta(seconds=pod_grace_period(pod))


def pod_grace_period(pod: Pod) -> int:
    """Return the seconds that a pod wants for its end."""
    own = pod.spec.termination_grace_period_seconds
    return _DEFAULT_GRACE if own is None else own


STUCK_AFTER: Final = timedelta(minutes=1)
"""How long past its end a pod that does not go away is waited for."""

CRITICAL: Final = frozenset({"system-cluster-critical", "system-node-critical"})


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """What is left to do before a node is empty."""

    waiting: tuple[Pod, ...] = ()
    """Every pod that has to be gone."""

    leaving: tuple[Pod, ...] = ()
    """Those of them that are to be made to leave now."""

    @property
    def is_done(self) -> bool:
        """Whether the node is empty."""
        return not self.waiting


def drain(pods: Iterable[Pod], now: datetime, by: datetime | None = None) -> Drain:
    """Return which of a node's pods are waited for and which are to leave now; `by` is when the node goes."""
    waiting = tuple(pod for pod in pods if is_waiting_eviction(pod, now))
    overdue = tuple(pod for pod in waiting if by is not None and is_overdue(pod, by, now))
    rest = [pod for pod in waiting if pod not in overdue]
    first = min(map(_tier, rest), default=None)
    asked = tuple(pod for pod in rest if _tier(pod) == first and not is_terminating(pod))
    return Drain(waiting=waiting, leaving=(*overdue, *asked))


def is_waiting_eviction(pod: Pod, now: datetime) -> bool:
    """Whether a node is not empty as long as this pod is on it."""
    return is_drainable(pod) and not _is_stuck(pod, now)


def is_drainable(pod: Pod) -> bool:
    """Whether emptying a node makes this pod go; others stay to the end."""
    return not is_terminal(pod) and not tolerates_disrupted_taint(pod) and not is_owned_by_node(pod)


def _is_stuck(pod: Pod, now: datetime) -> bool:
    ends = pod.metadata.deletion_timestamp
    return ends is not None and now > ends + STUCK_AFTER


def _tier(pod: Pod) -> tuple[bool, bool]:
    return pod.spec.priority_class_name in CRITICAL, is_owned_by_daemonset(pod)
