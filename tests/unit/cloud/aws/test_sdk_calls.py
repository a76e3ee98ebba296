"""Calls to AWS: in threads, page by page, with errors in our words."""

import asyncio
from contextlib import suppress
from threading import Event
from typing import Any

import pytest

from karpenter.base.ratelimiting import Fence, LeaseNotHeld
from karpenter.cloud.aws.cloudprovider import AwsProvider
from karpenter.cloud.aws.errors import AccessDenied, NoResponse, ResourceNotFound
from karpenter.cloud.aws.sdk import LIMITS, READ_LIMIT, ApiCall, AwsApi, NoRegion, find_region
from karpenter.cloud.errors import CloudError, Throttled
from karpenter_local.aws.faults import LoseAnswer, RefuseCall
from karpenter_local.virtual import VirtualClock, run_virtual
from tests.unit.cloud.aws.scripted import instrumented, virtually
from tests.unit.cloud.aws.world import World, shared_world


async def ask(world: World, operation: str, **parameters: Any) -> Any:
    """Ask EC2 once."""
    aws = AwsApi(world.clients)
    try:
        return await aws.call("ec2", operation, **parameters)
    finally:
        aws.close()


def test_an_answer_is_plain_data() -> None:
    """What AWS answers comes back as dictionaries and lists."""
    found = run_virtual(ask(shared_world(), "DescribeSubnets"))

    assert set(shared_world().estate.subnets) <= {each["SubnetId"] for each in found["Subnets"]}


def test_pages_are_followed() -> None:
    """A list that comes in pages is returned whole."""

    async def main() -> int:
        aws = AwsApi(shared_world().clients)
        found = await aws.list_all(
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
            RefuseCall(code="UnauthorizedOperation", status=403),
            AccessDenied,
            "not allowed to call ec2:DescribeSubnets",
            id="a permission that is missing is named",
        ),
        pytest.param(
            RefuseCall(code="InvalidInstanceID.NotFound"),
            ResourceNotFound,
            "NotFound",
            id="what is not there is missing",
        ),
        pytest.param(
            RefuseCall(code="RequestLimitExceeded", status=503),
            Throttled,
            "slow down",
            id="throttling is told",
        ),
        pytest.param(LoseAnswer(), NoResponse, "did not answer ec2:DescribeSubnets", id="silence is told"),
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
        aws = AwsApi(shared_world().clients)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(int(READ_LIMIT[1]) + 20):
            await aws._bucket("DescribeSubnets").take()
        aws.close()
        return loop.time() - began

    assert run_virtual(main()) == pytest.approx(20 / READ_LIMIT[0])


async def tagged(world: World, fence: Fence) -> None:
    aws = AwsApi(world.clients, fence=fence)
    tags = [{"Key": "team", "Value": "shop"}]
    try:
        await aws.call("ec2", "DescribeSubnets")
        await aws.call("ec2", "CreateTags", Resources=[next(iter(world.estate.subnets))], Tags=tags)
    finally:
        aws.close()


def test_a_replica_that_does_not_lead_changes_nothing_in_aws() -> None:
    """Behind a closed fence reads pass, and what would change something is not sent."""
    world, fence = World(types=("m5.large",)), Fence()
    fence.close()

    with pytest.raises(LeaseNotHeld, match="AWS operation CreateTags: this replica no longer holds"):
        run_virtual(tagged(world, fence))
    assert (len(world.account.calls("DescribeSubnets")), world.account.calls("CreateTags")) == (1, [])

    run_virtual(tagged(world, Fence()))
    assert len(world.account.calls("CreateTags")) == 1


