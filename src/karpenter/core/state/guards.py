"""
PodDisruptionBudgets: which pods may be evicted now, and which never.

A budget whose status nobody has written yet (in manifests) is worked out from its spec and
the pods there are, as the disruption controller of Kubernetes would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.api.pod import Pod
from karpenter.api.policy import PodDisruptionBudget
from karpenter.core.model.selectors import EVERYTHING, NOTHING, Selector, SelectorError, parse_selector
from karpenter.core.state.pods import can_be_evicted, is_active, is_ready

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from karpenter.core.state.view import ClusterView


class Guard(msgspec.Struct, frozen=True):
    """One budget, ready to be asked."""

    budget: PodDisruptionBudget
    selector: Selector
    allowed: int

    @property
    def blocks_for_good(self) -> bool:
        """Whether the budget never lets a pod go, however healthy its pods are."""
        spec = self.budget.spec
        return spec.max_unavailable in {0, "0", "0%"} or spec.min_available == "100%"

    def covers(self, pod: Pod) -> bool:
        """Whether the budget is about this pod."""
        return pod.metadata.namespace == self.budget.namespace and self.selector.matches(pod.metadata.labels)

    def blocks(self, pod: Pod) -> bool:
        """Whether the budget lets this pod go now."""
        if self.budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow" and not is_ready(pod):
            return False
        return self.allowed <= 0


class Guards:
    """Every budget of a cluster."""

    def __init__(self, view: ClusterView) -> None:
        self._by_namespace: dict[str, list[Guard]] = {}
        for budget in view.disruption_budgets.values():
            selector = _selector(budget)
            guard = Guard(budget, selector, _allowed(budget, selector, view.pods.values()))
            self._by_namespace.setdefault(budget.namespace, []).append(guard)

    def of(self, pod: Pod) -> list[Guard]:
        """Return the budgets that cover a pod."""
        return [g for g in self._by_namespace.get(pod.metadata.namespace, ()) if g.covers(pod)]

    def obstacle(self, pod: Pod, now: datetime) -> str:
        """Return which budget keeps a pod from being evicted now, as a sentence; nothing when none does."""
        if not can_be_evicted(pod, now):
            return ""
        guards = self.of(pod)
        if len(guards) > 1:
            names = ", ".join(sorted(g.budget.name for g in guards))
            return f"pod {pod.key} is covered by several PodDisruptionBudgets ({names}), so it cannot be evicted"
        if guards and guards[0].blocks(pod):
            return f"PodDisruptionBudget {guards[0].budget.key} prevents the eviction of pod {pod.key}"
        return ""

    def holds_for_good(self, pod: Pod, now: datetime) -> bool:
        """Whether no amount of waiting will let this pod be evicted."""
        guards = self.of(pod) if can_be_evicted(pod, now) else []
        return len(guards) > 1 or any(g.blocks_for_good for g in guards)


def _selector(budget: PodDisruptionBudget) -> Selector:
    wire = budget.spec.selector
    if wire is None:
        return NOTHING
    if not wire.match_labels and not wire.match_expressions:
        return EVERYTHING
    try:
        return parse_selector(wire)
    except SelectorError:
        return EVERYTHING  # a budget that cannot be read protects everything it might mean


def _allowed(budget: PodDisruptionBudget, selector: Selector, pods: Iterable[Pod]) -> int:
    status, spec = budget.status, budget.spec
    if status != type(status)():
        return status.disruptions_allowed
    mine = [
        p
        for p in pods
        if p.metadata.namespace == budget.namespace and is_active(p) and selector.matches(p.metadata.labels)
    ]
    healthy = sum(1 for pod in mine if _is_healthy(pod))
    return max(0, healthy - _needed(spec.min_available, spec.max_unavailable, mine))


def _needed(least: int | str | None, most: int | str | None, pods: Sequence[Pod]) -> int:
    if most is not None:
        return len(pods) - _share(most, len(pods))
    return _share(least if least is not None else 1, len(pods))


def _share(value: int | str, total: int) -> int:
    """Return a count, or a percentage of `total` rounded up."""
    text = str(value)
    if text.endswith("%") and text[:-1].isdigit():
        return -(-int(text[:-1]) * total // 100)
    return int(text) if text.isdigit() else total


def _is_healthy(pod: Pod) -> bool:
    """Whether a pod counts as up; a manifest that says nothing about a bound pod means that it is."""
    return is_ready(pod) or (not pod.status.conditions and bool(pod.spec.node_name))
