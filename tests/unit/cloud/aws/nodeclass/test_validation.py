"""Trying classes out: which permission is missing shows on the class, before any claim."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.meta import Condition
from karpenter.cloud.aws.cloudprovider import AwsProvider
from karpenter_local.aws.faults import RefuseCall
from tests.unit.cloud.aws.world import World, node_class, pool, requirement

DENIED = RefuseCall(code="UnauthorizedOperation", message="You are not authorized.", status=403)
BOUNDARY = RefuseCall(
    code="UnauthorizedOperation",
    message="no permissions boundary allows the ec2:RunInstances action",
    status=403,
)
ORGANIZATION = RefuseCall(
    code="UnauthorizedOperation", message="explicit deny in a service control policy", status=403
)
PROFILE = RefuseCall(code="InvalidParameterValue", message="Value (p) for Invalid IAM Instance Profile name")


@cache
def world() -> World:
    """Return the account that classes are tried out in."""
    return World()


@pytest.fixture(autouse=True)
def sound() -> Iterator[None]:
    """Let every test begin with an AWS that does what it is asked."""
    world().account.forget_calls()
    yield
    for operation in ("CreateLaunchTemplate", "CreateFleet", "RunInstances"):
        world().account.faults.never(operation)


def validated(fault: tuple[str, RefuseCall] | None = None, **spec: Any) -> tuple[Condition, list[str]]:
    """Return what the condition says, and the errors that were met."""
    if fault is not None:
        world().account.faults.always(*fault)

    async def work(provider: AwsProvider) -> tuple[Condition, list[str]]:
        found = await provider.node_class_status.resolve(node_class(world(), **spec))
        said = next(each for each in found.status.conditions if each.type == "ValidationSucceeded")
        return said, [str(error) for error in found.errors]

    return world().run(work, types=True)


def test_a_class_that_works_is_valid() -> None:
    """A template is made, and EC2 says that it would launch from it, a fleet and an instance."""
    said, errors = validated(userData="# works")

    assert (said.status, errors) == ("True", [])
    counts = {name: len(world().account.calls(name)) for name in ("CreateLaunchTemplate", "CreateFleet")}
    assert counts == {"CreateLaunchTemplate": 1, "CreateFleet": 1}
    assert world().requests("CreateFleet")[0]["DryRun"] == "true"
    assert world().requests("RunInstances")[0]["DryRun"] == "true"


def test_nothing_is_launched() -> None:
    """Only dry runs are made."""
    validated(userData="# nothing")

    found = world().ec2.describe_instances()["Reservations"]
    assert found == []


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ("CreateLaunchTemplate", "CreateLaunchTemplateAuthCheckFailed"),
        ("CreateFleet", "CreateFleetAuthCheckFailed"),
        ("RunInstances", "RunInstancesAuthCheckFailed"),
    ],
)
@pytest.mark.parametrize(
    ("fault", "because"),
    [
        pytest.param(DENIED, "its role lacks the permission", id="a permission"),
        pytest.param(BOUNDARY, "a permissions boundary denies it", id="a boundary"),
        pytest.param(ORGANIZATION, "a service control policy of the organization denies it", id="an SCP"),
    ],
)
def test_a_permission_that_is_missing_shows_on_the_class(
    operation: str, reason: str, fault: RefuseCall, because: str
) -> None:
    """With the action, and who denies it."""
    said, _ = validated((operation, fault), userData=f"# {operation} {because}")

    assert (said.status, said.reason) == ("False", reason)
    assert f"ec2:{operation}" in said.message
    assert because in said.message


@pytest.mark.parametrize("operation", ["CreateFleet", "RunInstances"])
def test_a_fault_of_ec2_is_not_held_against_the_class(operation: str) -> None:
    """It is asked again soon, and the condition stays as it was."""
    broken = RefuseCall(code="InvalidState", message="come again", status=500)

    said, errors = validated((operation, broken), userData=f"# broken {operation}")

    assert (said.status, said.reason) == ("Unknown", "LookupFailed")
    assert len(errors) == 1


def test_a_profile_that_ec2_does_not_know_yet_is_waited_for() -> None:
    """IAM needs a moment to tell EC2 of a profile that we have made."""
    said, errors = validated(("RunInstances", PROFILE), userData="# profile")

    assert said.status == "Unknown"
    assert errors[0].startswith("EC2 does not know instance profile test-cluster_")


def test_a_profile_of_the_users_that_does_not_exist_is_told() -> None:
    """It is theirs to make; and since they may at any time, that is not remembered."""
    spec: dict[str, Any] = {"role": None, "instanceProfile": "mine", "userData": "# theirs"}
    world().account.faults.always("RunInstances", PROFILE)

    async def work(provider: AwsProvider) -> list[tuple[str, str]]:
        wanted = node_class(world(), **spec)
        first = await provider.node_class_status.resolve(wanted)
        world().account.faults.never("RunInstances")
        second = await provider.node_class_status.resolve(wanted)
        return [
            (each.status, each.reason)
            for found in (first, second)
            for each in found.status.conditions
            if each.type == "ValidationSucceeded"
        ]

    assert world().run(work, types=True) == [
        ("False", "InstanceProfileNotFound"),
        ("True", "ValidationSucceeded"),
    ]


@pytest.mark.parametrize(
    ("family", "data", "reason"),
    [
        ("al2023@latest", "x" * 20_000, "UserDataSizeLimitExceeded"),
        ("bottlerocket@latest", "not = [toml", "InvalidUserData"),
        ("al2023@latest", "Content-Type: text/plain\n\nnot multipart", "InvalidUserData"),
    ],
    ids=["too much", "no TOML", "no archive"],
)
def test_user_data_that_cannot_be_used_is_told(family: str, data: str, reason: str) -> None:
    """Before a machine starts from it and never joins."""
    said, _ = validated(amiSelectorTerms=[{"alias": family}], userData=data)

    assert (said.status, said.reason) == ("False", reason)


def calls_of(change: Any, *, wait: float = 0.0) -> int:
    """Return how often EC2 is asked when a class is resolved, changed, and resolved again."""

    async def work(provider: AwsProvider) -> int:
        first = await world().resolve(provider, node_class(world(), userData="# cached"))
        world().account.forget_calls()
        await provider.services.clock.sleep(wait)
        await provider.node_class_status.resolve(change(first))
        return len(world().account.calls("CreateFleet"))

    return world().run(work, types=True)


def annotated(found: EC2NodeClass, **annotations: str) -> EC2NodeClass:
    metadata = msgspec.structs.replace(found.metadata, annotations=annotations)
    return msgspec.structs.replace(found, metadata=metadata)


@pytest.mark.parametrize(
    ("change", "wait", "expected"),
    [
        pytest.param(lambda found: found, 0.0, 0, id="the same class is not tried again"),
        pytest.param(lambda found: found, 1799.0, 0, id="not within half an hour"),
        pytest.param(lambda found: found, 1801.0, 1, id="after half an hour it is"),
        pytest.param(lambda found: annotated(found, please="again"), 0.0, 1, id="an annotation makes it so"),
        pytest.param(
            lambda found: annotated(found, **{"karpenter.k8s.aws/ec2nodeclass-hash": "1"}),
            0.0,
            0,
            id="but not one of ours",
        ),
        pytest.param(
            lambda found: msgspec.structs.replace(
                found, spec=msgspec.structs.replace(found.spec, tags={"a": "b"})
            ),
            0.0,
            1,
            id="a change of the class does",
        ),
    ],
)
def test_what_came_of_it_is_remembered(change: Any, wait: float, expected: int) -> None:
    """Validation costs calls; a class that has not changed is not tried out all the time."""
    assert calls_of(change, wait=wait) == expected


def test_dry_runs_can_be_disabled() -> None:
    """Then nothing is asked of EC2, and the class is taken to work."""

    async def work(provider: AwsProvider) -> int:
        await world().resolve(provider, node_class(world(), userData="# disabled"))
        return len(world().account.calls("CreateFleet"))

    assert world().run(work, types=True, given={"DISABLE_DRY_RUN": "true"}) == 0


@pytest.mark.parametrize(
    ("requirements", "instance_type", "tenancy"),
    [
        pytest.param((), "c5.large", "default", id="no requirement: the first type"),
        pytest.param(
            (requirement("node.kubernetes.io/instance-type", "In", "m5.xlarge"),),
            "m5.xlarge",
            "default",
            id="a type",
        ),
        pytest.param(
            (requirement("node.kubernetes.io/instance-type", "In", "p5.48xlarge"),),
            "p5.48xlarge",
            "default",
            id="one with accelerators, if the pool wants no other",
        ),
        pytest.param(
            (requirement("node.kubernetes.io/instance-type", "In", "none.large"),),
            "m5.large",
            "default",
            id="nothing that is sold: a usual one",
        ),
        pytest.param(
            (requirement("karpenter.k8s.aws/instance-tenancy", "In", "dedicated"),),
            "c5.large",
            "dedicated",
            id="hardware of its own",
        ),
        pytest.param(
            (requirement("kubernetes.io/arch", "In", "arm64"),),
            "c6g.large",
            "default",
            id="another architecture",
        ),
    ],
)
def test_a_type_that_pools_would_buy_stands_for_all(
    requirements: tuple[Any, ...], instance_type: str, tenancy: str
) -> None:
    """An ordinary one, if there is any."""
    world().objects.put(pool(requirements=requirements))
    try:
        said, _ = validated(userData=f"# {instance_type} {tenancy} {len(requirements)}")
        assert said.status == "True"
    finally:
        world().objects._kept.pop(("NodePool", "default"))

    asked = world().requests("CreateFleet")[-1]
    assert asked["LaunchTemplateConfigs.1.Overrides.1.InstanceType"] == instance_type
    template = world().requests("CreateLaunchTemplate")[-1]
    assert template["LaunchTemplateData.Placement.Tenancy"] == tenancy
