"""What is taken away: instances without a claim, profiles without a machine, templates out of use."""

from datetime import timedelta
from typing import Any

import pytest

from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.cloudprovider import AwsProvider
from karpenter.cloud.aws.garbagecollection import (
    InstanceGarbageCollection,
    InstanceProfileGarbageCollection,
    LaunchTemplateGarbageCollection,
)
from karpenter.cloud.aws.labels import PROFILE_NAME
from karpenter.cloud.cloudprovider import Machine
from karpenter.cloud.errors import CloudUnreachable, MachineNotFound
from karpenter.core.effects import DeleteObject, Step
from karpenter_local.virtual import VirtualClock
from tests.unit.cloud.aws.scripted import NOW, joined, launched, provider_id, seen, virtually
from tests.unit.cloud.aws.world import World, node_class, simple_class


class Machines:
    """A provider that has machines, and ends them."""

    def __init__(self, *machines: Machine, errors: dict[str, Exception] | None = None) -> None:
        self.machines = machines
        self.errors = errors or {}
        self.ended: list[str] = []

    async def list(self) -> tuple[Machine, ...]:
        """Return all machines."""
        return self.machines

    async def terminate(self, number: str) -> None:
        """End one."""
        if number in self.errors:
            raise self.errors[number]
        self.ended.append(number)


def machine(instance: str, *, age: float = 60.0, uid: str = "", deleting: bool = False) -> Machine:
    """Return a machine that was launched so many seconds ago."""
    return Machine(
        provider_id=provider_id(instance),
        claim_uid=uid,
        created=NOW - timedelta(seconds=age),
        deleting=deleting,
    )


def collected(machines: Machines, *objects: NodeClaim | Node) -> Step:
    """Return what comes of one round."""

    async def main(clock: VirtualClock) -> Step:
        provider: Any = machines
        return await InstanceGarbageCollection(provider=provider, view=seen(*objects), clock=clock).look()

    return virtually(main)


@pytest.mark.parametrize(
    ("found", "claims", "ended"),
    [
        pytest.param([machine("i-1")], [], ["i-1"], id="one without a claim goes"),
        pytest.param([machine("i-1")], [launched()], [], id="that of a claim stays"),
        pytest.param([machine("i-1", age=29)], [], [], id="a young one stays"),
        pytest.param([machine("i-1", age=30)], [], ["i-1"], id="after half a minute it goes"),
        pytest.param([machine("i-1", deleting=True)], [], [], id="one that goes is left alone"),
        pytest.param(
            [machine("i-1", uid="uid-of-default-1")],
            [launched(instance="")],
            [],
            id="that of a claim which does not know yet stays",
        ),
        pytest.param(
            [machine(f"i-{number}") for number in range(5)],
            [launched(instance="i-3")],
            ["i-0", "i-1", "i-2", "i-4"],
            id="of many only those without a claim",
        ),
        pytest.param([], [launched()], [], id="a claim without a machine is left alone"),
    ],
)
def test_instances_without_a_claim_end(
    found: list[Machine], claims: list[NodeClaim], ended: list[str]
) -> None:
    """An instance without a claim costs money."""
    machines = Machines(*found)

    collected(machines, *claims)

    assert machines.ended == [provider_id(each) for each in ended]


def test_the_node_of_such_an_instance_goes_with_it() -> None:
    """Other nodes stay."""
    step = collected(Machines(machine("i-1")), joined(), joined("node-2", "i-2"))

    assert [each.name for each in step.effects if isinstance(each, DeleteObject)] == ["node-1"]


def test_a_node_that_goes_already_is_left_alone() -> None:
    """It was asked for once."""
    assert collected(Machines(machine("i-1")), joined(leaving=True)).effects == ()


def test_one_that_is_gone_counts_as_ended() -> None:
    """EC2 may have been faster."""
    gone: dict[str, Exception] = {provider_id("i-1"): MachineNotFound("i-1")}

    assert collected(Machines(machine("i-1"), errors=gone)).again == 10.0


def test_one_that_fails_does_not_keep_the_others() -> None:
    """It is tried again in the next round."""
    machines = Machines(
        machine("i-1"), machine("i-2"), errors={provider_id("i-1"): CloudUnreachable("no answer")}
    )

    collected(machines)

    assert machines.ended == [provider_id("i-2")]


def test_rounds_are_frequent_at_first() -> None:
    """Ten seconds apart for twenty rounds, two minutes later on."""

    async def main(clock: VirtualClock) -> list[float | None]:
        provider: Any = Machines()
        controller = InstanceGarbageCollection(provider=provider, view=seen(), clock=clock)
        return [(await controller.look()).again for _ in range(22)]

    assert virtually(main) == [10.0] * 20 + [120.0] * 2


@pytest.fixture(scope="module")
def world() -> World:
    """An account in which profiles are made and taken away."""
    return World(types=("m5.large",))


def profiles_left(world: World, *, used_by_class: bool, used_by_claim: bool, wait: float) -> bool:
    """Return whether a profile is still there after a while and a round."""

    async def work(provider: AwsProvider) -> bool:
        name = await provider.services.instance_profiles.ensure(node_class(world))
        await provider.services.clock.sleep(wait)
        world.objects.put(simple_class(instance_profile=name if used_by_class else "another"))
        claims = [launched(annotations={PROFILE_NAME: name})] if used_by_claim else []
        controller = InstanceProfileGarbageCollection(
            profiles=provider.services.instance_profiles,
            objects=provider.services.objects,
            view=seen(*claims),
        )
        assert (await controller.look()).again == 1800.0
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
