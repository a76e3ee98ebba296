"""
The catalogue of the cloud in memory, and how a catalogue is assembled from what is stated about its types.

:func:`kwok_catalog` makes 144 types by formula: twelve sizes, each with 2, 4 or 8 GiB of memory per core, for
two operating systems and two architectures, offered in four zones as spot and on-demand. Prices follow from
the size: 2.5 cents per core and 0.1 cents per gigabyte (not gibibyte) of memory, spot for 70 %.

:func:`assemble` derives the labels that follow from a type's name and size, fills in the default overhead and
pod limit, and states which labels each type and offering lacks: a label that is stated anywhere in the
catalogue is well known, and a type that does not state it does not have it. Zones and capacity types of a
type are those of its available offerings.

A catalogue states the same few requirements thousands of times. :class:`Interner` makes each of them once, so
that they cost little memory and are compared by identity.

Reads no files: :mod:`.kwok_format` does.
"""

from __future__ import annotations

import re
import sys
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from karpenter.api.labels import (
    AMD64,
    ARCH,
    ARM64,
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    LINUX,
    ON_DEMAND,
    OS,
    SPOT,
    WELL_KNOWN_LABELS,
    WINDOWS,
    ZONE,
    domain_of,
)
from karpenter.core.model.catalog import Catalog, DeviceTemplates, InstanceType, Offering
from karpenter.core.model.requirement import Requirement
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, render_amount

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


Labels: TypeAlias = "Mapping[str, tuple[str, ...]]"
"""Label key to the sorted values it may take; none means that the label is absent."""

DOMAIN: Final = "karpenter.kwok.sh"
AWS_DOMAIN: Final = "karpenter.k8s.aws"
INSTANCE_FAMILY: Final = f"{DOMAIN}/instance-family"
INSTANCE_SIZE: Final = f"{DOMAIN}/instance-size"
INSTANCE_CPU: Final = f"{DOMAIN}/instance-cpu"
INSTANCE_MEMORY: Final = f"{DOMAIN}/instance-memory"
RESERVATION_ID: Final = f"{DOMAIN}/reservation-id"
DERIVED_LABELS: Final = frozenset({INSTANCE_FAMILY, INSTANCE_SIZE, INSTANCE_CPU, INSTANCE_MEMORY})

DEFAULT_OVERHEAD: Final[Resources] = MappingProxyType({CPU: 100, MEMORY: 10 * 2**20})
# The kubelet's own default: https://kubernetes.io/docs/setup/best-practices/cluster-large/
DEFAULT_PODS: Final = 110

_SIZED_NAME: Final = re.compile(r"\w+\.(nano|micro|small|medium|large|\d*xlarge|metal)")
_OF_OFFERINGS: Final = (ZONE, CAPACITY_TYPE)

# The instance types of upstream's kwok provider, by the same rule and with the same prices:
# https://github.com/kubernetes-sigs/karpenter/tree/v1.14.1/kwok
CORES: Final = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256)
GIB_PER_CORE: Final = {"c": 2, "s": 4, "m": 8}
ZONES: Final = ("test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d")

_GIB: Final = 2**30
_DISK: Final = 20 * _GIB
_PODS_PER_CORE: Final = 16
_MOST_PODS: Final = 1024
_PICODOLLARS: Final = 10**12  # a byte costs one, which keeps prices exact until the last step
_PICODOLLARS_PER_CORE: Final = 25 * 10**9


