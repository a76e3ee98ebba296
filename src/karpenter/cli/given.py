"""
What ``--set NAME=VALUE`` gives: settings of the operator by name, as texts.

What they mean, and whether there are such settings, is the operator's to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.cli.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable

_GATES: Final = "feature-gates"


def named_values(given: Iterable[str]) -> dict[str, str]:
    """Return the value of each setting: the last one given, but all the feature gates."""
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise Refused(f"--set: {each!r} is not NAME=VALUE")
        found[name] = f"{found[name]},{value}" if name == _GATES and name in found else value
    return found
