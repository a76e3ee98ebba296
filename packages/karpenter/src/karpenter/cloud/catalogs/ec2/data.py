"""
What EC2 describes about instance types, and the file of it that ships with the product.

:class:`InstanceFacts` are numbers and names as DescribeInstanceTypes returns them; :func:`facts_of` reads a
record of that API, a plain dictionary as boto3 returns it. What Kubernetes makes of them is in
:mod:`.instancetypes`.

The file is compressed JSON, written by ``tools/ec2/build.py``: a row per instance type, its on-demand price
in us-east-1 where one is known, and for each region its zones, its price level, and which types are offered
in which zone. GovCloud and China have price lists of their own. Its date is part of it.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final, TypeAlias

import msgspec

from karpenter.api.labels import AMD64, ARM64, ON_DEMAND, SPOT

FILE: Final = "ec2.json.gz"
_FIRST_DIGIT: Final = ord("0")
_NEAREST: Final = {"us-gov-": "us-gov-west-1", "cn-": "cn-north-1"}
"""The region whose prices stand for those of others in its partition."""

Record: TypeAlias = Mapping[str, Any]

ARCHITECTURES: Final = {"x86_64": AMD64, "arm64": ARM64}
"""EC2's spelling of an architecture to that of Kubernetes; others are not for Kubernetes."""

_PLAIN_RATE: Final = re.compile(r"(?:(\d+)x )?(\d+(?:\.\d+)?) Gigabit")
# Older instance types have words instead of numbers in NetworkPerformance.
_VAGUE_RATES: Final = frozenset({"Very Low", "Low", "Low to Moderate", "Moderate", "High", ""})


class Gpu(msgspec.Struct, frozen=True, array_like=True):
    """A kind of GPU of an instance type."""

    name: str
    manufacturer: str
    count: int
    memory_mib: int
    """Of each one."""


class NeuronDevice(msgspec.Struct, frozen=True, array_like=True):
    """A kind of Neuron accelerator: Trainium or Inferentia."""

    name: str
    count: int
    cores: int
    """Of each one."""


class Accelerator(msgspec.Struct, frozen=True, array_like=True):
    """A kind of inference accelerator, of any manufacturer."""

    name: str
    manufacturer: str
    count: int


