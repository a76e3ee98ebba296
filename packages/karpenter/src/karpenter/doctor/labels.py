"""
Which values labels of EC2 nodes can have, and which one was meant.

Known are the labels that instance types have, from the facts that ship with the product. Instance types that
AWS has announced since then are not known, so that an unknown one is a doubt rather than a mistake.
"""

from __future__ import annotations

import difflib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, CAPACITY_TYPES, INSTANCE_TYPE, OS, REGION, ZONE
from karpenter.cloud.catalogs.ec2.data import load_data
from karpenter.cloud.catalogs.ec2.instancetypes import type_labels

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CATEGORY: Final = "karpenter.k8s.aws/instance-category"
FAMILY: Final = "karpenter.k8s.aws/instance-family"

_OPEN: Final = frozenset(
    {INSTANCE_TYPE, FAMILY, "karpenter.k8s.aws/instance-size", "karpenter.k8s.aws/instance-generation"}
)
"""Labels whose values AWS adds to all the time."""

_SAME: Final = {
    "x86_64": "amd64",
    "x86": "amd64",
    "aarch64": "arm64",
    "arm": "arm64",
    "ondemand": "on-demand",
}
"""What others call the same."""


class ValueProblem(msgspec.Struct, frozen=True):
    """A value that no node has."""

    value: str
    meant: str
    """Which one was probably meant; empty where none is close."""

    certain: bool
    """Whether there is no doubt that it is a mistake."""


@lru_cache(maxsize=1)
def type_table() -> tuple[dict[str, tuple[str, ...]], ...]:
    """Return the labels of every instance type that is known."""
    return tuple(type_labels(each, region="", zone_ids=()) for each in load_data().types)


@lru_cache(maxsize=1)
def known_values() -> Mapping[str, frozenset[str]]:
    """Return the values that each label of instance types can have."""
    found: dict[str, set[str]] = {CAPACITY_TYPE: set(CAPACITY_TYPES), OS: {"linux", "windows"}}
    for labels in type_table():
        for key, values in labels.items():
            found.setdefault(key, set()).update(values)
    return {key: frozenset(values) for key, values in found.items() if values and key != REGION}


def value_problem(key: str, value: str) -> ValueProblem | None:
    """Say what is wrong with a value of a label; None where nodes can have it, or the label is not known."""
    known = known_values().get(key)
    if known is None or value in known:
        return None
    folded = _SAME.get(value.lower().replace("_", "-").replace("x86-64", "x86_64"), value.lower())
    if folded in known:
        return ValueProblem(value, folded, certain=True)
    close = difflib.get_close_matches(folded, known, n=1, cutoff=0.6)
    return ValueProblem(value, close[0] if close else "", certain=key not in _OPEN)


def zones_in(region: str) -> frozenset[str]:
    """Return the zones of a region; none where the region is not known."""
    found = load_data().regions.get(region)
    return frozenset(found.zones) if found is not None else frozenset()


def some_type_meets(requirements: list[dict[str, Any]]) -> bool:
    """Return whether any instance type meets all requirements that are about types."""
    return next(matching_labels(requirements), None) is not None


def matching_labels(requirements: list[dict[str, Any]]) -> Iterator[dict[str, tuple[str, ...]]]:
    """Yield the labels of the instance types that meet all requirements that are about types."""
    known = _about_types()
    mine = [each for each in requirements if str(each.get("key")) in known]
    yield from (labels for labels in type_table() if all(_meets(labels, each) for each in mine))


def _about_types() -> frozenset[str]:
    return frozenset(key for labels in type_table()[:1] for key in labels) - {REGION, ZONE, CAPACITY_TYPE, OS}


def _meets(labels: Mapping[str, tuple[str, ...]], requirement: Mapping[str, Any]) -> bool:
    have = set(labels.get(str(requirement.get("key")), ()))
    given = requirement.get("values")
    values = [str(each) for each in given] if isinstance(given, list) else []
    match requirement.get("operator"):
        case "In":
            return bool(have & set(values))
        case "NotIn":
            return not have & set(values)
        case "Exists":
            return bool(have)
        case "DoesNotExist":
            return not have
        case "Gt" | "Lt" | "Gte" | "Lte" as operator:
            return any(_compares(operator, each, values) for each in have)
    return True


def _compares(operator: str, have: str, values: list[str]) -> bool:
    if not have.isdigit() or not values or not values[0].lstrip("-").isdigit():
        return False
    left, right = int(have), int(values[0])
    return {"Gt": left > right, "Lt": left < right, "Gte": left >= right, "Lte": left <= right}[operator]


def selecting_requirements(spec: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the field and the requirement of every label that a pod's spec selects nodes by."""
    selector = spec.get("nodeSelector")
    for key, value in (selector if isinstance(selector, dict) else {}).items():
        yield f"nodeSelector[{key}]", {"key": key, "operator": "In", "values": [str(value)]}
    affinity: Any = spec
    path = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    for step in path:
        affinity = affinity.get(step) if isinstance(affinity, dict) else None
    for term in affinity if isinstance(affinity, list) else []:
        expressions = term.get("matchExpressions") if isinstance(term, dict) else None
        for each in expressions if isinstance(expressions, list) else []:
            if isinstance(each, dict):
                yield f"affinity.nodeAffinity[{each.get('key')}]", each
