"""
A value in an error sentence: short, on one line, and safe to render.

Error sentences name the value they refuse, and that value may be anything: a text of
a megabyte, a list nested ten thousand deep, a number too long to print. Rendering
the sentence must never fail itself.
"""

from __future__ import annotations

_LONGEST = 60
_LONGEST_BITS = 256


def excerpt(value: object) -> str:
    """Return a printable piece of `value`: quoted text, a number, or the name of its type."""
    if isinstance(value, str):
        return repr(value) if len(value) <= _LONGEST else f"{value[:_LONGEST]!r}..."
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        bits = value.bit_length()
        return str(value) if bits <= _LONGEST_BITS else f"an integer of {bits} bits"
    if isinstance(value, float):
        return repr(value)
    return f"a value of type {type(value).__name__}"