class InstanceFacts(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """One instance type; stored as a row, so the order of the fields is part of the file format."""

    name: str
    cpus: int
    memory_mib: int
    arch: str
    """As Kubernetes spells it: amd64 or arm64."""

    cpu_manufacturer: str
    clock_mhz: int
    """Sustained; zero where EC2 does not say."""

    hypervisor: str
    """nitro or xen; empty for bare metal."""

    capacity_types: tuple[str, ...]
    interfaces: int
    """How many network interfaces the default network card takes."""

    ipv4_per_interface: int
    branch_interfaces: int
    """How many pods may have a network interface of their own; zero where trunking is not supported."""

    efa_interfaces: int
    network_mbps: int
    """What can be counted on, not the burst; zero where EC2 only says High or Low."""

    ebs_mbps: int
    """At most; zero unless the type is optimised for EBS by default."""

    nvme_gb: int
    """All local disks together; zero where there is none, or none with NVMe."""

    encryption_in_transit: bool
    nitro_enclaves: bool
    gpus: tuple[Gpu, ...] = ()
    neuron_devices: tuple[NeuronDevice, ...] = ()
    accelerators: tuple[Accelerator, ...] = ()


class Region(msgspec.Struct, frozen=True):
    """The zones of a region, and which types each offers."""

    price_factor: float
    """Its prices as a multiple of those in us-east-1."""

    zones: dict[str, str]
    """Zone name to zone id, in the order of the bits in `sold`."""

    sold: str
    """A character per instance type: ``0`` plus a bit for each zone that offers it."""

    def zones_of(self, index: int) -> dict[str, str]:
        """Return the zones, name to id, that offer the type at `index`."""
        bits = ord(self.sold[index]) - _FIRST_DIGIT
        return {name: ident for bit, (name, ident) in enumerate(self.zones.items()) if bits >> bit & 1}


class Data(msgspec.Struct, frozen=True):
    """Everything the file holds."""

    types_as_of: str
    prices_as_of: str
    types: tuple[InstanceFacts, ...]
    prices: tuple[float | None, ...]
    """On demand in us-east-1, in US dollars per hour; in the order of the types."""

    regions: dict[str, Region]
    listed: dict[str, dict[str, float]] = {}
    """On-demand prices of regions outside the commercial partition by type, in the currency of the region."""

    unadvertised: tuple[str, ...] = ()
    """Types that the VPC resource controller does not know, so that no node of them advertises addresses."""

    def listed_in(self, region: str) -> dict[str, float] | None:
        """Return the prices of a region of GovCloud or China, or of the nearest; None for other regions."""
        partition = next((each for each in _NEAREST if region.startswith(each)), "")
        return self.listed.get(region) or self.listed.get(_NEAREST.get(partition, ""))

    def sold_in(self, region: str) -> Iterator[tuple[InstanceFacts, float, dict[str, str]]]:
        """Yield each type that `region` offers for a known price: facts, price in us-east-1, zones."""
        sold = self.regions[region]
        for index, (facts, price) in enumerate(zip(self.types, self.prices, strict=True)):
            zones = sold.zones_of(index)
            if price is not None and zones:
                yield facts, price, zones


_ZONE: Final = re.compile(r"(?P<region>[a-z]{2}(?:-[a-z]+)+-\d+)(?:[a-z]|-)")
"""A zone, or the beginning of a local zone such as us-west-2-lax-1a."""


def region_of_zone(zone: str) -> str:
    """Return the region that a zone is named after; empty where there is no such region."""
    # us-west-2a lies in us-west-2, and so does the local zone us-west-2-lax-1a.
    # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-regions-availability-zones.html
    found = _ZONE.match(zone)
    if found is None:
        return ""
    region, data = found["region"], load_data()
    return region if region in data.regions or data.listed_in(region) is not None else ""


@lru_cache(maxsize=1)
def load_data() -> Data:
    """Return the facts that ship with the product."""
    packed = files(__package__).joinpath(FILE).read_bytes()
    return msgspec.json.decode(gzip.decompress(packed), type=Data)


def pack_data(data: Data) -> bytes:
    """Return the bytes of the file; the same for the same data."""
    return gzip.compress(msgspec.json.encode(data), compresslevel=9, mtime=0)


def pack_zones(zones: Iterable[str], sold_in: Iterable[frozenset[str]]) -> str:
    """Return which types are offered where, in the form of `Region.sold`."""
    order = tuple(zones)
    return "".join(
        chr(_FIRST_DIGIT + sum(1 << bit for bit, zone in enumerate(order) if zone in sold))
        for sold in sold_in
    )


def currency_of(region: str) -> str:
    """Return the currency of a region's prices: those of China are in yuan, all others in US dollars."""
    # https://www.amazonaws.cn/en/ec2/pricing/
    return "CNY" if region.startswith("cn-") else "USD"


def usable(record: Record) -> bool:
    """Return whether a type can be a node: hardware virtualisation or bare metal, x86 or ARM."""
    return "hvm" in record["SupportedVirtualizationTypes"] and bool(_architectures(record))


def facts_of(record: Record, *, branch_interfaces: int) -> InstanceFacts:
    """
    Return the facts about a usable type.

    The number of branch network interfaces is the one figure that the API does not return.
    """
    network = record["NetworkInfo"]
    card = network["NetworkCards"][network.get("DefaultNetworkCardIndex", 0)]
    return InstanceFacts(
        name=record["InstanceType"],
        cpus=record["VCpuInfo"]["DefaultVCpus"],
        memory_mib=record["MemoryInfo"]["SizeInMiB"],
        arch=_architectures(record)[0],
        cpu_manufacturer=record["ProcessorInfo"].get("Manufacturer", ""),
        clock_mhz=round(record["ProcessorInfo"].get("SustainedClockSpeedInGhz", 0) * 1000),
        hypervisor=record.get("Hypervisor", ""),
        capacity_types=tuple(kind for kind in (ON_DEMAND, SPOT) if kind in record["SupportedUsageClasses"]),
        interfaces=card["MaximumNetworkInterfaces"],
        ipv4_per_interface=network["Ipv4AddressesPerInterface"],
        branch_interfaces=branch_interfaces,
        efa_interfaces=network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        network_mbps=_network_mbps(network),
        ebs_mbps=_ebs_mbps(record.get("EbsInfo", {})),
        nvme_gb=_nvme_gb(record.get("InstanceStorageInfo", {})),
        encryption_in_transit=network.get("EncryptionInTransitSupported", False),
        nitro_enclaves=record.get("NitroEnclavesSupport") == "supported",
        gpus=_gpus(record),
        neuron_devices=_neuron_devices(record),
        accelerators=_accelerators(record),
    )


def _architectures(record: Record) -> list[str]:
    supported = record["ProcessorInfo"]["SupportedArchitectures"]
    return [ARCHITECTURES[name] for name in supported if name in ARCHITECTURES]


def _network_mbps(network: Record) -> int:
    """Return the guaranteed bandwidth: the number in NetworkPerformance, else the baseline of the cards."""
    told = network.get("NetworkPerformance", "")
    if told in _VAGUE_RATES:
        return 0
    plain = _PLAIN_RATE.fullmatch(told)
    if plain:
        return round(int(plain[1] or 1) * float(plain[2]) * 1000)
    baselines: list[float] = [card.get("BaselineBandwidthInGbps", 0) for card in network["NetworkCards"]]
    return round(sum(baselines) * 1000)


def _ebs_mbps(ebs: Record) -> int:
    if ebs.get("EbsOptimizedSupport") != "default":
        return 0
    mbps: int = ebs.get("EbsOptimizedInfo", {}).get("MaximumBandwidthInMbps", 0)
    return mbps


def _nvme_gb(storage: Record) -> int:
    if storage.get("NvmeSupport", "unsupported") == "unsupported":
        return 0
    total: int = storage["TotalSizeInGB"]
    return total


def _gpus(record: Record) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(
            name=gpu.get("Name", ""),
            manufacturer=gpu.get("Manufacturer", ""),
            count=gpu.get("Count", 0),
            memory_mib=gpu.get("MemoryInfo", {}).get("SizeInMiB", 0),
        )
        for gpu in record.get("GpuInfo", {}).get("Gpus", ())
    )


def _neuron_devices(record: Record) -> tuple[NeuronDevice, ...]:
    return tuple(
        NeuronDevice(
            name=device.get("Name", ""),
            count=device.get("Count", 0),
            cores=device.get("CoreInfo", {}).get("Count", 0),
        )
        for device in record.get("NeuronInfo", {}).get("NeuronDevices", ())
    )


def _accelerators(record: Record) -> tuple[Accelerator, ...]:
    return tuple(
        Accelerator(
            name=chip.get("Name", ""),
            manufacturer=chip.get("Manufacturer", ""),
            count=chip.get("Count", 0),
        )
        for chip in record.get("InferenceAcceleratorInfo", {}).get("Accelerators", ())
    )
