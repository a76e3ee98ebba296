"""Levelling, held against handing out one pod at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from karpenter.core.scheduling.pack.one_by_one import distribute_evenly


def one_at_a_time(held: list[int], most: list[int], count: int) -> list[int]:
    """Return what everyone gets when pods are handed out one by one."""
    given_ = [0] * len(held)
    for _ in range(count):
        open_ = [i for i in range(len(held)) if given_[i] < most[i]]
        if not open_:
            break
        given_[min(open_, key=lambda i: held[i] + given_[i])] += 1
    return given_


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9)), min_size=1, max_size=12),
    st.integers(0, 60),
)
def test_levelling_is_handing_out_one_at_a_time(places: list[tuple[int, int]], count: int) -> None:
    """The closed form gives everyone exactly what the loop gives them."""
    held, most = [h for h, _ in places], [m for _, m in places]

    assert distribute_evenly(np.array(held), np.array(most), count).tolist() == one_at_a_time(
        held, most, count
    )
