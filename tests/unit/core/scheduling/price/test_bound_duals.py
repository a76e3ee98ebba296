"""The best values for resources, when there are more machines than a program should hold."""

from __future__ import annotations

import highspy
import numpy as np
import pytest

from karpenter.core.scheduling.price import linear
from karpenter.core.scheduling.price.bound import Market, dual_values
from karpenter.core.scheduling.price.linear import best_values
from tests.unit.core.scheduling.price.test_bound import market


def crowded(seed: int, machines: int = 60, items: int = 20, groups: int = 3) -> Market:
    """Return a market of many machines, of which each item may use about a third."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 64, (machines, 2)).astype(float)
    prices = (sizes @ np.array([0.04, 0.005])) * rng.uniform(0.7, 1.4, machines)
    wants = [(int(rng.integers(1, 40)), tuple(rng.uniform(0.1, 2.0, 2).tolist())) for _ in range(items)]
    allowed = (np.arange(machines)[:, None] % groups) == (np.arange(items)[None] % groups)
    offers = [(float(price), tuple(size.tolist())) for price, size in zip(prices, sizes, strict=True)]
    return market(wants, offers, fits=allowed.tolist())


def test_a_resource_that_no_pod_requests_says_nothing_about_a_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which machines are promising is judged by what is wanted."""
    monkeypatch.setattr(linear, "_MACHINES", 1)
    monkeypatch.setattr(linear, "_EACH", 0)
    ours = market([(4, (1, 0))], [(1.0, (1, 9)), (1.0, (4, 1)), (1.0, (2, 5))])

    assert linear._promising(ours).tolist() == [1]
    assert dual_values(ours).bound == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(6))
def test_a_small_program_proves_as_much_as_the_whole(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beginning with a few machines and letting others join costs no more than a hair of the bound."""
    ours = crowded(seed)
    whole = dual_values(ours).bound
    monkeypatch.setattr(linear, "_MACHINES", 6)
    monkeypatch.setattr(linear, "_EACH", 1)
    monkeypatch.setattr(linear, "_ROUNDS", 9)
    monkeypatch.setattr(linear, "_JOINING", 8)

    small = dual_values(ours).bound

    assert small <= whole * (1 + 1e-6)
    assert small >= whole * 0.98


def test_one_round_is_valid_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines that never join have values of their own, which never exceed their price."""
    ours = crowded(3)
    monkeypatch.setattr(linear, "_MACHINES", 4)
    monkeypatch.setattr(linear, "_ROUNDS", 1)

    found = best_values(ours, highspy)

    assert found is not None
    assert found.unit.shape == ours.room.shape
    assert ((found.unit * ours.room).sum(axis=1) <= ours.price * (1 + 1e-6)).all()
    assert (found.unit.sum(axis=1) > 0).mean() > 0.9


def test_what_was_found_before_is_kept_when_a_program_is_not_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later round that gives no answer leaves the values of the round before."""
    ours, asked = crowded(1), []
    solve = linear._FlowProgram.solve

    def once(program: linear._FlowProgram) -> object:
        asked.append(len(program.machines))
        return solve(program) if len(asked) == 1 else None

    monkeypatch.setattr(linear, "_MACHINES", 4)
    monkeypatch.setattr(linear._FlowProgram, "solve", once)

    assert best_values(ours, highspy) is not None
    assert len(asked) == 2
