"""
Launches when things go wrong: no claim gets two machines, and none is lost.

Against the embedded AWS: answers that never come, calls that are throttled, instances that EC2 does not show
yet, and fleets that get a part of what they were asked for.
"""

import asyncio
from collections.abc import Iterator
from functools import cache
from itertools import count
from typing import Any

import pytest

from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.cloudprovider import AwsProvider
from karpenter.cloud.aws.errors import TEMPLATE_MISSING
from karpenter.cloud.aws.instance.createfleet import is_launched_for
from karpenter.cloud.aws.instance.launch import SETTLING_SECONDS
from karpenter.cloud.aws.sdk import LIMITS
from karpenter.cloud.cloudprovider import Machine
from karpenter.cloud.errors import (
    CloudError,
    InsufficientCapacity,
    LaunchFailed,
    LaunchRefused,
    MachineNotFound,
)
from karpenter_local.aws.account import OfferingPattern
from karpenter_local.aws.faults import LoseAnswer, RefuseCall
from tests.unit.cloud.aws.world import World, claim, requirement

NUMBERS = count(1)
ON_DEMAND = requirement("karpenter.sh/capacity-type", "In", "on-demand")
M5 = requirement("node.kubernetes.io/instance-type", "In", "m5.large")
BUSY = RefuseCall(code="RequestLimitExceeded", status=503)
BROKEN = RefuseCall(code="InternalError", status=500)
GONE = RefuseCall(code=TEMPLATE_MISSING)
UNSEEN = RefuseCall(code="InvalidInstanceID.NotFound")


@cache
def world() -> World:
    """Return the account that all of these launch in."""
    return World(types=("m5.large", "m5.xlarge"))


@pytest.fixture(autouse=True)
def sound() -> Iterator[None]:
    """Let every test begin with an AWS that is well."""
    yield
    world().account.restock()
    for operation in ("CreateFleet", "DescribeInstances", "TerminateInstances", "CreateLaunchTemplate"):
        world().account.faults.never(operation)


def wanting() -> NodeClaim:
    """Return a claim that nothing was launched for yet."""
    return claim(ON_DEMAND, M5, name=f"claim-{next(NUMBERS)}")


def running(*claims: NodeClaim) -> int:
    """Return how many machines there are that were launched for some of these claims."""
    found = world().ec2.describe_instances(
        Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    )
    return sum(
        any(
            is_launched_for({tag["Key"]: tag["Value"] for tag in each["Tags"]}, own.metadata.uid)
            for own in claims
        )
        for reservation in found["Reservations"]
        for each in reservation["Instances"]
    )


async def tried(provider: AwsProvider, wanted: NodeClaim) -> Machine | CloudError:
    """Return the machine that a launch gets, or what goes wrong."""
    try:
        return await provider.launch(wanted)
    except CloudError as error:
        return error


def test_a_lost_answer_is_not_paid_twice() -> None:
    """The launch fails, and the next one finds the machine."""
    wanted = wanting()

    async def work(provider: AwsProvider) -> Any:
        world().account.faults.next("CreateFleet", LoseAnswer())
        first = await tried(provider, wanted)
        world().account.faults.never("CreateFleet")
        second = await tried(provider, wanted)
        return isinstance(first, LaunchFailed), isinstance(second, Machine), running(wanted)

    assert world().launching(work) == (True, True, 1)


def test_a_lost_answer_for_many_claims_gives_each_a_machine_of_its_own() -> None:
    """They were all launched with one call; each claim takes an instance of its own."""
    claims = [wanting() for _ in range(5)]

    async def work(provider: AwsProvider) -> Any:
        world().account.faults.next("CreateFleet", LoseAnswer())
        await asyncio.gather(*(tried(provider, each) for each in claims))
        again = await asyncio.gather(*(tried(provider, each) for each in claims))
        ids = {each.provider_id for each in again if isinstance(each, Machine)}
        return len(ids), running(*claims)

    assert world().launching(work) == (5, 5)


