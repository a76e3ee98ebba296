"""How the machines of an EC2NodeClass are made: disks, network interfaces, metadata and processors."""

from typing import Annotated

from msgspec import field

from karpenter.api.constraints import constraint, rule
from karpenter.api.wire import Wire

VOLUME_TYPES = ("standard", "io1", "io2", "gp2", "sc1", "st1", "gp3")
VOLUME_SIZE = (
    r"^(([1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi"
    r"|([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G"
    r"|([1-9]|[1-5][0-7]|58)Ti"
    r"|([1-9]|[1-5][0-9]|6[0-4])T)$"
)
INTERFACE = "interface"
EFA_ONLY = "efa-only"
ENABLED = "enabled"
DISABLED = "disabled"

_SWITCH = (ENABLED, DISABLED)


class BlockDevice(Wire, frozen=True, kw_only=True):
    """A disk on the network."""

    delete_on_termination: bool | None = None
    """Whether the disk goes when its machine does."""

    encrypted: bool | None = None
    """Whether the disk is encrypted."""

    iops: int | None = None
    """How many operations a second the disk is given; only for io1, io2 and gp3."""

    kms_key_id: str = field(name="kmsKeyID", default="")
    """The key to encrypt with: its id, alias or ARN."""

    snapshot_id: str = field(name="snapshotID", default="")
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

    device_name: str = ""
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
    """The place of the interface among those of its card."""

    interface_type: Annotated[str, constraint(enum=[INTERFACE, EFA_ONLY])]
    """An ordinary interface, or one that only speaks EFA and has no address."""


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


class MetadataOptions(Wire, frozen=True, kw_only=True):
    """How the instance metadata service of machines answers."""

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


METADATA_DEFAULT = {
    "httpEndpoint": ENABLED,
    "httpProtocolIPv6": DISABLED,
    "httpPutResponseHopLimit": 1,
    "httpTokens": "required",
}


class ConnectionTracking(Wire, frozen=True, kw_only=True):
    """How long idle connections are remembered by security groups, in seconds; only on Nitro machines."""

    tcp_established_timeout: Annotated[int | None, constraint(format="int32", minimum=60, maximum=432000)] = (
        None
    )
    """For established TCP connections."""

    udp_stream_timeout: Annotated[int | None, constraint(format="int32", minimum=60, maximum=180)] = None
    """For UDP flows that had more than one request and answer."""

    udp_timeout: Annotated[int | None, constraint(format="int32", minimum=30, maximum=60)] = None
    """For other UDP flows."""


TRACKING_RULES = (
    rule(
        "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
        "at least one of 'tcpEstablishedTimeout', 'udpStreamTimeout' and 'udpTimeout' is needed",
    ),
)


class CPUOptions(Wire, frozen=True, kw_only=True):
    """What the processors of machines can do."""

    nested_virtualization: Annotated[str, constraint(enum=list(_SWITCH))] = ""
    """Whether machines can run virtual machines of their own; only some instance types can."""
