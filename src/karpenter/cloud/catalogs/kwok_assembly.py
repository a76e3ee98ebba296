"""
From what a kwok catalogue states about its types to the catalogue itself.

Derives the labels that follow from a type's name and size, fills in the default
overhead and pod limit, and settles which labels each type and each offering lacks:
a label that is stated anywhere in the catalogue is well known, and whoever does not
state it does not have it. Zones and capacity types are those that can be bought now.

Reads no files: :mod:`.kwok_format` does, and :mod:`.kwok` needs none.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from karpenter.api.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, OS, WELL_KNOWN_LABELS, ZONE, domain_of
from karpenter.cloud.catalogs.interning import Interner
from karpenter.core.model.catalog import Catalog, DeviceTemplates, InstanceType, Offering
from karpenter.core.model.resources import CPU, MEMORY, PODS, Resources

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
DEFAULT_PODS: Final = 110

_SIZED_NAME: Final = re.compile(r"\w+\.(nano|micro|small|medium|large|\d*xlarge|metal)")
_SOLD_BY: Final = (ZONE, CAPACITY_TYPE)


class OfferingDraft(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An offering as the catalogue states it."""

    labels: Labels
    price: float
    available: bool = True
    reservation_capacity: int | None = None


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


def assemble(drafts: Iterable[TypeDraft]) -> Catalog:
    """Return the catalogue that the drafts describe."""
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
    sold_now = [offering.labels for offering in draft.offerings if offering.available]
    every = [offering.labels for offering in draft.offerings]
    return {
        **_union(every),
        **draft.labels,
        **derived_labels(draft.name, draft.cpu, draft.memory),
        INSTANCE_TYPE: (draft.name,),
        ARCH: (draft.architecture,),
        OS: draft.operating_systems,
        **{key: _union(sold_now).get(key, ()) for key in _SOLD_BY},
    }


def _offerings(draft: TypeDraft, interner: Interner) -> Iterable[Offering]:
    """Yield the offerings; a label that only a sibling states is one they lack."""
    absent = dict.fromkeys(sorted({key for offering in draft.offerings for key in offering.labels}), ())
    for offering in draft.offerings:
        labels = {**absent, **offering.labels}
        yield Offering(
            requirements=interner.shared(labels),
            price=offering.price,
            available=offering.available,
            reservation_id=next(iter(labels.get(RESERVATION_ID, ())), ""),
            reservation_capacity=offering.reservation_capacity,
        )


def _union(sets: Iterable[Labels]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for labels in sets:
        for key, values in labels.items():
            found.setdefault(key, set()).update(values)
    return {key: tuple(sorted(values)) for key, values in found.items()}
