"""
Which offerings failed lately.

A cloud reports insufficient capacity only when a launch fails. :class:`InsufficientCapacityCache` keeps that
for a few minutes, so that the next decision uses another offering, and then drops it, so that it is tried
again.

Knows catalogues only: whether a cloud has capacity is known after a launch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, ZONE
from karpenter.core.model.catalog import Catalog, InstanceType, OfferingName
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import Requirements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


TTL_SECONDS: Final = 180.0
"""Seconds for which an offering that failed is skipped."""


class InsufficientCapacityCache:
    """Offerings that failed, and until when each is skipped."""

    def __init__(self, *, monotonic: Callable[[], float], ttl: float = TTL_SECONDS) -> None:
        self._monotonic = monotonic
        self._ttl = ttl
        self._until: dict[OfferingName, float] = {}

    def remember(self, offerings: Iterable[OfferingName]) -> None:
        """Skip offerings from now on, for a while."""
        until = self._monotonic() + self._ttl
        self._until.update(dict.fromkeys(offerings, until))

    def now(self) -> frozenset[OfferingName]:
        now = self._monotonic()
        self._until = {name: until for name, until in self._until.items() if until > now}
        return frozenset(self._until)


def mark_unavailable(catalog: Catalog, unavailable: frozenset[OfferingName]) -> Catalog:
    """Return the catalogue with these offerings marked as not available; all types stay in it."""
    if not unavailable:
        return catalog
    touched = {name.instance_type for name in unavailable}
    types = tuple(_marked(kind, unavailable) if kind.name in touched else kind for kind in catalog.types)
    return msgspec.structs.replace(catalog, types=types)


def _marked(kind: InstanceType, unavailable: frozenset[OfferingName]) -> InstanceType:
    """Mark the offerings of a type, and limit its labels to zones and capacity types that are available."""
    offerings = tuple(
        msgspec.structs.replace(each, available=False) if OfferingName.of(kind, each) in unavailable else each
        for each in kind.offerings
    )
    left = [each for each in offerings if each.available]
    offered_in = Requirements.of(
        [
            requirement(ZONE, "In", {each.zone for each in left}),
            requirement(CAPACITY_TYPE, "In", {each.capacity_type for each in left}),
        ]
    )
    # A type must not allow a zone that it has no available offering in: topology spread counts zones.
    labels = kind.requirements.without(ZONE, CAPACITY_TYPE).intersect(offered_in)
    return msgspec.structs.replace(kind, offerings=offerings, requirements=labels)
