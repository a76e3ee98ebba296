"""What containers may ask for: names of resources, amounts that make sense, requests within limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter.base.quantity import Quantity, parse_quantity
from karpenter_local.apiserver.field_errors import FieldError, invalid, required
from karpenter_local.apiserver.validation import names

if TYPE_CHECKING:
    from collections.abc import Iterator


# Other names without a domain are no resources of containers:
# https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#extended-resources
_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
_HUGE = "hugepages-"


def requirements(given: dict[str, Any], path: str) -> Iterator[FieldError]:
    limits, requests = given.get("limits") or {}, given.get("requests") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            yield from _amount(name, text, f"{path}.{part}[{name}]")
    for name, text in requests.items():
        limit = limits.get(name)
        place = f"{path}.requests"
        if limit is None:
            if not _overcommits(name) and ("/" in name or name.startswith(_HUGE)):
                yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        elif parse_quantity(text) > parse_quantity(limit):
            yield invalid(place, text, f"must be less than or equal to {name} limit of {limit}")
        elif not _overcommits(name) and parse_quantity(text) != parse_quantity(limit):
            yield invalid(place, text, f"must be equal to {name} limit of {limit}")


def _overcommits(name: str) -> bool:
    return name in _STANDARD


def _amount(name: str, text: str, path: str) -> Iterator[FieldError]:
    for sentence in names.qualified(name):
        yield invalid(path, name, sentence)
    if "/" not in name and name not in _STANDARD and not name.startswith(_HUGE):
        yield invalid(path, name, "must be a standard resource type or fully qualified")
        yield invalid(path, name, "must be a standard resource for containers")
    amount = parse_quantity(text)
    if amount < Quantity(0):
        yield invalid(path, text, "must be greater than or equal to 0")
    elif "/" in name and not _native(name) and amount.nanos % 10**9:
        yield invalid(path, text, "must be an integer")


def _native(name: str) -> bool:
    domain = name.partition("/")[0]
    return domain.endswith("kubernetes.io")


def amounts(given: dict[str, Any] | None, path: str) -> Iterator[FieldError]:
    for name, text in (given or {}).items():
        for sentence in names.qualified(name):
            yield invalid(f"{path}[{name}]", name, sentence)
        if parse_quantity(text) < Quantity(0):
            yield invalid(f"{path}[{name}]", text, "must be greater than or equal to 0")
