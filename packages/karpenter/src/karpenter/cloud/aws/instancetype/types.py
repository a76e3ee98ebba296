"""
An instance type as EC2 describes it, the part of a node class that changes instance types, and what follows
for a node: its capacity and its overhead, to the byte.

The formulas are those of the EKS optimized AMIs, which configure their kubelets with them; the kubelet
settings of a node class override them, entry by entry. Two node classes with equal :class:`Traits` share
instance types: what a class says about anything else, such as tags or user data, is not here.

Pure. Requirements and offerings are in :mod:`.offering`.
"""

from __future__ import annotations

import math
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.ec2nodeclass import (
    CUSTOM,
    EFA_ONLY,
    ENABLED,
    RAID0,
    BlockDeviceMapping,
    EC2NodeClass,
    NetworkInterface,
)
from karpenter.api.ec2nodeclass_status import CapacityReservation
from karpenter.base.quantity import parse_quantity
from karpenter.cloud.aws.amifamily.ami import image_ids
from karpenter.cloud.aws.amifamily.family import WINDOWS_PODS, Family, family_of
from karpenter.cloud.aws.kubelet.expressions import (
    InstanceTypeVariables,
    KubeletSubset,
    Reserved,
    read_kubelet,
)
from karpenter.cloud.aws.kubelet.validation import percentage
from karpenter.cloud.aws.labels import EFA, PRIVATE_IPV4
from karpenter.cloud.aws.placementgroup import PlacementGroup
from karpenter.cloud.catalogs.ec2.data import InstanceFacts, Record, facts_of, load_data
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

    from karpenter.cloud.aws.options import AwsSettings

_MIB: Final = 2**20
_GIB: Final = 2**30
_GB: Final = 10**9
# The kubelet evicts pods below 100Mi of memory, or 10 % of the disk, unless it is told otherwise:
# https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/
_EVICTION_MEMORY: Final = 100 * _MIB
# What the scripts of EKS AMIs reserve for the kubelet:
# https://github.com/awslabs/amazon-eks-ami
_KUBE_STORAGE: Final = _GIB
# The root volume that Karpenter asks for where a class names none:
# https://karpenter.sh/docs/concepts/nodeclasses/#specblockdevicemappings
_DEFAULT_DISK: Final = 20 * _GIB
_WHOLE_PERCENT: Final = 100


class InstanceTypeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type as DescribeInstanceTypes describes it, beyond what every catalogue needs."""

    facts: InstanceFacts
    cards: dict[int, int] = {}
    """Index of a network card to the number of network interfaces that it takes."""

    ena: bool = True
    """Whether it has the Elastic Network Adapter, which network interfaces of a node class need."""

    storage_gb: int = 0
    """All instance store volumes together, of any kind."""

    strategies: frozenset[str] = frozenset()
    """The strategies of placement groups that it can be launched into."""

    features: frozenset[str] = frozenset()
    """Features of its processors, such as nested virtualization."""

    advertised: bool = True
    """Whether the VPC resource controller knows the type, and advertises the addresses of its nodes."""

    @property
    def name(self) -> str:
        return self.facts.name


def instance_type_info(record: Record) -> InstanceTypeInfo:
    """Return what a record of DescribeInstanceTypes says about a type that can be a node."""
    network = record["NetworkInfo"]
    return InstanceTypeInfo(
        facts=facts_of(record, branch_interfaces=_branches().get(record["InstanceType"], 0)),
        cards={
            card.get("NetworkCardIndex", place): card.get("MaximumNetworkInterfaces", 0)
            for place, card in enumerate(network.get("NetworkCards", ()))
        },
        ena=network.get("EnaSupport", "unsupported") != "unsupported",
        storage_gb=record.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
        strategies=frozenset(record.get("PlacementGroupInfo", {}).get("SupportedStrategies", ())),
        features=frozenset(record.get("ProcessorInfo", {}).get("SupportedFeatures", ())),
        advertised=record["InstanceType"] in _advertised(),
    )


@cache
def _advertised() -> frozenset[str]:
    """Return the types that the VPC resource controller knows; its table ships with the product, too."""
    data = load_data()
    return frozenset(facts.name for facts in data.types) - frozenset(data.unadvertised)


@cache
def _branches() -> dict[str, int]:
    """
    Return how many branch network interfaces each type supports.

    No API returns it, so the table of the VPC resource controller ships with the product:
    https://github.com/aws/amazon-vpc-resource-controller-k8s
    """
    return {facts.name: facts.branch_interfaces for facts in load_data().types}


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a node class, and of the settings, that changes instance types or offerings."""

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
        return family_of(self.family_name)

    @property
    def efa_only(self) -> tuple[NetworkInterface, ...]:
        """The network interfaces of type efa-only, which have no IP address."""
        return tuple(each for each in self.interfaces if each.interface_type == EFA_ONLY)

    @property
    def key(self) -> bytes:
        return msgspec.json.encode(self, order="deterministic")


