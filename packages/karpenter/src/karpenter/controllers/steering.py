"""Steering: annotates pods and taints nodes so that nodes empty by themselves; the core decides which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from karpenter.core.disruption.steering import steer, unsteer
from karpenter.kube.errors import Conflict, KubeError, NotFound

if TYPE_CHECKING:
    from karpenter.base.clock import Clock
    from karpenter.controllers.perform import Performer
    from karpenter.core.state.cluster import ClusterState

log = structlog.stdlib.get_logger(__name__)

PERIOD: Final = 120.0
"""Seconds between two looks: ranks that change more often would only cause writes."""

UNSYNCED: Final = 1.0


class Steering:
    """Lets machines empty by themselves; where that is off, lets them be as all others."""

    name = "disruption.steering"

    def __init__(self, store: ClusterState, performer: Performer, clock: Clock, *, on: bool) -> None:
        self._store = store
        self._performer = performer
        self._clock = clock
        self._on = on

    async def look(self) -> float:
        """Go over the cluster once; return after how many seconds to do so again."""
        if not self._store.synced:
            return UNSYNCED
        view = self._store.view()
        for effect in steer(view, self._clock.now()) if self._on else unsteer(view):
            try:
                await self._performer.perform([effect])
            except (Conflict, NotFound):
                continue  # it changed or went meanwhile; the next look sees how
            except KubeError as error:
                log.warning("steering.failed", object=f"{effect.kind} {effect.name}", error=str(error))
                break
        return PERIOD
