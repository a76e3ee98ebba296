"""
What a node class has to do with what can be bought: everything of it that changes types or offerings.

Two classes with equal traits share a catalogue. What a class says about anything else, such as tags or user
data, is not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.api.ec2.machine import EFA_ONLY, ENABLED, BlockDeviceMapping, NetworkInterface
from karpenter.api.ec2.status import CapacityReservation
from karpenter.api.ec2nodeclass import RAID0
from karpenter.cloud.aws.families import family_of
from karpenter.cloud.aws.images.choosing import image_ids
from karpenter.cloud.aws.kubelet.subset import KubeletSubset, read_kubelet
from karpenter.cloud.aws.resolving.placement_groups import PlacementGroup

if TYPE_CHECKING:
    from karpenter.api.ec2nodeclass import EC2NodeClass
    from karpenter.cloud.aws.families import Family
    from karpenter.cloud.aws.settings import AwsSettings


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """What matters of a class, and of the settings."""

    region: str
    family_name: str
    zone_ids: dict[str, str] = {}
    """The zones that have a subnet, name to id."""

    subnets: dict[str, tuple[str, ...]] = {}
    """The ids of the subnets of each zone."""

    images: tuple[str, ...] = ()
    kubelet: KubeletSubset = KubeletSubset()
    disks: tuple[BlockDeviceMapping, ...] = ()
    raid0: bool = False
    interfaces: tuple[NetworkInterface, ...] = ()
    reservations: tuple[CapacityReservation, ...] = ()
    tracking: bool = False
    nested: bool = False
    group: PlacementGroup | None = None
    memory_overhead: float = 0.075
    reserved_enis: int = 0
    expressions: bool = False

    @property
    def family(self) -> Family:
        """The family of images."""
        return family_of(self.family_name)

    @property
    def efa_only(self) -> tuple[NetworkInterface, ...]:
        """The interfaces that only speak EFA."""
        return tuple(each for each in self.interfaces if each.interface_type == EFA_ONLY)

    @property
    def key(self) -> bytes:
        """What tells these traits from others."""
        return msgspec.json.encode(self, order="deterministic")


def traits_of(
    node_class: EC2NodeClass, *, settings: AwsSettings, region: str, group: PlacementGroup | None
) -> Traits:
    """
    Return the traits of a class, whose status says what it has found.

    Raises:
        NodeClassNotReady: its kubelet settings cannot be read.
    """
    spec, status = node_class.spec, node_class.status
    subnets: dict[str, tuple[str, ...]] = {}
    for each in status.subnets:
        subnets[each.zone] = (*subnets.get(each.zone, ()), each.id)
    return Traits(
        region=region,
        family_name=spec.family,
        zone_ids={each.zone: each.zone_id for each in status.subnets},
        subnets={zone: tuple(sorted(ids)) for zone, ids in subnets.items()},
        images=image_ids(status.amis),
        kubelet=read_kubelet(node_class),
        disks=spec.block_device_mappings,
        raid0=spec.instance_store_policy == RAID0,
        interfaces=spec.network_interfaces,
        reservations=status.capacity_reservations if settings.reserved_capacity else (),
        tracking=spec.connection_tracking is not None,
        nested=spec.cpu_options is not None and spec.cpu_options.nested_virtualization == ENABLED,
        group=group,
        memory_overhead=settings.memory_overhead,
        reserved_enis=settings.reserved_enis,
        expressions=settings.expressions,
    )
