"""
What the account has committed to: a few Reserved Instances, and a Savings Plan.

They are there to be read by ``karpenter catalog refresh --commitments``; nothing is billed by them. Terms are
of three years from the first day of the current one. Reserved Instances belong to the region of the account,
the Savings Plan to no region.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import NAMESPACE_URL, uuid5

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError

from karpenter_local.aws.account import ACCOUNTS, Account, zones_of
from karpenter_local.aws.wire import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


_YEARS: Final = 3
_ZONAL: Final = "Availability Zone"
_LINUX: Final = "Linux/UNIX"

RESERVED: Final = (
    {"InstanceType": "m5.large", "InstanceCount": 3, "Scope": "Region", "State": "active"},
    {"InstanceType": "c5.xlarge", "InstanceCount": 1, "Scope": _ZONAL, "State": "active"},
    {"InstanceType": "r5.large", "InstanceCount": 2, "Scope": "Region", "State": "retired"},
)
"""Reserved Instances of every account; the zonal ones are in the first zone of its region."""

HOURLY_COMMITMENT: Final = 0.25
"""What the Savings Plan commits to, in dollars per hour."""

SAVINGS_PLAN_RATE: Final = 0.72
"""What it pays for an instance, as a share of the on-demand price."""

_PAGE_SIZE: Final = 1000
_FILTERS: Final = {
    "availability-zone": "AvailabilityZone",
    "instance-type": "InstanceType",
    "product-description": "ProductDescription",
    "reserved-instances-id": "ReservedInstancesId",
    "scope": "Scope",
    "state": "State",
}


def describe_reserved_instances(self: Any) -> ActionResult:
    """Return the Reserved Instances that a request to EC2 asks for; other regions have none."""
    account: Account = ACCOUNTS[self.current_account]
    filters = self._filters_from_querystring()
    unknown = sorted(filters.keys() - _FILTERS.keys())
    if unknown:
        raise EC2ClientError("InvalidParameterValue", f"The filter '{unknown[0]}' is invalid")
    wanted = self._get_param("ReservedInstancesIds", [])
    found = [
        each
        for each in (_reserved_instances(account) if self.region == account.region else ())
        if (not wanted or each["ReservedInstancesId"] in wanted)
        and all(each.get(_FILTERS[name]) in values for name, values in filters.items())
    ]
    return ActionResult({"ReservedInstances": found})


def _reserved_instances(account: Account) -> Iterator[dict[str, Any]]:
    start, end = _term(account)
    for number, held in enumerate(RESERVED):
        zone = {"AvailabilityZone": zones_of(account.region)[0]} if held["Scope"] == _ZONAL else {}
        hourly = SAVINGS_PLAN_RATE * account.on_demand.get(str(held["InstanceType"]), 0.0)
        yield {
            "ReservedInstancesId": _ident(account, f"reserved/{number}"),
            "ProductDescription": _LINUX,
            "InstanceTenancy": "default",
            "OfferingClass": "standard",
            "OfferingType": "No Upfront",
            "CurrencyCode": "USD",
            "FixedPrice": 0.0,
            "UsagePrice": 0.0,
            "RecurringCharges": [{"Frequency": "Hourly", "Amount": hourly}],
            "Start": start,
            "End": end,
            "Duration": int((end - start).total_seconds()),
            **held,
            **zone,
        }


def _describe_savings_plans(account: Account, said: Mapping[str, Any]) -> dict[str, Any]:
    plan = _plan(account)
    states, idents = said.get("states"), said.get("savingsPlanIds")
    arns = said.get("savingsPlanArns")
    asked = (
        (not states or plan["state"] in states)
        and (not idents or plan["savingsPlanId"] in idents)
        and (not arns or plan["savingsPlanArn"] in arns)
    )
    return {"savingsPlans": [plan] if asked else []}


def _describe_savings_plan_rates(account: Account, said: Mapping[str, Any]) -> dict[str, Any]:
    ident = said["savingsPlanId"]
    if ident != _plan(account)["savingsPlanId"]:
        raise AwsError("ResourceNotFoundException", f"Savings Plan {ident} does not exist")
    wanted = {each["name"]: each["values"] for each in said.get("filters") or ()}
    rates = [_rate(account, name) for name in sorted(account.on_demand)]
    found = [each for each in rates if _is_wanted(each, wanted)]
    start, size = int(said.get("nextToken") or 0), int(said.get("maxResults") or _PAGE_SIZE)
    page = {"savingsPlanId": ident, "searchResults": found[start : start + size]}
    return page | ({"nextToken": str(start + size)} if start + size < len(found) else {})


SAVINGS_PLANS: Final[dict[str, Callable[[Account, Mapping[str, Any]], dict[str, Any]]]] = {
    "DescribeSavingsPlans": _describe_savings_plans,
    "DescribeSavingsPlanRates": _describe_savings_plan_rates,
}
"""What the service Savings Plans answers."""


def _plan(account: Account) -> dict[str, Any]:
    start, end = _term(account)
    ident = _ident(account, "savings-plan")
    return {
        "offeringId": _ident(account, "offering"),
        "savingsPlanId": ident,
        "savingsPlanArn": f"arn:aws:savingsplans::{account.number}:savingsplan/{ident}",
        "description": f"{_YEARS} year No Upfront Compute Savings Plan",
        "start": _written(start),
        "end": _written(end),
        "state": "active",
        "savingsPlanType": "Compute",
        "paymentOption": "No Upfront",
        "productTypes": ["EC2", "Fargate", "Lambda"],
        "currency": "USD",
        "commitment": f"{HOURLY_COMMITMENT}",
        "upfrontPaymentAmount": "0.0",
        "recurringPaymentAmount": f"{HOURLY_COMMITMENT}",
        "termDurationInSeconds": int((end - start).total_seconds()),
        "tags": {},
    }


def _rate(account: Account, name: str) -> dict[str, Any]:
    known = {
        "region": account.region,
        "instanceType": name,
        "instanceFamily": name.partition(".")[0],
        "productDescription": _LINUX,
        "tenancy": "shared",
    }
    return {
        "rate": f"{SAVINGS_PLAN_RATE * account.on_demand[name]:.10f}",
        "currency": "USD",
        "unit": "Hrs",
        "productType": "EC2",
        "serviceCode": "AmazonEC2",
        "usageType": f"BoxUsage:{name}",
        "operation": "RunInstances",
        "properties": [{"name": key, "value": value} for key, value in known.items()],
    }


def _is_wanted(rate: dict[str, Any], wanted: Mapping[str, Sequence[str]]) -> bool:
    told = rate | {each["name"]: each["value"] for each in rate["properties"]}
    return all(told.get(name) in values for name, values in wanted.items())


def _term(account: Account) -> tuple[datetime, datetime]:
    now = account.now()
    start = datetime(now.year, 1, 1, tzinfo=now.tzinfo)
    return start, start.replace(year=now.year + _YEARS)


def _written(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _ident(account: Account, what: str) -> str:
    return str(uuid5(NAMESPACE_URL, f"{account.number}/{what}"))
