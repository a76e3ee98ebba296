"""
An instance type as one node class sees it: its requirements, its resources and its offerings.

There is an offering for every zone that has the type and a subnet of the class. One without a price is not
available, but its nodes are kept. A type that none of the class's zones has is offered in all of them, but
not available, because its nodes are kept as well. Which offerings failed lately, and how much of a capacity
reservation is left, is marked later, in :mod:`karpenter.cloud.aws.unavailableofferings`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.ec2nodeclass_status import EXPIRING, CapacityReservation
from karpenter.api.labels import AMD64, CAPACITY_TYPE, OS, RESERVED, SPOT, WINDOWS, WINDOWS_BUILD, ZONE
from karpenter.cloud.aws.instancetype.compatibility import is_compatible
from karpenter.cloud.aws.instancetype.types import InstanceTypeInfo, Traits, node_resources, resolve_kubelet
from karpenter.cloud.aws.labels import (
    PLACEMENT_GROUP,
    PLACEMENT_PARTITION,
    RESERVATION_ID,
    RESERVATION_INTERRUPTIBLE,
    RESERVATION_TYPE,
    ZONE_ID,
)
from karpenter.cloud.catalogs.ec2.instancetypes import type_labels
from karpenter.core.model.catalog import InstanceType, Offering

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karpenter.cloud.aws.pricing import PricingProvider
    from karpenter.cloud.catalogs.kwok import Interner

# As in Karpenter, so that reserved offerings keep the order of their on-demand prices.
RESERVED_DIVISOR: Final = 10_000_000
"""A capacity reservation is paid for whether it is used or not: its price is next to zero."""


class InstanceTypeBuilder:
    """Builds the instance types of one node class."""

    def __init__(self, traits: Traits, prices: PricingProvider, interner: Interner) -> None:
        self._traits = traits
        self._prices = prices
        self._interner = interner
        self._reservations_of: dict[str, list[CapacityReservation]] = {}
        for each in traits.reservations:
            self._reservations_of.setdefault(each.instance_type, []).append(each)

    def build(
        self, info: InstanceTypeInfo, zones: frozenset[str], *, discovered: int | None = None
    ) -> InstanceType | None:
        """
        Return an instance type with its offerings; None when it has none.

        Raises:
            BadExpression: an expression of the node class has no value for this type.
        """
        reservations = self._reservations_of.get(info.name, [])
        offerings = tuple(self._offerings(info, zones, reservations))
        if not offerings:
            return None
        kubelet = resolve_kubelet(info, self._traits)
        resources = node_resources(info, self._traits, kubelet, discovered=discovered)
        return InstanceType(
            name=info.name,
            requirements=self._interner.requirements(self._labels(info, offerings, reservations)),
            offerings=offerings,
            capacity=resources.capacity,
            overhead=resources.overhead,
        )

    def _labels(
        self,
        info: InstanceTypeInfo,
        offerings: Iterable[Offering],
        reservations: Iterable[CapacityReservation],
    ) -> dict[str, tuple[str, ...]]:
        traits = self._traits
        available = [each for each in offerings if each.available]
        zones = {each.zone for each in available}
        labels = type_labels(
            info.facts, region=traits.region, zone_ids=[traits.zone_ids[zone] for zone in sorted(zones)]
        )
        labels[ZONE] = tuple(sorted(zones))
        labels[CAPACITY_TYPE] = tuple(sorted({each.capacity_type for each in available}))
        if traits.family.is_windows:
            labels[OS] = (WINDOWS,) if info.facts.arch == AMD64 else ()
            labels[WINDOWS_BUILD] = (traits.family.windows_build,)
        if reservations:
            labels |= _reservation_labels(reservations)
        if traits.group is not None:
            labels[PLACEMENT_GROUP] = (traits.group.id,)
            labels[PLACEMENT_PARTITION] = traits.group.numbers
        return labels

    def _offerings(
        self, info: InstanceTypeInfo, zones: frozenset[str], reservations: Iterable[CapacityReservation]
    ) -> Iterator[Offering]:
        traits = self._traits
        offered = zones & traits.zone_ids.keys()
        compatible = is_compatible(info, traits) and bool(offered)
        for zone in sorted(offered or traits.zone_ids.keys()):
            for kind in info.facts.capacity_types:
                price = (
                    self._prices.spot(info.name, zone) if kind == SPOT else self._prices.on_demand(info.name)
                )
                known = price is not None  # without a price it is not launched, and its nodes are kept
                yield from self._partitioned(
                    self._labels_of_offering(zone, kind), price or 0.0, available=compatible and known
                )
            for each in reservations:
                if each.availability_zone == zone:
                    price = (self._prices.on_demand(info.name) or 0.0) / RESERVED_DIVISOR
                    yield from self._partitioned(
                        self._labels_of_reserved(each),
                        price,
                        available=compatible and each.state != EXPIRING,
                        reservation=each.id,
                    )

    def _labels_of_offering(self, zone: str, kind: str) -> dict[str, tuple[str, ...]]:
        return {
            CAPACITY_TYPE: (kind,),
            ZONE: (zone,),
            ZONE_ID: (self._traits.zone_ids[zone],),
            RESERVATION_ID: (),
            RESERVATION_TYPE: (),
            RESERVATION_INTERRUPTIBLE: (),
        }

    def _labels_of_reserved(self, reservation: CapacityReservation) -> dict[str, tuple[str, ...]]:
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


def _reservation_labels(reservations: Iterable[CapacityReservation]) -> dict[str, tuple[str, ...]]:
    held = tuple(reservations)
    return {
        RESERVATION_ID: tuple(sorted(each.id for each in held)),
        RESERVATION_TYPE: tuple(sorted({each.reservation_type for each in held})),
        RESERVATION_INTERRUPTIBLE: tuple(
            sorted({"true" if each.interruptible else "false" for each in held})
        ),
    }
