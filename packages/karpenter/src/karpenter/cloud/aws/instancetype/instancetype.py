"""
An instance type as one class sees it: labels, amounts, and the offerings that it is sold through.

Offerings are for zones that sell the type and have a subnet of the class; without a price they cannot be
bought, but machines of them may run. A type that none of the class's zones sells has offerings in all of them
that cannot be bought, since machines of it may run as well. Which of them failed lately, and how much is left
of reservations, is marked later, in :mod:`.marking`.

What EC2 says about an instance type, beyond what every catalogue needs.

What a node class has to do with what can be bought: everything of it that changes types or offerings.

Two classes with equal traits share a catalogue. What a class says about anything else, such as tags or user
data, is not here.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.ec2nodeclass import AL2023, EFA_ONLY, ENABLED, RAID0, BlockDeviceMapping, NetworkInterface
from karpenter.api.ec2nodeclass_status import EXPIRING, CapacityReservation
from karpenter.api.labels import AMD64, CAPACITY_TYPE, OS, RESERVED, SPOT, WINDOWS, WINDOWS_BUILD, ZONE
from karpenter.cloud.aws.amifamily.ami import image_ids
from karpenter.cloud.aws.amifamily.family import family_of
from karpenter.cloud.aws.instancetype.types import amounts_of, settle
from karpenter.cloud.aws.kubelet.expressions import KubeletSubset, read_kubelet
from karpenter.cloud.aws.labels import (
    PLACEMENT_GROUP,
    PLACEMENT_PARTITION,
    RESERVATION_ID,
    RESERVATION_INTERRUPTIBLE,
    RESERVATION_TYPE,
    ZONE_ID,
)
from karpenter.cloud.aws.placementgroup import PlacementGroup
from karpenter.cloud.catalogs.ec2.data import InstanceFacts, facts_of, load_data
from karpenter.cloud.catalogs.ec2.instancetypes import type_labels
from karpenter.core.model.catalog import InstanceType, Offering

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karpenter.api.ec2nodeclass import EC2NodeClass
    from karpenter.cloud.aws.amifamily.family import Family
    from karpenter.cloud.aws.options import AwsSettings
    from karpenter.cloud.aws.pricing import Prices
    from karpenter.cloud.catalogs.ec2.data import Record
    from karpenter.cloud.catalogs.kwok import Interner


RESERVED_DIVISOR: Final = 10_000_000
"""Reserved capacity is paid for whether it is used or not: next to nothing, so that it is used first."""

_NESTED: Final = "nested-virtualization"
_NITRO: Final = "nitro"
_NOT_ON_AL2023: Final = "a1."


class Builder:
    """Builds the types of one class."""

    def __init__(self, traits: Traits, prices: Prices, interner: Interner) -> None:
        self._traits = traits
        self._prices = prices
        self._interner = interner
        self._held_by: dict[str, list[CapacityReservation]] = {}
        for each in traits.reservations:
            self._held_by.setdefault(each.instance_type, []).append(each)

    def build(
        self, sold: SoldType, zones: frozenset[str], *, discovered: int | None = None
    ) -> InstanceType | None:
        """
        Return a type with its offerings; None when it has none.

        Raises:
            BadExpression: an expression of the class comes to nothing for this type.
        """
        reservations = self._held_by.get(sold.name, [])
        offerings = tuple(self._offerings(sold, zones, reservations))
        if not offerings:
            return None
        settled = settle(sold, self._traits)
        amounts = amounts_of(sold, self._traits, settled, discovered=discovered)
        return InstanceType(
            name=sold.name,
            requirements=self._interner.requirements(self._labels(sold, offerings, reservations)),
            offerings=offerings,
            capacity=amounts.capacity,
            overhead=amounts.overhead,
        )

    def _labels(
        self,
        sold: SoldType,
        offerings: Iterable[Offering],
        reservations: Iterable[CapacityReservation],
    ) -> dict[str, tuple[str, ...]]:
        traits = self._traits
        available = [each for each in offerings if each.available]
        zones = {each.zone for each in available}
        labels = type_labels(
            sold.facts, region=traits.region, zone_ids=[traits.zone_ids[zone] for zone in sorted(zones)]
        )
        labels[ZONE] = tuple(sorted(zones))
        labels[CAPACITY_TYPE] = tuple(sorted({each.capacity_type for each in available}))
        if traits.family.is_windows:
            labels[OS] = (WINDOWS,) if sold.facts.arch == AMD64 else ()
            labels[WINDOWS_BUILD] = (traits.family.windows_build,)
        if reservations:
            labels |= _reservation_labels(reservations)
        if traits.group is not None:
            labels[PLACEMENT_GROUP] = (traits.group.id,)
            labels[PLACEMENT_PARTITION] = traits.group.numbers
        return labels

    def _offerings(
        self, sold: SoldType, zones: frozenset[str], reservations: Iterable[CapacityReservation]
    ) -> Iterator[Offering]:
        traits = self._traits
        selling = zones & traits.zone_ids.keys()
        suits = suits_class(sold, traits) and bool(selling)
        for zone in sorted(selling or traits.zone_ids.keys()):
            for kind in sold.facts.capacity_types:
                price = self._price(sold.name, zone, kind)
                known = price is not None  # what has no price is not bought, and machines of it are kept
                yield from self._partitioned(
                    self._ordinary(zone, kind), price or 0.0, available=suits and known
                )
            for each in reservations:
                if each.availability_zone == zone:
                    price = (self._prices.on_demand(sold.name) or 0.0) / RESERVED_DIVISOR
                    yield from self._partitioned(
                        self._reserved(each),
                        price,
                        available=suits and each.state != EXPIRING,
                        reservation=each.id,
                    )

    def _price(self, name: str, zone: str, kind: str) -> float | None:
        return self._prices.spot(name, zone) if kind == SPOT else self._prices.on_demand(name)

    def _ordinary(self, zone: str, kind: str) -> dict[str, tuple[str, ...]]:
        return {
            CAPACITY_TYPE: (kind,),
            ZONE: (zone,),
            ZONE_ID: (self._traits.zone_ids[zone],),
            RESERVATION_ID: (),
            RESERVATION_TYPE: (),
            RESERVATION_INTERRUPTIBLE: (),
        }

    def _reserved(self, reservation: CapacityReservation) -> dict[str, tuple[str, ...]]:
        zone = reservation.availability_zone
        return {
            CAPACITY_TYPE: (RESERVED,),
            ZONE: (zone,),
            ZONE_ID: (self._traits.zone_ids[zone],),
            **_reservation_labels([reservation]),
        }

    def _partitioned(
        self, labels: dict[str, tuple[str, ...]], price: float, *, available: bool, reservation: str = ""
    ) -> Iterator[Offering]:
        """Yield an offering, or one for each partition of the placement group."""
        group = self._traits.group
        partitions = group.numbers if group is not None else ()
        for partition in partitions or ("",):
            said = {**labels, PLACEMENT_PARTITION: (partition,)} if partition else labels
            yield Offering(
                requirements=self._interner.shared(said),
                price=price,
                available=available,
                reservation_id=reservation,
                reservation_capacity=0 if reservation else None,
            )


def suits_class(sold: SoldType, traits: Traits) -> bool:
    """Say whether machines of a type can be what a class asks for."""
    if traits.family_name == AL2023 and sold.name.startswith(_NOT_ON_AL2023):
        return False
    if traits.family.is_windows and sold.facts.arch != AMD64:
        return False
    if traits.interfaces and not _takes_interfaces(sold, traits):
        return False
    if traits.nested and _NESTED not in sold.features:
        return False
    if traits.group is not None and traits.group.strategy not in sold.strategies:
        return False
    return not traits.tracking or sold.facts.hypervisor == _NITRO


def _takes_interfaces(sold: SoldType, traits: Traits) -> bool:
    if not sold.cards or not sold.ena or len(traits.efa_only) > sold.facts.efa_interfaces:
        return False
    return all(each.device_index < sold.cards.get(each.network_card_index, 0) for each in traits.interfaces)


def _reservation_labels(reservations: Iterable[CapacityReservation]) -> dict[str, tuple[str, ...]]:
    held = tuple(reservations)
    return {
        RESERVATION_ID: tuple(sorted(each.id for each in held)),
        RESERVATION_TYPE: tuple(sorted({each.reservation_type for each in held})),
        RESERVATION_INTERRUPTIBLE: tuple(sorted({_flag(each.interruptible) for each in held})),
    }


def _flag(value: bool) -> str:
    return "true" if value else "false"


class SoldType(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type that EC2 sells."""

    facts: InstanceFacts
    cards: dict[int, int] = {}
    """Network cards: index to how many interfaces each takes."""

    ena: bool = True
    """Whether it has the network adapter that several interfaces need."""

    storage_gb: int = 0
    """All local disks together, whatever kind they are of."""

    strategies: frozenset[str] = frozenset()
    """The kinds of placement group that it may be launched into."""

    features: frozenset[str] = frozenset()
    """What its processors can do beyond the usual."""

    advertised: bool = True
    """Whether the VPC resource controller knows the type, and advertises the addresses of its nodes."""

    @property
    def name(self) -> str:
        """The name of the type."""
        return self.facts.name


def sold_type(record: Record) -> SoldType:
    """Return what a record of DescribeInstanceTypes says about a usable type."""
    network = record["NetworkInfo"]
    return SoldType(
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
    """Return how many branch interfaces each type supports: no API tells, so it ships with the product."""
    return {facts.name: facts.branch_interfaces for facts in load_data().types}


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """What matters of a class, and of the settings."""

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
        """The family of images."""
        return family_of(self.family_name)

    @property
    def efa_only(self) -> tuple[NetworkInterface, ...]:
        """The interfaces that only speak EFA."""
        return tuple(each for each in self.interfaces if each.interface_type == EFA_ONLY)

    @property
    def key(self) -> bytes:
        """What tells these traits from others."""
        return msgspec.json.encode(self, order="deterministic")


def traits_of(
    node_class: EC2NodeClass, *, settings: AwsSettings, region: str, group: PlacementGroup | None
) -> Traits:
    """
    Return the traits of a class, whose status says what it has found.

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
