"""
Offerings that are unavailable: what failed lately, capacity types as a whole, subnets without addresses, and
zones with an active zonal shift.

EC2 reports insufficient capacity only when a launch fails. The offering is then skipped for three minutes, as
in Karpenter, so that the next decision launches something else. :func:`apply_unavailable` marks the offerings
in a catalogue, and sets how much is left of capacity reservations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, ZONE
from karpenter.cloud.aws.labels import PLACEMENT_PARTITION
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import Requirements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from karpenter.cloud.aws.instancetype.types import Traits
    from karpenter.core.model.catalog import Catalog, InstanceType, Offering


# As long as Karpenter caches unavailable offerings.
TTL_SECONDS: Final = 180.0
"""Seconds for which something that failed is skipped."""


class OfferingKey(msgspec.Struct, frozen=True, order=True):
    """An offering, perhaps within a placement group and a partition, that a launch can fail for."""

    instance_type: str
    zone: str
    capacity_type: str
    group: str = ""
    partition: str = ""


class UnavailableSnapshot(msgspec.Struct, frozen=True):
    """Unavailable offerings, capacity types, subnets and zones at one moment."""

    offerings: frozenset[OfferingKey] = frozenset()
    capacity_types: frozenset[str] = frozenset()
    subnets: frozenset[str] = frozenset()
    zones: frozenset[str] = frozenset()
    """The ids of zones with an active zonal shift."""

    def skips(self, key: OfferingKey, subnets: Iterable[str]) -> bool:
        """Return whether an offering is unavailable, whose zone has these subnets."""
        # The quota of spot instances, or the missing service-linked role, concerns all of spot:
        # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-spot-limits.html
        if key.capacity_type in self.capacity_types:
            return True
        # What fails without a placement group fails in each of its partitions as well:
        # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html
        keys = {key, _without_partition(key), _without_group(key)}
        if not self.offerings.isdisjoint(keys):
            return True
        held = tuple(subnets)
        # A zone is only unavailable when every subnet that the node class has there is out of addresses.
        return bool(held) and self.subnets.issuperset(held)


NOTHING: Final = UnavailableSnapshot()


class UnavailableOfferings:
    """Offerings, capacity types and subnets whose launches failed lately."""

    def __init__(
        self,
        *,
        monotonic: Callable[[], float],
        ttl: float = TTL_SECONDS,
        shifted: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self._monotonic = monotonic
        self._shifted = shifted
        self._ttl = ttl
        self._until: dict[OfferingKey | tuple[str, str], float] = {}
        self._snapshot = NOTHING

    def mark(self, offerings: Iterable[OfferingKey]) -> None:
        self._mark(offerings)

    def mark_capacity_type(self, capacity_type: str) -> None:
        self._mark([("capacity type", capacity_type)])

    def mark_subnet(self, subnet: str) -> None:
        self._mark([("subnet", subnet)])

    def now(self) -> UnavailableSnapshot:
        """Return what is unavailable now; the same value until that changes."""
        now = self._monotonic()
        self._until = {key: until for key, until in self._until.items() if until > now}
        marks = UnavailableSnapshot(
            offerings=frozenset(each for each in self._until if isinstance(each, OfferingKey)),
            capacity_types=self._named("capacity type"),
            subnets=self._named("subnet"),
            zones=self._shifted(),
        )
        if marks != self._snapshot:
            self._snapshot = marks
        return self._snapshot

    def _named(self, kind: str) -> frozenset[str]:
        return frozenset(each[1] for each in self._until if isinstance(each, tuple) and each[0] == kind)

    def _mark(self, keys: Iterable[OfferingKey | tuple[str, str]]) -> None:
        self._until.update(dict.fromkeys(keys, self._monotonic() + self._ttl))


def _without_partition(key: OfferingKey) -> OfferingKey:
    return msgspec.structs.replace(key, partition="")


def _without_group(key: OfferingKey) -> OfferingKey:
    return msgspec.structs.replace(key, group="", partition="")


def apply_unavailable(
    catalog: Catalog, traits: Traits, marks: UnavailableSnapshot, left: Callable[[str], int]
) -> Catalog:
    """Return a catalogue with its unavailable offerings marked, and reservations that are used up."""
    touched = {key.instance_type for key in marks.offerings}
    everything = bool(marks.capacity_types or marks.subnets or marks.zones)
    types = tuple(
        _marked(kind, traits, marks, left)
        if everything or kind.name in touched or any(each.reservation_id for each in kind.offerings)
        else kind
        for kind in catalog.types
    )
    return msgspec.structs.replace(catalog, types=types)


def offering_key(kind: str, offering: Offering, traits: Traits) -> OfferingKey:
    group = traits.group.id if traits.group is not None else ""
    partition = offering.requirements.get(PLACEMENT_PARTITION, None)
    number = min(partition.values, default="") if partition is not None else ""
    return OfferingKey(kind, offering.zone, offering.capacity_type, group, number if group else "")


def _marked(
    kind: InstanceType, traits: Traits, marks: UnavailableSnapshot, left: Callable[[str], int]
) -> InstanceType:
    offerings = tuple(_marked_offering(kind.name, each, traits, marks, left) for each in kind.offerings)
    if offerings == kind.offerings:
        return kind
    available = [each for each in offerings if each.available]
    offered_in = Requirements.of(
        [
            requirement(ZONE, "In", {each.zone for each in available}),
            requirement(CAPACITY_TYPE, "In", {each.capacity_type for each in available}),
        ]
    )
    labels = kind.requirements.without(ZONE, CAPACITY_TYPE).intersect(offered_in)
    return msgspec.structs.replace(kind, offerings=offerings, requirements=labels)


def _marked_offering(
    kind: str, offering: Offering, traits: Traits, marks: UnavailableSnapshot, left: Callable[[str], int]
) -> Offering:
    subnets = traits.subnets.get(offering.zone, ())
    shifted = traits.zone_ids.get(offering.zone) in marks.zones
    available = (
        offering.available and not shifted and not marks.skips(offering_key(kind, offering, traits), subnets)
    )
    if not offering.reservation_id:
        return offering if available == offering.available else _with(offering, available=available)
    count = left(offering.reservation_id)
    return _with(offering, available=available and count != 0, reservation_capacity=count)


def _with(offering: Offering, **changes: object) -> Offering:
    return msgspec.structs.replace(offering, **changes)
