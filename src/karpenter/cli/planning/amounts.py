"""
Amounts that no API server would store: text that is no quantity, or less than nothing.

Looks at every place where a manifest counts resources, whatever its kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.base.excerpt import excerpt
from karpenter.base.quantity import QuantityError, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

_COUNTING: Final = frozenset({"allocatable", "capacity", "limits", "overhead", "requests"})
"""Fields that hold quantities by resource name."""


def bad_amounts(plain: object, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the field of every amount that cannot be, and what is wrong with it."""
    if isinstance(plain, list):
        for number, item in enumerate(plain):
            yield from bad_amounts(item, f"{place}[{number}]")
    elif isinstance(plain, dict):
        for key, value in plain.items():
            here = f"{place}.{key}" if place else str(key)
            if key in _COUNTING and isinstance(value, dict):
                yield from _bad(value, here)
            else:
                yield from bad_amounts(value, here)


def _bad(amounts: dict[str, object], place: str) -> Iterator[tuple[str, str]]:
    for name, written in amounts.items():
        if written is None or isinstance(written, dict | list):
            continue  # not an amount: an object of another kind uses the word for something else
        try:
            if parse_quantity(written).milli < 0:
                yield f"{place}.{name}", f"must be 0 or more, not {excerpt(written)}"
        except QuantityError as error:
            yield f"{place}.{name}", str(error)
