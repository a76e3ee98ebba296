"""The interruption controller: deletes NodeClaims whose machine the cloud will reclaim, before it does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, SPOT, ZONE
from karpenter.cloud.errors import CloudError
from karpenter.core.lifecycle.interruption import InterruptionHistory, handle_interruption, may_get_claim
from karpenter.kube.errors import KubeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.base.clock import Clock
    from karpenter.cloud.cloudprovider import Interruptible, Interruption
    from karpenter.controllers.perform import Performer
    from karpenter.core.state.cluster import ClusterState

log = structlog.stdlib.get_logger(__name__)

AFTER_FAILURE = 5.0


class SpotInterruptions:
    """How often spot machines were interrupted while this process runs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._history = InterruptionHistory()
        self._rates: Mapping[tuple[str, str], float] = {}

    def note(self, claim: NodeClaim, claims: Iterable[NodeClaim]) -> None:
        """Count the interruption of a spot machine, among all `claims` of the cluster."""
        place = _spot_place(claim)
        if place is not None:
            running = sum(_spot_place(each) == place for each in claims)
            self._history = self._history.after(*place, running=running, now=self._clock.now())

    def rates(self) -> Mapping[tuple[str, str], float]:
        """Return interruptions per month by instance type and zone; the same value until one changes."""
        if not self._history.rates:
            return self._rates
        found = self._history.bands(self._clock.now())
        if found != self._rates:
            self._rates = found
        return self._rates


def _spot_place(claim: NodeClaim) -> tuple[str, str] | None:
    """Return the instance type and the zone of a spot machine; None for others."""
    labels = claim.metadata.labels
    if labels.get(CAPACITY_TYPE) != SPOT:
        return None
    return labels.get(INSTANCE_TYPE, ""), labels.get(ZONE, "")


class InterruptionReconciler:
    """Handles the interruption messages of a cloud provider."""

    name = "interruption"

    def __init__(
        self,
        store: ClusterState,
        performer: Performer,
        cloud: Interruptible,
        clock: Clock,
        *,
        spot: SpotInterruptions | None = None,
    ) -> None:
        self._spot = spot or SpotInterruptions(clock)
        self._store = store
        self._performer = performer
        self._cloud = cloud
        self._clock = clock

    async def run(self) -> None:
        """Handle messages until cancelled; a message that failed is delivered again."""
        while True:
            try:
                messages = await self._cloud.interruptions()
            except CloudError as error:
                log.warning("interruption.not_received", error=str(error))
                await self._clock.sleep(AFTER_FAILURE)
                continue
            failed = [error for error in await asyncio.gather(*map(self._try, messages)) if error is not None]
            if failed:
                log.warning("interruption.not_handled", count=len(failed), error=str(failed[0]))
                await self._clock.sleep(AFTER_FAILURE)

    async def _try(self, message: Interruption) -> Exception | None:
        """Handle one message, and return its error instead of raising it, so that the others are handled."""
        try:
            await self._handle(message)
        except (CloudError, KubeError) as error:
            return error
        return None

    async def _handle(self, message: Interruption) -> None:
        claims = self._store.claims_of(message.provider_id) if message.provider_id else ()
        running = self._store.view().claims.values()
        if not claims and may_get_claim(running, at=message.at, now=self._clock.now()):
            return  # without acknowledgement it is returned again
        for claim in claims:
            log.info(
                "machine.interrupted",
                nodeclaim=claim.name,
                provider_id=message.provider_id,
                kind=message.kind,
                drains=message.drains,
            )
            # A machine that is taken back is announced more than once: by a warning, and as it stops.
            if message.drains and claim.metadata.deletion_timestamp is None:
                self._spot.note(claim, running)
            await self._performer.perform(
                handle_interruption(
                    claim,
                    self._store.nodes_of(message.provider_id),
                    kind=message.kind,
                    drains=message.drains,
                    forceful=message.forceful,
                    now=self._clock.now(),
                )
            )
        await self._cloud.acknowledge(message)
