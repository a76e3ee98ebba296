"""Pods are exchanged between machines until none holds more than its room."""

from __future__ import annotations

import numpy as np
import pytest

from karpenter.core.scheduling.price.whole import Bin, PatternProblem
from karpenter.core.scheduling.proof import exchange as exchange_module
from karpenter.core.scheduling.proof.exchange import STARTS, Exchange, rounded


def begun(given: PatternProblem, holds: list[list[int]], cap: list[list[int]] | None = None) -> Exchange:
    """Return an exchange that begins with the same pods on one machine of each bin in every start."""
    start = np.repeat(np.array(holds)[None], STARTS, axis=0)
    most = np.array([[9] * len(given.count)] * len(given.bins) if cap is None else cap, np.float64)
    return Exchange(given, np.arange(len(given.bins)), start, most, np.random.default_rng(0))


def of_sizes(sizes: list[int], rooms: list[int], items: tuple[int, ...] | None = None) -> PatternProblem:
    """Return one pod of each size and one machine of each room."""
    every = tuple(range(len(sizes))) if items is None else items
    return PatternProblem(
        count=(1,) * len(sizes),
        want=tuple((size,) for size in sizes),
        cap=(1,) * len(sizes),
        bins=tuple(Bin((room,), 1.0, every) for room in rooms),
    )


def test_a_pod_is_given_away() -> None:
    """A pod of 3 goes from a machine of 4 that holds 4 and 3 to one of 5 that holds 2."""
    exchange = begun(of_sizes([4, 3, 2], [4, 5]), [[1, 1, 0], [0, 0, 1]])

    found = exchange.run(2)

    assert found is not None
    assert found.tolist() == [[1, 0, 0], [0, 1, 1]]
    assert exchange.work > 0


def test_the_best_exchange_is_made_in_every_start() -> None:
    """
    The second machine holds 4 and 3 of 4: without the 3 it fits, which the first one takes beside its 2.

    Machines are held against each other in shares of all room. A round counts 60 steps, and in 8 starts 2
    pods are held against 3.
    """
    exchange = begun(of_sizes([2, 4, 3], [5, 4]), [[1, 0, 0], [0, 1, 1]])
    assert exchange._beyond == pytest.approx(np.array([[[2 / 9 - 5 / 9], [7 / 9 - 4 / 9]]] * STARTS))

    assert exchange.run(1) is None

    assert (exchange._holds == [[1, 0, 1], [0, 1, 0]]).all()
    assert (exchange._where == [0, 1, 0]).all()
    assert exchange._beyond == pytest.approx(np.array([[[0.0], [0.0]]] * STARTS))
    assert (exchange._until[:, 2, 1] >= 8).all()
    assert (exchange._until[:, 2, 1] < 16).all()
    assert np.count_nonzero(exchange._until) == STARTS
    assert exchange.work == 60 + STARTS * 2 * 3 // 150


