"""Pools as metrics show them: their limits, what they have, what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter.base.quantity import QuantityError
from karpenter.controllers.measuring.nodes import unit
from karpenter.core.disruption.costs import price_of
from karpenter.core.model.resources import parse_resources
from karpenter.core.state.nodes import state_nodes
from karpenter.telemetry.metrics import nodepools as declared

if TYPE_CHECKING:
    from karpenter.api.wire import ResourceList
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.store import Store
    from karpenter.telemetry.metrics import Metrics


class Catalogs(Protocol):
    """What was last found to be sold."""

    @property
    def latest(self) -> Catalog | None:
        """The whole of it; None when nobody has asked yet."""
        ...


class PoolGauges:
    """Shows every pool."""

    def __init__(self, store: Store, metrics: Metrics, catalogs: Catalogs) -> None:
        self._store = store
        self._metrics = metrics
        self._catalogs = catalogs
        self._shown: set[str] = set()
        self._unpriced: set[str] = set()
        metrics.before_reading(self.refresh)

    def refresh(self) -> None:
        """Bring the gauges up to date."""
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
    except QuantityError:  # its validation says so
        return []
    return [(unit(name, each), {"resource_type": name, "nodepool": pool}) for name, each in amounts.items()]
