"""
Finds a cloud provider by name: the built-in ones, and those of installed packages.

A package registers one with an entry point of the group ``karpenter.providers``::

    [project.entry-points."karpenter.providers"]
    rack = "karpenter_rack:connect"

The name is the value of the setting; the entry point is a :data:`~karpenter.cloud.cloudprovider.Connect`.
A provider is imported when it is used.
"""

from __future__ import annotations

import difflib
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from karpenter.cloud.cloudprovider import Connect

GROUP: Final = "karpenter.providers"
BUILT_IN: Final[Mapping[str, str]] = MappingProxyType(
    {"kwok": "karpenter.cloud.kwok.cloudprovider:connect", "aws": "karpenter.cloud.aws.operator:connect"}
)
"""Built-in providers, and the function that creates each."""


class UnknownProvider(LookupError):  # noqa: N818  says what is wrong
    """No provider has this name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        super().__init__(f"there is no provider {name!r}; there are {', '.join(known)}{hint}")
        self.name = name


class BrokenProvider(RuntimeError):  # noqa: N818  says what is wrong
    """A provider is installed but cannot be used."""

    def __init__(self, name: str, because: str) -> None:
        super().__init__(f"provider {name!r} cannot be used: {because}")
        self.name = name


def provider_names() -> tuple[str, ...]:
    """Return the names of all providers, those built in first."""
    return (*BUILT_IN, *sorted({each.name for each in _installed()} - BUILT_IN.keys()))


def find_provider(name: str) -> Connect:
    """
    Return the function that creates the provider `name`.

    Raises:
        UnknownProvider: there is none.
        BrokenProvider: it cannot be imported, is no function, or two packages claim the name.
    """
    # The functions that are registered under a name: none, one, or several that conflict.
    own = {BUILT_IN[name]} if name in BUILT_IN else set()
    found = own | {each.value for each in _installed() if each.name == name}
    if not found:
        raise UnknownProvider(name, provider_names())
    if len(found) > 1:
        raise BrokenProvider(name, f"{' and '.join(sorted(found))} both claim the name")
    (target,) = found
    module, _, attribute = target.partition(":")
    try:
        connect = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise BrokenProvider(name, str(error)) from error
    if not callable(connect):
        raise BrokenProvider(name, f"{target} is not a function")
    return cast("Connect", connect)


def _installed() -> tuple[EntryPoint, ...]:
    # https://packaging.python.org/en/latest/specifications/entry-points/
    return tuple(entry_points(group=GROUP))
