"""Who has what, before the run and during it."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.dra import DeviceRequestAllocationResult
from karpenter.api.labels import ZONE
from karpenter.api.meta import convert
from karpenter.base.quantity import NANOS
from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements
from karpenter.core.scheduling.dynamicresources.allocationtracker import (
    AllocationTracker,
    ClaimAllocation,
    ConsumptionTracker,
    DeviceAllocation,
    PriorAllocations,
    prior_allocations,
)
from karpenter.core.scheduling.dynamicresources.types import (
    AllocatedClaim,
    CounterConsumption,
    DeviceId,
    DeviceInfo,
)
from tests.unit.core.scheduling.dynamicresources.hardware import DRIVER, device, gpu

GPU = device(gpu("gpu-0"))
TEMPLATE_DEVICE = device(gpu("gpu-0"), template=True)
SHARED = device(gpu("nic", shared=True, lanes_="10", consumes_counters={"power": "3"}))
LANES = f"{DRIVER}/lanes"
POWER = CounterConsumption("set", "power", 3 * NANOS)


def allocation(of: DeviceInfo, *, lanes: int = 0, **fields: Any) -> DeviceAllocation:
    return DeviceAllocation(
        claim="c", request="r", device=of, consumed_capacity={LANES: lanes} if lanes else {}, **fields
    )


def fresh(prior: PriorAllocations | None = None) -> AllocationTracker:
    return AllocationTracker(prior or PriorAllocations(), {})


@pytest.mark.parametrize(
    ("taken", "at", "expected"),
    [
        pytest.param([], (0, 0), 0, id="nothing taken"),
        pytest.param([(0, 0, 3), (0, 0, 2)], (0, 0), 5, id="what one device set takes adds up"),
        pytest.param([(0, 0, 3), (0, 1, 2)], (0, 1), 2, id="device sets of one bin do not mind each other"),
        pytest.param([(0, 0, 3)], (0, 1), 0, id="a device set that took nothing"),
        pytest.param([(0, 0, 3), (0, 1, 5)], (1, 0), 5, id="other bins see the most of any device set"),
        pytest.param([(0, 0, 3), (1, 0, 4)], (2, 0), 7, id="bins add up"),
        pytest.param([(0, 0, 3), (0, 1, 1), (1, 0, 4)], (0, 1), 5, id="one's own and that of others"),
    ],
)
def test_amounts(taken: list[tuple[int, int, int]], at: tuple[int, int], expected: int) -> None:
    """A bin takes as much as its most demanding device set."""
    consumed = ConsumptionTracker()
    for bin_, device_set, amount in taken:
        consumed.take("x", bin_, device_set, amount)

    assert consumed.used("x", *at) == expected


@pytest.mark.parametrize(
    ("kept", "freed", "left"),
    [
        pytest.param({0, 1}, False, 5, id="nothing is given back"),
        pytest.param({1}, False, 5, id="the most demanding stays"),
        pytest.param({0}, True, 3, id="the most demanding goes"),
        pytest.param(set(), True, 0, id="all go"),
    ],
)
def test_giving_amounts_back(kept: set[int], freed: bool, left: int) -> None:
    """What a bin takes shrinks when its most demanding device set is ruled out."""
    consumed = ConsumptionTracker()
    consumed.take("x", 0, 0, 3)
    consumed.take("x", 0, 1, 5)

    assert (consumed.keep(0, kept), consumed.used("x", 7, 0)) == (freed, left)


def test_what_a_device_set_took_is_known_after_others_were_ruled_out() -> None:
    """The one that stays takes one more, and gives back all of it in the end."""
    consumed = ConsumptionTracker()
    consumed.take("x", 0, 0, 3)
    consumed.take("x", 0, 1, 5)
    consumed.keep(0, {0})
    consumed.take("x", 0, 0, 1)

    assert consumed.used("x", 7, 0) == 4
    assert (consumed.keep(0, set()), consumed.used("x", 7, 0)) == (True, 0)
    assert consumed.keep(0, set()) is False


@pytest.mark.parametrize(
    ("bin_", "device_set", "expected"),
    [
        pytest.param(0, 0, False, id="for the device set that has it"),
        pytest.param(0, 1, True, id="for another device set of the same bin: only one will come true"),
        pytest.param(1, 0, False, id="for another bin"),
    ],
)
def test_a_device_of_ones_own(bin_: int, device_set: int, expected: bool) -> None:
    """A published device is promised to one bin, at most once per device set."""
    tracker = fresh()
    tracker.commit(0, 0, [allocation(GPU)])

    assert tracker.is_free(GPU, bin_, device_set) is expected


@pytest.mark.parametrize(
    ("bin_", "device_set", "expected"),
    [
        pytest.param(0, 0, False, id="for the machine that has given it"),
        pytest.param(0, 1, True, id="for the same claim as another machine"),
        pytest.param(1, 0, True, id="for another machine, which brings its own"),
    ],
)
def test_a_device_that_a_machine_brings_along(bin_: int, device_set: int, expected: bool) -> None:
    """Template devices of the same name are different devices on different machines."""
    tracker = fresh()
    tracker.commit(0, 0, [allocation(TEMPLATE_DEVICE)])

    assert (tracker.is_free(TEMPLATE_DEVICE, bin_, device_set), tracker.is_free(GPU, bin_, device_set)) == (
        expected,
        True,
    )


def test_devices_held_before() -> None:
    """An allocated device is free for no other claim; a shared one can be shared further."""
    prior = PriorAllocations(
        exclusive=frozenset({GPU.id}),
        shared=frozenset({SHARED.id}),
        consumed_capacity={(SHARED.id, LANES): 4},
    )
    tracker = fresh(prior)

    assert (tracker.is_free(GPU, 0, 0), tracker.is_shareable(GPU), tracker.is_shareable(SHARED)) == (
        False,
        False,
        True,
    )
    assert (tracker.capacity_used(SHARED, LANES, 0, 0), tracker.is_consuming(SHARED, 0, 0)) == (4, True)


def test_shares_add_up() -> None:
    """What is gone of a shared device is what was held before, what others took, and one's own."""
    tracker = fresh(PriorAllocations(consumed_capacity={(SHARED.id, LANES): 1}))
    tracker.commit(0, 0, [allocation(SHARED, lanes=2)])
    tracker.commit(0, 1, [allocation(SHARED, lanes=4)])
    tracker.commit(1, 0, [allocation(SHARED, lanes=3), allocation(SHARED, lanes=1)])

    assert [tracker.capacity_used(SHARED, LANES, *at) for at in ((0, 0), (0, 1), (1, 0), (2, 0))] == [
        7,
        9,
        9,
        9,
    ]


