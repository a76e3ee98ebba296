"""Laws of sets of offerings."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from karpenter.core.scheduling.encode.offerings import to_bits, to_flags


@given(st.lists(st.booleans(), max_size=200))
def test_flags_survive_the_way_through_an_integer(flags: list[bool]) -> None:
    """A set of any size is the same set after it was written as an integer."""
    assert to_flags(to_bits(np.array(flags, bool)), len(flags)).tolist() == flags


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=200))
def test_and_is_intersection(pairs: list[tuple[bool, bool]]) -> None:
    """What two integers have in common is what their sets have in common."""
    one, other = np.array([a for a, _ in pairs], bool), np.array([b for _, b in pairs], bool)

    assert to_bits(one) & to_bits(other) == to_bits(one & other)
