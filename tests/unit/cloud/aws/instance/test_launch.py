"""Launches against the embedded AWS: what EC2 is asked for, and what is made of its answers."""

import asyncio
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any

import pytest

from karpenter.api.nodeclaim import NodeClaim, NodeRequirement
from karpenter.cloud.aws.cloudprovider import AwsProvider
from karpenter.cloud.aws.instance.launch_errors import UNFULFILLABLE
from karpenter.cloud.aws.metrics import LAUNCH_FAILURES, METRICS
from karpenter.cloud.aws.unavailableofferings import OfferingKey
from karpenter.cloud.cloudprovider import Machine
from karpenter.cloud.errors import CloudError, InsufficientCapacity, LaunchRefused
from karpenter.telemetry.metrics import Metrics
from karpenter_local.aws.account import CapacityError, OfferingPattern
from karpenter_local.aws.faults import RefuseCall
from tests.unit.cloud.aws.world import World, claim, node_class, requirement

KIND = "karpenter.sh/capacity-type"
TYPE = "node.kubernetes.io/instance-type"
SPOT = requirement(KIND, "In", "spot")
ON_DEMAND = requirement(KIND, "In", "on-demand")
M5 = requirement(TYPE, "In", "m5.large")


@cache
def world() -> World:
    """Return the account that all of these launch in."""
    return World()


@pytest.fixture(autouse=True)
def _stocked() -> Any:
    """Let every test begin with full shelves and an AWS that does what it is asked."""
    yield
    world().account.restock()
    for operation in ("CreateFleet", "CreateLaunchTemplate"):
        world().account.faults.never(operation)


NUMBERS = count(1)


def wanting(*requirements: NodeRequirement, **more: Any) -> NodeClaim:
    """Return a claim that nothing was launched for yet."""
    return claim(*requirements, name=f"claim-{next(NUMBERS)}", **more)


def launched(wanted: NodeClaim, **spec: Any) -> Machine:
    return world().launching(lambda provider: provider.launch(wanted), **spec)


def refused(wanted: NodeClaim, after: Callable[[AwsProvider], Any], **spec: Any) -> tuple[CloudError, Any]:
    """Try to launch a machine; return what goes wrong, and what is found after."""

    async def work(provider: AwsProvider) -> tuple[CloudError, Any]:
        with pytest.raises(CloudError) as caught:
            await provider.launch(wanted)
        return caught.value, after(provider)

    return world().launching(work, **spec)


def asked(name: str = "CreateFleet") -> dict[str, Any]:
    """Return the parameters of the last call."""
    return dict(world().requests(name)[-1])


def test_the_cheapest_that_would_do_is_launched() -> None:
    """EC2 picks by price among all types and zones that would do."""
    machine = launched(wanting(ON_DEMAND))

    assert machine.labels[TYPE] == "c6g.large"


@pytest.mark.parametrize(
    ("wanted", "annotations", "kind", "options"),
    [
        pytest.param(ON_DEMAND, {}, "on-demand", {"OnDemandOptions": "lowest-price"}, id="on demand"),
        pytest.param(SPOT, {}, "spot", {"SpotOptions": "price-capacity-optimized"}, id="spot"),
        pytest.param(
            ON_DEMAND,
            {"karpenter.sh/price-overlay-applied": "true"},
            "on-demand",
            {"OnDemandOptions": "prioritized"},
            id="on demand at prices of the user's",
        ),
        pytest.param(
            SPOT,
            {"karpenter.sh/price-overlay-applied": "true"},
            "spot",
            {"SpotOptions": "capacity-optimized-prioritized"},
            id="spot at prices of the user's",
        ),
    ],
)
def test_how_ec2_chooses(
    wanted: Any, annotations: dict[str, str], kind: str, options: dict[str, str]
) -> None:
    """By price, by capacity, or by the priorities that prices of the user's stand for."""
    launched(wanting(wanted, annotations=annotations))

    said = asked()
    assert said["TargetCapacitySpecification.DefaultTargetCapacityType"] == kind
    found = {
        key.partition(".")[0]: value for key, value in said.items() if key.endswith(".AllocationStrategy")
    }
    assert (said["Type"], found) == ("instant", options)


