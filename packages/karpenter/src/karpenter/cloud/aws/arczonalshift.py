"""
Zones that traffic is shifted away from, because something is wrong there.

Whoever runs the cluster shifts a zone away with Application Recovery Controller; it says until when. While
that lasts, nothing is launched in the zone, and machines there are left as they are: what EC2 says about them
may be wrong, and pods that were moved off them are somebody else's decision.

Following shifts of zones, and telling the pools that can use them.
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Final, Literal

import structlog

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.labels import ZONE
from karpenter.cloud.aws.labels import ZONE_ID
from karpenter.core.effects import Announce, Step, about
from karpenter.core.model.requirement import RequirementError
from karpenter.core.model.requirements import Requirements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from karpenter.api.nodepool import NodePool
    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.cluster import EksCluster
    from karpenter.cloud.aws.sdk import ApiResponse, AwsApi
    from karpenter.cloud.cloudprovider import ClusterObjects
    from karpenter.core.state.view import ClusterView


_APPLIED: Final = "APPLIED"


class ZonalShiftProvider:
    """Knows the zones that are shifted away. Unless it is refreshed, there are none."""

    def __init__(self, aws: AwsApi, cluster: EksCluster, *, clock: Clock) -> None:
        self._aws = aws
        self._cluster = cluster
        self._clock = clock
        self._until: dict[str, datetime] = {}

    def active(self) -> frozenset[str]:
        """Return the ids of the zones that are shifted away at this moment."""
        now = self._clock.now()
        return frozenset(zone for zone, until in self._until.items() if until > now)

    async def refresh(self) -> None:
        """
        Ask which zones are shifted away.

        Raises:
            CloudError: the answer does not come.
        """
        answer = await self._aws.ask(
            "arc-zonal-shift", "GetManagedResource", resourceIdentifier=await self._cluster.arn()
        )
        self._until = dict(_applied(answer))


def _applied(answer: ApiResponse) -> Iterator[tuple[str, datetime]]:
    for each in answer.get("zonalShifts", ()):
        if each.get("appliedStatus") == _APPLIED:
            until: datetime = each["expiryTime"]
            yield each["awayFrom"], until if until.tzinfo else until.replace(tzinfo=UTC)


log = structlog.stdlib.get_logger(__name__)

PERIOD: Final = 30.0


class ZonalShiftController:
    """Asks for shifts, and tells what has changed."""

    name = "zonalshift"

    def __init__(self, *, shifts: ZonalShiftProvider, objects: ClusterObjects, view: Callable[[], ClusterView]) -> None:
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
