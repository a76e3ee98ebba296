"""
Writes a catalogue as JSON that users can edit.

The format is that of :mod:`.kwok_format`, one offering per line. What that format derives by itself is left
out; labels of a type that no offering states go into its `requirements`, and labels that no type has are
stated as absent, so that reading the text gives the same labels again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from karpenter.api.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, OS, ZONE
from karpenter.cloud.catalogs.kwok import DEFAULT_OVERHEAD, DERIVED_LABELS
from karpenter.cloud.catalogs.kwok_format import render_devices
from karpenter.core.model.resources import render_resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karpenter.core.model.catalog import Catalog, InstanceType, Offering
    from karpenter.core.model.requirement import Requirement

_SAID_ELSEWHERE: Final = DERIVED_LABELS | {INSTANCE_TYPE, ARCH, OS, ZONE, CAPACITY_TYPE}


def render_entries(catalog: Catalog) -> list[dict[str, Any]]:
    """Return the catalogue as the plain values that its JSON is made of."""
    stated = {
        requirement.key for kind in catalog.types for requirement in kind.requirements if requirement.values
    }
    return [_type(kind, stated) for kind in catalog.types]


def render_json(catalog: Catalog) -> Iterator[str]:
    """Yield the lines of the catalogue as JSON."""
    entries = render_entries(catalog)
    yield "["
    for index, entry in enumerate(entries):
        offerings = entry.pop("offerings")
        yield f'{json.dumps(entry)[:-1]}, "offerings": ['
        for number, offering in enumerate(offerings):
            yield f"  {json.dumps(offering)}{',' if number < len(offerings) - 1 else ''}"
        yield "]}," if index < len(entries) - 1 else "]}"
    yield "]"


def _type(kind: InstanceType, stated: set[str]) -> dict[str, Any]:
    sold_by = {requirement.key for offering in kind.offerings for requirement in offering.requirements}
    own = [
        requirement
        for requirement in kind.requirements
        if requirement.key not in _SAID_ELSEWHERE | (sold_by & stated)
        and (requirement.values or requirement.key not in stated)
    ]
    entry: dict[str, Any] = {
        "name": kind.name,
        "architecture": min(kind.requirements[ARCH].values),
        "operatingSystems": sorted(kind.requirements[OS].values),
        "resources": render_resources(kind.capacity),
    }
    if kind.overhead != DEFAULT_OVERHEAD:
        entry["overhead"] = render_resources(kind.overhead)
    if own:
        entry["requirements"] = _requirements(own)
    if kind.devices is not None:
        entry |= render_devices(kind.devices)
    entry["offerings"] = [_offering(offering) for offering in kind.offerings]
    return entry


def _offering(offering: Offering) -> dict[str, Any]:
    stated = (requirement for requirement in offering.requirements if requirement.values)
    entry: dict[str, Any] = {"Price": offering.price, "Available": offering.available}
    if offering.reservation_capacity is not None:
        entry["ReservationCapacity"] = offering.reservation_capacity
    if offering.interruption_rate:
        entry["InterruptionRate"] = offering.interruption_rate
    entry["Requirements"] = _requirements(stated)
    return entry


def _requirements(requirements: Iterable[Requirement]) -> list[dict[str, Any]]:
    return [
        {"key": term.key, "operator": term.operator, **({"values": list(term.values)} if term.values else {})}
        for requirement in sorted(requirements, key=lambda each: each.key)
        for term in requirement.terms()
    ]