def test_a_lost_answer_is_found_after_a_restart() -> None:
    """What a machine is for stands in its tags, and not in the memory of a process."""
    wanted = wanting()

    async def lose(provider: AwsProvider) -> None:
        world().account.faults.next("CreateFleet", LoseAnswer())
        assert isinstance(await tried(provider, wanted), LaunchFailed)

    async def find(provider: AwsProvider) -> Machine | CloudError:
        return await tried(provider, wanted)

    world().launching(lose)
    found = world().launching(find)

    assert isinstance(found, Machine)
    assert running(wanted) == 1
    assert "karpenter.k8s.aws/ec2nodeclass-hash" in found.annotations


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        pytest.param((GONE,), "Machine", id="to the first attempt: nothing was launched"),
        pytest.param((BROKEN, GONE), "UnknownLaunchOutcome", id="to a retry: the first may have launched"),
    ],
)
def test_a_template_that_is_missing(faults: tuple[RefuseCall, ...], expected: str) -> None:
    """The template may have been deleted after an attempt whose answer was lost."""
    wanted = wanting()

    async def work(provider: AwsProvider) -> str:
        world().account.faults.next("CreateFleet", *faults)
        return type(await tried(provider, wanted)).__name__

    assert world().launching(work) == expected


def test_a_request_that_was_not_carried_out_is_sent_again_after_a_while() -> None:
    """When EC2 shows no machine after some seconds, there is none."""
    wanted = wanting()

    async def work(provider: AwsProvider) -> Any:
        world().account.faults.next("CreateFleet", BROKEN, BROKEN)
        outcomes = [
            type(await tried(provider, wanted)).__name__,
            type(await tried(provider, wanted)).__name__,
        ]
        await provider.services.clock.sleep(SETTLING_SECONDS)
        return [*outcomes, type(await tried(provider, wanted)).__name__, running(wanted)]

    assert world().launching(work) == ["UnknownLaunchOutcome", "LaunchFailed", "Machine", 1]


def test_a_launch_that_is_cancelled_is_found_again() -> None:
    """The caller may be cancelled while EC2 launches."""
    wanted = wanting()

    async def work(provider: AwsProvider) -> Any:
        task = asyncio.ensure_future(provider.launch(wanted))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await provider.services.clock.sleep(SETTLING_SECONDS)
        return isinstance(await tried(provider, wanted), Machine), running(wanted)

    assert world().launching(work) == (True, 1)


def test_two_launches_for_one_claim_at_once_are_one() -> None:
    """The second waits for the first, and gets its machine."""
    wanted = wanting()

    async def work(provider: AwsProvider) -> Any:
        first, second = await asyncio.gather(*(provider.launch(wanted) for _ in range(2)))
        return first.provider_id == second.provider_id, running(wanted)

    assert world().launching(work) == (True, 1)


def test_throttling_is_told_and_nothing_is_launched() -> None:
    """
    The claim is tried again later; what is sold is not marked as sold out.

    An answer before the last one may have been lost, so that an instance may exist.
    """
    wanted = wanting()

    async def work(provider: AwsProvider) -> Any:
        world().account.faults.always("CreateFleet", BUSY)
        error = await tried(provider, wanted)
        return type(error).__name__, provider.services.unavailable.now().offerings, running(wanted)

    assert world().launching(work) == ("UnknownLaunchOutcome", frozenset(), 0)


def test_claims_whose_launch_was_throttled_are_looked_for_together() -> None:
    """One list of instances is for all of them, whatever their number: EC2 is busy already."""
    claims = [wanting() for _ in range(20)]

    async def work(provider: AwsProvider) -> Any:
        world().account.faults.always("CreateFleet", BUSY)
        await asyncio.gather(*(tried(provider, each) for each in claims))
        before = len(world().account.calls("DescribeInstances"))
        again = await asyncio.gather(*(tried(provider, each) for each in claims))
        calls = len(world().account.calls("DescribeInstances")) - before
        return calls, {type(each).__name__ for each in again}

    assert world().launching(work) == (1, {"LaunchFailed"})


def test_throttling_for_a_moment_is_not_noticed() -> None:
    """The SDK asks once more by itself."""
    wanted = wanting()

    async def work(provider: AwsProvider) -> Any:
        world().account.faults.next("CreateFleet", BUSY)
        return isinstance(await tried(provider, wanted), Machine)

    assert world().launching(work)


def test_an_instance_that_ec2_does_not_show_yet_is_there() -> None:
    """For a minute we know better."""
    wanted = wanting()

    async def work(provider: AwsProvider) -> Any:
        machine = await provider.launch(wanted)
        world().account.faults.next("DescribeInstances", UNSEEN, UNSEEN)
        seen = await provider.get(machine.provider_id)
        return seen.provider_id == machine.provider_id

    assert world().launching(work)


