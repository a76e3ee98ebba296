"""
The catalog: instance types and their offerings.

A :class:`Catalog` holds every instance type that NodePools may use at one moment. An instance type says
what its nodes are; each of its offerings says in which zone and capacity type it can be launched, at what
price, and whether it is available now. :func:`choices` says which satisfy a NodeClaim.

Pure values. Where the figures come from is in ``karpenter.cloud``; how pods are packed is in the scheduling
package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.dra import ResourceSliceSpec
from karpenter.api.labels import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODEPOOL,
    RESTRICTED_DOMAINS,
    WELL_KNOWN_LABELS,
    ZONE,
    LabelRules,
)
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import (
    HUGEPAGES_PREFIX,
    MEMORY,
    Resources,
    fits,
    parse_resources,
    subtract,
)

if TYPE_CHECKING:
    from karpenter.api.nodeclaim import NodeClaim


class Offering(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One offering of an instance type: a zone, a capacity type, perhaps a capacity reservation."""

    requirements: Requirements
    """Always names one zone and one capacity type; a reserved offering also its reservation."""

    price: float
    """In the currency of the catalogue, per hour."""

    available: bool = True
    reservation_id: str = ""
    """Empty unless this is capacity reserved beforehand."""

    reservation_capacity: int | None = None
    """How many instances the reservation still has; None where nothing is reserved."""

    interruption_rate: float = 0.0
    """Interruptions of one such machine per month; 0 where nothing is known."""

    parts: tuple[tuple[str, float], ...] = ()
    """What the price is made of, where it is more than the list price: names and dollars per hour."""

    @property
    def zone(self) -> str:
        return min(self.requirements[ZONE].values)

    @property
    def capacity_type(self) -> str:
        """The only capacity type of this offering: spot, on-demand or reserved."""
        return min(self.requirements[CAPACITY_TYPE].values)


class DeviceName(msgspec.Struct, frozen=True, order=True):
    """The identity of a template device."""

    driver: str
    pool: str
    device: str


class AttributeBinding(msgspec.Struct, frozen=True):
    """Template devices that will have the same value of an attribute, known only once the node runs."""

    attribute: str
    """With its domain."""

    devices: tuple[DeviceName, ...]


class DeviceTemplates(msgspec.Struct, frozen=True):
    """The ResourceSlices that drivers will publish on nodes of an instance type."""

    slices: tuple[ResourceSliceSpec, ...]
    bindings: tuple[AttributeBinding, ...] = ()


