"""
EBS volumes and public addresses: what the machines of an EC2NodeClass have, and what AWS asks for it.

Prices are those of us-east-1; other regions are dearer by a factor of their own, which is that of gp3 volumes
where it is known, and that of instances elsewhere. A volume whose size only its snapshot knows is not
counted, and neither is an address that the subnet decides about.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.ec2nodeclass import BlockDeviceMapping, EC2NodeClass, family_of_spec
from karpenter.api.meta import to_plain
from karpenter.base.quantity import QuantityError, parse_quantity
from karpenter.cloud.aws.amifamily.family import family_of
from karpenter.cloud.catalogs.ec2.data import load_data
from karpenter.core.model.catalog import VolumePrice
from karpenter.core.model.pricing import NodeVolume
from karpenter.core.state.cluster import NodeClass, node_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


PUBLIC_IPV4_HOURLY: Final = 0.005
"""Dollars per hour, the same in every region: https://aws.amazon.com/vpc/pricing/."""

# Dollars per month in us-east-1: https://aws.amazon.com/ebs/pricing/. What a volume has included:
# https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html. The steps of io2 beyond 32,000
# operations and the requests of magnetic volumes are left out.
_US_EAST_1: Final[Mapping[str, VolumePrice]] = MappingProxyType(
    {
        "gp3": VolumePrice(
            gib=0.08, iops=0.005, included_iops=3000, throughput=0.04, included_throughput=125
        ),
        "gp2": VolumePrice(gib=0.10),
        "io1": VolumePrice(gib=0.125, iops=0.065),
        "io2": VolumePrice(gib=0.125, iops=0.065),
        "st1": VolumePrice(gib=0.045),
        "sc1": VolumePrice(gib=0.015),
        "standard": VolumePrice(gib=0.05),
    }
)
# gp3 by region as a multiple of us-east-1, from the same page.
_FACTORS: Final[Mapping[str, float]] = MappingProxyType(
    {
        "us-east-1": 1.0,
        "us-east-2": 1.0,
        "us-west-1": 1.2,
        "us-west-2": 1.0,
        "ca-central-1": 1.1,
        "eu-west-1": 1.1,
        "eu-west-2": 1.16,
        "eu-west-3": 1.16,
        "eu-central-1": 1.19,
        "eu-north-1": 1.045,
        "ap-south-1": 1.14,
        "ap-southeast-1": 1.2,
        "ap-southeast-2": 1.2,
        "ap-northeast-1": 1.2,
        "ap-northeast-2": 1.14,
        "sa-east-1": 1.9,
    }
)
# Volumes without a type are gp2: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_EbsBlockDevice.html
_DEFAULT_TYPE: Final = "gp2"
_GIB: Final = 2**30
_DIGITS: Final = 6


def volume_prices(region: str) -> Mapping[str, VolumePrice]:
    known = load_data().regions.get(region)
    factor = _FACTORS.get(region, known.price_factor if known is not None else 1.0)
    return {
        name: VolumePrice(
            gib=round(price.gib * factor, _DIGITS),
            iops=round(price.iops * factor, _DIGITS),
            included_iops=price.included_iops,
            throughput=round(price.throughput * factor, _DIGITS),
            included_throughput=price.included_throughput,
        )
        for name, price in _US_EAST_1.items()
    }


def class_volumes(spec: Mapping[str, Any]) -> tuple[NodeVolume, ...]:
    """Return the volumes that machines of an EC2NodeClass have, from its spec as plain data."""
    stated = spec.get("blockDeviceMappings")
    if not stated:
        return tuple(_volumes(family_of(family_of_spec(spec)).disks))
    try:
        mappings = msgspec.convert(stated, tuple[BlockDeviceMapping, ...])
    except msgspec.ValidationError:
        return ()  # it is refused elsewhere, with a sentence
    return tuple(_volumes(mappings))


def has_public_ipv4(spec: Mapping[str, Any]) -> bool:
    """Whether machines of an EC2NodeClass get a public address by its own wish."""
    return spec.get("associatePublicIPAddress") is True


def _volumes(mappings: Iterable[BlockDeviceMapping]) -> Iterator[NodeVolume]:
    for each in mappings:
        if each.ebs is None or not each.ebs.volume_size[:1].isdigit():
            continue
        try:
            size = parse_quantity(each.ebs.volume_size).value
        except QuantityError:
            continue  # it is refused elsewhere, with a sentence
        yield NodeVolume(
            type=each.ebs.volume_type or _DEFAULT_TYPE,
            gib=-(-size // _GIB),
            iops=each.ebs.iops or 0,
            throughput=each.ebs.throughput or 0,
        )


def node_class_of(item: Any, group: str, kind: str) -> NodeClass:
    """Return the fields of a node class that the core reads, with volumes and zones of an EC2NodeClass."""
    found = node_class(item, group, kind)
    plain: Mapping[str, Any] = item if isinstance(item, dict) else to_plain(item)
    spec = plain.get("spec")
    if kind != EC2NodeClass.kind or not isinstance(spec, dict):
        return found
    return msgspec.structs.replace(
        found,
        volumes=class_volumes(spec),
        public_ipv4=has_public_ipv4(spec),
        zones=tuple(sorted(set(_zones(plain.get("status"))))),
    )


def _zones(status: Any) -> Iterator[str]:
    """Yield the zones of the subnets in a status, which no schema has checked."""
    subnets = status.get("subnets") if isinstance(status, dict) else None
    for each in subnets if isinstance(subnets, list) else ():
        if isinstance(each, dict) and isinstance(each.get("zone"), str):
            yield each["zone"]
