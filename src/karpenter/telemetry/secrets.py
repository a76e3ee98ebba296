"""
Keeping secrets out of logs.

A fact is hidden when its key says that it is a secret, or when its text looks like one: a bearer token, a
signed web token, a private key, an access key, a password in a URL. Better one fact too many hidden than one
secret told. Whoever logs should not have put it there in the first place; this is the net below.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

HIDDEN: Final = "[hidden]"
"""What is written in place of a secret."""

_SECRET_KEY: Final = re.compile(
    r"passw(or)?d|secret|token|authorization|credential|cookie|api[-_]?key|private[-_]?key|access[-_]?key",
    re.IGNORECASE,
)
_SECRET_TEXT: Final = re.compile(
    r"(?P<scheme>\b(?:bearer|basic)\s+)[\w.~+/-]{8,}=*"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|\bk8s-aws-v1\.[\w-]+"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?P<before>://[^\s/:@]*:)[^\s/@]+(?=@)",
    re.IGNORECASE | re.DOTALL,
)
_DEEPEST: Final = 8


def hide(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a log line with every secret replaced."""
    return _hidden_members(facts, _DEEPEST)


def hide_text(text: str) -> str:
    """Return a text with everything that looks like a secret replaced."""
    return _SECRET_TEXT.sub(lambda found: f"{found['scheme'] or found['before'] or ''}{HIDDEN}", text)


def _hidden_members(facts: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
    return {
        key: HIDDEN if _SECRET_KEY.search(str(key)) else _hidden(value, depth) for key, value in facts.items()
    }


def _hidden(value: object, depth: int) -> object:
    match value:
        case None | bool() | int() | float():
            return value
        case bytes() | bytearray() | memoryview():
            return f"[{len(value)} bytes]"
        case Mapping() | list() | tuple() | set() | frozenset() if depth == 0:
            return HIDDEN
        case Mapping():
            return _hidden_members(value, depth - 1)
        case list() | tuple() | set() | frozenset():
            members = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
            return [_hidden(each, depth - 1) for each in members]
        case _:
            return hide_text(str(value))
