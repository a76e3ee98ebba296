"""Sets of offerings as integers and as flags."""

from __future__ import annotations

import numpy as np
import pytest

from karpenter.core.scheduling.bits import to_bits, to_flags


@pytest.mark.parametrize(
    ("flags", "bits"),
    [
        pytest.param([], 0, id="nothing is zero"),
        pytest.param([True], 1, id="the first flag is the lowest bit"),
        pytest.param([False, True, True], 0b110, id="later flags are higher bits"),
        pytest.param([False] * 8 + [True], 1 << 8, id="a ninth flag needs a second byte"),
    ],
)
def test_flags_and_bits(flags: list[bool], bits: int) -> None:
    """A set can be written either way."""
    assert to_bits(np.array(flags, bool)) == bits
    assert to_flags(bits, len(flags)).tolist() == flags
