"""
The EC2 catalogue of one region, put together from facts.

Every type that is sold there for a known price is in it. Types that Amazon Linux 2023
does not run on are too, with offerings that are not available. As in every catalogue, the
zones and capacity types of a type are those in which it can be bought now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, SPOT, ZONE
from karpenter.cloud.catalogs.ec2.facts import InstanceFacts
from karpenter.cloud.catalogs.ec2.labels import DOMAIN, RESERVATION_ID, WELL_KNOWN, ZONE_ID, type_labels
from karpenter.cloud.catalogs.ec2.prices import regional_price, spot_price
from karpenter.cloud.catalogs.ec2.resources import capacity, overhead
from karpenter.cloud.catalogs.interning import Interner
from karpenter.core.model.catalog import Catalog, InstanceType, Offering

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karpenter.cloud.catalogs.ec2.data import Data

DEFAULT_REGION: Final = "us-east-1"
_NOT_ON_AL2023: Final = "a1."


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type as one region sells it."""

    facts: InstanceFacts
    zones: Mapping[str, str]
    """Zone name to zone id."""

    prices: Mapping[tuple[str, str], float]
    """Zone name and capacity type to the price per hour; what is not here is not sold."""


def ec2_catalog(data: Data, region: str) -> Catalog:
    """Return the catalogue of a region from the facts that ship with the product."""
    return assemble(region, _listings(data, region))


def assemble(region: str, listings: Iterable[Listing]) -> Catalog:
    """Return the catalogue of everything that is listed."""
    interner = Interner()
    return Catalog(
        types=tuple(_instance_type(listing, region, interner) for listing in listings),
        well_known=WELL_KNOWN,
        restricted_domains=frozenset({DOMAIN}),
        reservation_label=RESERVATION_ID,
    )


def _listings(data: Data, region: str) -> Iterator[Listing]:
    factor = data.regions[region].price_factor
    for facts, price, zones in data.sold_in(region):
        prices = _modelled_prices(facts, zones, regional_price(price, factor))
        yield Listing(facts=facts, zones=zones, prices=prices)


def _modelled_prices(
    facts: InstanceFacts, zones: Iterable[str], on_demand: float
) -> dict[tuple[str, str], float]:
    prices = {}
    for zone in zones:
        for kind in facts.capacity_types:
            prices[zone, kind] = spot_price(facts.name, zone, on_demand) if kind == SPOT else on_demand
    return prices


def _instance_type(listing: Listing, region: str, interner: Interner) -> InstanceType:
    facts = listing.facts
    available = not facts.name.startswith(_NOT_ON_AL2023)
    labels = type_labels(facts, region=region, zone_ids=listing.zones.values())
    sold = listing.prices if available else ()
    labels[ZONE] = tuple(sorted({zone for zone, _ in sold}))
    labels[CAPACITY_TYPE] = tuple(sorted({kind for _, kind in sold}))
    return InstanceType(
        name=facts.name,
        requirements=interner.requirements(labels),
        offerings=tuple(
            Offering(
                requirements=interner.shared(
                    {
                        CAPACITY_TYPE: (kind,),
                        ZONE: (zone,),
                        ZONE_ID: (listing.zones[zone],),
                        RESERVATION_ID: (),
                    }
                ),
                price=price,
                available=available,
            )
            for (zone, kind), price in listing.prices.items()
        ),
        capacity=capacity(facts),
        overhead=overhead(facts),
    )
