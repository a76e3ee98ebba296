"""
The resources of one cluster in an account: VPC, subnets in three zones, security groups, node role, EKS
cluster, interruption queue and AMIs.

Everything that belongs to the cluster is tagged ``karpenter.sh/discovery`` with its name, as guides tell
users to do, and is also named and tagged as the usual tools for EKS do it. Images are those that AWS
publishes for EKS, for all families, under the same parameters, and a few that guides call by their ids.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from moto.ec2.models import ec2_backends
from moto.ec2.models.amis import Ami
from moto.eks.models import eks_backends
from moto.sqs.models import sqs_backends

from karpenter.cloud.aws.policy import PolicyScope, policies
from karpenter.install.documents import pod_identity_trust
from karpenter_local.aws.account import Account, ManagedNodeGroup, zones_of
from karpenter_local.aws.eks import let_nodes_in
from karpenter_local.aws.eventbridge import subscribe
from karpenter_local.aws.iam import has_spot_role, make_spot_role
from karpenter_local.aws.nodegroups import CLUSTER_GROUP, POLICIES
from karpenter_local.aws.releases import FIRST, images_of, released

if TYPE_CHECKING:
    from collections.abc import Mapping


DISCOVERY: Final = "karpenter.sh/discovery"
IN_GUIDES: Final = {
    "ami-0d6c6ac554d62a745": ("amazon-eks-node-1.30-v20240807", "x86_64"),
    "ami-0eb2ae1eda347f8cf": ("amazon-eks-arm64-node-1.30-v20240807", "arm64"),
    "ami-09f1941e8730d7702": ("amazon-eks-node-al2023-x86_64-standard-1.30-v20240807", "x86_64"),
}
"""Images of AWS that guides call by their ids: name and architecture."""

_IN_GUIDES_SINCE: Final = datetime(2024, 8, 7, tzinfo=UTC)
_TRUST: Final = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}


class ClusterResources:
    """
    Resources of an account for one cluster.

    A bare one is as it is before anything was installed: a network with public and private subnets and a
    cluster, but no roles, no queue and no rules. Whether subnets and security groups carry the discovery tag
    is said apart.
    """

    def __init__(
        self,
        account: Account,
        clients: Mapping[str, Any],
        cluster: str,
        *,
        kubernetes: str = "1.33",
        bare: bool = False,
        tagged: bool = True,
    ) -> None:
        self.account = account
        self.cluster = cluster
        self.kubernetes = kubernetes
        self.bare = bare
        self._tagged = tagged
        self.role = f"KarpenterNodeRole-{cluster}"
        self._ec2, self._iam, self._eks = clients["ec2"], clients["iam"], clients["eks"]
        self._released = 0
        self._versions = [kubernetes]
        """Versions of Kubernetes for which images are published."""

        self.subnets: list[str] = []
        """Private ones, in the order of their zones."""

        self.public_subnets: list[str] = []
        self.groups: list[str] = []

    @property
    def zones(self) -> tuple[str, ...]:
        return zones_of(self.account.region)

    def node_class(self) -> dict[str, object]:
        """Return the spec of an EC2NodeClass that uses what there is here."""
        found = [{"tags": {"karpenter.sh/discovery": self.cluster}}]
        return {
            "amiFamily": "AL2023",
            "role": self.role,
            # By name, because what an alias stands for is remembered for a day.
            "amiSelectorTerms": [{"name": "amazon-eks-node-al2023-x86_64-standard-*", "owner": "amazon"}],
            "subnetSelectorTerms": found,
            "securityGroupSelectorTerms": found,
        }

    def build(self) -> None:
        self._network()
        self._make_cluster()
        if not self.bare:
            self._install()
        for image, (name, arch) in IN_GUIDES.items():
            self.publish_image(name, arch=arch, created=_IN_GUIDES_SINCE, number=image)
        self.release_images()
        self.account.publish = self._publish_for

    def _network(self) -> None:
        """Make a VPC with its subnets and security groups."""
        vpc = str(self._ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"])
        for number, zone in enumerate(self.zones):
            self.add_subnet(vpc, zone, f"10.0.{number * 32}.0/19")
        if self.bare:
            self._name(vpc, f"eksctl-{self.cluster}-cluster/VPC")
            gateway = self._ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
            self._ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
            for number, zone in enumerate(self.zones):
                made = self._ec2.create_subnet(
                    VpcId=vpc, AvailabilityZone=zone, CidrBlock=f"10.0.{96 + number * 32}.0/19"
                )
                subnet = str(made["Subnet"]["SubnetId"])
                self._ec2.modify_subnet_attribute(SubnetId=subnet, MapPublicIpOnLaunch={"Value": True})
                self._name(
                    subnet, f"eksctl-{self.cluster}-cluster/SubnetPublic{zone.replace('-', '').upper()}"
                )
                self.public_subnets.append(subnet)
        self.groups = [self._group(vpc, "nodes"), self._group(vpc, "pods")]
        backend: Any = ec2_backends[self.account.number][self.account.region]
        backend.tags[self.groups[0]][CLUSTER_GROUP] = self.cluster

    def _make_cluster(self) -> None:
        self._eks.create_cluster(
            name=self.cluster,
            version=self.kubernetes,
            roleArn=f"arn:aws:iam::{self.account.number}:role/cluster",
            resourcesVpcConfig={"subnetIds": [*self.subnets, *self.public_subnets]},
            kubernetesNetworkConfig={"serviceIpv4Cidr": "10.100.0.0/16"},
        )
        made = self._cluster()
        made.resources_vpc_config["endpointPrivateAccess"] = True
        self.let_in_by("API_AND_CONFIG_MAP")
        made.upgrade_policy = {"supportType": "STANDARD"}
        number = sha256(f"{self.account.number}/{self.account.region}/{self.cluster}".encode()).hexdigest()
        issuer = f"https://oidc.eks.{self.account.region}.amazonaws.com/id/{number[:32].upper()}"
        made.identity = {"oidc": {"issuer": issuer}}

    def _install(self) -> None:
        """Make what Karpenter's installation makes: roles, the right to join, the queue and its rules."""
        self._iam.create_role(RoleName=self.role, AssumeRolePolicyDocument=json.dumps(_TRUST))
        for policy in POLICIES:
            self._iam.attach_role_policy(RoleName=self.role, PolicyArn=f"arn:aws:iam::aws:policy/{policy}")
        self._let_operator_in()
        if not has_spot_role(self.account):
            make_spot_role(self.account)
        let_nodes_in(self.account, self.cluster, f"arn:aws:iam::{self.account.number}:role/{self.role}")
        sqs_backends[self.account.number][self.account.region].create_queue(self.cluster)
        subscribe(self.account, self.cluster, prefix=f"karpenter-{self.cluster}")

    def _let_operator_in(self) -> None:
        """Make the role of the operator, and give it to the pods of its service account."""
        role = f"KarpenterControllerRole-{self.cluster}"
        scope = PolicyScope(
            cluster=self.cluster,
            region=self.account.region,
            account=self.account.number,
            node_role=self.role,
            queue=self.cluster,
        )
        self._iam.create_role(RoleName=role, AssumeRolePolicyDocument=json.dumps(pod_identity_trust()))
        for name, document in policies(scope).items():
            self._iam.put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=json.dumps(document))
        self._eks.create_addon(clusterName=self.cluster, addonName="eks-pod-identity-agent")
        self._eks.create_pod_identity_association(
            clusterName=self.cluster,
            namespace="kube-system",
            serviceAccount="karpenter",
            roleArn=f"arn:aws:iam::{self.account.number}:role/{role}",
        )

    def _cluster(self) -> Any:
        return eks_backends[self.account.number][self.account.region].clusters[self.cluster]

    def serve(self, *, endpoint: str, authority: str) -> None:
        """Let EKS tell where the API server is, and which authority (in base64) it is trusted by."""
        cluster = self._cluster()
        cluster.endpoint = endpoint
        cluster.certificate_authority = {"data": authority}

    def let_in_by(self, mode: str) -> None:
        """Let principals into the cluster by the API, by the ConfigMap aws-auth, or by both."""
        self._cluster().access_config = {"authenticationMode": mode}

    def add_node_group(self, group: ManagedNodeGroup) -> None:
        """Make a managed node group with a role of its own; its instances join the cluster that is served."""
        role = f"eksctl-{self.cluster}-nodegroup-{group.name}-NodeInstanceRole"
        self._iam.create_role(RoleName=role, AssumeRolePolicyDocument=json.dumps(_TRUST))
        for policy in POLICIES:
            self._iam.attach_role_policy(RoleName=role, PolicyArn=f"arn:aws:iam::aws:policy/{policy}")
        self._eks.create_nodegroup(
            clusterName=self.cluster,
            nodegroupName=group.name,
            nodeRole=f"arn:aws:iam::{self.account.number}:role/{role}",
            subnets=self.subnets,
            instanceTypes=[group.type],
            scalingConfig={"minSize": 0, "desiredSize": group.count, "maxSize": max(group.count, 1)},
        )

    def add_subnet(self, vpc: str, zone: str, block: str) -> str:
        made = self._ec2.create_subnet(VpcId=vpc, AvailabilityZone=zone, CidrBlock=block)
        subnet = str(made["Subnet"]["SubnetId"])
        name = f"eksctl-{self.cluster}-cluster/SubnetPrivate{zone.replace('-', '').upper()}"
        self._tag(subnet, Name=name, **{"kubernetes.io/role/internal-elb": "1"})
        self.subnets.append(subnet)
        return subnet

    def release_images(self) -> dict[str, str]:
        """Publish the next release of images; return their ids by parameter."""
        made: dict[str, str] = {}
        for version in self._versions:
            made |= self._release(self._released, version)
        self._released += 1
        return made

    def _publish_for(self, kubernetes: str) -> None:
        """Publish what the last release has for another version of Kubernetes."""
        if kubernetes not in self._versions:
            self._versions.append(kubernetes)
            self._release(self._released - 1, kubernetes)

    def _release(self, number: int, kubernetes: str) -> dict[str, str]:
        made: dict[str, str] = {}
        for each in images_of(number, kubernetes):
            image = self.publish_image(
                each.name,
                arch=each.arch,
                created=released(number),
                root_device=each.root_device,
            )
            made |= dict.fromkeys(each.parameters, image)
        self.account.parameters.update(made)
        return made

    def publish_image(
        self,
        name: str,
        *,
        arch: str = "x86_64",
        created: datetime = FIRST,
        deprecated: datetime | None = None,
        owner_alias: str | None = "amazon",
        tags: Mapping[str, str] | None = None,
        number: str = "",
        root_device: str = "/dev/xvda",
    ) -> str:
        """Make an image and return its id: the one that is given, or the next."""
        backend: Any = ec2_backends[self.account.number][self.account.region]
        number = number or f"ami-{len(backend.amis) + 1:017x}"
        image: Any = Ami(
            backend,
            number,
            name=name,
            owner_id=self.account.number if owner_alias is None else "602401143452",
            owner_alias=owner_alias,
            architecture=arch,
            creation_date=created,
            virtualization_type="hvm",
            root_device_name=root_device,
            tags=dict(tags or {}),
        )
        if deprecated is not None:
            image.deprecation_time = deprecated.strftime("%Y-%m-%dT%H:%M:%S.000Z")
        backend.amis[number] = image
        return number

    def _group(self, vpc: str, name: str) -> str:
        made = self._ec2.create_security_group(
            GroupName=f"{self.cluster}-{name}", Description=name, VpcId=vpc
        )
        group = str(made["GroupId"])
        self._tag(group)
        return group

    def _name(self, resource: str, name: str) -> None:
        self._ec2.create_tags(Resources=[resource], Tags=[{"Key": "Name", "Value": name}])

    def _tag(self, resource: str, **more: str) -> None:
        tags = {**({DISCOVERY: self.cluster} if self._tagged else {}), **more}
        if tags:
            self._ec2.create_tags(
                Resources=[resource], Tags=[{"Key": key, "Value": value} for key, value in tags.items()]
            )
