"""Many sizes as few."""

from __future__ import annotations

import numpy as np

from karpenter.core.scheduling.price.linear import size_classes


def found(
    sizes: list[list[float]], most: int, *, kinds: str = "", counts: list[float] | None = None
) -> set[frozenset[int]]:
    weights = np.array(counts or [1.0] * len(sizes))
    answer = size_classes(np.array(sizes), weights, kinds or "x" * len(sizes), most)
    return {frozenset(each.tolist()) for each in answer}


def test_sizes_that_are_close_share_a_cell() -> None:
    """A cell is split where its pods differ most."""
    assert found([[1.0], [9.0], [1.1], [9.2]], 2) == {frozenset({0, 2}), frozenset({1, 3})}


def test_every_resource_counts_by_its_share() -> None:
    """Of bytes and cores, what tells pods apart is the share of the whole demand."""
    sizes = [[1.0, 4e9], [1.0, 1e9], [1.1, 4e9], [1.1, 1e9]]

    assert found(sizes, 2) == {frozenset({0, 2}), frozenset({1, 3})}


def test_many_pods_weigh_more_than_few() -> None:
    """The split spares the many, and lets the few be taken for larger than they are."""
    assert found([[1.0], [2.0], [3.0]], 2, counts=[100.0, 1.0, 1.0]) == {frozenset({0}), frozenset({1, 2})}
    assert found([[1.0], [2.0], [3.0]], 2, counts=[1.0, 100.0, 1.0]) == {frozenset({0, 1}), frozenset({2})}


def test_equal_sizes_are_never_split() -> None:
    """When nothing is wasted there are as few cells as that takes."""
    assert found([[1.0, 0.0], [2.0, 0.0], [1.0, 0.0]], 9) == {frozenset({0, 2}), frozenset({1})}


def test_kinds_stay_apart() -> None:
    """Pods of different kinds are not taken for equal, even if that makes more cells than asked for."""
    assert found([[1.0], [1.0], [1.0]], 1, kinds="aba") == {frozenset({0, 2}), frozenset({1})}
