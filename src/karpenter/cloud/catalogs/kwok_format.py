"""
The catalogue format of the kwok provider: instance types as a JSON list.

Each type has a name, an architecture, operating systems, resources, and offerings
with a price and requirements. Some fields are ours and optional: `overhead` replaces
the default of 100m cpu and 10Mi memory, `requirements` states labels that all
offerings of the type share, and the devices that pods can claim are in :mod:`.devices`.
The page docs/reference/catalogues.md describes it all.

Reads strictly: every problem of a file is reported, and a file with problems is not
used at all. What the types amount to is settled in :mod:`.kwok_assembly`; where the
text comes from is the business of :mod:`.load`.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import yaml

from karpenter.api.labels import (
    CAPACITY_TYPE,
    CAPACITY_TYPES,
    NORMALIZED_LABELS,
    RESERVED,
    ZONE,
)
from karpenter.base.excerpt import excerpt
from karpenter.base.quantity import QuantityError, parse_quantity
from karpenter.cloud.catalogs.devices import FIELDS as DEVICE_FIELDS
from karpenter.cloud.catalogs.devices import read_devices
from karpenter.cloud.catalogs.fields import (
    read_amounts,
    read_count,
    read_flag,
    read_label_key,
    read_label_value,
    read_label_values,
    read_list,
    read_object,
    read_price,
)
from karpenter.cloud.catalogs.kwok_assembly import (
    DEFAULT_OVERHEAD,
    RESERVATION_ID,
    OfferingDraft,
    TypeDraft,
    assemble,
)
from karpenter.cloud.catalogs.problems import InvalidCatalog, Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.cloud.catalogs.kwok_assembly import Labels
    from karpenter.cloud.catalogs.problems import Problem
    from karpenter.core.model.catalog import Catalog

_TYPE_FIELDS: Final = frozenset(
    {
        "name",
        "architecture",
        "operatingSystems",
        "resources",
        "overhead",
        "requirements",
        "offerings",
        *DEVICE_FIELDS,
    }
)
_OFFERING_FIELDS: Final = frozenset({"Price", "Available", "ReservationCapacity", "Requirements"})
_REQUIREMENT_FIELDS: Final = frozenset({"key", "operator", "values"})
_NEEDED_RESOURCES: Final = ("cpu", "memory")


def parse_catalog(text: str, *, file: str) -> Catalog:
    """
    Return the catalogue that `text` states; `file` is what error lines call it.

    Raises:
        InvalidCatalog: with one line for each problem of the text.
    """
    noted: list[Problem] = []
    place = Place(noted, file)
    drafts = list(_drafts(_decode(text, place), place))
    if noted:
        raise InvalidCatalog(noted)
    return assemble(drafts)


def _decode(text: str, place: Place) -> object:
    """Return the decoded text: JSON, or YAML where the file's name says so."""
    try:
        if place.file.endswith((".yaml", ".yml")):
            return yaml.safe_load(text)
        return json.loads(text)
    except json.JSONDecodeError as error:
        place.refuse(f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        spot = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        place.refuse(f"is not YAML: {error.problem}{spot}")
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        place.refuse(f"cannot be read: {' '.join(str(error).split())}")
    raise InvalidCatalog(place.noted)


def _drafts(decoded: object, place: Place) -> Iterator[TypeDraft]:
    names: dict[str, int] = {}
    for index, entry in enumerate(read_list(decoded, place, of="instance type")):
        draft = _type(entry, index, place)
        if draft is None:
            continue
        if draft.name in names:
            first = names[draft.name]
            place.of(f"type {draft.name}").at("name").refuse(
                f"is used twice, by items {first} and {index}; every instance type needs a name of its own"
            )
        if draft.name:
            names.setdefault(draft.name, index)
        yield draft


def _type(entry: object, index: int, place: Place) -> TypeDraft | None:
    name = entry.get("name") if isinstance(entry, dict) else None
    here = place.of(f"type {name}" if isinstance(name, str) and name else f"item {index}")
    fields = read_object(entry, here, _TYPE_FIELDS)
    if fields is None:
        return None
    resources = fields.get("resources")
    return TypeDraft(
        name=read_label_value(fields.get("name"), here.at("name")),
        architecture=read_label_value(fields.get("architecture"), here.at("architecture")),
        operating_systems=read_label_values(
            fields.get("operatingSystems"), here.at("operatingSystems"), of="operating system"
        ),
        capacity=MappingProxyType(_capacity(resources, here.at("resources"))),
        cpu=_as_written(resources, "cpu"),
        memory=_as_written(resources, "memory"),
        overhead=(
            MappingProxyType(read_amounts(fields["overhead"], here.at("overhead")))
            if "overhead" in fields
            else DEFAULT_OVERHEAD
        ),
        labels=_labels(fields["requirements"], here.at("requirements")) if "requirements" in fields else {},
        offerings=tuple(_offerings(fields.get("offerings"), here.at("offerings"))),
        devices=read_devices(fields, here),
    )


def _capacity(value: object, place: Place) -> dict[str, int]:
    amounts = read_amounts(value, place)
    for name in _NEEDED_RESOURCES:
        if isinstance(value, dict) and name not in value:
            place.at(name).refuse("is missing; every instance type needs a quantity of it")
    return amounts


def _as_written(resources: object, name: str) -> str:
    """Return a quantity in the suffixes it was written in; bad ones are reported with the capacity."""
    try:
        return str(parse_quantity(resources.get(name) if isinstance(resources, dict) else None))
    except QuantityError:
        return ""


def _offerings(value: object, place: Place) -> Iterator[OfferingDraft]:
    for index, item in enumerate(read_list(value, place, of="offering")):
        fields = read_object(item, place.at(index), _OFFERING_FIELDS)
        if fields is not None:
            yield _offering(fields, place.at(index))


def _offering(fields: dict[str, object], place: Place) -> OfferingDraft:
    labels = _labels(fields.get("Requirements"), place.at("Requirements"))
    reserved = bool(labels) and _sold_as(labels, place.at("Requirements")) == RESERVED
    capacity = fields.get("ReservationCapacity", None if reserved else 0)
    left = read_count(capacity, place.at("ReservationCapacity"))
    if reserved != (RESERVATION_ID in labels):
        place.at("Requirements").refuse(
            f"must name {RESERVATION_ID} if {CAPACITY_TYPE} is {RESERVED}, and only then"
        )
    return OfferingDraft(
        labels=labels,
        price=read_price(fields.get("Price"), place.at("Price")),
        available=read_flag(fields.get("Available", True), place.at("Available")),
        reservation_capacity=left if reserved else None,
    )


def _sold_as(labels: Labels, place: Place) -> str:
    """Return the capacity type, having checked that an offering has one zone and one capacity type."""
    for key in (ZONE, CAPACITY_TYPE, RESERVATION_ID):
        if key not in labels and key != RESERVATION_ID:
            place.refuse(f"must name {key}, with the operator In and one value")
        elif key in labels and (len(labels[key]) != 1 or not labels[key][0]):
            place.refuse(f"must give {key} exactly one value, not {len(labels[key])}: one offering each")
    kind = next(iter(labels.get(CAPACITY_TYPE, ())), "")
    if kind and kind not in CAPACITY_TYPES:
        allowed = ", ".join(sorted(CAPACITY_TYPES))
        place.refuse(f"must give {CAPACITY_TYPE} one of {allowed}, not {excerpt(kind)}")
    return kind


def _labels(value: object, place: Place) -> Labels:
    labels: dict[str, tuple[str, ...]] = {}
    for index, item in enumerate(read_list(value, place, of="requirement")):
        here = place.at(index)
        fields = read_object(item, here, _REQUIREMENT_FIELDS)
        if fields is None:
            continue
        key = read_label_key(fields.get("key"), here.at("key"))
        key = NORMALIZED_LABELS.get(key, key)
        if key in labels:
            here.at("key").refuse(f"{key} is required twice; put all values into one requirement")
        labels[key] = _values(fields, here)
    return labels


def _values(fields: dict[str, object], place: Place) -> tuple[str, ...]:
    operator = fields.get("operator")
    if operator == "In":
        return read_label_values(fields.get("values"), place.at("values"), of="value")
    if operator != "DoesNotExist":
        place.at("operator").refuse(f"must be In or DoesNotExist, not {excerpt(operator)}")
    elif fields.get("values"):
        place.at("values").refuse("must be left out with the operator DoesNotExist")
    return ()
