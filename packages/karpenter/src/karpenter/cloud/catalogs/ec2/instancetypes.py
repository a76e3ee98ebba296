"""
The EC2 catalogue of one region: labels, resources and prices of its instance types.

Every type that the region offers for a known price is in it; types that Amazon Linux 2023 does not run on
are, too, with offerings that are not available. Zones and capacity types of a type are those of its available
offerings.

Labels are those of nodes of a type. A label that a type cannot have is stated as absent, so that selecting
for it, or against it, works. Resources are those of a node whose EC2NodeClass says nothing special: Amazon
Linux 2023, a root volume of 20 GiB, pod addresses from the VPC, kubelet defaults.

On-demand prices of us-east-1 ship with the product; other regions are dearer by a factor of their own. Spot
prices change all day, so they are modelled: a share of the on-demand price that depends on the instance
category, spread by up to 10 % over types and zones, always the same for the same type and zone. ``karpenter
catalog refresh`` asks AWS for current ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final
from zlib import crc32

import msgspec

from karpenter.api.labels import (
    ARCH,
    ARM64,
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    LINUX,
    OS,
    REGION,
    SPOT,
    WINDOWS_BUILD,
    ZONE,
)
from karpenter.cloud.catalogs.ec2.data import Data, InstanceFacts
from karpenter.cloud.catalogs.ec2.volumes import PUBLIC_IPV4_HOURLY, volume_prices
from karpenter.cloud.catalogs.kwok import Interner
from karpenter.core.model.catalog import Catalog, InstanceType, Offering
from karpenter.core.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources

DOMAIN: Final = "karpenter.k8s.aws"
ZONE_ID: Final = "topology.k8s.aws/zone-id"
RESERVATION_ID: Final = f"{DOMAIN}/capacity-reservation-id"

_NAME: Final = re.compile(r"(?P<category>[a-z]+)(?:-\d+tb)?(?P<generation>\d+).*\.")
_NEVER: Final = (
    "capacity-reservation-id",
    "capacity-reservation-type",
    "capacity-reservation-interruptible",
    "placement-group-id",
    "placement-group-partition",
)
"""Labels that only a node class with capacity reservations or a placement group has."""

_WHERE_APPLICABLE: Final = (
    "instance-category",
    "instance-cpu-sustained-clock-speed-mhz",
    "instance-generation",
    "instance-local-nvme",
    "instance-network-bandwidth",
    "instance-ebs-bandwidth",
    "instance-gpu-name",
    "instance-gpu-manufacturer",
    "instance-gpu-count",
    "instance-gpu-memory",
    "instance-accelerator-name",
    "instance-accelerator-manufacturer",
    "instance-accelerator-count",
)
_ALWAYS: Final = (
    "instance-cpu",
    "instance-cpu-manufacturer",
    "instance-memory",
    "instance-family",
    "instance-size",
    "instance-capability-flex",
    "instance-hypervisor",
    "instance-encryption-in-transit-supported",
    "nitro-sandbox",
    "instance-tenancy",
)
WELL_KNOWN: Final = frozenset(
    {ZONE_ID, *(f"{DOMAIN}/{name}" for name in (*_NEVER, *_WHERE_APPLICABLE, *_ALWAYS))}
)
"""Labels that pods and NodePools may require, beside those that every provider has."""

_ABSENT: Final[Mapping[str, tuple[str, ...]]] = {
    WINDOWS_BUILD: (),
    **{f"{DOMAIN}/{name}": () for name in (*_NEVER, *_WHERE_APPLICABLE)},
}


# Resources that device plugins and the VPC resource controller announce:
# https://docs.aws.amazon.com/eks/latest/userguide/security-groups-for-pods.html
POD_ENI: Final = "vpc.amazonaws.com/pod-eni"
EFA: Final = "vpc.amazonaws.com/efa"
NEURON: Final = "aws.amazon.com/neuron"
NEURON_CORE: Final = "aws.amazon.com/neuroncore"
GPU_OF: Final = MappingProxyType(
    {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu", "Habana": "habana.ai/gaudi"}
)
"""GPU manufacturer to the resource its device plugin advertises."""

_MIB: Final = 2**20
_GIB: Final = 2**30
VM_OVERHEAD: Final = 0.075
"""The share of memory that the hypervisor and the kernel take (VM_MEMORY_OVERHEAD_PERCENT)."""

# The kernel of arm64 instances reserves memory for CMA, which the kubelet does not see.
_ARM_RESERVED_MIB: Final = 64
_ROOT_VOLUME: Final = 20 * _GIB
_EVICTION_MEMORY: Final = 100 * _MIB
_KUBE_STORAGE: Final = _GIB
# https://docs.aws.amazon.com/eks/latest/userguide/choosing-instance-type.html
_HOST_NETWORK_PODS: Final = 2  # the VPC CNI and kube-proxy use the address of the node
# The reserved resources of the EKS optimized AMIs, by which nodeadm configures the kubelet:
# https://github.com/awslabs/amazon-eks-ami
_CPU_BANDS: Final = ((0, 1000, 600), (1000, 2000, 100), (2000, 4000, 50), (4000, None, 25))
"""Thousandths of a core from, to, and how many of 10,000 of them the kubelet reserves."""

SPOT_SHARE: Final = MappingProxyType(
    {"t": 0.59, "c": 0.53, "m": 0.47, "g": 0.42, "r": 0.40, "i": 0.32, "x": 0.30, "p": 0.26}
)
"""Median share of the on-demand price, by instance category."""

OTHER_SPOT_SHARE: Final = 0.44
SPOT_SPREAD: Final = 0.1

_STEPS: Final = 1000
_DECIMALS: Final = 5

DEFAULT_REGION: Final = "us-east-1"
_NOT_ON_AL2023: Final = "a1."


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type as one region offers it."""

    facts: InstanceFacts
    zones: Mapping[str, str]
    """Zone name to zone id."""

    prices: Mapping[tuple[str, str], float]
    """Zone name and capacity type to the price per hour; what is not here is not offered."""


