"""
EC2NodeClass: how nodes on EC2 are made.

It says what machines are launched into (subnets, security groups, reservations), what they start from
(images, user data), what they may do (role), and what they are made of (disks, interfaces). The parts are
in :mod:`.ec2`; what its kubelet settings mean is known to the provider only.
"""

from typing import Annotated, Any, ClassVar

from msgspec import field

from karpenter.api.constraints import constraint, rule
from karpenter.api.ec2.machine import (
    INTERFACE_RULES,
    MAPPING_RULES,
    METADATA_DEFAULT,
    TRACKING_RULES,
    BlockDeviceMapping,
    ConnectionTracking,
    CPUOptions,
    MetadataOptions,
    NetworkInterface,
)
from karpenter.api.ec2.status import EC2NodeClassStatus
from karpenter.api.ec2.terms import (
    FAMILY_OF_ALIAS,
    GROUP_RULES,
    IMAGE_RULES,
    MOST_TERMS,
    RESERVATION_RULES,
    SECURITY_GROUP_RULES,
    SUBNET_RULES,
    AMISelectorTerm,
    CapacityReservationSelectorTerm,
    PlacementGroupSelector,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
)
from karpenter.api.meta import Resource
from karpenter.api.wire import Wire

AL2 = "AL2"
AL2023 = "AL2023"
BOTTLEROCKET = "Bottlerocket"
CUSTOM = "Custom"
WINDOWS = ("Windows2019", "Windows2022", "Windows2025")
FAMILIES = (AL2, AL2023, BOTTLEROCKET, CUSTOM, *WINDOWS)
RAID0 = "RAID0"

RESERVED_TAGS = (
    "eks:eks-cluster-name",
    "karpenter.sh/nodepool",
    "karpenter.sh/nodeclaim",
    "karpenter.k8s.aws/ec2nodeclass",
)
"""Tags that are ours to set."""

CLUSTER_TAG_PREFIX = "kubernetes.io/cluster"

_TAG_RULES = (
    rule("self.all(k, k != '')", "a tag needs a key"),
    *(rule(f"self.all(k, k != '{key}')", f"tag {key} is restricted") for key in RESERVED_TAGS),
    rule(
        f"self.all(k, !k.startsWith('{CLUSTER_TAG_PREFIX}'))",
        f"tags that begin with {CLUSTER_TAG_PREFIX} are restricted",
    ),
)


def _family_rule(alias: str, family: str) -> dict[str, Any]:
    return rule(
        "!has(self.amiFamily) ||"
        f" !self.amiSelectorTerms.exists(x, has(x.alias) && x.alias.find('^[^@]+') == '{alias}') ||"
        f" self.amiFamily in ['{CUSTOM}', '{family}']",
        f"with an alias of family {alias}, 'amiFamily' may only be {family} or {CUSTOM}",
    )