def traits_of(
    node_class: EC2NodeClass, *, settings: AwsSettings, region: str, group: PlacementGroup | None
) -> Traits:
    """
    Return the traits of a node class, whose status has what its selectors found.

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


class ResolvedKubelet(msgspec.Struct, frozen=True):
    """The kubelet settings of a node class that depend on the instance type, resolved for one type."""

    pods: int
    reserved: Reserved


class NodeResources(msgspec.Struct, frozen=True):
    """The capacity of a node, and the part of it that is not for pods."""

    capacity: Resources
    overhead: Resources


def resolve_kubelet(info: InstanceTypeInfo, traits: Traits) -> ResolvedKubelet:
    """
    Return the pod limit and the reserved resources that the kubelet of an instance type is configured with.

    Raises:
        BadExpression: an expression of the node class has no value for this type.
    """
    default = _default_pods(info, traits)
    facts = info.facts
    variables = InstanceTypeVariables(
        instance_type=facts.name,
        vcpus=facts.cpus,
        memory_mib=facts.memory_mib,
        default_enis=facts.interfaces,
        ips_per_eni=facts.ipv4_per_interface,
        max_pods=default,
    )
    asked = traits.kubelet.pods(variables, expressions=traits.expressions)
    pods = default if asked is None else asked
    per_core = traits.kubelet.pods_per_core or 0
    if per_core > 0 and traits.family.limits_pods_per_core:
        pods = min(pods, per_core * info.facts.cpus)
    with_pods = msgspec.structs.replace(variables, max_pods=pods)
    return ResolvedKubelet(pods, traits.kubelet.reserved(with_pods, expressions=traits.expressions))


def node_resources(
    info: InstanceTypeInfo, traits: Traits, resolved: ResolvedKubelet, *, discovered: int | None = None
) -> NodeResources:
    """Return capacity and overhead of a node; `discovered` is the memory that nodes like it reported."""
    memory = memory_mib(info.facts, overhead=traits.memory_overhead) * _MIB
    storage = ephemeral_storage(info, traits)
    capacity = {
        CPU: info.facts.cpus * 1000,
        MEMORY: memory if discovered is None else discovered,
        EPHEMERAL_STORAGE: storage,
        PODS: resolved.pods,
        **devices(info.facts),
    }
    if traits.interfaces:
        capacity[EFA] = len(traits.efa_only)
    # https://github.com/aws/amazon-vpc-resource-controller-k8s/blob/master/pkg/aws/vpc/limits.go
    if traits.family.is_windows and info.advertised:
        capacity[PRIVATE_IPV4] = max(0, info.facts.ipv4_per_interface - 1)
    return NodeResources(
        capacity=MappingProxyType({name: amount for name, amount in capacity.items() if amount}),
        overhead=MappingProxyType(
            merge(
                (
                    kube_reserved(info, traits, resolved),
                    parse_resources(_countable(resolved.reserved.system)),
                    _eviction_threshold(traits, memory=memory, storage=storage),
                )
            )
        ),
    )


def kube_reserved(info: InstanceTypeInfo, traits: Traits, resolved: ResolvedKubelet) -> Resources:
    """Return what is reserved for the kubelet and the container runtime."""
    pods = resolved.pods
    if traits.family.reserves_by_interfaces:
        pods = eni_limited_pods(info.facts, kept=_efa_only_on_first_card(traits))
    return {
        CPU: reserved_cpu(info.facts.cpus * 1000),
        MEMORY: reserved_memory_mib(pods) * _MIB,
        EPHEMERAL_STORAGE: _KUBE_STORAGE,
        **parse_resources(_countable(resolved.reserved.kube)),
    }


def ephemeral_storage(info: InstanceTypeInfo, traits: Traits) -> int:
    """Return the size of the volume that pods write to, in bytes."""
    # With instanceStorePolicy RAID0, pods write to the instance store volumes:
    # https://karpenter.sh/docs/concepts/nodeclasses/
    if traits.raid0 and info.storage_gb:
        return info.storage_gb * _GB
    root = next((_size(each) for each in traits.disks if each.root_volume and _size(each)), None)
    if root is not None:
        return root
    family = traits.family
    if family.name == CUSTOM:
        return (_size(traits.disks[-1]) if traits.disks else None) or _DEFAULT_DISK
    for disks in (traits.disks, family.disks):
        for each in disks:
            size = _size(each)
            if each.device_name == family.ephemeral_device and size:
                return size
    return _DEFAULT_DISK


def _default_pods(info: InstanceTypeInfo, traits: Traits) -> int:
    if not traits.family.limits_pods_by_interfaces:
        return WINDOWS_PODS
    # Interfaces for other purposes (RESERVED_ENIS), and efa-only ones, have no addresses for pods.
    kept = traits.reserved_enis + _efa_only_on_first_card(traits)
    return eni_limited_pods(info.facts, kept=kept)


def _efa_only_on_first_card(traits: Traits) -> int:
    return sum(1 for each in traits.efa_only if each.network_card_index == 0)


def _size(mapping: BlockDeviceMapping) -> int | None:
    """Return the size of a disk in bytes; None where it is not said."""
    if mapping.ebs is None or not mapping.ebs.volume_size[:1].isdigit():
        return None
    return parse_quantity(mapping.ebs.volume_size).value


def _countable(reserved: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the resources that pods could have used: process ids are not scheduled."""
    return {name: amount for name, amount in reserved if name != "pid"}


def _eviction_threshold(traits: Traits, *, memory: int, storage: int) -> Resources:
    """Return the eviction thresholds: below them, the kubelet evicts pods."""
    hard = traits.kubelet.eviction_hard
    return {
        MEMORY: _threshold(hard.get("memory.available", ""), memory, default=_EVICTION_MEMORY),
        EPHEMERAL_STORAGE: _threshold(
            hard.get("nodefs.available", ""), storage, default=math.ceil(storage / 10)
        ),
    }


def _threshold(written: str, total: int, *, default: int) -> int:
    if not written:
        return default
    share = percentage(written) if written.endswith("%") else None
    if share is None:
        return parse_quantity(written).value
    # The kubelet treats a threshold of 100 % as disabled.
    return 0 if share == _WHOLE_PERCENT else math.ceil(total / 100 * share)
