"""
How much an EC2 instance offers to Kubernetes, and how much it keeps for itself.

The figures are those of a node whose EC2NodeClass says nothing special: Amazon Linux
2023, a root volume of 20 GiB, pod addresses from the VPC, kubelet defaults.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from karpenter.api.labels import ARM64
from karpenter.core.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

if TYPE_CHECKING:
    from karpenter.cloud.catalogs.ec2.facts import InstanceFacts
    from karpenter.core.model.resources import Resources

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
"""The share of memory that the hypervisor and the kernel take before the kubelet counts."""

_ARM_RESERVED_MIB: Final = 64
_ROOT_VOLUME: Final = 20 * _GIB
_EVICTION_MEMORY: Final = 100 * _MIB
_KUBE_STORAGE: Final = _GIB
_HOST_NETWORK_PODS: Final = 2  # the network plugin and kube-proxy need no address of their own
_CPU_BANDS: Final = ((0, 1000, 600), (1000, 2000, 100), (2000, 4000, 50), (4000, None, 25))
"""Thousandths of a core from, to, and how many of 10,000 of them the kubelet reserves."""


def eni_limited_pods(facts: InstanceFacts, *, kept: int = 0) -> int:
    """Return how many pods can have an address of the VPC, when so many interfaces are kept for others."""
    interfaces = max(0, facts.interfaces - kept)
    if not interfaces:
        return 0
    return interfaces * (facts.ipv4_per_interface - 1) + _HOST_NETWORK_PODS


def capacity(facts: InstanceFacts) -> Resources:
    """Return what the kubelet of such a machine would report as its capacity."""
    amounts = {
        CPU: facts.cpus * 1000,
        MEMORY: memory_mib(facts) * _MIB,
        EPHEMERAL_STORAGE: _ROOT_VOLUME,
        PODS: eni_limited_pods(facts),
        **devices(facts),
    }
    return MappingProxyType({name: amount for name, amount in amounts.items() if amount})


def devices(facts: InstanceFacts) -> dict[str, int]:
    """Return what device plugins would advertise, those of which there are none included."""
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
