"""
Preemption: the victims to evict so that a pod of higher priority gets a node.

On each node where evictions could help, all pods of lower priority are supposed gone; if the pod then fits,
they are let back one by one, the most important first, as long as it still does. Those left over are the
victims. Among nodes the one is chosen that breaks the fewest disruption budgets, then hurts the least
important and the fewest pods.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from karpenter.core.model.selectors import Selector
from karpenter_local.scheduler import reasons
from karpenter_local.scheduler.filters import FitError, feasible_at, refusal_at
from karpenter_local.scheduler.nodetable import AssignedPod, NodeTable
from karpenter_local.scheduler.place import Expected, draw, nothing_expected
from karpenter_local.scheduler.podinfo import PodInfo
from karpenter_local.scheduler.storage import NO_CLAIMS, PodVolumeClaims

# minCandidateNodesAbsolute and minCandidateNodesPercentage:
# https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/
FEWEST_CANDIDATES = 100
"""Nodes compared before the best so far is taken, or a tenth of all nodes if that is more."""

_LOWEST_PRIORITY = -(2**31)
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class PDBLimit(msgspec.Struct, frozen=True):
    """Evictions that a disruption budget allows at this moment."""

    namespace: str
    selector: Selector
    allowed: int
    already: frozenset[str] = frozenset()
    """Names of pods whose eviction it has already counted."""

    def covers(self, pod: AssignedPod) -> bool:
        """Say whether evicting `pod` would use up some of the budget."""
        pod_labels = pod.pod_info.pod_labels
        return (
            pod_labels.namespace == self.namespace
            and pod.key.rpartition("/")[2] not in self.already
            and self.selector.matches(dict(pod_labels.pairs))
        )


class Victims(msgspec.Struct, frozen=True):
    """The pods to evict from one node."""

    node: str
    pods: tuple[AssignedPod, ...]
    """The most important first."""
    violations: int
    """How many of them a disruption budget would protect."""


class PreemptionContext(msgspec.Struct, frozen=True, kw_only=True):
    """Budgets, expected pods and nominations that preemption takes into account."""

    budgets: Callable[[], Iterable[PDBLimit]] = tuple
    """Called only if there are pods of lower priority."""
    expected: Expected = nothing_expected
    """Pods of at least the same priority that were nominated for a node."""
    nominated: str = ""
    """The node that the pod was nominated for earlier."""


def preempt(
    table: NodeTable,
    key: str,
    pod_info: PodInfo,
    refused: FitError,
    *,
    seed: int,
    context: PreemptionContext,
    pod_volumes: PodVolumeClaims = NO_CLAIMS,
) -> Victims | str:
    """Return the victims to evict for the pod called `key`, or the message that says why there are none."""
    if not pod_info.may_preempt:
        return reasons.NEVER_PREEMPTS
    if context.nominated and _still_leaving(table, pod_info, context.nominated):
        return reasons.VICTIM_LEAVING
    names = table.rows.names
    candidates = sorted(refused.open_rows.nonzero()[0].tolist(), key=names.__getitem__)
    words: Counter[str] = Counter()
    closed = table.rows.nodes - len(candidates)
    if closed:
        words[reasons.NOT_HELPFUL] = closed
    if pod_info.priority <= table.lowest_priority:
        words[reasons.NO_VICTIMS] += len(candidates)
        return reasons.unavailable(table.rows.nodes, words.elements())
    budgets = tuple(context.budgets())
    found: list[Victims] = []
    most = max(FEWEST_CANDIDATES, table.rows.nodes // 10)
    start = draw(seed, key) % len(candidates) if candidates else 0
    for row in candidates[start:] + candidates[:start]:
        outcome = _victims_at(
            table, pod_info, pod_volumes, row, budgets=budgets, expected=context.expected(names[row])
        )
        if isinstance(outcome, Victims):
            found.append(outcome)
            if len(found) >= most:
                break
        else:
            words.update(outcome)
    if found:
        return min(found, key=_harm)
    return reasons.unavailable(table.rows.nodes, words.elements())


def _victims_at(
    table: NodeTable,
    pod_info: PodInfo,
    pod_volumes: PodVolumeClaims,
    row: int,
    *,
    budgets: Sequence[PDBLimit],
    expected: Sequence[AssignedPod],
) -> Victims | Sequence[str]:
    lower = sorted((p for p in table.on(row) if p.pod_info.priority < pod_info.priority), key=_importance)
    if not lower:
        return [reasons.NO_VICTIMS]
    with table.supposing(without=lower, having=expected):
        if not feasible_at(table, pod_info, pod_volumes, row):
            return refusal_at(table, pod_info, pod_volumes, row)
        protected, others = _by_protection(lower, budgets)
        victims: list[AssignedPod] = []
        violations = 0
        for pod in (*protected, *others):
            table.put(pod)
            if not feasible_at(table, pod_info, pod_volumes, row):
                table.take(pod.key)
                victims.append(pod)
                violations += pod in protected
    if not victims:
        return [reasons.NO_VICTIMS]
    return Victims(table.rows.names[row], tuple(sorted(victims, key=_importance)), violations)


def _by_protection(
    pods: Sequence[AssignedPod], budgets: Sequence[PDBLimit]
) -> tuple[list[AssignedPod], list[AssignedPod]]:
    """
    Split `pods` into those whose eviction would break a budget, counting from the most important, and the
    others.
    """
    left = [budget.allowed for budget in budgets]
    protected: list[AssignedPod] = []
    others: list[AssignedPod] = []
    for pod in pods:
        covering = [n for n, budget in enumerate(budgets) if budget.covers(pod)]
        for n in covering:
            left[n] -= 1
        broken = any(left[n] < 0 for n in covering)
        (protected if broken else others).append(pod)
    return protected, others


def _importance(pod: AssignedPod) -> tuple[int, datetime, str]:
    """Sort the most important first: the highest priority, then the longest running."""
    return -pod.pod_info.priority, pod.started or datetime.max.replace(tzinfo=UTC), pod.key


def _harm(victims: Victims) -> tuple[int, int, int, int, float, str]:
    highest = victims.pods[0].pod_info.priority
    first_started = min(
        (pod.started or _LONG_AGO) for pod in victims.pods if pod.pod_info.priority == highest
    )
    return (
        victims.violations,
        highest,
        sum(pod.pod_info.priority - _LOWEST_PRIORITY for pod in victims.pods),
        len(victims.pods),
        -first_started.timestamp(),
        victims.node,
    )


def _still_leaving(table: NodeTable, pod_info: PodInfo, nominated: str) -> bool:
    row = table.rows.find(nominated)
    return row is not None and any(
        pod.preempted and pod.pod_info.priority < pod_info.priority for pod in table.on(row)
    )
