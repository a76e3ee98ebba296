"""Amounts of resources that no API server would store: what is no quantity, and what is negative."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from karpenter.base.pretty import excerpt
from karpenter.base.quantity import QuantityError, parse_quantity

COUNTING: Final = frozenset({"allocatable", "capacity", "limits", "overhead", "requests"})
"""Fields that hold quantities by resource name."""


def bad_amounts(plain: object, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the field of every amount that cannot be, and what is wrong with it."""
    if isinstance(plain, list):
        for number, item in enumerate(plain):
            yield from bad_amounts(item, f"{place}[{number}]")
    elif isinstance(plain, dict):
        for key, value in plain.items():
            here = f"{place}.{key}" if place else str(key)
            if key in COUNTING and isinstance(value, dict):
                yield from bad_quantities(value, here)
            else:
                yield from bad_amounts(value, here)


def bad_quantities(amounts: Mapping[str, object], place: str) -> Iterator[tuple[str, str]]:
    """Yield the same for quantities by resource name."""
    for name, written in amounts.items():
        if written is None or isinstance(written, dict | list):
            continue  # not an amount: an object of another kind uses the word for something else
        try:
            if parse_quantity(written).milli < 0:
                yield f"{place}.{name}", f"must be 0 or more, not {excerpt(written)}"
        except QuantityError as error:
            yield f"{place}.{name}", str(error)


def requests_beyond_limits(resources: Mapping[str, Any], place: str) -> Iterator[tuple[str, str]]:
    requests, limits = resources.get("requests"), resources.get("limits")
    if not isinstance(requests, dict) or not isinstance(limits, dict):
        return
    for name in sorted(requests.keys() & limits.keys()):
        request, limit = requests[name], limits[name]
        try:
            if parse_quantity(request) > parse_quantity(limit):
                problem = f"{excerpt(request)} is more than the limit, {excerpt(limit)}"
                yield f"{place}.requests.{name}", problem
        except QuantityError:
            continue  # it is told elsewhere
