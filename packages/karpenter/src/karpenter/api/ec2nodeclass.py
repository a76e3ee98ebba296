"""
EC2NodeClass: how instances on EC2 are configured.

It selects subnets, security groups, AMIs, capacity reservations and a placement group, and states user
data, the IAM role, block devices, network interfaces and metadata options. Only the AWS provider reads its
kubelet settings.

A list of selector terms selects what any of its terms selects. Within a term every field must match. A tag
whose value is ``*`` only has to exist. See https://karpenter.sh/docs/concepts/nodeclasses/

For subnets, security groups and reservations a term that mixes an id with other fields is refused only when
every term does, because existing manifests rely on it; the id then wins.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import field

from karpenter.api.constraints import constraint, rule
from karpenter.api.ec2nodeclass_kubelet import KUBELET
from karpenter.api.ec2nodeclass_status import EC2NodeClassStatus
from karpenter.api.meta import ABSENT_LIST, ABSENT_MAP, Resource, Wire
from karpenter.api.nodeclaim import NodeClassReference

# The limits and rules below are those of Karpenter's own definition: manifests must be accepted and refused
# alike. https://karpenter.sh/docs/concepts/nodeclasses/
MOST_TERMS = 30
# https://karpenter.sh/docs/concepts/nodeclasses/#specamiselectorterms
FAMILY_OF_ALIAS = {
    "al2": "AL2",
    "al2023": "AL2023",
    "bottlerocket": "Bottlerocket",
    "windows2019": "Windows2019",
    "windows2022": "Windows2022",
    "windows2025": "Windows2025",
}
"""The image family that the first part of an alias stands for."""

_WINDOWS = [alias for alias in FAMILY_OF_ALIAS if alias.startswith("windows")]

SelectorTags = Annotated[
    dict[str, str],
    constraint(
        max_properties=20,
        rules=(rule("self.all(k, k != '' && self[k] != '')", "a tag to select by needs a key and a value"),),
    ),
]
"""Tags to select by."""


# https://karpenter.sh/docs/concepts/nodeclasses/#specsubnetselectorterms
class SubnetSelectorTerm(Wire, frozen=True, kw_only=True):
    """Some subnets."""

    tags: SelectorTags = field(default_factory=dict)
    """Tags that the subnet has; the value ``*`` stands for any."""

    id: Annotated[str, constraint(pattern="subnet-[0-9a-z]+")] = ""
    """The id of the subnet."""


# https://karpenter.sh/docs/concepts/nodeclasses/#specsecuritygroupselectorterms
class SecurityGroupSelectorTerm(Wire, frozen=True, kw_only=True):
    """Some security groups."""

    tags: SelectorTags = field(default_factory=dict)
    """Tags that the group has; the value ``*`` stands for any."""

    id: Annotated[str, constraint(pattern="sg-[0-9a-z]+")] = ""
    """The id of the group."""

    name: str = ""
    """The name of the group itself, which is not its tag called Name."""


# https://karpenter.sh/docs/concepts/nodeclasses/#speccapacityreservationselectorterms
class CapacityReservationSelectorTerm(Wire, frozen=True, kw_only=True):
    """Some capacity reservations."""

    tags: SelectorTags = field(default_factory=dict)
    """Tags that the reservation has; the value ``*`` stands for any."""

    id: Annotated[str, constraint(pattern="^cr-[0-9a-z]+$")] = ""
    """The id of the reservation."""

    owner_id: Annotated[str, constraint(pattern="^[0-9]{12}$")] = field(name="ownerID", default="")
    """The account that owns the reservation."""

    instance_match_criteria: Annotated[str, constraint(enum=["open", "targeted"])] = ""
    """Whether the reservation takes any machine that fits, or only those that name it."""


# An alias stands for the newest AMI of a family, or for a pinned version of it:
# https://karpenter.sh/docs/concepts/nodeclasses/#specamiselectorterms
class AMISelectorTerm(Wire, frozen=True, kw_only=True):
    """Some machine images."""

    alias: Annotated[
        str,
        constraint(
            max_length=30,
            rules=(
                rule(
                    "self.matches('^[a-zA-Z0-9]+@.+$')",
                    "'alias' has the form family@version, such as al2023@latest",
                ),
                rule(
                    f"self.split('@')[0] in {list(FAMILY_OF_ALIAS)}",
                    f"the family of an 'alias' is one of {', '.join(FAMILY_OF_ALIAS)}",
                ),
                rule(
                    f"!(self.split('@')[0] in {_WINDOWS}) || self.split('@')[1] == 'latest'",
                    "the version of a Windows image is always latest",
                ),
            ),
        ),
    ] = ""
    """
    A family of images that AWS publishes, and a version of it, such as ``al2023@latest``.

    The newest image of the family for the cluster's Kubernetes version is taken for ``latest``; nodes are
    replaced when there is a newer one. An alias stands alone.
    """

    tags: SelectorTags = field(default_factory=dict)
    """Tags that the image has; the value ``*`` stands for any."""

    id: Annotated[str, constraint(pattern="ami-[0-9a-z]+")] = ""
    """The id of the image."""

    name: str = ""
    """The name of the image itself, which is not its tag called Name; ``*`` and ``?`` are wildcards."""

    owner: str = ""
    """The account that owns the image, or ``self`` or ``amazon``; both of these unless told otherwise."""

    ssm_parameter: str = ""
    """The name or ARN of an SSM parameter that holds the id of the image."""


# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-groups.html
class PlacementGroupSelector(Wire, frozen=True, kw_only=True):
    """One placement group, by its name or its id."""

    name: Annotated[str, constraint(min_length=1)] = ""
    """The name of the group."""

    id: Annotated[str, constraint(pattern="^pg-[0-9a-z]+$")] = ""
    """The id of the group."""


# These rules stand in the definition, so that the API server refuses what no class can mean:
# https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules
SUBNET_RULES = (
    rule("self.all(x, has(x.tags) || has(x.id))", "each term needs at least one of 'tags' and 'id'"),
    rule("!self.all(x, has(x.id) && has(x.tags))", "'id' may not be combined with 'tags'"),
)

SECURITY_GROUP_RULES = (
    rule(
        "self.all(x, has(x.tags) || has(x.id) || has(x.name))",
        "each term needs at least one of 'tags', 'id' and 'name'",
    ),
    rule(
        "!self.all(x, has(x.id) && (has(x.tags) || has(x.name)))",
        "'id' may not be combined with 'tags' or 'name'",
    ),
    rule(
        "!self.all(x, has(x.name) && (has(x.tags) || has(x.id)))",
        "'name' may not be combined with 'tags' or 'id'",
    ),
)

RESERVATION_RULES = (
    rule(
        "self.all(x, has(x.tags) || has(x.id) || has(x.instanceMatchCriteria))",
        "each term needs at least one of 'tags', 'id' and 'instanceMatchCriteria'",
    ),
    rule(
        "!self.all(x, has(x.id) && (has(x.tags) || has(x.ownerID) || has(x.instanceMatchCriteria)))",
        "'id' may not be combined with other fields",
    ),
)

IMAGE_RULES = (
    rule(
        "self.all(x, has(x.tags) || has(x.id) || has(x.name) || has(x.alias) || has(x.ssmParameter))",
        "each term needs at least one of 'tags', 'id', 'name', 'alias' and 'ssmParameter'",
    ),
    rule(
        "!self.exists(x, has(x.id) && (has(x.alias) || has(x.tags) || has(x.name) || has(x.owner)))",
        "'id' may not be combined with other fields",
    ),
    rule(
        "!self.exists(x, has(x.alias) && (has(x.id) || has(x.tags) || has(x.name) || has(x.owner)))",
        "'alias' may not be combined with other fields",
    ),
    rule(
        "self.size() == 1 || !self.exists(x, has(x.alias))",
        "a term with 'alias' must be the only one",
    ),
)

GROUP_RULES = (rule("has(self.name) != has(self.id)", "exactly one of 'name' and 'id' must be set"),)


# https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html
VOLUME_TYPES = ("standard", "io1", "io2", "gp2", "sc1", "st1", "gp3")
# Up to 59,000 Gi or 58 Ti, as Karpenter allows; EBS itself takes up to 64 TiB:
# https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html
VOLUME_SIZE = (
    r"^(([1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi"
    r"|([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G"
    r"|([1-9]|[1-5][0-7]|58)?Ti"  # a suffix alone is read as 0, which leaves the size to the snapshot
    r"|([1-9]|[1-5][0-9]|6[0-4])?T)$"
)
INTERFACE = "interface"
EFA_ONLY = "efa-only"
ENABLED = "enabled"
DISABLED = "disabled"

_SWITCH = (ENABLED, DISABLED)


# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_EbsBlockDevice.html
class BlockDevice(Wire, frozen=True, kw_only=True):
    """An EBS volume."""

    delete_on_termination: bool | None = None
    """Whether the disk goes when its machine does."""

    encrypted: bool | None = None
    """Whether the disk is encrypted."""

    iops: int | None = None
    """How many operations a second the disk is given; only for io1, io2 and gp3."""

    kms_key_id: str | None = field(name="kmsKeyID", default=None)
    """The key to encrypt with: its id, alias or ARN."""

    snapshot_id: str | None = field(name="snapshotID", default=None)
    """The snapshot that the disk starts with."""

    throughput: int | None = None
    """How many MiB a second the disk is given; only for gp3."""

    volume_initialization_rate: Annotated[
        int | None, constraint(format="int32", minimum=100, maximum=300)
    ] = None
    """How many MiB a second of the snapshot are fetched in advance."""

    volume_size: Annotated[str, constraint(pattern=VOLUME_SIZE)] = ""
    """How large the disk is, such as ``100Gi``; at least as large as its snapshot."""

    volume_type: Annotated[str, constraint(enum=list(VOLUME_TYPES))] = ""
    """What kind of disk it is."""


# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_EbsBlockDevice.html
BLOCK_DEVICE_RULES = (
    rule(
        "has(self.snapshotID) || has(self.volumeSize)",
        "at least one of 'snapshotID' and 'volumeSize' is needed",
    ),
    rule(
        "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
        "'volumeInitializationRate' needs 'snapshotID'",
    ),
)


class BlockDeviceMapping(Wire, frozen=True, kw_only=True):
    """A disk, and what the machine calls it."""

    device_name: str | None = None
    """What the machine calls the disk, such as ``/dev/xvda``."""

    ebs: Annotated[BlockDevice | None, constraint(rules=BLOCK_DEVICE_RULES)] = None
    """What the disk is like."""

    root_volume: bool = False
    """Whether this disk holds the kubelet's files: its size is then the ephemeral storage of the node."""