class EC2NodeClassSpec(Wire, frozen=True, kw_only=True):
    """How machines are made."""

    subnet_selector_terms: Annotated[
        tuple[SubnetSelectorTerm, ...],
        constraint(min_items=1, max_items=MOST_TERMS, rules=SUBNET_RULES),
    ]
    """Which subnets machines are launched into. A term selects subnets; all that any term selects count."""

    security_group_selector_terms: Annotated[
        tuple[SecurityGroupSelectorTerm, ...],
        constraint(min_items=1, max_items=MOST_TERMS, rules=SECURITY_GROUP_RULES),
    ]
    """Which security groups machines are in: all that any term selects."""

    capacity_reservation_selector_terms: Annotated[
        tuple[CapacityReservationSelectorTerm, ...],
        constraint(max_items=MOST_TERMS, rules=RESERVATION_RULES),
    ] = ()
    """Which capacity reservations machines may use."""

    placement_group_selector: Annotated[PlacementGroupSelector | None, constraint(rules=GROUP_RULES)] = None
    """The placement group that machines are launched into."""

    associate_public_ip_address: bool | None = field(name="associatePublicIPAddress", default=None)
    """Whether machines get a public address. Absent means that the subnet decides."""

    ip_prefix_count: Annotated[int | None, constraint(format="int32", minimum=0)] = None
    """How many address prefixes network interfaces start with. Changing it replaces no nodes."""

    ami_selector_terms: Annotated[
        tuple[AMISelectorTerm, ...],
        constraint(min_items=1, max_items=MOST_TERMS, rules=IMAGE_RULES),
    ]
    """Which images machines start from: the newest that suits the instance type."""

    ami_family: Annotated[str, constraint(enum=list(FAMILIES))] = ""
    """
    The kind of images that is selected; it decides about user data and default disks.

    An alias says it by itself. Custom leaves the user data as it is.
    """

    user_data: str = ""
    """
    What machines are told when they start, beside what they have to be told.

    How the two are merged depends on the family.
    """

    role: Annotated[str, constraint(min_length=1)] = ""
    """The IAM role of machines; an instance profile is made for it."""

    instance_profile: Annotated[str, constraint(min_length=1)] = ""
    """An instance profile that you keep yourself, in place of 'role'."""

    tags: Annotated[dict[str, str], constraint(max_properties=50, rules=_TAG_RULES)] = field(
        default_factory=dict
    )
    """Tags of everything that is made: machines, disks, network interfaces and launch templates."""

    kubelet: dict[str, Any] = field(default_factory=dict)
    """Settings of the kubelet, as in a KubeletConfiguration. AL2023 takes all of them, others a few."""

    block_device_mappings: Annotated[
        tuple[BlockDeviceMapping, ...], constraint(max_items=50, rules=MAPPING_RULES)
    ] = ()
    """The disks of machines. Absent means those that suit the family."""

    instance_store_policy: Annotated[str, constraint(enum=[RAID0])] = ""
    """What becomes of local disks. RAID0 makes one of them, for pods, images and logs."""

    network_interfaces: Annotated[
        tuple[NetworkInterface, ...], constraint(max_items=150, rules=INTERFACE_RULES)
    ] = ()
    """The network interfaces that machines start with. Absent means one, or those that EFA needs."""

    detailed_monitoring: bool | None = None
    """Whether metrics of machines come every minute rather than every five."""

    metadata_options: Annotated[MetadataOptions, constraint(default=METADATA_DEFAULT)] = MetadataOptions()
    """How the instance metadata service of machines answers."""

    connection_tracking: Annotated[ConnectionTracking | None, constraint(rules=TRACKING_RULES)] = None
    """How long idle connections are remembered; leaves out machines that are not Nitro."""

    context: str = ""
    """Reserved: passed on to EC2 with every launch."""

    cpu_options: CPUOptions | None = None
    """What the processors of machines can do."""

    @property
    def alias(self) -> str:
        """The alias, if images are selected by one."""
        return next((term.alias for term in self.ami_selector_terms if term.alias), "")

    @property
    def family(self) -> str:
        """The family of images in force: the one that is named, or that of the alias."""
        return self.ami_family or FAMILY_OF_ALIAS.get(self.alias.partition("@")[0], CUSTOM)


class EC2NodeClass(Resource, frozen=True, kw_only=True):
    """How nodes on EC2 are made."""

    api_version: ClassVar[str] = "karpenter.k8s.aws/v1"
    kind: ClassVar[str] = "EC2NodeClass"

    spec: Annotated[
        EC2NodeClassSpec,
        constraint(
            rules=(
                rule(
                    "has(self.role) != has(self.instanceProfile)",
                    "exactly one of 'role' and 'instanceProfile' must be set",
                ),
                rule(
                    "has(self.amiFamily) || self.amiSelectorTerms.exists(x, has(x.alias))",
                    "'amiFamily' must be set unless images are selected by 'alias'",
                ),
                *(_family_rule(alias, family) for alias, family in FAMILY_OF_ALIAS.items()),
            )
        ),
    ]
    """How machines are made."""

    status: EC2NodeClassStatus = EC2NodeClassStatus()
    """What was found, and whether machines can be made of it."""
