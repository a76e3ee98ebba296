"""
Runs the controllers of the cloud provider, which decide what is due; the effects that they return are
performed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from karpenter.base.queue import Backoff
from karpenter.cloud.errors import CloudError, Throttled
from karpenter.kube.errors import KubeError

if TYPE_CHECKING:
    from karpenter.cloud.cloudprovider import ObjectController, SingletonController
    from karpenter.controllers.perform import Performer


log = structlog.stdlib.get_logger(__name__)

USUAL_WAIT: Final = 60.0
_AFTER_FAILURE: Final = Backoff(first=5.0, cap=600.0)


class ProviderReconciler:
    """An object controller of the provider."""

    def __init__(self, controller: ObjectController, performer: Performer) -> None:
        self.name = controller.name
        self.kinds = controller.kinds
        self.wakes = controller.wakes
        self._controller = controller
        self._performer = performer

    async def reconcile(self, key: str) -> float | None:
        """Reconcile one object, and perform the effects."""
        step = await self._controller.reconcile(key)
        await self._performer.perform(step.effects)
        return step.again


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