def test_every_override_says_what_where_and_for_how_much() -> None:
    """One for each type and zone, with the subnet of the zone, the image of the type, and the price."""
    launched(wanting(ON_DEMAND, M5))

    said = asked()
    places = {
        (said[f"{prefix}.InstanceType"], said[f"{prefix}.AvailabilityZone"])
        for prefix in (f"LaunchTemplateConfigs.1.Overrides.{number}" for number in (1, 2, 3))
    }
    assert places == {("m5.large", f"us-west-2{zone}") for zone in "abc"}
    first = "LaunchTemplateConfigs.1.Overrides.1"
    assert said[f"{first}.SubnetId"] in world().estate.subnets
    assert said[f"{first}.ImageId"].startswith("ami-")
    assert float(said[f"{first}.Priority"]) == 0.096


def test_everything_is_tagged() -> None:
    """Instance, volume and fleet say whose they are; the instance says also for which claims."""
    launched(wanting(ON_DEMAND), tags={"team": "a"})

    said = asked()
    kinds = [said[f"TagSpecification.{number}.ResourceType"] for number in (1, 2, 3)]
    tags = {
        said[f"TagSpecification.1.Tag.{number}.Key"]: said[f"TagSpecification.1.Tag.{number}.Value"]
        for number in range(1, 7)
    }
    assert kinds == ["instance", "volume", "fleet"]
    digests = tags.pop("karpenter.k8s.aws/launched-for-0")
    assert len(digests) == 8
    assert tags == {
        "team": "a",
        "kubernetes.io/cluster/test-cluster": "owned",
        "eks:eks-cluster-name": "test-cluster",
        "karpenter.sh/nodepool": "default",
        "karpenter.k8s.aws/ec2nodeclass": "default",
    }


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, "my-context", id="it is passed on"),
        pytest.param(
            {"karpenter.sh/nodeclaim-min-values-relaxed": "true"}, None, id="not for a claim that was relaxed"
        ),
    ],
)
def test_the_context_of_the_class(annotations: dict[str, str], expected: str | None) -> None:
    """EC2 interprets it."""
    launched(wanting(ON_DEMAND, annotations=annotations), context="my-context")

    assert asked().get("Context") == expected


@pytest.mark.parametrize("kind", ["spot", "on-demand"])
@pytest.mark.parametrize("code", sorted(UNFULFILLABLE))
def test_what_cannot_be_had_is_remembered(code: str, kind: str) -> None:
    """The claim is told that it is sold out, and the next decision buys something else."""
    world().account.sell_out(OfferingPattern(), CapacityError(code=code))
    wanted = wanting(M5, requirement(KIND, "In", kind))

    error, places = refused(wanted, lambda provider: provider.services.unavailable.now().offerings)

    assert isinstance(error, InsufficientCapacity)
    assert len(error.offerings) == 3
    assert places == {OfferingKey("m5.large", f"us-west-2{zone}", kind) for zone in "abc"}


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("InvalidAMIID.NotFound", "AMINotFound"),
        ("UnauthorizedOperation", "Unauthorized"),
        ("PendingVerification", "AccountPendingVerification"),
        ("Whatever", "LaunchFailed"),
    ],
)
def test_what_is_wrong_is_told(code: str, reason: str) -> None:
    """Nothing is remembered as sold out, since it is not."""
    world().account.sell_out(OfferingPattern(), CapacityError(code=code))

    error, marks = refused(wanting(ON_DEMAND, M5), lambda provider: provider.services.unavailable.now())

    assert isinstance(error, LaunchRefused)
    assert (error.reason, marks.offerings) == (reason, frozenset())


