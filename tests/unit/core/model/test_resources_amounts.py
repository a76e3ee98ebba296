"""Amounts that can be counted."""

from __future__ import annotations

import pytest

from karpenter.core.model.resources import LARGEST, cut, impossible, uncountable


@pytest.mark.parametrize(
    ("resources", "sentence"),
    [
        pytest.param({}, "", id="nothing"),
        pytest.param({"cpu": 0, "memory": LARGEST}, "", id="the largest"),
        pytest.param({"cpu": -LARGEST}, "", id="the smallest"),
        pytest.param(
            {"memory": 10**30, "cpu": 1},
            f"resource memory: 1e30 is beyond what can be counted: expected at most {LARGEST}",
            id="too large",
        ),
        pytest.param(
            {"cpu": -(10**30)},
            f"resource cpu: -1e27 is beyond what can be counted: expected at most {LARGEST}",
            id="too small",
        ),
        pytest.param(
            {"b": LARGEST + 1, "a": LARGEST + 1},
            f"resource a: {LARGEST + 1} is beyond what can be counted: expected at most {LARGEST}",
            id="the first by name",
        ),
    ],
)
def test_uncountable(resources: dict[str, int], sentence: str) -> None:
    """The first amount that arrays cannot hold is named."""
    assert uncountable(resources) == sentence


@pytest.mark.parametrize(
    ("resources", "sentence"),
    [
        pytest.param({"cpu": 0}, "", id="nothing is possible"),
        pytest.param(
            {"cpu": -500},
            "resource cpu: -500m is less than nothing: expected 0 or more",
            id="less than nothing",
        ),
        pytest.param(
            {"cpu": 10**30},
            f"resource cpu: 1e27 is beyond what can be counted: expected at most {LARGEST}",
            id="too much",
        ),
    ],
)
def test_impossible(resources: dict[str, int], sentence: str) -> None:
    """Requests are never negative and never beyond 64 bits."""
    assert impossible(resources) == sentence


def test_cut() -> None:
    """Amounts beyond the largest become the largest, on both sides."""
    assert cut({"a": 10**30, "b": -(10**30), "c": 7}) == {"a": LARGEST, "b": -LARGEST, "c": 7}


def test_two_amounts_add_up() -> None:
    """The sum of two amounts still fits into 64 bits."""
    assert LARGEST + LARGEST < 2**63
