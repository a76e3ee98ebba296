"""
Whom to evict so that a pod of higher priority gets a node.

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
from karpenter_local.scheduler.demand import Demand
from karpenter_local.scheduler.judge import Refused, feasible_at, refusal_at
from karpenter_local.scheduler.place import draw
from karpenter_local.scheduler.storage import NO_CLAIMS, Survey
from karpenter_local.scheduler.table import Occupant, Table

FEWEST_CANDIDATES = 100
"""Nodes compared before the best so far is taken, or a tenth of all nodes if that is more."""

_LOWEST_PRIORITY = -(2**31)
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class Budget(msgspec.Struct, frozen=True):
    """What a disruption budget allows at this moment."""

    namespace: str
    selector: Selector
    allowed: int
    already: frozenset[str] = frozenset()
    """Names of pods whose eviction it has already counted."""

    def covers(self, pod: Occupant) -> bool:
        """Say whether evicting `pod` would use up some of the budget."""
        identity = pod.demand.identity
        return (
            identity.namespace == self.namespace
            and pod.key.rpartition("/")[2] not in self.already
            and self.selector.matches(dict(identity.pairs))
        )


class Victims(msgspec.Struct, frozen=True):
    """The pods to evict from one node."""

    node: str
    pods: tuple[Occupant, ...]
    """The most important first."""
    violations: int
    """How many of them a disruption budget would protect."""


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What preemption needs to know beyond the pod."""

    budgets: Callable[[], Iterable[Budget]] = tuple
    """Asked only if there is somebody to evict."""
    expected: tuple[Occupant, ...] = ()
    """Pods of at least the same priority that room was made for."""
    nominated: str = ""
    """The node that room was made on for this pod earlier."""


def preempt(
    table: Table,
    key: str,
    demand: Demand,
    refused: Refused,
    *,
    seed: int,
    situation: Situation,
    survey: Survey = NO_CLAIMS,
) -> Victims | str:
    """Return whom to evict for the pod called `key`, or the words that say why nobody is."""
    if not demand.may_preempt:
        return reasons.NEVER_PREEMPTS
    if situation.nominated and _still_leaving(table, demand, situation.nominated):
        return reasons.VICTIM_LEAVING
    names = table.rows.names
    candidates = sorted(refused.open_rows.nonzero()[0].tolist(), key=names.__getitem__)
    words: Counter[str] = Counter()
    closed = table.rows.nodes - len(candidates)
    if closed:
        words[reasons.NOT_HELPFUL] = closed
    if demand.priority <= table.lowest_priority:
        words[reasons.NO_VICTIMS] += len(candidates)
        return reasons.unavailable(table.rows.nodes, words.elements())
    budgets = tuple(situation.budgets())
    found: list[Victims] = []
    most = max(FEWEST_CANDIDATES, table.rows.nodes // 10)
    start = draw(seed, key) % len(candidates) if candidates else 0
    for row in candidates[start:] + candidates[:start]:
        outcome = _victims_at(table, demand, survey, row, budgets=budgets, expected=situation.expected)
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
    table: Table,
    demand: Demand,
    survey: Survey,
    row: int,
    *,
    budgets: Sequence[Budget],
    expected: Sequence[Occupant],
) -> Victims | Sequence[str]:
    lower = sorted((p for p in table.on(row) if p.demand.priority < demand.priority), key=_importance)
    if not lower:
        return [reasons.NO_VICTIMS]
    with table.supposing(without=lower, having=expected):
        if not feasible_at(table, demand, survey, row):
            return refusal_at(table, demand, survey, row)
        protected, others = _by_protection(lower, budgets)
        victims: list[Occupant] = []
        violations = 0
        for pod in (*protected, *others):
            table.put(pod)
            if not feasible_at(table, demand, survey, row):
                table.take(pod.key)
                victims.append(pod)
                violations += pod in protected
    if not victims:
        return [reasons.NO_VICTIMS]
    return Victims(table.rows.names[row], tuple(sorted(victims, key=_importance)), violations)


def _by_protection(
    pods: Sequence[Occupant], budgets: Sequence[Budget]
) -> tuple[list[Occupant], list[Occupant]]:
    """
    Split `pods` into those whose eviction would break a budget, counting from the most important, and the
    others.
    """
    left = [budget.allowed for budget in budgets]
    protected: list[Occupant] = []
    others: list[Occupant] = []
    for pod in pods:
        covering = [n for n, budget in enumerate(budgets) if budget.covers(pod)]
        for n in covering:
            left[n] -= 1
        broken = any(left[n] < 0 for n in covering)
        (protected if broken else others).append(pod)
    return protected, others


def _importance(pod: Occupant) -> tuple[int, datetime, str]:
    """Sort the most important first: the highest priority, then the longest running."""
    return -pod.demand.priority, pod.started or datetime.max.replace(tzinfo=UTC), pod.key


def _harm(victims: Victims) -> tuple[int, int, int, int, float, str]:
    """Sort the least harmful first."""
    highest = victims.pods[0].demand.priority
    first_started = min((pod.started or _LONG_AGO) for pod in victims.pods if pod.demand.priority == highest)
    return (
        victims.violations,
        highest,
        sum(pod.demand.priority - _LOWEST_PRIORITY for pod in victims.pods),
        len(victims.pods),
        -first_started.timestamp(),
        victims.node,
    )


def _still_leaving(table: Table, demand: Demand, nominated: str) -> bool:
    row = table.rows.find(nominated)
    return row is not None and any(
        not pod.living and pod.demand.priority < demand.priority for pod in table.on(row)
    )
