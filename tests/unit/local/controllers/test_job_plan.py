"""How jobs count, and when they are over."""

from typing import Any

import pytest

from karpenter.api.pod import Pod
from karpenter.kube.targets import Plain
from karpenter_local.controllers import job_plan
from karpenter_local.controllers.job_plan import FINALIZER, INDEX, JobResult, parse_indexes, render_indexes
from tests.unit.local.controllers.objects import NOW, at, pod, workload


def job(*, status: dict[str, Any] | None = None, **spec: Any) -> Plain:
    return workload("Job", "work", status=status or {}, **spec)


def run(
    name: str, phase: str = "Running", *, counted: bool = False, index: int | None = None, **more: Any
) -> Pod:
    """Return a pod of a job; its end has not been counted unless told so."""
    meta: dict[str, Any] = {"finalizers": [] if counted else [FINALIZER]}
    if index is not None:
        meta["annotations"] = {INDEX: str(index)}
    return pod(name, phase=phase, metadata=meta, **more)


def look(found: Plain, *mine: Pod) -> tuple[job_plan.JobCounts, JobResult | None, job_plan.JobStep]:
    request = job_plan.request_of(found)
    count = job_plan.count_pods(found, request, mine)
    result = job_plan.finished(found, request, count, NOW)
    return count, result, job_plan.next_step(found, request, count, result, NOW)


@pytest.mark.parametrize(
    ("spec", "mine", "create", "delete"),
    [
        pytest.param({}, [], 1, [], id="one pod by default"),
        pytest.param({"completions": 5, "parallelism": 2}, [], 2, [], id="as many as may run at once"),
        pytest.param({"completions": 5, "parallelism": 2}, [run("a")], 1, [], id="one runs already"),
        pytest.param(
            {"completions": 2, "parallelism": 2},
            [run("a", "Succeeded")],
            1,
            [],
            id="no more than are still needed",
        ),
        pytest.param(
            {"parallelism": 1}, [run("a"), run("b", ready=False)], 0, ["b"], id="parallelism was lowered"
        ),
        pytest.param({"suspend": True}, [run("a")], 0, ["a"], id="suspended"),
        pytest.param(
            {"parallelism": 3},
            [run("a", "Succeeded"), run("b")],
            0,
            [],
            id="a work queue starts none after a success",
        ),
        pytest.param(
            {"completions": 2, "podReplacementPolicy": "Failed"},
            [run("a", leaving=True)],
            0,
            [],
            id="waits for its end",
        ),
        pytest.param({"completions": 2}, [run("a", leaving=True, age=99)], 1, [], id="does not wait"),
    ],
)
def test_next_step(spec: dict[str, Any], mine: list[Pod], create: int, delete: list[str]) -> None:
    """A job keeps as many pods going as it may and still needs."""
    _, _, step = look(job(**spec), *mine)

    assert (len(step.create), [each.name for each in step.delete]) == (create, delete)


def test_failures_slow_down() -> None:
    """After a failure the next try waits, longer each time."""
    once = look(job(), run("a", "Failed", ready_for=4))[2]
    assert (once.create, once.wait) == ((), 6.0)

    thrice = look(job(status={"failed": 2}), run("a", "Failed", ready_for=4))[2]
    assert (thrice.create, thrice.wait) == ((), 36.0)

    assert len(look(job(), run("a", "Failed", ready_for=11))[2].create) == 1


@pytest.mark.parametrize(
    ("spec", "status", "mine", "expected"),
    [
        pytest.param({"completions": 2}, {}, [run("a", "Succeeded")], None, id="not yet"),
        pytest.param({"completions": 1}, {}, [run("a", "Succeeded")], "CompletionsReached", id="enough"),
        pytest.param(
            {"completions": 2},
            {"succeeded": 1},
            [run("a", "Succeeded")],
            "CompletionsReached",
            id="together enough",
        ),
        pytest.param({}, {"succeeded": 1}, [run("b")], None, id="a work queue waits for the others"),
        pytest.param({}, {"succeeded": 1}, [], "CompletionsReached", id="and then is done"),
        pytest.param(
            {"backoffLimit": 0}, {}, [run("a", "Failed")], "BackoffLimitExceeded", id="one failure too many"
        ),
        pytest.param({"backoffLimit": 1}, {}, [run("a", "Failed")], None, id="one failure is allowed"),
        pytest.param(
            {"activeDeadlineSeconds": 60},
            {"startTime": at(-60)},
            [run("a")],
            "DeadlineExceeded",
            id="too long",
        ),
        pytest.param(
            {"activeDeadlineSeconds": 60}, {"startTime": at(-59)}, [run("a")], None, id="long, but not too"
        ),
    ],
)
def test_judge(spec: dict[str, Any], status: dict[str, Any], mine: list[Pod], expected: str | None) -> None:
    """A job is over when enough pods succeeded, too many failed, or it took too long."""
    _, result, _ = look(job(status=status, **spec), *mine)

    assert (result.reason if result else None) == expected


