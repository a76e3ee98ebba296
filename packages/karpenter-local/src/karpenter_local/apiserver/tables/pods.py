"""Pods: ready containers, status, restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter_local.apiserver.tables.columns import (
    AGE,
    NAME,
    NONE,
    Object,
    TableColumn,
    column,
    human,
    parse_time,
)

if TYPE_CHECKING:
    from datetime import datetime


_FINISHED = frozenset({"Succeeded", "Failed"})


class PodSummary:
    """Ready containers, status and restarts of a pod, as ``kubectl get pods`` prints them."""

    __slots__ = ("last_restart", "ready", "restarts", "state", "total")

    def __init__(self, pod: Object) -> None:
        spec, status = pod.get("spec") or {}, pod.get("status") or {}
        sidecars = {
            item["name"] for item in spec.get("initContainers") or () if item.get("restartPolicy") == "Always"
        }
        self.total = len(spec.get("containers") or ()) + len(sidecars)
        self.ready = 0
        self.restarts = 0
        self.last_restart = ""
        self.state = _phase(status)
        initializing = self._init(spec, status, sidecars)
        if not initializing or _condition(status, "Initialized") == "True":
            self._main(status)
        if pod["metadata"].get("deletionTimestamp"):
            if status.get("reason") == "NodeLost":
                self.state = "Unknown"
            elif status.get("phase") not in _FINISHED:
                self.state = "Terminating"

    def _restarted(self, container: Object) -> None:
        self.restarts += container.get("restartCount", 0)
        finished = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        self.last_restart = max(self.last_restart, finished)

    def _init(self, spec: Object, status: Object, sidecars: set[str]) -> bool:
        total = len(spec.get("initContainers") or ())
        for index, container in enumerate(status.get("initContainerStatuses") or ()):
            self._restarted(container)
            state = container.get("state") or {}
            terminated, waiting = state.get("terminated"), state.get("waiting")
            if terminated is not None and terminated.get("exitCode", 0) == 0:
                continue
            if container["name"] in sidecars and container.get("started"):
                self.ready += 1 if container.get("ready") else 0
                continue
            if terminated is not None:
                self.state = f"Init:{_ended(terminated)}"
            elif waiting and waiting.get("reason") not in {None, "", "PodInitializing"}:
                self.state = f"Init:{waiting['reason']}"
            else:
                self.state = f"Init:{index}/{total}"
            return True
        return False

    def _main(self, status: Object) -> None:
        self.restarts, self.last_restart = 0, ""
        running = False
        for container in reversed(status.get("containerStatuses") or ()):
            self._restarted(container)
            state = container.get("state") or {}
            waiting, terminated = state.get("waiting") or {}, state.get("terminated")
            if waiting.get("reason"):
                self.state = waiting["reason"]
            elif terminated is not None:
                self.state = _ended(terminated)
            elif container.get("ready") and "running" in state:
                running = True
                self.ready += 1
        if self.state == "Completed" and running:
            self.state = "Running" if _condition(status, "Ready") == "True" else "NotReady"


def _ended(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _phase(status: Object) -> str:
    if any(
        item["type"] == "PodScheduled" and item.get("reason") == "SchedulingGated"
        for item in status.get("conditions") or ()
    ):
        return "SchedulingGated"
    return str(status.get("reason") or status.get("phase") or "")


def _condition(status: Object, name: str) -> str:
    for item in status.get("conditions") or ():
        if item["type"] == name:
            return str(item["status"])
    return ""


def _ready(pod: Object, _: datetime) -> str:
    summary = PodSummary(pod)
    return f"{summary.ready}/{summary.total}"


def _state(pod: Object, _: datetime) -> str:
    return PodSummary(pod).state


def _restarts(pod: Object, now: datetime) -> str:
    summary = PodSummary(pod)
    if summary.restarts and summary.last_restart:
        passed = human((now - parse_time(summary.last_restart)).total_seconds())
        return f"{summary.restarts} ({passed} ago)"
    return str(summary.restarts)


def _ip(pod: Object, _: datetime) -> str:
    status = pod.get("status") or {}
    first = next((item.get("ip") for item in status.get("podIPs") or ()), None)
    return first or status.get("podIP") or NONE


def _gates(pod: Object, _: datetime) -> str:
    gates = (pod.get("spec") or {}).get("readinessGates") or ()
    if not gates:
        return NONE
    met = sum(_condition(pod.get("status") or {}, gate["conditionType"]) == "True" for gate in gates)
    return f"{met}/{len(gates)}"


def _or_none(part: str, key: str) -> Any:
    def cell(pod: Object, _: datetime) -> str:
        return (pod.get(part) or {}).get(key) or NONE

    return cell


PODS: tuple[TableColumn, ...] = (
    NAME,
    column("Ready", _ready),
    column("Status", _state),
    column("Restarts", _restarts),
    AGE,
    column("IP", _ip, wide=True),
    column("Node", _or_none("spec", "nodeName"), wide=True),
    column("Nominated Node", _or_none("status", "nominatedNodeName"), wide=True),
    column("Readiness Gates", _gates, wide=True),
)
