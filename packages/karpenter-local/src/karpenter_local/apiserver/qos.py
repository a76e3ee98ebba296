"""Which of the three classes of service a pod is in: what it asks for, and whether that is also its limit."""

from __future__ import annotations

from typing import Any

from karpenter.base.quantity import parse_quantity

# Only these two resources decide: https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
_COUNTED = ("cpu", "memory")


def qos_class(spec: dict[str, Any]) -> str:
    """Return ``Guaranteed``, ``Burstable`` or ``BestEffort``."""
    groups = [spec["resources"]] if spec.get("resources") else _of_containers(spec)
    asked = any(_has(group.get("requests")) or _has(group.get("limits")) for group in groups)
    if not asked:
        return "BestEffort"
    return "Guaranteed" if all(_is_fixed(group) for group in groups) else "Burstable"


def _of_containers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return [container.get("resources") or {} for container in containers]


def _has(given: dict[str, str] | None) -> bool:
    return any(parse_quantity((given or {}).get(name, "0")).nanos > 0 for name in _COUNTED)


def _is_fixed(group: dict[str, Any]) -> bool:
    limits, requests = group.get("limits") or {}, group.get("requests") or {}
    for name in _COUNTED:
        if name not in limits or not parse_quantity(limits[name]):
            return False
        if parse_quantity(requests.get(name, limits[name])) != parse_quantity(limits[name]):
            return False
    return True
