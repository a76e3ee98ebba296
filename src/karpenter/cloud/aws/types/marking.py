"""Marking in a catalogue what cannot be had at the moment: what failed lately, and reservations used up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, ZONE
from karpenter.cloud.aws.types.unavailable import Place
from karpenter.cloud.aws.words import PLACEMENT_PARTITION
from karpenter.core.model.labels import requirement
from karpenter.core.model.requirements import Requirements

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.cloud.aws.types.traits import Traits
    from karpenter.cloud.aws.types.unavailable import Marks
    from karpenter.core.model.catalog import Catalog, InstanceType, Offering


def mark(catalog: Catalog, traits: Traits, marks: Marks, left: Callable[[str], int]) -> Catalog:
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


def place_of(kind: str, offering: Offering, traits: Traits) -> Place:
    """Return where a launch of an offering would fail."""
    group = traits.group.id if traits.group is not None else ""
    partition = offering.requirements.get(PLACEMENT_PARTITION, None)
    number = min(partition.values, default="") if partition is not None else ""
    return Place(kind, offering.zone, offering.capacity_type, group, number if group else "")


def _marked(kind: InstanceType, traits: Traits, marks: Marks, left: Callable[[str], int]) -> InstanceType:
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
    kind: str, offering: Offering, traits: Traits, marks: Marks, left: Callable[[str], int]
) -> Offering:
    subnets = traits.subnets.get(offering.zone, ())
    shifted = traits.zone_ids.get(offering.zone) in marks.zones
    available = (
        offering.available and not shifted and not marks.skips(place_of(kind, offering, traits), subnets)
    )
    if not offering.reservation_id:
        return offering if available == offering.available else _with(offering, available=available)
    count = left(offering.reservation_id)
    return _with(offering, available=available and count != 0, reservation_capacity=count)


def _with(offering: Offering, **changes: object) -> Offering:
    return msgspec.structs.replace(offering, **changes)
