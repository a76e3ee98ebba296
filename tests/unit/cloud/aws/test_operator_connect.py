"""How the provider begins: with the settings, credentials and answers that it finds."""

from collections.abc import Iterator
from datetime import timedelta
from random import Random

import pytest

from karpenter.cloud.aws.cloudprovider import AwsProvider
from karpenter.cloud.aws.operator import connect
from karpenter.cloud.aws.options import AWS_SETTINGS, BadAwsSetting, read_settings
from karpenter.cloud.cloudprovider import HasControllers, HoldsRegistration, Interruptible, ProviderContext
from karpenter.cloud.errors import CloudError
from karpenter.cloud.registry import find_provider
from karpenter_local.aws.faults import RefuseCall
from karpenter_local.testing.cluster_objects import ObjectsInMemory
from karpenter_local.virtual import VirtualClock, run_virtual
from tests.unit.cloud.aws.world import CLUSTER, NOW, World, embedded

DENIED = RefuseCall(code="UnauthorizedOperation", message="You are not authorized.", status=403)


@pytest.fixture(scope="module")
def world() -> World:
    """An account to begin in."""
    return World(types=("m5.large",))


@pytest.fixture(autouse=True)
def environment(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the SDK find the account in the environment, and nothing else."""
    for name, value in world.account.credentials.items():
        monkeypatch.setenv(name.upper().replace("REGION_NAME", "AWS_REGION"), value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    yield
    for operation in ("DescribeInstanceTypes", "DescribeCluster", "GetManagedResource"):
        world.account.faults.never(operation)


def begun(cluster: str = CLUSTER, version: str = "", **settings: str) -> list[str]:
    """Begin, and return what the provider can do."""

    async def told() -> str:
        return version

    async def main() -> list[str]:
        around = ProviderContext(
            clock=VirtualClock(),
            chance=Random(7),  # noqa: S311  chance that can be repeated
            cluster=cluster,
            objects=ObjectsInMemory(),
            settings={"AWS_ENDPOINT_URL": embedded().endpoint, **settings},
            version=told if version else None,
        )
        async with connect(around) as provider:
            kinds = (Interruptible, HoldsRegistration, HasControllers)
            assert all(isinstance(provider, kind) for kind in kinds)
            return [provider.name, await provider.services.cluster.version()]

    return run_virtual(main())


def test_it_begins_with_what_the_environment_tells() -> None:
    """Credentials and region are those that the SDK finds; EKS tells the version."""
    assert begun() == ["aws", "1.33"]


def test_the_version_is_that_of_the_api_server() -> None:
    """If the API server can be asked, EKS is not."""
    assert begun(version="1.31") == ["aws", "1.31"]


def test_the_version_is_that_of_eks_if_so_set() -> None:
    """What EKS says is what its images are for."""
    assert begun(version="1.31", EKS_CONTROL_PLANE="true") == ["aws", "1.33"]


def test_the_operator_finds_it_by_name() -> None:
    """As ``--cloud-provider aws`` does."""
    assert find_provider("aws") is connect


@pytest.mark.parametrize(
    ("operation", "problem"),
    [
        ("DescribeInstanceTypes", "not allowed to call ec2:DescribeInstanceTypes: its role lacks"),
        ("DescribeCluster", "not allowed to call eks:DescribeCluster: its role lacks"),
    ],
)
def test_a_permission_that_is_missing_is_named(world: World, operation: str, problem: str) -> None:
    """It does not begin, and says which action is not allowed."""
    world.account.faults.always(operation, DENIED)

    with pytest.raises(CloudError, match=problem):
        begun()


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("ExpiredToken", "its credentials have expired"),
        ("AuthFailure", "AWS does not accept its credentials"),
        ("InvalidClientTokenId", "AWS does not know its credentials"),
    ],
)
def test_credentials_that_are_wrong_are_told(world: World, code: str, problem: str) -> None:
    """What is wrong with them is said, and not that a permission is missing."""
    world.account.faults.always("DescribeInstanceTypes", RefuseCall(code=code, status=403))

    with pytest.raises(CloudError, match=problem):
        begun()


def test_without_credentials_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a hint at where they come from."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    with pytest.raises(CloudError, match=r"no AWS credentials were found .*; hint: give the service account"):
        begun()


def test_without_a_region_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it says of every setting."""
    monkeypatch.delenv("AWS_REGION")

    with pytest.raises(BadAwsSetting, match="hint: set AWS_REGION"):
        begun()


def test_without_a_cluster_it_says_so() -> None:
    """Machines are tagged with it."""
    with pytest.raises(BadAwsSetting, match="CLUSTER_NAME: is required"):
        begun(cluster="")


def test_defaults_are_those_that_are_documented() -> None:
    """Stating every default changes nothing."""
    stated = {knob.variable: knob.default for knob in AWS_SETTINGS}

    assert read_settings("a", stated) == read_settings("a", {})


def test_a_zonal_shift_that_cannot_be_asked_about_is_told(world: World) -> None:
    """The provider does not start if it may not read zonal shifts."""
    world.account.faults.always("GetManagedResource", DENIED)

    with pytest.raises(CloudError, match="not allowed to call arc-zonal-shift:GetManagedResource"):
        begun(ENABLE_ZONAL_SHIFT="true")


def test_zonal_shifts_are_asked_for_before_anything_is_bought(world: World) -> None:
    """A zone that is shifted away when we begin is left alone from the beginning."""
    expires = (NOW + timedelta(hours=1)).timestamp()
    world.account.shifts = [{"awayFrom": "usw2-az1", "appliedStatus": "APPLIED", "expiryTime": expires}]

    async def work(provider: AwsProvider) -> frozenset[str]:
        await provider.services.zonal_shifts.refresh()
        return provider.services.zonal_shifts.active()

    assert world.run(work) == {"usw2-az1"}
    (call,) = world.account.calls("GetManagedResource")[-1:]
    assert str(call.parameters["resourceIdentifier"]).endswith(f":cluster/{CLUSTER}")
