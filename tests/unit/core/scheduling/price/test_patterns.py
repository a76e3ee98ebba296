"""Packing by price."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from karpenter.core.scheduling.price import patterns
from karpenter.core.scheduling.price.bound import Market, dual_values
from karpenter.core.scheduling.price.patterns import Packing, pack_by_price
from tests.unit.core.scheduling.price.test_bound import market


def pack(ours: Market, rounds: int = 60, seed: int = 0) -> Packing:
    return pack_by_price(ours, dual_values(ours), rounds=rounds, seed=seed)


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        pytest.param(
            market([(8, (1, 1))], [(1.0, (4, 4)), (9.0, (8, 8))]), {0: 2}, id="two small ones are cheaper"
        ),
        pytest.param(
            market([(8, (1, 1))], [(1.0, (4, 4)), (1.5, (8, 8))]), {1: 1}, id="one large one is cheaper"
        ),
        pytest.param(
            market([(1, (1, 1))], [(1.0, (4, 4)), (1.5, (8, 8))]),
            {0: 1},
            id="a little load takes a little machine",
        ),
        pytest.param(
            market([(4, (4, 1)), (4, (1, 4))], [(1.0, (5, 5)), (0.9, (4, 4))]),
            {0: 4},
            id="pods that complement each other share a machine",
        ),
        pytest.param(
            market([(3, (1, 1))], [(1.0, (4, 4))], caps=[1]),
            {0: 3},
            id="pods that may not share get one each",
        ),
        pytest.param(
            market(
                [(4, (1, 1)), (4, (1, 1))], [(1.0, (4, 4)), (3.0, (4, 4))], fits=[[True, False], [True, True]]
            ),
            {0: 1, 1: 1},
            id="only pods that need the dear machine pay for it",
        ),
        pytest.param(
            market([(9, (8 * 2**30, 1))], [(1.0, (24 * 2**30 - 1, 9))]),
            {0: 5},
            id="a machine that lacks a single byte is too small",
        ),
        pytest.param(
            market([(3, (8 * 2**30, 1))], [(1.0, (24 * 2**30, 9)), (1.1, (25 * 2**30, 9))]),
            {0: 1},
            id="pods may fill a machine to the last byte",
        ),
        pytest.param(
            market([(3, (1, 8 * 2**30))], [(1.0, (9, 24 * 2**30)), (1.1, (9, 25 * 2**30))]),
            {0: 1},
            id="whichever resource bytes are",
        ),
        pytest.param(
            market([(5, (1, 1))], [(0.0, (2, 2))]), {0: 3}, id="what costs nothing is bought as well"
        ),
        pytest.param(
            market([(2, (1, 0, 1)), (1, (1, 1, 1))], [(1.0, (2, 0, 9)), (4.0, (2, 2, 9))]),
            {0: 1, 1: 1},
            id="a resource that a machine lacks does not refuse pods without it",
        ),
    ],
)
def test_purchases(ours: Market, expected: dict[int, int]) -> None:
    """The machines are those that hold the demand for the least money."""
    packed = pack(ours)

    assert Counter(packed.machine.tolist()) == expected
    assert packed.holds.sum(axis=0).tolist() == ours.count.tolist()
    assert packed.cost == pytest.approx(sum(ours.price[machine] * n for machine, n in expected.items()))


def test_a_large_demand_is_bought_in_large_lots() -> None:
    """Thousands of pods are served without going through them one by one."""
    packed = pack(market([(5000, (1, 1)), (3000, (2, 1))], [(1.0, (8, 8)), (1.9, (16, 16))]), rounds=0)

    assert packed.holds.sum(axis=0).tolist() == [5000, 3000]
    assert packed.cost <= 11_000 / 8 * 1.01


def test_very_many_different_pods() -> None:
    """When there are more kinds of pods than are looked at together, the heaviest come first."""
    count = patterns._ITEMS + 30
    items = [(1, (1 + number / count, 1.0)) for number in range(count)]

    packed = pack(market(items, [(1.0, (8, 8)), (2.1, (16, 16))]), rounds=0)

    assert packed.holds.sum(axis=0).tolist() == [1.0] * count


def test_many_resources() -> None:
    """With many resources that matter, they are weighed on a coarser grid."""
    packed = pack(market([(4, (1, 1, 1, 1)), (2, (2, 1, 1, 3))], [(1.0, (4, 4, 4, 6)), (1.1, (8, 4, 4, 4))]))

    assert packed.holds.sum(axis=0).tolist() == [4, 2]


def test_filling_ends_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that takes too many steps to fill is bought as far as it is filled."""
    monkeypatch.setattr(patterns, "_STEPS", 1)

    packed = pack(market([(8, (1, 1))], [(1.0, (4, 4))]), rounds=0)

    assert packed.holds.sum(axis=0).tolist() == [8]


def test_machines_that_take_nothing_are_replaced_by_those_that_do() -> None:
    """When the machines that look best take none of what is left, all of them are tried."""
    ours = market([(40, (1, 1, 0)), (1, (1, 1, 1))], [(1.0, (4, 4, 0)), (50.0, (4, 4, 30))])

    packed = pack(ours, rounds=0)

    assert Counter(packed.machine.tolist())[1] == 1
    assert packed.holds.sum(axis=0).tolist() == [40, 1]


def test_improving_saves_money() -> None:
    """Taking wasteful machines apart finds better ones."""
    rng = np.random.default_rng(35)
    items = [
        (int(rng.integers(1, 7)), (float(rng.integers(1, 6)), float(rng.integers(1, 6)))) for _ in range(12)
    ]
    machines = [(1.0, (10.0, 12.0)), (1.7, (18.0, 16.0)), (0.6, (7.0, 5.0)), (3.1, (40.0, 31.0))]
    ours = market(items, machines)

    plain, improved = pack(ours, rounds=0), pack(ours, rounds=200)

    assert improved.cost < plain.cost
    assert improved.holds.sum(axis=0).tolist() == ours.count.tolist()


def test_a_single_machine_is_left_alone() -> None:
    """There is nothing to rearrange on one machine."""
    assert pack(market([(2, (1, 1))], [(1.0, (4, 4))]), rounds=50).machine.tolist() == [0]
