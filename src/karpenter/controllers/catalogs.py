"""What every pool may buy at this moment, as one catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from karpenter.cloud.errors import CloudError, NodeClassNotReady
from karpenter.controllers.patience import answer
from karpenter.core.model.catalog import EMPTY, combine

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.nodepool import NodePool
    from karpenter.cloud.interface import CloudProvider
    from karpenter.core.model.catalog import Catalog

log = structlog.stdlib.get_logger(__name__)


class Catalogs:
    """Asks the cloud what it sells; the same answers give the same value."""

    def __init__(self, cloud: CloudProvider) -> None:
        self._cloud = cloud
        self._of: dict[str, Catalog] = {}
        self._combined: Catalog | None = None

    @property
    def latest(self) -> Catalog | None:
        """What was answered last; None when nobody has asked yet."""
        return self._combined

    async def of(self, pools: Iterable[NodePool]) -> Catalog:
        """Return what some pools may buy; a pool that the cloud cannot answer for may buy nothing."""
        found: dict[str, Catalog] = {}
        for pool in pools:
            found[pool.name] = EMPTY
            try:
                found[pool.name] = await answer(self._cloud.catalog(pool))
            except NodeClassNotReady as error:
                log.debug("catalog.not_ready", nodepool=pool.name, error=str(error))
            except CloudError as error:
                log.warning("catalog.not_read", nodepool=pool.name, error=str(error))
        if self._combined is None or not _same(found, self._of):
            self._of, self._combined = found, combine(found)
        return self._combined


def _same(new: dict[str, Catalog], old: dict[str, Catalog]) -> bool:
    return new.keys() == old.keys() and all(each is old[name] for name, each in new.items())
