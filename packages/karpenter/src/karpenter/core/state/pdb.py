"""
PodDisruptionBudgets: which pods may be evicted now, and which never.

A budget whose status nobody has written yet (in manifests) is worked out from its spec and
the pods there are, as the disruption controller of Kubernetes would. A budget that cannot
be read protects everything that it might mean.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.cluster import PodDisruptionBudget, PodDisruptionBudgetStatus
from karpenter.core.model.selectors import EVERYTHING, NOTHING, Selector, SelectorError, parse_selector
from karpenter.core.state.pod import is_active, is_evictable, is_ready

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from karpenter.api.pod import Pod
    from karpenter.core.state.cluster import ClusterView

_SHARE: Final = re.compile(r"([0-9]{1,9})(%?)")
_ALWAYS_ALLOW: Final = "AlwaysAllow"
_UNWRITTEN: Final = PodDisruptionBudgetStatus()


class PdbItem(msgspec.Struct, frozen=True):
    """One budget, ready to be asked."""

    budget: PodDisruptionBudget
    selector: Selector
    allowed: int
    """How many of its pods may go now."""

    @property
    def blocks_for_good(self) -> bool:
        """Whether the budget never lets a pod go, however healthy its pods are."""
        spec = self.budget.spec
        return spec.max_unavailable in {0, "0", "0%"} or spec.min_available == "100%"

    def covers(self, pod: Pod) -> bool:
        """Whether the budget is about this pod."""
        return pod.metadata.namespace == self.budget.namespace and self.selector.matches(pod.metadata.labels)

    def blocks(self, pod: Pod) -> bool:
        """Whether the budget keeps this pod from going now."""
        if self.budget.spec.unhealthy_pod_eviction_policy == _ALWAYS_ALLOW and not _is_healthy(pod):
            return False
        return self.allowed <= 0


class PdbLimits:
    """Every budget of a cluster."""

    def __init__(self, view: ClusterView) -> None:
        self._by_namespace: dict[str, list[PdbItem]] = {}
        unwritten = [each for each in view.disruption_budgets.values() if each.status == _UNWRITTEN]
        pods = _by_namespace(view.pods.values(), {each.namespace for each in unwritten})
        for budget in view.disruption_budgets.values():
            selector = _selector(budget)
            guard = PdbItem(budget, selector, _allowed(budget, selector, pods.get(budget.namespace, ())))
            self._by_namespace.setdefault(budget.namespace, []).append(guard)

    def of(self, pod: Pod) -> list[PdbItem]:
        """Return the budgets that cover a pod."""
        return [g for g in self._by_namespace.get(pod.metadata.namespace, ()) if g.covers(pod)]

    def obstacle(self, pod: Pod, now: datetime) -> str:
        """Return which budget keeps a pod from being evicted now, as a sentence; nothing when none does."""
        guards = self.of(pod)
        if not guards or not is_evictable(pod, now):
            return ""
        if len(guards) > 1:
            names = ", ".join(sorted(g.budget.name for g in guards))
            return f"pod {pod.key} cannot be evicted: several PodDisruptionBudgets cover it ({names})"
        if guards[0].blocks(pod):
            return f"PodDisruptionBudget {guards[0].budget.key} prevents the eviction of pod {pod.key}"
        return ""

    def holds_for_good(self, pod: Pod, now: datetime) -> bool:
        """Whether no amount of waiting will let this pod be evicted."""
        guards = self.of(pod)
        if not guards or not is_evictable(pod, now):
            return False
        return len(guards) > 1 or guards[0].blocks_for_good


def _by_namespace(pods: Iterable[Pod], namespaces: set[str]) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = {}
    if namespaces:
        for pod in pods:
            if pod.metadata.namespace in namespaces and is_active(pod):
                found.setdefault(pod.metadata.namespace, []).append(pod)
    return found


def _selector(budget: PodDisruptionBudget) -> Selector:
    wire = budget.spec.selector
    if wire is None:
        return NOTHING
    try:
        return parse_selector(wire)
    except SelectorError:
        return EVERYTHING


def _allowed(budget: PodDisruptionBudget, selector: Selector, pods: Sequence[Pod]) -> int:
    if budget.status != _UNWRITTEN:
        return budget.status.disruptions_allowed
    mine = [pod for pod in pods if selector.matches(pod.metadata.labels)]
    healthy = sum(1 for pod in mine if _is_healthy(pod))
    return max(0, healthy - _needed(budget, len(mine)))


def _needed(budget: PodDisruptionBudget, total: int) -> int:
    """Return how many healthy pods a budget wants to keep."""
    most, least = budget.spec.max_unavailable, budget.spec.min_available
    if most is not None:
        return max(0, total - _share(most, total, otherwise=0))
    return _share(1 if least is None else least, total, otherwise=total)


def _share(value: int | str, total: int, *, otherwise: int) -> int:
    """Return a count, or a percentage of `total` rounded up; `otherwise` when it is neither."""
    match = _SHARE.fullmatch(str(value))
    if match is None:
        return otherwise
    number = int(match[1])
    return -(-number * total // 100) if match[2] else number


def _is_healthy(pod: Pod) -> bool:
    """Whether a pod counts as up; a manifest that says nothing about a bound pod means that it is."""
    return is_ready(pod) or (not pod.status.conditions and bool(pod.spec.node_name))
