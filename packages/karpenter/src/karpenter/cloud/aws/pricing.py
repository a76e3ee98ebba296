"""
Prices of instance types.

Until AWS has been asked, prices are those that ship with the product, and spot costs what on-demand does.
Once spot prices have been returned, a type without one in a zone is not offered there. An update that fails,
or that returns nothing, changes nothing.

A type that AWS has no price for, such as one of a preview, can be priced by the user: with a NodeOverlay that
has a price and a single requirement, which names instance types. Any other NodeOverlay changes known prices,
and is applied elsewhere.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from karpenter.api.labels import INSTANCE_TYPE, ON_DEMAND, SPOT
from karpenter.cloud.catalogs.ec2 import refresh
from karpenter.cloud.catalogs.ec2.data import load_data
from karpenter.cloud.catalogs.ec2.instancetypes import regional_price
from karpenter.cloud.errors import CloudUnreachable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from karpenter.api.nodeoverlay import NodeOverlay
    from karpenter.cloud.aws.sdk import AwsApi


# GovCloud has no price list endpoint:
# https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-price-list-query-api.html
_WITHOUT_PRICE_LIST: Final = "us-gov-"


class PricingProvider:
    """Prices per hour, in the currency of the region."""

    def __init__(self, aws: AwsApi, *, isolated: bool = False) -> None:
        self._aws = aws
        self._listed = not isolated and not aws.region.startswith(_WITHOUT_PRICE_LIST)
        self._on_demand = shipped_prices(aws.region)
        self._spot: dict[tuple[str, str], float] | None = None
        self._stated: Mapping[str, float] = {}
        self.version = 0
        """Grows whenever a price changes."""

        shipped = datetime.fromisoformat(load_data().prices_as_of).replace(tzinfo=UTC)
        self.read_at = {ON_DEMAND: shipped, SPOT: shipped}
        """When AWS last told the prices of each capacity type; at first the date of those that ship."""

    def on_demand(self, instance_type: str) -> float | None:
        return self._on_demand.get(instance_type, self._stated.get(instance_type))

    def spot(self, instance_type: str, zone: str) -> float | None:
        # Before spot prices are known the on-demand price stands in, the default maximum of a spot request:
        # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-spot-instances.html
        if self._spot is None:
            return self.on_demand(instance_type)
        return self._spot.get((instance_type, zone), self._stated.get(instance_type))

    def state(self, prices: Mapping[str, float]) -> None:
        """Set prices for types that have none, for every zone and capacity type."""
        self._note(changed=prices != self._stated)
        self._stated = prices

    async def refresh_on_demand(self, now: datetime) -> None:
        """
        Ask for the on-demand prices again; nothing is done where there is no price list.

        Raises:
            CloudError: AWS does not tell.
        """
        if not self._listed:
            return
        region = self._aws.region
        families = await asyncio.gather(
            *(
                self._aws.run(
                    "pricing",
                    partial(refresh.prices_of_family, region=region, tenancy=tenancy, family=family),
                )
                for tenancy, family in refresh.PRODUCTS
            )
        )
        if not all(families):
            raise CloudUnreachable(f"the price list of {region} has no entries of a kind")
        merged = dict(self._on_demand)
        for prices in families:
            merged |= prices
        self._note(changed=merged != self._on_demand)
        self._on_demand, self.read_at[ON_DEMAND] = merged, now

    async def refresh_spot(self, now: datetime) -> None:
        """
        Ask for the spot prices again.

        Raises:
            CloudError: AWS does not tell.
        """
        found = await self._aws.run("ec2", partial(refresh.spot_prices, now=now))
        if not found:
            raise CloudUnreachable(f"EC2 tells no spot prices in {self._aws.region}")
        # An answer may lack a zone for a while; the last price that is known stays.
        merged = {**(self._spot or {}), **found}
        self._note(changed=merged != self._spot)
        self._spot, self.read_at[SPOT] = merged, now

    def _note(self, *, changed: bool) -> None:
        self.version += int(changed)


def shipped_prices(region: str) -> dict[str, float]:
    """
    Return the prices that ship with the product, in the currency of the region.

    GovCloud and China have lists of their own. A region that is not known costs what us-east-1 does.
    """
    data = load_data()
    listed = data.listed_in(region)
    if listed is not None:
        return dict(listed)
    known: Mapping[str, float] = {name: each.price_factor for name, each in data.regions.items()}
    factor = known.get(region, 1.0)
    return {
        facts.name: regional_price(price, factor)
        for facts, price in zip(data.types, data.prices, strict=True)
        if price is not None
    }


def stated_prices(overlays: Iterable[NodeOverlay]) -> dict[str, float]:
    """Return the prices that overlays state, by instance type; of two the one of more weight."""
    found: dict[str, float] = {}
    for each in sorted(overlays, key=lambda one: (one.spec.weight or 0, one.name)):
        spec = each.spec
        if spec.price is None or len(spec.requirements) != 1:
            continue
        only = spec.requirements[0]
        if (only.key, only.operator) == (INSTANCE_TYPE, "In"):
            found.update(dict.fromkeys(only.values, float(spec.price)))
    return found
