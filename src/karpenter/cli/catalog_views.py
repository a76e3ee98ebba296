"""
Catalogues as data and as tables: what ``karpenter catalog`` prints.

Each view is plain data, for JSON and YAML, or text for people. Nothing here reads files
or arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.labels import ARCH, ON_DEMAND, OS, RESERVED, SPOT
from karpenter.cli.output import table
from karpenter.core.model.resources import CPU, MEMORY, PODS, render_amount, render_resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karpenter.core.model.catalog import Catalog, InstanceType, Offering

_NOT_SOLD: Final = "-"
_SOLD_AS: Final = (ON_DEMAND, SPOT, RESERVED)
_HAVE_COLUMNS: Final = frozenset({CPU, MEMORY, PODS, "ephemeral-storage", "vpc.amazonaws.com/pod-eni"})
"""Resources that need no mention among the special ones."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One line about a built-in catalogue."""

    name: str
    types: int
    offerings: int
    zones: int
    about: str


def summary_text(summaries: Iterable[Summary]) -> str:
    """Return the built-in catalogues as a table."""
    rows = [(s.name, f"{s.types:,}", f"{s.offerings:,}", str(s.zones), s.about) for s in summaries]
    return table([("NAME", "TYPES", "OFFERINGS", "ZONES", "ABOUT"), *rows])


def catalog_data(catalog: Catalog) -> list[dict[str, Any]]:
    """Return the types of a catalogue in brief."""
    return [
        {
            "name": kind.name,
            "architecture": _values(kind, ARCH),
            "operatingSystems": _values(kind, OS),
            "capacity": render_resources(kind.capacity),
            "allocatable": render_resources(kind.allocatable),
            "cheapest": [_offering_data(sold) for sold in _cheapest(kind).values()],
        }
        for kind in catalog.types
    ]


def catalog_text(catalog: Catalog) -> str:
    """Return the types of a catalogue as a table, with their lowest prices per hour."""
    heading = ("NAME", "ARCH", "CPU", "MEMORY", "PODS", "ON-DEMAND", "SPOT", "RESERVED", "OTHER")
    return table(_used_columns([heading, *(_row(kind) for kind in catalog.types)]))


def type_data(kind: InstanceType) -> dict[str, Any]:
    """Return everything about one type."""
    ordered = sorted(kind.requirements, key=lambda each: each.key)
    return {
        "name": kind.name,
        "labels": {each.key: sorted(each.values) for each in ordered if each.values},
        "absentLabels": [each.key for each in ordered if not each.values],
        "capacity": render_resources(kind.capacity),
        "overhead": render_resources(kind.overhead),
        "allocatable": render_resources(kind.allocatable),
        "offerings": [_offering_data(sold) for sold in kind.offerings],
    }


def type_text(data: dict[str, Any]) -> str:
    """Return everything about one type as three tables: labels, resources, offerings."""
    labels = [(key, " or ".join(value or '""' for value in values)) for key, values in data["labels"].items()]
    resources = [
        (name, amount, data["overhead"].get(name, "0"), data["allocatable"][name])
        for name, amount in data["capacity"].items()
    ]
    offerings = [
        (
            sold["zone"],
            sold["capacityType"],
            dollars(sold["price"]),
            "yes" if sold["available"] else "no",
            f"{sold['reservation']['id']} ({sold['reservation']['left']} left)"
            if "reservation" in sold
            else "-",
        )
        for sold in data["offerings"]
    ]
    return "\n\n".join(
        (
            data["name"],
            table([("LABEL", "VALUE"), *labels]),
            table([("RESOURCE", "CAPACITY", "OVERHEAD", "ALLOCATABLE"), *resources]),
            table(
                _used_columns([("ZONE", "CAPACITY TYPE", "PRICE/H", "AVAILABLE", "RESERVATION"), *offerings])
            ),
        )
    )


def dollars(price: float) -> str:
    """Return a price with as many digits as it has, but no more than five behind the point."""
    return f"{price:.5f}".rstrip("0").rstrip(".") if price >= 10**-5 or price == 0 else f"{price:.2g}"


def _row(kind: InstanceType) -> Sequence[str]:
    cheapest = _cheapest(kind)
    prices = (dollars(cheapest[way].price) if way in cheapest else _NOT_SOLD for way in _SOLD_AS)
    special = (f"{name} {amount}" for name, amount in kind.capacity.items() if name not in _HAVE_COLUMNS)
    return (
        kind.name,
        ",".join(_values(kind, ARCH)),
        render_amount(CPU, kind.capacity[CPU]),
        render_amount(MEMORY, kind.capacity[MEMORY]),
        str(kind.capacity.get(PODS, 0)),
        *prices,
        ", ".join(special) or _NOT_SOLD,
    )


def _used_columns(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the rows without columns in which no row has anything to say."""
    used = [any(row[i] != _NOT_SOLD for row in rows[1:]) for i in range(len(rows[0]))]
    return [[cell for cell, keep in zip(row, used, strict=True) if keep] for row in rows]


def _cheapest(kind: InstanceType) -> dict[str, Offering]:
    """Return the cheapest offering that can be bought now, by capacity type."""
    best: dict[str, Offering] = {}
    for sold in sorted(kind.available, key=lambda each: each.price):
        best.setdefault(sold.capacity_type, sold)
    return best


def _offering_data(sold: Offering) -> dict[str, Any]:
    data: dict[str, Any] = {
        "zone": sold.zone,
        "capacityType": sold.capacity_type,
        "price": sold.price,
        "available": sold.available,
    }
    if sold.reservation_id:
        data["reservation"] = {"id": sold.reservation_id, "left": sold.reservation_capacity}
    return data


def _values(kind: InstanceType, key: str) -> list[str]:
    return sorted(kind.requirements[key].values)
