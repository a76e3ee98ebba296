"""Laws of markets, bounds and packings, held against trying everything."""

from __future__ import annotations

import sys
from itertools import product
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.core.scheduling.price.bound import EQUAL_VALUES, LINEAR_PROGRAM, Market, dual_values, market
from karpenter.core.scheduling.price.patterns import pack_by_price
from tests.property.markets import GIB, Demand, Machine, demands, least_cost, loads

few = settings(max_examples=60, deadline=None)


def market_of(demand: Demand) -> Market:
    return market(demand.items, demand.counts, [demand.template])


def machines_of(found: Market) -> list[Machine]:
    return [
        Machine(tuple(int(x) for x in room), float(price), tuple(bool(x) for x in fits))
        for room, price, fits in zip(found.room, found.price, found.fits, strict=True)
    ]


@few
@given(demands())
def test_what_is_left_out_of_a_market_is_never_needed(demand: Demand) -> None:
    """The cheapest way to serve a demand costs the same without the machines that others beat."""
    assert least_cost(demand, machines_of(market_of(demand))) == pytest.approx(
        least_cost(demand, demand.machines())
    )


@few
@given(demands())
def test_no_purchase_is_cheaper_than_the_bound(demand: Demand) -> None:
    """Whatever is bought for a demand costs at least the bound."""
    found = dual_values(market_of(demand))

    assert found.method == LINEAR_PROGRAM
    assert found.bound <= least_cost(demand, demand.machines()) + 1e-9


@few
@given(demands())
def test_without_the_library_the_bound_holds_too(demand: Demand) -> None:
    """Values that are equal for all machines prove a bound as well, if not a better one."""
    with patch.dict(sys.modules, {"highspy": None}):
        found = dual_values(market_of(demand))

    assert found.method == EQUAL_VALUES
    assert found.bound <= least_cost(demand, demand.machines()) + 1e-9


@few
@given(demands(), st.tuples(st.integers(0, 6), st.integers(0, 6)), st.booleans())
def test_the_bound_holds_however_well_free_room_is_used(
    demand: Demand, room: tuple[int, int], without_library: bool
) -> None:
    """Room that costs nothing may serve any pods that fit into it, and the rest costs at least the bound."""
    free = (room[0] * 1000, room[1] * GIB)
    hidden = {"highspy": None} if without_library else {}
    with patch.dict(sys.modules, hidden):
        found = dual_values(market_of(demand), np.array(free, np.float64))

    served = [tuple(0 for _ in demand.counts), *loads(demand, free, demand.counts)]
    cheapest = min(
        least_cost(demand, demand.machines(), tuple(n - s for n, s in zip(demand.counts, load, strict=True)))
        for load in served
    )
    assert found.bound <= cheapest + 1e-9


@few
@given(demands())
def test_values_never_exceed_prices(demand: Demand) -> None:
    """No machine is worth more than it costs, and no pod more than any machine makes it cost."""
    found, ours = dual_values(market_of(demand)), market_of(demand)

    assert ((found.unit * ours.room).sum(axis=1) <= ours.price * (1 + 1e-9)).all()
    for machine, item in product(range(len(ours.price)), range(len(ours.count))):
        if ours.fits[machine, item]:
            assert found.pod[item] <= ours.want[item] @ found.unit[machine] + 1e-9


@few
@given(demands(), st.integers(0, 3))
def test_packings_by_price_serve_everything(demand: Demand, seed: int) -> None:
    """A packing holds every pod once, on machines that may and can hold them, for no less than the least."""
    ours = market_of(demand)
    proof = dual_values(ours)

    packed = pack_by_price(ours, proof, rounds=10, seed=seed)

    assert packed.holds.sum(axis=0).tolist() == list(demand.counts)
    for load, machine, price in zip(packed.holds, packed.machine.tolist(), packed.price, strict=True):
        assert (load @ ours.want <= ours.room[machine] + 1e-6).all()
        assert ours.fits[machine, load > 0].all()
        assert (load <= ours.cap).all()
        assert price == ours.price[machine]
    assert packed.cost >= max(proof.bound, least_cost(demand, demand.machines())) - 1e-9


@few
@given(demands(), st.integers(0, 3))
def test_packings_are_deterministic(demand: Demand, seed: int) -> None:
    """The same market, values and seed give the same packing."""
    ours = market_of(demand)
    proof = dual_values(ours)

    one, other = (pack_by_price(ours, proof, rounds=10, seed=seed) for _ in range(2))

    assert one.holds.tolist() == other.holds.tolist()
    assert one.machine.tolist() == other.machine.tolist()


@few
@given(demands())
def test_improving_never_costs_more(demand: Demand) -> None:
    """More rounds of improvement only ever save."""
    ours = market_of(demand)
    proof = dual_values(ours)

    none, some = (pack_by_price(ours, proof, rounds=rounds, seed=1) for rounds in (0, 20))

    assert some.cost <= none.cost + 1e-9