class OfferingDraft(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An offering as the catalogue states it."""

    labels: Labels
    price: float
    available: bool = True
    reservation_capacity: int | None = None
    interruption_rate: float = 0.0


class TypeDraft(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type as the catalogue states it."""

    name: str
    architecture: str
    operating_systems: tuple[str, ...]
    capacity: Resources
    cpu: str
    """The quantity as it is written, for the label that repeats it; likewise `memory`."""

    memory: str
    offerings: tuple[OfferingDraft, ...]
    overhead: Resources = DEFAULT_OVERHEAD
    labels: Labels = MappingProxyType({})
    """What holds for every offering of the type."""

    devices: DeviceTemplates | None = None


def kwok_catalog() -> Catalog:
    shapes = product(CORES, GIB_PER_CORE, (LINUX, WINDOWS), (AMD64, ARM64))
    return assemble(_draft(cores, family, system, arch) for cores, family, system, arch in shapes)


def assemble(drafts: Iterable[TypeDraft]) -> Catalog:
    drafts = tuple(drafts)
    stated = frozenset(
        key
        for draft in drafts
        for labels in (draft.labels, *(o.labels for o in draft.offerings))
        for key in labels
    )
    absent = dict.fromkeys(sorted(stated), ())
    interner = Interner()
    return Catalog(
        types=tuple(_instance_type(draft, absent, interner) for draft in drafts),
        well_known=(stated | DERIVED_LABELS | {RESERVATION_ID}) - WELL_KNOWN_LABELS,
        restricted_domains=frozenset({DOMAIN, *({AWS_DOMAIN} & {domain_of(key) for key in stated})}),
        reservation_label=RESERVATION_ID,
    )


def derived_labels(name: str, cpu: str, memory: str) -> Labels:
    """Return the labels that follow from a type's name and from its cpu and memory as written."""
    sized = _SIZED_NAME.fullmatch(name)
    family = re.split(r"[.-]", name, maxsplit=1)[0] if re.search(r"[.-]", name) else name[:1]
    return {
        INSTANCE_FAMILY: (family,),
        INSTANCE_SIZE: (sized[1] if sized else cpu,),
        INSTANCE_CPU: (cpu,),
        INSTANCE_MEMORY: (memory,),
    }


def _instance_type(draft: TypeDraft, absent: Labels, interner: Interner) -> InstanceType:
    return InstanceType(
        name=draft.name,
        requirements=interner.requirements({**absent, **_type_labels(draft)}),
        offerings=tuple(_offerings(draft, interner)),
        capacity=MappingProxyType({PODS: DEFAULT_PODS, **draft.capacity}),
        overhead=draft.overhead,
        devices=draft.devices,
    )


def _type_labels(draft: TypeDraft) -> Labels:
    available = [offering.labels for offering in draft.offerings if offering.available]
    every = [offering.labels for offering in draft.offerings]
    return {
        **_union(every),
        **draft.labels,
        **derived_labels(draft.name, draft.cpu, draft.memory),
        INSTANCE_TYPE: (draft.name,),
        ARCH: (draft.architecture,),
        OS: draft.operating_systems,
        **{key: _union(available).get(key, ()) for key in _OF_OFFERINGS},
    }


def _offerings(draft: TypeDraft, interner: Interner) -> Iterable[Offering]:
    """Yield the offerings; an offering lacks a label that only another offering of the type states."""
    absent = dict.fromkeys(sorted({key for offering in draft.offerings for key in offering.labels}), ())
    for offering in draft.offerings:
        labels = {**absent, **offering.labels}
        yield Offering(
            requirements=interner.shared(labels),
            price=offering.price,
            available=offering.available,
            reservation_id=next(iter(labels.get(RESERVATION_ID, ())), ""),
            reservation_capacity=offering.reservation_capacity,
            interruption_rate=offering.interruption_rate,
        )


def _union(sets: Iterable[Labels]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for labels in sets:
        for key, values in labels.items():
            found.setdefault(key, set()).update(values)
    return {key: tuple(sorted(values)) for key, values in found.items()}


def prices(cores: int, memory: int) -> dict[str, float]:
    """Return the price per hour of so many cores and bytes of memory, by capacity type."""
    exact = cores * _PICODOLLARS_PER_CORE + memory
    return {SPOT: 7 * exact / (10 * _PICODOLLARS), ON_DEMAND: exact / _PICODOLLARS}


def _draft(cores: int, family: str, system: str, arch: str) -> TypeDraft:
    memory = cores * GIB_PER_CORE[family] * _GIB
    return TypeDraft(
        name=f"{family}-{cores}x-{arch}-{system}",
        architecture=arch,
        operating_systems=(system,),
        capacity={
            CPU: cores * 1000,
            MEMORY: memory,
            EPHEMERAL_STORAGE: _DISK,
            PODS: min(cores * _PODS_PER_CORE, _MOST_PODS),
        },
        cpu=str(cores),
        memory=render_amount(MEMORY, memory),
        offerings=tuple(
            OfferingDraft(labels={CAPACITY_TYPE: (kind,), ZONE: (zone,)}, price=price)
            for zone in ZONES
            for kind, price in prices(cores, memory).items()
        ),
    )


class Interner:
    """Makes requirements from label values, each of them once."""

    def __init__(self) -> None:
        self._single: dict[tuple[str, tuple[str, ...]], Requirement] = {}
        self._sets: dict[tuple[tuple[str, tuple[str, ...]], ...], Requirements] = {}

    def requirement(self, key: str, values: tuple[str, ...]) -> Requirement:
        """Return that `key` has one of `values`; with none, that it does not exist."""
        found = self._single.get((key, values))
        if found is None:
            found = Requirement(sys.intern(key), frozenset(map(sys.intern, values)))
            self._single[key, values] = found
        return found

    def requirements(self, labels: Mapping[str, tuple[str, ...]]) -> Requirements:
        """Return a new set of shared requirements, for sets that are rarely equal."""
        return Requirements({key: self.requirement(key, values) for key, values in labels.items()})

    def shared(self, labels: Mapping[str, tuple[str, ...]]) -> Requirements:
        """Return a shared set, for sets that are often equal, such as those of offerings."""
        identity = tuple(labels.items())
        found = self._sets.get(identity)
        if found is None:
            found = self._sets[identity] = self.requirements(labels)
        return found
