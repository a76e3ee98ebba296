"""Sets of offerings as integers and as flags."""

from __future__ import annotations

import numpy as np
import pytest

from karpenter.core.scheduling.encode.offerings import packed, to_bits, to_flags


@pytest.mark.parametrize(
    ("flags", "bits"),
    [
        pytest.param([], 0, id="nothing is zero"),
        pytest.param([True], 1, id="the first flag is the lowest bit"),
        pytest.param([False, True, True], 0b110, id="later flags are higher bits"),
        pytest.param([True] * 8, 255, id="eight flags are one byte"),
        pytest.param([False] * 8 + [True], 1 << 8, id="a ninth flag needs a second byte"),
    ],
)
def test_flags_and_bits(flags: list[bool], bits: int) -> None:
    """A set can be written either way."""
    assert to_bits(np.array(flags, bool)) == bits
    assert to_flags(bits, len(flags)).tolist() == flags


def test_rows_of_flags_are_packed_into_words() -> None:
    """Rows that share a flag share a bit, however many words a row needs."""
    flags = np.zeros((3, 65), bool)
    flags[0, [0, 64]] = flags[1, 64] = flags[2, 5] = True

    words = packed(flags)

    assert words.shape == (3, 2)
    assert (words[0] & words[1]).any()
    assert not (words[0] & words[2]).any()
