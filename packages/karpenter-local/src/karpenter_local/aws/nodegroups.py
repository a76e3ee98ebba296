"""
Managed node groups: EKS keeps as many instances as a group wants, and they join the cluster.

moto notes node groups and launches nothing. Here a group that is made launches instances in its subnets, zone
by zone, from the AL2023 image of its version, with an instance profile for its role and an access entry for
it; one that is deleted or made smaller ends them. A cluster that is made gets the security group that nodes
are in. :func:`install` puts that in place of what moto does.
"""

from __future__ import annotations

import base64
from functools import cache
from typing import Any, Final

from moto.ec2.models import ec2_backends
from moto.eks.models import EKSBackend
from moto.iam.models import iam_backends

from karpenter.api.node import Taint
from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import Bootstrap
from karpenter.cloud.aws.amifamily.bootstrap.userdata import render_user_data
from karpenter.cloud.aws.amifamily.family import family_of
from karpenter_local.aws.account import ACCOUNTS, Account
from karpenter_local.aws.eks import CONFIG_MAP, cluster_of, let_nodes_in, mode_of
from karpenter_local.aws.fleet import InstantFleet, architectures
from karpenter_local.aws.instancestate import is_alive

POLICIES: Final = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
)
"""What the role of a group's nodes has, as tools make it."""

_GROUP: Final = "eks:nodegroup-name"
_CLUSTER: Final = "eks:cluster-name"
CLUSTER_GROUP: Final = "aws:eks:cluster-name"
"""The tag of the security group that EKS makes for a cluster; only AWS itself may set such a tag."""

_EFFECTS: Final = {
    "NO_SCHEDULE": "NoSchedule",
    "NO_EXECUTE": "NoExecute",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
}
_PLAIN: Final[dict[str, Any]] = {}


def _scale(account: Account, cluster: Any, group: Any) -> None:
    """Launch or end instances until a group has as many as it wants."""
    running = _members(account, cluster.name, group.nodegroup_name)
    wanted = int(group.scaling_config["desiredSize"])
    for each in running[wanted:]:
        each.terminate()
    for place in range(len(running), wanted):
        subnet = group.subnets[place % len(group.subnets)]
        _fleet(account, cluster, group, subnet)


def _members(account: Account, cluster: str, group: str) -> list[Any]:
    """Return the instances of a group that are not leaving, in the order of launch."""
    backend: Any = ec2_backends[account.number][account.region]
    return [
        each
        for each in backend.all_instances()
        if is_alive(each)
        and {tag["key"]: tag["value"] for tag in each.get_tags()}.items()
        >= {_CLUSTER: cluster, _GROUP: group}.items()
    ]


def _fleet(account: Account, cluster: Any, group: Any, subnet: str) -> None:
    template = {"LaunchTemplateName": f"eks-{group.uuid}", "Version": "$Latest"}
    asked: dict[str, Any] = {
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": 1,
            "DefaultTargetCapacityType": "spot" if group.capacity_type == "SPOT" else "on-demand",
        },
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": template,
                "Overrides": [{"InstanceType": each, "SubnetId": subnet} for each in group.instance_types],
            }
        ],
    }
    tags = {
        _CLUSTER: cluster.name,
        _GROUP: group.nodegroup_name,
        f"kubernetes.io/cluster/{cluster.name}": "owned",
        "Name": f"{cluster.name}-{group.nodegroup_name}-Node",
        **group.tags,
    }
    InstantFleet(account, ec2_backends[account.number][account.region], asked.get).launch({"instance": tags})


def _prepare(account: Account, cluster: Any, group: Any) -> None:
    """Make what the instances of a group are launched with: a profile, a template, the right to join."""
    iam: Any = iam_backends[account.number]["aws"]
    profile = f"eks-{group.uuid}"
    role = group.node_role.rpartition("/")[2]
    iam.create_instance_profile(profile, "/", [role])
    if mode_of(account, cluster.name) != CONFIG_MAP:
        entries = cluster_of(account, cluster.name).entries
        if group.node_role not in entries:
            let_nodes_in(account, cluster.name, group.node_role)
    arch = architectures().get(group.instance_types[0], "x86_64")
    images = f"/aws/service/eks/optimized-ami/{cluster.version}/amazon-linux-2023/{arch}"
    image = account.parameters[f"{images}/standard/recommended/image_id"]
    data = {
        "ImageId": image,
        "UserData": base64.b64encode(_user_data(cluster, group, image).encode()).decode(),
        "IamInstanceProfile": {"Name": profile},
        "SecurityGroupIds": [cluster.resources_vpc_config["clusterSecurityGroupId"]],
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
    }
    ec2_backends[account.number][account.region].create_launch_template(profile, "", data, {})


