"""Launch templates: what they say for what a class and a claim ask for, and what they are called."""

import base64
from typing import Any

import msgspec
import pytest

from karpenter.api.ec2nodeclass import EC2NodeClass, NetworkInterface
from karpenter.api.ec2nodeclass_status import AMI, SecurityGroup, Subnet
from karpenter.api.meta import convert
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.amifamily.alias import NEURON, NVIDIA, STANDARD
from karpenter.cloud.aws.amifamily.resolver import LaunchTemplateBuilder, ResolvedLaunchTemplate
from karpenter.cloud.aws.cluster import Joining
from karpenter.cloud.aws.instance.filter import filter_instance_types
from karpenter.cloud.aws.instancetype.types import traits_of
from karpenter.cloud.aws.labels import tags_of
from karpenter.cloud.aws.launchtemplate import LaunchTemplate
from karpenter.cloud.aws.options import AwsSettings
from karpenter.cloud.aws.placementgroup import PlacementGroup
from tests.unit.cloud.aws.catalogue import ZONES, every_type
from tests.unit.cloud.aws.instance.test_filter import catalog, counted
from tests.unit.cloud.aws.instancetype.test_instancetype import reservation
from tests.unit.cloud.aws.world import claim, node_class, requirement

ARM = msgspec.structs.replace(STANDARD[0], key="kubernetes.io/arch", operator="In", values=("arm64",))
AMD = msgspec.structs.replace(ARM, values=("amd64",))
IMAGES = (
    AMI(id="ami-standard", name="standard", requirements=(*STANDARD, AMD)),
    AMI(id="ami-arm", name="arm", requirements=(*STANDARD, ARM)),
    AMI(id="ami-nvidia", name="nvidia", requirements=(*NVIDIA, AMD)),
    AMI(id="ami-neuron", name="neuron", requirements=(*NEURON, AMD)),
)
SPOT = requirement("karpenter.sh/capacity-type", "In", "spot")
ON_DEMAND = requirement("karpenter.sh/capacity-type", "In", "on-demand")


def resolved(**spec: Any) -> EC2NodeClass:
    """Return a class that has found everything."""
    found = node_class(**spec)
    status = msgspec.structs.replace(
        found.status,
        subnets=tuple(
            Subnet(id=f"subnet-{zone}", zone=zone, zone_id=number) for zone, number in ZONES.items()
        ),
        security_groups=(SecurityGroup(id="sg-1"), SecurityGroup(id="sg-2")),
        amis=IMAGES,
        instance_profile="profile",
    )
    return msgspec.structs.replace(found, status=status)


def cooked(
    *types: str,
    wanted: NodeClaim | None = None,
    group: PlacementGroup | None = None,
    dns: str = "10.100.0.10",
    reservations: tuple[Any, ...] = (),
    targeted: bool = True,
    region: str = "us-west-2",
    **spec: Any,
) -> tuple[ResolvedLaunchTemplate, ...]:
    found = resolved(**spec)
    found = msgspec.structs.replace(
        found, status=msgspec.structs.replace(found.status, capacity_reservations=reservations)
    )
    settings = AwsSettings(cluster="ours", reserved_capacity=targeted)
    traits = traits_of(found, settings=settings, region=region, group=group)
    owner = wanted or claim(ON_DEMAND)
    builder = LaunchTemplateBuilder(
        node_class=found,
        traits=traits,
        types=every_type(),
        joining=Joining(name="ours", endpoint="https://ours", ca_bundle="Q0E=", dns=dns),
        service_cidr="10.100.0.0/16",
        tags=tags_of(found, cluster="ours", pool="default"),
        reserved_capacity=targeted,
    )
    held = counted(catalog(*(types or ("m5.large",)), wanted=traits))
    return builder.render(owner, filter_instance_types(held, owner))


def data(*types: str, **more: Any) -> dict[str, Any]:
    (only,) = cooked(*types, **more)
    return only.template.template_data()


