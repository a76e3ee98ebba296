"""
The devices of an instance type, as a catalogue states them.

A template is a slice of a driver as it will look on a machine of the type: the same fields, without
those that say where it is. Attributes that are only known once the machine runs can be bound:
devices that are named together will agree on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter.api.dra import ResourceSliceSpec
from karpenter.api.errors import InvalidObject
from karpenter.api.wire import convert, to_plain
from karpenter.base.excerpt import excerpt
from karpenter.cloud.catalogs.fields import read_list, read_object
from karpenter.core.model.catalog import AttributeBinding, DeviceName, DeviceTemplates
from karpenter.core.scheduling.devices.pools import template_pools

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.cloud.catalogs.problems import Place

TEMPLATES: Final = "resourceSliceTemplates"
BINDINGS: Final = "attributeBindings"
FIELDS: Final = frozenset({TEMPLATES, BINDINGS})
_SLICE_FIELDS: Final = frozenset({"driver", "pool", "devices", "sharedCounters"})
_BINDING_FIELDS: Final = frozenset({"attribute", "devices"})
_NAME_FIELDS: Final = ("driver", "pool", "device")
_FEWEST: Final = 2


def read_devices(fields: dict[str, object], place: Place) -> DeviceTemplates | None:
    """Return the devices that a type states; None when it states none."""
    if TEMPLATES not in fields:
        if BINDINGS in fields:
            place.at(BINDINGS).refuse(f"must be left out without {TEMPLATES}")
        return None
    here = place.at(TEMPLATES)
    slices = tuple(_slices(fields[TEMPLATES], here))
    for pool in template_pools(slices):
        if pool.problem:
            here.refuse(f"pool {pool.label}: {pool.problem}")
    known = {DeviceName(each.driver, each.pool.name, one.name) for each in slices for one in each.devices}
    bound = tuple(_bindings(fields[BINDINGS], place.at(BINDINGS), known)) if BINDINGS in fields else ()
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


def _slices(value: object, place: Place) -> Iterator[ResourceSliceSpec]:
    for index, item in enumerate(read_list(value, place, of="slice template")):
        here = place.at(index)
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


def _bindings(value: object, place: Place, known: set[DeviceName]) -> Iterator[AttributeBinding]:
    for index, item in enumerate(read_list(value, place, of="binding")):
        here = place.at(index)
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
        if len(set(devices)) < _FEWEST:
            here.at("devices").refuse("must name at least two devices, which will agree")
        yield AttributeBinding(str(attribute), devices)


def _names(value: object, place: Place, known: set[DeviceName]) -> Iterator[DeviceName]:
    for index, item in enumerate(read_list(value, place, of="device")):
        fields = read_object(item, place.at(index), frozenset(_NAME_FIELDS)) or {}
        name = DeviceName(*(str(fields.get(each, "")) for each in _NAME_FIELDS))
        if name not in known:
            place.at(index).refuse("must name the driver, pool and device of a template of this type")
        yield name
