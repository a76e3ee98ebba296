"""What is read of a device, and from where it can be reached."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.dra import Device as WireDevice
from karpenter.api.labels import ZONE
from karpenter.api.meta import convert
from karpenter.api.pod import NodeSelector
from karpenter.base.quantity import NANOS
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements
from karpenter.core.scheduling.dynamicresources.types import (
    ANYWHERE,
    NODE_NAME,
    Attribute,
    CounterConsumption,
    DeviceId,
    PoolId,
    RequestPolicy,
    qualified,
    read_device,
    read_node_terms,
)
from tests.unit.core.scheduling.dynamicresources.hardware import DRIVER, device, gpu, zones

POOL = PoolId(DRIVER, "pool")


def test_a_device_is_known_by_driver_pool_and_name() -> None:
    """What a machine will bring along is never taken for what is published under the same name."""
    published, template_device = device(gpu("gpu-0")), device(gpu("gpu-0"), template=True)

    assert (published.id, template_device.id.pool_id) == (
        DeviceId(DRIVER, "pool", "gpu-0"),
        PoolId(DRIVER, "pool", True),
    )
    assert published.id != template_device.id


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param({"int": 3}, ("int", 3), id="a number"),
        pytest.param({"bool": False}, ("bool", False), id="a truth"),
        pytest.param({"string": ""}, ("string", ""), id="a text, even an empty one"),
        pytest.param({"version": "1.0.0"}, ("version", "1.0.0"), id="a version"),
        pytest.param({}, None, id="nothing at all"),
    ],
)
def test_attributes(written: dict[str, Any], expected: Attribute | None) -> None:
    """An attribute has a type and a value, and the driver's domain where it names none."""
    raw = convert({"name": "a", "attributes": {"x": written}}, WireDevice)

    assert read_device(raw, POOL, ANYWHERE).attributes.get(f"{DRIVER}/x") == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("memory", f"{DRIVER}/memory", id="the driver's own"),
        pytest.param("other.example.com/memory", "other.example.com/memory", id="that of another driver"),
    ],
)
def test_domains(name: str, expected: str) -> None:
    """A name without a domain belongs to the driver."""
    assert qualified(name, DRIVER) == expected


def test_capacities_counters_and_taints() -> None:
    """Amounts are exact; a policy says in which portions a capacity is given away."""
    plain = gpu(
        "a",
        shared=True,
        consumes_counters={"slices": "2"},
        memory_={
            "value": "40Gi",
            "requestPolicy": {
                "default": "1Gi",
                "validRange": {"min": "1Gi", "max": "20Gi", "step": "500m"},
            },
        },
        cores_={"value": "8", "requestPolicy": {"default": "1", "validValues": ["4", "1", "2"]}},
        plain_="1",
    )
    found = device(plain | {"taints": [{"key": "broken", "effect": "NoSchedule"}]})
    gib = 2**30 * NANOS

    assert found.capacity[f"{DRIVER}/memory"].policy == RequestPolicy(
        default=gib, least=gib, most=20 * gib, step=NANOS // 2
    )
    assert found.capacity[f"{DRIVER}/cores"].policy == RequestPolicy(
        default=NANOS, values=(NANOS, 2 * NANOS, 4 * NANOS)
    )
    assert found.capacity[f"{DRIVER}/plain"].policy is None
    assert (found.consumes_counters, found.shared) == (
        (CounterConsumption("set", "slices", 2 * NANOS),),
        True,
    )
    assert found.taints[0].key == "broken"


NAMED = {"matchFields": [{"key": NODE_NAME, "operator": "In", "values": ["n1"]}]}


@pytest.mark.parametrize(
    ("name", "selector", "everywhere", "expected"),
    [
        pytest.param("n1", None, None, (Requirements.only(NODE_NAME, frozenset({"n1"})),), id="one node"),
        pytest.param(None, None, True, (NOTHING_REQUIRED,), id="all nodes"),
        pytest.param(None, None, None, (), id="nowhere"),
        pytest.param(
            None,
            zones("a", "b"),
            None,
            (Requirements.only(ZONE, frozenset({"a"})), Requirements.only(ZONE, frozenset({"b"}))),
            id="alternatives of a selector stay alternatives",
        ),
        pytest.param(
            None,
            {"nodeSelectorTerms": [NAMED]},
            None,
            (Requirements.of([requirement(NODE_NAME, "In", ["n1"])]),),
            id="a node by its field",
        ),
        pytest.param(None, {"nodeSelectorTerms": [{}]}, None, (), id="an empty term selects nothing"),
    ],
)
def test_reach(
    name: str | None,
    selector: dict[str, Any] | None,
    everywhere: bool | None,
    expected: tuple[Requirements, ...],
) -> None:
    """A device can be reached from one node, from those that a selector describes, or from all."""
    read = convert(selector, NodeSelector) if selector is not None else None

    assert read_node_terms(name, read, everywhere) == expected
