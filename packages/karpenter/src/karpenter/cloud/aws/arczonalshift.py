"""
Zonal shifts: Availability Zones that the operator of the cluster has moved traffic away from.

A zonal shift is started with Application Recovery Controller, and expires. While it is active, nothing is
launched in the zone, and its instances are left as they are: what EC2 reports about them may be wrong.

https://docs.aws.amazon.com/eks/latest/userguide/zone-shift.html
"""

from __future__ import annotations

from datetime import UTC, datetime
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

    from karpenter.api.nodepool import NodePool
    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.cluster import EksCluster
    from karpenter.cloud.aws.sdk import ApiResponse, AwsApi
    from karpenter.cloud.cloudprovider import ClusterObjects
    from karpenter.core.state.cluster import ClusterView


log = structlog.stdlib.get_logger(__name__)

# A zonal shift moves traffic away from a zone within minutes, so it must be seen about as soon:
# https://docs.aws.amazon.com/r53recovery/latest/dg/arc-zonal-shift.html
POLL_SECONDS: Final = 30.0
# A shift of a resource may be applied or not: of a practice run and a real shift, one takes precedence.
# https://docs.aws.amazon.com/arc-zonal-shift/latest/api/API_ZonalShiftInResource.html
_APPLIED: Final = "APPLIED"


class ZonalShiftProvider:
    """Knows the zones with an active zonal shift; none, unless it is refreshed."""

    def __init__(self, aws: AwsApi, cluster: EksCluster, *, clock: Clock) -> None:
        self._aws = aws
        self._cluster = cluster
        self._clock = clock
        self._until: dict[str, datetime] = {}

    def active(self) -> frozenset[str]:
        now = self._clock.now()
        # A zonal shift always has an expiry, so it also ends for an operator that cannot ask:
        # https://docs.aws.amazon.com/r53recovery/latest/dg/arc-zonal-shift.html
        return frozenset(zone for zone, until in self._until.items() if until > now)

    async def refresh(self) -> None:
        """
        Ask for the zonal shifts of the cluster.

        Raises:
            CloudError: AWS does not answer.
        """
        answer = await self._aws.call(
            "arc-zonal-shift", "GetManagedResource", resourceIdentifier=await self._cluster.arn()
        )
        self._until = dict(_applied(answer))


class ZonalShiftController:
    """Follows zonal shifts, and publishes Events about NodePools that can use the zones."""

    name = "zonalshift"

    def __init__(
        self, *, shifts: ZonalShiftProvider, objects: ClusterObjects, view: Callable[[], ClusterView]
    ) -> None:
        self._shifts = shifts
        self._objects = objects
        self._view = view
        self._announced: frozenset[str] = frozenset()

    async def look(self) -> Step:
        """Ask once, and return Events about what has changed."""
        await self._shifts.refresh()
        active = self._shifts.active()
        effects = [
            *await self._events(active - self._announced, "Warning", "ZonalShiftActive", "is shifted away"),
            *await self._events(self._announced - active, "Normal", "ZonalShiftCleared", "can be used again"),
        ]
        if active != self._announced:
            log.info("zones.shifted", zones=sorted(active))
        self._announced = active
        return Step(effects=tuple(effects), again=POLL_SECONDS)

    async def _events(
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
        """Return the ids of the zones that a NodePool can use; none when its node class is missing."""
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


def _applied(answer: ApiResponse) -> Iterator[tuple[str, datetime]]:
    for each in answer.get("zonalShifts", ()):
        # A shift that another one has superseded, or that was cancelled, is listed without being applied.
        if each.get("appliedStatus") == _APPLIED:
            until: datetime = each["expiryTime"]
            # A shift names the zone by its id (use1-az1), which is the same in every account; names are not:
            # https://docs.aws.amazon.com/ram/latest/userguide/working-with-az-ids.html
            yield each["awayFrom"], until if until.tzinfo else until.replace(tzinfo=UTC)
