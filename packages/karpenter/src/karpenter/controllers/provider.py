"""
Runs the controllers of the cloud provider, and asks it for the instance types of NodePools.

The provider decides what is due; the effects that it returns are performed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from karpenter.base.queue import Backoff
from karpenter.cloud.errors import CloudError, NodeClassNotReady, Throttled
from karpenter.controllers.controller import call_cloud
from karpenter.core.model.catalog import EMPTY, combine
from karpenter.kube.errors import KubeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.nodepool import NodePool
    from karpenter.cloud.cloudprovider import CloudProvider, ObjectController, SingletonController
    from karpenter.controllers.perform import Performer
    from karpenter.core.model.catalog import Catalog


log = structlog.stdlib.get_logger(__name__)

USUAL_WAIT: Final = 60.0
_AFTER_FAILURE: Final = Backoff(first=5.0, cap=600.0)


class ProviderSingleton:
    """A singleton controller of the provider; after an error it runs again, later each time."""

    def __init__(self, controller: SingletonController, performer: Performer) -> None:
        self.name = controller.name
        self._controller = controller
        self._performer = performer
        self._failures = 0

    async def look(self) -> float:
        """Run once; return after how many seconds to run again."""
        try:
            step = await self._controller.look()
            await self._performer.perform(step.effects)
        except (CloudError, KubeError) as error:
            self._failures += 1
            wait = max(
                _AFTER_FAILURE.delay(self._failures),
                error.retry_after if isinstance(error, Throttled) else 0.0,
            )
            log.warning("provider_controller.failed", controller=self.name, error=str(error), again=wait)
            return wait
        self._failures = 0
        return USUAL_WAIT if step.again is None else step.again


class ProviderReconciler:
    """An object controller of the provider."""

    def __init__(self, controller: ObjectController, performer: Performer) -> None:
        self.name = controller.name
        self._controller = controller
        self._performer = performer

    async def reconcile(self, key: str) -> float | None:
        """Reconcile one object, and perform the effects."""
        step = await self._controller.reconcile(key)
        await self._performer.perform(step.effects)
        return step.again


class PoolCatalogs:
    """The instance types of NodePools, as one catalogue; the same value until something changes."""

    def __init__(self, cloud: CloudProvider) -> None:
        self._cloud = cloud
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
        if self._combined is None or not _same(found, self._of):
            self._of, self._combined = found, combine(found)
        return self._combined


def _same(new: dict[str, Catalog], old: dict[str, Catalog]) -> bool:
    return new.keys() == old.keys() and all(each is old[name] for name, each in new.items())
