"""
How many machines of each pool may start to leave now, for which reason.

Counts machines and asks the pool's budgets; taking a machine uses up what it counts for.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from karpenter.core.disruption.budgets import binding, headroom, read_budgets
from karpenter.core.state.view import is_true

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.state.nodes import StateNode
    from karpenter.core.state.view import ClusterView


class Headroom:
    """What the budgets of every pool leave for one reason."""

    def __init__(self, nodes: Iterable[StateNode], view: ClusterView, reason: str, now: datetime) -> None:
        self.reason = reason
        nodes = tuple(nodes)
        size, leaving = strength(nodes)
        self._going = Counter(node.pool for node in nodes if node.is_leaving)
        self._replaced = Counter(node.pool for node in nodes if node.is_being_replaced)
        self._left: dict[str, int] = {}
        self._binding: dict[str, str] = {}
        for name, pool in view.pools.items():
            budgets = read_budgets(pool.spec.disruption.budgets)
            count = size.get(name, 0)
            self._left[name] = headroom(
                budgets, reason=reason, pool_size=count, disrupting=leaving.get(name, 0), now=now
            )
            tightest = binding(budgets, reason=reason, pool_size=count, now=now)
            self._binding[name] = str(tightest) if tightest is not None else "none"

    def allows(self, candidate: Candidate) -> bool:
        """Return whether one more machine of the candidate's pool may go."""
        return self._left.get(candidate.pool.name, 0) > 0

    def take(self, candidate: Candidate) -> None:
        """Use up one."""
        self._left[candidate.pool.name] -= 1

    def within(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Return as many of the candidates as may go together, the first ones first."""
        left = dict(self._left)
        found = []
        for candidate in candidates:
            if left.get(candidate.pool.name, 0) > 0:
                left[candidate.pool.name] -= 1
                found.append(candidate)
        return found

    def going(self, pool: str) -> int:
        """Return how many machines of a pool are on their way out and still there."""
        return self._going[pool]

    def replaced(self, pool: str) -> int:
        """Return how many of those wait for what replaces them."""
        return self._replaced[pool]

    def obstacle(self, candidate: Candidate) -> str:
        """Return what a budget says about a candidate that it holds."""
        pool = candidate.pool.name
        budget = self._binding[pool]
        return f"the disruption budget of NodePool {pool} ({budget}) allows no more for {self.reason}"


def strength(nodes: Iterable[StateNode]) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many machines each pool has, and how many of them use up its budgets already."""
    size: dict[str, int] = {}
    leaving: dict[str, int] = {}
    for node in nodes:
        if not node.pool or not node.is_initialized or _is_gone(node):
            continue
        size[node.pool] = size.get(node.pool, 0) + 1
        if node.is_leaving or not node.is_ready:
            leaving[node.pool] = leaving.get(node.pool, 0) + 1
    return size, leaving


def _is_gone(node: StateNode) -> bool:
    return node.claim is not None and is_true(node.claim.status.conditions, "InstanceTerminating")
