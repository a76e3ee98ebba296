"""
What the account has committed to: Reserved Instances of a region, and Savings Plans.

The result is what the setting ``commitments`` reads. A Reserved Instance without a zone is
regional, and covers other sizes of its family. A Savings Plan pays another share of the on-demand price for
every type, of which the median stands for all.
"""

from __future__ import annotations

from contextlib import closing
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.cloud.catalogs.ec2.refresh import RefreshFailed, connected, on_demand_prices
from karpenter.core.model.pricing import Commitment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# Savings Plans are not regional; the service has one endpoint:
# https://docs.aws.amazon.com/general/latest/gr/savingsplans.html
_SAVINGS_PLANS_REGION: Final = "us-east-1"
# Plans for SageMaker pay for no instances of EC2: https://aws.amazon.com/savingsplans/
_FOR_EC2: Final = frozenset({"Compute", "EC2Instance"})
_LINUX: Final = "Linux/UNIX"
# A zonal Reserved Instance reserves capacity, a regional one is a discount only:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/reserved-instances-scope.html
_ZONAL: Final = "Availability Zone"
_SHARED: Final = "default"
_DIGITS: Final = 4


def read_commitments(region: str, *, tell: Callable[[str], None]) -> tuple[Commitment, ...] | None:
    """
    Return the commitments of the account that are active in a region, and tell what it does not let be read.

    None means that nothing is known.
    """
    found: list[Commitment] = []
    refused = False
    for what, read in (("Reserved Instances", _read_reserved), ("Savings Plans", _read_plans)):
        try:
            found += read(region)
        except RefreshFailed as error:
            tell(f"no {what} were read: {error}")
            refused = True
    return tuple(found) if found or not refused else None


def _read_reserved(region: str) -> list[Commitment]:
    with connected(region) as clients:
        return list(reserved_instances(clients.ec2, region))


def _read_plans(region: str) -> list[Commitment]:
    with connected(region) as clients:
        import boto3  # noqa: PLC0415  an optional dependency, which `connected` has found

        with closing(boto3.Session().client("savingsplans", region_name=_SAVINGS_PLANS_REGION)) as plans:
            listed = [each for each in _plans(plans) if each.get("region") in {None, "", region}]
            prices = on_demand_prices(clients.pricing, region) if listed else {}
            return [savings_plan(plans, each, region=region, on_demand=prices) for each in listed]


def render_commitments(commitments: tuple[Commitment, ...]) -> dict[str, Any]:
    return {
        "commitments": [
            {key: value for key, value in msgspec.to_builtins(each).items() if value not in ("", 0, None)}
            for each in commitments
        ]
    }


def reserved_instances(ec2: Any, region: str) -> Iterator[Commitment]:
    """Yield the active Reserved Instances for Linux on shared hardware, which is what nodes run on."""
    answer = ec2.describe_reserved_instances(Filters=[{"Name": "state", "Values": ["active"]}])
    for each in answer["ReservedInstances"]:
        # Those of the VPC are called Linux/UNIX (Amazon VPC):
        # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ReservedInstances.html
        linux = each.get("ProductDescription", _LINUX).startswith(_LINUX)
        if linux and each.get("InstanceTenancy", _SHARED) == _SHARED:
            yield Commitment(
                name=each["ReservedInstancesId"],
                kind="ReservedInstance",
                instance_type=each["InstanceType"],
                region=region,
                zone=each.get("AvailabilityZone", "") if each.get("Scope") == _ZONAL else "",
                count=each["InstanceCount"],
                until=each.get("End"),
            )


def savings_plan(plans: Any, plan: Any, *, region: str, on_demand: Mapping[str, float]) -> Commitment:
    """Return one Savings Plan, with the share of the on-demand price that it pays for an instance."""
    shares = [
        float(rate["rate"]) / on_demand[kind]
        for rate in _rates(plans, plan["savingsPlanId"], region)
        if (kind := _property(rate, "instanceType")) in on_demand
    ]
    text = plan.get("end")
    return Commitment(
        name=plan["savingsPlanId"],
        kind="SavingsPlan",
        family=plan.get("ec2InstanceFamily", ""),
        region=plan.get("region", ""),
        hourly=float(plan["commitment"]),
        rate=round(median(shares), _DIGITS) if shares else 1.0,
        until=datetime.fromisoformat(text) if text else None,
    )


def _plans(plans: Any) -> Iterator[Any]:
    for page in _pages(plans.describe_savings_plans, states=["active"]):
        yield from (each for each in page["savingsPlans"] if each["savingsPlanType"] in _FOR_EC2)


def _rates(plans: Any, ident: str, region: str) -> Iterator[Any]:
    filters = [
        {"name": "productType", "values": ["EC2"]},
        {"name": "region", "values": [region]},
        {"name": "productDescription", "values": [_LINUX]},
        {"name": "tenancy", "values": ["shared"]},
    ]
    for page in _pages(plans.describe_savings_plan_rates, savingsPlanId=ident, filters=filters):
        yield from page["searchResults"]


def _pages(ask: Any, **parameters: Any) -> Iterator[Any]:
    """Yield the pages of an action; botocore has no paginators for this service."""
    while True:
        page = ask(**parameters)
        yield page
        if not page.get("nextToken"):
            return
        parameters["nextToken"] = page["nextToken"]


def _property(rate: Any, name: str) -> str:
    return next((each["value"] for each in rate.get("properties", ()) if each["name"] == name), "")
