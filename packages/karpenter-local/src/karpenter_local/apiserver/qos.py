"""
Which of the three classes of service a pod is in: what it asks for, and whether that is also its limit.

Only cpu and memory decide, and only amounts above zero count; sums over containers are compared. A pod that
has resources of its own, even empty ones, is judged by these and not by its containers.
See https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter.base.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    """Return the sums of what counts, in billionths."""
    found: dict[str, int] = {}
    for given in lists:
        for name in _COUNTED:
            nanos = parse_quantity((given or {}).get(name, "0")).nanos
            if nanos > 0:
                found[name] = found.get(name, 0) + nanos
    return found
