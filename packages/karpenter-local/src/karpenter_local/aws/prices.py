"""The price list: how the Pricing API tells what instances cost on demand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from karpenter_local.aws.account import Account


def get_products(account: Account, asked: dict[str, Any]) -> dict[str, Any]:
    """Return one page of products, of virtual machines or of bare metal."""
    filters = {each["Field"]: each["Value"] for each in asked.get("Filters", ())}
    metal = "bare metal" in filters.get("productFamily", "")
    names = sorted(name for name in account.on_demand if (".metal" in name) is metal)
    if filters.get("regionCode") != account.region:
        names = []
    start, size = int(asked.get("NextToken") or 0), int(asked.get("MaxResults") or 100)
    page = {
        "FormatVersion": "aws_v1",
        "PriceList": [_product(name, account.on_demand[name]) for name in names[start : start + size]],
    }
    return page | ({"NextToken": str(start + size)} if start + size < len(names) else {})


def _product(name: str, price: float) -> str:
    dimension = {"unit": "Hrs", "pricePerUnit": {"USD": f"{price:.10f}"}}
    return json.dumps(
        {
            "product": {"attributes": {"instanceType": name}},
            "terms": {"OnDemand": {f"{name}.term": {"priceDimensions": {f"{name}.rate": dimension}}}},
        }
    )