class InstanceType(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """An instance type: its labels, its capacity, and its offerings."""

    name: str
    requirements: Requirements
    """Every label a node of this type may carry; those it never carries must not exist."""

    offerings: tuple[Offering, ...]
    capacity: Resources
    overhead: Resources
    """What the system, the kubelet and its eviction threshold keep for themselves."""

    devices: DeviceTemplates | None = None
    """What pods can claim on such a node; None where nothing is known of devices."""

    @cached_property
    def allocatable(self) -> Resources:
        """
        What pods may request: capacity minus overhead.

        Huge pages are cut out of memory, which never falls below zero by them. A
        negative amount means that the overhead alone is more than the machine has.
        """
        left = subtract(self.capacity, self.overhead)
        # Huge pages are reserved out of memory: https://kubernetes.io/docs/tasks/manage-hugepages/scheduling-hugepages/
        for name, pages in self.capacity.items():
            if name.startswith(HUGEPAGES_PREFIX) and MEMORY in left:
                left[MEMORY] = max(0, left[MEMORY] - pages)
        return MappingProxyType(left)

    @cached_property
    def available(self) -> tuple[Offering, ...]:
        return tuple(offering for offering in self.offerings if offering.available)

    @cached_property
    def cheapest(self) -> Offering | None:
        """The cheapest offering that can be launched now, the first of equals."""
        return min(self.available, key=lambda offering: offering.price, default=None)


class VolumePrice(msgspec.Struct, frozen=True, kw_only=True):
    """What volumes of one type cost per month."""

    gib: float
    iops: float = 0.0
    """Of each operation per second that is provisioned beyond the included ones."""

    included_iops: int = 0
    throughput: float = 0.0
    """Of each MiB per second that is provisioned beyond the included ones."""

    included_throughput: int = 0


class Catalog(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Every instance type that NodePools may use, at one moment, and the labels that the provider defines."""

    types: tuple[InstanceType, ...]
    well_known: frozenset[str] = frozenset()
    """Label keys that a pool need not define, beside those every provider knows."""

    restricted_domains: frozenset[str] = frozenset()
    """Label domains that only the provider may write to."""

    reservation_label: str = ""
    """The label key of reservation ids; empty where the provider has none."""

    zones: frozenset[str] = frozenset()
    """
    Zones in which every type counts as sold for machines that run there, whether it is or not.

    Empty where offerings say all: a machine has then drifted once its zone stops selling its type.
    """

    by_pool: Mapping[str, tuple[InstanceType, ...]] = {}
    """Instance types by NodePool, where NodePools differ; then one that is not named has none."""

    volume_prices: Mapping[str, VolumePrice] = {}
    """What volumes cost, by volume type; empty where the cloud sells none."""

    public_ipv4_price: float = 0.0
    """What a public IPv4 address costs per hour."""

    node_prices: Mapping[str, float] = {}
    """What single nodes cost per hour, by name, where that is less than their offering does."""

    def types_of(self, pool: str) -> tuple[InstanceType, ...]:
        """Return the instance types that a pool may use."""
        return self.by_pool.get(pool, ()) if self.by_pool else self.types

    @cached_property
    def by_name(self) -> Mapping[str, InstanceType]:
        return MappingProxyType({kind.name: kind for kind in self.types})

    @cached_property
    def _by_pool_and_name(self) -> Mapping[str, Mapping[str, InstanceType]]:
        return {pool: {kind.name: kind for kind in types} for pool, types in self.by_pool.items()}

    def find(self, pool: str, name: str) -> InstanceType | None:
        """Return an instance type as a NodePool sees it, or as others do where it may not use it."""
        return self._by_pool_and_name.get(pool, {}).get(name) or self.by_name.get(name)

    def sold(self, pool: str, name: str) -> InstanceType | None:
        """Return an instance type as a NodePool may launch it; None where it may not."""
        return self._by_pool_and_name.get(pool, {}).get(name) if self.by_pool else self.by_name.get(name)

    @cached_property
    def label_rules(self) -> LabelRules:
        """The well-known and restricted labels of NodePools that use this catalog."""
        return LabelRules(
            well_known=WELL_KNOWN_LABELS | self.well_known,
            restricted_domains=RESTRICTED_DOMAINS | self.restricted_domains,
        )


EMPTY: Final = Catalog(types=())
"""A catalog without instance types."""


def combine(catalogs: Mapping[str, Catalog]) -> Catalog:
    """Return one catalog for several NodePools; the same object if all have the same."""
    different = list({id(each): each for each in catalogs.values()}.values())
    if not different:
        return EMPTY
    if len(different) == 1:
        return different[0]
    kinds: dict[str, InstanceType] = {}
    for each in different:
        for kind in each.types:
            kinds.setdefault(kind.name, kind)
    return Catalog(
        types=tuple(kinds.values()),
        well_known=_union(each.well_known for each in different),
        restricted_domains=_union(each.restricted_domains for each in different),
        reservation_label=next((each.reservation_label for each in different if each.reservation_label), ""),
        zones=_union(each.zones for each in different),
        by_pool={name: each.types for name, each in catalogs.items()},
        volume_prices=next((each.volume_prices for each in different if each.volume_prices), {}),
        public_ipv4_price=max(each.public_ipv4_price for each in different),
    )


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)


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


class Choice(msgspec.Struct, frozen=True):
    """An offering that satisfies a claim."""

    kind: InstanceType
    offering: Offering

    @property
    def name(self) -> OfferingName:
        return OfferingName.of(self.kind, self.offering)


def choices(
    catalog: Catalog, claim: NodeClaim, shuffle: Callable[[list[Choice]], None] | None = None
) -> tuple[Choice, ...]:
    """
    Return every available offering that satisfies a claim and fits its requests, the cheapest first.

    Of instance types at the same price the first of the catalogue wins, of offerings of one type at the same
    price the first, or the one that `shuffle` puts first.

    Raises:
        RequirementError, QuantityError: the claim cannot be read.
    """
    wanted = Requirements.from_entries(claim.spec.requirements)
    requests = parse_resources(claim.spec.resources.requests)
    known, pool = catalog.label_rules.well_known, claim.metadata.labels.get(NODEPOOL, "")
    found = [
        (offering.price, place, Choice(kind, offering))
        for place, kind in enumerate(_named(catalog.types_of(pool), wanted))
        if fits(requests, kind.allocatable) and wanted.accepts(kind.requirements, known)
        for offering in kind.available
        if wanted.accepts(offering.requirements, known)
    ]
    found.sort(key=lambda each: each[:2])
    return tuple(
        choice
        for _, equals in groupby(found, key=lambda each: each[:2])
        for choice in _shuffled([choice for *_, choice in equals], shuffle)
    )


def labels_of(choice: Choice, claim: NodeClaim) -> dict[str, str]:
    """Return the labels of a machine; of several values that claim and type allow, the first."""
    wanted = Requirements.from_entries(claim.spec.requirements)
    settled = wanted.intersect(choice.kind.requirements).intersect(choice.offering.requirements)
    return {each.key: min(each.values) for each in settled if not each.complement and each.values}


def _named(types: Iterable[InstanceType], wanted: Requirements) -> Iterable[InstanceType]:
    """Return the instance types that the claim names, in the order of the catalogue; all if it names none."""
    names = wanted[INSTANCE_TYPE]
    return types if names.complement else (kind for kind in types if kind.name in names.values)


def _shuffled(equals: list[Choice], shuffle: Callable[[list[Choice]], None] | None) -> list[Choice]:
    if shuffle is not None and len(equals) > 1:
        shuffle(equals)
    return equals
