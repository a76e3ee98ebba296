"""Jobs and CronJobs."""

from functools import partial
from typing import Any

from tests.contract.kubernetes.api import Api, Object, done, eventually
from tests.contract.kubernetes.machines import finish, living, now, run
from tests.contract.kubernetes.objects import job


def pods(api: Api, name: str = "work") -> list[Object]:
    """Return the pods of a Job that have not ended."""
    found = living(api, f"job-name={name}")
    return [each for each in found if each["status"]["phase"] not in {"Succeeded", "Failed"}]


def status(api: Api, name: str = "work") -> Object:
    found: Object = api.read("jobs", name)["status"]
    return found


def condition(api: Api, kind: str) -> Object:
    """Wait for a condition of the Job that holds, and return it."""

    def probe() -> Object | None:
        held = [
            each
            for each in status(api).get("conditions", [])
            if each["type"] == kind and each["status"] == "True"
        ]
        return held[0] if held else None

    return eventually(probe)


def has_ended(api: Api, name: str) -> bool:
    """Whether a pod is no longer counted among those at work."""
    return name not in [each["metadata"]["name"] for each in pods(api)]


def end(api: Api, phase: str = "Succeeded", *, count: int = 1) -> None:
    """Run and end as many pods of the Job."""
    for _ in range(count):
        name = eventually(lambda: pods(api)[0]["metadata"]["name"])
        run(api, name)
        finish(api, name, phase)
        eventually(partial(has_ended, api, name))


def test_what_the_server_fills_in(api: Api) -> None:
    """A Job selects its pods by a label with its own uid."""
    made = api.make("jobs", job("work", spec={"suspend": True}))
    uid = made["metadata"]["uid"]

    spec = made["spec"]
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert spec["template"]["metadata"]["labels"] == {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "work",
        "controller-uid": uid,
        "job-name": "work",
    }
    assert (spec["parallelism"], spec["completions"], spec["backoffLimit"]) == (1, 1, 6)
    assert (spec["completionMode"], spec["manualSelector"]) == ("NonIndexed", False)


