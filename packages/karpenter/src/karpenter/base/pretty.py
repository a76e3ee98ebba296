"""
A value in an error sentence: short, on one line, and safe to render; and the name that was probably meant.

Error sentences name the value they refuse, and that value may be anything: a text of
a megabyte, a list nested ten thousand deep, a number too long to print. Rendering
the sentence must never fail itself.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_TEXT_LENGTH = 60
_MAX_INTEGER_BITS = 256


def excerpt(value: object) -> str:
    """Return a printable piece of `value`: quoted text, a number, or what it is in the words of JSON."""
    if isinstance(value, str):
        return repr(value) if len(value) <= _MAX_TEXT_LENGTH else f"{value[:_MAX_TEXT_LENGTH]!r}..."
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        bits = value.bit_length()
        return str(value) if bits <= _MAX_INTEGER_BITS else f"an integer of {bits} bits"
    if isinstance(value, float):
        return repr(value)
    return "a list" if isinstance(value, list | tuple | set | frozenset) else "an object"


def nearest(word: str, known: Iterable[str], *, alike: float = 0.7) -> str:
    """Return the name of `known` that was probably meant, whatever its case; empty if none is near."""
    by_fold = {each.lower(): each for each in known}
    close = difflib.get_close_matches(word.lower(), by_fold, n=1, cutoff=alike)
    return by_fold[close[0]] if close else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that refuses a name: the one that was meant, or those that there are."""
    known = list(known)
    near = nearest(word, known)
    return f"did you mean {near}?" if near else f"there are {', '.join(known)}"
