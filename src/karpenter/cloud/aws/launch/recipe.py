"""
How machines are made: everything a launch template says, as a value.

A recipe is for one image, one way to buy, and one set of kubelet settings; instance types that differ in any
of these need recipes of their own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.ec2.machine import (
    DISABLED,
    EFA_ONLY,
    BlockDeviceMapping,
    ConnectionTracking,
    CPUOptions,
    MetadataOptions,
    NetworkInterface,
)
from karpenter.api.labels import SPOT
from karpenter.base.quantity import parse_quantity
from karpenter.cloud.aws.launch.tagging import specification
from karpenter.cloud.aws.words import DOMAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

_GIB: Final = 2**30
_WITHOUT_IPV6_METADATA: Final = frozenset(
    {
        "us-iso-east-1",
        "us-iso-west-1",
        "us-isob-east-1",
        "us-isob-west-1",
        "us-isof-south-1",
        "us-isof-east-1",
    }
)


class Reserve(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of capacity reservations."""

    id: str = ""
    """The reservation to use; empty means none."""

    type: str = ""
    interruptible: bool = False


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How machines are made."""

    cluster: str
    node_class: str
    region: str
    image: str
    user_data: str
    """Encoded."""

    profile: str
    capacity_type: str
    tenancy: str
    security_groups: tuple[str, ...]
    tags: Mapping[str, str] = {}
    disks: tuple[BlockDeviceMapping, ...] = ()
    metadata: MetadataOptions = MetadataOptions()
    monitoring: bool = False
    cpu: CPUOptions | None = None
    interfaces: tuple[NetworkInterface, ...] = ()
    efa: int = 0
    public_address: bool | None = None
    prefixes: int | None = None
    ipv6: bool = False
    tracking: ConnectionTracking | None = None
    enclave: bool = False
    reserve: Reserve | None = None
    """None leaves it to EC2."""

    group: str = ""
    partition: int | None = None

    @property
    def name(self) -> str:
        """The name of the launch template: the same for the same recipe."""
        digest = hashlib.sha256(msgspec.json.encode(self, order="deterministic")).digest()
        return f"{DOMAIN}/{int.from_bytes(digest[:8], 'big')}"

    def template_data(self) -> dict[str, Any]:
        """Return what the launch template says."""
        data: dict[str, Any] = {
            "ImageId": self.image,
            "UserData": self.user_data,
            "IamInstanceProfile": {"Name": self.profile},
            "Monitoring": {"Enabled": self.monitoring},
            "MetadataOptions": self._metadata(),
            "NetworkInterfaces": list(self._interfaces()),
            "Placement": self._placement(),
            "EnclaveOptions": {"Enabled": self.enclave},
            "TagSpecifications": [specification("network-interface", self.tags)],
        }
        if self.disks:
            data["BlockDeviceMappings"] = [_disk(each) for each in self.disks]
        if self.cpu is not None and self.cpu.nested_virtualization:
            data["CpuOptions"] = {"NestedVirtualization": self.cpu.nested_virtualization}
        if self.capacity_type == SPOT:
            data["TagSpecifications"].append(specification("spot-instances-request", self.tags))
        return data | self._reservation()

    def _metadata(self) -> dict[str, Any]:
        said = self.metadata
        options = {
            "HttpEndpoint": said.http_endpoint,
            "HttpPutResponseHopLimit": said.http_put_response_hop_limit,
            "HttpTokens": said.http_tokens,
            "InstanceMetadataTags": DISABLED,
        }
        if self.region not in _WITHOUT_IPV6_METADATA:
            options["HttpProtocolIpv6"] = said.http_protocol_ipv6
        return options

    def _placement(self) -> dict[str, Any]:
        placement: dict[str, Any] = {"Tenancy": self.tenancy}
        if self.group:
            placement["GroupId"] = self.group
        if self.partition is not None:
            placement["PartitionNumber"] = self.partition
        return placement

    def _reservation(self) -> dict[str, Any]:
        if self.reserve is None:
            return {}
        if not self.reserve.id:
            return {"CapacityReservationSpecification": {"CapacityReservationPreference": "none"}}
        said: dict[str, Any] = {
            "CapacityReservationSpecification": {
                "CapacityReservationPreference": "capacity-reservations-only",
                "CapacityReservationTarget": {"CapacityReservationId": self.reserve.id},
            }
        }
        if self.reserve.interruptible:
            said["InstanceMarketOptions"] = {"MarketType": "interruptible-capacity-reservation"}
        elif self.reserve.type == "capacity-block":
            said["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
        return said

    def _interfaces(self) -> Iterator[dict[str, Any]]:
        groups = {"Groups": list(self.security_groups)}
        if self.interfaces:
            for each in self.interfaces:
                place = {
                    "NetworkCardIndex": each.network_card_index,
                    "DeviceIndex": each.device_index,
                    "InterfaceType": each.interface_type,
                }
                addressed = {} if each.interface_type == EFA_ONLY else self._addresses()
                yield {**place, **groups, **addressed}
        elif self.efa:
            for card in range(self.efa):
                yield {
                    "NetworkCardIndex": card,
                    "DeviceIndex": 1 if card else 0,
                    "InterfaceType": "efa",
                    **groups,
                    **self._addresses(),
                }
        else:
            yield {"DeviceIndex": 0, **groups, **self._addresses()}

    def _addresses(self) -> dict[str, Any]:
        said: dict[str, Any] = {}
        if self.public_address is not None:
            said["AssociatePublicIpAddress"] = self.public_address
        if self.prefixes:
            said["Ipv6PrefixCount" if self.ipv6 else "Ipv4PrefixCount"] = self.prefixes
        if self.ipv6:
            said |= {"PrimaryIpv6": True, "Ipv6AddressCount": 1}
        if self.tracking is not None:
            said["ConnectionTrackingSpecification"] = _present(
                {
                    "TcpEstablishedTimeout": self.tracking.tcp_established_timeout,
                    "UdpStreamTimeout": self.tracking.udp_stream_timeout,
                    "UdpTimeout": self.tracking.udp_timeout,
                }
            )
        return said


def _disk(mapping: BlockDeviceMapping) -> dict[str, Any]:
    disk: dict[str, Any] = {"DeviceName": mapping.device_name}
    if mapping.ebs is not None:
        said = mapping.ebs
        disk["Ebs"] = _present(
            {
                "DeleteOnTermination": said.delete_on_termination,
                "Encrypted": said.encrypted,
                "Iops": said.iops or None,
                "KmsKeyId": said.kms_key_id or None,
                "SnapshotId": said.snapshot_id or None,
                "Throughput": said.throughput or None,
                "VolumeInitializationRate": said.volume_initialization_rate,
                "VolumeSize": gibibytes(said.volume_size) if said.volume_size else None,
                "VolumeType": said.volume_type or None,
            }
        )
    return disk


def gibibytes(size: str) -> int:
    """Return the size of a disk in GiB, rounded up."""
    return -(-parse_quantity(size).value // _GIB)


def _present(said: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in said.items() if value is not None}
