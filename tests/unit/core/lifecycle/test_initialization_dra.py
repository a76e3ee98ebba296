"""A node whose pods claim devices is complete once its drivers have shown them."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.dra import ResourceSlice
from karpenter.api.labels import REQUESTED_DRA_DRIVERS
from karpenter.api.meta import convert
from karpenter.core.lifecycle.conditions import claim_conditions
from karpenter.core.lifecycle.initialization import initialize
from tests.unit.core.lifecycle.objects import NOW, launched, node


def piece(
    driver: str = "gpu", *, pool: str = "p", generation: int = 1, of: int = 1, on: str | None = "node-1"
) -> ResourceSlice:
    spec = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": of},
        "nodeName": on,
    }
    return convert({"metadata": {"name": f"{driver}-{pool}-{generation}"}, "spec": spec}, ResourceSlice)


def standing(drivers: str, slices: list[ResourceSlice] | None) -> tuple[str, str]:
    """Return status and reason of the initialisation of a node."""
    notes: dict[str, Any] = {"annotations": {REQUESTED_DRA_DRIVERS: drivers}} if drivers else {}
    found = launched(meta=notes, Registered="True", Initialized="Unknown")
    condition_set = initialize(found, [node()], claim_conditions(found, NOW), slices).condition_set
    held = condition_set.get("Initialized")
    assert held is not None
    return held.status, held.reason


LACKING = ("Unknown", "DRADriverPoolsNotPublished")
DONE = ("True", "Initialized")


@pytest.mark.parametrize(
    ("drivers", "slices", "expected"),
    [
        pytest.param("gpu", [piece()], DONE, id="the only slice is there"),
        pytest.param("gpu", [], LACKING, id="nothing is there"),
        pytest.param("gpu", [piece(of=2)], LACKING, id="one of two is there"),
        pytest.param("gpu", [piece(of=2), piece(of=2)], DONE, id="both are there"),
        pytest.param("gpu", [piece(of=0)], LACKING, id="a pool of nothing"),
        pytest.param("gpu", [piece(on="other")], LACKING, id="another node's"),
        pytest.param("gpu", [piece(on=None)], LACKING, id="no node's"),
        pytest.param("gpu", [piece(), piece(generation=2, of=2)], LACKING, id="only the newest counts"),
        pytest.param("gpu", [piece(of=9), piece(pool="q")], DONE, id="one pool is enough"),
        pytest.param("gpu,nic", [piece()], LACKING, id="one driver of two"),
        pytest.param("gpu,nic", [piece(), piece("nic")], DONE, id="both drivers"),
        pytest.param("", [], DONE, id="no devices are asked for"),
        pytest.param("gpu", None, DONE, id="nobody asks for devices here"),
    ],
)
def test_devices(drivers: str, slices: list[ResourceSlice] | None, expected: tuple[str, str]) -> None:
    """Each driver that pods need must have shown one whole pool on the node."""
    assert standing(drivers, slices) == expected
