"""Devices that draw from one pool, are given away in shares, or must be large enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from karpenter.core.scheduling.dynamicresources.allocationtracker import AllocationTracker, PriorAllocations
from karpenter.core.scheduling.dynamicresources.types import DeviceId
from tests.unit.core.scheduling.dynamicresources.bench import LANES, Bench, pool
from tests.unit.core.scheduling.dynamicresources.hardware import (
    DRIVER,
    asking,
    every,
    exactly,
    first_of,
    gpu,
    model,
    templates,
)

if TYPE_CHECKING:
    from karpenter.api.dra import DeviceClaim

PARTS = [
    gpu("half-0", consumes_counters={"g": "4"}),
    gpu("half-1", consumes_counters={"g": "4"}),
    gpu("quarter", consumes_counters={"g": "2"}),
]


@pytest.mark.parametrize(
    ("total", "claim", "expected"),
    [
        pytest.param("8", asking(exactly(count=2)), ["half-0", "half-1"], id="as much as there is"),
        pytest.param("8", asking(exactly(count=3)), None, id="more than there is"),
        pytest.param(
            "7", asking(exactly(count=2)), ["half-0", "quarter"], id="what is left is too little for the next"
        ),
        pytest.param("10", asking(every()), ["half-0", "half-1", "quarter"], id="all of them"),
        pytest.param("9", asking(every()), None, id="all of them draw too much"),
        pytest.param("0", asking(exactly()), None, id="nothing to draw from"),
        pytest.param(
            "6",
            asking(first_of("r", exactly("x", count=3), exactly("y", count=2)), exactly("s")),
            None,
            id="no alternative leaves enough",
        ),
        pytest.param(
            "6",
            asking(first_of("r", exactly("x", count=3), exactly("y", count=2))),
            ["half-0", "quarter"],
            id="one does",
        ),
    ],
)
@pytest.mark.parametrize(
    "template_device", [pytest.param(False, id="published"), pytest.param(True, id="brought along")]
)
def test_devices_that_draw_from_one_pool(
    total: str, claim: DeviceClaim, expected: list[str] | None, template_device: bool
) -> None:
    """Devices that are parts of one piece draw from the same counters, which never run below nothing."""
    bench = (
        Bench(brings=templates(*PARTS, counters={"g": total}))
        if template_device
        else Bench(pool(*PARTS, counters={"g": total}))
    )

    assert bench.names(claim) == (expected and [name + "*" * template_device for name in expected])


def test_counters_that_were_drawn_before() -> None:
    """What devices held before the run have drawn is gone."""
    bench = Bench(pool(*PARTS, counters={"g": "8"}))
    consumed_counters = {(DeviceId(DRIVER, "pool", "half-0").pool_id, "set", "g"): 4 * 10**9}
    bench.tracker = AllocationTracker(
        PriorAllocations(exclusive=frozenset({DeviceId(DRIVER, "pool", "half-0")})), consumed_counters
    )

    assert (bench.names(asking(exactly())), bench.names(asking(exactly(count=2)))) == (["half-1"], None)


NIC = gpu("nic", shared=True, lanes_="10")


@pytest.mark.parametrize(
    ("used", "claim", "expected"),
    [
        pytest.param(0, asking(exactly(capacity={"lanes": "4"})), [4], id="a share"),
        pytest.param(0, asking(exactly()), [10], id="the whole, unless one asks for less"),
        pytest.param(
            0, asking(exactly(capacity={"lanes": "5"}, count=2)), [5, 5], id="two shares of one device"
        ),
        pytest.param(
            0, asking(exactly(capacity={"lanes": "6"}, count=2)), None, id="two shares that are too large"
        ),
        pytest.param(
            0,
            asking(exactly("x", capacity={"lanes": "7"}), exactly("y", capacity={"lanes": "3"})),
            [7, 3],
            id="shares for two requests",
        ),
        pytest.param(7, asking(exactly(capacity={"lanes": "4"})), None, id="others have too much of it"),
        pytest.param(7, asking(exactly(capacity={"lanes": "3"})), [3], id="others leave just enough"),
        pytest.param(1, asking(exactly()), None, id="the whole is not there any more"),
        pytest.param(
            0, asking(exactly(capacity={"memory": "1"})), None, id="a capacity that it does not have"
        ),
        pytest.param(0, asking(exactly(capacity={"lanes": "11"})), None, id="more than it has"),
        pytest.param(
            9,
            asking(
                first_of("r", exactly("x", capacity={"lanes": "4"}), exactly("y", capacity={"lanes": "1"}))
            ),
            [1],
            id="a smaller share if the larger one is not there",
        ),
        pytest.param(0, asking(every(capacity={"lanes": "2"})), [2], id="a share of all devices"),
        pytest.param(
            10, asking(exactly(adminAccess=True)), [None], id="looking after a device that is all given away"
        ),
    ],
)
def test_shares(used: int, claim: DeviceClaim, expected: list[int | None] | None) -> None:
    """A device that can be shared is given away in portions until nothing is left."""
    found = Bench(pool(NIC), shares={"nic": used}).find(claim)
    lanes = found and [g.consumed_capacity.get(LANES) for g in found.allocations]

    assert lanes == (expected and [None if each is None else each * 10**9 for each in expected])


def test_a_shared_device_that_one_claim_has_alone() -> None:
    """A device that was given to one claim as a whole is not shared, whatever it says of itself."""
    bench = Bench(pool(NIC))
    bench.tracker = AllocationTracker(
        PriorAllocations(exclusive=frozenset({DeviceId(DRIVER, "pool", "nic")})), {}
    )

    assert bench.names(asking(exactly(capacity={"lanes": "1"}))) is None


def test_sharing_without_end() -> None:
    """A device without capacities can be shared by any number of claims."""
    bench = Bench(pool(gpu("clock", shared=True)))

    assert bench.names(*[asking(exactly(count=4))] * 5) == ["clock"] * 20


def test_a_shared_part_draws_once() -> None:
    """Several shares of one part draw from the counters of its piece once."""
    part = gpu("part", shared=True, lanes_="4", consumes_counters={"g": "3"})
    share = asking(exactly(capacity={"lanes": "1"}, count=3))

    assert Bench(pool(part, counters={"g": "3"})).names(share) == ["part"] * 3
    assert Bench(pool(part, counters={"g": "2"})).names(share) is None


ODD = [gpu("small", memory_="16Gi"), gpu("large", memory_="80Gi")]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param({"memory": "16Gi"}, ["small"], id="a small one will do"),
        pytest.param({"memory": "17Gi"}, ["large"], id="a large one is needed"),
        pytest.param({"memory": "81Gi"}, None, id="none is large enough"),
        pytest.param({"lanes": "1"}, None, id="none has that at all"),
    ],
)
def test_devices_that_must_be_large_enough(asked: dict[str, str], expected: list[str] | None) -> None:
    """A device of one's own has at least what is asked for."""
    assert Bench(pool(*ODD)).names(asking(exactly(capacity=asked))) == expected


def test_a_device_that_is_shared_draws_once() -> None:
    """Two shares of one device draw 5 of 10 together, which leaves 5 for another device."""
    share = asking(exactly(capacity={"lanes": "1"}))
    other = asking(exactly("gpu", model("other")))
    devices = (
        gpu("a", shared=True, lanes_="4", consumes_counters={"g": "5"}),
        gpu("b", model="other", consumes_counters={"g": "5"}),
    )

    assert Bench(pool(*devices, counters={"g": "10"})).names(share, share, other) == ["a", "a", "b"]
