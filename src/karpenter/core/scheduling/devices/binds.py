"""
Names for parts of an expression: ``cel.bind(name, value, expression)``, said without it.

The library that evaluates expressions does not know the macro. Binding a name is the same as
looking at a list of one item, ``[value].map(name, expression)[0]``, which it knows.
"""

from __future__ import annotations

import re
from typing import Final

_TOKEN: Final = re.compile(
    r"\b[rR]?'(?:\\.|[^'\\])*'" r'|\b[rR]?"(?:\\.|[^"\\])*"' r"|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"" r"|.",
    re.DOTALL,
)
_BIND: Final = re.compile(r"\bcel\s*\.\s*bind\s*\($")
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
_PARTS: Final = 3


def without_binds(source: str) -> str:
    """Return an expression that says the same without the macro."""
    return _rewrite(_TOKEN.findall(source)) if "bind" in source else source


def _rewrite(tokens: list[str]) -> str:
    said, at = "", 0
    while at < len(tokens):
        said += tokens[at]
        at += 1
        if _BIND.search(said):
            parts, end = _arguments(tokens, at)
            if len(parts) == _PARTS:
                name, value, body = (_rewrite(part) for part in parts)
                said = f"{_BIND.sub('', said)}[{value}].map({name.strip()}, {body})[0]"
                at = end
    return said


def _arguments(tokens: list[str], start: int) -> tuple[list[list[str]], int]:
    """Return the arguments of a call from behind its opening bracket, and where the call ends."""
    parts: list[list[str]] = [[]]
    depth = 0
    for at in range(start, len(tokens)):
        token = tokens[at]
        if token in _OPENING:
            depth += 1
        elif token in _CLOSING:
            if depth == 0:
                return parts, at + 1
            depth -= 1
        elif token == "," and depth == 0:  # noqa: S105  a comma is no password
            parts.append([])
            continue
        parts[-1].append(token)
    return [], start
