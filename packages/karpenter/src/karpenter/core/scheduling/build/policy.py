"""Settings of the operator that change the problem of scheduling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.api.pod import TopologySpreadConstraint
from karpenter.core.model.pricing import PricePolicy

if TYPE_CHECKING:
    from datetime import datetime


class SchedulingPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the operator that change the problem. The names are part of the flight record format."""

    overlays: bool = False
    buffers: bool = False
    reserved_capacity: bool = True
    ignore_device_claims: bool = True
    spread_defaults: tuple[TopologySpreadConstraint, ...] = ()
    prices: PricePolicy = PricePolicy()

    def at(self, now: datetime) -> SchedulingPolicy:
        """Return the policy without what has ended."""
        prices = self.prices.at(now)
        return self if prices is self.prices else msgspec.structs.replace(self, prices=prices)
