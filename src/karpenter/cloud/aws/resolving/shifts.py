"""
Zones that traffic is shifted away from, because something is wrong there.

Whoever runs the cluster shifts a zone away with Application Recovery Controller; it says until when. While
that lasts, nothing is launched in the zone, and machines there are left as they are: what EC2 says about them
may be wrong, and pods that were moved off them are somebody else's decision.
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.calls import Answer, Aws
    from karpenter.cloud.aws.cluster import Cluster

_APPLIED: Final = "APPLIED"


class Shifts:
    """Knows the zones that are shifted away. Unless it is refreshed, there are none."""

    def __init__(self, aws: Aws, cluster: Cluster, *, clock: Clock) -> None:
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


def _applied(answer: Answer) -> Iterator[tuple[str, datetime]]:
    for each in answer.get("zonalShifts", ()):
        if each.get("appliedStatus") == _APPLIED:
            until: datetime = each["expiryTime"]
            yield each["awayFrom"], until if until.tzinfo else until.replace(tzinfo=UTC)
