"""Calls to AWS: in threads, page by page, with errors in our words."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from karpenter.base.aio.virtual import run_virtual
from karpenter.cloud.aws.assembly import Assembled
from karpenter.cloud.aws.calls import LIMITS, READING, Aws
from karpenter.cloud.aws.refusals import Missing, NoAnswer, NotAllowed
from karpenter.cloud.aws.session import NoRegion, find_region
from karpenter.cloud.errors import CloudError, Throttled
from karpenter.local.aws.faults import LoseAnswer, Refuse
from tests.unit.cloud.aws.world import World, shared_world


async def ask(world: World, operation: str, **parameters: Any) -> Any:
    """Ask EC2 once."""
    aws = Aws(world.clients)
    try:
        return await aws.ask("ec2", operation, **parameters)
    finally:
        aws.close()


def test_an_answer_is_plain_data() -> None:
    """What AWS answers comes back as dictionaries and lists."""
    found = run_virtual(ask(shared_world(), "DescribeSubnets"))

    assert set(shared_world().estate.subnets) <= {each["SubnetId"] for each in found["Subnets"]}


def test_pages_are_followed() -> None:
    """A list that comes in pages is returned whole."""

    async def main() -> int:
        aws = Aws(shared_world().clients)
        found = await aws.every(
            "ec2",
            "DescribeInstanceTypeOfferings",
            "InstanceTypeOfferings",
            MaxResults=5,
            LocationType="availability-zone",
        )
        aws.close()
        return len(found)

    before = len(shared_world().account.calls("DescribeInstanceTypeOfferings"))
    count = run_virtual(main())

    assert count > 30
    assert len(shared_world().account.calls("DescribeInstanceTypeOfferings")) - before == -(-count // 5)


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        pytest.param(
            Refuse(code="UnauthorizedOperation", status=403),
            NotAllowed,
            "not allowed to call ec2:DescribeSubnets",
            id="a permission that is missing is named",
        ),
        pytest.param(
            Refuse(code="InvalidInstanceID.NotFound"), Missing, "NotFound", id="what is not there is missing"
        ),
        pytest.param(
            Refuse(code="RequestLimitExceeded", status=503), Throttled, "slow down", id="throttling is told"
        ),
        pytest.param(LoseAnswer(), NoAnswer, "did not answer ec2:DescribeSubnets", id="silence is told"),
    ],
)
def test_errors(fault: Any, kind: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes wrong is an error of ours, and names the action."""
    monkeypatch.setattr("time.sleep", lambda _: None)  # the SDK waits between its attempts
    world = World(types=("m5.large",))
    world.account.faults.always("DescribeSubnets", fault)

    with pytest.raises(kind, match=said):
        run_virtual(ask(world, "DescribeSubnets"))


def test_calls_wait_for_their_turn() -> None:
    """More calls than EC2 takes at once are spread out, at the rate that it takes."""

    async def main() -> float:
        aws = Aws(shared_world().clients)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(int(READING[1]) + 20):
            await aws._bucket("DescribeSubnets").take()
        aws.close()
        return loop.time() - began

    assert run_virtual(main()) == pytest.approx(20 / READING[0])


def test_mutating_calls_have_buckets_of_their_own() -> None:
    """Launches are not held up by looking, nor the reverse."""
    aws = Aws(shared_world().clients)

    assert aws._bucket("CreateFleet") is aws._bucket("CreateLaunchTemplate")
    assert aws._bucket("CreateFleet") is not aws._bucket("DescribeInstances")
    assert {rate for rate, _ in LIMITS.values()} == {2.0, 5.0, 10.0}
    aws.close()


class Session:
    """A session of the SDK that knows a region, or not."""

    def __init__(self, region: str | None) -> None:
        self.region_name = region


def test_the_region_that_is_set() -> None:
    """The SDK's own region comes first."""
    assert find_region(Session("eu-west-1")) == "eu-west-1"  # type: ignore[arg-type]  # all that is asked of it


def test_the_region_of_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """What EKS tells a pod counts, although the SDK does not read it."""
    monkeypatch.setenv("AWS_REGION", "eu-west-2")

    assert find_region(Session(None)) == "eu-west-2"  # type: ignore[arg-type]  # as above


def test_no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody knows the region, one sentence says so."""
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.setattr("karpenter.cloud.aws.session._region_of_this_machine", lambda: None)

    with pytest.raises(NoRegion, match="hint: set AWS_REGION"):
        find_region(Session(None))  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        pytest.param(None, "200", id="an answer"),
        pytest.param(Refuse(code="InvalidParameterValue", status=400), "400", id="a refusal"),
        pytest.param(Refuse(code="UnauthorizedOperation", status=403), "403", id="a denial"),
    ],
)
def test_every_call_is_noted(fault: Refuse | None, status: str) -> None:
    """With the status of its answer."""
    world = shared_world()
    if fault is not None:
        world.account.faults.next("DescribeSubnets", fault)
    noted: list[tuple[str, str, str]] = []

    async def work(made: Assembled) -> None:
        made.aws.note = lambda service, operation, code, _: noted.append((service, operation, code))
        with suppress(CloudError):
            await made.aws.ask("ec2", "DescribeSubnets")

    world.run(work)

    assert noted == [("ec2", "DescribeSubnets", status)]


@pytest.mark.parametrize("fault", [None, Refuse(code="AWS.SimpleQueueService.NonExistentQueue")])
async def test_listening_is_answered_as_asking_is(fault: Refuse | None) -> None:
    """With what there is, or with an error."""
    world = shared_world()
    aws = Aws(world.clients)
    if fault is not None:
        world.account.faults.next("DescribeSubnets", fault)
    try:
        answer = await aws.listen("ec2", "DescribeSubnets")
    except Missing:
        assert fault is not None
    else:
        assert answer["Subnets"]
    finally:
        aws.close()


async def test_whoever_stops_listening_leaves_nothing_behind() -> None:
    """The answer comes to nobody, and that is all."""
    aws = Aws(shared_world().clients)
    task = asyncio.ensure_future(aws.listen("ec2", "DescribeSubnets"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    aws.close()
