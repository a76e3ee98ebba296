"""Which free room suits a pod best."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from karpenter.core.scheduling.pack.existingnode import Nodes, ResourceRatio

if TYPE_CHECKING:
    from numpy.typing import NDArray

AXIS = ("cpu", "memory", "pods")
FREE = np.array([[8, 2, 8, 4], [8, 16, 2, 4], [50, 50, 50, 50]], np.int64)
ALL = np.ones(4, bool)


def nodes(free: NDArray[np.int64] = FREE) -> Nodes:
    """Return nodes with this free room, by resource and node."""
    return Nodes(free.T)


@pytest.mark.parametrize(
    ("want", "best"),
    [
        pytest.param((1, 1, 1), [3, 0, 1, 2], id="as usual: the fullest first"),
        pytest.param((1, 5, 1), [1, 3, 0, 2], id="much memory"),
        pytest.param((5, 1, 1), [2, 3, 0, 1], id="many processors"),
        pytest.param((0, 0, 1), [3, 0, 1, 2], id="nothing"),
    ],
)
def test_a_pod_goes_where_it_makes_up_for_what_leans(want: tuple[int, ...], best: list[int]) -> None:
    """Memory is for those who want memory, processors for those who want processors."""
    assert ResourceRatio(AXIS, nodes(), usual=1.0).ordered(ALL, want).tolist() == best


def test_what_is_usual_is_given() -> None:
    """Where pods usually want eight times as much memory, four times as much is little."""
    assert ResourceRatio(AXIS, nodes(), usual=8.0).ordered(ALL, (1, 4, 1)).tolist() == [3, 0, 2, 1]


def test_machines_that_are_not_asked_for_are_left_out() -> None:
    """Only the machines named are put in order."""
    asked = np.array([False, True, False, True])

    assert ResourceRatio(AXIS, nodes(), usual=1.0).ordered(asked, (1, 5, 1)).tolist() == [1, 3]


def test_a_cluster_with_no_machines_at_all() -> None:
    """Nothing is free, and nothing is put in order."""
    nothing = nodes(np.zeros((3, 0), np.int64))

    assert ResourceRatio(AXIS, nothing, usual=1.0).ordered(np.zeros(0, bool), (1, 1, 1)).tolist() == []


def test_machines_that_take_pods_get_their_new_place_in_the_order() -> None:
    """After every pod the order is the one that a fresh start finds, whatever was taken and overdrawn."""
    rng = np.random.default_rng(7)
    taking = nodes(rng.integers(0, 9, (3, 30)))
    ratio = ResourceRatio(AXIS, taking, usual=1.5)
    every = np.ones(30, bool)
    for _ in range(40):
        for node in rng.integers(0, 30, rng.integers(1, 4)).tolist():
            taking.take(node, rng.integers(0, 3, 3), 1)
        want = tuple(rng.integers(0, 5, 3).tolist())
        surplus = 1.5 * taking.free[0] - taking.free[1]
        wanted = 1.5 * want[0] - want[1]
        worse = (np.abs(surplus - wanted) - np.abs(surplus)) / (abs(wanted) or 1.0)
        fullness = np.maximum((taking.free[:2] / 8).max(axis=0), -1.0)

        assert ratio.ordered(every, want).tolist() == np.lexsort((fullness, np.round(worse * 2))).tolist()
