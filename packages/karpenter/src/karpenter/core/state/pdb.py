"""
PodDisruptionBudget limits: which pods can be evicted now, and which are fully blocked.

The disruption controller of Kubernetes writes ``status.disruptionsAllowed``. A budget without a status, as
in manifests, is computed from its spec and the pods of the view, as that controller does. A budget whose
selector cannot be parsed covers every pod of its namespace.

See https://kubernetes.io/docs/tasks/run-application/configure-pdb/.
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

# IntOrString: https://kubernetes.io/docs/tasks/run-application/configure-pdb/
_INT_OR_PERCENT: Final = re.compile(r"([0-9]{1,9})(%?)")
_ALWAYS_ALLOW: Final = "AlwaysAllow"
_PENDING: Final = "Pending"
_NO_STATUS: Final = PodDisruptionBudgetStatus()


class PdbItem(msgspec.Struct, frozen=True):
    """One PodDisruptionBudget with its parsed selector."""

    budget: PodDisruptionBudget
    selector: Selector
    allowed: int
    """How many of its pods may be evicted now."""

    healthy: int = 0
    desired: int = 0
    """How many of its pods must be healthy."""

    @property
    def is_fully_blocking(self) -> bool:
        """Whether the budget allows no eviction, however many of its pods are healthy."""
        # These budgets never allow an eviction, so to wait for them is in vain. minAvailable as a number may
        # be reached once there are more replicas:
        # https://kubernetes.io/docs/tasks/run-application/configure-pdb/
        spec = self.budget.spec
        return spec.max_unavailable in {0, "0", "0%"} or spec.min_available == "100%"

    def covers(self, pod: Pod) -> bool:
        return pod.metadata.namespace == self.budget.namespace and self.selector.matches(pod.metadata.labels)

    def blocks(self, pod: Pod) -> bool:
        """Whether the budget prevents the eviction of this pod now."""
        # AlwaysAllow: a pod that is not ready may be evicted whatever the budget says. The default,
        # IfHealthyBudget, allows it only while the application is not disrupted:
        # https://kubernetes.io/docs/tasks/run-application/configure-pdb/#unhealthy-pod-eviction-policy
        if self.budget.spec.unhealthy_pod_eviction_policy == _ALWAYS_ALLOW and not _is_healthy(pod):
            return False
        return self.allowed <= 0

    def refuses(self, pod: Pod) -> bool:
        """Whether the eviction API refuses this pod now."""
        # A pod that is not running, or not ready while enough others are, goes without being counted. This is
        # more lenient than what Karpenter asks for before it disrupts a node:
        # https://kubernetes.io/docs/tasks/run-application/configure-pdb/#unhealthy-pod-eviction-policy
        if pod.status.phase == _PENDING or not is_active(pod):
            return False
        if self.healthy >= self.desired > 0 and not _is_healthy(pod):
            return False
        return self.blocks(pod)


class PdbLimits:
    """The PodDisruptionBudgets of a cluster."""

    def __init__(self, view: ClusterView) -> None:
        self._by_namespace: dict[str, list[PdbItem]] = {}
        without_status = [each for each in view.disruption_budgets.values() if each.status == _NO_STATUS]
        pods = _by_namespace(view.pods.values(), {each.namespace for each in without_status})
        for budget in view.disruption_budgets.values():
            selector = _selector(budget)
            item = _item(budget, selector, pods.get(budget.namespace, ()))
            self._by_namespace.setdefault(budget.namespace, []).append(item)

    def covering(self, pod: Pod) -> list[PdbItem]:
        """Return the budgets that select a pod."""
        return [item for item in self._by_namespace.get(pod.metadata.namespace, ()) if item.covers(pod)]

    def eviction_blocked_by(self, pod: Pod, now: datetime) -> str:
        """Return which budget prevents the eviction of a pod now, as a sentence; empty if none does."""
        pdbs = self.covering(pod)
        if not pdbs or not is_evictable(pod, now):
            return ""
        # The eviction API refuses a pod that more than one budget selects:
        # https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
        if len(pdbs) > 1:
            names = ", ".join(sorted(item.budget.name for item in pdbs))
            return f"pod {pod.key} cannot be evicted: several PodDisruptionBudgets cover it ({names})"
        if pdbs[0].blocks(pod):
            return f"PodDisruptionBudget {pdbs[0].budget.key} prevents the eviction of pod {pod.key}"
        return ""

    def is_fully_blocked(self, pod: Pod, now: datetime) -> bool:
        """Whether this pod can never be evicted, however long Karpenter waits."""
        pdbs = self.covering(pod)
        if not pdbs or not is_evictable(pod, now):
            return False
        return len(pdbs) > 1 or pdbs[0].is_fully_blocking


def _by_namespace(pods: Iterable[Pod], namespaces: set[str]) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = {}
    if namespaces:
        for pod in pods:
            if pod.metadata.namespace in namespaces and is_active(pod):
                found.setdefault(pod.metadata.namespace, []).append(pod)
    return found


def _selector(budget: PodDisruptionBudget) -> Selector:
    # A policy/v1 budget without a selector matches no pods, and one with an empty selector matches all:
    # https://kubernetes.io/docs/tasks/run-application/configure-pdb/
    wire = budget.spec.selector
    if wire is None:
        return NOTHING
    try:
        return parse_selector(wire)
    except SelectorError:
        return EVERYTHING


def _item(budget: PodDisruptionBudget, selector: Selector, pods: Sequence[Pod]) -> PdbItem:
    status = budget.status
    if status != _NO_STATUS:
        return PdbItem(
            budget, selector, status.disruptions_allowed, status.current_healthy, status.desired_healthy
        )
    mine = [pod for pod in pods if selector.matches(pod.metadata.labels)]
    healthy, desired = sum(1 for pod in mine if _is_healthy(pod)), _desired_healthy(budget, len(mine))
    return PdbItem(budget, selector, max(0, healthy - desired), healthy, desired)


def _desired_healthy(budget: PodDisruptionBudget, total: int) -> int:
    """Return how many pods of a budget must stay healthy."""
    most, least = budget.spec.max_unavailable, budget.spec.min_available
    # A budget has one of both; the API server refuses a budget with maxUnavailable and minAvailable:
    # https://kubernetes.io/docs/tasks/run-application/configure-pdb/
    if most is not None:
        return max(0, total - _scaled(most, total, otherwise=0))
    return _scaled(1 if least is None else least, total, otherwise=total)


def _scaled(value: int | str, total: int, *, otherwise: int) -> int:
    """Return a count, or a percentage of `total` rounded up; `otherwise` when it is neither."""
    match = _INT_OR_PERCENT.fullmatch(str(value))
    if match is None:
        return otherwise
    # Percentages round up:
    # https://kubernetes.io/docs/tasks/run-application/configure-pdb/
    number = int(match[1])
    return -(-number * total // 100) if match[2] else number


def _is_healthy(pod: Pod) -> bool:
    """Whether a pod is ready; a bound pod of a manifest without a status counts as ready."""
    return is_ready(pod) or (not pod.status.conditions and bool(pod.spec.node_name))
