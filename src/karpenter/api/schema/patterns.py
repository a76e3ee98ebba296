r"""
Regular expressions as Kubernetes reads them: RE2, linear in time, unanchored unless they say so.

Python's own engine is not used for the patterns of schemas: it takes exponential time on some of
them, and reads ``$`` and ``\d`` differently. The engine that comes with the CEL library does not.
"""

from functools import cache, lru_cache
from typing import Any

from karpenter.api.errors import InvalidObject
from karpenter.api.schema.engine import engine

_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": "\\t\\n\\f\\r "}
_LONGEST_KEPT = 512


def matches(pattern: str, text: str) -> bool:
    """
    Say whether `text` contains a match of `pattern`.

    Raises:
        InvalidObject: if the pattern is none.
    """
    if len(text) > _LONGEST_KEPT:
        return _search(pattern, text)
    return _search_kept(pattern, text)


def _search(pattern: str, text: str) -> bool:
    clean = text.encode(errors="replace").decode()  # lone surrogates are not text to anyone else
    try:
        return bool(_program().execute({"text": clean, "pattern": to_ascii_classes(pattern)}))
    except (RuntimeError, ValueError) as error:
        raise InvalidObject(subject="schema", problem=f"{pattern!r} is not a regular expression") from error


@cache
def _program() -> Any:
    return engine().compile("text.matches(pattern)")


_search_kept = lru_cache(maxsize=4096)(_search)


@lru_cache(maxsize=512)
def to_ascii_classes(pattern: str) -> str:
    r"""Spell out ``\d``, ``\w`` and ``\s``, which mean ASCII to RE2 and Unicode to others."""
    spelled: list[str] = []
    in_brackets = False
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            spelled.append(_spell_out(next(characters, ""), in_brackets=in_brackets))
            continue
        if character == "[":
            in_brackets = True
        elif character == "]":
            in_brackets = False
        spelled.append(character)
    return "".join(spelled)


def _spell_out(letter: str, *, in_brackets: bool) -> str:
    known = _CLASSES.get(letter)
    if known is not None:
        return known if in_brackets else f"[{known}]"
    negated = _CLASSES.get(letter.lower())
    if negated is not None and not in_brackets:
        return f"[^{negated}]"
    return f"\\{letter}"
