"""
Duties of the cloud provider, run as controllers of our own: it says what is due, and we carry it out.

What every pool may buy at this moment, as one catalogue.
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
    """A chore as a round: what fails is tried again, later each time."""

    def __init__(self, chore: SingletonController, performer: Performer) -> None:
        self.name = chore.name
        self._chore = chore
        self._performer = performer
        self._failures = 0

    async def look(self) -> float:
        """Do it once; return after how many seconds to do so again."""
        try:
            step = await self._chore.look()
            await self._performer.perform(step.effects)
        except (CloudError, KubeError) as error:
            self._failures += 1
            wait = max(
                _AFTER_FAILURE.delay(self._failures),
                error.retry_after if isinstance(error, Throttled) else 0.0,
            )
            log.warning("chore.failed", controller=self.name, error=str(error), again=wait)
            return wait
        self._failures = 0
        return USUAL_WAIT if step.again is None else step.again


class ProviderReconciler:
    """A care as a reconciler."""

    def __init__(self, care: ObjectController, performer: Performer) -> None:
        self.name = care.name
        self._care = care
        self._performer = performer

    async def reconcile(self, key: str) -> float | None:
        """Look at one object and do what is due."""
        step = await self._care.reconcile(key)
        await self._performer.perform(step.effects)
        return step.again


class PoolCatalogs:
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
