"""Following shifts of zones, and telling the pools that can use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import structlog

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.labels import ZONE
from karpenter.cloud.aws.words import ZONE_ID
from karpenter.core.effects import Announce, Step, about
from karpenter.core.model.labels import RequirementError
from karpenter.core.model.requirements import Requirements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from karpenter.api.nodepool import NodePool
    from karpenter.cloud.aws.resolving.shifts import Shifts
    from karpenter.cloud.surroundings import ClusterObjects
    from karpenter.core.state.view import ClusterView

log = structlog.stdlib.get_logger(__name__)

PERIOD: Final = 30.0


class ShiftWatch:
    """Asks for shifts, and tells what has changed."""

    name = "zonalshift"

    def __init__(self, *, shifts: Shifts, objects: ClusterObjects, view: Callable[[], ClusterView]) -> None:
        self._shifts = shifts
        self._objects = objects
        self._view = view
        self._told: frozenset[str] = frozenset()

    async def look(self) -> Step:
        """Ask once."""
        await self._shifts.refresh()
        active = self._shifts.active()
        effects = [
            *await self._tell(active - self._told, "Warning", "ZonalShiftActive", "is shifted away"),
            *await self._tell(self._told - active, "Normal", "ZonalShiftCleared", "can be used again"),
        ]
        if active != self._told:
            log.info("zones.shifted", zones=sorted(active))
        self._told = active
        return Step(effects=tuple(effects), again=PERIOD)

    async def _tell(
        self, zones: Iterable[str], kind: Literal["Normal", "Warning"], reason: str, what: str
    ) -> list[Announce]:
        wanted = sorted(zones)
        if not wanted:
            return []
        return [
            Announce(
                about=about(pool),
                type=kind,
                reason=reason,
                message=f"Zone {zone}, which this pool can use, {what}.",
                same_as=(pool.metadata.uid, zone),
            )
            for pool in self._view().pools.values()
            for zone in wanted
            if zone in await self._zones_of(pool)
        ]

    async def _zones_of(self, pool: NodePool) -> set[str]:
        """Return the ids of the zones that a pool can use; none when its class is missing."""
        node_class = await self._objects.get(EC2NodeClass, pool.spec.template.spec.node_class_ref.name)
        if node_class is None:
            return set()
        try:
            wanted = Requirements.from_entries(pool.spec.template.spec.requirements)
        except RequirementError:
            return set()
        return {
            each.zone_id
            for each in node_class.status.subnets
            if wanted[ZONE].allows(each.zone) and wanted[ZONE_ID].allows(each.zone_id)
        }
