"""
Reads the catalogue format of the kwok provider: instance types as a JSON list.

Each type has a name, an architecture, operating systems, resources, and offerings with a price and
requirements, as in https://github.com/kubernetes-sigs/karpenter/tree/main/kwok. Some fields are ours and
optional: `overhead` replaces the default of 100m cpu and 10Mi memory, `requirements` states labels that all
offerings of the type share, and `resourceSliceTemplates` states the devices that pods can claim. The page
docs/reference/catalogues.md describes it all.

Reads strictly: every problem of a file is noted at its :class:`FieldPath`, reading goes on, and in the end
:class:`InvalidCatalog` reports all of them. A file with problems is not used at all. What the types amount to
is computed in :mod:`.kwok`; files are found by :mod:`.load`.

A catalog is written in the same format.
"""

from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.dra import ResourceSliceSpec
from karpenter.api.labels import (
    ARCH,
    CAPACITY_TYPE,
    CAPACITY_TYPES,
    INSTANCE_TYPE,
    NORMALIZED_LABELS,
    OS,
    RESERVED,
    ZONE,
)
from karpenter.api.manifests import read_document
from karpenter.api.meta import InvalidObject, convert, to_plain
from karpenter.base.pretty import excerpt
from karpenter.base.quantity import QuantityError, parse_quantity
from karpenter.cloud.catalogs.kwok import (
    DEFAULT_OVERHEAD,
    DERIVED_LABELS,
    RESERVATION_ID,
    Labels,
    OfferingDraft,
    TypeDraft,
    assemble,
)
from karpenter.core.model.catalog import (
    AttributeBinding,
    Catalog,
    DeviceName,
    DeviceTemplates,
    InstanceType,
    Offering,
)
from karpenter.core.model.resources import CPU, LARGEST, render_resources
from karpenter.core.scheduling.dynamicresources.pool import template_pools

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from karpenter.core.model.requirement import Requirement

TEMPLATES: Final = "resourceSliceTemplates"
BINDINGS: Final = "attributeBindings"
DEVICE_FIELDS: Final = frozenset({TEMPLATES, BINDINGS})
_SLICE_FIELDS: Final = frozenset({"driver", "pool", "devices", "sharedCounters"})
_BINDING_FIELDS: Final = frozenset({"attribute", "devices"})
_NAME_FIELDS: Final = ("driver", "pool", "device")
_MIN_DEVICES: Final = 2

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
# AWS publishes the share of spot instances that were interrupted in the last month in bands of five points,
# the last of which is open: https://aws.amazon.com/ec2/spot/instance-advisor/
INTERRUPTION_BANDS: Final[Mapping[str, float]] = {
    "<5%": 0.025,
    "5-10%": 0.075,
    "10-15%": 0.125,
    "15-20%": 0.175,
    ">20%": 0.25,
}
"""Interruptions per month in the middle of each band."""

_OFFERING_FIELDS: Final = frozenset(
    {"Price", "Available", "ReservationCapacity", "InterruptionRate", "Requirements"}
)
_REQUIREMENT_FIELDS: Final = frozenset({"key", "operator", "values"})
_NEEDED_RESOURCES: Final = ("cpu", "memory")

_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LARGEST_PRICE: Final = 10**6  # a thousand times the dearest machine there is; NaN and infinity fail too


class CatalogProblem(msgspec.Struct, frozen=True):
    """A problem: the file, the instance type, the field, and what is allowed there."""

    file: str
    subject: str
    field: str
    problem: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.subject, self.field, self.problem) if part)


