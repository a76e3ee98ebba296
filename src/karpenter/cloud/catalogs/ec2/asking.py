"""
Questions to AWS, one function each, page by page.

Takes ready-made clients and returns plain values. Errors of the SDK pass through. What the
answers amount to is put together in :mod:`.refresh`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from karpenter.cloud.catalogs.ec2.records import ARCHITECTURES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_pricing import PricingClient

    from karpenter.cloud.catalogs.ec2.records import Record

_SPOT_PRODUCTS: Final = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
PRODUCTS: Final = (("Shared", "Compute Instance"), ("Dedicated", "Compute Instance (bare metal)"))
"""Tenancy and product family: of virtual machines, and of bare metal."""


def instance_types(ec2: EC2Client) -> list[Record]:
    """Return the record of every type that could be a node."""
    pages = ec2.get_paginator("describe_instance_types").paginate(
        Filters=[
            {"Name": "supported-virtualization-type", "Values": ["hvm"]},
            {"Name": "processor-info.supported-architecture", "Values": sorted(ARCHITECTURES)},
        ],
        PaginationConfig={"PageSize": 100},
    )
    return [record for page in pages for record in page["InstanceTypes"]]


def zone_ids(ec2: EC2Client) -> dict[str, str]:
    """Return the zones that this account can use, name to id."""
    answer = ec2.describe_availability_zones()
    return {zone["ZoneName"]: zone["ZoneId"] for zone in answer["AvailabilityZones"]}


def zones_by_type(ec2: EC2Client) -> dict[str, set[str]]:
    """Return the names of the zones that sell each type."""
    pages = ec2.get_paginator("describe_instance_type_offerings").paginate(
        LocationType="availability-zone", PaginationConfig={"PageSize": 1000}
    )
    found: dict[str, set[str]] = defaultdict(set)
    for page in pages:
        for offering in page["InstanceTypeOfferings"]:
            found[offering["InstanceType"]].add(offering["Location"])
    return dict(found)


def spot_prices(ec2: EC2Client, now: datetime) -> dict[tuple[str, str], float]:
    """Return the spot price of each type in each zone, the latest one of each."""
    pages = ec2.get_paginator("describe_spot_price_history").paginate(
        ProductDescriptions=list(_SPOT_PRODUCTS), StartTime=now, PaginationConfig={"PageSize": 1000}
    )
    entries = [entry for page in pages for entry in page["SpotPriceHistory"]]
    return {
        (entry["InstanceType"], entry["AvailabilityZone"]): float(entry["SpotPrice"])
        for entry in sorted(entries, key=lambda each: each["Timestamp"])
    }


def on_demand_prices(pricing: PricingClient, region: str) -> dict[str, float]:
    """Return the on-demand price of each type in `region`, for Linux."""
    found: dict[str, float] = {}
    for tenancy, family in PRODUCTS:
        found |= prices_of_family(pricing, region, tenancy=tenancy, family=family)
    return found


def prices_of_family(pricing: PricingClient, region: str, *, tenancy: str, family: str) -> dict[str, float]:
    """Return the on-demand price of each type of one family of products."""
    currency = "CNY" if region.startswith("cn-") else "USD"
    return dict(
        price
        for product in _products(pricing, region=region, tenancy=tenancy, family=family)
        for price in _prices(product, currency)
    )


def _products(pricing: PricingClient, *, region: str, tenancy: str, family: str) -> Iterator[Any]:
    wanted = {
        "regionCode": region,
        "tenancy": tenancy,
        "productFamily": family,
        "operatingSystem": "Linux",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
    }
    pages = pricing.get_paginator("get_products").paginate(
        ServiceCode="AmazonEC2",
        Filters=[{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()],
        PaginationConfig={"PageSize": 100},
    )
    for page in pages:
        for product in page["PriceList"]:
            yield json.loads(product)


def _prices(product: Any, currency: str) -> Iterator[tuple[str, float]]:
    """Yield a product's type and price; a price of zero is a placeholder and means none."""
    name = product["product"]["attributes"]["instanceType"]
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            price = float(dimension["pricePerUnit"].get(currency, 0))
            if price > 0:
                yield name, price