def test_a_lease_that_is_lost_between_two_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK retries by itself, for minutes; each attempt is checked."""
    world, fence = World(types=("m5.large",)), Fence()
    monkeypatch.setattr("time.sleep", lambda _: fence.close())  # the SDK waits between its attempts
    world.account.faults.always("CreateTags", RefuseCall(code="RequestLimitExceeded", status=503))

    with pytest.raises(LeaseNotHeld):
        run_virtual(tagged(world, fence))
    assert len(world.account.calls("CreateTags")) == 1


def test_mutating_calls_have_buckets_of_their_own() -> None:
    """Launches are not held up by looking, nor the reverse."""
    aws = AwsApi(shared_world().clients)

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
    """If the region is not known, one sentence says so."""
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.setattr("karpenter.cloud.aws.sdk._region_of_this_instance", lambda: None)

    with pytest.raises(NoRegion, match="hint: set AWS_REGION"):
        find_region(Session(None))  # type: ignore[arg-type]  # as above


def noted(world: World, operation: str = "DescribeSubnets") -> list[ApiCall]:
    found: list[ApiCall] = []

    async def work(provider: AwsProvider) -> None:
        provider.services.aws.on_call = found.append
        with suppress(CloudError):
            await provider.services.aws.call("ec2", operation)

    world.run(work)
    return found


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        pytest.param(None, "200", id="an answer"),
        pytest.param(RefuseCall(code="InvalidParameterValue", status=400), "400", id="a refusal"),
        pytest.param(RefuseCall(code="UnauthorizedOperation", status=403), "403", id="a denial"),
    ],
)
def test_every_call_is_noted(fault: RefuseCall | None, status: str) -> None:
    """With the status of its answer, under the names that dashboards know."""
    world = shared_world()
    if fault is not None:
        world.account.faults.next("DescribeSubnets", fault)
    (called,) = noted(world)

    assert (called.service, called.action, called.code, called.retries) == (
        "EC2",
        "DescribeSubnets",
        status,
        0,
    )
    assert called.seconds >= called.attempts[0].seconds > 0


def test_every_attempt_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the SDK sends again is one call with several attempts, and all of them are shown."""
    monkeypatch.setattr("time.sleep", lambda _: None)  # the SDK waits between its attempts
    world = World(types=("m5.large",))
    world.account.faults.next("DescribeSubnets", RefuseCall(code="InternalError", status=500), LoseAnswer())
    (called,) = noted(world)

    async def shown(clock: VirtualClock) -> str:
        provider_metrics, metrics = instrumented(clock)
        provider_metrics.note_call(called)
        return metrics.exposition().decode()

    assert [each.code for each in called.attempts] == ["500", "0", "200"]
    assert (called.code, called.retries) == ("200", 2)
    text = virtually(shown)
    what = 'service="EC2",action="DescribeSubnets"'
    assert f'aws_sdk_go_request_total{{{what},code="200"}} 1' in text
    assert f'aws_sdk_go_request_retry_count_sum{{{what},code="200"}} 2' in text
    assert f'aws_sdk_go_request_duration_seconds_count{{{what},code="200"}} 1' in text
    for code in ("500", "0", "200"):
        assert f'aws_sdk_go_request_attempt_total{{{what},code="{code}"}} 1' in text
        assert f'aws_sdk_go_request_attempt_duration_seconds_count{{{what},code="{code}"}} 1' in text


def test_calls_that_others_make_for_us_are_noted() -> None:
    """What is asked page by page is noted page by page."""
    found: list[ApiCall] = []

    async def work(provider: AwsProvider) -> None:
        provider.services.aws.on_call = found.append
        await provider.services.instance_types.refresh()

    shared_world().run(work)

    assert {each.action for each in found} == {"DescribeInstanceTypes", "DescribeInstanceTypeOfferings"}


@pytest.mark.parametrize("fault", [None, RefuseCall(code="AWS.SimpleQueueService.NonExistentQueue")])
async def test_listening_is_answered_as_asking_is(fault: RefuseCall | None) -> None:
    """With what there is, or with an error."""
    world = shared_world()
    aws = AwsApi(world.clients)
    if fault is not None:
        world.account.faults.next("DescribeSubnets", fault)
    try:
        answer = await aws.long_poll("ec2", "DescribeSubnets")
    except ResourceNotFound:
        assert fault is not None
    else:
        assert answer["Subnets"]
    finally:
        aws.close()


async def test_a_cancelled_long_poll_leaves_nothing_behind() -> None:
    """Its response is dropped."""
    aws = AwsApi(shared_world().clients)
    task = asyncio.ensure_future(aws.long_poll("ec2", "DescribeVpcs"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    aws.close()


def test_the_end_waits_for_calls_that_were_sent() -> None:
    """A call whose caller has given up still arrives; only then are the threads gone."""
    began, may_end, ended = Event(), Event(), Event()

    def work(_: object) -> None:
        began.set()
        may_end.wait(60)
        ended.set()

    async def main() -> bool:
        aws = AwsApi(shared_world().clients)
        caller = asyncio.create_task(aws.run("ec2", work))
        await asyncio.to_thread(began.wait, 60)
        caller.cancel()
        closing = asyncio.create_task(asyncio.to_thread(aws.close))
        await asyncio.sleep(0.05)
        assert not closing.done()
        may_end.set()
        await closing
        return ended.is_set()

    assert asyncio.run(main())
