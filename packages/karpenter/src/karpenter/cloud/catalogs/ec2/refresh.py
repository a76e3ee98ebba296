"""
The EC2 catalogue of a region as AWS describes it now.

One function asks for each part, page by page, and :func:`refresh` puts them together. Types without a price
are left out. The number of branch network interfaces of a type is in no API: it comes from the file that
ships with the product, and is zero for types newer than that.

boto3 is an optional dependency, so it is imported here only when AWS is asked. It finds credentials, profiles
and endpoints where it documents; its errors become one sentence each.
"""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from karpenter.api.labels import ON_DEMAND, SPOT
from karpenter.cloud.catalogs.ec2.data import (
    ARCHITECTURES,
    InstanceFacts,
    Record,
    currency_of,
    facts_of,
    load_data,
    usable,
)
from karpenter.cloud.catalogs.ec2.instancetypes import Listing, assemble

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from datetime import datetime

    from botocore.exceptions import ClientError
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_pricing import PricingClient

    from karpenter.core.model.catalog import Catalog


# The price list API has endpoints in a few regions only:
# https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-price-list-query-api.html
_PRICING_ELSEWHERE: Final = (("ap-", "ap-south-1"), ("cn-", "cn-northwest-1"), ("eu-", "eu-central-1"))
# The price list has endpoints in few regions, and each tells the prices of all:
# https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-price-list-query-api.html
_PRICING_REGION: Final = "us-east-1"
_CONNECT_SECONDS: Final = 5
_READ_SECONDS: Final = 60
_ATTEMPTS: Final = 5
_POLICY: Final = (
    "the credentials need ec2:DescribeInstanceTypes, ec2:DescribeInstanceTypeOfferings, "
    "ec2:DescribeAvailabilityZones, ec2:DescribeSpotPriceHistory and pricing:GetProducts"
)

# The price history has Linux under two names, with and without VPC:
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSpotPriceHistory.html
_SPOT_PRODUCTS: Final = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
PRODUCTS: Final = (("Shared", "Compute Instance"), ("Dedicated", "Compute Instance (bare metal)"))
"""Tenancy and product family of virtual machines, and of bare metal."""


class RefreshFailed(RuntimeError):  # noqa: N818  reads as what happened
    """AWS could not be asked, or returned too little; the text is one sentence."""

    def __init__(self, sentence: str, *, hint: str = "") -> None:
        super().__init__(sentence)
        self.hint = hint
        """What helps, where it is known."""


class CatalogClients(NamedTuple):
    """The clients of EC2 and of the price list."""

    ec2: EC2Client
    pricing: PricingClient


def refresh(region: str, *, now: datetime, tell: Callable[[str], None]) -> Catalog:
    """
    Return the catalogue of `region` as AWS describes it; `tell` is called with the progress.

    Raises:
        RefreshFailed: if AWS cannot be asked, or lists nothing of a kind.
    """
    with connected(region) as clients:
        return described(clients, region, now=now, tell=tell)


def described(
    clients: CatalogClients, region: str, *, now: datetime, tell: Callable[[str], None] = lambda _: None
) -> Catalog:
    """
    Return the catalogue of `region` as AWS describes it to these clients.

    Raises:
        RefreshFailed: it lists nothing of a kind.
    """

    def check(what: str, found: Collection[object]) -> None:
        if not found:
            raise RefreshFailed(f"AWS lists no {what} in {region}, so there is no catalogue to make")
        tell(f"{len(found)} {what}")

    records = [record for record in instance_types(clients.ec2) if usable(record)]
    check("instance types", records)
    ids = zone_ids(clients.ec2)
    check("zones", ids)
    zones = zones_by_type(clients.ec2)
    check("instance types on offer", zones)
    on_demand = on_demand_prices(clients.pricing, region)
    check("on-demand prices", on_demand)
    spot = spot_prices(clients.ec2, now)
    check("spot prices", spot)
    return assemble(region, _listings(records, ids, zones, _Prices(on_demand, spot)))


def instance_types(ec2: EC2Client) -> list[Record]:
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
    wanted = {
        "regionCode": region,
        "tenancy": tenancy,
        "productFamily": family,
        "operatingSystem": "Linux",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
    }
    return dict(
        price
        for product in _products(pricing, "AmazonEC2", wanted)
        for price in _prices(product, currency_of(region))
    )


def auto_fees(pricing: PricingClient, region: str) -> dict[str, float]:
    """Return what EKS Auto Mode charges per hour for managing a node of each type."""
    wanted = {"regionCode": region, "operation": "EKSAutoUsage"}
    return dict(
        price
        for product in _products(pricing, "AmazonEKS", wanted)
        for price in _prices(product, currency_of(region))
    )


def _products(pricing: PricingClient, service: str, wanted: Mapping[str, str]) -> Iterator[Any]:
    pages = pricing.get_paginator("get_products").paginate(
        ServiceCode=service,
        Filters=[{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()],
        PaginationConfig={"PageSize": 100},
    )
    for page in pages:
        for product in page["PriceList"]:
            yield json.loads(product)


def _prices(product: Any, currency: str) -> Iterator[tuple[str, float]]:
    """Yield a product's type and price; a price of zero is a placeholder and means none."""
    # The price list of EKS spells the name of the attribute in small letters.
    attributes = product["product"]["attributes"]
    name = attributes.get("instanceType") or attributes["instancetype"]
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            price = float(dimension["pricePerUnit"].get(currency, 0))
            if price > 0:
                yield name, price


def pricing_region(region: str) -> str:
    """Return the region whose price list endpoint serves `region`."""
    return next((home for prefix, home in _PRICING_ELSEWHERE if region.startswith(prefix)), _PRICING_REGION)


@contextmanager
def connected(region: str) -> Iterator[CatalogClients]:
    """
    Open clients for `region`, and close them.

    Raises:
        RefreshFailed: boto3 is not installed, or raised an error while the clients were in use.
    """
    try:
        import boto3  # noqa: PLC0415  an optional dependency
        from botocore.config import Config  # noqa: PLC0415  as above
        from botocore.exceptions import (  # noqa: PLC0415  as above
            BotoCoreError,
            ClientError,
            NoCredentialsError,
        )
    except ImportError:
        raise RefreshFailed(
            "boto3 is not installed, and AWS cannot be asked without it",
            hint="pip install boto3",
        ) from None
    config = Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
    )
    try:
        session = boto3.Session()
        with (
            closing(session.client("ec2", region_name=region, config=config)) as ec2,
            closing(session.client("pricing", region_name=pricing_region(region), config=config)) as pricing,
        ):
            yield CatalogClients(ec2, pricing)
    except NoCredentialsError:
        raise RefreshFailed(
            "no AWS credentials were found",
            hint="set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run aws sso login",
        ) from None
    except ClientError as error:
        raise RefreshFailed(_refusal(error), hint=_POLICY) from None
    except BotoCoreError as error:
        raise RefreshFailed(f"AWS cannot be asked: {_one_line(error)}") from None


def _refusal(error: ClientError) -> str:
    told = error.response.get("Error", {})
    reason = f"{told.get('Code', 'Unknown')}: {told.get('Message', '')}"
    return f"AWS refused {error.operation_name}: {_one_line(reason)}"


def _one_line(text: object) -> str:
    return " ".join(str(text).split()).rstrip(".")


class _Prices:
    """The prices of instance types."""

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
