"""
An instance type as one class sees it: labels, amounts, and the offerings that it is sold through.

Offerings are for zones that sell the type and have a subnet of the class; without a price they cannot be
bought, but machines of them may run. Which of them failed lately, and how much is left of reservations, is
marked later, in :mod:`.marking`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.ec2.status import EXPIRING
from karpenter.api.ec2nodeclass import AL2023
from karpenter.api.labels import (
    AMD64,
    CAPACITY_TYPE,
    OS,
    RESERVED,
    SPOT,
    WINDOWS,
    WINDOWS_BUILD,
    ZONE,
)
from karpenter.cloud.aws.types.amounts import amounts_of, settle
from karpenter.cloud.aws.words import (
    PLACEMENT_GROUP,
    PLACEMENT_PARTITION,
    RESERVATION_ID,
    RESERVATION_INTERRUPTIBLE,
    RESERVATION_TYPE,
    ZONE_ID,
)
from karpenter.cloud.catalogs.ec2.labels import type_labels
from karpenter.core.model.catalog import InstanceType, Offering

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karpenter.api.ec2.status import CapacityReservation
    from karpenter.cloud.aws.types.prices import Prices
    from karpenter.cloud.aws.types.sold import SoldType
    from karpenter.cloud.aws.types.traits import Traits
    from karpenter.cloud.catalogs.interning import Interner

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
        suits = suits_class(sold, traits)
        for zone in sorted(zones & traits.zone_ids.keys()):
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
