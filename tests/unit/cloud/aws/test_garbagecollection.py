"""What is taken away: profiles without a machine, templates out of use."""

import pytest

from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.cloudprovider import AwsProvider
from karpenter.cloud.aws.garbagecollection import (
    InstanceProfileGarbageCollection,
    LaunchTemplateGarbageCollection,
)
from karpenter.cloud.aws.labels import PROFILE_NAME
from tests.unit.cloud.aws.scripted import launched, seen
from tests.unit.cloud.aws.world import World, node_class, simple_class


@pytest.fixture(scope="module")
def world() -> World:
    """An account in which profiles are made and taken away."""
    return World(types=("m5.large",))


def profiles_left(
    world: World, *, used_by_class: bool, used_by_claim: bool, wait: float, known: bool = True
) -> bool:
    """Return whether a profile is still there after a while and a round; the state may lack the claim."""

    async def work(provider: AwsProvider) -> bool:
        name = await provider.services.instance_profiles.ensure(node_class(world))
        await provider.services.clock.sleep(wait)
        world.objects.put(simple_class(instance_profile=name if used_by_class else "another"))
        claims = [launched(annotations={PROFILE_NAME: name})] if used_by_claim else []
        if claims and not known:
            world.objects.put(*claims)
        controller = InstanceProfileGarbageCollection(
            profiles=provider.services.instance_profiles,
            objects=provider.services.objects,
            view=seen(*claims if known else ()),
        )
        assert (await controller.look()).again == 1800.0
        for each in claims:  # the account is that of all tests here
            await world.objects.delete(NodeClaim, each.name)
        return name in await provider.services.instance_profiles.list()

    return world.run(work)


@pytest.mark.parametrize(
    ("used_by_class", "used_by_claim", "wait", "expected"),
    [
        pytest.param(False, False, 3601, False, id="one that is not used is deleted"),
        pytest.param(True, False, 3601, True, id="that of a class stays"),
        pytest.param(False, True, 3601, True, id="that of a machine stays"),
        pytest.param(False, False, 3599, True, id="one that was just made stays"),
    ],
)
def test_profiles_that_are_not_used_are_deleted(
    world: World, used_by_class: bool, used_by_claim: bool, wait: float, expected: bool
) -> None:
    """A profile is deleted when no class gives it, no machine has it, and none may be about to have it."""
    left = profiles_left(world, used_by_class=used_by_class, used_by_claim=used_by_claim, wait=wait)

    assert left is expected


def test_the_profile_of_a_claim_that_the_state_lacks_stays(world: World) -> None:
    """The claims are listed before a profile goes: an instance without its profile has no credentials."""
    assert profiles_left(world, used_by_class=False, used_by_claim=True, wait=3601, known=False)


def test_profiles_of_others_stay(world: World) -> None:
    """Only what is under the path of the cluster is ours."""
    world.iam.create_instance_profile(InstanceProfileName="theirs", Path="/karpenter/us-west-2/theirs/uid/")

    async def work(provider: AwsProvider) -> None:
        await InstanceProfileGarbageCollection(
            profiles=provider.services.instance_profiles, objects=provider.services.objects, view=seen()
        ).look()

    world.run(work)

    names = {each["InstanceProfileName"] for each in world.iam.list_instance_profiles()["InstanceProfiles"]}
    assert "theirs" in names


def test_templates_that_were_left_behind_go(world: World) -> None:
    """They are found by their tag at the start, and deleted after a minute without use."""
    tags = [{"Key": "eks:eks-cluster-name", "Value": "test-cluster"}]
    for name, tagged in (("ours", tags), ("theirs", [])):
        world.ec2.create_launch_template(
            LaunchTemplateName=name,
            LaunchTemplateData={"ImageId": "ami-1"},
            TagSpecifications=[{"ResourceType": "launch-template", "Tags": tagged}] if tagged else [],
        )

    async def work(provider: AwsProvider) -> list[list[str]]:
        controller = LaunchTemplateGarbageCollection(provider.services.launch_templates)
        rounds = []
        for _ in range(2):
            await controller.look()
            found = world.ec2.describe_launch_templates()["LaunchTemplates"]
            rounds.append([each["LaunchTemplateName"] for each in found])
            await provider.services.clock.sleep(60.0)
        return rounds

    assert world.run(work) == [["ours", "theirs"], ["theirs"]]
