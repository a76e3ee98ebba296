"""
From a record of DescribeInstanceTypes to the facts we keep.

A record is a plain dictionary, as the SDK returns it. Whatever a record may leave out is
looked up gently; what every record has is simply read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from karpenter.api.labels import AMD64, ARM64, ON_DEMAND, SPOT
from karpenter.cloud.catalogs.ec2.facts import Accelerator, Gpu, InstanceFacts, NeuronDevice

Record: TypeAlias = Mapping[str, Any]

ARCHITECTURES: Final = {"x86_64": AMD64, "arm64": ARM64}
"""EC2's spelling of an architecture to that of Kubernetes; others are not for Kubernetes."""

_PLAIN_RATE: Final = re.compile(r"(?:(\d+)x )?(\d+(?:\.\d+)?) Gigabit")
_VAGUE_RATES: Final = frozenset({"Very Low", "Low", "Low to Moderate", "Moderate", "High", ""})


def usable(record: Record) -> bool:
    """Return whether a type can be a node: hardware virtualisation or bare metal, x86 or ARM."""
    return "hvm" in record["SupportedVirtualizationTypes"] and bool(_architectures(record))


def facts_of(record: Record, *, branch_interfaces: int) -> InstanceFacts:
    """
    Return the facts about a usable type.

    How many branch interfaces it supports is the one figure that the API does not tell.
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
    """Return the guaranteed rate: a plain one as it is told, else what the cards have as a baseline."""
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