def ec2_catalog(data: Data, region: str) -> Catalog:
    """Return the catalogue of a region from the facts that ship with the product."""
    return assemble(region, _listings(data, region))


def assemble(region: str, listings: Iterable[Listing]) -> Catalog:
    interner = Interner()
    return Catalog(
        types=tuple(_instance_type(listing, region, interner) for listing in listings),
        well_known=WELL_KNOWN,
        restricted_domains=frozenset({DOMAIN}),
        reservation_label=RESERVATION_ID,
        volume_prices=volume_prices(region),
        public_ipv4_price=PUBLIC_IPV4_HOURLY,
    )


def _listings(data: Data, region: str) -> Iterator[Listing]:
    factor = data.regions[region].price_factor
    for facts, price, zones in data.sold_in(region):
        prices = _modelled_prices(facts, zones, regional_price(price, factor))
        yield Listing(facts=facts, zones=zones, prices=prices)


def _modelled_prices(
    facts: InstanceFacts, zones: Iterable[str], on_demand: float
) -> dict[tuple[str, str], float]:
    prices = {}
    for zone in zones:
        for kind in facts.capacity_types:
            prices[zone, kind] = spot_price(facts.name, zone, on_demand) if kind == SPOT else on_demand
    return prices


def _instance_type(listing: Listing, region: str, interner: Interner) -> InstanceType:
    facts = listing.facts
    available = not facts.name.startswith(_NOT_ON_AL2023)
    labels = type_labels(facts, region=region, zone_ids=listing.zones.values())
    sold = listing.prices if available else ()
    labels[ZONE] = tuple(sorted({zone for zone, _ in sold}))
    labels[CAPACITY_TYPE] = tuple(sorted({kind for _, kind in sold}))
    return InstanceType(
        name=facts.name,
        requirements=interner.requirements(labels),
        offerings=tuple(
            Offering(
                requirements=interner.shared(
                    {
                        CAPACITY_TYPE: (kind,),
                        ZONE: (zone,),
                        ZONE_ID: (listing.zones[zone],),
                        RESERVATION_ID: (),
                    }
                ),
                price=price,
                available=available,
            )
            for (zone, kind), price in listing.prices.items()
        ),
        capacity=capacity(facts),
        overhead=overhead(facts),
    )


def category(name: str) -> str:
    """Return the letters that an instance type's name begins with; empty if it has no known form."""
    match = _NAME.match(name)
    return match["category"] if match else ""