def test_a_shared_device_draws_once() -> None:
    """Several shares of one device draw from its pool once per bin and device set."""
    tracker = fresh()
    tracker.commit(0, 0, [allocation(SHARED, lanes=1), allocation(SHARED, lanes=1)])

    assert (tracker.counter_used(SHARED, POWER, 0, 0), tracker.counter_used(SHARED, POWER, 1, 0)) == (
        3 * NANOS,
        3 * NANOS,
    )
    assert (tracker.is_consuming(SHARED, 0, 0), tracker.is_consuming(SHARED, 0, 1)) == (True, False)


def test_counters_of_machines_are_their_own() -> None:
    """What a machine brings along draws from counters that no other machine knows."""
    template_device = device(gpu("nic", consumes_counters={"power": "3"}), template=True)
    tracker = fresh()
    tracker.commit(0, 0, [allocation(template_device)])

    assert [tracker.counter_used(template_device, POWER, *at) for at in ((0, 0), (0, 1), (1, 0))] == [
        3 * NANOS,
        0,
        0,
    ]


def test_counters_drawn_before() -> None:
    """Devices that were held before have drawn already."""
    tracker = AllocationTracker(PriorAllocations(), {(SHARED.id.pool_id, "set", "power"): NANOS})

    assert tracker.counter_used(SHARED, POWER, 0, 0) == NANOS


def test_looking_after_devices_takes_nothing() -> None:
    """A device that is only looked after stays free."""
    tracker = fresh()
    tracker.commit(0, 0, [allocation(GPU, admin=True)])

    assert tracker.is_free(GPU, 1, 0)


@pytest.mark.parametrize(
    ("kept", "free", "version"),
    [
        pytest.param({0, 1}, False, 0, id="all device sets stay"),
        pytest.param({1}, False, 0, id="one device set that has it stays"),
        pytest.param({2}, True, 1, id="no device set that has it stays"),
    ],
)
def test_giving_devices_back(kept: set[int], free: bool, version: int) -> None:
    """A device is free again once no machine that has it can come of the claim."""
    tracker = fresh()
    for device_set in (0, 1):
        tracker.commit(5, device_set, [allocation(GPU)])
    tracker.commit(5, 2, [])
    tracker.keep(5, kept)

    assert (tracker.is_free(GPU, 6, 0), tracker.version) == (free, version)
    assert tracker.device_sets(5) == kept


def test_nothing_to_give_back() -> None:
    """A bin that was promised nothing has nothing to give back."""
    tracker = fresh()
    tracker.keep(5, {0})

    assert (tracker.device_sets(5), tracker.version, tracker.drivers(5)) == (None, 0, [])


def test_shares_and_counters_are_given_back() -> None:
    """Shares and counters follow the device sets that are left."""
    tracker = fresh()
    tracker.commit(0, 0, [allocation(SHARED, lanes=2)])
    tracker.commit(0, 1, [])
    tracker.keep(0, {1})

    assert (
        tracker.capacity_used(SHARED, LANES, 1, 0),
        tracker.counter_used(SHARED, POWER, 1, 0),
        tracker.version,
    ) == (
        0,
        0,
        1,
    )


def test_drivers() -> None:
    """A machine must run the drivers of what it brings along; what is elsewhere runs already."""
    other = device(gpu("x"), template=True)
    tracker = fresh()
    tracker.commit(0, 0, [allocation(GPU), allocation(other)])
    tracker.commit(0, 1, [allocation(GPU)])

    assert (tracker.drivers(0), tracker.drivers(1)) == ([DRIVER], [])
    tracker.keep(0, {1})
    assert tracker.drivers(0) == []


