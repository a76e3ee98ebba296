"""Plans and bounds of many small batches are those that are recorded."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.unit.core.scheduling.proof.recorded import ANY, BATCHES, found, recorded


def differences(before: Any, after: Any, path: str = "") -> list[str]:
    """Return where what is found differs from what is recorded by more than rounding errors."""
    if before == ANY:
        return []
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        return [line for key in before for line in differences(before[key], after[key], f"{path}/{key}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [
            line for number, (one, other) in pairs for line in differences(one, other, f"{path}/{number}")
        ]
    numbers = isinstance(before, float) and isinstance(after, float)
    same = math.isclose(before, after, rel_tol=1e-6, abs_tol=1e-6) if numbers else before == after
    return [] if same else [f"{path}: recorded {before}, found {after}"]


@pytest.mark.parametrize("name", BATCHES)
def test_recorded_batch(name: str) -> None:
    """A batch is served by the machines, at the prices and with the bound that are recorded for it."""
    assert differences(recorded()[name], found(name)) == []


def test_nothing_else_is_recorded() -> None:
    """Every batch of the file is one that is solved."""
    assert recorded().keys() == BATCHES.keys()