def type_labels(facts: InstanceFacts, *, region: str, zone_ids: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the labels of a type with their possible values; the caller adds zones and capacity types."""
    return {
        **_ABSENT,
        INSTANCE_TYPE: (facts.name,),
        ARCH: (facts.arch,),
        OS: (LINUX,),
        REGION: (region,),
        ZONE_ID: tuple(sorted(zone_ids)),
        **{f"{DOMAIN}/{name}": values for name, values in _own(facts).items()},
    }


def _own(facts: InstanceFacts) -> dict[str, tuple[str, ...]]:
    """Return the labels in the provider's own domain, without those that do not apply."""
    family, _, size = facts.name.partition(".")
    labels: dict[str, tuple[str, ...]] = {
        "instance-cpu": (str(facts.cpus),),
        "instance-cpu-manufacturer": (_kebab(facts.cpu_manufacturer),),
        "instance-memory": (str(facts.memory_mib),),
        "instance-family": (family,),
        "instance-size": (size,),
        "instance-capability-flex": (_flag("-flex" in family),),
        "instance-hypervisor": (facts.hypervisor,),
        "instance-encryption-in-transit-supported": (_flag(facts.encryption_in_transit),),
        "nitro-sandbox": (_flag(facts.nitro_enclaves),),
        "instance-tenancy": ("dedicated", "default"),
    }
    for name, number in (
        ("instance-cpu-sustained-clock-speed-mhz", facts.clock_mhz),
        ("instance-local-nvme", facts.nvme_gb),
        ("instance-network-bandwidth", facts.network_mbps),
        ("instance-ebs-bandwidth", facts.ebs_mbps),
    ):
        if number:
            labels[name] = (str(number),)
    named = _NAME.match(facts.name)
    if named:
        labels["instance-category"] = (named["category"],)
        labels["instance-generation"] = (named["generation"],)
    return {**labels, **_chips(facts)}


def _chips(facts: InstanceFacts) -> dict[str, tuple[str, ...]]:
    """Return the labels of GPUs and accelerators of a type with exactly one kind of them."""
    labels: dict[str, tuple[str, ...]] = {}
    if len(facts.gpus) == 1:
        gpu = facts.gpus[0]
        labels["instance-gpu-name"] = (_kebab(gpu.name),)
        labels["instance-gpu-manufacturer"] = (_kebab(gpu.manufacturer),)
        labels["instance-gpu-count"] = (str(gpu.count),)
        labels["instance-gpu-memory"] = (str(gpu.memory_mib),)
    if len(facts.neuron_devices) == 1:
        device = facts.neuron_devices[0]
        chip = device.name, "aws", device.count
    elif len(facts.accelerators) == 1:
        accelerator = facts.accelerators[0]
        chip = accelerator.name, accelerator.manufacturer, accelerator.count
    else:
        return labels
    labels["instance-accelerator-name"] = (_kebab(chip[0]),)
    labels["instance-accelerator-manufacturer"] = (_kebab(chip[1]),)
    labels["instance-accelerator-count"] = (str(chip[2]),)
    return labels


def _kebab(name: str) -> str:
    return name.lower().replace(" ", "-")


def _flag(value: bool) -> str:
    return "true" if value else "false"


def eni_limited_pods(facts: InstanceFacts, *, kept: int = 0) -> int:
    """
    Return how many pods can have an address of the VPC, when `kept` network interfaces are not for pods.

    https://docs.aws.amazon.com/eks/latest/userguide/cni-increase-ip-addresses.html and
    https://github.com/awslabs/amazon-eks-ami (eni-max-pods.txt)
    """
    interfaces = max(0, facts.interfaces - kept)
    if not interfaces:
        return 0
    return interfaces * (facts.ipv4_per_interface - 1) + _HOST_NETWORK_PODS


def capacity(facts: InstanceFacts) -> Resources:
    """Return the capacity that the kubelet of such a node reports."""
    amounts = {
        CPU: facts.cpus * 1000,
        MEMORY: memory_mib(facts) * _MIB,
        EPHEMERAL_STORAGE: _ROOT_VOLUME,
        PODS: eni_limited_pods(facts),
        **devices(facts),
    }
    return MappingProxyType({name: amount for name, amount in amounts.items() if amount})


def devices(facts: InstanceFacts) -> dict[str, int]:
    """Return the extended resources that device plugins advertise, zeros included."""
    amounts = {
        POD_ENI: facts.branch_interfaces,
        EFA: facts.efa_interfaces,
        NEURON: sum(device.count for device in facts.neuron_devices),
        NEURON_CORE: sum(device.count * device.cores for device in facts.neuron_devices[:1]),
    }
    for gpu in facts.gpus:
        resource = GPU_OF.get(gpu.manufacturer)
        if resource:
            amounts[resource] = amounts.get(resource, 0) + gpu.count
    return amounts


def overhead(facts: InstanceFacts) -> Resources:
    """Return what the kubelet reserves, with its eviction thresholds."""
    pods = eni_limited_pods(facts)
    return MappingProxyType(
        {
            CPU: reserved_cpu(facts.cpus * 1000),
            MEMORY: reserved_memory_mib(pods) * _MIB + _EVICTION_MEMORY,
            EPHEMERAL_STORAGE: _KUBE_STORAGE + math.ceil(_ROOT_VOLUME / 10),
        }
    )


def memory_mib(facts: InstanceFacts, *, overhead: float = VM_OVERHEAD) -> int:
    """Return the memory that the kubelet sees, in MiB."""
    usable = facts.memory_mib - (_ARM_RESERVED_MIB if facts.arch == ARM64 else 0)
    return usable - math.ceil(usable * overhead)


def reserved_memory_mib(pods: int) -> int:
    """Return the memory that the kubelet sets aside for itself when it may run so many pods, in MiB."""
    return 11 * pods + 255


def reserved_cpu(milli: int) -> int:
    """Return how many thousandths of a core the kubelet sets aside for itself."""
    return sum(
        max(0, min(milli, milli if end is None else end) - start) * share // 10_000
        for start, end, share in _CPU_BANDS
    )


def regional_price(us_east_1: float, factor: float) -> float:
    """Return the on-demand price in a region whose prices are `factor` times those of us-east-1."""
    return us_east_1 if factor == 1 else round(us_east_1 * factor, _DECIMALS)


def spot_price(name: str, zone: str, on_demand: float) -> float:
    share = SPOT_SHARE.get(category(name), OTHER_SPOT_SHARE)
    step = crc32(f"{name}/{zone}".encode()) % (2 * _STEPS + 1) - _STEPS
    return round(on_demand * share * (1 + SPOT_SPREAD * step / _STEPS), _DECIMALS)
