"""The offerings of one pool as arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest

from karpenter.api.labels import ON_DEMAND, SPOT, ZONE
from karpenter.core.model.requirement import requirement
from karpenter.core.scheduling.encode.offerings import PoolOfferingTable, amounts_of, pareto
from karpenter_local.testing.builders import instance_type, offering

AXIS = ("cpu", "memory", "pods")
SMALL = instance_type("small", cpu=2, memory=4, sold=[offering("zone-1", SPOT, 0.1)])
WIDE = instance_type(
    "wide", cpu=8, memory=4, sold=[offering("zone-1", SPOT, 0.3), offering("zone-2", ON_DEMAND, 0.5)]
)
TALL = instance_type("tall", cpu=2, memory=32, sold=[offering("zone-2", SPOT, 0.2)])
GIB = 2**30


def table() -> PoolOfferingTable:
    """Return a fresh offering table of three types."""
    return PoolOfferingTable((SMALL, WIDE, TALL), AXIS, frozenset())


def test_room_is_what_machines_have_for_pods() -> None:
    """Every type has a row of what it has of each resource on the axis."""
    assert table().room.tolist() == [[2000, 4 * GIB, 110], [8000, 4 * GIB, 110], [2000, 32 * GIB, 110]]


def test_daemons_take_their_share_type_by_type() -> None:
    """What the daemons of a type need is taken off its room only."""
    ours = table()

    ours.reserve([{}, {"cpu": 500, "pods": 1}, {}])

    assert ours.room[:, 0].tolist() == [2000, 7500, 2000]
    assert ours.room[:, 2].tolist() == [110, 109, 110]


def test_an_overdrawn_type_has_no_room_at_all() -> None:
    """A type whose daemons need more than it has of anything takes no pods, however much else is left."""
    ours = table()

    ours.reserve([{"cpu": 2001}, {}, {}])

    assert ours.room[0].tolist() == [-1, -1, -1]


def test_a_type_whose_system_needs_more_than_it_has_takes_nothing() -> None:
    """An amount below zero counts even where no pod requests that resource."""
    broken = instance_type(
        "broken", resources={"ephemeral-storage": 1}, overhead={"ephemeral-storage": 2}, sold=SMALL.offerings
    )
    ours = PoolOfferingTable((broken,), AXIS, frozenset())

    ours.reserve([{}])

    assert ours.room.tolist() == [[-1, -1, -1]]
    assert ours.frontier(ours.everything).tolist() == []


def test_a_type_whose_system_needs_all_that_it_has_of_something_takes_pods() -> None:
    """Nothing that is left of a resource is enough for pods that request none of it."""
    kind = instance_type("even", resources={"gpu": 1}, overhead={"gpu": 1}, sold=SMALL.offerings)
    ours = PoolOfferingTable((kind,), AXIS, frozenset())

    ours.reserve([{"pods": 110}])

    assert ours.room.tolist() == [[4000, 8 * 2**30, 0]]


def test_keeping() -> None:
    """Requirements and wanted types each narrow a set of offerings."""
    ours = table()
    in_zone = ours.keep(ours.everything, [requirement(ZONE, "In", ["zone-2"])])

    assert ours.types_of(in_zone).tolist() == [1, 2]
    assert ours.types_of(ours.keep_types(in_zone, np.array([True, True, False]))).tolist() == [1]
    assert ours.keep(in_zone, [requirement(ZONE, "In", ["zone-1"])]) == 0


def test_the_cheapest_offering_of_a_set() -> None:
    """Nothing at all has no price that anyone could pay."""
    ours = table()

    assert ours.cheapest(ours.everything) == pytest.approx(0.1)
    assert ours.cheapest(ours.matching(requirement(ZONE, "In", ["zone-2"]))) == pytest.approx(0.2)
    assert ours.cheapest(0) == math.inf


def test_labels_are_answered_by_the_offering_table() -> None:
    """Which values a label can have, and whether an offering names it, is known."""
    ours = table()

    assert ours.values(ZONE, ours.everything) == {"zone-1", "zone-2"}
    assert ours.names(ZONE)
    assert not ours.names("example.com/rack")


def test_the_frontier_has_the_largest_rooms_only() -> None:
    """A machine that another one equals or exceeds everywhere says nothing new about what fits."""
    ours = table()

    assert sorted(ours.frontier(ours.everything)[:, :2].tolist()) == [[2000, 32 * GIB], [8000, 4 * GIB]]


def test_amounts() -> None:
    """A resource that a list does not name is zero; names that the axis lacks are left out."""
    assert amounts_of([{"cpu": 3, "gpu": 1}, {}], ("cpu", "memory")).tolist() == [[3, 0], [0, 0]]
    assert amounts_of([], ("cpu", "memory")).shape == (0, 2)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([[1, 1], [2, 2]], [[2, 2]], id="the smaller one goes"),
        pytest.param([[1, 3], [3, 1]], [[1, 3], [3, 1]], id="neither exceeds the other"),
        pytest.param([[2, 2], [2, 2]], [[2, 2]], id="one of equals stays"),
        pytest.param([[10, 0], [5, 1]], [[5, 1], [10, 0]], id="half of one and all of another come first"),
        pytest.param([[0, 0]], [[0, 0]], id="nothing is something when there is nothing else"),
    ],
)
def test_pareto(rows: list[list[int]], expected: list[list[int]]) -> None:
    """Only rows stay that no other row equals or exceeds everywhere, the largest shares first."""
    assert pareto(np.array(rows, np.int64)).tolist() == expected


def test_pareto_of_nothing_is_nothing() -> None:
    """Without rows there is no largest one."""
    assert pareto(np.zeros((0, 2), np.int64)).shape == (0, 2)


def test_offerings_by_capacity_type() -> None:
    """Which offerings are sold a way is worked out once, and cannot be changed by who asks."""
    ours = table()

    assert ours.has_capacity_type(SPOT).tolist() == [True, True, False, True]
    assert ours.has_capacity_type(ON_DEMAND).tolist() == [False, False, True, False]
    assert ours.has_capacity_type(SPOT) is ours.has_capacity_type(SPOT)
    for shared in (ours.has_capacity_type(SPOT), ours.room):
        with pytest.raises(ValueError, match="read-only"):
            shared[0] = 0


def test_a_type_without_some_resource_has_room_for_pods_that_want_none() -> None:
    """None of a resource is no obstacle: the frontier has the types with a GPU and those without."""
    gpu = instance_type("gpu", cpu=2, memory=4, resources={"example.com/gpu": 1}, sold=SMALL.offerings)
    ours = PoolOfferingTable((WIDE, gpu), (*AXIS, "example.com/gpu"), frozenset())

    assert sorted(row[-1] for row in ours.frontier(ours.everything).tolist()) == [0, 1]
