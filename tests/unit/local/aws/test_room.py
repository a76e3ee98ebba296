"""The machines of the embedded AWS: they boot, join and go, or say why not."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

import pytest

from karpenter.api.labels import INSTANCE_TYPE, ZONE
from karpenter.api.node import Node
from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import Bootstrap
from karpenter.cloud.aws.amifamily.bootstrap.userdata import render_user_data
from karpenter.cloud.aws.amifamily.family import family_of
from karpenter_local.aws.commands import Interrupt, Kill
from karpenter_local.aws.control import Control
from karpenter_local.aws.estate import IN_GUIDES
from karpenter_local.aws.room import ClusterEndpoint, InstanceOperator, InstanceTimings
from karpenter_local.cluster import LocalCluster
from karpenter_local.virtual import VirtualClock, run_virtual
from tests.unit.cloud.aws.world import World

REACH = ClusterEndpoint(cluster="blue", endpoint="https://blue.example", authority="Q0E=")
PACE = InstanceTimings(pending=1, boot=10, initialize=1, shutdown=3, notice=2, remember=100)
IMAGE = next(number for number, (name, _) in IN_GUIDES.items() if "al2023" in name)
PROFILE = "profile"


@cache
def world() -> World:
    """Return an account for all tests here, with an instance profile that has a role and one that has not."""
    made = World(types=("m5.large",))
    for name in (PROFILE, "empty"):
        made.iam.create_instance_profile(InstanceProfileName=name)
    made.iam.add_role_to_instance_profile(InstanceProfileName=PROFILE, RoleName=made.estate.role)
    return made


class Yard:
    """A cluster, and the room where its machines stand."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.control = Control(world().account, world().estate)

    async def launch(
        self, *, image: str = IMAGE, profile: str = PROFILE, user_data: str | None = None, **told: Any
    ) -> str:
        """Launch a machine that is told something; return its id."""
        if user_data is None:
            fields = {"cluster": "blue", "endpoint": REACH.endpoint, "ca_bundle": REACH.authority, **told}
            user_data = render_user_data(family_of("AL2023"), Bootstrap(service_cidr="10.0.0.0/16", **fields))
        data = {"ImageId": image, "UserData": base64.b64encode(user_data.encode()).decode()}
        return await asyncio.to_thread(_launch, {**data, "IamInstanceProfile": {"Name": profile}})

    async def nodes(self) -> list[Node]:
        return list((await self.cluster.client.list(Node)).items)

    def state(self, machine: str) -> str:
        """Return the state of a machine; nothing when EC2 does not show it any longer."""
        return next((each.state for each in self.control.instances() if each.id == machine), "")


def _launch(data: dict[str, Any]) -> str:
    ec2 = world().ec2
    name = f"room-{len(ec2.describe_launch_templates()['LaunchTemplates'])}"
    ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
    answer = ec2.create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": name, "Version": "$Latest"},
                "Overrides": [{"InstanceType": "m5.large", "SubnetId": world().estate.subnets[1]}],
            }
        ],
        TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "spot"},
    )
    found: str = answer["Instances"][0]["InstanceIds"][0]
    return found


def in_yard(test: Callable[[Yard], Awaitable[None]]) -> Callable[[], None]:
    """Let an async test run beside a cluster and a room, in virtual time."""

    async def scenario() -> None:
        clock = VirtualClock()
        async with LocalCluster(clock, seed=1) as cluster:
            room = InstanceOperator(
                world().account,
                REACH,
                client=cluster.connect("kubelet"),
                kubelets=cluster.hollow_nodes,
                clock=clock,
                pace=PACE,
            )
            async with room:
                await test(Yard(cluster))

    def run() -> None:
        run_virtual(scenario())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@in_yard
