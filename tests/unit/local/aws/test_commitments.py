"""What the account of the embedded AWS has committed to, as an SDK reads it."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.unit.local.aws.bare import code_of, shared_site


def reserved(**asked: Any) -> list[str]:
    """Return the types of the Reserved Instances that are found."""
    found = shared_site().client("ec2").describe_reserved_instances(**asked)["ReservedInstances"]
    return [each["InstanceType"] for each in found]


def by(name: str, *values: str) -> dict[str, Any]:
    return {"Filters": [{"Name": name, "Values": list(values)}]}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param({}, ["m5.large", "c5.xlarge", "r5.large"], id="all, retired ones too"),
        pytest.param(by("state", "active"), ["m5.large", "c5.xlarge"], id="active ones"),
        pytest.param(by("scope", "Region"), ["m5.large", "r5.large"], id="regional ones"),
        pytest.param(by("availability-zone", "us-west-2a"), ["c5.xlarge"], id="those of a zone"),
        pytest.param(by("instance-type", "m5.xlarge"), [], id="those of another type"),
        pytest.param({"ReservedInstancesIds": ["other"]}, [], id="an unknown id"),
    ],
)
def test_reserved_instances_are_filtered(asked: dict[str, Any], expected: list[str]) -> None:
    """DescribeReservedInstances tells what it is asked for, and nothing else."""
    assert reserved(**asked) == expected


def test_an_unknown_filter_of_reserved_instances_is_refused() -> None:
    """A filter that EC2 does not have is refused."""
    with pytest.raises(ClientError) as caught:
        reserved(**by("colour", "blue"))
    assert code_of(caught.value) == "InvalidParameterValue"


def test_another_region_has_no_reserved_instances() -> None:
    """They are regional."""
    ec2 = shared_site().session.client(
        "ec2", region_name="eu-west-1", endpoint_url=shared_site().environment["AWS_ENDPOINT_URL"]
    )
    assert ec2.describe_reserved_instances()["ReservedInstances"] == []


def test_reserved_instances_last_three_years() -> None:
    """A term begins with the year, and its price is a share of the on-demand price."""
    (regional, *_) = shared_site().client("ec2").describe_reserved_instances()["ReservedInstances"]
    on_demand = shared_site().account.on_demand["m5.large"]

    assert regional["End"].year - regional["Start"].year == 3
    assert (regional["InstanceCount"], regional["InstanceTenancy"]) == (3, "default")
    assert regional["RecurringCharges"][0]["Amount"] == pytest.approx(0.72 * on_demand)


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        pytest.param({}, 1, id="all"),
        pytest.param({"states": ["active"]}, 1, id="active ones"),
        pytest.param({"states": ["retired"]}, 0, id="retired ones"),
        pytest.param({"savingsPlanIds": ["00000000-0000-0000-0000-000000000000"]}, 0, id="another id"),
        pytest.param({"savingsPlanArns": ["arn:aws:savingsplans::1:savingsplan/other"]}, 0, id="another ARN"),
    ],
)
def test_savings_plans_are_filtered(asked: dict[str, Any], count: int) -> None:
    """There is one Savings Plan, for any family in any region."""
    plans = shared_site().client("savingsplans").describe_savings_plans(**asked)["savingsPlans"]

    assert [(each["savingsPlanType"], each["commitment"]) for each in plans] == [("Compute", "0.25")] * count


def test_rates_come_in_pages() -> None:
    """Every type has a rate, which is a share of its on-demand price; filters and pages are kept."""
    plans, account = shared_site().client("savingsplans"), shared_site().account
    (plan,) = plans.describe_savings_plans()["savingsPlans"]
    asked: dict[str, Any] = {
        "savingsPlanId": plan["savingsPlanId"],
        "filters": [{"name": "region", "values": ["us-west-2"]}],
        "maxResults": 1,
    }
    first = plans.describe_savings_plan_rates(**asked)
    second = plans.describe_savings_plan_rates(**asked, nextToken=first["nextToken"])
    none = plans.describe_savings_plan_rates(
        savingsPlanId=plan["savingsPlanId"], filters=[{"name": "tenancy", "values": ["dedicated"]}]
    )

    rates = {
        next(p["value"] for p in each["properties"] if p["name"] == "instanceType"): float(each["rate"])
        for each in (*first["searchResults"], *second["searchResults"])
    }
    assert rates == pytest.approx({name: 0.72 * price for name, price in account.on_demand.items()})
    assert "nextToken" not in second
    assert none["searchResults"] == []


@pytest.mark.parametrize(
    ("operation", "parameters", "code"),
    [
        pytest.param(
            "describe_savings_plan_rates",
            {"savingsPlanId": "00000000-0000-0000-0000-000000000000"},
            "ResourceNotFoundException",
            id="a plan that is not there",
        ),
        pytest.param("describe_savings_plans_offerings", {}, "InvalidAction", id="another operation"),
    ],
)
def test_what_savings_plans_refuse(operation: str, parameters: dict[str, Any], code: str) -> None:
    """Errors have the code of AWS."""
    plans = shared_site().client("savingsplans")
    with pytest.raises(ClientError) as caught:
        getattr(plans, operation)(**parameters)
    assert code_of(caught.value) == code
