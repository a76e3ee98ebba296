"""What EC2 sells in a region, and where: kept current, and counted by version."""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from karpenter.cloud.aws.types.sold import sold_type
from karpenter.cloud.catalogs.ec2 import asking
from karpenter.cloud.catalogs.ec2.records import usable
from karpenter.cloud.errors import CloudUnreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.cloud.aws.calls import Aws
    from karpenter.cloud.aws.types.sold import SoldType

REFRESHED_EVERY: Final = 12 * 3600.0
"""Seconds between two questions about types, offerings and prices."""


class Shop:
    """Instance types and the zones that sell them."""

    def __init__(self, aws: Aws) -> None:
        self._aws = aws
        self.types: Mapping[str, SoldType] = MappingProxyType({})
        self.zones: Mapping[str, frozenset[str]] = MappingProxyType({})
        self.version = 0
        """Grows whenever something about types or zones changes."""

    async def refresh(self) -> None:
        """
        Ask EC2 anew.

        Raises:
            CloudError: EC2 does not tell, or lists nothing.
        """
        types, zones = await asyncio.gather(
            self._aws.run("ec2", _types), self._aws.run("ec2", asking.zones_by_type)
        )
        if not types:
            raise CloudUnreachable(f"EC2 lists no instance types in {self._aws.region}")
        if not zones:
            raise CloudUnreachable(f"EC2 lists no offerings of instance types in {self._aws.region}")
        sold = {name: frozenset(zones[name]) for name in sorted(zones)}
        if types != self.types or sold != self.zones:
            self.types, self.zones = MappingProxyType(types), MappingProxyType(sold)
            self.version += 1


def _types(ec2: Any) -> dict[str, SoldType]:
    found = (sold_type(record) for record in asking.instance_types(ec2) if usable(record))
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}