async def test_a_life(yard: Yard) -> None:
    """A machine is pending, runs, boots and joins; the cloud's controller says where; at last it goes."""
    machine = await yard.launch(labels={"team": "a"})
    assert yard.state(machine) == "pending"

    await asyncio.sleep(5)
    assert yard.state(machine) == "running"
    assert await yard.nodes() == []

    await asyncio.sleep(6.5)
    (young,) = await yard.nodes()
    assert [taint.key for taint in young.spec.taints] == ["node.cloudprovider.kubernetes.io/uninitialized"]

    await asyncio.sleep(3)
    (node,) = await yard.nodes()
    assert node.spec.provider_id == f"aws:///us-west-2b/{machine}"
    assert node.spec.taints == ()
    labels = node.metadata.labels
    assert (labels["team"], labels[ZONE], labels[INSTANCE_TYPE]) == ("a", "us-west-2b", "m5.large")
    assert any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)

    yard.control.perform(Kill(instance=machine))
    await asyncio.sleep(1)
    assert yard.state(machine) == "shutting-down"
    assert yard.cluster.hollow_nodes.health(node.name).state == "dead"
    await asyncio.sleep(6)
    assert yard.state(machine) == ""
    assert await yard.nodes() == []

    await asyncio.sleep(110)
    with pytest.raises(world().ec2.exceptions.ClientError, match=r"InvalidInstanceID.NotFound"):
        world().ec2.describe_instances(InstanceIds=[machine])


@in_yard
async def test_a_machine_that_ends_before_it_has_booted(yard: Yard) -> None:
    """It never joins."""
    machine = await yard.launch()
    await asyncio.sleep(5)
    yard.control.perform(Kill(instance=machine))
    await asyncio.sleep(20)

    assert await yard.nodes() == []


@in_yard
async def test_an_interrupted_machine_is_taken_away(yard: Yard) -> None:
    """It lives until its notice is over, and not longer."""
    machine = await yard.launch()
    await asyncio.sleep(15)
    yard.control.perform(Interrupt(instance=machine, notice=30))
    await asyncio.sleep(29)
    assert yard.state(machine) == "running"
    await asyncio.sleep(10)

    assert yard.state(machine) == ""
    assert await yard.nodes() == []


@pytest.mark.parametrize(
    ("told", "why"),
    [
        pytest.param({"endpoint": "https://green.example"}, "no such host", id="another address"),
        pytest.param({"ca_bundle": "WA=="}, "x509: certificate signed by unknown authority", id="another CA"),
        pytest.param({"cluster": "green"}, "the token is for cluster green", id="another cluster"),
        pytest.param({"profile": "empty"}, "instance profile 'empty' gives no role", id="no role"),
        pytest.param({"profile": "none"}, "instance profile 'none' gives no role", id="no profile"),
        pytest.param({"user_data": "#!/bin/sh\n"}, "nodeadm: no NodeConfig", id="a script"),
        pytest.param({"image": "ami-0"}, "image '' holds no kubelet that we know", id="no image"),
        pytest.param(
            {"labels": {"node-role.kubernetes.io/worker": ""}},
            "unknown 'kubernetes.io'",
            id="a label",
        ),
    ],
)
def test_machines_that_do_not_join(told: dict[str, Any], why: str) -> None:
    """A machine that was told something wrong runs, but never joins, and its console says why."""

    @in_yard
    async def scenario(yard: Yard) -> None:
        machine = await yard.launch(**told)
        await asyncio.sleep(60)
        assert await yard.nodes() == []
        assert yard.state(machine) == "running"
        assert why in yard.control.console(machine).splitlines()[-1]
        yard.control.perform(Kill(instance=machine))

    scenario()


@in_yard
async def test_nodes_of_machines_that_nobody_remembers(yard: Yard) -> None:
    """A cluster that is kept may outlive its AWS: what is left of those machines goes when the room opens."""
    lost = {"metadata": {"name": "lost"}, "spec": {"providerID": "aws:///us-west-2a/i-0"}}
    other = {"metadata": {"name": "other"}, "spec": {"providerID": "kwok://other"}}
    for body in (lost, other):
        await yard.cluster.client.create(Node, body)
    again = InstanceOperator(
        world().account,
        REACH,
        client=yard.cluster.client,
        kubelets=yard.cluster.hollow_nodes,
        clock=yard.cluster.clock,
    )
    async with again:
        assert [node.name for node in await yard.nodes()] == ["other"]
