"""
Node health: whether a node still reports, and the conditions and taints that follow.

A node whose lease was not renewed for longer than the lease lasts, and at least 40 s, is unreachable: its
conditions become Unknown. Taints follow from conditions: a node that is not ready, unreachable, under
pressure or cordoned gets no new pods, and in the first two cases pods that do not tolerate the taint are
evicted. See https://kubernetes.io/docs/concepts/architecture/nodes/

Pure: ``now`` is an argument.
"""

from datetime import datetime, timedelta

import msgspec

from karpenter.api.cluster import Lease
from karpenter.api.node import Node, NodeCondition, Taint
from karpenter.kube.targets import Plain
from karpenter_local.controllers.plain import render_time

# --node-monitor-grace-period and --node-startup-grace-period:
# https://kubernetes.io/docs/reference/command-line-tools-reference/kube-controller-manager/
GRACE_SECONDS = 40.0
"""Seconds of silence after which a node is not heard of."""
STARTUP_GRACE_SECONDS = 60.0
"""Seconds that a new node has to say something at all."""

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"

_SILENT_CONDITIONS = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
_TAINT_OF = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_OURS = frozenset({NOT_READY, UNREACHABLE, _UNSCHEDULABLE, *_TAINT_OF.values()})


class NodeHealthData(msgspec.Struct, frozen=True):
    """When something was last heard of a node, and what."""

    at: datetime
    renewed: datetime | None
    reported: datetime | None


def ready_condition(node: Node) -> NodeCondition | None:
    return next((each for each in node.status.conditions if each.type == "Ready"), None)


def update_health(
    node: Node, lease: Lease | None, before: NodeHealthData | None, now: datetime
) -> NodeHealthData:
    """Return when the node was last heard of: now, if its lease or its report is new to us."""
    renewed = lease.spec.renew_time if lease is not None else None
    ready = ready_condition(node)
    reported = ready.last_heartbeat_time if ready is not None and ready.status != "Unknown" else None
    if before is None:
        born = node.metadata.creation_timestamp or now
        first = now if ready is not None or renewed is not None else min(now, born)
        return NodeHealthData(first, renewed, reported)
    is_news = renewed != before.renewed or (reported is not None and reported != before.reported)
    return NodeHealthData(now if is_news else before.at, renewed, reported)


def is_silent(node: Node, lease: Lease | None, heard: NodeHealthData, now: datetime) -> bool:
    """Say whether the node has not been heard of for too long."""
    grace = GRACE_SECONDS
    if lease is not None:
        grace = max(grace, float(lease.spec.lease_duration_seconds or 0))
    if ready_condition(node) is None:
        grace = max(grace, STARTUP_GRACE_SECONDS)
    return now > heard.at + timedelta(seconds=grace)


def silent_conditions(node: Node, now: datetime) -> list[Plain]:
    """Return the conditions of a node that is not heard of, where they differ from what it has."""
    known = {each.type: each for each in node.status.conditions}
    changed = []
    for kind in _SILENT_CONDITIONS:
        before = known.get(kind)
        if before is not None and before.status == "Unknown":
            continue
        never = before is None
        changed.append(
            {
                "type": kind,
                "status": "Unknown",
                "reason": "NodeStatusNeverUpdated" if never else "NodeStatusUnknown",
                "message": (
                    "Kubelet never posted node status." if never else "Kubelet stopped posting node status."
                ),
                "lastHeartbeatTime": render_time(
                    (before.last_heartbeat_time if before is not None else None)
                    or node.metadata.creation_timestamp
                    or now
                ),
                "lastTransitionTime": render_time(now),
            }
        )
    return changed


def wanted_taints(node: Node, now: datetime) -> list[Plain] | None:
    """Return all taints that the node should have, in their order; None if it has them."""
    status = {each.type: each.status for each in node.status.conditions}
    wanted: list[tuple[str, str]] = []
    if node.spec.unschedulable:
        wanted.append((_UNSCHEDULABLE, "NoSchedule"))
    if status.get("Ready") == "False":
        wanted += [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]
    elif status.get("Ready") == "Unknown":
        wanted += [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
    elif "Ready" not in status:
        wanted.append((NOT_READY, "NoSchedule"))
    wanted += [(taint, "NoSchedule") for kind, taint in _TAINT_OF.items() if status.get(kind) == "True"]
    known = {(taint.key, taint.effect): taint for taint in node.spec.taints}
    kept = [
        _plain(taint)
        for taint in node.spec.taints
        if taint.key not in _OURS or (taint.key, taint.effect) in wanted
    ]
    added: list[Plain] = [
        {"key": key, "effect": effect, "timeAdded": render_time(now)}
        for key, effect in wanted
        if (key, effect) not in known
    ]
    if not added and len(kept) == len(node.spec.taints):
        return None
    return [*kept, *added]


def _plain(taint: Taint) -> Plain:
    result: Plain = {"key": taint.key, "effect": taint.effect}
    if taint.value:
        result["value"] = taint.value
    if taint.time_added is not None:
        result["timeAdded"] = render_time(taint.time_added)
    return result
