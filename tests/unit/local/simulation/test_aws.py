"""The calls of one operator to the embedded AWS, and what goes wrong with them."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.nodeclaim import NodeClaim, NodeClaimSpec, NodeClaimStatus, NodeClassReference
from karpenter.cloud.aws.errors import AwsApiError, NoResponse
from karpenter.cloud.errors import Throttled
from karpenter_local.aws.faults import RefuseCall
from karpenter_local.aws.inprocess import AwsInProcess
from karpenter_local.aws.site import ClusterAccount
from karpenter_local.simulation.aws.faults import ZONES, draw_aws_faults, move_to_aws
from karpenter_local.simulation.aws.network import AwsCallFault, AwsCallFaults, FaultyAws
from karpenter_local.simulation.cluster import SimulatedCluster
from karpenter_local.simulation.faults import SellOut
from karpenter_local.simulation.invariants.invariant import ViolationLog
from karpenter_local.simulation.invariants.machines import LaunchedOnceInvariant
from karpenter_local.simulation.mirror import ObjectWrite
from karpenter_local.simulation.scenario import generate
from karpenter_local.virtual import VirtualClock, run_virtual

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator


TAG = {"Resources": ["subnet-1"], "Tags": [{"Key": "a", "Value": "b"}]}


class Counting:
    """A transport that counts down to an operator's last write."""

    def __init__(self, *ends: str) -> None:
        self.ends = list(ends)

    def count(self) -> str:
        """Say whether this is the last one."""
        return self.ends.pop(0) if self.ends else ""


@pytest.fixture(scope="module")
def site() -> Iterator[ClusterAccount]:
    """Return an account to ask."""
    with AwsInProcess(seed="1") as server:
        yield ClusterAccount(server, cluster="blue", types=("m5.large",))


def asked(
    site: ClusterAccount,
    work: Callable[[FaultyAws], Awaitable[Any]],
    *faults: AwsCallFault,
    operation: str = "DescribeSubnets",
    ends: tuple[str, ...] = (),
) -> tuple[object, float, int]:
    """Return what came of some work, how long it took, and how often AWS was asked."""

    async def main() -> tuple[object, float]:
        call_faults = AwsCallFaults()
        call_faults.waiting[operation] += faults
        transport: Any = Counting(*ends)
        chance = Random(1)  # noqa: S311  chance of a test
        line = FaultyAws(
            site.clients, site.account, call_faults=call_faults, chance=chance, transport=transport
        )
        result: object
        try:
            async with asyncio.timeout(1000):
                result = await work(line)
        except (NoResponse, AwsApiError, Throttled, TimeoutError) as error:
            result = type(error)
        line.close()
        return result, VirtualClock().monotonic()

    site.account.forget_calls()
    result, seconds = run_virtual(main())
    return result, seconds, len(site.account.calls(operation))


@pytest.mark.parametrize(
    ("fault", "took", "reached"),
    [
        pytest.param("throttled", 0.0, 2, id="AWS wants fewer calls"),
        pytest.param("error", 0.0, 2, id="AWS has a fault"),
        pytest.param("failing", 0.0, 2, id="AWS has a fault after it did it"),
        pytest.param("unreachable", 5.0, 1, id="no connection"),
        pytest.param("lost", 0.0, 2, id="the answer is lost"),
        pytest.param("silent", 60.0, 1, id="no answer ever"),
        pytest.param("deaf", 60.0, 2, id="no answer ever though it was done"),
    ],
)
def test_a_fault_passes(site: ClusterAccount, fault: AwsCallFault, took: float, reached: int) -> None:
    """What goes wrong once is asked again, after as long as the SDK would wait for an answer."""
    result, seconds, calls = asked(site, lambda line: line.call("ec2", "DescribeSubnets"), fault)

    assert isinstance(result, dict)
    assert took <= seconds < took + 2
    assert calls == reached


def test_a_fault_that_stays_is_raised(site: ClusterAccount) -> None:
    """After as many attempts as the SDK makes, the caller gets the error."""
    always: tuple[AwsCallFault, ...] = ("throttled",) * 5
    result, _, calls = asked(site, lambda line: line.call("ec2", "DescribeSubnets"), *always)

    assert (result, calls) == (Throttled, 5)


