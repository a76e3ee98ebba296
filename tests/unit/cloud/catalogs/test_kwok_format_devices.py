"""The devices of an instance type, as a catalogue states them."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.cloud.catalogs.kwok_format import InvalidCatalog, parse_catalog, render_json
from karpenter.core.model.catalog import AttributeBinding, DeviceName
from tests.unit.cloud.catalogs.written import entry, parse

ROOT = "resource.kubernetes.io/pcieRoot"


def sliced(*names: str, **fields: Any) -> dict[str, Any]:
    devices = [
        {"name": name, "attributes": {"numa": {"int": 0}}, "capacity": {"memory": {"value": "16Gi"}}}
        for name in names
    ]
    return {"driver": "gpu.example.com", "pool": {"name": "gpus"}, "devices": devices, **fields}


def named(*names: str) -> list[dict[str, str]]:
    return [{"driver": "gpu.example.com", "pool": "gpus", "device": name} for name in names]


def test_types_without_devices() -> None:
    """A type that says nothing about devices has none that are known."""
    assert parse(entry()).types[0].devices is None


def test_types_with_devices() -> None:
    """A type states slices as its driver will publish them, and which devices will agree."""
    bindings = [{"attribute": ROOT, "devices": named("a", "b")}]
    (kind,) = parse(entry(resourceSliceTemplates=[sliced("a", "b")], attributeBindings=bindings)).types

    assert kind.devices is not None
    assert [device.name for device in kind.devices.slices[0].devices] == ["a", "b"]
    names = tuple(DeviceName("gpu.example.com", "gpus", name) for name in "ab")
    assert kind.devices.bindings == (AttributeBinding(ROOT, names),)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"resourceSliceTemplates": [sliced("a")]}, id="devices"),
        pytest.param(
            {
                "resourceSliceTemplates": [
                    sliced("a", "b", sharedCounters=[{"name": "s", "counters": {"c": {"value": "1"}}}])
                ],
                "attributeBindings": [{"attribute": ROOT, "devices": named("a", "b")}],
            },
            id="devices, counters and bindings",
        ),
    ],
)
def test_reading_what_was_written_gives_the_same(fields: dict[str, Any]) -> None:
    """Devices survive being written, for users to edit."""
    catalog = parse(entry(**fields))

    assert parse_catalog("\n".join(render_json(catalog)), file="written.json") == catalog


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param(
            {"resourceSliceTemplates": []},
            "resourceSliceTemplates: must be a list of at least one slice template",
            id="no slices",
        ),
        pytest.param(
            {"resourceSliceTemplates": [7]},
            "resourceSliceTemplates[0]: must be an object, not 7",
            id="a slice that is none",
        ),
        pytest.param(
            {"resourceSliceTemplates": [sliced("a", nodeName="n1")]},
            "resourceSliceTemplates[0].nodeName: is not a field here; "
            "the fields are devices, driver, pool, sharedCounters",
            id="a slice of a node",
        ),
        pytest.param(
            {"resourceSliceTemplates": [sliced() | {"devices": [{}]}]},
            "resourceSliceTemplates[0]: devices[0]: the field name is missing",
            id="a device without a name",
        ),
        pytest.param(
            {"resourceSliceTemplates": [sliced("a") | {"driver": ""}]},
            "resourceSliceTemplates[0].driver: is missing; devices are known by driver, pool and name",
            id="no driver",
        ),
        pytest.param(
            {"resourceSliceTemplates": [sliced("a", "a")]},
            "resourceSliceTemplates: pool gpu.example.com/gpus: there are two devices called a",
            id="a device twice",
        ),
        pytest.param(
            {"attributeBindings": [{"attribute": ROOT, "devices": named("a", "b")}]},
            "attributeBindings: must be left out without resourceSliceTemplates",
            id="bindings of nothing",
        ),
        pytest.param(
            {"resourceSliceTemplates": [sliced("a", "b")], "attributeBindings": [7]},
            "attributeBindings[0]: must be an object, not 7",
            id="a binding that is none",
        ),
        pytest.param(
            {
                "resourceSliceTemplates": [sliced("a", "b")],
                "attributeBindings": [{"attribute": "numa", "devices": named("a", "b")}],
            },
            "attributeBindings[0].attribute: must be an attribute with its domain, "
            "such as resource.kubernetes.io/pcieRoot, not 'numa'",
            id="an attribute without a domain",
        ),
        pytest.param(
            {
                "resourceSliceTemplates": [sliced("a", "b")],
                "attributeBindings": [{"attribute": ROOT, "devices": named("a", "a")}],
            },
            "attributeBindings[0].devices: must name at least two devices, which will agree",
            id="a device that agrees with itself",
        ),
        pytest.param(
            {
                "resourceSliceTemplates": [sliced("a", "b")],
                "attributeBindings": [{"attribute": ROOT, "devices": named("a", "x")}],
            },
            "attributeBindings[0].devices[1]: "
            "must name the driver, pool and device of a template of this type",
            id="a device that is not there",
        ),
    ],
)
def test_refusals(fields: dict[str, Any], expected: str) -> None:
    """What is wrong with devices is said with its place."""
    with pytest.raises(InvalidCatalog) as refused:
        parse(entry(**fields))

    assert str(refused.value).splitlines() == [f"types.json: type small: {expected}"]
