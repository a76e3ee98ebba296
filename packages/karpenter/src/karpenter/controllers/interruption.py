"""What the cloud will take away: the claim goes first, so that its pods move in time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from karpenter.cloud.errors import CloudError
from karpenter.core.lifecycle.interruption import handle_interruption
from karpenter.kube.errors import KubeError

if TYPE_CHECKING:
    from karpenter.base.clock import Clock
    from karpenter.cloud.cloudprovider import Interruptible, Interruption
    from karpenter.controllers.perform import Performer
    from karpenter.core.state.cluster import ClusterState

log = structlog.stdlib.get_logger(__name__)

AFTER_FAILURE = 5.0


class InterruptionReconciler:
    """Listens to the cloud."""

    name = "interruption"

    def __init__(self, store: ClusterState, performer: Performer, cloud: Interruptible, clock: Clock) -> None:
        self._store = store
        self._performer = performer
        self._cloud = cloud
        self._clock = clock

    async def run(self) -> None:
        """Act on news for as long as there are any; what failed is told again."""
        while True:
            try:
                news = await self._cloud.interruptions()
            except CloudError as error:
                log.warning("interruption.not_heard", error=str(error))
                await self._clock.sleep(AFTER_FAILURE)
                continue
            failed = [error for error in await asyncio.gather(*map(self._tried, news)) if error is not None]
            if failed:
                log.warning("interruption.not_handled", count=len(failed), error=str(failed[0]))
                await self._clock.sleep(AFTER_FAILURE)

    async def _tried(self, news: Interruption) -> Exception | None:
        """Act on one, and return what went wrong: it must not keep us from the others."""
        try:
            await self._act(news)
        except (CloudError, KubeError) as error:
            return error
        return None

    async def _act(self, news: Interruption) -> None:
        log.info("machine.interrupted", provider_id=news.provider_id, kind=news.kind, drains=news.drains)
        for claim in self._store.claims_of(news.provider_id):
            await self._performer.perform(
                handle_interruption(
                    claim,
                    self._store.nodes_of(news.provider_id),
                    kind=news.kind,
                    drains=news.drains,
                    forceful=news.forceful,
                    now=self._clock.now(),
                )
            )
        await self._cloud.acknowledge(news)
