"""What EC2 sells, from the facts that ship with the product: for tests that ask no AWS."""

from functools import cache
from typing import Any

import msgspec

from karpenter.api.ec2nodeclass import BlockDevice, BlockDeviceMapping, NetworkInterface
from karpenter.cloud.aws.instancetype.types import InstanceTypeInfo, Traits
from karpenter.cloud.aws.kubelet.expressions import KubeletSubset
from karpenter.cloud.catalogs.ec2.data import load_data

ZONES = {"us-west-2a": "usw2-az2", "us-west-2b": "usw2-az1", "us-west-2c": "usw2-az3"}
STRATEGIES = frozenset({"cluster", "partition", "spread"})


@cache
def every_type() -> dict[str, InstanceTypeInfo]:
    return {
        facts.name: InstanceTypeInfo(
            facts=facts, cards={0: facts.interfaces}, storage_gb=facts.nvme_gb, strategies=STRATEGIES
        )
        for facts in load_data().types
    }


def sold(name: str) -> InstanceTypeInfo:
    return every_type()[name]


def traits(family: str = "AL2023", *, kubelet: dict[str, Any] | None = None, **more: Any) -> Traits:
    return Traits(
        region="us-west-2",
        family_name=family,
        zone_ids=ZONES,
        subnets={zone: (f"subnet-{zone}",) for zone in ZONES},
        kubelet=msgspec.convert(kubelet or {}, KubeletSubset),
        **more,
    )


def disk(device: str = "/dev/xvda", size: str = "", *, root: bool = False) -> BlockDeviceMapping:
    return BlockDeviceMapping(
        device_name=device, root_volume=root, ebs=BlockDevice(volume_size=size) if size else None
    )


def interface(card: int = 0, device: int = 0, kind: str = "interface") -> NetworkInterface:
    return NetworkInterface(network_card_index=card, device_index=device, interface_type=kind)
