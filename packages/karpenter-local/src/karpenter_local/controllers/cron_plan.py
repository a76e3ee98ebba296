"""
What a cron job's schedule means at a moment: which time has come, how many were missed, when the next one
comes.

Pure: ``now`` is an argument. Only the latest of several missed times is ever made up for.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec

from karpenter.base.cron import Schedule
from karpenter.kube.targets import Plain
from karpenter_local.controllers import job_plan, plain

SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
# https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/
MOST_MISSED = 100
"""More missed times than this are not counted one by one."""

_LOOK_BACK = 5


class Times(msgspec.Struct, frozen=True):
    """Start times that a schedule yields at one moment."""

    due: datetime | None
    """The latest time that has come and was not acted on."""
    missed: int
    next: datetime | None


def times(schedule: Schedule, zone: ZoneInfo, since: datetime, now: datetime) -> Times:
    """Return what came due after `since` and up to `now`, and what comes next."""
    first = _after(schedule, zone, since)
    if first is None or first > now:
        return Times(None, 0, first)
    due, missed = first, 1
    second = _after(schedule, zone, first)
    if second is not None and (now - first) > MOST_MISSED * (second - first):
        missed = MOST_MISSED
        due = max(first, now - _LOOK_BACK * (second - first))
        due = _after(schedule, zone, due) or first
        if due > now:
            due = first
    upcoming = _after(schedule, zone, due)
    while upcoming is not None and upcoming <= now:
        due = upcoming
        missed += 1
        upcoming = _after(schedule, zone, due)
    return Times(due, missed, upcoming)


def last_acted_on(cron_job: Plain, now: datetime) -> datetime:
    """
    Return the moment after which times count: the last start, the creation, or as far as the deadline
    reaches.
    """
    since = plain.parse_time(plain.status_of(cron_job).get("lastScheduleTime")) or plain.created_at(cron_job)
    deadline = plain.spec_of(cron_job).get("startingDeadlineSeconds")
    if deadline is not None:
        since = max(since, now - timedelta(seconds=int(deadline)))
    return since


def job_for(cron_job: Plain, due: datetime) -> Plain:
    """Return the job that the cron job starts for a time; its name says which."""
    template = plain.spec_of(cron_job)["jobTemplate"]
    meta = template.get("metadata") or {}
    return {
        "metadata": {
            "name": f"{plain.name_of(cron_job)}-{int(due.timestamp()) // 60}",
            "namespace": plain.namespace_of(cron_job),
            "labels": dict(meta.get("labels") or {}),
            "annotations": {**(meta.get("annotations") or {}), SCHEDULED_AT: plain.render_time(due)},
            "ownerReferences": [plain.reference_to(cron_job)],
        },
        "spec": template["spec"],
    }


def expendable(cron_job: Plain, jobs: Sequence[Plain]) -> list[Plain]:
    """Return the finished jobs beyond the history that is kept, the oldest first."""
    spec = plain.spec_of(cron_job)
    found: list[Plain] = []
    for kind, field, default in (
        ("Complete", "successfulJobsHistoryLimit", 3),
        ("Failed", "failedJobsHistoryLimit", 1),
    ):
        ended = [each for each in jobs if (job_plan.result_of(each) or {}).get("type") == kind]
        ended.sort(key=lambda each: (plain.created_at(each), plain.name_of(each)))
        found += ended[: max(0, len(ended) - int(spec.get(field, default)))]
    return found


def status(cron_job: Plain, jobs: Sequence[Plain], *, started: datetime | None) -> Plain:
    old = plain.status_of(cron_job)
    active = [each for each in jobs if job_plan.result_of(each) is None]
    successes = [
        ended["lastTransitionTime"]
        for each in jobs
        if (ended := job_plan.result_of(each)) is not None and ended["type"] == "Complete"
    ]
    result: Plain = {
        "active": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": plain.name_of(each),
                "namespace": plain.namespace_of(each),
                "uid": plain.uid_of(each),
                "resourceVersion": each["metadata"].get("resourceVersion", ""),
            }
            for each in sorted(active, key=plain.name_of)
        ],
        "lastScheduleTime": plain.render_time(started) if started else old.get("lastScheduleTime"),
        "lastSuccessfulTime": max([*successes, *filter(None, [old.get("lastSuccessfulTime")])], default=None),
    }
    known = {each["uid"]: each for each in old.get("active") or ()}
    # A job that only changed keeps its entry: else every change of a job would be one of its cron job.
    result["active"] = [known.get(each["uid"], each) for each in result["active"]]
    return {key: value for key, value in result.items() if value}


def _after(schedule: Schedule, zone: ZoneInfo, moment: datetime) -> datetime | None:
    """Return the next time after `moment` by the clocks of `zone`."""
    found = schedule.next_after(moment.astimezone(zone).replace(tzinfo=UTC))
    return None if found is None else found.replace(tzinfo=zone).astimezone(UTC)
