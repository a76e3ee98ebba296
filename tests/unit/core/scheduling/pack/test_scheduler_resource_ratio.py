"""Which free room suits a pod best."""

from __future__ import annotations

import numpy as np
import pytest

from karpenter.core.scheduling.pack.scheduler import ResourceRatio

AXIS = ("cpu", "memory", "pods")
FREE = np.array([[8, 2, 8, 4], [8, 16, 2, 4], [50, 50, 50, 50]], np.int64)
ALL = np.arange(4)


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
    assert ResourceRatio(AXIS, FREE, usual=1.0).ordered(ALL, FREE, want).tolist() == best


def test_what_is_usual_is_given() -> None:
    """Where pods usually want eight times as much memory, four times as much is little."""
    assert ResourceRatio(AXIS, FREE, usual=8.0).ordered(ALL, FREE, (1, 4, 1)).tolist() == [3, 0, 2, 1]


def test_machines_that_are_not_asked_for_are_left_out() -> None:
    """Only the machines named are put in order."""
    assert ResourceRatio(AXIS, FREE, usual=1.0).ordered(np.array([3, 1]), FREE, (1, 5, 1)).tolist() == [1, 3]


def test_a_cluster_with_no_machines_at_all() -> None:
    """Nothing is free, and nothing is put in order."""
    nothing, no_nodes = np.zeros((3, 0), np.int64), np.zeros(0, np.int64)

    assert ResourceRatio(AXIS, nothing, usual=1.0).ordered(no_nodes, nothing, (1, 1, 1)).tolist() == []
