"""What a job's failure policy makes of a pod that has failed."""

from typing import Any

import msgspec
import pytest

from karpenter.api.pod import Pod, PodStatus
from karpenter_local.controllers import job_plan
from karpenter_local.controllers.job_plan import JobResult
from karpenter_local.controllers.job_policy import Match, match
from tests.unit.local.controllers.objects import NOW
from tests.unit.local.controllers.test_job_plan import job, run

CODE = "Container c{} for pod default/a failed with exit code {}"
ONE = {"operator": "In", "values": [1]}
DISRUPTED = [{"type": "DisruptionTarget", "status": "True"}]


def rule(action: str, **when: Any) -> dict[str, Any]:
    return {"action": action, **when}


def failed(*codes: int, name: str = "a", conditions: tuple[dict[str, str], ...] = ()) -> Pod:
    """Return a pod whose containers ended with `codes`."""
    found = run(name, "Failed")
    ends = [
        {"name": f"c{number}", "state": {"terminated": {"exitCode": code}}}
        for number, code in enumerate(codes)
    ]
    status = {"phase": "Failed", "containerStatuses": ends, "conditions": list(conditions)}
    return msgspec.structs.replace(found, status=msgspec.convert(status, PodStatus))


@pytest.mark.parametrize(
    ("rules", "pod", "expected"),
    [
        pytest.param([], failed(1), None, id="no policy"),
        pytest.param(
            [rule("FailJob", onExitCodes=ONE)],
            failed(0, 1),
            Match("FailJob", f"{CODE.format(1, 1)} matching FailJob rule at index 0"),
            id="a code that is listed",
        ),
        pytest.param([rule("FailJob", onExitCodes=ONE)], failed(2), None, id="a code that is not listed"),
        pytest.param(
            [rule("Count", onExitCodes={"operator": "NotIn", "values": [1]})],
            failed(2),
            Match("Count", f"{CODE.format(0, 2)} matching Count rule at index 0"),
            id="a code that is not excepted",
        ),
        pytest.param(
            [rule("FailJob", onExitCodes={"operator": "NotIn", "values": [1]})],
            failed(0),
            None,
            id="success is never a failure",
        ),
        pytest.param(
            [rule("FailJob", onExitCodes={**ONE, "containerName": "c0"})],
            failed(0, 1),
            None,
            id="another container",
        ),
        pytest.param(
            [rule("FailJob", onExitCodes=ONE), rule("Ignore", onPodConditions=DISRUPTED)],
            failed(conditions=({"type": "DisruptionTarget", "status": "True"},)),
            Match("Ignore", "Pod default/a has condition DisruptionTarget matching Ignore rule at index 1"),
            id="a condition, by a later rule",
        ),
    ],
)
def test_match(rules: list[dict[str, Any]], pod: Pod, expected: Match | None) -> None:
    """The first rule that matches decides."""
    assert match(job(podFailurePolicy={"rules": rules}), pod) == expected


def test_a_fatal_failure_ends_the_job() -> None:
    """FailJob does not wait for the backoff limit."""
    found = job(podFailurePolicy={"rules": [rule("FailJob", onExitCodes=ONE)]})
    count = job_plan.count_pods(found, job_plan.request_of(found), [failed(1)])

    result = job_plan.finished(found, job_plan.request_of(found), count, NOW)

    assert isinstance(result, JobResult)
    assert (result.kind, result.reason) == ("Failed", "PodFailurePolicy")


def test_an_ignored_failure_is_let_go_and_not_counted() -> None:
    """Ignore neither counts nor holds on to the pod."""
    found = job(podFailurePolicy={"rules": [rule("Ignore", onExitCodes=ONE)]})

    count = job_plan.count_pods(found, job_plan.request_of(found), [failed(1)])

    assert (count.failed, [pod.name for pod in count.to_release]) == (0, ["a"])
