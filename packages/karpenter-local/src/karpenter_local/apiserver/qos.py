"""
What a pod asks for as a whole, and which of the three classes of service it is in because of that.

Only cpu and memory decide the class, and only amounts above zero count; sums over containers are compared.
A pod that has resources of its own, even empty ones, is judged by these and not by its containers.
See https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter.base.quantity import Quantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable


# Only cpu and memory count for the quality of service:
# https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
_COUNTED = ("cpu", "memory")


def qos_class(spec: dict[str, Any]) -> str:
    """Return ``Guaranteed``, ``Burstable`` or ``BestEffort``."""
    own = spec.get("resources")
    groups = [own] if own is not None else _of_containers(spec)
    requests = _sum(group.get("requests") for group in groups)
    limits = _sum(group.get("limits") for group in groups)
    if not requests and not limits:
        return "BestEffort"
    limited = all(_sum([group.get("limits")]).keys() == set(_COUNTED) for group in groups)
    return "Guaranteed" if limited and requests == limits else "Burstable"


def _of_containers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return [container.get("resources") or {} for container in containers]


def _sum(lists: Iterable[dict[str, str] | None]) -> dict[str, int]:
    found: dict[str, int] = {}
    for given in lists:
        for name in _COUNTED:
            nanos = parse_quantity((given or {}).get(name, "0")).nanos
            if nanos > 0:
                found[name] = found.get(name, 0) + nanos
    return found


def total(spec: dict[str, Any], part: str) -> dict[str, Quantity]:
    """
    Return the ``requests`` or ``limits`` of a pod's containers together.

    Sidecars count beside the containers, and an ordinary init container where it needs more than these.
    See https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
    """
    beside: dict[str, Quantity] = {}
    most: dict[str, Quantity] = {}
    for container in spec.get("initContainers") or ():
        given = _parsed(container, part)
        if container.get("restartPolicy") == "Always":
            beside = add(beside, given)
        else:
            most = _larger(most, add(given, {name: beside[name] for name in beside.keys() & given.keys()}))
    for container in spec.get("containers") or ():
        beside = add(beside, _parsed(container, part))
    return _larger(beside, most)


def add(one: dict[str, Quantity], other: dict[str, Quantity]) -> dict[str, Quantity]:
    found = dict(one)
    for name, amount in other.items():
        found[name] = found[name] + amount if name in found else amount
    return found


def _larger(one: dict[str, Quantity], other: dict[str, Quantity]) -> dict[str, Quantity]:
    found = dict(one)
    for name, amount in other.items():
        found[name] = max(found[name], amount) if name in found else amount
    return found


def _parsed(container: dict[str, Any], part: str) -> dict[str, Quantity]:
    given = (container.get("resources") or {}).get(part) or {}
    return {name: parse_quantity(amount) for name, amount in given.items()}
