"""
The terminator: which pods of a node are drained, in which order, and how each is removed.

Pods are drained in four groups, one after the other: ordinary pods, DaemonSet pods, critical pods, critical
DaemonSet pods. A pod is evicted through the Eviction API, which respects PodDisruptionBudgets. With a
terminationGracePeriod, a pod whose own grace period would end after the node's termination time is deleted
instead, with the time that is left and at least one second.

See https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/ and
https://karpenter.sh/docs/concepts/disruption/.
"""

from __future__ import annotations

from datetime import datetime, timedelta
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


_DEFAULT_GRACE: Final = 30  # terminationGracePeriodSeconds of a pod that sets none
FORCEFUL: Final = "Forceful Termination"
"""The reason of an eviction without a disruption decision, such as after `kubectl delete node`."""

# A kubelet that is gone never confirms the end of a pod, so a drain does not wait for it longer than this:
# https://kubernetes.io/docs/concepts/architecture/nodes/#condition
STUCK_AFTER: Final = timedelta(minutes=1)
"""How long after its grace period a pod counts as stuck terminating and no longer blocks the drain."""

# The same order as the kubelet's graceful node shutdown, which ends critical pods last:
# https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/
CRITICAL: Final = frozenset({"system-cluster-critical", "system-node-critical"})


class EvictPod(msgspec.Struct, frozen=True):
    """Evict the pod."""


class RetryEviction(msgspec.Struct, frozen=True):
    """The pod may not be evicted now; try again later."""


class EvictionDone(msgspec.Struct, frozen=True):
    """The pod is terminating or gone; there is nothing to do."""


class DeletePod(msgspec.Struct, frozen=True):
    """Delete the pod with this grace period in seconds."""

    grace: int


EvictionAction: TypeAlias = EvictPod | RetryEviction | EvictionDone | DeletePod


def eviction_action(pod: Pod | None, uid: str, by: datetime | None, now: datetime) -> EvictionAction:
    """Return how to remove a pod from its node now; `by` is the termination time of the node, if any."""
    if pod is None or pod.metadata.uid != uid or is_terminal(pod):
        return EvictionDone()
    if by is not None and is_overdue(pod, by, now):
        # A delete with a grace period of zero is a forced one, which does not wait for the kubelet:
        # https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination-forced
        return DeletePod(max(int((by - now).total_seconds()), 1))
    if not is_active(pod):
        return EvictionDone()
    return EvictPod() if is_evictable(pod, now) else RetryEviction()


def is_overdue(pod: Pod, by: datetime, now: datetime) -> bool:
    """Whether a pod must be deleted now to be gone at the termination time."""
    ends = pod.metadata.deletion_timestamp
    # The deletion timestamp of a pod is when its grace period ends, not when it was deleted:
    # https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
    if ends is not None:
        return ends > by
    return now > by - timedelta(seconds=pod_grace_period(pod))


def pod_grace_period(pod: Pod) -> int:
    own = pod.spec.termination_grace_period_seconds
    return _DEFAULT_GRACE if own is None else own


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """The pods that a node still has to drain."""

    waiting: tuple[Pod, ...] = ()
    """Every pod that must be gone before the node is drained."""

    evicting: tuple[Pod, ...] = ()
    """Those of them to evict or delete now."""

    @property
    def is_done(self) -> bool:
        return not self.waiting


def drain(pods: Iterable[Pod], now: datetime, by: datetime | None = None) -> Drain:
    """Return which pods of a node are waited for and which to evict now; `by` is its termination time."""
    waiting = tuple(pod for pod in pods if is_waiting_eviction(pod, now))
    overdue = tuple(pod for pod in waiting if by is not None and is_overdue(pod, by, now))
    # A pod that is deleted because its time is short is still waited for by the groups after its own:
    # https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/node/termination/terminator/terminator.go
    first = min(map(_drain_group, waiting), default=None)
    next_group = tuple(
        pod
        for pod in waiting
        if _drain_group(pod) == first and pod not in overdue and not is_terminating(pod)
    )
    return Drain(waiting=waiting, evicting=(*overdue, *next_group))


def is_waiting_eviction(pod: Pod, now: datetime) -> bool:
    """Whether the drain of a node waits for this pod."""
    return is_drainable(pod) and not _is_stuck_terminating(pod, now)


def is_drainable(pod: Pod) -> bool:
    """Whether a drain removes this pod; other pods run until the machine is terminated."""
    # A pod that tolerates the taint would be bound to the node again; a mirror pod ends with its kubelet:
    # https://karpenter.sh/docs/concepts/disruption/#termination-controller
    return not is_terminal(pod) and not tolerates_disrupted_taint(pod) and not is_owned_by_node(pod)


def _is_stuck_terminating(pod: Pod, now: datetime) -> bool:
    ends = pod.metadata.deletion_timestamp
    return ends is not None and now > ends + STUCK_AFTER


def _drain_group(pod: Pod) -> tuple[bool, bool]:
    return pod.spec.priority_class_name in CRITICAL, is_owned_by_daemonset(pod)