def _user_data(cluster: Any, group: Any, image: str) -> str:
    labels = {
        "eks.amazonaws.com/nodegroup": group.nodegroup_name,
        "eks.amazonaws.com/capacityType": group.capacity_type,
        "eks.amazonaws.com/nodegroup-image": image,
        **group.labels,
    }
    taints = tuple(
        Taint(key=each["key"], value=each.get("value") or "", effect=_EFFECTS[each["effect"]])
        for each in group.taints
    )
    told = Bootstrap(
        cluster=cluster.name,
        endpoint=cluster.endpoint,
        ca_bundle=cluster.certificate_authority["data"],
        service_cidr=cluster.kubernetes_network_config["serviceIpv4Cidr"],
        labels=labels,
        taints=taints,
    )
    return render_user_data(family_of("AL2023"), told)


def _create_cluster(self: Any, name: str, *more: Any, **named: Any) -> Any:
    cluster = _PLAIN["create_cluster"](self, name, *more, **named)
    ec2: Any = ec2_backends[self.account_id][self.region_name]
    network = cluster.resources_vpc_config
    vpc = ec2.get_subnet(network["subnetIds"][0]).vpc_id if network.get("subnetIds") else ""
    if vpc and self.account_id in ACCOUNTS:
        cluster.resources_vpc_config = {
            "securityGroupIds": [],
            "endpointPublicAccess": True,
            "endpointPrivateAccess": False,
            "publicAccessCidrs": ["0.0.0.0/0"],
            **network,
            "vpcId": vpc,
            "clusterSecurityGroupId": _security_group(ec2, vpc, name),
        }
    return cluster


def _security_group(ec2: Any, vpc: str, cluster: str) -> str:
    """
    Return the group that EKS makes for a cluster; that of a cluster that was built beside it exists already.

    https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html
    """
    for group in ec2.groups[vpc].values():
        if ec2.tags[group.id].get(CLUSTER_GROUP) == cluster:
            return str(group.id)
    made = ec2.create_security_group(f"eks-cluster-sg-{cluster}", "The nodes of a cluster", vpc_id=vpc)
    ec2.tags[made.id][CLUSTER_GROUP] = cluster
    return str(made.id)


def _create_nodegroup(self: Any, cluster_name: str, *more: Any, **named: Any) -> Any:
    group = _PLAIN["create_nodegroup"](self, cluster_name, *more, **named)
    account = ACCOUNTS.get(self.account_id)
    if account is None:
        return group
    cluster = self.clusters[cluster_name]
    group.version = named.get("version") or cluster.version
    group.release_version = f"{group.version}.0-20260101"
    group.ami_type = f"AL2023_{architectures().get(group.instance_types[0], 'x86_64')}_STANDARD"
    group.remote_access = named.get("remote_access")
    _prepare(account, cluster, group)
    _scale(account, cluster, group)
    return group


def _delete_nodegroup(self: Any, cluster_name: str, nodegroup_name: str) -> Any:
    group = _PLAIN["delete_nodegroup"](self, cluster_name, nodegroup_name)
    account = ACCOUNTS.get(self.account_id)
    if account is not None:
        for each in _members(account, cluster_name, nodegroup_name):
            each.terminate()
        name = f"eks-{group.uuid}"
        iam: Any = iam_backends[account.number]["aws"]
        iam.remove_role_from_instance_profile(name, group.node_role.rpartition("/")[2])
        iam.delete_instance_profile(name)
        ec2_backends[account.number][account.region].delete_launch_template(name, None)
    return group


def _update_nodegroup_config(
    self: Any, cluster_name: str, nodegroup_name: str, *more: Any, **named: Any
) -> Any:
    update = _PLAIN["update_nodegroup_config"](self, cluster_name, nodegroup_name, *more, **named)
    account = ACCOUNTS.get(self.account_id)
    if account is not None:
        cluster = self.clusters[cluster_name]
        _scale(account, cluster, cluster.nodegroups[nodegroup_name])
    return update


@cache
def install() -> None:
    """Put our clusters and node groups in place of moto's."""
    changed = {
        "create_cluster": _create_cluster,
        "create_nodegroup": _create_nodegroup,
        "delete_nodegroup": _delete_nodegroup,
        "update_nodegroup_config": _update_nodegroup_config,
    }
    for name, method in changed.items():
        _PLAIN[name] = getattr(EKSBackend, name)
        setattr(EKSBackend, name, method)
