"""Numbers as other readers of JSON hold them: 64-bit integers, and floats for everything beyond."""

import math


def to_double(value: float) -> float:
    """Return a number as a float; one beyond all floats is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def held(value: float) -> float:
    """Return a number as it is held: an integer if it fits 64 bits, else a float."""
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    return to_double(value)


def is_whole(value: float) -> bool:
    """Say whether a number has no fraction, and is one."""
    return isinstance(value, int) or (math.isfinite(value) and value.is_integer())
