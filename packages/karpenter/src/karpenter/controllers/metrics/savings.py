"""
Metrics of money: what machines cost, with and without pods, what commands save, and the bound of the bill.

What machines cost while they have no pods is measured at every scrape, for the time since the one before. The
bound needs a linear program: it is computed in a thread, every five minutes at most and less often where it
takes long, and only after the cluster has changed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter.core.disruption.command import EMPTY, UNDERUTILIZED, Command, KeptNode
from karpenter.core.disruption.cost import price_of
from karpenter.core.disruption.disrupt import savings_bound
from karpenter.core.state.pod import is_active, is_owned_by_daemonset
from karpenter.core.state.statenode import StateNode, state_nodes
from karpenter.telemetry.metrics import Metrics
from karpenter.telemetry.metrics import savings as declared

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karpenter.base.clock import Clock
    from karpenter.controllers.executor import Executor
    from karpenter.controllers.metrics.nodepool import Catalogs
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.churn import SavingLifetimes
    from karpenter.core.disruption.settings import DisruptionContext
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterState, ClusterView

PERIOD: Final = 300.0
"""Seconds between two computations of the bound, at least."""

_SHARE: Final = 50.0
"""A computation that took a second is followed by a pause of so many."""

_HOUR: Final = 3600.0
_BOUGHT: Final = {"capacity_type": CAPACITY_TYPE, "zone": ZONE, "instance_type": INSTANCE_TYPE}
_SAVING: Final = frozenset({EMPTY, UNDERUTILIZED})

UndoCause: TypeAlias = Literal[
    "replacement_lost", "replacement_late", "successor_late", "removal_late", "nodes_kept"
]
"""Why a command that had begun was undone."""


class CostMetrics:
    """Shows what machines cost, and counts what they cost without pods."""

    def __init__(self, store: ClusterState, metrics: Metrics, catalogs: Catalogs, clock: Clock) -> None:
        self._store = store
        self._metrics = metrics
        self._catalogs = catalogs
        self._clock = clock
        self._since = clock.monotonic()
        metrics.before_reading(self.refresh)

    def refresh(self) -> None:
        """Show what machines cost now, and count the time since the last scrape."""
        catalog, now = self._catalogs.latest, self._clock.monotonic()
        passed, self._since = now - self._since, now
        costs: defaultdict[tuple[str, ...], float] = defaultdict(float)
        for node in state_nodes(self._store.view()):
            if node.claim is None or not node.claim.status.provider_id:
                continue
            price = (price_of(node, catalog) if catalog is not None else None) or 0.0
            costs[(node.pool, *(node.labels.get(each, "") for each in _BOUGHT.values()))] += price
            if not has_pods(node):
                labels = {"nodepool": node.pool, "state": idle_state(node)}
                self._metrics[declared.IDLE_SECONDS].add(passed, **labels)
                self._metrics[declared.IDLE_COST].add(passed / _HOUR * price, **labels)
        names = ("nodepool", *_BOUGHT)
        rows = [(cost, dict(zip(names, key, strict=True))) for key, cost in costs.items()]
        self._metrics[declared.NODE_COST].publish("cluster", rows)


def has_pods(node: StateNode) -> bool:
    """Whether pods run on a machine that are not of a DaemonSet."""
    return any(is_active(pod) and not is_owned_by_daemonset(pod) for pod in node.pods)


def idle_state(node: StateNode) -> str:
    """Return what a machine without pods is doing: starting, empty or terminating."""
    if node.is_deleting:
        return "terminating"
    return "empty" if node.is_initialized else "starting"


class SavingsMetrics:
    """Counts what commands were to save, what they saved, what they moved, and which were undone."""

    def __init__(self, store: ClusterState, metrics: Metrics, catalogs: Catalogs) -> None:
        self._store = store
        self._metrics = metrics
        self._catalogs = catalogs

    def begun(self, command: Command) -> None:
        """Count what a command is to save."""
        if command.reason in _SAVING:
            self._metrics[declared.PLANNED].add(max(0.0, command.saving), **_labels(command))

    def finished(
        self, command: Command, candidates: Sequence[Candidate], replacements: Iterable[str]
    ) -> None:
        """Count what a command saves now that its nodes are deleted; `replacements` are its NodeClaims."""
        moved = sum(len(each.pods) for each in candidates)
        self._metrics[declared.EVICTIONS].add(float(moved), **_labels(command))
        if command.reason in _SAVING:
            saved = sum(each.price or 0.0 for each in candidates) - self._paid(command, replacements)
            self._metrics[declared.REALIZED].add(max(0.0, saved), **_labels(command))

    def undone(self, command: Command, cause: UndoCause) -> None:
        self._metrics[declared.UNDONE].add(**_labels(command), cause=cause)

    def observed(self, before: SavingLifetimes, after: SavingLifetimes, missed: Iterable[str] = ()) -> None:
        """Note savings that have ended between two looks, and NodePools whose pods landed elsewhere."""
        for each in after:
            if each.until is not None and each not in before:
                lasted = (each.until - each.since).total_seconds()
                self._metrics[declared.SAVINGS_LIFETIME].observe(lasted, nodepool=each.pool)
        for pool in missed:
            self._metrics[declared.MISSED].add(nodepool=pool)

    def decided(self, kept: Iterable[KeptNode], view: ClusterView) -> None:
        """Show what keeps the nodes that stay, and what they cost."""
        pools = {node.name: node.pool for node in state_nodes(view)}
        counts: Counter[tuple[str, str]] = Counter()
        costs: dict[tuple[str, str], float] = {}
        for each in kept:
            key = (pools.get(each.node, ""), str(each.code))
            counts[key] += 1
            costs[key] = costs.get(key, 0.0) + each.hourly
        self._metrics[declared.KEPT_NODES].publish("decision", _by_code(counts))
        self._metrics[declared.KEPT_COST].publish("decision", _by_code(costs))

    def _paid(self, command: Command, replacements: Iterable[str]) -> float:
        """Return what the replacements cost, as launched; as planned where that is not known."""
        catalog, view = self._catalogs.latest, self._store.view()
        launched = {node.claim.name: node for node in state_nodes(view) if node.claim is not None}
        paid = 0.0
        for new, name in zip(command.replacements, replacements, strict=True):
            node = launched.get(name)
            price = price_of(node, catalog) if node is not None and catalog is not None else None
            paid += new.purchase.price if price is None else price
        return paid


def _labels(command: Command) -> dict[str, str]:
    return {
        "decision": command.decision,
        "reason": command.reason.lower(),
        "consolidation_type": command.consolidation_type,
    }


def _by_code(found: Mapping[tuple[str, str], float]) -> list[tuple[float, dict[str, str]]]:
    return [(float(value), {"nodepool": pool, "code": code}) for (pool, code), value in found.items()]


class BoundMetrics:
    """Shows what the nodes that consolidation may touch cost, and the least that they could."""

    name = "metrics.bound"

    def __init__(
        self,
        store: ClusterState,
        metrics: Metrics,
        catalogs: Catalogs,
        worker: Executor,
        clock: Clock,
        *,
        context: DisruptionContext,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._catalogs = catalogs
        self._worker = worker
        self._clock = clock
        self._context = context
        self._computed_for: int | None = None
        self._catalog: Catalog | None = None

    async def look(self) -> float:
        """Compute the bound if the cluster or prices have changed since the last time."""
        catalog, state = self._catalogs.latest, self._store.consolidation_state
        if catalog is None or not self._store.synced:
            return _SHARE
        if self._computed_for == state and self._catalog is catalog:
            return PERIOD
        self._computed_for, self._catalog = state, catalog
        began, view, now = self._clock.monotonic(), self._store.view(), self._clock.now()
        found = await self._worker.run(lambda: savings_bound(view, catalog, now=now, context=self._context))
        self._metrics[declared.CONSOLIDATABLE_COST].set(found.hourly)
        self._metrics[declared.COST_BOUND].set(min(found.least, found.hourly))
        return max(PERIOD, _SHARE * (self._clock.monotonic() - began))