def test_what_is_refused_for_a_reason_is_not_asked_again(site: ClusterAccount) -> None:
    """A wrong question stays wrong."""
    site.account.faults.next("DescribeSubnets", RefuseCall(code="InvalidParameterValue"))
    result, _, calls = asked(site, lambda line: line.call("ec2", "DescribeSubnets"))

    assert (result, calls) == (AwsApiError, 1)


def test_questions_for_mail_are_free_when_there_is_none(site: ClusterAccount) -> None:
    """A day has 86,400 of them."""
    result, _, calls = asked(
        site, lambda line: line.call("sqs", "ReceiveMessage", QueueUrl="x"), operation="ReceiveMessage"
    )

    assert (result, calls) == ({}, 0)


@pytest.mark.parametrize(
    ("end", "reached"),
    [pytest.param("before", 0, id="just before"), pytest.param("after", 1, id="just after")],
)
def test_a_dead_operator_is_never_answered(site: ClusterAccount, end: str, reached: int) -> None:
    """Its last write was carried out or not; nothing follows, not even questions."""
    tag = {**TAG, "Resources": site.estate.subnets[:1]}

    async def work(line: FaultyAws) -> None:
        for call in (line.call("ec2", "CreateTags", **tag), line.call("ec2", "DescribeSubnets")):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(100):
                    await call

    _, seconds, calls = asked(site, work, operation="CreateTags", ends=(end,))

    assert (calls, seconds) == (reached, 200.0)
    assert not site.account.calls("DescribeSubnets")


def test_aws_has_mishaps_of_its_own() -> None:
    """Where things go wrong, they do so on AWS in many ways, each of which can be said in a line."""
    chance = Random(1)  # noqa: S311  chance of a test
    found = draw_aws_faults(chance, 50_000.0, "many")

    assert len({type(each) for each in found}) == 6
    assert all(str(each) for each in found)
    assert draw_aws_faults(chance, 50_000.0, "none") == []


_VAIN = ["machine i-2 was launched, and is that of no claim"]


def test_scenarios_move_to_the_zones_of_aws() -> None:
    """The same seed asks for the same things in another place."""
    here, there = (generate(2, hours=1, severity="many", provider=each) for each in ("aws", "kwok"))
    step = move_to_aws(SellOut(at=0.0, zone="test-zone-d", seconds=1.0))

    assert isinstance(step, SellOut)
    assert step.zone == ZONES[0]
    assert {type(each) for each in there.steps} < {type(each) for each in here.steps}
    assert not any(getattr(each, "zone", "").startswith("test-") for each in here.steps)


@pytest.mark.parametrize(
    ("contested", "lag", "at", "ended", "found"),
    [
        pytest.param(0.0, 4.0, 20.0, "", _VAIN, id="it never had a claim"),
        pytest.param(60.0, 0.0, 20.0, "", [], id="two operators led"),
        pytest.param(0.0, 15.0, 20.0, "", [], id="EC2 hid it for too long"),
        pytest.param(0.0, 15.0, 200.0, "", [], id="EC2 hid one that was launched before it for too long"),
        pytest.param(0.0, 15.0, 400.0, "", _VAIN, id="EC2 hid another long ago"),
        pytest.param(0.0, 0.0, 20.0, "i-2", [], id="AWS ended it"),
        pytest.param(0.0, 0.0, 20.0, "i-1", _VAIN, id="AWS ended another"),
    ],
)
def test_no_machine_is_launched_in_vain(
    contested: float, lag: float, at: float, ended: str, found: list[str]
) -> None:
    """A machine that never was that of a NodeClaim is a violation, unless there is a reason for it."""

    async def main() -> list[str]:
        simulated = SimulatedCluster(seed=1)
        simulated.contested_until = contested
        simulated.launched = {"i-1": 10.0, "i-2": at}
        simulated.lags = [(9.0, 69.0, lag)]
        simulated.ended = {ended}
        invariant = LaunchedOnceInvariant(simulated, ViolationLog(simulated.clock))
        kind = NodeClassReference(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default")
        status = NodeClaimStatus(provider_id="aws:///us-west-2a/i-1")
        had = NodeClaim(spec=NodeClaimSpec(node_class_ref=kind), status=status)
        invariant.on_write(ObjectWrite(None, had))
        return list(invariant.unsettled())

    assert run_virtual(main()) == found
