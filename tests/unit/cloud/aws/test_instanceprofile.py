"""Instance profiles: made for a role, replaced with it, and taken away."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec
import pytest

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.cloud.aws.instanceprofile import InstanceProfileProvider, RoleMissing
from karpenter.cloud.aws.sdk import AwsApi
from karpenter_local.aws.faults import RefuseCall
from karpenter_local.virtual import run_virtual
from tests.unit.cloud.aws.world import CLUSTER, World, node_class


class Bench:
    """Profiles of an account, and a clock."""

    def __init__(self, world: World, aws: AwsApi) -> None:
        self.world = world
        self.now = 0.0
        self.profiles = InstanceProfileProvider(
            aws,
            cluster=CLUSTER,
            chance=Random(7),  # noqa: S311  chance that can be repeated
            monotonic=lambda: self.now,
        )

    def described(self, name: str) -> Any:
        """Return a profile as IAM describes it."""
        return self.world.iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]

    def names(self) -> list[str]:
        found = self.world.iam.list_instance_profiles()["InstanceProfiles"]
        return sorted(each["InstanceProfileName"] for each in found)


def bench(work: Callable[[Bench], Awaitable[None]]) -> None:
    """Run work on a bench of its own."""

    async def main() -> None:
        world = World(types=("m5.large",))
        aws = AwsApi(world.clients)
        try:
            await work(Bench(world, aws))
        finally:
            aws.close()

    run_virtual(main())


def with_profile(found: EC2NodeClass, name: str) -> EC2NodeClass:
    """Return a class whose status names a profile."""
    status = msgspec.structs.replace(found.status, instance_profile=name)
    return msgspec.structs.replace(found, status=status)


def test_a_profile_is_made_for_a_role() -> None:
    """The profile has the role, a path of its own and the tags of the cluster."""

    async def main(at: Bench) -> None:
        wanted = node_class(at.world, tags={"team": "a"})
        name = await at.profiles.ensure(wanted)
        made = at.described(name)
        tags = {tag["Key"]: tag["Value"] for tag in made["Tags"]}

        assert name.startswith(f"{CLUSTER}_")
        assert [role["RoleName"] for role in made["Roles"]] == [at.world.estate.role]
        assert made["Path"] == f"/karpenter/us-west-2/{CLUSTER}/uid-of-default/"
        assert tags == {
            "team": "a",
            f"kubernetes.io/cluster/{CLUSTER}": "owned",
            "eks:eks-cluster-name": CLUSTER,
            "karpenter.k8s.aws/ec2nodeclass": "default",
            "topology.kubernetes.io/region": "us-west-2",
        }

    bench(main)


def test_a_profile_that_is_right_is_kept() -> None:
    """While the role is the same, so is the profile, however often one asks."""

    async def main(at: Bench) -> None:
        wanted = node_class(at.world)
        name = await at.profiles.ensure(wanted)
        for seconds in (1.0, 61.0, 3600.0):
            at.now = seconds
            assert await at.profiles.ensure(with_profile(wanted, name)) == name
        assert at.names() == [name]

    bench(main)


def test_a_profile_just_made_is_used_again() -> None:
    """Until the status of the class has caught up, nothing is made twice."""

    async def main(at: Bench) -> None:
        wanted = node_class(at.world)
        assert await at.profiles.ensure(wanted) == await at.profiles.ensure(wanted)

    bench(main)


def test_another_role_another_profile() -> None:
    """A profile is never changed: machines that have it keep it until they go."""

    async def main(at: Bench) -> None:
        first = await at.profiles.ensure(node_class(at.world))
        at.world.iam.create_role(RoleName="other", AssumeRolePolicyDocument="{}")
        second = await at.profiles.ensure(with_profile(node_class(at.world, role="other"), first))

        assert first != second
        assert at.names() == sorted([first, second])
        assert [at.described(name)["Roles"][0]["RoleName"] for name in (first, second)] == [
            at.world.estate.role,
            "other",
        ]
        assert at.profiles.is_protected(first)
        assert at.profiles.is_protected(second)

    bench(main)


def test_protection_ends() -> None:
    """After an hour no instance can start with the old profile any longer."""

    async def main(at: Bench) -> None:
        name = await at.profiles.ensure(node_class(at.world))
        at.now = 3601.0
        assert not at.profiles.is_protected(name)

    bench(main)


def test_a_role_with_a_path() -> None:
    """The path of a role is no part of its name, also when it is compared."""

    async def main(at: Bench) -> None:
        at.world.iam.create_role(RoleName="deep", Path="/a/b/", AssumeRolePolicyDocument="{}")
        wanted = node_class(at.world, role="a/b/deep")
        name = await at.profiles.ensure(wanted)
        at.now = 3600.0
        assert await at.profiles.ensure(with_profile(wanted, name)) == name
        assert at.described(name)["Roles"][0]["RoleName"] == "deep"

    bench(main)


def test_a_profile_of_the_user() -> None:
    """A profile that the class names is used as it is, without a word to IAM; the old one is protected."""

    async def main(at: Bench) -> None:
        wanted = with_profile(node_class(at.world, role=None, instanceProfile="mine"), "before")
        at.world.account.forget_calls()
        assert await at.profiles.ensure(wanted) == "mine"
        assert at.world.account.calls() == []
        assert at.profiles.is_protected("before")

    bench(main)


def test_a_role_that_does_not_exist() -> None:
    """The error names the role, IAM is not asked again for a minute, and nothing is left behind."""

    async def main(at: Bench) -> None:
        wanted = node_class(at.world, role="missing")
        with pytest.raises(RoleMissing, match="IAM has no role missing"):
            await at.profiles.ensure(wanted)
        asked = len(at.world.account.calls("AddRoleToInstanceProfile"))
        with pytest.raises(RoleMissing):
            await at.profiles.ensure(wanted)
        assert len(at.world.account.calls("AddRoleToInstanceProfile")) == asked == 1
        at.now = 61.0
        with pytest.raises(RoleMissing):
            await at.profiles.ensure(wanted)
        assert len(at.world.account.calls("AddRoleToInstanceProfile")) == 2
        assert at.names() == []

    bench(main)


def test_a_permission_that_is_missing() -> None:
    """What IAM does not allow is told with the name of the action."""

    async def main(at: Bench) -> None:
        at.world.account.faults.always("CreateInstanceProfile", RefuseCall(code="AccessDenied", status=403))
        with pytest.raises(Exception, match="not allowed to call iam:CreateInstanceProfile"):
            await at.profiles.ensure(node_class(at.world))

    bench(main)


def test_profiles_are_listed_by_cluster_and_class() -> None:
    """Only what was made under our path is ours."""

    async def main(at: Bench) -> None:
        at.world.iam.create_instance_profile(InstanceProfileName="theirs", Path="/other/")
        first = await at.profiles.ensure(node_class(at.world))
        second = await at.profiles.ensure(node_class(at.world, name="second"))
        assert await at.profiles.list() == tuple(sorted([first, second]))
        assert await at.profiles.list(uid="uid-of-second") == (second,)

    bench(main)


def test_profiles_go_with_their_class() -> None:
    """All profiles of a class are taken away, the one of old versions included; others stay."""

    async def main(at: Bench) -> None:
        wanted = node_class(at.world)
        await at.profiles.ensure(wanted)
        legacy = at.profiles.legacy_name("default")
        at.world.iam.create_instance_profile(InstanceProfileName=legacy)
        other = await at.profiles.ensure(node_class(at.world, name="second"))
        await at.profiles.delete_all(wanted)
        await at.profiles.delete_all(wanted)
        assert at.names() == [other]

    bench(main)
