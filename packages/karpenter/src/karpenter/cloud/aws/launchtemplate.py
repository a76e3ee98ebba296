"""
Launch templates: what they say, and which of them exist in EC2.

:class:`LaunchTemplate` is everything that a launch template says, as a value: for one AMI, one capacity type
and one set of kubelet settings. Instance types that differ in any of these need templates of their own; see
:mod:`.amifamily.resolver`.

:class:`LaunchTemplateProvider` creates templates when a launch needs them. A template is named after a hash
of what it says, so that it is found again, also after a restart. One that has not been used for a while is
deleted: an account has a quota of launch templates.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from karpenter.api.ec2nodeclass import (
    DISABLED,
    BlockDeviceMapping,
    ConnectionTracking,
    CPUOptions,
    MetadataOptions,
    NetworkInterface,
)
from karpenter.api.labels import SPOT
from karpenter.base.quantity import parse_quantity
from karpenter.cloud.aws.amifamily.networkinterface import network_interfaces
from karpenter.cloud.aws.errors import AwsApiError, ResourceNotFound
from karpenter.cloud.aws.labels import CLUSTER_TAG, DOMAIN, NODE_CLASS_LABEL, specification
from karpenter.cloud.aws.metrics import USER_DATA_BYTES, ProviderMetrics
from karpenter.cloud.aws.subnet import where
from karpenter.cloud.errors import CloudError

if TYPE_CHECKING:
    from karpenter.cloud.aws.sdk import AwsApi


log = structlog.stdlib.get_logger(__name__)

# A region has a quota of launch templates (5,000), and a new one is made for each AMI and user data:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-launch-templates.html
KEPT_SECONDS: Final = 60.0
"""Seconds after its last use for which a template is kept."""

# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeLaunchTemplates.html
_PAGE_SIZE: Final = 200
# Two replicas may create the same template at once; names are hashes of the contents, so both mean it:
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
_EXISTS: Final = "InvalidLaunchTemplateName.AlreadyExistsException"
_GIB: Final = 2**30

# Regions whose EC2 does not know the metadata option HttpProtocolIpv6:
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_LaunchTemplateInstanceMetadataOptionsRequest.html
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


class LaunchTemplateProvider:
    """Creates and deletes launch templates."""

    def __init__(
        self,
        aws: AwsApi,
        *,
        cluster: str,
        metrics: ProviderMetrics,
        monotonic: Callable[[], float],
        kept: float = KEPT_SECONDS,
    ) -> None:
        self._aws = aws
        self._metrics = metrics
        self._cluster = cluster
        self._monotonic = monotonic
        self._kept = kept
        self._until: dict[str, float] = {}
        self._changing = asyncio.Lock()

    async def ensure(self, templates: Iterable[LaunchTemplate]) -> None:
        """
        Create the templates that do not exist.

        Raises:
            CloudError: EC2 does not create one.
        """
        # One at a time: two launches with the same template would both find that it does not exist.
        async with self._changing:
            for template in templates:
                if template.name not in self._until and not await self._exists(template.name):
                    await self._create(template)
                self._until[template.name] = self._monotonic() + self._kept

    def forget(self, names: Iterable[str]) -> None:
        for name in names:
            self._until.pop(name, None)

    async def load_existing(self) -> None:
        """List the templates of the cluster, so that those of an earlier process are deleted, too."""
        for each in await self._find(where(f"tag:{CLUSTER_TAG}", self._cluster)):
            self._until.setdefault(each, self._monotonic() + self._kept)

    async def delete_unused(self) -> None:
        async with self._changing:
            now = self._monotonic()
            for name in [name for name, until in self._until.items() if until <= now]:
                try:
                    await self._delete(name)
                except CloudError as error:
                    log.warning("launch_template.not_deleted", template=name, error=str(error))
                else:
                    self._until.pop(name, None)  # forget() may have dropped it meanwhile

    async def delete_all(self, node_class: str) -> None:
        filters = (where(f"tag:{CLUSTER_TAG}", self._cluster), where(f"tag:{NODE_CLASS_LABEL}", node_class))
        async with self._changing:
            for name in await self._find(*filters):
                await self._delete(name)
                self._until.pop(name, None)

    async def _exists(self, name: str) -> bool:
        try:
            answer = await self._aws.call("ec2", "DescribeLaunchTemplates", LaunchTemplateNames=[name])
        except ResourceNotFound:
            return False
        return bool(answer.get("LaunchTemplates"))

    async def _create(self, template: LaunchTemplate) -> None:
        try:
            await self._aws.call(
                "ec2",
                "CreateLaunchTemplate",
                LaunchTemplateName=template.name,
                LaunchTemplateData=template.template_data(),
                TagSpecifications=[specification("launch-template", template.tags)],
            )
        except AwsApiError as error:
            # A call whose response was lost has created it; equal names mean equal templates.
            if error.code != _EXISTS:
                raise
        log.debug("launch_template.created", template=template.name, nodeclass=template.node_class)
        size = float(len(base64.b64decode(template.user_data)))
        self._metrics.show(USER_DATA_BYTES, template.node_class, [(size, {"nodeclass": template.node_class})])

    async def _delete(self, name: str) -> None:
        try:
            await self._aws.call("ec2", "DeleteLaunchTemplate", LaunchTemplateName=name)
        except ResourceNotFound:
            return
        log.debug("launch_template.deleted", template=name)

    async def _find(self, *filters: dict[str, object]) -> list[str]:
        found = await self._aws.list_all(
            "ec2", "DescribeLaunchTemplates", "LaunchTemplates", Filters=list(filters), MaxResults=_PAGE_SIZE
        )
        return [each["LaunchTemplateName"] for each in found]


class ReservationTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The capacity reservation that instances are launched into."""

    id: str = ""
    """Empty means that no reservation is used, not even an open one that matches."""

    type: str = ""
    interruptible: bool = False


class LaunchTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a launch template."""

    cluster: str
    node_class: str
    region: str
    image: str
    user_data: str
    """In base64."""

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
    reserve: ReservationTarget | None = None
    """None leaves it to EC2, which may match an open reservation."""

    group: str = ""
    partition: int | None = None

    @property
    def name(self) -> str:
        """The name of the launch template: equal for equal templates."""
        # The name is a hash of what the template says, so $Latest is its only version.
        digest = hashlib.sha256(msgspec.json.encode(self, order="deterministic")).digest()
        return f"{DOMAIN}/{int.from_bytes(digest[:8], 'big')}"

    def template_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "ImageId": self.image,
            "UserData": self.user_data,
            "IamInstanceProfile": {"Name": self.profile},
            "Monitoring": {"Enabled": self.monitoring},
            "MetadataOptions": self._metadata(),
            "NetworkInterfaces": list(network_interfaces(self)),
            "Placement": self._placement(),
            "EnclaveOptions": {"Enabled": self.enclave},
            # CreateFleet tags instances, volumes and fleets itself; these can only be tagged here.
            "TagSpecifications": [specification("network-interface", self.tags)],
        }
        if self.disks:
            data["BlockDeviceMappings"] = [_disk(each) for each in self.disks]
        if self.cpu is not None and self.cpu.nested_virtualization:
            data["CpuOptions"] = {"NestedVirtualization": self.cpu.nested_virtualization}
        # Only a launch of spot makes a spot request that can be tagged:
        # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_LaunchTemplateTagSpecificationRequest.html
        if self.capacity_type == SPOT:
            data["TagSpecifications"].append(specification("spot-instances-request", self.tags))
        return data | self._reservation()

    def _metadata(self) -> dict[str, Any]:
        metadata = self.metadata
        options = {
            "HttpEndpoint": metadata.http_endpoint,
            "HttpPutResponseHopLimit": metadata.http_put_response_hop_limit,
            "HttpTokens": metadata.http_tokens,
            # Tags in the instance metadata forbid tag keys with a slash, which Karpenter's own tags have:
            # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/work-with-tags-in-IMDS.html
            "InstanceMetadataTags": DISABLED,
        }
        # Those regions refuse a template with a field that they do not know.
        if self.region not in _WITHOUT_IPV6_METADATA:
            options["HttpProtocolIpv6"] = metadata.http_protocol_ipv6
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
            # By default an instance runs in any open reservation that matches, which would be used up
            # uncounted:
            # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-launch.html
            return {"CapacityReservationSpecification": {"CapacityReservationPreference": "none"}}
        # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_LaunchTemplateCapacityReservationSpecificationRequest.html
        reservation: dict[str, Any] = {
            "CapacityReservationSpecification": {
                "CapacityReservationPreference": "capacity-reservations-only",
                "CapacityReservationTarget": {"CapacityReservationId": self.reserve.id},
            }
        }
        if self.reserve.interruptible:
            reservation["InstanceMarketOptions"] = {"MarketType": "interruptible-capacity-reservation"}
        # A capacity block is a purchase option of its own beside on-demand and spot:
        # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-launch.html
        elif self.reserve.type == "capacity-block":
            reservation["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
        return reservation


def _disk(mapping: BlockDeviceMapping) -> dict[str, Any]:
    disk: dict[str, Any] = {"DeviceName": mapping.device_name or ""}
    if mapping.ebs is not None:
        ebs = mapping.ebs
        values = {
            "DeleteOnTermination": ebs.delete_on_termination,
            "Encrypted": ebs.encrypted,
            "Iops": ebs.iops or None,
            "KmsKeyId": ebs.kms_key_id or None,
            "SnapshotId": ebs.snapshot_id or None,
            "Throughput": ebs.throughput or None,
            "VolumeInitializationRate": ebs.volume_initialization_rate,
            "VolumeSize": gibibytes(ebs.volume_size) or None,
            "VolumeType": ebs.volume_type or None,
        }
        disk["Ebs"] = {key: value for key, value in values.items() if value is not None}
    return disk


def gibibytes(size: str) -> int:
    """
    Return the size of a volume in GiB, rounded up: EC2 takes whole numbers.

    It is 0 for no size, and for a suffix without a number.
    """
    return -(-parse_quantity(size).value // _GIB) if size[:1].isdigit() else 0
