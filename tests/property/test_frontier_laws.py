"""Laws of frontiers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from karpenter.core.scheduling.encode.offerings import pareto

rows = st.lists(st.tuples(*[st.integers(0, 6)] * 3), min_size=1, max_size=20)


@given(rows, st.tuples(*[st.integers(0, 7)] * 3))
def test_what_fits_some_row_fits_the_frontier(rooms: list[tuple[int, ...]], load: tuple[int, ...]) -> None:
    """A load fits one of some machines exactly when it fits one of the largest."""
    table, wanted = np.array(rooms, np.int64), np.array(load)

    assert bool((pareto(table) >= wanted).all(axis=1).any()) == bool((table >= wanted).all(axis=1).any())


@given(rows)
def test_no_row_of_a_frontier_exceeds_another(rooms: list[tuple[int, ...]]) -> None:
    """A frontier has no row that could be left out."""
    found = pareto(np.array(rooms, np.int64))

    for position, row in enumerate(found):
        others = np.delete(found, position, axis=0)
        assert not (others >= row).all(axis=1).any()