def test_a_job_runs_one_pod(api: Api) -> None:
    """One pod, owned by the Job, with a finalizer until it is counted."""
    api.make("jobs", job("work"))

    [one] = eventually(lambda: pods(api))

    assert one["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    assert one["metadata"]["ownerReferences"][0]["kind"] == "Job"
    assert one["metadata"]["name"].startswith("work-")
    assert eventually(lambda: status(api).get("active") == 1)
    assert status(api)["startTime"]


def test_a_job_completes(api: Api) -> None:
    """When the pod has succeeded, so has the Job, and the pod is let go."""
    api.make("jobs", job("work"))
    end(api)

    complete = condition(api, "Complete")

    found = status(api)
    assert (complete["reason"], complete["message"]) == (
        "CompletionsReached",
        "Reached expected number of succeeded pods",
    )
    assert (found["succeeded"], found.get("active", 0)) == (1, 0)
    assert found["completionTime"]
    [pod] = done(api.find("pods", labelSelector="job-name=work"))["items"]
    assert "finalizers" not in pod["metadata"]


def test_completions_and_parallelism(api: Api) -> None:
    """Never more at once than allowed, as many in all as asked for."""
    api.make("jobs", job("work", spec={"completions": 3, "parallelism": 2}))
    eventually(lambda: len(pods(api)) == 2)

    end(api, count=2)

    assert eventually(lambda: status(api).get("succeeded") == 2 and len(pods(api)) == 1)
    end(api)
    assert condition(api, "Complete")


def test_an_indexed_job(api: Api) -> None:
    """Indexed pods know their number."""
    api.make("jobs", job("work", spec={"completions": 2, "parallelism": 2, "completionMode": "Indexed"}))
    found = eventually(lambda: pods(api) if len(pods(api)) == 2 else None)

    numbers = sorted(
        each["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for each in found
    )
    assert numbers == ["0", "1"]
    assert {each["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for each in found} == {
        "0",
        "1",
    }
    assert all(
        each["metadata"]["name"].startswith(f"work-{index}-")
        for index, each in enumerate(sorted(found, key=_name))
    )
    end(api, count=2)
    assert eventually(lambda: status(api).get("completedIndexes") == "0,1")


def _name(found: Object) -> str:
    return str(found["metadata"]["name"])


def test_too_many_failures(api: Api) -> None:
    """After the limit of failures the Job has failed."""
    api.make("jobs", job("work", spec={"backoffLimit": 0}))
    end(api, "Failed")

    failed = condition(api, "Failed")

    assert (failed["reason"], failed["message"]) == (
        "BackoffLimitExceeded",
        "Job has reached the specified backoff limit",
    )
    assert status(api)["failed"] == 1


def test_a_deadline(api: Api) -> None:
    """A Job that takes too long fails, and its pods go."""
    api.make("jobs", job("work", spec={"activeDeadlineSeconds": 1}))
    eventually(lambda: pods(api))

    failed = condition(api, "Failed")

    assert (failed["reason"], failed["message"]) == (
        "DeadlineExceeded",
        "Job was active longer than specified deadline",
    )
    assert eventually(lambda: not pods(api))


def test_suspending(api: Api) -> None:
    """A suspended Job has no pods; resumed, it has."""
    api.make("jobs", job("work", spec={"suspend": True}))
    suspended = condition(api, "Suspended")
    assert (suspended["reason"], suspended["message"]) == ("JobSuspended", "Job suspended")
    assert not pods(api)

    done(api.patch("jobs", "work", {"spec": {"suspend": False}}))

    assert eventually(lambda: pods(api))


def test_time_to_live(api: Api) -> None:
    """A finished Job with a time to live of nothing is removed, with its pods."""
    api.make("jobs", job("work", spec={"ttlSecondsAfterFinished": 0}))
    end(api)

    assert eventually(lambda: api.gone("jobs", "work"))
    assert eventually(lambda: not done(api.find("pods", labelSelector="job-name=work"))["items"])


def test_a_policy_for_failures(api: Api) -> None:
    """A pod failure policy may end the Job at once."""
    rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]
    api.make("jobs", job("work", spec={"backoffLimit": 6, "podFailurePolicy": {"rules": rules}}))
    end(api, "Failed")

    failed = condition(api, "Failed")

    assert failed["reason"] == "PodFailurePolicy"
    assert failed["message"].startswith(f"Container main for pod {api.namespace}/work-")
    assert failed["message"].endswith(" failed with exit code 1 matching FailJob rule at index 0")


def test_failures_may_be_ignored(api: Api) -> None:
    """A failure that the policy ignores does not count towards the limit."""
    rules = [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}]
    api.make("jobs", job("work", spec={"backoffLimit": 0, "podFailurePolicy": {"rules": rules}}))
    end(api, "Failed")

    assert eventually(lambda: status(api).get("active", 0) == 0 and status(api).get("ready") == 0)
    assert "failed" not in status(api)
    assert "conditions" not in status(api)


def cron(**fields: Any) -> Object:
    """Return a CronJob that is due every minute."""
    template = {"spec": {"template": job("x")["spec"]["template"]}}
    return {
        "metadata": {"name": "often"},
        "spec": {"schedule": "* * * * *", "jobTemplate": template, **fields},
    }


def test_a_cron_job_filled_in(api: Api) -> None:
    """Defaults of a CronJob."""
    spec = api.make("cronjobs", cron(suspend=True))["spec"]

    assert (
        spec["concurrencyPolicy"],
        spec["successfulJobsHistoryLimit"],
        spec["failedJobsHistoryLimit"],
    ) == ("Allow", 3, 1)


def test_bad_schedules(api: Api) -> None:
    """A schedule that cannot be read is refused."""
    answer = api.create("cronjobs", cron(schedule="now and then"))

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.causes[0][:2] == ("spec.schedule", "FieldValueInvalid")


def test_a_suspended_cron_job_does_nothing(api: Api) -> None:
    """Suspended means no Jobs."""
    api.make("cronjobs", cron(suspend=True))

    assert done(api.find("jobs"))["items"] == []
    assert now()
