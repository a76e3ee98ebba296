"""
The labels of an EC2 instance type, as nodes of that type carry them.

A label that a type cannot have is stated as absent, so that selecting for it, or
against it, works. Which zones and capacity types a type has depends on what is sold at the
moment, and is settled in :mod:`.catalog`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from karpenter.api.labels import (
    ARCH,
    INSTANCE_TYPE,
    LINUX,
    OS,
    REGION,
    WINDOWS_BUILD,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from karpenter.cloud.catalogs.ec2.facts import InstanceFacts

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
"""Labels that only an EC2NodeClass with reservations or placement groups brings."""

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
"""What pods and pools may ask for, beside the labels every provider knows."""

_ABSENT: Final[Mapping[str, tuple[str, ...]]] = {
    WINDOWS_BUILD: (),
    **{f"{DOMAIN}/{name}": () for name in (*_NEVER, *_WHERE_APPLICABLE)},
}


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
    """Return the labels of GPUs and accelerators, where there is exactly one kind."""
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
