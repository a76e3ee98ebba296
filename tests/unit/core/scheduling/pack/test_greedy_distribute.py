"""Levelling: giving pods to the emptiest first."""

from __future__ import annotations

import numpy as np
import pytest

from karpenter.core.scheduling.pack.one_by_one import distribute_evenly


@pytest.mark.parametrize(
    ("held", "most", "count", "expected"),
    [
        pytest.param([0, 0], [2, 1], 5, [2, 1], id="everything is given when there is too much"),
        pytest.param([3, 0], [9, 9], 2, [0, 2], id="the emptiest comes first"),
        pytest.param([0, 0, 0], [9, 9, 9], 2, [1, 1, 0], id="the first of equals gets the rest"),
        pytest.param([0, 0], [1, 9], 4, [1, 3], id="who is full is passed over"),
        pytest.param([0, 0, 0], [1, 5, 5], 4, [1, 2, 1], id="who is full gets nothing of the rest"),
        pytest.param([5, 1], [9, 9], 6, [1, 5], id="the lowest is raised before the highest"),
        pytest.param([2, 0], [9, 9], 2, [0, 2], id="nothing is left over at an even level"),
        pytest.param([0], [9], 0, [0], id="no pods to distribute"),
    ],
)
def test_level(held: list[int], most: list[int], count: int, expected: list[int]) -> None:
    """Pods go one by one to the claim with the fewest pods that has room, the first of equals."""
    assert distribute_evenly(np.array(held), np.array(most), count).tolist() == expected


def test_inputs_are_left_alone() -> None:
    """What was held, and what there is room for, is not changed."""
    held, most = np.array([0, 0]), np.array([1, 1])

    distribute_evenly(held, most, 7)[0] = 9

    assert (held.tolist(), most.tolist()) == ([0, 0], [1, 1])
