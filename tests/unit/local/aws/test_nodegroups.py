"""A cluster and its AWS in one process: node groups, versions, and whose machines are let in."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

from karpenter.api.labels import ZONE
from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import Bootstrap
from karpenter.cloud.aws.amifamily.bootstrap.userdata import render_user_data
from karpenter.cloud.aws.amifamily.family import family_of
from karpenter.kube.targets import untyped
from karpenter_local.aws.account import ManagedNodeGroup
from karpenter_local.sandbox.options import AwsOptions, ClusterOptions
from karpenter_local.sandbox.sandbox import Sandbox
from karpenter_local.virtual import run_virtual
from tests.unit.cloud.aws.world import embedded
from tests.unit.local.aws.bare import TRUST

CONFIG_MAPS = untyped("v1", "configmaps", kind="ConfigMap", namespaced=True)
GROUP = ManagedNodeGroup(name="main", type="m5.large", count=3)


def in_bare_sandbox(
    test: Callable[[Sandbox], Awaitable[None]], *, groups: tuple[ManagedNodeGroup, ...] = ()
) -> Callable[[], None]:
    """Let an async test run in a sandbox with a bare account, in virtual time."""

    async def scenario() -> None:
        cloud = AwsOptions(
            types=("m5.large",),
            server=embedded(),
            bare=True,
            tagged=False,
            node_groups=groups,
            node_class=False,
        )
        cluster = ClusterOptions(kubernetes="1.31")
        async with Sandbox(name="blue", cluster=cluster, cloud=cloud, operators=0) as sandbox:
            await test(sandbox)

    def run() -> None:
        run_virtual(scenario())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def _groups(sandbox: Sandbox) -> None:
    """The instances of a node group are there from the beginning, one in each zone, and can be scaled."""
    found = await sandbox.nodes()
    eks = sandbox.aws.site.client("eks")

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
    assert len(await sandbox.nodes()) == 1
    eks.delete_nodegroup(clusterName="blue", nodegroupName="main")
    await asyncio.sleep(60)
    assert await sandbox.nodes() == []
    assert sandbox.aws.site.client("iam").list_instance_profiles()["InstanceProfiles"] == []


test_the_instances_of_a_node_group = in_bare_sandbox(_groups, groups=(GROUP,))


def launch(sandbox: Sandbox) -> str:
    """Launch a machine with a role that nothing lets in yet, and return the ARN of the role."""
    iam, ec2 = sandbox.aws.site.client("iam"), sandbox.aws.site.client("ec2")
    role = str(iam.create_role(RoleName="nodes", AssumeRolePolicyDocument=TRUST)["Role"]["Arn"])
    iam.create_instance_profile(InstanceProfileName="nodes")
    iam.add_role_to_instance_profile(InstanceProfileName="nodes", RoleName="nodes")
    told = Bootstrap(
        cluster="blue",
        endpoint=sandbox.aws.machine_room.reach.endpoint,
        ca_bundle=sandbox.aws.machine_room.reach.authority,
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
                "Overrides": [{"InstanceType": "m5.large", "SubnetId": sandbox.aws.site.estate.subnets[0]}],
            }
        ],
        TargetCapacitySpecification={
            "TotalTargetCapacity": 1,
            "DefaultTargetCapacityType": "on-demand",
        },
    )
    return role


async def _entry(sandbox: Sandbox) -> None:
    """A machine whose role has no access entry stays out and says why, until it has one of the right type."""
    role = launch(sandbox)
    await asyncio.sleep(60)

    (machine,) = sandbox.aws.site.control.instances()
    assert await sandbox.nodes() == []
    assert f"neither an access entry nor aws-auth lets {role} in" in sandbox.aws.site.control.console(
        machine.id
    )
    eks = sandbox.aws.site.client("eks")
    eks.create_access_entry(clusterName="blue", principalArn=role)
    await asyncio.sleep(60)
    assert await sandbox.nodes() == []
    eks.delete_access_entry(clusterName="blue", principalArn=role)
    eks.create_access_entry(clusterName="blue", principalArn=role, type="EC2_LINUX")
    await asyncio.sleep(60)
    assert len(await sandbox.nodes()) == 1


test_machines_need_an_access_entry = in_bare_sandbox(_entry)


async def _aws_auth(sandbox: Sandbox) -> None:
    """The ConfigMap aws-auth lets a role in, too, if its groups have that of nodes."""
    role = launch(sandbox)

    def mapped(group: str) -> dict[str, Any]:
        name = "system:node:{{EC2PrivateDNSName}}"
        text = f"- rolearn: {role}\n  username: {name!r}\n  groups: [system:bootstrappers, {group}]\n"
        return {"metadata": {"name": "aws-auth"}, "data": {"mapRoles": text}}

    client = sandbox.client
    await client.create(CONFIG_MAPS, mapped("system:node"), namespace="kube-system")
    await asyncio.sleep(60)
    assert await sandbox.nodes() == []
    await client.delete(CONFIG_MAPS, "aws-auth", namespace="kube-system")
    await client.create(CONFIG_MAPS, mapped("system:nodes"), namespace="kube-system")
    await asyncio.sleep(60)
    assert len(await sandbox.nodes()) == 1


test_aws_auth_lets_machines_in = in_bare_sandbox(_aws_auth)
