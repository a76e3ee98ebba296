"""
Text of others, made safe to print.

Names, messages and annotations of a cluster, of a file or of a flight record may hold escape sequences, line
breaks, and controls that change the direction of text. Everything that goes to a terminal goes through one of
these functions, so that no terminal obeys it and no line looks like one of ours.
"""

from __future__ import annotations

import re
from typing import Final

_NOT_ASCII: Final = re.compile(r"[^\x20-\x7e]")
_NOT_LINES: Final = re.compile(r"[^\x20-\x7e\t\n]")
_SPACES: Final = frozenset("\u00a0\u1680\u202f\u205f\u3000") | {chr(code) for code in range(0x2000, 0x200B)}


def printable(text: str) -> str:
    """Return a text of the same length on one line; what does not print is a space."""
    return text if text.isprintable() else _NOT_ASCII.sub(_or_space, text)


def printable_lines(text: str) -> str:
    """Return a text with its line breaks and tabs; everything else that does not print is a space."""
    return _NOT_LINES.sub(_or_space, text)


def escaped(text: str) -> str:
    """Return JSON, or YAML whose odd texts are in double quotes, with escapes for what does not print."""
    return _NOT_LINES.sub(_or_escape, text)


def is_plain(text: str) -> bool:
    """Whether a text has nothing that :func:`escaped` would change."""
    return text.isprintable() or escaped(text) == text


def _or_space(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else " "


def _or_escape(found: re.Match[str]) -> str:
    letter = found[0]
    if letter.isprintable() or letter in _SPACES:
        return letter
    return "".join(f"\\u{int.from_bytes(unit, 'big'):04x}" for unit in _utf16_units(letter))


def _utf16_units(letter: str) -> list[bytes]:
    data = letter.encode("utf-16-be", "surrogatepass")
    return [data[place : place + 2] for place in range(0, len(data), 2)]