def test_without_the_role_for_spot_nothing_of_spot_is_tried() -> None:
    """The claim is told how to make the role."""
    code = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
    world().account.sell_out(OfferingPattern(capacity_type="spot"), CapacityError(code=code))

    error, marks = refused(wanting(SPOT, M5), lambda provider: provider.services.unavailable.now())

    assert isinstance(error, InsufficientCapacity)
    assert "hint: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com" in str(error)
    assert marks.capacity_types == {"spot"}


def test_a_subnet_without_addresses_is_not_tried_again() -> None:
    """Other subnets of its zone are."""
    code = "InsufficientFreeAddressesInSubnet"
    world().account.sell_out(OfferingPattern(zone="us-west-2a"), CapacityError(code=code))
    only = requirement("topology.kubernetes.io/zone", "In", "us-west-2a")

    _, marks = refused(wanting(ON_DEMAND, M5, only), lambda provider: provider.services.unavailable.now())

    assert len(marks.subnets) == 1


def test_failures_are_counted_once_for_all_claims_of_a_fleet() -> None:
    """However many claims asked for the same."""
    world().account.sell_out(OfferingPattern())

    async def work(provider: AwsProvider) -> float:
        metrics = Metrics(clock=provider.services.clock, also=METRICS)
        provider.services.metrics.use(metrics)
        claims = [wanting(ON_DEMAND, M5) for _ in range(3)]
        await asyncio.gather(*map(provider.launch, claims), return_exceptions=True)
        return metrics[LAUNCH_FAILURES].value(
            zone="us-west-2a",
            zone_id="usw2-az2",
            capacity_type="on-demand",
            reason="LaunchFailed",
        )

    assert world().launching(work) == 1.0


def test_a_template_that_was_deleted_is_created_again() -> None:
    """EC2 says that it is missing, and the launch is tried once more."""

    async def work(provider: AwsProvider) -> list[str]:
        await provider.launch(wanting(ON_DEMAND, M5))
        for each in world().ec2.describe_launch_templates()["LaunchTemplates"]:
            world().ec2.delete_launch_template(LaunchTemplateName=each["LaunchTemplateName"])
        world().account.forget_calls()
        await provider.launch(wanting(ON_DEMAND, M5))
        return [
            call.operation
            for call in world().account.calls()
            if call.operation in {"CreateFleet", "CreateLaunchTemplate"}
        ]

    assert world().launching(work) == ["CreateFleet", "CreateLaunchTemplate", "CreateFleet"]


def test_a_template_is_shared_by_launches_that_are_alike() -> None:
    """It is made once, and found again by name."""

    async def work(provider: AwsProvider) -> int:
        for _ in range(3):
            await provider.launch(wanting(SPOT, M5))
        return len(world().account.calls("CreateLaunchTemplate"))

    assert world().launching(work, userData="# of this test only") == 1


def test_too_much_user_data_is_refused_before_ec2_is_asked() -> None:
    """The class says so, and no claim comes to a launch."""
    fat = node_class(world(), userData="x" * 20_000)

    async def work(provider: AwsProvider) -> str:
        resolved = await provider.node_class_status.resolve(fat)
        said = next(each for each in resolved.status.conditions if each.type == "ValidationSucceeded")
        return f"{said.status} {said.reason}"

    assert world().run(work, types=True) == "False UserDataSizeLimitExceeded"


@pytest.mark.parametrize("operation", ["CreateFleet", "CreateLaunchTemplate"])
def test_a_missing_permission_is_named(operation: str) -> None:
    """The claim says which action is not allowed."""

    async def work(provider: AwsProvider) -> LaunchRefused:
        for each in world().ec2.describe_launch_templates()["LaunchTemplates"]:
            world().ec2.delete_launch_template(LaunchTemplateName=each["LaunchTemplateName"])
        world().account.faults.always(operation, RefuseCall(code="UnauthorizedOperation", status=403))
        with pytest.raises(LaunchRefused) as caught:
            await provider.launch(wanting(SPOT, M5))
        return caught.value

    error = world().launching(work)

    assert error.reason == "Unauthorized"
    assert f"not allowed to call ec2:{operation}" in str(error)
