"""Devices, slices and claims in few words, as manifests spell them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter.api.dra import DeviceClaim, DeviceClassSpec, ResourceSliceSpec
from karpenter.api.labels import ZONE
from karpenter.api.meta import convert
from karpenter.core.model.catalog import AttributeBinding, DeviceName, DeviceTemplates
from karpenter.core.scheduling.dynamicresources.types import ANYWHERE, DeviceInfo, PoolId, read_device

if TYPE_CHECKING:
    from collections.abc import Mapping


DRIVER: Final = "gpu.example.com"
CLASSES: Final = {
    "gpu": convert({"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}, DeviceClassSpec),
    "any": DeviceClassSpec(),
}


def gpu(
    name: str, *, shared: bool = False, consumes_counters: Mapping[str, str] | None = None, **facts: Any
) -> dict[str, Any]:
    """
    Return a device; facts that end in ``_`` are capacities, the others attributes.

    `draws` gives the amount it takes of counters in the set ``set``.
    """
    attributes: dict[str, Any] = {}
    capacity: dict[str, Any] = {}
    for key, value in facts.items():
        if key.endswith("_"):
            capacity[key[:-1]] = value if isinstance(value, dict) else {"value": value}
        else:
            kind = {bool: "bool", int: "int", str: "string"}[type(value)]
            attributes[key] = {kind: value}
    found: dict[str, Any] = {"name": name, "attributes": attributes, "capacity": capacity}
    if shared:
        found["allowMultipleAllocations"] = True
    if consumes_counters:
        amounts = {counter: {"value": amount} for counter, amount in consumes_counters.items()}
        found["consumesCounters"] = [{"counterSet": "set", "counters": amounts}]
    return found


def zones(*names: str) -> dict[str, Any]:
    """Return a selector of nodes in some zones, one alternative each."""
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [name]}]} for name in names]
    return {"nodeSelectorTerms": terms}


def sliced(
    *devices: dict[str, Any], counters: Mapping[str, str] | None = None, **fields: Any
) -> ResourceSliceSpec:
    """Return a slice that all nodes can reach unless `fields` say otherwise."""
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1, **fields.pop("pool", {})}
    plain: dict[str, Any] = {"driver": DRIVER, "pool": pool, "devices": list(devices), **fields}
    if not {"nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"} & fields.keys():
        plain["allNodes"] = True
    if counters:
        amounts = {counter: {"value": amount} for counter, amount in counters.items()}
        plain["sharedCounters"] = [{"name": "set", "counters": amounts}]
    return convert(plain, ResourceSliceSpec)


def templates(
    *devices: dict[str, Any], agree: Mapping[str, list[list[str]]] | None = None, **fields: Any
) -> DeviceTemplates:
    """Return what a machine brings along; `agree` lists, per attribute, devices that will agree on it."""
    bindings = [
        AttributeBinding(attribute, tuple(DeviceName(DRIVER, "pool", name) for name in group))
        for attribute, groups in (agree or {}).items()
        for group in groups
    ]
    return DeviceTemplates((sliced(*devices, **fields),), tuple(bindings))


def device(plain: dict[str, Any], *, template: bool = False) -> DeviceInfo:
    """Return a device that all nodes can reach."""
    return read_device(sliced(plain).devices[0], PoolId(DRIVER, "pool", template), ANYWHERE)


def cel(*expressions: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": expression}} for expression in expressions]


def exactly(
    name: str = "gpu", *selectors: str, count: int = 1, of: str = "gpu", **fields: Any
) -> dict[str, Any]:
    """Return a request for a number of devices."""
    amounts = fields.pop("capacity", None)
    if amounts:
        fields["capacity"] = {"requests": amounts}
    asked = {"deviceClassName": of, "count": count, "selectors": cel(*selectors), **fields}
    return {"name": name, "exactly": asked}


def every(name: str = "gpu", *selectors: str, **fields: Any) -> dict[str, Any]:
    return exactly(name, *selectors, count=0, allocationMode="All", **fields)


def first_of(name: str, *subs: dict[str, Any]) -> dict[str, Any]:
    """Return a request for the first of several things."""
    return {"name": name, "firstAvailable": [{"name": sub["name"], **sub["exactly"]} for sub in subs]}


def asking(*requests: dict[str, Any], same: str = "", among: list[str] | None = None) -> DeviceClaim:
    """Return a claim; devices (`among` some requests) must be the `same` in one attribute."""
    plain: dict[str, Any] = {"requests": list(requests)}
    if same:
        plain["constraints"] = [{"matchAttribute": same, "requests": among or []}]
    return convert(plain, DeviceClaim)


def model(name: str) -> str:
    return f'device.attributes["{DRIVER}"].model == "{name}"'
