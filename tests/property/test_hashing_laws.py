"""Laws of stable hashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from karpenter.base.hashstructure import hash_integer, hash_map, hash_set, hash_struct, hash_text

if TYPE_CHECKING:
    from random import Random

maps = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=5)
hashes = st.integers(0, 2**64 - 1)


@given(st.text(), st.integers(-(2**63), 2**63 - 1), maps, st.lists(hashes))
def test_hashes_have_64_bits(text: str, number: int, entries: dict[str, str], members: list[int]) -> None:
    """Every hash fits an unsigned 64-bit integer, so that it can be a part of another."""
    parts = [hash_text(text), hash_integer(number), hash_map(entries), hash_set(members)]
    whole = hash_struct("Whole", [("Part", part) for part in parts])

    assert all(0 <= part < 2**64 for part in [*parts, whole])


@given(st.lists(hashes), st.randoms(use_true_random=False))
def test_sets_have_no_order(members: list[int], random: Random) -> None:
    """A shuffled set hashes the same."""
    shuffled = list(members)
    random.shuffle(shuffled)

    assert hash_set(shuffled) == hash_set(members)


@given(maps, maps)
def test_maps_hash_alike_when_they_are_equal(left: dict[str, str], right: dict[str, str]) -> None:
    """Equal maps hash alike, and different ones (as far as anyone will see) do not."""
    assert (hash_map(left) == hash_map(right)) == (left == right)
