"""Asks the cloud provider for the instance types of NodePools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from karpenter.cloud.errors import CloudError, NodeClassNotReady
from karpenter.controllers.cloudcalls import call_cloud
from karpenter.core.model.catalog import EMPTY, Catalog, combine
from karpenter.core.model.pricing import with_interruption_rates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from karpenter.api.nodepool import NodePool
    from karpenter.cloud.cloudprovider import CloudProvider


log = structlog.stdlib.get_logger(__name__)


class PoolCatalogs:
    """The instance types of NodePools, as one catalogue; the same value until something changes."""

    def __init__(
        self, cloud: CloudProvider, rates: Callable[[], Mapping[tuple[str, str], float]] = dict
    ) -> None:
        """`rates` says how often spot machines are interrupted per month, by instance type and zone."""
        self._cloud = cloud
        self._rates = rates
        self._rated: Mapping[tuple[str, str], float] = {}
        self._of: dict[str, Catalog] = {}
        self._combined: Catalog | None = None

    @property
    def latest(self) -> Catalog | None:
        """The last catalogue; None before the first."""
        return self._combined

    async def of(self, pools: Iterable[NodePool]) -> Catalog:
        """Return the catalogue of some NodePools; one whose instance types cannot be listed has none."""
        found: dict[str, Catalog] = {}
        for pool in pools:
            found[pool.name] = EMPTY
            try:
                found[pool.name] = await call_cloud(self._cloud.catalog(pool))
            except NodeClassNotReady as error:
                log.debug("catalog.not_ready", nodepool=pool.name, error=str(error))
            except CloudError as error:
                log.warning("catalog.not_read", nodepool=pool.name, error=str(error))
        rates = self._rates()
        if self._combined is None or rates != self._rated or not _same(found, self._of):
            self._of, self._rated = found, rates
            self._combined = with_interruption_rates(combine(found), rates)
        return self._combined


def _same(new: dict[str, Catalog], old: dict[str, Catalog]) -> bool:
    return new.keys() == old.keys() and all(each is old[name] for name, each in new.items())
