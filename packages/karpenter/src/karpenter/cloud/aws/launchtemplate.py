"""
Launch templates in EC2: made when a launch needs them, and gone soon after the last one did.

A template is named after its recipe, so that whoever needs the same one finds it, also after a restart. One
that nobody has used for a while is deleted; a cluster would otherwise pile them up.

How machines are made: everything a launch template says, as a value.

A recipe is for one image, one way to buy, and one set of kubelet settings; instance types that differ in any
of these need recipes of their own.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from karpenter.api.ec2nodeclass import (
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
from karpenter.cloud.aws.errors import Missing, Refused
from karpenter.cloud.aws.labels import CLUSTER_TAG, DOMAIN, NODE_CLASS_LABEL
from karpenter.cloud.aws.metrics import USER_DATA_BYTES
from karpenter.cloud.aws.subnet import where
from karpenter.cloud.aws.tags import specification
from karpenter.cloud.errors import CloudError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from karpenter.cloud.aws.metrics import Meters
    from karpenter.cloud.aws.sdk import Aws


log = structlog.stdlib.get_logger(__name__)

KEPT_FOR: Final = 60.0
"""Seconds after its last use for which a template is kept."""

_PAGE: Final = 200
_EXISTS: Final = "InvalidLaunchTemplateName.AlreadyExistsException"


class Templates:
    """Keeps launch templates."""

    def __init__(
        self,
        aws: Aws,
        *,
        cluster: str,
        meters: Meters,
        monotonic: Callable[[], float],
        kept: float = KEPT_FOR,
    ) -> None:
        self._aws = aws
        self._meters = meters
        self._cluster = cluster
        self._monotonic = monotonic
        self._kept = kept
        self._until: dict[str, float] = {}
        self._making = asyncio.Lock()

    async def ensure(self, recipes: Iterable[Recipe]) -> None:
        """
        See to it that there is a template for each recipe.

        Raises:
            CloudError: EC2 does not make one.
        """
        async with self._making:
            for recipe in recipes:
                if recipe.name not in self._until and not await self._exists(recipe.name):
                    await self._create(recipe)
                self._use(recipe.name)

    def forget(self, names: Iterable[str]) -> None:
        """Forget templates that turned out to be gone."""
        for name in names:
            self._until.pop(name, None)

    async def recall(self) -> None:
        """Learn of the templates that the cluster has, so that those which nobody uses go, too."""
        for each in await self._find(where(f"tag:{CLUSTER_TAG}", self._cluster)):
            self._until.setdefault(each, self._monotonic() + self._kept)

    async def sweep(self) -> None:
        """Delete templates that nobody has used for a while."""
        async with self._making:
            now = self._monotonic()
            for name in [name for name, until in self._until.items() if until <= now]:
                try:
                    await self._delete(name)
                except CloudError as error:
                    log.warning("launch_template.not_deleted", template=name, error=str(error))
                else:
                    self._until.pop(name, None)  # it may have turned out to be gone meanwhile

    async def delete_all(self, node_class: str) -> None:
        """Delete the templates of a class."""
        filters = (where(f"tag:{CLUSTER_TAG}", self._cluster), where(f"tag:{NODE_CLASS_LABEL}", node_class))
        async with self._making:
            for name in await self._find(*filters):
                await self._delete(name)
                self._until.pop(name, None)

    def _use(self, name: str) -> None:
        self._until[name] = self._monotonic() + self._kept

    async def _exists(self, name: str) -> bool:
        try:
            answer = await self._aws.ask("ec2", "DescribeLaunchTemplates", LaunchTemplateNames=[name])
        except Missing:
            return False
        return bool(answer.get("LaunchTemplates"))

    async def _create(self, recipe: Recipe) -> None:
        try:
            await self._aws.ask(
                "ec2",
                "CreateLaunchTemplate",
                LaunchTemplateName=recipe.name,
                LaunchTemplateData=recipe.template_data(),
                TagSpecifications=[specification("launch-template", recipe.tags)],
            )
        except Refused as error:
            if error.code != _EXISTS:
                raise
        log.debug("launch_template.created", template=recipe.name, nodeclass=recipe.node_class)
        size = float(len(base64.b64decode(recipe.user_data)))
        self._meters.show(USER_DATA_BYTES, recipe.node_class, [(size, {"nodeclass": recipe.node_class})])

    async def _delete(self, name: str) -> None:
        try:
            await self._aws.ask("ec2", "DeleteLaunchTemplate", LaunchTemplateName=name)
        except Missing:
            return
        log.debug("launch_template.deleted", template=name)

    async def _find(self, *filters: dict[str, object]) -> list[str]:
        found = await self._aws.every(
            "ec2", "DescribeLaunchTemplates", "LaunchTemplates", Filters=list(filters), MaxResults=_PAGE
        )
        return [each["LaunchTemplateName"] for each in found]


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
        if self.prefixes is not None:
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
    disk: dict[str, Any] = {"DeviceName": mapping.device_name or ""}
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
                "VolumeSize": gibibytes(said.volume_size) or None,
                "VolumeType": said.volume_type or None,
            }
        )
    return disk


def gibibytes(size: str) -> int:
    """Return the size of a disk in GiB, rounded up; 0 for none, and for a suffix without a number."""
    return -(-parse_quantity(size).value // _GIB) if size[:1].isdigit() else 0


def _present(said: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in said.items() if value is not None}
