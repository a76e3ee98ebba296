"""What the account has committed to, as botocore reads it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
import yaml
from botocore.stub import Stubber

from karpenter.cloud.catalogs.ec2.commitments import (
    _plans,
    render_commitments,
    reserved_instances,
    savings_plan,
)
from karpenter.operator.options import parse_commitments

END = datetime(2027, 1, 1, tzinfo=UTC)


def client(service: str) -> Any:
    """Return a client that asks nothing but its stub."""
    return boto3.client(
        service, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
    )


def test_reserved_instances() -> None:
    """Active ones for Linux on shared hardware count, by type and number; zonal ones in their zone."""
    ec2 = client("ec2")
    common = {"InstanceCount": 3, "End": END, "InstanceType": "m5.large"}
    answer = {
        "ReservedInstances": [
            {
                "ReservedInstancesId": "zonal",
                "Scope": "Availability Zone",
                "AvailabilityZone": "us-east-1a",
                **common,
            },
            {
                "ReservedInstancesId": "regional",
                "Scope": "Region",
                "ProductDescription": "Linux/UNIX (Amazon VPC)",
                "InstanceTenancy": "default",
                **common,
            },
            {"ReservedInstancesId": "other", "ProductDescription": "Windows", **common},
            {"ReservedInstancesId": "own hardware", "InstanceTenancy": "dedicated", **common},
        ]
    }
    with Stubber(ec2) as stub:
        stub.add_response(
            "describe_reserved_instances", answer, {"Filters": [{"Name": "state", "Values": ["active"]}]}
        )
        zonal, regional = reserved_instances(ec2, "us-east-1")

    assert (zonal.name, zonal.zone, zonal.count, zonal.until) == ("zonal", "us-east-1a", 3, END)
    assert (regional.name, regional.zone, regional.instance_type) == ("regional", "", "m5.large")


def test_savings_plans() -> None:
    """A plan has its amount, its family, and the median share of the on-demand price that it pays."""
    plans = client("savingsplans")
    listed = {
        "savingsPlanId": "plan-1",
        "savingsPlanType": "EC2Instance",
        "ec2InstanceFamily": "m5",
        "commitment": "2.5",
        "region": "us-east-1",
        "end": "2027-01-01T00:00:00.000Z",
    }
    unlike = {"savingsPlanId": "plan-2", "savingsPlanType": "SageMaker", "commitment": "1"}
    rates = [
        {"rate": "0.07", "properties": [{"name": "instanceType", "value": "m5.large"}]},
        {"rate": "0.12", "properties": [{"name": "instanceType", "value": "m5.xlarge"}]},
        {"rate": "9", "properties": [{"name": "instanceType", "value": "unknown"}]},
    ]
    with Stubber(plans) as stub:
        stub.add_response(
            "describe_savings_plans", {"savingsPlans": [unlike], "nextToken": "more"}, {"states": ["active"]}
        )
        stub.add_response(
            "describe_savings_plans", {"savingsPlans": [listed]}, {"states": ["active"], "nextToken": "more"}
        )
        stub.add_response("describe_savings_plan_rates", {"searchResults": rates})
        (found,) = _plans(plans)
        read = savings_plan(plans, found, region="us-east-1", on_demand={"m5.large": 0.1, "m5.xlarge": 0.2})

    assert (read.family, read.hourly, read.rate, read.until) == ("m5", 2.5, 0.65, END)


def test_what_is_written_is_read() -> None:
    """The file that refresh writes is what the setting reads."""
    ec2 = client("ec2")
    answer = {
        "ReservedInstances": [
            {"ReservedInstancesId": "ri", "InstanceType": "m5.large", "InstanceCount": 1, "End": END}
        ]
    }
    with Stubber(ec2) as stub:
        stub.add_response("describe_reserved_instances", answer)
        found = tuple(reserved_instances(ec2, "us-east-1"))

    assert parse_commitments(yaml.safe_dump(render_commitments(found))) == found


@pytest.mark.parametrize("rates", [[]])
def test_a_plan_whose_rates_are_not_known_pays_the_whole_price(rates: list[Any]) -> None:
    """Without rates an amount counts at on-demand prices, which promises too little rather than too much."""
    plans = client("savingsplans")
    with Stubber(plans) as stub:
        stub.add_response("describe_savings_plan_rates", {"searchResults": rates})
        read = savings_plan(
            plans, {"savingsPlanId": "p", "commitment": "1"}, region="us-east-1", on_demand={}
        )

    assert (read.rate, read.until) == (1.0, None)
