"""Metrics of NodePools: limits, usage, cost, allowed disruptions, and nodes eligible for disruption."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter.base.quantity import QuantityError
from karpenter.controllers.metrics.node import resource_label, unit
from karpenter.core.disruption.budgets import budget_usage, read_budgets, tightest_budget
from karpenter.core.disruption.candidates import Candidate, find_candidates
from karpenter.core.disruption.command import DRIFTED, EMPTY, UNDERUTILIZED
from karpenter.core.disruption.cost import price_of
from karpenter.core.model.catalog import Catalog
from karpenter.core.model.resources import parse_resources
from karpenter.core.state.pdb import PdbLimits
from karpenter.core.state.statenode import state_nodes
from karpenter.telemetry.metrics import Metrics, disruption, nodepools
from karpenter.telemetry.metrics import nodepools as declared

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.api.meta import ResourceList
    from karpenter.base.clock import Clock
    from karpenter.controllers.executor import Executor
    from karpenter.core.state.cluster import ClusterState, ClusterView

REASONS: Final = (EMPTY, DRIFTED, UNDERUTILIZED)
PERIOD: Final = 60.0
"""Seconds between two computations of the eligible nodes."""

_EMPTY_CATALOG: Final = Catalog(types=())


class Catalogs(Protocol):
    """The instance types of all NodePools."""

    @property
    def latest(self) -> Catalog | None:
        """The last catalog of the provider; None before the first."""
        ...


class NodePoolMetrics:
    """Shows limits, usage and cost of every NodePool."""

    def __init__(self, store: ClusterState, metrics: Metrics, catalogs: Catalogs) -> None:
        self._store = store
        self._metrics = metrics
        self._catalogs = catalogs
        self._shown: set[str] = set()
        self._unpriced: set[str] = set()
        metrics.before_reading(self.refresh)

    def refresh(self) -> None:
        pools = self._store.view().pools
        for name in self._shown - pools.keys():
            for gauge in (declared.LIMIT, declared.USAGE, declared.COST):
                self._metrics[gauge].retract(name)
        self._shown = set(pools)
        for name, pool in pools.items():
            self._metrics[declared.LIMIT].publish(name, _rows(name, pool.spec.limits))
            self._metrics[declared.USAGE].publish(name, _rows(name, pool.status.resources))
        self._show_costs()

    def _show_costs(self) -> None:
        catalog = self._catalogs.latest
        if catalog is None:
            return
        costs = dict.fromkeys(self._shown, 0.0)
        claims = set()
        for node in state_nodes(self._store.view()):
            told = node.claim is not None and {INSTANCE_TYPE, CAPACITY_TYPE, ZONE} <= node.labels.keys()
            if node.claim is None or not told or node.pool not in costs:
                continue
            price = price_of(node, catalog)
            claims.add(node.claim.name)
            if price is None and node.claim.name not in self._unpriced:
                self._unpriced.add(node.claim.name)
                self._metrics[declared.COST_TRACKER_ERRORS].add(nodepool=node.pool)
            costs[node.pool] += price or 0.0
        self._unpriced &= claims
        for name, cost in costs.items():
            self._metrics[declared.COST].publish(name, [(cost, {"nodepool": name})])


def _rows(pool: str, written: ResourceList) -> list[tuple[float, dict[str, str]]]:
    try:
        amounts = parse_resources(written)
    except QuantityError:  # the condition ValidationSucceeded reports it
        return []
    return [
        (unit(name, each), {"resource_type": resource_label(name), "nodepool": pool})
        for name, each in amounts.items()
    ]


class DisruptionBudgetMetrics:
    """Shows allowed disruptions at every scrape, and eligible nodes periodically."""

    name = "metrics.disruption"

    def __init__(
        self, store: ClusterState, metrics: Metrics, catalogs: Catalogs, worker: Executor, clock: Clock
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._catalogs = catalogs
        self._worker = worker
        self._clock = clock
        self._computed_for: int | None = None
        metrics.before_reading(self.refresh)

    async def look(self) -> float:
        """Compute the eligible nodes if the cluster has changed since the last time."""
        if self._store.complete and self._computed_for != self._store.consolidation_state:
            self._computed_for = self._store.consolidation_state
            view, now = self._store.view(), self._clock.now()
            catalog = self._catalogs.latest or _EMPTY_CATALOG
            nominated = self._store.nominated(now)
            counts = await self._worker.run(lambda: eligible_nodes(view, catalog, nominated, now))
            for reason, count in counts.items():
                self._metrics[disruption.ELIGIBLE_NODES].set(float(count), reason=reason.lower())
        return PERIOD

    def refresh(self) -> None:
        view, now = self._store.view(), self._clock.now()
        sizes, leaving = budget_usage(state_nodes(view))
        allowed, consuming = [], []
        for name, pool in view.pools.items():
            budgets, size = read_budgets(pool.spec.disruption.budgets), sizes.get(name, 0)
            for reason in REASONS:
                labels = {"nodepool": name, "reason": reason}
                tightest = tightest_budget(budgets, reason=reason, pool_size=size, now=now)
                allowed.append((float(tightest.ceiling(size)), labels))
                consuming.append((float(leaving.get(name, 0)), labels))
        self._metrics[nodepools.ALLOWED_DISRUPTIONS].publish("pools", allowed)
        self._metrics[nodepools.NODES_CONSUMING_BUDGETS].publish("pools", consuming)


def eligible_nodes(
    view: ClusterView, catalog: Catalog, nominated: frozenset[str], now: datetime
) -> dict[str, int]:
    """Count the nodes that are eligible for disruption, for each reason."""
    found = find_candidates(state_nodes(view), view, catalog, PdbLimits(view), now, nominated=nominated)
    counts = {}
    for reason in REASONS:
        every = (*found.candidates, *found.eventual) if reason == DRIFTED else found.candidates
        counts[reason] = sum(1 for each in every if is_eligible(each, reason))
    return counts


def is_eligible(candidate: Candidate, reason: str) -> bool:
    """Whether a candidate is eligible for disruption for a reason, budgets and savings aside."""
    if reason == DRIFTED:
        return bool(candidate.drift)
    spec = candidate.pool.spec
    if spec.replicas is not None or candidate.quiet:
        return False
    if candidate.is_empty or reason == EMPTY:
        return candidate.is_empty and reason == EMPTY
    return spec.disruption.consolidation_policy != "WhenEmpty" and candidate.price is not None
