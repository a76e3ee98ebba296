"""Sets of offerings as integers, one bit each, and as arrays of flags."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Bits: TypeAlias = int
Flags: TypeAlias = "NDArray[np.bool_]"


def to_bits(flags: Flags) -> Bits:
    """Return flags as an integer, the first flag in the lowest bit."""
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def to_flags(bits: Bits, length: int) -> Flags:
    """Return the lowest `length` bits as flags."""
    raw = np.frombuffer(bits.to_bytes((length + 7) // 8, "little"), np.uint8)
    return np.unpackbits(raw, count=length, bitorder="little").astype(bool)


def packed(flags: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Return rows of flags as few large words."""
    width = -(-flags.shape[1] // 64) * 64
    wide = np.zeros((len(flags), width), bool)
    wide[:, : flags.shape[1]] = flags
    return np.packbits(wide, axis=1).view(np.uint64)
