"""
Readers of single fields: text, lists, quantities, prices, labels.

Each takes a decoded JSON value and the place it stands at, notes what is wrong
there, and returns something of the right type, so that reading goes on.
Knows nothing of instance types; that is :mod:`.kwok_format`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from karpenter.base.excerpt import excerpt
from karpenter.base.quantity import QuantityError, parse_quantity
from karpenter.core.model.resources import CPU
from karpenter.core.scheduling.intake.amounts import LARGEST

if TYPE_CHECKING:
    from karpenter.cloud.catalogs.problems import Place

_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LARGEST_PRICE: Final = 10**6  # a thousand times the dearest machine there is; NaN and infinity fail too


def read_object(value: object, place: Place, known: frozenset[str]) -> dict[str, object] | None:
    """Return the fields of an object that are not null; only `known` ones are allowed."""
    if not isinstance(value, dict):
        place.refuse(f"must be an object, not {excerpt(value)}")
        return None
    for key in value:
        if key not in known:
            place.at(str(key)).refuse(f"is not a field here; the fields are {', '.join(sorted(known))}")
    return {str(key): item for key, item in value.items() if item is not None}


def read_list(value: object, place: Place, *, of: str) -> list[object]:
    """Return the items of a list that has at least one."""
    if isinstance(value, list) and value:
        return value
    place.refuse(f"must be a list of at least one {of}")
    return []


def read_flag(value: object, place: Place) -> bool:
    """Return a boolean."""
    if isinstance(value, bool):
        return value
    place.refuse(f"must be true or false, not {excerpt(value)}")
    return False


def read_count(value: object, place: Place) -> int:
    """Return a whole number of zero or more."""
    if type(value) is int and value >= 0:
        return value
    place.refuse(f"must be a whole number of 0 or more, not {excerpt(value)}")
    return 0


def read_price(value: object, place: Place) -> float:
    """Return a price: a finite number of zero or more."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LARGEST_PRICE:
        return float(value)
    place.refuse(f"must be a number from 0 to a million, not {excerpt(value)}")
    return 0.0


def read_amounts(value: object, place: Place) -> dict[str, int]:
    """Return exact amounts by resource name, none of them negative."""
    if not isinstance(value, dict):
        place.refuse(f"must be an object of resource names with quantities, not {excerpt(value)}")
        return {}
    amounts = {}
    for name, written in value.items():
        try:
            quantity = parse_quantity(written)
        except QuantityError as error:
            place.at(name).refuse(str(error))
            continue
        amounts[name] = quantity.milli if name == CPU else quantity.value
        if amounts[name] < 0:
            place.at(name).refuse(f"must be 0 or more, not {excerpt(written)}")
        elif amounts[name] > LARGEST:
            place.at(name).refuse(f"must be at most {LARGEST}, not {excerpt(written)}")
    return amounts


def read_label_key(value: object, place: Place) -> str:
    """Return a label key: an optional domain and a name."""
    if isinstance(value, str):
        domain, slash, name = value.rpartition("/")
        if _NAME.fullmatch(name) and (not slash or _DOMAIN.fullmatch(domain)):
            return value
    place.refuse(f"must be a label key such as topology.kubernetes.io/zone, not {excerpt(value)}")
    return ""


def read_label_value(value: object, place: Place) -> str:
    """Return a label value that is not empty."""
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    place.refuse(
        "must be text of 1 to 63 letters, digits, '-', '_' or '.', "
        f"with a letter or digit at both ends, not {excerpt(value)}"
    )
    return ""


def read_label_values(value: object, place: Place, *, of: str) -> tuple[str, ...]:
    """Return the items of a list of label values, sorted and without repeats; values may be empty."""
    items = enumerate(read_list(value, place, of=of))
    return tuple(sorted({"" if item == "" else read_label_value(item, place.at(i)) for i, item in items}))
