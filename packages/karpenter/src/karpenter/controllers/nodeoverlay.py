"""The controller of NodeOverlays: validates all of them when an overlay, NodePool or node class changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool
from karpenter.core.lifecycle.nodeoverlay import PERIOD, validate_overlays
from karpenter.core.state.cluster import ClusterState, NodeClass, ObjectUpdated, StateEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.controllers.catalogs import PoolCatalogs
    from karpenter.controllers.perform import Performer

ALL: Final = "all"
"""The only key: overlays are validated together."""


class NodeOverlayController:
    """Keeps the conditions of NodeOverlays current."""

    name = "nodeoverlay.controller"
    kinds: ClassVar = (NodeOverlay, NodePool, NodeClass)

    def __init__(
        self, store: ClusterState, performer: Performer, catalogs: PoolCatalogs, clock: Clock
    ) -> None:
        self._store = store
        self._performer = performer
        self._catalogs = catalogs
        self._clock = clock

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the one key if an event can change the validation of overlays."""
        item = event.object
        if isinstance(item, NodePool | NodeOverlay | NodeClass) and (
            not isinstance(event, ObjectUpdated) or before is None or _generation(before) != _generation(item)
        ):
            yield ALL

    async def reconcile(self, key: str) -> float | None:
        del key
        catalog = await self._catalogs.of(self._store.pools())
        await self._performer.perform(validate_overlays(self._store.view(), catalog, self._clock.now()))
        return PERIOD


def _generation(item: Resource | NodeClass) -> int:
    return item.generation if isinstance(item, NodeClass) else item.metadata.generation
