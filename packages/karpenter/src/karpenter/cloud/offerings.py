"""
The names of offerings, which of them failed lately, and which satisfy a NodeClaim.

A cloud reports insufficient capacity only when a launch fails. :class:`InsufficientCapacityCache` keeps that
for a few minutes, so that the next decision uses another offering, and then drops it, so that it is tried
again. :func:`choices` is for providers that choose the offering themselves: of instance types at the same
price the first of the catalogue wins, of offerings of one type at the same price the first, or a random one.

Knows catalogues only: whether a cloud has capacity is known after a launch.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter.core.model.catalog import InstanceType, Offering
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import fits, parse_resources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.core.model.catalog import Catalog


TTL: Final = 180.0
"""Seconds for which an offering that failed is skipped."""


class OfferingName(msgspec.Struct, frozen=True, order=True):
    """One offering of one instance type."""

    instance_type: str
    zone: str
    capacity_type: str
    reservation_id: str = ""

    @classmethod
    def of(cls, kind: InstanceType, offering: Offering) -> OfferingName:
        """Return the name of an offering of `kind`."""
        return cls(kind.name, offering.zone, offering.capacity_type, offering.reservation_id)

    def __str__(self) -> str:
        reserved = f" ({self.reservation_id})" if self.reservation_id else ""
        return f"{self.instance_type}/{self.zone}/{self.capacity_type}{reserved}"


class InsufficientCapacityCache:
    """Offerings that failed, and until when each is skipped."""

    def __init__(self, *, monotonic: Callable[[], float], ttl: float = TTL) -> None:
        self._monotonic = monotonic
        self._ttl = ttl
        self._until: dict[OfferingName, float] = {}

    def remember(self, offerings: Iterable[OfferingName]) -> None:
        """Skip offerings from now on, for a while."""
        until = self._monotonic() + self._ttl
        self._until.update(dict.fromkeys(offerings, until))

    def now(self) -> frozenset[OfferingName]:
        """Return the offerings that are skipped now."""
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


class Choice(msgspec.Struct, frozen=True):
    """An offering that satisfies a claim."""

    kind: InstanceType
    offering: Offering

    @property
    def name(self) -> OfferingName:
        """The name of the offering."""
        return OfferingName.of(self.kind, self.offering)


def choices(catalog: Catalog, claim: NodeClaim, chance: Random | None = None) -> tuple[Choice, ...]:
    """
    Return every available offering that satisfies a claim and fits its requests, the cheapest first.

    Raises:
        RequirementError, QuantityError: the claim cannot be read.
    """
    wanted = Requirements.from_entries(claim.spec.requirements)
    requests = parse_resources(claim.spec.resources.requests)
    known = catalog.label_rules.well_known
    found = [
        (offering.price, place, Choice(kind, offering))
        for place, kind in enumerate(_named(catalog, wanted))
        if fits(requests, kind.allocatable) and wanted.accepts(kind.requirements, known)
        for offering in kind.available
        if wanted.accepts(offering.requirements, known)
    ]
    found.sort(key=lambda each: each[:2])
    return tuple(
        choice
        for _, equals in groupby(found, key=lambda each: each[:2])
        for choice in _shuffled([choice for *_, choice in equals], chance)
    )


def labels_of(choice: Choice, claim: NodeClaim) -> dict[str, str]:
    """Return the labels of a machine; of several values that claim and type allow, the first."""
    wanted = Requirements.from_entries(claim.spec.requirements)
    settled = wanted.intersect(choice.kind.requirements).intersect(choice.offering.requirements)
    return {each.key: min(each.values) for each in settled if not each.complement and each.values}


def _named(catalog: Catalog, wanted: Requirements) -> Iterable[InstanceType]:
    """Return the instance types that the claim names, in the order of the catalogue; all if it names none."""
    names = wanted[INSTANCE_TYPE]
    if names.complement:
        return catalog.types
    return (kind for kind in catalog.types if kind.name in names.values)


def _shuffled(equals: list[Choice], chance: Random | None) -> list[Choice]:
    if chance is not None and len(equals) > 1:
        chance.shuffle(equals)
    return equals
