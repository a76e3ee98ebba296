"""A cluster and its AWS in one process: node groups, versions, and whose machines are let in."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

from karpenter.api.labels import ZONE
from karpenter.api.node import Node
from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import Bootstrap
from karpenter.cloud.aws.amifamily.bootstrap.userdata import render_user_data
from karpenter.cloud.aws.amifamily.family import family_of
from karpenter.kube.rest import untyped
from karpenter_local.aws.beside import AwsWithCluster, aws_with_cluster
from karpenter_local.aws.location import Location, NodeGroup
from karpenter_local.virtual import VirtualClock, run_virtual
from tests.unit.local.aws.bare import TRUST

CONFIG_MAPS = untyped("v1", "configmaps", kind="ConfigMap", namespaced=True)
GROUP = NodeGroup(name="main", type="m5.large", count=3)


def beside(
    test: Callable[[AwsWithCluster], Awaitable[None]], *, groups: tuple[NodeGroup, ...] = ()
) -> Callable[[], None]:
    """Let an async test run beside a cluster on a bare account, in virtual time."""

    async def scenario() -> None:
        location = Location(cluster="blue", types=("m5.large",), bare=True, tagged=False, node_groups=groups)
        async with aws_with_cluster(location, clock=VirtualClock(), seed=1, kubernetes="1.31") as world:
            await test(world)

    def run() -> None:
        run_virtual(scenario())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def nodes(world: AwsWithCluster) -> list[Node]:
    """Return all nodes."""
    return list((await world.cluster.client.list(Node)).items)


async def _groups(world: AwsWithCluster) -> None:
    """The instances of a node group are there from the beginning, one in each zone, and can be scaled."""
    found = await nodes(world)
    eks = world.site.client("eks")

    assert [each.metadata.labels[ZONE] for each in found] == ["us-west-2a", "us-west-2b", "us-west-2c"]
    assert {each.metadata.labels["eks.amazonaws.com/nodegroup"] for each in found} == {"main"}
    assert {each.status.node_info.kubelet_version for each in found} == {"v1.31.0"}
    group = eks.describe_nodegroup(clusterName="blue", nodegroupName="main")["nodegroup"]
    assert (group["version"], group["amiType"]) == ("1.31", "AL2023_x86_64_STANDARD")
    assert eks.list_access_entries(clusterName="blue")["accessEntries"] == [group["nodeRole"]]

    eks.update_nodegroup_config(
        clusterName="blue", nodegroupName="main", scalingConfig={"minSize": 0, "maxSize": 3, "desiredSize": 1}
    )
    await asyncio.sleep(60)
    assert len(await nodes(world)) == 1
    eks.delete_nodegroup(clusterName="blue", nodegroupName="main")
    await asyncio.sleep(60)
    assert await nodes(world) == []
    assert world.site.client("iam").list_instance_profiles()["InstanceProfiles"] == []


test_the_instances_of_a_node_group = beside(_groups, groups=(GROUP,))


def launch(world: AwsWithCluster) -> str:
    """Launch a machine with a role that nothing lets in yet, and return the ARN of the role."""
    iam, ec2 = world.site.client("iam"), world.site.client("ec2")
    role = str(iam.create_role(RoleName="nodes", AssumeRolePolicyDocument=TRUST)["Role"]["Arn"])
    iam.create_instance_profile(InstanceProfileName="nodes")
    iam.add_role_to_instance_profile(InstanceProfileName="nodes", RoleName="nodes")
    told = Bootstrap(
        cluster="blue",
        endpoint=world.room.reach.endpoint,
        ca_bundle=world.room.reach.authority,
        service_cidr="10.100.0.0/16",
    )
    data: dict[str, Any] = {
        "ImageId": "ami-09f1941e8730d7702",
        "IamInstanceProfile": {"Name": "nodes"},
        "UserData": base64.b64encode(render_user_data(family_of("AL2023"), told).encode()).decode(),
    }
    ec2.create_launch_template(LaunchTemplateName="nodes", LaunchTemplateData=data)
    ec2.create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": "nodes", "Version": "$Latest"},
                "Overrides": [{"InstanceType": "m5.large", "SubnetId": world.site.estate.subnets[0]}],
            }
        ],
        TargetCapacitySpecification={
            "TotalTargetCapacity": 1,
            "DefaultTargetCapacityType": "on-demand",
        },
    )
    return role


async def _entry(world: AwsWithCluster) -> None:
    """A machine whose role has no access entry stays out and says why, until it has one of the right type."""
    role = launch(world)
    await asyncio.sleep(60)

    (machine,) = world.site.control.instances()
    assert await nodes(world) == []
    assert f"neither an access entry nor aws-auth lets {role} in" in world.site.control.console(machine.id)
    eks = world.site.client("eks")
    eks.create_access_entry(clusterName="blue", principalArn=role)
    await asyncio.sleep(60)
    assert await nodes(world) == []
    eks.delete_access_entry(clusterName="blue", principalArn=role)
    eks.create_access_entry(clusterName="blue", principalArn=role, type="EC2_LINUX")
    await asyncio.sleep(60)
    assert len(await nodes(world)) == 1


test_machines_need_an_access_entry = beside(_entry)


async def _aws_auth(world: AwsWithCluster) -> None:
    """The ConfigMap aws-auth lets a role in, too, if its groups have that of nodes."""
    role = launch(world)

    def mapped(group: str) -> dict[str, Any]:
        name = "system:node:{{EC2PrivateDNSName}}"
        text = f"- rolearn: {role}\n  username: {name!r}\n  groups: [system:bootstrappers, {group}]\n"
        return {"metadata": {"name": "aws-auth"}, "data": {"mapRoles": text}}

    client = world.cluster.client
    await client.create(CONFIG_MAPS, mapped("system:node"), namespace="kube-system")
    await asyncio.sleep(60)
    assert await nodes(world) == []
    await client.delete(CONFIG_MAPS, "aws-auth", namespace="kube-system")
    await client.create(CONFIG_MAPS, mapped("system:nodes"), namespace="kube-system")
    await asyncio.sleep(60)
    assert len(await nodes(world)) == 1


test_aws_auth_lets_machines_in = beside(_aws_auth)
