from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from karpenter.core.model.catalog import Catalog, InstanceType, Offering
from karpenter.core.model.requirements import Requirements

if TYPE_CHECKING:
    from collections.abc import Mapping

GIB = 2**30


def offering(*, price: float = 1.0, zone: str = "zone-1", available: bool = True) -> Offering:
    return Offering(
        requirements=Requirements.from_labels(
            {"topology.kubernetes.io/zone": zone, "karpenter.sh/capacity-type": "on-demand"}
        ),
        price=price,
        available=available,
    )


def kind(
    *offerings: Offering,
    name: str = "small",
    capacity: Mapping[str, int] | None = None,
    overhead: Mapping[str, int] | None = None,
) -> InstanceType:
    """Return an instance type of 4 cores unless told otherwise."""
    return InstanceType(
        name=name,
        requirements=Requirements.from_labels({"node.kubernetes.io/instance-type": name}),
        offerings=offerings,
        capacity=capacity or {"cpu": 4000},
        overhead=overhead or {},
    )


def test_an_offering_names_its_zone_and_capacity_type() -> None:
    """Zone and capacity type are read from the requirements, which hold exactly one of each."""
    sold = offering(zone="zone-7")

    assert (sold.zone, sold.capacity_type) == ("zone-7", "on-demand")


@pytest.mark.parametrize(
    ("capacity", "overhead", "expected"),
    [
        pytest.param(
            {"cpu": 4000, "memory": 8 * GIB, "pods": 110},
            {"cpu": 100, "memory": GIB},
            {"cpu": 3900, "memory": 7 * GIB, "pods": 110},
            id="overhead is subtracted and the rest stays",
        ),
        pytest.param({"cpu": 4000}, {"memory": GIB}, {"cpu": 4000}, id="overhead adds no resource"),
        pytest.param({"cpu": 100}, {"cpu": 300}, {"cpu": -200}, id="overhead may exceed the machine"),
        pytest.param(
            {"memory": 8 * GIB, "hugepages-2Mi": 4 * GIB, "hugepages-1Gi": GIB},
            {"memory": GIB},
            {"memory": 2 * GIB, "hugepages-2Mi": 4 * GIB, "hugepages-1Gi": GIB},
            id="huge pages of every size are cut out of memory",
        ),
        pytest.param(
            {"memory": 2 * GIB, "hugepages-2Mi": 4 * GIB},
            {},
            {"memory": 0, "hugepages-2Mi": 4 * GIB},
            id="huge pages leave no negative memory",
        ),
        pytest.param({"hugepages-2Mi": GIB}, {}, {"hugepages-2Mi": GIB}, id="no memory to cut pages from"),
    ],
)
def test_allocatable(capacity: dict[str, int], overhead: dict[str, int], expected: dict[str, int]) -> None:
    """Allocatable is capacity less overhead, and memory gives up its huge pages."""
    assert dict(kind(capacity=capacity, overhead=overhead).allocatable) == expected


def test_allocatable_is_computed_once() -> None:
    """Asking again returns the same value, which cannot be changed."""
    machine = kind()

    assert machine.allocatable is machine.allocatable
    with pytest.raises(TypeError):
        machine.allocatable["cpu"] = 0  # type: ignore[index]  # the very thing that must not work


@pytest.mark.parametrize(
    ("offerings", "expected"),
    [
        pytest.param(
            (offering(price=2), offering(price=1), offering(price=1, zone="z")), 1, id="first of equals"
        ),
        pytest.param(
            (offering(price=1, available=False), offering(price=3)), 1, id="unavailable ones are skipped"
        ),
        pytest.param((offering(available=False),), None, id="none when nothing can be bought"),
    ],
)
def test_cheapest(offerings: tuple[Offering, ...], expected: int | None) -> None:
    """The cheapest offering is one that can be bought now."""
    assert kind(*offerings).cheapest is (None if expected is None else offerings[expected])


def test_available_keeps_the_order() -> None:
    """Only what can be bought is available, in the order of the catalogue."""
    offerings = offering(zone="c"), offering(zone="b", available=False), offering(zone="a")

    assert [sold.zone for sold in kind(*offerings).available] == ["c", "a"]


def test_types_are_found_by_name() -> None:
    """A catalogue looks its types up by name, once."""
    catalog = Catalog(types=(kind(name="small"), kind(name="large")))

    assert catalog.by_name["large"] is catalog.types[1]
    assert catalog.by_name is catalog.by_name


@pytest.mark.parametrize(
    ("key", "restricted"),
    [
        pytest.param("cloud.example/size", False, id="its own well-known labels may be used"),
        pytest.param("cloud.example/other", True, id="the rest of its domain may not"),
        pytest.param("topology.kubernetes.io/zone", False, id="what every provider knows stays well known"),
        pytest.param("karpenter.sh/other", True, id="what every provider restricts stays restricted"),
        pytest.param("team", False, id="a label of the user is free"),
    ],
)
def test_label_rules_add_to_the_rules_of_the_core(key: str, restricted: bool) -> None:
    """A catalogue extends the rules for labels, and takes nothing away from them."""
    catalog = Catalog(
        types=(),
        well_known=frozenset({"cloud.example/size"}),
        restricted_domains=frozenset({"cloud.example"}),
    )

    assert catalog.label_rules.is_restricted(key) is restricted


def test_a_type_as_a_pool_sees_it() -> None:
    """Where NodePools differ each sees its own; one that it may not use it sees as others do."""
    small, own, large = kind(name="small"), kind(offering(), name="small"), kind(name="large")
    catalog = Catalog(types=(small, large), by_pool={"a": (own,), "b": (small, large)})

    assert catalog.find("a", "small") is own
    assert catalog.find("b", "small") is small
    assert catalog.find("a", "large") is large
    assert catalog.find("c", "gone") is None
    assert (catalog.sold("a", "small"), catalog.sold("a", "large")) == (own, None)