MAPPING_RULES = (
    rule(
        "self.filter(x, has(x.rootVolume) && x.rootVolume).size() <= 1",
        "at most one mapping may have 'rootVolume'",
    ),
)


class NetworkInterface(Wire, frozen=True, kw_only=True):
    """A network interface that machines start with."""

    network_card_index: Annotated[int, constraint(format="int32", minimum=0)]
    """The network card that the interface is on."""

    device_index: Annotated[int, constraint(format="int32", minimum=0)]
    """The index of the interface on its card."""

    interface_type: Annotated[str, constraint(enum=[INTERFACE, EFA_ONLY])]
    """An ordinary interface, or one that only speaks EFA and has no address."""


# EFA-only interfaces have no IP address, so the primary interface must be an ordinary one:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html
INTERFACE_RULES = (
    rule(
        "self.size() == 0 ||"
        f" self.exists(x, x.networkCardIndex == 0 && x.deviceIndex == 0 && x.interfaceType == '{INTERFACE}')",
        "one interface must have card 0, device 0 and type 'interface'",
    ),
    rule(
        "self.all(x, self.filter(y, y.networkCardIndex == x.networkCardIndex &&"
        " y.deviceIndex == x.deviceIndex).size() == 1)",
        "no two interfaces may have the same 'networkCardIndex' and 'deviceIndex'",
    ),
    rule(
        f"self.all(x, x.interfaceType != '{EFA_ONLY}' || self.filter(y,"
        f" y.interfaceType == '{EFA_ONLY}' && y.networkCardIndex == x.networkCardIndex).size() == 1)",
        "a network card takes at most one interface of type 'efa-only'",
    ),
)


