"""Once in a while: claims without a machine, and machines without a claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.controllers.patience import answer
from karpenter.core.lifecycle.collect import PERIOD, without_claim, without_machine

if TYPE_CHECKING:
    from karpenter.base.clock import Clock
    from karpenter.cloud.interface import CloudProvider
    from karpenter.controllers.perform import Performer
    from karpenter.core.state.store import Store


class GarbageCollection:
    """Removes what was left behind."""

    name = "nodeclaim.garbagecollection"

    def __init__(self, store: Store, performer: Performer, cloud: CloudProvider, clock: Clock) -> None:
        self._store = store
        self._performer = performer
        self._cloud = cloud
        self._clock = clock

    async def look(self) -> float:
        """Compare what we have asked for with what there is."""
        before = tuple(self._store.view().claims.values())
        machines = await answer(self._cloud.list())
        view = self._store.view()
        await self._performer.perform(
            without_machine(before, machines, self._store.nodes_of, view.pods_by_node)
        )
        await self._performer.perform(without_claim(machines, view.claims.values(), self._clock.now()))
        return PERIOD
