"""
How much a machine of a class offers to Kubernetes, and how much it keeps for itself, to the byte.

The formulas are those by which images of EKS configure their kubelets. What the class says about the kubelet
overrides them, entry by entry.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.ec2nodeclass import CUSTOM
from karpenter.base.quantity import parse_quantity
from karpenter.cloud.aws.amifamily.family import WINDOWS_PODS
from karpenter.cloud.aws.kubelet.expressions import Machine, Reserved
from karpenter.cloud.aws.kubelet.validation import percentage
from karpenter.cloud.aws.labels import EFA, PRIVATE_IPV4
from karpenter.cloud.catalogs.ec2.instancetypes import (
    devices,
    eni_limited_pods,
    memory_mib,
    reserved_cpu,
    reserved_memory_mib,
)
from karpenter.core.model.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    Resources,
    merge,
    parse_resources,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.ec2nodeclass import BlockDeviceMapping
    from karpenter.cloud.aws.instancetype.instancetype import SoldType, Traits

_MIB: Final = 2**20
_GIB: Final = 2**30
_GB: Final = 10**9
_EVICTION_MEMORY: Final = 100 * _MIB
_KUBE_STORAGE: Final = _GIB
_USUAL_DISK: Final = 20 * _GIB
_EVERYTHING: Final = 100


class Settled(msgspec.Struct, frozen=True):
    """The kubelet settings of a class that depend on the instance type, worked out for one."""

    pods: int
    reserved: Reserved


class Amounts(msgspec.Struct, frozen=True):
    """What a machine has, and what of it is not for pods."""

    capacity: Resources
    overhead: Resources


def settle(sold: SoldType, traits: Traits) -> Settled:
    """
    Return what the kubelet of a machine is told about pods and reservations.

    Raises:
        BadExpression: an expression of the class comes to nothing for this type.
    """
    usual = _usual_pods(sold, traits)
    machine = _machine(sold, usual)
    asked = traits.kubelet.pods(machine, expressions=traits.expressions)
    pods = usual if asked is None else asked
    per_core = traits.kubelet.pods_per_core or 0
    if per_core > 0 and traits.family.limits_pods_per_core:
        pods = min(pods, per_core * sold.facts.cpus)
    settled = msgspec.structs.replace(machine, max_pods=pods)
    return Settled(pods, traits.kubelet.reserved(settled, expressions=traits.expressions))


def amounts_of(sold: SoldType, traits: Traits, settled: Settled, *, discovered: int | None = None) -> Amounts:
    """Return what a machine offers and keeps; `discovered` is the memory that nodes like it really have."""
    memory = memory_mib(sold.facts, overhead=traits.memory_overhead) * _MIB
    storage = storage_of(sold, traits)
    capacity = {
        CPU: sold.facts.cpus * 1000,
        MEMORY: memory if discovered is None else discovered,
        EPHEMERAL_STORAGE: storage,
        PODS: settled.pods,
        **devices(sold.facts),
    }
    if traits.interfaces:
        capacity[EFA] = len(traits.efa_only)
    # https://github.com/aws/amazon-vpc-resource-controller-k8s/blob/master/pkg/aws/vpc/limits.go
    if traits.family.is_windows and sold.advertised:
        capacity[PRIVATE_IPV4] = max(0, sold.facts.ipv4_per_interface - 1)
    return Amounts(
        capacity=MappingProxyType({name: amount for name, amount in capacity.items() if amount}),
        overhead=MappingProxyType(
            merge(
                (
                    kube_reserved(sold, traits, settled),
                    parse_resources(_countable(settled.reserved.system)),
                    _evicted(traits, memory=memory, storage=storage),
                )
            )
        ),
    )


def kube_reserved(sold: SoldType, traits: Traits, settled: Settled) -> Resources:
    """Return what is set aside for the kubelet and the container runtime."""
    pods = settled.pods
    if traits.family.reserves_by_interfaces:
        pods = eni_limited_pods(sold.facts, kept=_efa_only_on_first_card(traits))
    return {
        CPU: reserved_cpu(sold.facts.cpus * 1000),
        MEMORY: reserved_memory_mib(pods) * _MIB,
        EPHEMERAL_STORAGE: _KUBE_STORAGE,
        **parse_resources(_countable(settled.reserved.kube)),
    }


def storage_of(sold: SoldType, traits: Traits) -> int:
    """Return the size of the disk that pods write to, in bytes."""
    if traits.raid0 and sold.storage_gb:
        return sold.storage_gb * _GB
    root = next((_size(each) for each in traits.disks if each.root_volume and _size(each)), None)
    if root is not None:
        return root
    family = traits.family
    if family.name == CUSTOM:
        return (_size(traits.disks[-1]) if traits.disks else None) or _USUAL_DISK
    for disks in (traits.disks, family.disks):
        for each in disks:
            size = _size(each)
            if each.device_name == family.ephemeral_device and size:
                return size
    return _USUAL_DISK


def _usual_pods(sold: SoldType, traits: Traits) -> int:
    if not traits.family.limits_pods_by_interfaces:
        return WINDOWS_PODS
    kept = traits.reserved_enis + _efa_only_on_first_card(traits)
    return eni_limited_pods(sold.facts, kept=kept)


def _efa_only_on_first_card(traits: Traits) -> int:
    return sum(1 for each in traits.efa_only if each.network_card_index == 0)


def _machine(sold: SoldType, pods: int) -> Machine:
    facts = sold.facts
    return Machine(
        instance_type=facts.name,
        vcpus=facts.cpus,
        memory_mib=facts.memory_mib,
        default_enis=facts.interfaces,
        ips_per_eni=facts.ipv4_per_interface,
        max_pods=pods,
    )


def _size(mapping: BlockDeviceMapping) -> int | None:
    """Return the size of a disk in bytes; None where it is not said."""
    if mapping.ebs is None or not mapping.ebs.volume_size[:1].isdigit():
        return None
    return parse_quantity(mapping.ebs.volume_size).value


def _countable(reserved: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the amounts that pods could have used: process ids are not among what is scheduled."""
    return {name: amount for name, amount in reserved if name != "pid"}


def _evicted(traits: Traits, *, memory: int, storage: int) -> Resources:
    """Return what must be left free, lest the kubelet drives pods off."""
    hard = traits.kubelet.eviction_hard
    return {
        MEMORY: _threshold(hard.get("memory.available", ""), memory, usual=_EVICTION_MEMORY),
        EPHEMERAL_STORAGE: _threshold(
            hard.get("nodefs.available", ""), storage, usual=math.ceil(storage / 10)
        ),
    }


def _threshold(written: str, total: int, *, usual: int) -> int:
    if not written:
        return usual
    share = percentage(written) if written.endswith("%") else None
    if share is None:
        return parse_quantity(written).value
    return 0 if share == _EVERYTHING else math.ceil(total / 100 * share)