def test_an_instance_that_ec2_does_not_list_yet_is_listed() -> None:
    """From the moment that its launch is answered."""
    wanted = wanting()

    async def work(provider: AwsProvider) -> Any:
        machine = await provider.launch(wanted)
        number = machine.provider_id.rpartition("/")[2]
        world().ec2.delete_tags(Resources=[number], Tags=[{"Key": "eks:eks-cluster-name"}])
        return machine.provider_id in {each.provider_id for each in await provider.list()}

    assert world().launching(work)


def test_an_instance_that_ec2_never_shows_is_gone_after_a_minute() -> None:
    """Then EC2 knows better."""
    wanted = wanting()

    async def work(provider: AwsProvider) -> Any:
        machine = await provider.launch(wanted)
        world().account.faults.always("DescribeInstances", UNSEEN)
        await provider.services.clock.sleep(61.0)
        with pytest.raises(MachineNotFound):
            await provider.get(machine.provider_id)
        return True

    assert world().launching(work)


def test_of_a_fleet_that_gets_some_each_claim_gets_one_or_is_told() -> None:
    """Two of three: the third learns that it is sold out, and so does the next decision."""
    claims = [wanting() for _ in range(3)]
    held = running_in_all()
    world().account.limit(OfferingPattern(), held + 2)

    async def work(provider: AwsProvider) -> Any:
        found = await asyncio.gather(*(tried(provider, each) for each in claims))
        machines = {each.provider_id for each in found if isinstance(each, Machine)}
        errors = [each for each in found if isinstance(each, InsufficientCapacity)]
        return len(machines), len(errors), bool(provider.services.unavailable.now().offerings)

    assert world().launching(work) == (2, 1, True)


def running_in_all() -> int:
    """Return how many machines run in the account."""
    found = world().ec2.describe_instances(
        Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    )
    return sum(len(each["Instances"]) for each in found["Reservations"])


def test_claims_that_ask_for_the_same_share_one_call() -> None:
    """Fifty machines, one request."""
    claims = [wanting() for _ in range(50)]

    async def work(provider: AwsProvider) -> Any:
        found = await asyncio.gather(*(provider.launch(each) for each in claims))
        return len({each.provider_id for each in found}), len(world().account.calls("CreateFleet"))

    assert world().launching(work) == (50, 1)


def test_terminations_share_one_call_too() -> None:
    """And so do the questions before them."""
    claims = [wanting() for _ in range(10)]

    async def work(provider: AwsProvider) -> Any:
        found = await asyncio.gather(*(provider.launch(each) for each in claims))
        world().account.forget_calls()
        await asyncio.gather(*(provider.terminate(each.provider_id) for each in found))
        return [len(world().account.calls(each)) for each in ("DescribeInstances", "TerminateInstances")]

    assert world().launching(work) == [1, 1]


def test_one_instance_that_is_gone_does_not_spoil_the_others() -> None:
    """EC2 refuses the whole call then; each is asked about on its own."""
    wanted = wanting()

    async def work(provider: AwsProvider) -> Any:
        machine = await provider.launch(wanted)
        gone = "aws:///us-west-2a/i-00000000000000000"
        found = await asyncio.gather(
            provider.get(machine.provider_id), provider.get(gone), return_exceptions=True
        )
        return [type(each).__name__ for each in found]

    assert world().launching(work) == ["Machine", "MachineNotFound"]


def test_a_refusal_in_between_is_told_and_the_next_try_works() -> None:
    """What was wrong with the request is said; nothing is remembered against it."""
    wanted = wanting()

    async def work(provider: AwsProvider) -> Any:
        world().account.faults.next("CreateFleet", RefuseCall(code="InvalidParameterValue", message="no"))
        first = await tried(provider, wanted)
        assert isinstance(first, LaunchRefused)
        return first.reason, isinstance(await tried(provider, wanted), Machine), running(wanted)

    assert world().launching(work) == ("LaunchFailed", True, 1)


def test_buckets_of_ec2_are_not_overrun() -> None:
    """Calls beyond what EC2 takes at once wait for their turn, in virtual time."""

    async def work(provider: AwsProvider) -> float:
        rate, burst = LIMITS["CreateTags"]
        calls = int(burst) + 20
        began = provider.services.clock.monotonic()
        await asyncio.gather(
            *(
                provider.services.aws.call(
                    "ec2", "CreateTags", Resources=["i-1"], Tags=[{"Key": "a", "Value": "b"}]
                )
                for _ in range(calls)
            ),
            return_exceptions=True,
        )
        return (provider.services.clock.monotonic() - began) * rate

    assert world().launching(work) == pytest.approx(20, abs=1)
