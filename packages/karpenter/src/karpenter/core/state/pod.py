"""
Predicates on one pod: unscheduled, terminal, reschedulable, evictable, do-not-disrupt.

Each is a pure function, and the time is an argument. What follows from the answer is decided by the callers.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from karpenter.api.labels import DISRUPTED, DO_NOT_DISRUPT, NO_SCHEDULE
from karpenter.api.node import Taint
from karpenter.base.duration import DurationError, parse_duration
from karpenter.core.model.taints import tolerates

if TYPE_CHECKING:
    from karpenter.api.meta import OwnerReference
    from karpenter.api.pod import Pod

_DISRUPTED: Final = Taint(key=DISRUPTED, effect=NO_SCHEDULE)

NOMINATION_MANAGER: Final = "karpenter-nomination"
"""The field manager that nominates pods for us; upstream and the other writes of ours use other names."""

DEFAULT_SCHEDULER: Final = "default-scheduler"


def is_terminal(pod: Pod) -> bool:
    """Whether the phase of the pod is Succeeded or Failed."""
    return pod.status.phase in {"Succeeded", "Failed"}


def is_terminating(pod: Pod) -> bool:
    """Whether the pod has a deletion timestamp."""
    # A pod with a deletion timestamp still runs and holds its resources until its grace period ends:
    # https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
    return pod.metadata.deletion_timestamp is not None


def is_active(pod: Pod) -> bool:
    """Whether the pod is neither terminal nor terminating."""
    return not is_terminal(pod) and not is_terminating(pod)


def is_owned_by_daemonset(pod: Pod) -> bool:
    # The group is compared without its version: a DaemonSet of apps/v1beta2 made the same pods.
    return any(
        owner.kind == "DaemonSet" and owner.api_version.startswith("apps/")
        for owner in pod.metadata.owner_references
    )


def is_owned_by_node(pod: Pod) -> bool:
    """Whether the pod is a static pod, whose mirror pod a Node owns."""
    # The kubelet creates mirror pods of static pods, which cannot be evicted:
    # https://kubernetes.io/docs/tasks/configure-pod-container/static-pod/
    return any(owner.kind == "Node" and owner.api_version == "v1" for owner in pod.metadata.owner_references)


def is_owned_by_statefulset(pod: Pod) -> bool:
    return any(o.kind == "StatefulSet" for o in pod.metadata.owner_references)


def is_unscheduled(pod: Pod) -> bool:
    """
    Whether the pod has no node and needs one.

    A pod that kube-scheduler has nominated is preempting others and gets their room, and kube-scheduler does
    not look at a pod with scheduling gates:
    https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/.
    """
    return (
        not pod.spec.node_name
        and is_active(pod)
        and not pod.spec.scheduling_gates
        and not is_preempting(pod)
        and not is_owned_by_daemonset(pod)
        and not is_owned_by_node(pod)
    )


def is_preempting(pod: Pod) -> bool:
    """Whether another client than us has nominated the pod, as kube-scheduler does when it preempts."""
    return bool(pod.status.nominated_node_name) and not is_nominated_by_us(pod)


def is_nominated_by_us(pod: Pod) -> bool:
    """Whether the nominated node of the pod is one that we have set, and no other client."""
    entries = pod.metadata.managed_fields
    return (
        bool(pod.status.nominated_node_name)
        and bool(entries)
        and all(each.manager == NOMINATION_MANAGER for each in entries)
    )


def may_be_nominated(pod: Pod) -> bool:
    """Whether a node may be nominated for the pod: kube-scheduler places it, and has not begun to."""
    return is_unscheduled(pod) and pod.spec.scheduler_name in {"", DEFAULT_SCHEDULER}


def is_reschedulable(pod: Pod) -> bool:
    """
    Whether the pod needs room elsewhere when its node is deleted.

    A terminating pod of a StatefulSet counts: its controller creates the next pod of that name only after
    this one is gone, so the room is needed again.
    """
    stays = is_active(pod) or (is_owned_by_statefulset(pod) and is_terminating(pod) and not is_terminal(pod))
    return stays and not is_owned_by_daemonset(pod) and not is_owned_by_node(pod)


def has_dra_requirements(pod: Pod) -> bool:
    """Whether the pod has resource claims (dynamic resource allocation)."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return bool(pod.spec.resource_claims) or any(each.resources.claims for each in containers)


def tolerates_disrupted_taint(pod: Pod) -> bool:
    """Whether the pod tolerates the taint karpenter.sh/disrupted, so that a drain leaves it alone."""
    return tolerates(pod.spec.tolerations, [_DISRUPTED])


def do_not_disrupt_reason(pod: Pod, now: datetime) -> str:
    """Return what the do-not-disrupt annotation says if it applies now; empty if it does not."""
    value = pod.metadata.annotations.get(DO_NOT_DISRUPT)
    if value is None:
        return ""
    if value == "true":
        return f"{DO_NOT_DISRUPT} is true"
    # Any other value, "false" as well, protects nothing: https://karpenter.sh/docs/concepts/disruption/
    seconds = _seconds(value)
    if seconds is None or seconds <= 0:
        return ""
    # The kubelet sets startTime. A pod that it has not seen yet is protected: its time has not begun:
    # https://karpenter.sh/docs/concepts/disruption/
    start = pod.status.start_time
    if start is None or (now - start).total_seconds() < seconds:
        return f"{DO_NOT_DISRUPT} holds for {value} after its start"
    return ""


def do_not_disrupt_until(pod: Pod) -> datetime | None:
    """Return when the do-not-disrupt annotation ends by itself; None when it does not end."""
    seconds = _seconds(pod.metadata.annotations.get(DO_NOT_DISRUPT, ""))
    start = pod.status.start_time
    return None if seconds is None or start is None else start + timedelta(seconds=seconds)


def has_do_not_disrupt(pod: Pod, now: datetime) -> bool:
    """Whether the do-not-disrupt annotation applies now."""
    return bool(do_not_disrupt_reason(pod, now))


def is_evictable(pod: Pod, now: datetime) -> bool:
    """Whether a drain of its node may evict the pod now."""
    stays = tolerates_disrupted_taint(pod) or is_owned_by_node(pod) or has_do_not_disrupt(pod, now)
    return is_active(pod) and not stays


def is_ready(pod: Pod) -> bool:
    """Whether the condition Ready of the pod is True."""
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)


def _seconds(value: str) -> float | None:
    try:
        return parse_duration(value).total_seconds()
    except DurationError:
        return None


def controller_of(pod: Pod) -> OwnerReference | None:
    """Return the object that recreates a pod; None for a pod that does not come back."""
    return next((owner for owner in pod.metadata.owner_references if owner.controller), None)
