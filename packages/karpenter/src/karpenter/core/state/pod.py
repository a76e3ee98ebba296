"""
What a pod is to us: waiting, running, leaving, a daemon, protected.

Small questions about one pod, each a function. Whether anything follows from the answer
is decided elsewhere; the time is an argument.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from karpenter.api.labels import DISRUPTED, DO_NOT_DISRUPT, NO_SCHEDULE
from karpenter.api.node import Taint
from karpenter.base.duration import DurationError, parse_duration
from karpenter.core.model.taints import tolerates

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.api.pod import Pod

_DISRUPTED: Final = Taint(key=DISRUPTED, effect=NO_SCHEDULE)


def is_terminal(pod: Pod) -> bool:
    """Whether the pod has run to its end."""
    return pod.status.phase in {"Succeeded", "Failed"}


def is_terminating(pod: Pod) -> bool:
    """Whether the pod has been asked to go."""
    return pod.metadata.deletion_timestamp is not None


def is_active(pod: Pod) -> bool:
    """Whether the pod runs or will run, and stays."""
    return not is_terminal(pod) and not is_terminating(pod)


def is_owned_by_daemonset(pod: Pod) -> bool:
    """Whether the pod belongs to a DaemonSet."""
    return any(
        owner.kind == "DaemonSet" and owner.api_version.startswith("apps/")
        for owner in pod.metadata.owner_references
    )


def is_owned_by_node(pod: Pod) -> bool:
    """Whether the pod is a node's own."""
    return any(owner.kind == "Node" and owner.api_version == "v1" for owner in pod.metadata.owner_references)


def is_owned_by_statefulset(pod: Pod) -> bool:
    """Whether the pod is one of a StatefulSet."""
    return any(o.kind == "StatefulSet" for o in pod.metadata.owner_references)


def is_unscheduled(pod: Pod) -> bool:
    """Whether the pod wants a node and neither has one nor waits for others to make room for it."""
    return (
        not pod.spec.node_name
        and is_active(pod)
        and not pod.spec.scheduling_gates
        and not pod.status.nominated_node_name
        and not is_owned_by_daemonset(pod)
        and not is_owned_by_node(pod)
    )


def is_reschedulable(pod: Pod) -> bool:
    """Whether the pod would run again elsewhere if its node went away."""
    stays = is_active(pod) or (is_owned_by_statefulset(pod) and is_terminating(pod) and not is_terminal(pod))
    return stays and not is_owned_by_daemonset(pod) and not is_owned_by_node(pod)


def has_dra_requirements(pod: Pod) -> bool:
    """Whether the pod needs devices that are claimed, not counted."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return bool(pod.spec.resource_claims) or any(each.resources.claims for each in containers)


def tolerates_disrupted_taint(pod: Pod) -> bool:
    """Whether the pod stays on a node that is being emptied."""
    return tolerates(pod.spec.tolerations, [_DISRUPTED])


def do_not_disrupt_reason(pod: Pod, now: datetime) -> str:
    """Return why the pod may not be disrupted by its own wish, or nothing."""
    value = pod.metadata.annotations.get(DO_NOT_DISRUPT)
    if value is None:
        return ""
    if value == "true":
        return f"{DO_NOT_DISRUPT} is true"
    seconds = _seconds(value)
    if seconds is None or seconds <= 0:
        return ""
    start = pod.status.start_time
    if start is None or (now - start).total_seconds() < seconds:
        return f"{DO_NOT_DISRUPT} holds for {value} after its start"
    return ""


def do_not_disrupt_until(pod: Pod) -> datetime | None:
    """Return when the pod's own wish not to be disrupted ends by itself; None when it has no such end."""
    seconds = _seconds(pod.metadata.annotations.get(DO_NOT_DISRUPT, ""))
    start = pod.status.start_time
    return None if seconds is None or start is None else start + timedelta(seconds=seconds)


def has_do_not_disrupt(pod: Pod, now: datetime) -> bool:
    """Whether the pod may not be disrupted by its own wish."""
    return bool(do_not_disrupt_reason(pod, now))


def is_evictable(pod: Pod, now: datetime) -> bool:
    """Whether emptying its node would evict the pod."""
    stays = tolerates_disrupted_taint(pod) or is_owned_by_node(pod) or has_do_not_disrupt(pod, now)
    return is_active(pod) and not stays


def is_ready(pod: Pod) -> bool:
    """Whether the pod serves."""
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)


def _seconds(value: str) -> float | None:
    try:
        return parse_duration(value).total_seconds()
    except DurationError:
        return None
