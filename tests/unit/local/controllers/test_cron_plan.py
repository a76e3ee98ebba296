"""What a schedule means at a moment."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from karpenter.base.cron import parse_cron
from karpenter.kube.targets import Plain
from karpenter_local.controllers import cron_plan
from tests.unit.local.controllers.objects import NOW, at, workload

UTC_ZONE = ZoneInfo("UTC")


def moment(text: str) -> datetime:
    """Return a time of the first day of 2025."""
    return datetime.fromisoformat(f"2025-01-01T{text}+00:00")


@pytest.mark.parametrize(
    ("schedule", "span", "expected"),
    [
        pytest.param("*/5 * * * *", "12:01 12:04", (None, 0, "12:05"), id="not yet"),
        pytest.param("*/5 * * * *", "12:01 12:05", ("12:05", 1, "12:10"), id="just now"),
        pytest.param("*/5 * * * *", "12:01 12:19", ("12:15", 3, "12:20"), id="only the latest of several"),
        pytest.param("* * * * *", "01:00 12:00", ("12:00", 104, "12:01"), id="too many to count"),
    ],
)
def test_times(schedule: str, span: str, expected: tuple[str | None, int, str]) -> None:
    """Of the times that have come, the latest counts; the rest are counted, roughly if they are many."""
    since, now = map(moment, span.split())
    due, missed, upcoming = expected
    found = cron_plan.times(parse_cron(schedule), UTC_ZONE, since, now)

    assert found.due == (moment(due) if due else None)
    assert (found.missed, found.next) == (missed, moment(upcoming))


def test_time_zones() -> None:
    """A schedule goes by the clocks of its zone."""
    found = cron_plan.times(parse_cron("0 9 * * *"), ZoneInfo("Asia/Tokyo"), moment("00:00"), moment("00:30"))

    assert found.due is None
    assert found.next == datetime(2025, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        pytest.param({}, {}, -3600, id="since it was made"),
        pytest.param({}, {"lastScheduleTime": at(-60)}, -60, id="since it last started one"),
        pytest.param(
            {"startingDeadlineSeconds": 10}, {"lastScheduleTime": at(-60)}, -10, id="not too long ago"
        ),
    ],
)
def test_last_acted_on(spec: dict[str, Any], status: dict[str, Any], expected: float) -> None:
    """Times count that came after the last one was acted on."""
    found = cron_plan.last_acted_on(workload("CronJob", "tick", status=status, **spec), NOW)

    assert (found - NOW).total_seconds() == expected


def cron_job(**spec: Any) -> Plain:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"template": {"spec": {}}}}
    return workload("CronJob", "tick", jobTemplate=template, **spec)


def test_job_for() -> None:
    """The job's name says for which minute it was started."""
    made = cron_plan.job_for(cron_job(), moment("12:05"))

    assert made["metadata"]["name"] == f"tick-{int(moment('12:05').timestamp()) // 60}"
    assert made["metadata"]["annotations"] == {cron_plan.SCHEDULED_AT: "2025-01-01T12:05:00Z"}
    assert made["metadata"]["labels"] == {"a": "b"}
    assert made["metadata"]["ownerReferences"][0]["kind"] == "CronJob"


def ended(name: str, kind: str, *, age: int) -> Plain:
    condition = {"type": kind, "status": "True", "lastTransitionTime": at(-age)}
    return workload(
        "Job", name, status={"conditions": [condition]}, metadata={"creationTimestamp": at(-age - 10)}
    )


def test_expendable() -> None:
    """Three successes and one failure are kept, the latest."""
    jobs = [ended(f"good{n}", "Complete", age=n) for n in range(5)] + [
        ended(f"bad{n}", "Failed", age=n) for n in range(2)
    ]

    gone = cron_plan.expendable(cron_job(), jobs)

    assert [each["metadata"]["name"] for each in gone] == ["good4", "good3", "bad1"]
    assert len(cron_plan.expendable(cron_job(successfulJobsHistoryLimit=0), jobs)) == 6


def test_status() -> None:
    """The status names what runs, and what last began and succeeded; a job's changes are no news."""
    running = workload("Job", "now", metadata={"resourceVersion": "7"})
    owner = cron_job()
    found = cron_plan.status(owner, [running, ended("done", "Complete", age=30)], started=moment("12:00"))

    assert [each["name"] for each in found["active"]] == ["now"]
    assert found["lastScheduleTime"] == "2025-01-01T12:00:00Z"
    assert found["lastSuccessfulTime"] == at(-30)

    running["metadata"]["resourceVersion"] = "8"
    again = cron_plan.status({**owner, "status": found}, [running], started=None)
    assert again["active"] == found["active"]
    assert again["lastSuccessfulTime"] == at(-30)
