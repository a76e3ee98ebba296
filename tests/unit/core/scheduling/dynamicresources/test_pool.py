"""Pools: the newest generation, whether it is complete, and whether it makes sense."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.dra import ResourceSliceSpec
from karpenter.api.labels import ZONE
from karpenter.api.meta import convert
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.dynamicresources.pool import DevicePool, published_pools, template_pools
from karpenter.core.scheduling.dynamicresources.types import ANYWHERE, NODE_NAME, PoolId
from tests.unit.core.scheduling.dynamicresources.hardware import DRIVER, gpu, sliced, zones


def only(*slices: ResourceSliceSpec) -> DevicePool:
    """Return the only pool of some slices."""
    (found,) = published_pools(slices)
    return found


def of(generation: int, count: int, *names: str) -> ResourceSliceSpec:
    """Return a slice of a generation that says how many slices there are."""
    pool = {"generation": generation, "resourceSliceCount": count}
    return sliced(*(gpu(name) for name in names), pool=pool)


@pytest.mark.parametrize(
    ("slices", "names", "problem"),
    [
        pytest.param([of(1, 1, "a", "b")], ["a", "b"], "", id="one slice"),
        pytest.param([of(1, 2, "a"), of(1, 2, "b")], ["a", "b"], "", id="two slices"),
        pytest.param([of(1, 1, "a"), of(2, 1, "b")], ["b"], "", id="the newest generation counts"),
        pytest.param([of(2, 1, "b"), of(1, 1, "a")], ["b"], "", id="in whichever order they come"),
        pytest.param(
            [of(1, 1, "a"), of(2, 2, "b")],
            ["b"],
            "1 of 2 slices are published",
            id="a new generation half there",
        ),
        pytest.param(
            [of(1, 1, "a"), of(1, 1, "b")], ["a", "b"], "2 of 1 slices are published", id="too many slices"
        ),
        pytest.param([of(1, 0, "a")], ["a"], "1 of 0 slices are published", id="a count that was never set"),
        pytest.param(
            [of(1, 1, "a", "a")], ["a", "a"], "there are two devices called a", id="a name twice in a slice"
        ),
        pytest.param(
            [of(1, 2, "a"), of(1, 2, "a")],
            ["a", "a"],
            "there are two devices called a",
            id="a name in two slices",
        ),
    ],
)
def test_generations(slices: list[ResourceSliceSpec], names: list[str], problem: str) -> None:
    """Only the newest generation counts, and only if all of it is there and no name is used twice."""
    found = only(*slices)

    assert ([device.id.name for device in found.devices], found.problem) == (names, problem)


TWO_SETS = [{"name": "set", "counters": {}}, {"name": "set", "counters": {}}]


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        pytest.param(
            sliced(gpu("a", consumes_counters={"x": "1"}), counters={"x": "1"}),
            "",
            id="a counter that is there",
        ),
        pytest.param(
            sliced(gpu("a", consumes_counters={"y": "1"}), counters={"x": "1"}),
            "device a consumes set/y, which the pool lacks",
            id="a counter that is not there",
        ),
        pytest.param(
            sliced(gpu("a", consumes_counters={"x": "1"})),
            "device a consumes set/x, which the pool lacks",
            id="no counter set",
        ),
        pytest.param(
            sliced(gpu("a"), sharedCounters=TWO_SETS),
            "there are two counter sets called set",
            id="a set twice",
        ),
    ],
)
def test_counters(found: ResourceSliceSpec, problem: str) -> None:
    """A device draws from counters of its own pool; each set has one name."""
    assert only(found).problem == problem


def test_counters_of_another_slice() -> None:
    """The counters of a pool may be in another slice than the devices that draw from them."""
    pool = {"resourceSliceCount": 2}
    counters, devices = (
        sliced(counters={"x": "4"}, pool=pool),
        sliced(gpu("a", consumes_counters={"x": "1"}), pool=pool),
    )

    assert (only(counters, devices).problem, len(only(counters, devices).counters)) == ("", 1)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        pytest.param({"devices": [gpu("a", memory_="lots")]}, "'lots' is not a quantity", id="a capacity"),
        pytest.param(
            {"devices": [gpu("a", consumes_counters={"x": "few"})]}, "'few' is not a quantity", id="a draw"
        ),
        pytest.param(
            {"sharedCounters": [{"name": "set", "counters": {"x": {"value": "some"}}}]},
            "'some' is not a quantity",
            id="a counter",
        ),
        pytest.param(
            {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Is"}]}]}},
            "'Is' is not one of the operators",
            id="a selector",
        ),
    ],
)
def test_slices_that_cannot_be_read(broken: dict[str, Any], says: str) -> None:
    """Nothing is taken from a pool of which something cannot be read."""
    plain = {"driver": DRIVER, "pool": {"name": "p", "resourceSliceCount": 1}, "allNodes": True, **broken}
    found = only(convert(plain, ResourceSliceSpec))

    assert says in found.problem
    assert (found.devices, found.node_terms) == ((), ANYWHERE)


def test_pools_are_told_apart_by_driver_and_name() -> None:
    """Two drivers may use the same pool name, and one driver may have several pools; order is by name."""
    slices = [sliced(gpu("a"), driver=driver, pool={"name": name}) for driver in "ba" for name in "yx"]

    assert [(pool.id.driver, pool.id.pool) for pool in published_pools(slices)] == [
        ("a", "x"),
        ("a", "y"),
        ("b", "x"),
        ("b", "y"),
    ]


N1, ZONE_A = Requirements.only(NODE_NAME, frozenset({"n1"})), Requirements.only(ZONE, frozenset({"a"}))
EACH = [gpu("a") | {"nodeName": "n1"}, gpu("b") | {"nodeSelector": zones("a")}, gpu("c") | {"allNodes": True}]


@pytest.mark.parametrize(
    ("found", "required_terms", "node_names"),
    [
        pytest.param(sliced(gpu("a"), nodeName="n1"), [(N1,)], ["n1"], id="a node"),
        pytest.param(sliced(gpu("a"), nodeSelector=zones("a")), [(ZONE_A,)], [""], id="a selector"),
        pytest.param(sliced(gpu("a")), [ANYWHERE], [""], id="all nodes"),
        pytest.param(
            sliced(*EACH, perDeviceNodeSelection=True),
            [(N1,), (ZONE_A,), ANYWHERE],
            ["n1", "", ""],
            id="each device for itself",
        ),
    ],
)
def test_reach(
    found: ResourceSliceSpec, required_terms: list[tuple[Requirements, ...]], node_names: list[str]
) -> None:
    """A slice, or each of its devices, says from where it can be reached; the pool from where any can."""
    pool = only(found)

    assert (
        [device.node_terms for device in pool.devices],
        [device.node_name for device in pool.devices],
    ) == (
        required_terms,
        node_names,
    )
    assert pool.node_terms == tuple(term for node_terms in required_terms for term in node_terms)


def test_templates_are_complete_and_near() -> None:
    """What a machine brings along is all there, has no generation, and is on the machine itself."""
    (found,) = template_pools([of(0, 0, "a"), of(0, 7, "b")])

    assert (found.id, found.problem, found.label) == (PoolId(DRIVER, "pool", True), "", f"{DRIVER}/pool")
    assert [(device.id.name, device.id.template, device.node_terms) for device in found.devices] == [
        ("a", True, ANYWHERE),
        ("b", True, ANYWHERE),
    ]
