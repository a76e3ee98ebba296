"""
The EC2 catalogue as AWS has it now.

Asks through :mod:`.asking` and puts the answers together. Types without any price are left
out. How many branch interfaces a type supports is the one figure that no API tells: it
comes from the facts that ship with the product, and is zero for types newer than those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import ON_DEMAND, SPOT
from karpenter.cloud.catalogs.ec2 import asking
from karpenter.cloud.catalogs.ec2.catalog import Listing, assemble
from karpenter.cloud.catalogs.ec2.data import load_data
from karpenter.cloud.catalogs.ec2.records import facts_of, usable
from karpenter.cloud.catalogs.ec2.session import RefreshFailed, connected

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from datetime import datetime

    from karpenter.cloud.catalogs.ec2.facts import InstanceFacts
    from karpenter.cloud.catalogs.ec2.records import Record
    from karpenter.core.model.catalog import Catalog


def refresh(region: str, *, now: datetime, tell: Callable[[str], None]) -> Catalog:
    """
    Return the catalogue of `region` as AWS describes it; `tell` hears how far it got.

    Raises:
        RefreshFailed: if AWS cannot be asked, or lists nothing of a kind.
    """

    def heard(what: str, found: Collection[object]) -> None:
        if not found:
            raise RefreshFailed(f"AWS lists no {what} in {region}, so there is no catalogue to make")
        tell(f"{len(found)} {what}")

    with connected(region) as clients:
        records = [record for record in asking.instance_types(clients.ec2) if usable(record)]
        heard("instance types", records)
        zone_ids = asking.zone_ids(clients.ec2)
        heard("zones", zone_ids)
        zones = asking.zones_by_type(clients.ec2)
        heard("instance types on offer", zones)
        on_demand = asking.on_demand_prices(clients.pricing, region)
        heard("on-demand prices", on_demand)
        spot = asking.spot_prices(clients.ec2, now)
        heard("spot prices", spot)
    return assemble(region, _listings(records, zone_ids, zones, _Prices(on_demand, spot)))


class _Prices:
    """What AWS asks for a type in a zone."""

    def __init__(self, on_demand: Mapping[str, float], spot: Mapping[tuple[str, str], float]) -> None:
        self._on_demand = on_demand
        self._spot = spot

    def of(self, facts: InstanceFacts, zone: str) -> Iterator[tuple[tuple[str, str], float]]:
        known = {ON_DEMAND: self._on_demand.get(facts.name), SPOT: self._spot.get((facts.name, zone))}
        for kind in facts.capacity_types:
            price = known[kind]
            if price is not None:
                yield (zone, kind), price


def _listings(
    records: Collection[Record],
    zone_ids: Mapping[str, str],
    zones: Mapping[str, Collection[str]],
    prices: _Prices,
) -> Iterator[Listing]:
    branches = {facts.name: facts.branch_interfaces for facts in load_data().types}
    for record in sorted(records, key=lambda each: str(each["InstanceType"])):
        facts = facts_of(record, branch_interfaces=branches.get(record["InstanceType"], 0))
        own = {zone: zone_ids[zone] for zone in sorted(zones.get(facts.name, ())) if zone in zone_ids}
        priced = dict(price for zone in own for price in prices.of(facts, zone))
        if priced:
            yield Listing(facts=facts, zones=own, prices=priced)
