"""Node classes: how their status is written, and how they go."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.ec2nodeclass_status import EC2NodeClassStatus, SecurityGroup, Subnet
from karpenter.api.meta import Condition
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.cloudprovider import AwsProvider
from karpenter.cloud.aws.labels import TERMINATION_FINALIZER
from karpenter.cloud.aws.nodeclass.controller import NodeClassConditionMetrics, NodeClassController, changes
from karpenter.core.effects import NOTHING, Amend, Announce, Step
from karpenter.core.state.cluster import NodeClass, ObjectDeleted, ObjectUpdated
from karpenter_local.aws.faults import RefuseCall
from karpenter_local.testing.cluster_objects import ObjectsInMemory
from tests.unit.cloud.aws.scripted import NOW, launched, of_another, seen
from tests.unit.cloud.aws.world import World, node_class

DENIED = RefuseCall(code="UnauthorizedOperation", message="You are not authorized.", status=403)


def controller(provider: AwsProvider, *claims: NodeClaim) -> NodeClassController:
    """Return the controller of node classes, in a cluster with these claims."""
    return NodeClassController(
        provider.services,
        view=seen(*claims),
        resolver=provider.node_class_status,
        validation=provider.validation,
        gauges=NodeClassConditionMetrics(provider.services.metrics, provider.services.clock),
    )


def kept(found: EC2NodeClass, *, leaving: bool = False, finalized: bool = True) -> EC2NodeClass:
    """Return a class with what the API server adds to it."""
    metadata = msgspec.structs.replace(
        found.metadata,
        resource_version="9",
        finalizers=(TERMINATION_FINALIZER,) if finalized else (),
        deletion_timestamp=NOW if leaving else None,
    )
    return msgspec.structs.replace(found, metadata=metadata)


@cache
def world() -> World:
    """Return the account that all of these are in."""
    return World(types=("m5.large",))


@pytest.fixture(autouse=True)
def sound() -> Iterator[None]:
    """Let every test begin with an AWS that does what it is asked, and without classes."""
    world().account.forget_calls()
    yield
    world().objects = ObjectsInMemory()
    for operation in ("DescribeSubnets", "DescribeSecurityGroups", "DescribeImages", "GetInstanceProfile"):
        world().account.faults.never(operation)


def reconciled(found: EC2NodeClass | None, *claims: NodeClaim) -> Step:
    if found is not None:
        world().objects.put(found)

    async def work(provider: AwsProvider) -> Step:
        return await controller(provider, *claims).reconcile("default")

    return world().run(work, types=True)


def test_a_class_is_held_before_anything_is_made_for_it() -> None:
    """The finalizer comes first, and then another look at once."""
    step = reconciled(kept(node_class(world()), finalized=False))

    (amend,) = step.effects
    assert isinstance(amend, Amend)
    assert (amend.changes, amend.version, step.again) == (
        {"metadata": {"finalizers": [TERMINATION_FINALIZER]}},
        "9",
        0.0,
    )
    assert world().account.calls("CreateInstanceProfile") == []


def test_the_status_is_written_in_one_go() -> None:
    """Everything that was found, and every condition, if the class is still what was looked at."""
    step = reconciled(kept(node_class(world())))

    (amend,) = step.effects
    assert isinstance(amend, Amend)
    assert sorted(amend.status) == ["amis", "conditions", "instanceProfile", "securityGroups", "subnets"]
    assert {each["status"] for each in amend.status["conditions"]} == {"True"}
    assert (amend.version, step.again) == ("9", 60.0)


def test_a_status_that_is_right_is_not_written() -> None:
    """A second look that finds the same changes nothing."""

    async def work(provider: AwsProvider) -> Step:
        await world().resolve(provider, kept(node_class(world())))
        return await controller(provider).reconcile("default")

    assert world().run(work, types=True).effects == ()


@pytest.mark.parametrize(
    ("operation", "condition"),
    [
        ("DescribeSubnets", "SubnetsReady"),
        ("DescribeSecurityGroups", "SecurityGroupsReady"),
        ("DescribeImages", "AMIsReady"),
        ("GetInstanceProfile", "InstanceProfileReady"),
    ],
)
def test_a_permission_that_is_missing_is_named(operation: str, condition: str) -> None:
    """The class says which action is not allowed, and is looked at again soon."""
    world().account.faults.always(operation, DENIED)

    step = reconciled(kept(node_class(world())))

    (amend,) = step.effects
    assert isinstance(amend, Amend)
    said = next(each for each in amend.status["conditions"] if each["type"] == condition)
    assert (said["status"], said["reason"], step.again) == ("Unknown", "Unauthorized", 1.0)
    assert f":{operation}" in said["message"]


def test_failures_are_waited_for_longer_each_time() -> None:
    """One second, then two, then four."""
    world().account.faults.always("DescribeSubnets", DENIED)
    world().objects.put(kept(node_class(world())))

    async def work(provider: AwsProvider) -> list[float | None]:
        looking = controller(provider)
        return [(await looking.reconcile("default")).again for _ in range(3)]

    assert world().run(work, types=True) == [1.0, 2.0, 4.0]


def test_a_class_that_is_gone_needs_nothing() -> None:
    """Neither does one that does not exist."""
    assert reconciled(None) == NOTHING


def test_a_class_waits_for_its_claims() -> None:
    """Their names are told, and it is looked at again after ten minutes, or when one of them goes."""
    claims = [launched(f"claim-{number}", f"i-{number}") for number in range(7)]

    step = reconciled(kept(node_class(world()), leaving=True), *claims)

    (told,) = step.effects
    assert isinstance(told, Announce)
    assert (told.reason, step.again) == ("WaitingOnNodeClaimTermination", 600.0)
    assert told.message.endswith("claim-0, claim-1, claim-2, claim-3, claim-4 and 2 other(s).")


def test_what_was_made_for_a_class_goes_with_it() -> None:
    """Profiles and launch templates are taken away, and then the class may go."""
    own = World(types=("m5.large",))

    async def work(provider: AwsProvider) -> Step:
        ready = await own.resolve(provider, kept(node_class(own)))
        others = (launched(node_class="another"), of_another(launched("b"), kind="Other"))
        own.objects.put(kept(ready, leaving=True))
        return await controller(provider, *others).reconcile("default")

    step = own.run(work, types=True)

    (amend,) = step.effects
    assert isinstance(amend, Amend)
    assert amend.changes == {"metadata": {"finalizers": []}}
    assert own.iam.list_instance_profiles()["InstanceProfiles"] == []
    assert own.ec2.describe_launch_templates()["LaunchTemplates"] == []


def test_without_iam_profiles_stay() -> None:
    """From an isolated VPC, IAM is not reachable."""
    world().objects.put(kept(node_class(world()), leaving=True))

    async def work(provider: AwsProvider) -> Step:
        return await controller(provider).reconcile("default")

    step = world().run(work, given={"ISOLATED_VPC": "true"})

    assert len(step.effects) == 1
    assert not any(call.service == "iam" for call in world().account.calls())


def test_a_class_that_we_do_not_hold_goes_by_itself() -> None:
    """Whatever else holds it is not our business."""
    assert reconciled(kept(node_class(world()), leaving=True, finalized=False)) == NOTHING


CLASS = NodeClass(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default")


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        pytest.param(ObjectUpdated(CLASS), ["default"], id="a class that has changed"),
        pytest.param(ObjectDeleted(CLASS), ["default"], id="a class that is gone"),
        pytest.param(ObjectDeleted(launched(node_class="other")), ["other"], id="a claim that is gone"),
        pytest.param(ObjectUpdated(launched()), [], id="a claim that has changed"),
    ],
)
def test_wakes(event: Any, expected: list[str]) -> None:
    """A class is looked at when it changes, and when one of its claims is gone."""

    async def work(provider: AwsProvider) -> list[str]:
        return list(controller(provider).wakes(event, None))

    assert world().run(work) == expected


READY = Condition(type="Ready", status="True", reason="Ready")
SUBNET = Subnet(id="subnet-1", zone="a", zone_id="1")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param({}, {}, {}, id="nothing to nothing"),
        pytest.param({"subnets": (SUBNET,)}, {"subnets": (SUBNET,)}, {}, id="the same"),
        pytest.param(
            {},
            {"subnets": (SUBNET,)},
            {"subnets": [{"id": "subnet-1", "zone": "a", "zoneID": "1"}]},
            id="something new",
        ),
        pytest.param({"subnets": (SUBNET,)}, {}, {"subnets": None}, id="something that is gone"),
        pytest.param(
            {"security_groups": (SecurityGroup(id="sg-1", name="a"),), "instance_profile": "p"},
            {"security_groups": (SecurityGroup(id="sg-1", name="b"),), "instance_profile": "p"},
            {"securityGroups": [{"id": "sg-1", "name": "b"}]},
            id="only what differs",
        ),
        pytest.param({"conditions": (READY,)}, {"conditions": (READY,)}, {}, id="the same conditions"),
    ],
)
def test_changes(before: dict[str, Any], after: dict[str, Any], expected: dict[str, Any]) -> None:
    """Only what differs is written; what is gone is written as nothing."""
    assert changes(EC2NodeClassStatus(**before), EC2NodeClassStatus(**after)) == expected
