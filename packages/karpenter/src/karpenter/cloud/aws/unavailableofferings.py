"""
What failed lately: offerings, capacity types as a whole, and subnets without addresses.

EC2 says that something cannot be had only when a launch fails. It is then skipped for a few minutes, so that
the next decision buys something else.

Marking in a catalogue what cannot be had at the moment: what failed lately, and reservations used up.
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


REMEMBERED: Final = 180.0
"""Seconds for which something that failed is skipped."""


class OfferingKey(msgspec.Struct, frozen=True, order=True):
    """A place where a launch can fail: an offering, perhaps within a placement group and a partition."""

    instance_type: str
    zone: str
    capacity_type: str
    group: str = ""
    partition: str = ""


class UnavailableSnapshot(msgspec.Struct, frozen=True):
    """What is skipped at one moment."""

    offerings: frozenset[OfferingKey] = frozenset()
    capacity_types: frozenset[str] = frozenset()
    subnets: frozenset[str] = frozenset()
    zones: frozenset[str] = frozenset()
    """The ids of zones that are shifted away."""

    def skips(self, place: OfferingKey, subnets: Iterable[str]) -> bool:
        """Say whether an offering is skipped, whose zone has these subnets."""
        if place.capacity_type in self.capacity_types:
            return True
        places = {place, _without_partition(place), _without_group(place)}
        if not self.offerings.isdisjoint(places):
            return True
        held = tuple(subnets)
        return bool(held) and self.subnets.issuperset(held)


NOTHING: Final = UnavailableSnapshot()


class UnavailableOfferings:
    """Remembers what failed."""

    def __init__(
        self,
        *,
        monotonic: Callable[[], float],
        remembered: float = REMEMBERED,
        shifted: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self._monotonic = monotonic
        self._shifted = shifted
        self._remembered = remembered
        self._until: dict[OfferingKey | tuple[str, str], float] = {}
        self._shown = NOTHING

    def mark(self, places: Iterable[OfferingKey]) -> None:
        """Skip offerings from now on."""
        self._mark(places)

    def mark_capacity_type(self, capacity_type: str) -> None:
        """Skip everything of a capacity type from now on."""
        self._mark([("capacity type", capacity_type)])

    def mark_subnet(self, subnet: str) -> None:
        """Skip a subnet from now on."""
        self._mark([("subnet", subnet)])

    def now(self) -> UnavailableSnapshot:
        """Return what is skipped at this moment; the same value until that changes."""
        now = self._monotonic()
        self._until = {key: until for key, until in self._until.items() if until > now}
        marks = UnavailableSnapshot(
            offerings=frozenset(each for each in self._until if isinstance(each, OfferingKey)),
            capacity_types=self._named("capacity type"),
            subnets=self._named("subnet"),
            zones=self._shifted(),
        )
        if marks != self._shown:
            self._shown = marks
        return self._shown

    def _named(self, kind: str) -> frozenset[str]:
        return frozenset(each[1] for each in self._until if isinstance(each, tuple) and each[0] == kind)

    def _mark(self, keys: Iterable[OfferingKey | tuple[str, str]]) -> None:
        self._until.update(dict.fromkeys(keys, self._monotonic() + self._remembered))


def _without_partition(place: OfferingKey) -> OfferingKey:
    return msgspec.structs.replace(place, partition="")


def _without_group(place: OfferingKey) -> OfferingKey:
    return msgspec.structs.replace(place, group="", partition="")


def apply_unavailable(catalog: Catalog, traits: Traits, marks: UnavailableSnapshot, left: Callable[[str], int]) -> Catalog:
    """Return a catalogue in which nothing is available that failed lately or is used up."""
    touched = {place.instance_type for place in marks.offerings}
    everything = bool(marks.capacity_types or marks.subnets or marks.zones)
    types = tuple(
        _marked(kind, traits, marks, left)
        if everything or kind.name in touched or any(each.reservation_id for each in kind.offerings)
        else kind
        for kind in catalog.types
    )
    return msgspec.structs.replace(catalog, types=types)


def offering_key(kind: str, offering: Offering, traits: Traits) -> OfferingKey:
    """Return where a launch of an offering would fail."""
    group = traits.group.id if traits.group is not None else ""
    partition = offering.requirements.get(PLACEMENT_PARTITION, None)
    number = min(partition.values, default="") if partition is not None else ""
    return OfferingKey(kind, offering.zone, offering.capacity_type, group, number if group else "")


def _marked(kind: InstanceType, traits: Traits, marks: UnavailableSnapshot, left: Callable[[str], int]) -> InstanceType:
    offerings = tuple(_judged(kind.name, each, traits, marks, left) for each in kind.offerings)
    if offerings == kind.offerings:
        return kind
    available = [each for each in offerings if each.available]
    sold_by = Requirements.of(
        [
            requirement(ZONE, "In", {each.zone for each in available}),
            requirement(CAPACITY_TYPE, "In", {each.capacity_type for each in available}),
        ]
    )
    labels = kind.requirements.without(ZONE, CAPACITY_TYPE).intersect(sold_by)
    return msgspec.structs.replace(kind, offerings=offerings, requirements=labels)


def _judged(
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