def test_restarts_count_where_containers_are_restarted() -> None:
    """A pod that is restarted in place fails without ending, and that counts."""
    found = job(backoffLimit=2)
    found["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    tired = run("a", status={"containerStatuses": [{"name": "main", "restartCount": 2}]})

    assert look(found, tired)[1] is not None


def test_nothing_counts_twice() -> None:
    """An end that was being counted when the controller stopped is not counted again."""
    mine = [run("good", "Succeeded"), run("bad", "Failed"), run("old", "Succeeded", counted=True)]
    first = look(job(completions=9), *mine)[0]
    assert (first.succeeded, first.failed) == (1, 1)

    noted = {
        "succeeded": 1,
        "failed": 1,
        "uncountedTerminatedPods": {"succeeded": ["uid-good"], "failed": ["uid-bad"]},
    }
    again = look(job(completions=9, status=noted), *mine)[0]

    assert (again.succeeded, again.failed) == (1, 1)
    assert {each.name for each in again.to_release} == {"good", "bad"}


def test_pods_that_are_taken_away_have_failed() -> None:
    """A pod that is deleted while it runs counts as failed, but not if the job was suspended."""
    assert look(job(), run("a", leaving=True))[0].failed == 1
    assert look(job(podReplacementPolicy="Failed"), run("a", leaving=True))[0].failed == 0

    suspended = look(job(suspend=True), run("a", leaving=True))[0]
    assert suspended.failed == 0
    assert [each.name for each in suspended.to_release] == ["a"]


def test_indexes() -> None:
    """An indexed job starts what has neither succeeded nor runs, and remembers which succeeded."""
    found = job(completions=6, parallelism=6, completionMode="Indexed", status={"completedIndexes": "0,2"})
    count, result, step = look(found, run("a", "Succeeded", index=3), run("b", index=4))

    assert (count.completed, result) == (frozenset({0, 2, 3}), None)
    assert step.create == (1, 5)
    done = look(job(completions=1, completionMode="Indexed"), run("a", "Succeeded", index=0))
    assert done[1] is not None


@pytest.mark.parametrize(
    ("text", "indexes"),
    [("", []), ("3", [3]), ("1,2", [1, 2]), ("0,2-4,9", [0, 2, 3, 4, 9])],
    ids=["none", "one", "two neighbours", "a span"],
)
def test_lists_of_indexes(text: str, indexes: list[int]) -> None:
    """Indexes are written shortly and read back."""
    assert render_indexes(indexes) == text
    assert parse_indexes(text) == indexes


def test_status_of_an_end() -> None:
    """The end is announced at once, and final when the last pod is gone."""
    found = job(completions=1)
    request = job_plan.request_of(found)
    count = job_plan.count_pods(found, request, [run("a", "Succeeded"), run("b")])
    result = job_plan.finished(found, request, count, NOW)

    early = job_plan.status(found, request, count, result, now=NOW, settled=False)
    assert [each["type"] for each in early["conditions"]] == ["SuccessCriteriaMet"]
    assert "completionTime" not in early

    late = job_plan.status({**found, "status": early}, request, count, result, now=NOW, settled=True)
    assert [each["type"] for each in late["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert late["completionTime"] == at(0)
    assert job_plan.result_of({**found, "status": late}) == late["conditions"][1]
    assert job_plan.result_of(found) is None


def test_status_of_a_failure() -> None:
    """A failure is announced in the same two steps."""
    found = job(backoffLimit=0)
    request = job_plan.request_of(found)
    count = job_plan.count_pods(found, request, [run("a", "Failed")])
    result = job_plan.finished(found, request, count, NOW)
    ended = job_plan.status(found, request, count, result, now=NOW, settled=True)

    assert [each["type"] for each in ended["conditions"]] == ["FailureTarget", "Failed"]
    assert ended["uncountedTerminatedPods"] == {"failed": ["uid-a"]}


def test_suspension() -> None:
    """A suspended job has not started; one that is resumed has."""
    found = job(suspend=True)
    request = job_plan.request_of(found)
    count = job_plan.count_pods(found, request, [])
    paused = job_plan.status(found, request, count, None, now=NOW, settled=True)
    assert "startTime" not in paused
    assert paused["conditions"][0]["reason"] == "JobSuspended"

    resumed = {**job(), "status": paused}
    again = job_plan.status(resumed, job_plan.request_of(resumed), count, None, now=NOW, settled=True)
    assert again["startTime"] == at(0)
    assert again["conditions"][0]["reason"] == "JobResumed"


def test_pod_for() -> None:
    """A pod says which job, and for indexed jobs which part of it, it is for."""
    whole, part = job_plan.pod_for(job(), None), job_plan.pod_for(job(), 3)

    assert whole["metadata"]["finalizers"] == [FINALIZER]
    assert whole["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "work"
    assert part["metadata"]["generateName"] == "work-3-"
    assert part["spec"]["hostname"] == "work-3"
    assert part["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
    assert part["metadata"]["annotations"][INDEX] == "3"
