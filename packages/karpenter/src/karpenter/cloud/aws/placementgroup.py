"""
The placement group that instances are launched into, if their node class selects one.

A group that was found stays known for a day, in case EC2 does not answer: nodes must not drift because of
that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from karpenter.cloud.aws.cache import TTLCache
from karpenter.cloud.aws.errors import ResourceNotFound
from karpenter.cloud.aws.subnet import where
from karpenter.cloud.errors import CloudError

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.api.ec2nodeclass import PlacementGroupSelector
    from karpenter.cloud.aws.sdk import AwsApi

log = structlog.stdlib.get_logger(__name__)

# Only instances of partition groups have a partition number:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-groups.html
PARTITION: Final = "partition"

_FRESH_SECONDS: Final = 60.0
# A group cannot change its strategy, so the last answer stays good while EC2 does not give one.
_LAST_KNOWN_SECONDS: Final = 24 * 3600.0


class PlacementGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A placement group that a selector found."""

    id: str
    name: str
    strategy: str
    """cluster, partition or spread."""

    partitions: int = 0
    """The number of partitions of a group with the strategy partition; zero for others."""

    spread_level: str = ""

    @property
    def numbers(self) -> tuple[str, ...]:
        """The partitions as values of a label."""
        return tuple(str(number) for number in range(1, self.partitions + 1))


class PlacementGroupProvider:
    """Finds placement groups."""

    def __init__(self, aws: AwsApi, *, monotonic: Callable[[], float]) -> None:
        self._aws = aws
        self._fresh: TTLCache[PlacementGroupSelector, PlacementGroup | None] = TTLCache(
            seconds=_FRESH_SECONDS, monotonic=monotonic
        )
        self._known: TTLCache[PlacementGroupSelector, PlacementGroup] = TTLCache(
            seconds=_LAST_KNOWN_SECONDS, monotonic=monotonic
        )

    async def find(self, selector: PlacementGroupSelector | None) -> PlacementGroup | None:
        """
        Return the group that a node class selects; None when it selects none, or one that does not exist.

        Raises:
            CloudError: EC2 does not answer.
        """
        if selector is None:
            return None
        return await self._fresh.get(selector, lambda: self._describe(selector))

    async def last_known(self, selector: PlacementGroupSelector | None) -> PlacementGroup | None:
        """
        Return the group that a node class selects, as it was when EC2 answered last.

        Raises:
            CloudError: EC2 does not answer, and the group is not cached.
        """
        try:
            return await self.find(selector)
        except CloudError as error:
            known = self._known.peek(selector) if selector else None
            if known is None:
                raise
            log.warning("placement_group.stale", group=known.id, error=str(error))
            return known

    async def _describe(self, selector: PlacementGroupSelector) -> PlacementGroup | None:
        named = {"GroupIds": [selector.id]} if selector.id else {"GroupNames": [selector.name]}
        try:
            answer = await self._aws.call(
                "ec2", "DescribePlacementGroups", Filters=[where("state", "available")], **named
            )
        # An id or a name that does not exist fails the call; a filter would return an empty list:
        # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribePlacementGroups.html
        except ResourceNotFound:
            return None
        found = answer.get("PlacementGroups", [])
        if not found:
            return None
        group = found[0]
        placement_group = PlacementGroup(
            id=group["GroupId"],
            name=group["GroupName"],
            strategy=group["Strategy"],
            # Up to seven per zone: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html
            partitions=group.get("PartitionCount", 0) or 0,
            spread_level=group.get("SpreadLevel", ""),
        )
        self._known.put(selector, placement_group)
        return placement_group
