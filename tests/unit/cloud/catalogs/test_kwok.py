from __future__ import annotations

import pytest

from karpenter.api.labels import ARCH, CAPACITY_TYPE, OS, ZONE
from karpenter.cloud.catalogs.kwok import kwok_catalog, prices

CATALOG = kwok_catalog()
GIB = 2**30


def test_there_are_144_types_with_8_offerings_each() -> None:
    """Twelve sizes, three shapes, two systems and two architectures, in four zones and two ways."""
    assert len(CATALOG.by_name) == 12 * 3 * 2 * 2
    assert {len(kind.available) for kind in CATALOG.types} == {8}


@pytest.mark.parametrize(
    ("name", "spot", "on_demand"),
    [
        pytest.param("c-1x-amd64-linux", 0.0190032385536, 0.027147483648, id="the smallest"),
        pytest.param("m-256x-arm64-windows", 6.0193162788864, 8.599023255552, id="the largest"),
        pytest.param("s-48x-amd64-windows", 0.9843109011456, 1.406158430208, id="one between"),
    ],
)
def test_prices_are_exact_to_the_last_digit(name: str, spot: float, on_demand: float) -> None:
    """A core costs 2.5 cents, a gigabyte of memory 0.1 cents, and spot 70 % of that."""
    offered = {(sold.capacity_type, sold.price) for sold in CATALOG.by_name[name].offerings}

    assert offered == {("spot", spot), ("on-demand", on_demand)}


def test_spot_is_never_dearer() -> None:
    """Prices follow from the size alone, spot below on-demand."""
    assert prices(4, 16 * GIB) == {"spot": 0.0820259084288, "on-demand": 0.117179869184}


@pytest.mark.parametrize(
    ("name", "cpu", "memory", "pods"),
    [
        pytest.param("c-2x-amd64-linux", 1900, 4 * GIB - 10 * 2**20, 32, id="sixteen pods per core"),
        pytest.param("m-96x-amd64-linux", 95900, 768 * GIB - 10 * 2**20, 1024, id="at most 1024 pods"),
    ],
)
def test_allocatable(name: str, cpu: int, memory: int, pods: int) -> None:
    """A tenth of a core and 10 MiB go to the system."""
    assert dict(CATALOG.by_name[name].allocatable) == {
        "cpu": cpu,
        "memory": memory,
        "pods": pods,
        "ephemeral-storage": 20 * GIB,
    }


def test_labels_follow_from_the_name_and_the_size() -> None:
    """Family, size, cpu and memory are labels, beside what every node has."""
    kind = CATALOG.by_name["m-128x-arm64-windows"]

    assert kind.requirements.without(ZONE, CAPACITY_TYPE).labels() == {
        "node.kubernetes.io/instance-type": "m-128x-arm64-windows",
        ARCH: "arm64",
        OS: "windows",
        "karpenter.kwok.sh/instance-family": "m",
        "karpenter.kwok.sh/instance-size": "128",
        "karpenter.kwok.sh/instance-cpu": "128",
        "karpenter.kwok.sh/instance-memory": "1Ti",
    }


def test_zones_and_capacity_types_are_those_of_the_offerings() -> None:
    """Each type is sold in each of four zones, as spot and on demand."""
    kind = CATALOG.types[0]

    assert kind.requirements[ZONE].values == {"test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"}
    assert kind.requirements[CAPACITY_TYPE].values == {"spot", "on-demand"}


def test_equal_requirements_are_the_same_value() -> None:
    """A thousand offerings share eight sets of requirements."""
    assert len({id(sold.requirements) for kind in CATALOG.types for sold in kind.offerings}) == 8
