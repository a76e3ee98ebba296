"""
The status of a pod in each phase, as a kubelet writes it.

Pure: a pod, a moment and addresses in, plain data for a strategic merge patch out. Conditions that others
write (PodScheduled, DisruptionTarget, readiness gates) are left alone: lists of conditions are merged by
type. So is the class of service, which the API server sets when the pod is made and lets no one change.
"""

from datetime import datetime
from typing import Any

import msgspec

from karpenter.api.pod import Container, Pod
from karpenter.kube.targets import Plain
from karpenter_local.controllers.plain import render_time


class PodAddresses(msgspec.Struct, frozen=True):
    """Where a pod runs, in addresses."""

    host: str
    pod: str


def creating(pod: Pod, place: PodAddresses, now: datetime) -> Plain:
    waits = "PodInitializing" if pod.spec.init_containers else "ContainerCreating"
    status: Plain = {
        "phase": "Pending",
        "hostIP": place.host,
        "hostIPs": [{"ip": place.host}],
        "startTime": render_time(now),
        "conditions": _conditions(pod, now, initialized=not pod.spec.init_containers, ready=False),
        "containerStatuses": [_waiting(each, waits) for each in pod.spec.containers],
    }
    if pod.spec.init_containers:
        status["initContainerStatuses"] = [
            _waiting(each, "PodInitializing") for each in pod.spec.init_containers
        ]
    return status


def running(pod: Pod, place: PodAddresses, now: datetime, *, ready: bool, restarts: int = 0) -> Plain:
    ready = ready and all(_gate_is_open(pod, gate.condition_type) for gate in pod.spec.readiness_gates)
    started = pod.status.start_time or now
    status: Plain = {
        "phase": "Running",
        "hostIP": place.host,
        "hostIPs": [{"ip": place.host}],
        "podIP": place.pod,
        "podIPs": [{"ip": place.pod}],
        "startTime": render_time(started),
        "conditions": _conditions(pod, now, initialized=True, ready=ready),
        "containerStatuses": [
            _entry(each, {"running": {"startedAt": render_time(now)}}, ready=ready, restarts=restarts)
            for each in pod.spec.containers
        ],
    }
    if pod.spec.init_containers:
        status["initContainerStatuses"] = [
            _entry(each, {"running": {"startedAt": render_time(now)}}, ready=True)
            if each.restart_policy == "Always"
            else _entry(each, _terminated(0, now), ready=True)
            for each in pod.spec.init_containers
        ]
    return status


def ended(pod: Pod, now: datetime, *, exit_code: int, reason: str = "", message: str = "") -> Plain:
    """Return the status of a pod whose containers have exited for good."""
    failed = exit_code != 0 or bool(reason)
    status: Plain = {
        "phase": "Failed" if failed else "Succeeded",
        "conditions": _conditions(
            pod, now, initialized=True, ready=False, why="PodFailed" if failed else "PodCompleted"
        ),
        "containerStatuses": [_entry(each, _terminated(exit_code, now)) for each in pod.spec.containers],
    }
    if reason:
        status["reason"] = reason
    if message:
        status["message"] = message
    return status


def rejected(now: datetime, *, reason: str, message: str) -> Plain:
    """Return the status of a pod that the node does not take."""
    return {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": render_time(now),
    }


def _conditions(
    pod: Pod, now: datetime, *, initialized: bool, ready: bool, why: str = "ContainersNotReady"
) -> list[Plain]:
    names = ", ".join(each.name for each in pod.spec.containers)
    unready_because = (
        {} if ready else {"reason": why, "message": f"containers with unready status: [{names}]"}
    )
    if not ready and why != "ContainersNotReady":
        unready_because = {"reason": why}
    wanted: list[tuple[str, bool, Plain]] = [
        ("PodReadyToStartContainers", initialized, {}),
        ("Initialized", initialized, {}),
        ("ContainersReady", ready, unready_because),
        ("Ready", ready, unready_because),
    ]
    known = {each.type: each for each in pod.status.conditions}
    result = []
    for kind, holds, more in wanted:
        text = "True" if holds else "False"
        before = known.get(kind)
        moved = before is None or before.status != text or before.last_transition_time is None
        since = now if moved or before is None else (before.last_transition_time or now)
        # A null removes what an earlier status said.
        cleared: Plain = {"reason": None, "message": None} if holds else {}
        entry = {
            "type": kind,
            "status": text,
            "lastProbeTime": None,
            "lastTransitionTime": render_time(since),
        }
        result.append({**entry, **cleared, **more})
    return result


def _gate_is_open(pod: Pod, kind: str) -> bool:
    return any(each.type == kind and each.status == "True" for each in pod.status.conditions)


def _waiting(container: Container, reason: str) -> Plain:
    return _entry(container, {"waiting": {"reason": reason}})


def _terminated(exit_code: int, now: datetime) -> Plain:
    return {
        "terminated": {
            "exitCode": exit_code,
            "reason": "Error" if exit_code else "Completed",
            "finishedAt": render_time(now),
        }
    }


def _entry(container: Container, state: dict[str, Any], *, ready: bool = False, restarts: int = 0) -> Plain:
    return {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": ready,
        "started": "running" in state,
        "restartCount": restarts,
        "state": state,
        "lastState": {},
    }
