"""
Shows instance types and offerings as metrics: once a minute, and only what has changed.

The names are Karpenter's: https://karpenter.sh/docs/reference/metrics/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from karpenter.api.labels import RESERVED
from karpenter.cloud.aws.metrics import (
    CPU_CORES,
    MEMORY_BYTES,
    OFFERING_AVAILABLE,
    OFFERING_PRICE,
    ProviderMetrics,
)
from karpenter.cloud.errors import CloudError
from karpenter.core.effects import Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from karpenter.cloud.aws.instancetype.instancetype import InstanceTypeStore
    from karpenter.cloud.cloudprovider import CloudProvider
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView

log = structlog.stdlib.get_logger(__name__)

UPDATE_SECONDS: Final = 60.0
_MIB: Final = 2**20

Series = tuple[str, str, str]
"""Instance type, capacity type, zone."""


class InstanceTypeMetricsController:
    """Publishes the metrics of instance types and offerings."""

    name = "cloudprovider.metrics"

    def __init__(
        self,
        *,
        provider: CloudProvider,
        view: Callable[[], ClusterView],
        instance_types: InstanceTypeStore,
        metrics: ProviderMetrics,
        reserved_capacity: bool,
    ) -> None:
        self._provider = provider
        self._view = view
        self._instance_types = instance_types
        self._metrics = metrics
        self._reserved_capacity = reserved_capacity
        self._shown: tuple[Catalog, ...] = ()
        self._version = -1

    async def look(self) -> Step:
        """Publish the offerings of every NodePool; one whose instance types cannot be listed is left out."""
        self._show_types()
        catalogs: list[Catalog] = []
        for pool in self._view().pools.values():
            try:
                catalogs.append(await self._provider.catalog(pool))
            except CloudError as error:
                log.debug("offerings.not_shown", nodepool=pool.name, error=str(error))
        same = len(catalogs) == len(self._shown) and all(map(_is, catalogs, self._shown))
        if not same:
            self._shown = tuple(catalogs)
            self._show_offerings(catalogs)
        return Step(again=UPDATE_SECONDS)

    def _show_types(self) -> None:
        if self._version == self._instance_types.version:
            return
        self._version = self._instance_types.version
        facts = [each.facts for each in self._instance_types.types.values()]
        self._metrics.show(
            CPU_CORES, "types", ((float(each.cpus), {"instance_type": each.name}) for each in facts)
        )
        self._metrics.show(
            MEMORY_BYTES,
            "types",
            ((float(each.memory_mib * _MIB), {"instance_type": each.name}) for each in facts),
        )

    def _show_offerings(self, catalogs: Iterable[Catalog]) -> None:
        available: dict[Series, bool] = {}
        prices: dict[Series, float] = {}
        for catalog in catalogs:
            for kind in catalog.types:
                for each in kind.offerings:
                    series = (kind.name, each.capacity_type, each.zone)
                    available[series] = available.get(series, False) or each.available
                    prices[series] = each.price
        if self._reserved_capacity:
            for name, _, zone in tuple(available):
                available.setdefault((name, RESERVED, zone), False)
                prices.setdefault((name, RESERVED, zone), 0.0)
        self._metrics.show(
            OFFERING_AVAILABLE, "offerings", ((float(on), _labels(key)) for key, on in available.items())
        )
        self._metrics.show(
            OFFERING_PRICE, "offerings", ((price, _labels(key)) for key, price in prices.items())
        )


def _labels(series: Series) -> dict[str, str]:
    name, capacity_type, zone = series
    return {"instance_type": name, "capacity_type": capacity_type, "zone": zone}


def _is(one: object, other: object) -> bool:
    return one is other