# IMDSv2 with one hop keeps pods from the credentials of their node:
# https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html
class MetadataOptions(Wire, frozen=True, kw_only=True):
    """Settings of the instance metadata service of machines."""

    http_endpoint: Annotated[str, constraint(enum=list(_SWITCH), default=ENABLED)] = ENABLED
    """Whether there is a metadata service."""

    http_protocol_ipv6: Annotated[str, constraint(enum=list(_SWITCH), default=DISABLED)] = field(
        name="httpProtocolIPv6", default=DISABLED
    )
    """Whether it can be reached over IPv6."""

    http_put_response_hop_limit: Annotated[
        int, constraint(format="int64", minimum=1, maximum=64, default=1)
    ] = 1
    """How far its answers travel; with 1, pods that have a network of their own do not get them."""

    http_tokens: Annotated[str, constraint(enum=["required", "optional"], default="required")] = "required"
    """Whether a session token is needed, as IMDSv2 demands."""


# IMDSv2 with one hop, so that pods without host networking cannot read the credentials of the node:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
METADATA_DEFAULT = {
    "httpEndpoint": ENABLED,
    "httpProtocolIPv6": DISABLED,
    "httpPutResponseHopLimit": 1,
    "httpTokens": "required",
}


# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/security-group-connection-tracking.html
class ConnectionTracking(Wire, frozen=True, kw_only=True):
    """Times for which security groups remember idle connections, in seconds; only on Nitro machines."""

    tcp_established_timeout: Annotated[int | None, constraint(format="int32", minimum=60, maximum=432000)] = (
        None
    )
    """For established TCP connections."""

    udp_stream_timeout: Annotated[int | None, constraint(format="int32", minimum=60, maximum=180)] = None
    """For UDP flows that had more than one request and answer."""

    udp_timeout: Annotated[int | None, constraint(format="int32", minimum=30, maximum=60)] = None
    """For other UDP flows."""


# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/security-group-connection-tracking.html
TRACKING_RULES = (
    rule(
        "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
        "at least one of 'tcpEstablishedTimeout', 'udpStreamTimeout' and 'udpTimeout' is needed",
    ),
)


# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CpuOptionsRequest.html
class CPUOptions(Wire, frozen=True, kw_only=True):
    """Settings of the processors of machines."""

    nested_virtualization: Annotated[str, constraint(enum=list(_SWITCH))] = ""
    """Whether machines can run virtual machines of their own; only some instance types can."""


AL2 = "AL2"
AL2023 = "AL2023"
BOTTLEROCKET = "Bottlerocket"
CUSTOM = "Custom"
WINDOWS = ("Windows2019", "Windows2022", "Windows2025")
FAMILIES = (AL2, AL2023, BOTTLEROCKET, CUSTOM, *WINDOWS)
RAID0 = "RAID0"

# Karpenter finds its own instances by these tags, so users may not set them.
RESERVED_TAGS = (
    "eks:eks-cluster-name",
    "karpenter.sh/nodepool",
    "karpenter.sh/nodeclaim",
    "karpenter.k8s.aws/ec2nodeclass",
)
"""Tags that are ours to set."""

# The cloud provider of Kubernetes finds what belongs to a cluster by this tag, so users may not set it:
# https://cloud-provider-aws.sigs.k8s.io/
CLUSTER_TAG_PREFIX = "kubernetes.io/cluster"

_MOST_TAGS = 1000
"""A bound by which an API server can tell what the rules cost. AWS itself takes 50 tags, ours among them."""

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
    """Settings that machines are made with."""

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

    user_data: str | None = None
    """
    User data of the instances, merged with the bootstrap user data.

    How the two are merged depends on the AMI family.
    """

    role: Annotated[str, constraint(min_length=1)] = ""
    """The IAM role of machines; an instance profile is made for it."""

    instance_profile: Annotated[str, constraint(min_length=1)] = ""
    """An instance profile that you keep yourself, in place of 'role'."""

    tags: Annotated[dict[str, str], constraint(max_properties=_MOST_TAGS, rules=_TAG_RULES)] = ABSENT_MAP
    """Tags of everything that is made: machines, disks, network interfaces and launch templates."""

    kubelet: Annotated[dict[str, Any], KUBELET] = ABSENT_MAP
    """Settings of the kubelet, as in a KubeletConfiguration. AL2023 takes all of them, others a few."""

    block_device_mappings: Annotated[
        tuple[BlockDeviceMapping, ...], constraint(max_items=50, rules=MAPPING_RULES)
    ] = ABSENT_LIST
    """The disks of machines. Absent means those that suit the family."""

    instance_store_policy: Annotated[str, constraint(enum=[RAID0])] = ""
    """What happens to local instance store disks. RAID0 combines them for pods, images and logs."""

    network_interfaces: Annotated[
        tuple[NetworkInterface, ...], constraint(max_items=150, rules=INTERFACE_RULES)
    ] = ABSENT_LIST
    """The network interfaces that machines start with. Absent means one, or those that EFA needs."""

    detailed_monitoring: bool | None = None
    """Whether CloudWatch gets metrics of instances every minute rather than every five."""

    metadata_options: Annotated[MetadataOptions, constraint(default=METADATA_DEFAULT)] = MetadataOptions()
    """How the instance metadata service of machines answers."""

    connection_tracking: Annotated[ConnectionTracking | None, constraint(rules=TRACKING_RULES)] = None
    """How long idle connections are remembered; leaves out machines that are not Nitro."""

    context: str | None = None
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
        return self.ami_family or _family_of_alias(self.alias)


def family_of_spec(spec: Mapping[str, Any]) -> str:
    """Return the same of a spec as plain data, which no schema has checked; what is no term has no alias."""
    if (named := spec.get("amiFamily")) is not None:
        return str(named)
    terms = spec.get("amiSelectorTerms")
    found = [term for term in terms if isinstance(term, dict)] if isinstance(terms, list | tuple) else []
    return _family_of_alias(next((str(term["alias"]) for term in found if term.get("alias")), ""))


def _family_of_alias(alias: str) -> str:
    return FAMILY_OF_ALIAS.get(alias.partition("@")[0], CUSTOM)


def names_class(reference: NodeClassReference, name: str) -> bool:
    """Say whether a claim or pool refers to the EC2NodeClass `name`, and not to another kind of that name."""
    wanted = (EC2NodeClass.api_version.partition("/")[0], EC2NodeClass.kind, name)
    return (reference.group, reference.kind, reference.name) == wanted


class EC2NodeClass(Resource, frozen=True, kw_only=True):
    """Settings of nodes on EC2."""

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
