"""Machines that EC2 calls unwell: which are acted on, how, and how they are counted."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.errors import AccessDenied
from karpenter.cloud.aws.interruption.controller import InstanceClaims
from karpenter.cloud.aws.interruption.instancestatus import (
    NOT_ALLOWED_RETRY_SECONDS,
    POLL_SECONDS,
    InstanceStatusController,
)
from karpenter.cloud.aws.metrics import UNHEALTHY
from karpenter.core.effects import Amend, DeleteObject, Step
from karpenter.telemetry.metrics import Metrics
from karpenter_local.virtual import VirtualClock
from tests.unit.cloud.aws.scripted import NOW, ScriptedAws, instrumented, joined, launched, seen, virtually


def failed(seconds: float) -> dict[str, Any]:
    """Return a check that has failed for so many seconds."""
    since = NOW - timedelta(seconds=seconds)
    return {"Details": [{"Name": "reachability", "Status": "failed", "ImpairedSince": since}]}


def told(instance: str = "i-1", **what: Any) -> dict[str, Any]:
    """Return what EC2 says about an instance."""
    return {"InstanceId": instance, **what}


def looked(
    *rounds: list[dict[str, Any]], claims: tuple[NodeClaim, ...] = (launched(),)
) -> tuple[list[Step], Metrics]:
    """Return what came of rounds in which EC2 says these things, and the instruments."""

    async def main(clock: VirtualClock) -> tuple[list[Step], Metrics]:
        provider_metrics, metrics = instrumented(clock)
        aws = ScriptedAws()
        by_instance = InstanceClaims(seen(*claims, joined()))
        health = InstanceStatusController(aws, claims=by_instance, clock=clock, metrics=provider_metrics)
        steps = []
        for statuses in rounds:
            aws.answers["DescribeInstanceStatus"] = {"InstanceStatuses": statuses}
            steps.append(await health.look())
        return steps, metrics

    return virtually(main)


def acts(step: Step) -> list[str]:
    """Return what is done to claims, in short."""
    found = []
    for effect in step.effects:
        if isinstance(effect, Amend):
            found.append("hurry")
        elif isinstance(effect, DeleteObject):
            found.append(f"delete {effect.name}")
    return found


GRACEFUL = ["delete default-1"]
FORCEFUL = ["hurry", "delete default-1"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({"InstanceStatus": failed(121)}, FORCEFUL, id="an instance that is broken"),
        pytest.param({"InstanceStatus": failed(120)}, FORCEFUL, id="one that is broken just long enough"),
        pytest.param({"InstanceStatus": failed(119)}, [], id="one that may recover"),
        pytest.param({"SystemStatus": failed(600)}, FORCEFUL, id="hardware that is broken"),
        pytest.param({"SystemStatus": failed(10)}, [], id="hardware that may recover"),
        pytest.param({"AttachedEbsStatus": failed(600)}, [], id="a disk that is broken is left alone"),
        pytest.param({"InstanceStatus": {"Details": [{"Status": "failed"}]}}, [], id="not known since when"),
        pytest.param(
            {
                "InstanceStatus": {
                    "Details": [{"Status": "passed", "ImpairedSince": NOW - timedelta(hours=1)}]
                }
            },
            [],
            id="a check that passes",
        ),
        *(
            pytest.param({"Events": [{"Code": code}]}, GRACEFUL, id=f"{code} is planned")
            for code in (
                "instance-reboot",
                "system-reboot",
                "system-maintenance",
                "instance-retirement",
                "instance-stop",
            )
        ),
        pytest.param({"Events": [{"Code": "something-else"}]}, [], id="an event of another sort"),
        pytest.param(
            {"Events": [{"Code": "system-reboot", "Description": "[Completed] Rebooted"}]},
            [],
            id="an event that is over",
        ),
        pytest.param({}, [], id="nothing is wrong"),
    ],
)
def test_what_is_done(status: Mapping[str, Any], expected: list[str]) -> None:
    """A broken machine goes at once, one with plans is drained, and any other stays."""
    (step,), _ = looked([told(**status)])

    assert acts(step) == expected


def test_a_machine_that_is_not_ours_is_left_alone() -> None:
    """EC2 tells of all instances of the account."""
    (step,), metrics = looked([told("i-2", SystemStatus=failed(600))])

    assert (acts(step), metrics[UNHEALTHY].value(category="SystemStatus")) == ([], 0.0)


def test_a_claim_that_leaves_is_left_alone() -> None:
    """It was acted on before."""
    (step,), _ = looked([told(SystemStatus=failed(600))], claims=(launched(leaving=True),))

    assert step.effects == ()


def test_a_machine_is_counted_once_until_it_recovers() -> None:
    """What is wrong for an hour is one case, and what is wrong again is another."""
    ill, well = [told(SystemStatus=failed(600))], [told()]

    _, metrics = looked(ill, ill, well, ill)

    assert metrics[UNHEALTHY].value(category="SystemStatus") == 2.0


def test_ec2_is_asked_three_questions_a_minute() -> None:
    """For broken instances, broken hardware, and plans."""

    async def main(clock: VirtualClock) -> Any:
        aws = ScriptedAws()
        health = InstanceStatusController(
            aws, claims=InstanceClaims(seen()), clock=clock, metrics=instrumented(clock)[0]
        )
        step = await health.look()
        asked = [each["Filters"][0]["Name"] for each in aws.asked("DescribeInstanceStatus")]
        return step.again, asked

    assert virtually(main) == (POLL_SECONDS, ["instance-status.status", "system-status.status", "event.code"])


def test_without_permission_it_asks_rarely() -> None:
    """The call is tried again after ten minutes, not every minute."""

    async def main(clock: VirtualClock) -> float | None:
        denied = AccessDenied(action="ec2:DescribeInstanceStatus", code="UnauthorizedOperation", message="")
        aws = ScriptedAws({"DescribeInstanceStatus": denied})
        health = InstanceStatusController(
            aws, claims=InstanceClaims(seen()), clock=clock, metrics=instrumented(clock)[0]
        )
        return (await health.look()).again

    assert virtually(main) == NOT_ALLOWED_RETRY_SECONDS


def test_a_time_without_a_zone_is_of_utc() -> None:
    """boto3 returns a time zone; an emulation of EC2 may not."""
    naive: datetime = (NOW - timedelta(hours=1)).replace(tzinfo=None)
    status = {"Details": [{"Status": "failed", "ImpairedSince": naive}]}

    (step,), _ = looked([told(SystemStatus=status)])

    assert acts(step) == FORCEFUL