def test_a_template_says_everything_that_a_machine_needs() -> None:
    """For a class that says nothing special."""
    found = data()
    user_data = found.pop("UserData")

    assert base64.b64decode(user_data).startswith(b"MIME-Version: 1.0")
    assert found == {
        "ImageId": "ami-standard",
        "IamInstanceProfile": {"Name": "profile"},
        "Monitoring": {"Enabled": False},
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpProtocolIpv6": "disabled",
            "HttpPutResponseHopLimit": 1,
            "HttpTokens": "required",
            "InstanceMetadataTags": "disabled",
        },
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-1", "sg-2"]}],
        "Placement": {"Tenancy": "default"},
        "EnclaveOptions": {"Enabled": False},
        "TagSpecifications": [
            {
                "ResourceType": "network-interface",
                "Tags": [
                    {"Key": "eks:eks-cluster-name", "Value": "ours"},
                    {"Key": "karpenter.k8s.aws/ec2nodeclass", "Value": "default"},
                    {"Key": "karpenter.sh/nodepool", "Value": "default"},
                    {"Key": "kubernetes.io/cluster/ours", "Value": "owned"},
                ],
            }
        ],
        "BlockDeviceMappings": [
            {
                "DeviceName": "/dev/xvda",
                "Ebs": {"Encrypted": True, "VolumeSize": 20, "VolumeType": "gp3"},
            }
        ],
        "CapacityReservationSpecification": {"CapacityReservationPreference": "none"},
    }


@pytest.mark.parametrize(
    ("spec", "path", "expected"),
    [
        pytest.param({"detailedMonitoring": True}, "Monitoring", {"Enabled": True}, id="monitoring"),
        pytest.param(
            {"metadataOptions": {"httpTokens": "optional", "httpPutResponseHopLimit": 2}},
            "MetadataOptions",
            {
                "HttpEndpoint": "enabled",
                "HttpProtocolIpv6": "disabled",
                "HttpPutResponseHopLimit": 2,
                "HttpTokens": "optional",
                "InstanceMetadataTags": "disabled",
            },
            id="metadata",
        ),
        pytest.param(
            {"cpuOptions": {"nestedVirtualization": "disabled"}},
            "CpuOptions",
            {"NestedVirtualization": "disabled"},
            id="processors",
        ),
        pytest.param(
            {"associatePublicIPAddress": False},
            "NetworkInterfaces",
            [{"DeviceIndex": 0, "Groups": ["sg-1", "sg-2"], "AssociatePublicIpAddress": False}],
            id="no public address",
        ),
        pytest.param(
            {"ipPrefixCount": 2},
            "NetworkInterfaces",
            [{"DeviceIndex": 0, "Groups": ["sg-1", "sg-2"], "Ipv4PrefixCount": 2}],
            id="prefixes",
        ),
        pytest.param(
            {"ipPrefixCount": 0},
            "NetworkInterfaces",
            [{"DeviceIndex": 0, "Groups": ["sg-1", "sg-2"], "Ipv4PrefixCount": 0}],
            id="no prefixes, and said so",
        ),
        pytest.param(
            {"connectionTracking": {"tcpEstablishedTimeout": 60, "udpTimeout": 30}},
            "NetworkInterfaces",
            [
                {
                    "DeviceIndex": 0,
                    "Groups": ["sg-1", "sg-2"],
                    "ConnectionTrackingSpecification": {"TcpEstablishedTimeout": 60, "UdpTimeout": 30},
                }
            ],
            id="connection tracking",
        ),
        pytest.param(
            {
                "blockDeviceMappings": [
                    {
                        "deviceName": "/dev/xvda",
                        "ebs": {
                            "volumeSize": "100G",
                            "volumeType": "io2",
                            "iops": 3000,
                            "throughput": 0,
                            "kmsKeyID": "key",
                            "encrypted": True,
                            "deleteOnTermination": True,
                        },
                    },
                    {
                        "deviceName": "/dev/xvdb",
                        "ebs": {"snapshotID": "snap-1", "volumeInitializationRate": 100},
                    },
                ]
            },
            "BlockDeviceMappings",
            [
                {
                    "DeviceName": "/dev/xvda",
                    "Ebs": {
                        "DeleteOnTermination": True,
                        "Encrypted": True,
                        "Iops": 3000,
                        "KmsKeyId": "key",
                        "VolumeSize": 94,
                        "VolumeType": "io2",
                    },
                },
                {"DeviceName": "/dev/xvdb", "Ebs": {"SnapshotId": "snap-1", "VolumeInitializationRate": 100}},
            ],
            id="disks",
        ),
    ],
)
def test_what_a_class_asks_for(spec: dict[str, Any], path: str, expected: Any) -> None:
    """It reaches the template as EC2 spells it."""
    assert data(**spec)[path] == expected


