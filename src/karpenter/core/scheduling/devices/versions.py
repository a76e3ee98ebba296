"""
Semantic versions in selectors, and functions that take versions and quantities alike.

A version travels through CEL as a map with one entry, as quantities do. Build metadata says
nothing about order; a version before its release is older than the release.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from karpenter.api.schema.functions import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_VERSION: Final = "semantic version"
_NUMBER: Final = r"(0|[1-9][0-9]*)"
_WORD: Final = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_GRAMMAR: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_WORD}(?:\.{_WORD})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
_LOOSE: Final = re.compile(r"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?([-+].*)?", re.ASCII)


class _Parts(NamedTuple):
    major: int
    minor: int
    patch: int
    released: bool
    before: tuple[tuple[int, int, str], ...]
    """The words of a version before its release, so that numbers sort below texts."""


def version(text: str) -> dict[str, str]:
    """Return a version as selectors see it, without looking at it closely."""
    return {_VERSION: text}


def semver(text: str, normalize: bool = False) -> dict[str, str]:
    """Return a version; loosely written ones are put in order first if so asked."""
    written = _in_order(text) if normalize else text
    _parts(written)
    return version(written)


def is_semver(text: Any, normalize: bool = False) -> bool:
    """Say whether a text is a version."""
    try:
        semver(text, normalize)
    except (TypeError, ValueError):
        return False
    return True


def major(value: Any) -> int:
    """Return the first number."""
    return _parts(value[_VERSION]).major


def minor(value: Any) -> int:
    """Return the second number."""
    return _parts(value[_VERSION]).minor


def patch(value: Any) -> int:
    """Return the third number."""
    return _parts(value[_VERSION]).patch


def compare_to(a: Any, b: Any) -> int:
    """Return -1, 0 or 1 as `a` is less than, equal to or greater than `b`."""
    if not _is_version(a):
        found: int = FUNCTIONS["compareTo"](a, b)
        return found
    left, right = _parts(a[_VERSION]), _parts(b[_VERSION])
    return (left > right) - (left < right)


def is_less_than(a: Any, b: Any) -> bool:
    """Say whether `a` is less than `b`."""
    return compare_to(a, b) < 0


def is_greater_than(a: Any, b: Any) -> bool:
    """Say whether `a` is greater than `b`."""
    return compare_to(a, b) > 0


def _is_version(value: Any) -> bool:
    return isinstance(value, dict) and _VERSION in value


def _in_order(text: str) -> str:
    match = _LOOSE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text} is not a version")
    numbers = ".".join(str(int(part or "0")) for part in match.groups()[:3])
    return numbers + (match[4] or "")


def _parts(text: str) -> _Parts:
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise ValueError(f"{text} is not a version")
    words = match[4].split(".") if match[4] else []
    before = tuple((0, int(word), "") if word.isdigit() else (1, 0, word) for word in words)
    return _Parts(int(match[1]), int(match[2]), int(match[3]), not words, before)


DEVICE_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        **FUNCTIONS,
        "compareTo": compare_to,
        "isGreaterThan": is_greater_than,
        "isLessThan": is_less_than,
        "isSemver": is_semver,
        "major": major,
        "minor": minor,
        "patch": patch,
        "semver": semver,
    }
)
"""What selectors of devices may call."""
