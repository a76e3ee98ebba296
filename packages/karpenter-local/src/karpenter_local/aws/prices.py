"""
The price list: how the Pricing API tells what instances cost on demand.

Every instance type is one product per region: with Linux, shared tenancy and nothing preinstalled. Filters
match attributes exactly, as the API's TERM_MATCH does; a filter for anything else finds nothing.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from karpenter.cloud.catalogs.ec2.data import InstanceFacts, load_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter_local.aws.account import Account

SERVICE: Final = "AmazonEC2"
_PAGE_SIZE: Final = 100
_FIXED: Final = {
    "servicecode": SERVICE,
    "serviceCode": SERVICE,
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
    "licenseModel": "No License required",
    "termType": "OnDemand",
}


def get_products(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return one page of products, of virtual machines and of bare metal."""
    filters = {each["Field"]: each["Value"] for each in asked.get("Filters", ())}
    products = {} if asked.get("ServiceCode", SERVICE) != SERVICE else account.on_demand
    names = [
        name for name in sorted(products) if filters.items() <= _attributes(name, account.region).items()
    ]
    start, size = int(asked.get("NextToken") or 0), int(asked.get("MaxResults") or _PAGE_SIZE)
    page = {
        "FormatVersion": "aws_v1",
        "PriceList": [
            _product(name, account.on_demand[name], account.region) for name in names[start : start + size]
        ],
    }
    return page | ({"NextToken": str(start + size)} if start + size < len(names) else {})


def describe_services(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the services that have a price list."""
    names = ["instanceType", "productFamily", "regionCode", *_FIXED]
    known = not asked.get("ServiceCode") or asked["ServiceCode"] == SERVICE
    del account
    services = [{"ServiceCode": SERVICE, "AttributeNames": sorted(names)}] if known else []
    return {"FormatVersion": "aws_v1", "Services": services}


@cache
def _attributes(name: str, region: str) -> dict[str, str]:
    known = {**_FIXED, "instanceType": name, "regionCode": region, "productFamily": "Compute Instance"}
    if ".metal" not in name:
        return known
    return {**known, "productFamily": "Compute Instance (bare metal)", "tenancy": "Dedicated"}


@cache
def _facts() -> dict[str, InstanceFacts]:
    return {each.name: each for each in load_data().types}


def _product(name: str, price: float, region: str) -> str:
    dimension = {"unit": "Hrs", "pricePerUnit": {"USD": f"{price:.10f}"}}
    attributes = dict(_attributes(name, region))
    facts = _facts()[name]
    attributes["vcpu"] = str(facts.cpus)
    attributes["memory"] = f"{facts.memory_mib / 1024:g} GiB"
    return json.dumps(
        {
            "product": {"productFamily": attributes.pop("productFamily"), "attributes": attributes},
            "serviceCode": SERVICE,
            "terms": {"OnDemand": {f"{name}.term": {"priceDimensions": {f"{name}.rate": dimension}}}},
        }
    )