ZONE_A, ZONE_B = (Requirements.only(ZONE, frozenset({zone})) for zone in "ab")
AT_HOME = DeviceInfo(id=DeviceId(DRIVER, "pool", "x"), raw=GPU.raw, node_name="n1")


@pytest.mark.parametrize(
    ("device_sets", "is_node_local", "requirements"),
    [
        pytest.param({0: (allocation(GPU),)}, False, NOTHING_REQUIRED, id="a device for all nodes"),
        pytest.param({0: (allocation(GPU, term=ZONE_A),)}, False, ZONE_A, id="a device of a zone"),
        pytest.param(
            {0: (allocation(TEMPLATE_DEVICE),)}, True, NOTHING_REQUIRED, id="a device of the machine"
        ),
        pytest.param(
            {0: (allocation(GPU),), 1: (allocation(TEMPLATE_DEVICE),)},
            True,
            NOTHING_REQUIRED,
            id="perhaps of the machine",
        ),
        pytest.param({0: (allocation(AT_HOME),)}, True, NOTHING_REQUIRED, id="a device of a node"),
        pytest.param(
            {0: (allocation(GPU, term=ZONE_A),), 1: (allocation(GPU, term=ZONE_B),)},
            False,
            ZONE_A.intersect(ZONE_B),
            id="different zones for different machines",
        ),
    ],
)
def test_who_else_can_use_a_claim(
    device_sets: dict[int, tuple[DeviceAllocation, ...]], is_node_local: bool, requirements: Requirements
) -> None:
    """A claim can be used where its devices can be reached, whatever its machine becomes."""
    claim_allocation = ClaimAllocation(0, device_sets)

    assert (claim_allocation.is_node_local, claim_allocation.requirements) == (is_node_local, requirements)


def test_claims_follow_their_machine() -> None:
    """Once a claim cannot be of the machine any more, others can use it, and may ask again."""
    tracker = fresh()
    for device_set, one in ((0, GPU), (1, TEMPLATE_DEVICE)):
        tracker.commit(0, device_set, [allocation(one)])
    tracker.record_claim("c", 0, {0: (allocation(GPU),), 1: (allocation(TEMPLATE_DEVICE),)}, shared=True)
    prior = tracker.version, tracker.claim_allocations["c"].is_node_local
    tracker.keep(0, {0})

    assert (prior, tracker.version, tracker.claim_allocations["c"].is_node_local) == ((1, True), 2, False)


def result(name: str, **fields: Any) -> DeviceRequestAllocationResult:
    """Return a device that a claim was given."""
    return convert(
        {"driver": DRIVER, "pool": "pool", "device": name, **fields}, DeviceRequestAllocationResult
    )


@pytest.mark.parametrize(
    ("results", "exclusive", "shared", "lanes"),
    [
        pytest.param([result("a")], {"a"}, set(), None, id="a device of one's own"),
        pytest.param([result("a", consumedCapacity={"lanes": "2"})], set(), {"a"}, 2, id="a share"),
        pytest.param([result("a", shareID="s")], set(), {"a"}, None, id="a share of nothing that is counted"),
        pytest.param(
            [result("a", consumedCapacity={"lanes": "2"}), result("a", consumedCapacity={LANES: "3"})],
            set(),
            {"a"},
            5,
            id="shares add up, however their names are written",
        ),
        pytest.param([result("a", adminAccess=True)], set(), set(), None, id="a device that is looked after"),
        pytest.param(
            [result("b", adminAccess=True), result("c"), result("a", consumedCapacity={"lanes": "2"})],
            {"c"},
            {"a"},
            2,
            id="several devices of one claim",
        ),
        pytest.param(
            [result("a", consumedCapacity={"lanes": "?"})],
            {"a"},
            {"a"},
            None,
            id="a share that cannot be read",
        ),
    ],
)
def test_what_was_given_before(
    results: list[DeviceRequestAllocationResult], exclusive: set[str], shared: set[str], lanes: int | None
) -> None:
    """Devices are held alone or in shares."""
    found = prior_allocations([AllocatedClaim(claim="c", results=tuple(results))], frozenset())
    amount = found.consumed_capacity.get((DeviceId(DRIVER, "pool", "a"), LANES))

    assert ({each.name for each in found.exclusive}, {each.name for each in found.shared}) == (
        exclusive,
        shared,
    )
    assert amount == (None if lanes is None else lanes * NANOS)


def test_what_is_let_go() -> None:
    """A claim that is let go holds nothing; what others hold of the same device stays."""
    share = [
        AllocatedClaim(claim=name, results=(result("a", consumedCapacity={"lanes": "2"}),)) for name in "xy"
    ]
    alone = AllocatedClaim(claim="x", results=(result("b"),))
    found = prior_allocations([*share, alone], {"x"})

    assert (found.exclusive, list(found.consumed_capacity.values())) == (frozenset(), [2 * NANOS])