def test_pairs_of_pods_count_as_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each of 8 starts 2 pods are held against 3; if a pair were a step, that would be 48."""
    monkeypatch.setattr(exchange_module, "_PAIRS", 1)
    exchange = begun(of_sizes([2, 4, 3], [5, 4]), [[1, 0, 0], [0, 1, 1]])

    exchange.run(1)

    assert exchange.work == 60 + 48


@pytest.mark.parametrize("over", [0, 1])
def test_the_best_swap_is_made_in_every_start(over: int) -> None:
    """Of 3 and 3 on one machine, and 2 and 2 on the other, one each is swapped, and both stay for a while."""
    given = PatternProblem(
        count=(2, 2), want=((3,), (2,)), cap=(2, 2), bins=(Bin((5,), 1.0, (0, 1)), Bin((5,), 1.0, (0, 1)))
    )
    exchange = begun(given, [[2, 0], [0, 2]] if over == 0 else [[0, 2], [2, 0]])

    assert exchange.run(1) is None

    assert (exchange._holds == [[1, 1], [1, 1]]).all()
    assert exchange._beyond == pytest.approx(np.zeros((STARTS, 2, 1)))
    assert ((exchange._until > 0).sum(axis=(1, 2)) == 2).all()
    assert ((exchange._until[:, :2, over] > 0).sum(axis=1) == 1).all()
    assert ((exchange._until[:, 2:, 1 - over] > 0).sum(axis=1) == 1).all()


def test_two_pods_are_swapped() -> None:
    """Machines of 5 that hold 3 and 3, and 2 and 2, fit after one swap, and after no other move."""
    given = PatternProblem(
        count=(2, 2), want=((3,), (2,)), cap=(2, 2), bins=(Bin((5,), 1.0, (0, 1)), Bin((5,), 1.0, (0, 1)))
    )

    found = begun(given, [[2, 0], [0, 2]]).run(2)

    assert found is not None
    assert found.tolist() == [[1, 1], [1, 1]]


def test_what_fits_is_left_as_it_is() -> None:
    """No round is needed where the pods fit at once."""
    exchange = begun(of_sizes([4, 3], [5, 5]), [[1, 0], [0, 1]])

    found = exchange.run(1)

    assert found is not None
    assert found.tolist() == [[1, 0], [0, 1]]
    assert exchange.work == 0


def test_pods_that_fit_nowhere_are_given_up() -> None:
    """Exchanges end after some rounds; that nothing was found says nothing."""
    assert begun(of_sizes([4, 3, 3], [5, 5]), [[1, 1, 0], [0, 0, 1]]).run(20) is None


@pytest.mark.parametrize(
    ("cap", "fits"),
    [
        pytest.param([[1, 1, 1], [1, 1, 1]], True, id="every pod may use both machines"),
        pytest.param([[1, 1, 1], [1, 0, 1]], False, id="the pod may not use the other machine"),
    ],
)
def test_pods_go_to_machines_that_they_may_use(cap: list[list[int]], *, fits: bool) -> None:
    """Where 3 may not go, neither giving it away nor swapping it helps; 4 and 2 do not fit together."""
    found = begun(of_sizes([4, 3, 2], [4, 5]), [[1, 1, 0], [0, 0, 1]], cap).run(12)

    assert (found is not None) is fits


def test_pods_that_keep_apart_do_not_meet() -> None:
    """A pod is not given to, or swapped with, a machine that holds as many of its kind as may share one."""
    given = PatternProblem(
        count=(2, 2), want=((3,), (2,)), cap=(1, 2), bins=(Bin((4,), 1.0, (0, 1)), Bin((9,), 1.0, (0, 1)))
    )

    exchange = begun(given, [[1, 1], [1, 1]], [[1, 2], [1, 2]])
    found = exchange.run(3)

    assert found is not None
    assert found.tolist() == [[1, 0], [1, 2]]


def test_what_was_moved_does_not_return_at_once() -> None:
    """A pod stays where it went for some rounds, even if that is too much; else it would go to and fro."""
    exchange = begun(of_sizes([4], [3, 3]), [[1], [0]])

    assert exchange.run(6) is None
    assert (exchange._holds[:, 1, 0] == 1).all()
    assert (exchange._until[:, 0, 0] >= 8).all()


def test_shares_are_rounded_near_what_they_are() -> None:
    """What is whole stays; a divided pod goes more often where more of it is, and only where it may."""
    shares = np.array([[2.0, 0.9, 0.0], [1.0, 0.1, 0.5], [0.0, 0.0, 0.5]])
    cap = np.array([[3, 1, 1], [3, 1, 1], [3, 1, 0]], np.float64)
    rng = np.random.default_rng(0)

    found = np.concatenate([rounded(shares, np.array([3, 1, 1]), cap, rng) for _ in range(50)])

    assert (found.sum(axis=1) == [3, 1, 1]).all()
    assert (found[:, :, 0] == [2, 1, 0]).all()
    assert (found[:, 2, 2] == 0).all()
    assert 0.7 < found[:, 0, 1].mean() < 1.0


def test_whole_pods_are_not_divided_again() -> None:
    """Where 2 pods are on a machine and one is half on each of two others, the 2 stay in every start."""
    shares = np.array([[2.0 - 1e-12], [0.5], [0.5]])

    found = rounded(shares, np.array([3]), np.full((3, 1), 3.0), np.random.default_rng(0))

    assert (found[:, 0, 0] == 2).all()
    assert set(found[:, 1, 0].tolist()) == {0, 1}
