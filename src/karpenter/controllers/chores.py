"""Duties of the cloud provider, run as controllers of our own: it says what is due, and we carry it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from karpenter.base.aio.backoff import Backoff
from karpenter.cloud.errors import CloudError, Throttled
from karpenter.kube.errors import KubeError

if TYPE_CHECKING:
    from karpenter.cloud.chores import Care, Chore
    from karpenter.controllers.perform import Performer

log = structlog.stdlib.get_logger(__name__)

USUAL_WAIT: Final = 60.0
_AFTER_FAILURE: Final = Backoff(first=5.0, cap=600.0)


class ChoreRound:
    """A chore as a round: what fails is tried again, later each time."""

    def __init__(self, chore: Chore, performer: Performer) -> None:
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


class CareTaker:
    """A care as a reconciler."""

    def __init__(self, care: Care, performer: Performer) -> None:
        self.name = care.name
        self._care = care
        self._performer = performer

    async def reconcile(self, key: str) -> float | None:
        """Look at one object and do what is due."""
        step = await self._care.reconcile(key)
        await self._performer.perform(step.effects)
        return step.again
