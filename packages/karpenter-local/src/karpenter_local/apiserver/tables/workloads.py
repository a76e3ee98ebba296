"""Workloads: deployments, sets, jobs and disruption budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter_local.apiserver.tables.columns import (
    AGE,
    NAME,
    NONE,
    Cell,
    Object,
    TableColumn,
    ago,
    at,
    column,
    count,
    dig,
    human,
    labels,
    parse_time,
    selector,
)

if TYPE_CHECKING:
    from datetime import datetime


def _containers(template: str, key: str) -> Cell:
    def cell(value: Object, _: datetime) -> str:
        found = dig(value, f"{template}.spec.containers") or ()
        return ",".join(item.get(key, "") for item in found)

    return cell


def _selector(path: str) -> Cell:
    def cell(value: Object, _: datetime) -> str:
        return selector(dig(value, path))

    return cell


def _map(path: str) -> Cell:
    def cell(value: Object, _: datetime) -> str:
        return labels(dig(value, path))

    return cell


def _wide(template: str = "spec.template") -> tuple[TableColumn, ...]:
    return (
        column("Containers", _containers(template, "name"), wide=True),
        column("Images", _containers(template, "image"), wide=True),
    )


def _of(ready: str, wanted: str) -> Cell:
    def cell(value: Object, _: datetime) -> str:
        return f"{dig(value, ready) or 0}/{dig(value, wanted) or 0}"

    return cell


def _number(name: str, path: str) -> TableColumn:
    return column(name, count(path), type_="integer")


_REPLICAS = (
    NAME,
    _number("Desired", "spec.replicas"),
    _number("Current", "status.replicas"),
    _number("Ready", "status.readyReplicas"),
    AGE,
    *_wide(),
)
DEPLOYMENTS = (
    NAME,
    column("Ready", _of("status.readyReplicas", "spec.replicas")),
    column("Up-to-date", count("status.updatedReplicas")),
    column("Available", count("status.availableReplicas")),
    AGE,
    *_wide(),
    column("Selector", _selector("spec.selector"), wide=True),
)
REPLICASETS = (*_REPLICAS, column("Selector", _selector("spec.selector"), wide=True))
REPLICATION_CONTROLLERS = (*_REPLICAS, column("Selector", _map("spec.selector"), wide=True))
STATEFULSETS = (NAME, column("Ready", _of("status.readyReplicas", "spec.replicas")), AGE, *_wide())
DAEMONSETS = (
    NAME,
    _number("Desired", "status.desiredNumberScheduled"),
    _number("Current", "status.currentNumberScheduled"),
    _number("Ready", "status.numberReady"),
    _number("Up-to-date", "status.updatedNumberScheduled"),
    _number("Available", "status.numberAvailable"),
    column("Node Selector", _map("spec.template.spec.nodeSelector")),
    AGE,
    *_wide(),
    column("Selector", _selector("spec.selector"), wide=True),
)


def _job_status(job: Object, _: datetime) -> str:
    for item in dig(job, "status.conditions") or ():
        if item["status"] == "True" and item["type"] in {"Complete", "Failed"}:
            return str(item["type"])
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    held = {item["type"] for item in dig(job, "status.conditions") or () if item["status"] == "True"}
    for name, shown in (
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if name in held:
            return shown
    return "Running"


def _completions(job: Object, _: datetime) -> str:
    done = dig(job, "status.succeeded") or 0
    wanted = dig(job, "spec.completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = dig(job, "spec.parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _duration(job: Object, now: datetime) -> str:
    start, end = dig(job, "status.startTime"), dig(job, "status.completionTime")
    if not start:
        return ""
    until = parse_time(end) if end else now
    return human((until - parse_time(start)).total_seconds())


JOBS = (
    NAME,
    column("Status", _job_status),
    column("Completions", _completions),
    column("Duration", _duration),
    AGE,
    *_wide(),
    column("Selector", _selector("spec.selector"), wide=True),
)


def _last_schedule(cron: Object, now: datetime) -> str:
    last = dig(cron, "status.lastScheduleTime")
    return ago(last, now) if last else NONE


def _active(cron: Object, _: datetime) -> int:
    return len(dig(cron, "status.active") or ())


def _suspended(cron: Object, _: datetime) -> str:
    return "True" if dig(cron, "spec.suspend") else "False"


CRONJOBS = (
    NAME,
    column("Schedule", at("spec.schedule")),
    column("Timezone", at("spec.timeZone", NONE)),
    column("Suspend", _suspended, type_="boolean"),
    column("Active", _active, type_="integer"),
    column("Last Schedule", _last_schedule),
    AGE,
    *_wide("spec.jobTemplate.spec.template"),
    column("Selector", _selector("spec.jobTemplate.spec.selector"), wide=True),
)


def _threshold(path: str) -> Cell:
    def cell(value: Object, _: datetime) -> Any:
        found = dig(value, path)
        return "N/A" if found is None else str(found)

    return cell


BUDGETS = (
    NAME,
    column("Min Available", _threshold("spec.minAvailable")),
    column("Max Unavailable", _threshold("spec.maxUnavailable")),
    _number("Allowed Disruptions", "status.disruptionsAllowed"),
    AGE,
)


def _controller(revision: Object, _: datetime) -> str:
    for ref in revision["metadata"].get("ownerReferences") or ():
        if ref.get("controller"):
            group = ref["apiVersion"].partition("/")[0] if "/" in ref["apiVersion"] else ""
            kind = ref["kind"].lower()
            return f"{kind}.{group}/{ref['name']}" if group else f"{kind}/{ref['name']}"
    return NONE


REVISIONS = (NAME, column("Controller", _controller), column("Revision", count("revision")), AGE)
TEMPLATES = (
    NAME,
    column("Containers", _containers("template", "name")),
    column("Images", _containers("template", "image")),
    column("Pod Labels", _map("template.metadata.labels")),
)
PRIORITIES = (
    NAME,
    column("Value", count("value"), type_="integer"),
    column("Global-Default", at("globalDefault", False), type_="boolean"),
    AGE,
    column("PreemptionPolicy", at("preemptionPolicy")),
)
