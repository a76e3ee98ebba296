"""
How much room a kubelet reports: what the hardware has, less what it was told to keep.

The defaults are those of the images: memory is reserved by the number of pods, processors by bands, a tenth
of the disk and 100 MiB of memory must stay free.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from karpenter.base.quantity import QuantityError, parse_quantity
from karpenter.cloud.catalogs.ec2.instancetypes import (
    EFA,
    VM_OVERHEAD,
    devices,
    eni_limited_pods,
    memory_mib,
    reserved_cpu,
    reserved_memory_mib,
)
from karpenter.core.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, parse_resources
from karpenter_local.aws.boot.bootconfig import BootConfig, CannotJoin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter_local.aws.boot.hardware import Hardware
    from karpenter_local.aws.boot.images import System

_MIB: Final = 2**20
_GIB: Final = 2**30
_GB: Final = 10**9
_WINDOWS_PODS: Final = 110
_PRIVATE_IPV4: Final = "vpc.amazonaws.com/PrivateIPv4Address"
# The defaults of the EKS images: https://github.com/awslabs/amazon-eks-ami
_EVICTION: Final = {"memory.available": "100Mi", "nodefs.available": "10%"}
_WATCHED: Final = {"memory.available": MEMORY, "nodefs.available": EPHEMERAL_STORAGE}


def capacity(
    hardware: Hardware, system: System, config: BootConfig, *, overhead: float = VM_OVERHEAD
) -> Resources:
    """Return what a node has; `overhead` is the share of memory that the kernel does not get to see."""
    facts = hardware.facts
    amounts = {
        CPU: facts.cpus * 1000,
        MEMORY: memory_mib(facts, overhead=overhead) * _MIB,
        EPHEMERAL_STORAGE: _disk(hardware, system, config),
        PODS: _pods(hardware, system, config),
        **devices(facts),
        EFA: hardware.efa,
    }
    if system.is_windows:
        amounts[_PRIVATE_IPV4] = max(0, facts.ipv4_per_interface - 1)
    return {name: amount for name, amount in amounts.items() if amount}


def allocatable(hardware: Hardware, system: System, config: BootConfig, has: Resources) -> Resources:
    """
    Return what of it is left for pods.

    Raises:
        CannotJoin: the kubelet was told to keep something that is no amount, or more than there is.
    """
    kubelet = config.kubelet
    kept = _amounts("kube-reserved", _merged(_kube_reserved(hardware, system, has), config, "kube_reserved"))
    system_kept = _amounts("system-reserved", kubelet.system_reserved)
    eviction = _merged(_EVICTION, config, "eviction_hard")
    thresholds = {
        resource: _threshold(eviction[signal], has.get(resource, 0))
        for signal, resource in _WATCHED.items()
        if signal in eviction
    }
    left = {}
    for name, amount in has.items():
        left[name] = amount - kept.get(name, 0) - system_kept.get(name, 0) - thresholds.get(name, 0)
        if left[name] < 0:
            raise CannotJoin(f"kubelet: more {name} is reserved than there is")
    return left


def _pods(hardware: Hardware, system: System, config: BootConfig) -> int:
    most = config.kubelet.max_pods
    if most is None:
        most = _WINDOWS_PODS if system.is_windows else eni_limited_pods(hardware.facts)
    per_core = config.kubelet.pods_per_core
    return min(most, per_core * hardware.facts.cpus) if per_core else most


def _disk(hardware: Hardware, system: System, config: BootConfig) -> int:
    if config.raid0 and hardware.facts.nvme_gb:
        return hardware.facts.nvme_gb * _GB
    return hardware.disks.get(system.disk or hardware.root_device, system.disk_gib) * _GIB


def _kube_reserved(hardware: Hardware, system: System, has: Resources) -> dict[str, str]:
    pods = eni_limited_pods(hardware.facts) if system.reserves_by_interfaces else has.get(PODS, 0)
    return {
        CPU: f"{reserved_cpu(hardware.facts.cpus * 1000)}m",
        MEMORY: f"{reserved_memory_mib(pods)}Mi",
        EPHEMERAL_STORAGE: "1Gi",
    }


def _merged(usual: Mapping[str, str], config: BootConfig, field: str) -> dict[str, str]:
    """Return the defaults, with what the kubelet was told merged into them or in their place."""
    said: Mapping[str, str] = getattr(config.kubelet, field)
    return {**usual, **said} if config.kubelet.merges or not said else dict(said)


def _amounts(name: str, said: Mapping[str, str]) -> Resources:
    try:
        return parse_resources({key: value for key, value in said.items() if key != "pid"})
    except ValueError as error:
        raise CannotJoin(f"kubelet: invalid --{name}: {error}") from None


def _threshold(written: str, total: int) -> int:
    try:
        if written.endswith("%"):
            return math.ceil(total * float(written.removesuffix("%")) / 100) if written != "100%" else 0
        return parse_quantity(written).value
    except (QuantityError, ValueError):
        raise CannotJoin(f"kubelet: invalid eviction threshold {written!r}") from None