@pytest.mark.parametrize(
    ("size", "expected"), [("20Gi", 20), ("1Ti", 1024), ("5G", 5), ("100G", 94), ("64T", 59605)]
)
def test_sizes_of_disks(size: str, expected: int) -> None:
    """In GiB, rounded up."""
    mapping = {"deviceName": "/dev/xvda", "ebs": {"volumeSize": size}}

    assert data(blockDeviceMappings=[mapping])["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == expected


def test_without_disks_of_a_family_none_are_named() -> None:
    """Of a custom image only the image knows."""
    found = data(amiFamily="Custom", amiSelectorTerms=[{"id": "ami-1"}], userData="x")

    assert "BlockDeviceMappings" not in found


def test_ipv6_clusters() -> None:
    """Machines get an address of their own, and prefixes of the right sort."""
    (interface,) = data(dns="fd00::a", ipPrefixCount=1)["NetworkInterfaces"]

    assert (interface["PrimaryIpv6"], interface["Ipv6AddressCount"], interface["Ipv6PrefixCount"]) == (
        True,
        1,
        1,
    )


def test_some_regions_do_not_know_ipv6_for_metadata() -> None:
    """The field would be refused there."""
    assert "HttpProtocolIpv6" not in data(region="us-iso-east-1")["MetadataOptions"]


def test_interfaces_that_a_class_lists() -> None:
    """Those for EFA only have no addresses."""
    wanted = [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
    ]
    template = LaunchTemplate(
        cluster="ours",
        node_class="default",
        region="us-west-2",
        image="ami-1",
        user_data="",
        profile="p",
        capacity_type="on-demand",
        tenancy="default",
        security_groups=("sg-1",),
        interfaces=tuple(convert(each, NetworkInterface) for each in wanted),
        public_address=True,
    )

    assert template.template_data()["NetworkInterfaces"] == [
        {
            "NetworkCardIndex": 0,
            "DeviceIndex": 0,
            "InterfaceType": "interface",
            "Groups": ["sg-1"],
            "AssociatePublicIpAddress": True,
        },
        {"NetworkCardIndex": 1, "DeviceIndex": 1, "InterfaceType": "efa-only", "Groups": ["sg-1"]},
    ]


def test_efa_for_who_asks_for_it() -> None:
    """As many interfaces as the type has, one on each card."""
    wanted = claim(ON_DEMAND, requests={"vpc.amazonaws.com/efa": "1", "cpu": "1"})
    found = data("p5.48xlarge", wanted=wanted)["NetworkInterfaces"]

    assert len(found) == 32
    assert {each["InterfaceType"] for each in found} == {"efa"}
    assert [(each["NetworkCardIndex"], each["DeviceIndex"]) for each in found[:3]] == [(0, 0), (1, 1), (2, 1)]


@pytest.mark.parametrize("resource", ["eks.amazonaws.com/nip-slots", "eks.amazonaws.com/nitro-sandbox"])
def test_enclaves_for_who_asks_for_them(resource: str) -> None:
    """By a resource that no machine counts, under its name in 1.14 or its later one."""
    wanted = claim(ON_DEMAND)
    asking = msgspec.structs.replace(
        wanted,
        spec=msgspec.structs.replace(
            wanted.spec,
            resources=msgspec.structs.replace(wanted.spec.resources, requests={resource: "1"}),
        ),
    )
    found = resolved()
    settings = AwsSettings(cluster="ours")
    traits = traits_of(found, settings=settings, region="us-west-2", group=None)
    builder = LaunchTemplateBuilder(
        node_class=found,
        traits=traits,
        types=every_type(),
        joining=Joining(name="ours", endpoint="https://ours", ca_bundle="Q0E="),
        service_cidr="10.100.0.0/16",
        tags={},
        reserved_capacity=True,
    )
    (only,) = builder.render(asking, filter_instance_types(catalog("m5.large"), wanted))

    assert only.template.template_data()["EnclaveOptions"] == {"Enabled": True}


def test_spot_requests_are_tagged() -> None:
    """They are resources of their own."""
    found = data(wanted=claim(SPOT))["TagSpecifications"]

    assert [each["ResourceType"] for each in found] == ["network-interface", "spot-instances-request"]


@pytest.mark.parametrize(
    ("held", "targeted", "specification", "market"),
    [
        pytest.param(
            (), True, {"CapacityReservationPreference": "none"}, None, id="none: open ones are left alone"
        ),
        pytest.param((), False, None, None, id="with the gate closed it is left to EC2"),
        pytest.param(
            (reservation(),),
            True,
            {
                "CapacityReservationPreference": "capacity-reservations-only",
                "CapacityReservationTarget": {"CapacityReservationId": "cr-1"},
            },
            None,
            id="a reservation",
        ),
        pytest.param(
            (reservation(reservation_type="capacity-block"),),
            True,
            {
                "CapacityReservationPreference": "capacity-reservations-only",
                "CapacityReservationTarget": {"CapacityReservationId": "cr-1"},
            },
            {"MarketType": "capacity-block"},
            id="a block",
        ),
        pytest.param(
            (reservation(interruptible=True),),
            True,
            {
                "CapacityReservationPreference": "capacity-reservations-only",
                "CapacityReservationTarget": {"CapacityReservationId": "cr-1"},
            },
            {"MarketType": "interruptible-capacity-reservation"},
            id="one that may be interrupted",
        ),
    ],
)
def test_reservations(held: tuple[Any, ...], targeted: bool, specification: Any, market: Any) -> None:
    """A machine goes into the reservation that it is bought from, and into no other."""
    wanted = claim(requirement("karpenter.sh/capacity-type", "In", "reserved", "on-demand"))

    found = data(wanted=wanted, reservations=held, targeted=targeted)

    assert found.get("CapacityReservationSpecification") == specification
    assert found.get("InstanceMarketOptions") == market


@pytest.mark.parametrize(
    ("strategy", "partitions", "wanted", "expected"),
    [
        pytest.param("cluster", 0, (), {"GroupId": "pg-1"}, id="a group"),
        pytest.param("partition", 3, (), {"GroupId": "pg-1"}, id="any partition"),
        pytest.param("partition", 3, ("3", "2"), {"GroupId": "pg-1", "PartitionNumber": 2}, id="one of two"),
    ],
)
def test_placement_groups(
    strategy: str, partitions: int, wanted: tuple[str, ...], expected: dict[str, Any]
) -> None:
    """The group, and the first partition that the claim allows."""
    group = PlacementGroup(id="pg-1", name="g", strategy=strategy, partitions=partitions)
    asked = (requirement("karpenter.k8s.aws/placement-group-partition", "In", *wanted),) if wanted else ()

    found = data(wanted=claim(ON_DEMAND, *asked), group=group, placementGroupSelector={"id": "pg-1"})

    assert found["Placement"] == {"Tenancy": "default", **expected}


def test_types_are_grouped_by_image_and_kubelet() -> None:
    """Each group has a template of its own."""
    found = cooked("m5.large", "c5.large", "m5.xlarge", "c6g.large")

    groups = {(each.template.image, tuple(sorted(o.kind.name for o in each.options))) for each in found}
    assert groups == {
        ("ami-standard", ("c5.large", "m5.large")),
        ("ami-standard", ("m5.xlarge",)),
        ("ami-arm", ("c6g.large",)),
    }


@pytest.mark.parametrize(
    ("name", "image"),
    [("p5.48xlarge", "ami-nvidia"), ("inf2.xlarge", "ami-neuron"), ("c6g.large", "ami-arm")],
)
def test_the_image_suits_the_type(name: str, image: str) -> None:
    """By architecture and accelerators."""
    assert data(name)["ImageId"] == image