class InvalidCatalog(ValueError):  # noqa: N818  reads as what it is: a catalogue that is not valid
    """A catalogue that cannot be used; its text has one line for each problem."""

    def __init__(self, problems: Iterable[CatalogProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class FieldPath(msgspec.Struct, frozen=True, gc=False):
    """
    The path of a field in a catalogue file, where a problem can be noted.

    There is one for every field of a file, and most have no problem, so the text is
    put together only when it is needed.
    """

    noted: list[CatalogProblem]
    file: str
    subject: str = ""
    above: FieldPath | None = None
    key: str | int = ""

    def refuse(self, problem: str) -> None:
        self.noted.append(CatalogProblem(self.file, self.subject, self.path, problem))

    def of(self, subject: str) -> FieldPath:
        """Return the root of the object `subject` in the same file."""
        return FieldPath(self.noted, self.file, subject)

    def at(self, key: str | int) -> FieldPath:
        return FieldPath(self.noted, self.file, self.subject, self, key)

    @property
    def path(self) -> str:
        """The fields and items that lead here, such as ``offerings[0].Price``."""
        if self.above is None:
            return ""
        path = self.above.path
        if isinstance(self.key, int):
            return f"{path}[{self.key}]"
        return f"{path}.{self.key}" if path else self.key


def parse_catalog(text: str, *, file: str) -> Catalog:
    """
    Return the catalogue that `text` states; `file` is what error lines call it.

    Raises:
        InvalidCatalog: with one line for each problem of the text.
    """
    noted: list[CatalogProblem] = []
    path = FieldPath(noted, file)
    drafts = list(_drafts(_decode(text, path), path))
    if noted:
        raise InvalidCatalog(noted)
    return assemble(drafts)


def _decode(text: str, path: FieldPath) -> object:
    """Return the decoded text: JSON, or YAML where the file's name says so."""
    try:
        if path.file.endswith((".yaml", ".yml")):
            return read_document(text, source=path.file)
        return json.loads(text)
    except json.JSONDecodeError as error:
        path.refuse(f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}")
    except InvalidObject as error:
        spot = f" at {error.field}" if error.field else ""
        path.refuse(f"is {error.problem}{spot}")
    except (ValueError, RecursionError) as error:
        path.refuse(f"cannot be read: {' '.join(str(error).split())}")
    raise InvalidCatalog(path.noted)


def _drafts(decoded: object, path: FieldPath) -> Iterator[TypeDraft]:
    names: dict[str, int] = {}
    for index, entry in enumerate(read_list(decoded, path, of="instance type")):
        draft = _type(entry, index, path)
        if draft is None:
            continue
        if draft.name in names:
            first = names[draft.name]
            path.of(f"type {draft.name}").at("name").refuse(
                f"is used twice, by items {first} and {index}; every instance type needs a name of its own"
            )
        if draft.name:
            names.setdefault(draft.name, index)
        yield draft


def _type(entry: object, index: int, path: FieldPath) -> TypeDraft | None:
    name = entry.get("name") if isinstance(entry, dict) else None
    here = path.of(f"type {name}" if isinstance(name, str) and name else f"item {index}")
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


def _capacity(value: object, path: FieldPath) -> dict[str, int]:
    amounts = read_amounts(value, path)
    for name in _NEEDED_RESOURCES:
        if isinstance(value, dict) and name not in value:
            path.at(name).refuse("is missing; every instance type needs a quantity of it")
    return amounts


def _as_written(resources: object, name: str) -> str:
    """Return a quantity in the suffixes it was written in; bad ones are reported with the capacity."""
    try:
        return str(parse_quantity(resources.get(name) if isinstance(resources, dict) else None))
    except QuantityError:
        return ""


def _offerings(value: object, path: FieldPath) -> Iterator[OfferingDraft]:
    for index, item in enumerate(read_list(value, path, of="offering")):
        fields = read_object(item, path.at(index), _OFFERING_FIELDS)
        if fields is not None:
            yield _offering(fields, path.at(index))


def _offering(fields: dict[str, object], path: FieldPath) -> OfferingDraft:
    labels = _labels(fields.get("Requirements"), path.at("Requirements"))
    reserved = bool(labels) and _capacity_type(labels, path.at("Requirements")) == RESERVED
    capacity = fields.get("ReservationCapacity", None if reserved else 0)
    left = read_count(capacity, path.at("ReservationCapacity"))
    if reserved != (RESERVATION_ID in labels):
        path.at("Requirements").refuse(
            f"must name {RESERVATION_ID} if {CAPACITY_TYPE} is {RESERVED}, and only then"
        )
    return OfferingDraft(
        labels=labels,
        price=read_price(fields.get("Price"), path.at("Price")),
        available=read_flag(fields.get("Available", True), path.at("Available")),
        reservation_capacity=left if reserved else None,
        interruption_rate=read_interruption_rate(
            fields.get("InterruptionRate", 0), path.at("InterruptionRate")
        ),
    )


def _capacity_type(labels: Labels, path: FieldPath) -> str:
    """Return the capacity type; check that an offering has one zone and one capacity type."""
    for key in (ZONE, CAPACITY_TYPE, RESERVATION_ID):
        if key not in labels and key != RESERVATION_ID:
            path.refuse(f"must name {key}, with the operator In and one value")
        elif key in labels and (len(labels[key]) != 1 or not labels[key][0]):
            path.refuse(f"must give {key} exactly one value, not {len(labels[key])}: one offering each")
    kind = next(iter(labels.get(CAPACITY_TYPE, ())), "")
    if kind and kind not in CAPACITY_TYPES:
        allowed = ", ".join(sorted(CAPACITY_TYPES))
        path.refuse(f"must give {CAPACITY_TYPE} one of {allowed}, not {excerpt(kind)}")
    return kind


def _labels(value: object, path: FieldPath) -> Labels:
    labels: dict[str, tuple[str, ...]] = {}
    for index, item in enumerate(read_list(value, path, of="requirement")):
        here = path.at(index)
        fields = read_object(item, here, _REQUIREMENT_FIELDS)
        if fields is None:
            continue
        key = read_label_key(fields.get("key"), here.at("key"))
        key = NORMALIZED_LABELS.get(key, key)
        if key in labels:
            here.at("key").refuse(f"{key} is required twice; put all values into one requirement")
        labels[key] = _values(fields, here)
    return labels


def _values(fields: dict[str, object], path: FieldPath) -> tuple[str, ...]:
    operator = fields.get("operator")
    if operator == "In":
        return read_label_values(fields.get("values"), path.at("values"), of="value")
    if operator != "DoesNotExist":
        path.at("operator").refuse(f"must be In or DoesNotExist, not {excerpt(operator)}")
    elif fields.get("values"):
        path.at("values").refuse("must be left out with the operator DoesNotExist")
    return ()


def read_devices(fields: dict[str, object], path: FieldPath) -> DeviceTemplates | None:
    if TEMPLATES not in fields:
        if BINDINGS in fields:
            path.at(BINDINGS).refuse(f"must be left out without {TEMPLATES}")
        return None
    here = path.at(TEMPLATES)
    slices = tuple(_slices(fields[TEMPLATES], here))
    for pool in template_pools(slices):
        if pool.problem:
            here.refuse(f"pool {pool.label}: {pool.problem}")
    known = {DeviceName(each.driver, each.pool.name, one.name) for each in slices for one in each.devices}
    bound = tuple(_bindings(fields[BINDINGS], path.at(BINDINGS), known)) if BINDINGS in fields else ()
    return DeviceTemplates(slices, bound)


def render_devices(devices: DeviceTemplates) -> dict[str, Any]:
    """Return what :func:`read_devices` reads."""
    found: dict[str, Any] = {TEMPLATES: [to_plain(each) for each in devices.slices]}
    if devices.bindings:
        found[BINDINGS] = [
            {
                "attribute": each.attribute,
                "devices": [{name: getattr(one, name) for name in _NAME_FIELDS} for one in each.devices],
            }
            for each in devices.bindings
        ]
    return found


def _slices(value: object, path: FieldPath) -> Iterator[ResourceSliceSpec]:
    for index, item in enumerate(read_list(value, path, of="slice template")):
        here = path.at(index)
        if read_object(item, here, _SLICE_FIELDS) is None:
            continue
        try:
            found = convert(item, ResourceSliceSpec)
        except InvalidObject as error:
            here.refuse(f"{error.field}: {error.problem}" if error.field else error.problem)
            continue
        for name, text in (("driver", found.driver), ("pool.name", found.pool.name)):
            if not text:
                here.at(name).refuse("is missing; devices are known by driver, pool and name")
        yield found


def _bindings(value: object, path: FieldPath, known: set[DeviceName]) -> Iterator[AttributeBinding]:
    for index, item in enumerate(read_list(value, path, of="binding")):
        here = path.at(index)
        fields = read_object(item, here, _BINDING_FIELDS)
        if fields is None:
            continue
        attribute = fields.get("attribute")
        if not isinstance(attribute, str) or "/" not in attribute:
            example = "resource.kubernetes.io/pcieRoot"
            here.at("attribute").refuse(
                f"must be an attribute with its domain, such as {example}, not {excerpt(attribute)}"
            )
        devices = tuple(_names(fields.get("devices"), here.at("devices"), known))
        if len(set(devices)) < _MIN_DEVICES:
            here.at("devices").refuse("must name at least two devices, which will agree")
        yield AttributeBinding(str(attribute), devices)


def _names(value: object, path: FieldPath, known: set[DeviceName]) -> Iterator[DeviceName]:
    for index, item in enumerate(read_list(value, path, of="device")):
        fields = read_object(item, path.at(index), frozenset(_NAME_FIELDS)) or {}
        name = DeviceName(*(str(fields.get(each, "")) for each in _NAME_FIELDS))
        if name not in known:
            path.at(index).refuse("must name the driver, pool and device of a template of this type")
        yield name


def read_object(value: object, path: FieldPath, known: frozenset[str]) -> dict[str, object] | None:
    """Return the fields of an object that are not null; only `known` ones are allowed."""
    if not isinstance(value, dict):
        path.refuse(f"must be an object, not {excerpt(value)}")
        return None
    for key in value:
        if key not in known:
            path.at(str(key)).refuse(f"is not a field here; the fields are {', '.join(sorted(known))}")
    return {str(key): item for key, item in value.items() if item is not None}


def read_list(value: object, path: FieldPath, *, of: str) -> list[object]:
    """Return the items of a list that has at least one."""
    if isinstance(value, list) and value:
        return value
    path.refuse(f"must be a list of at least one {of}")
    return []


def read_flag(value: object, path: FieldPath) -> bool:
    if isinstance(value, bool):
        return value
    path.refuse(f"must be true or false, not {excerpt(value)}")
    return False


def read_count(value: object, path: FieldPath) -> int:
    """Return a whole number of zero or more."""
    if type(value) is int and value >= 0:
        return value
    path.refuse(f"must be a whole number of 0 or more, not {excerpt(value)}")
    return 0


def read_price(value: object, path: FieldPath) -> float:
    """Return a price: a finite number of zero or more."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LARGEST_PRICE:
        return float(value)
    path.refuse(f"must be a number from 0 to a million, not {excerpt(value)}")
    return 0.0


def read_interruption_rate(value: object, path: FieldPath) -> float:
    """Return interruptions per month: a number, or a band in which clouds publish them."""
    if not isinstance(value, str):
        return read_price(value, path)
    band = value.replace(" ", "").replace("\u2013", "-")
    if band not in INTERRUPTION_BANDS:
        path.refuse(f"must be a number or one of {', '.join(INTERRUPTION_BANDS)}, not {excerpt(value)}")
    return INTERRUPTION_BANDS.get(band, 0.0)


def read_amounts(value: object, path: FieldPath) -> dict[str, int]:
    """Return exact amounts by resource name, none of them negative."""
    if not isinstance(value, dict):
        path.refuse(f"must be an object of resource names with quantities, not {excerpt(value)}")
        return {}
    amounts = {}
    for name, written in value.items():
        try:
            quantity = parse_quantity(written)
        except QuantityError as error:
            path.at(name).refuse(str(error))
            continue
        amounts[name] = quantity.milli if name == CPU else quantity.value
        if amounts[name] < 0:
            path.at(name).refuse(f"must be 0 or more, not {excerpt(written)}")
        elif amounts[name] > LARGEST:
            path.at(name).refuse(f"must be at most {LARGEST}, not {excerpt(written)}")
    return amounts


def read_label_key(value: object, path: FieldPath) -> str:
    """Return a label key: an optional domain and a name."""
    if isinstance(value, str):
        domain, slash, name = value.rpartition("/")
        if _NAME.fullmatch(name) and (not slash or _DOMAIN.fullmatch(domain)):
            return value
    path.refuse(f"must be a label key such as topology.kubernetes.io/zone, not {excerpt(value)}")
    return ""


def read_label_value(value: object, path: FieldPath) -> str:
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    path.refuse(
        "must be text of 1 to 63 letters, digits, '-', '_' or '.', "
        f"with a letter or digit at both ends, not {excerpt(value)}"
    )
    return ""


def read_label_values(value: object, path: FieldPath, *, of: str) -> tuple[str, ...]:
    """Return the items of a list of label values, sorted and without repeats; values may be empty."""
    items = enumerate(read_list(value, path, of=of))
    return tuple(sorted({"" if item == "" else read_label_value(item, path.at(i)) for i, item in items}))


_SAID_ELSEWHERE: Final = DERIVED_LABELS | {INSTANCE_TYPE, ARCH, OS, ZONE, CAPACITY_TYPE}


def render_entries(catalog: Catalog) -> list[dict[str, Any]]:
    """Return the catalogue as the plain values that its JSON is made of."""
    stated = {
        requirement.key for kind in catalog.types for requirement in kind.requirements if requirement.values
    }
    return [_rendered_type(kind, stated) for kind in catalog.types]


def render_json(catalog: Catalog) -> Iterator[str]:
    entries = render_entries(catalog)
    yield "["
    for index, entry in enumerate(entries):
        offerings = entry.pop("offerings")
        yield f'{json.dumps(entry)[:-1]}, "offerings": ['
        for number, offering in enumerate(offerings):
            yield f"  {json.dumps(offering)}{',' if number < len(offerings) - 1 else ''}"
        yield "]}," if index < len(entries) - 1 else "]}"
    yield "]"


def _rendered_type(kind: InstanceType, stated: set[str]) -> dict[str, Any]:
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
    entry["offerings"] = [_rendered_offering(offering) for offering in kind.offerings]
    return entry


def _rendered_offering(offering: Offering) -> dict[str, Any]:
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
