"""What AWS publishes: images for versions of Kubernetes, spot prices, the price list."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from karpenter_local.aws.account import zones_of
from tests.unit.local.aws.bare import code_of, shared_site

EKS = "/aws/service/eks/optimized-ami"


@pytest.mark.parametrize("version", ["1.29", "1.31", "1.33", "1.36"])
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(EKS + "/{}/amazon-linux-2023/x86_64/standard/recommended/image_id", id="AL2023"),
        pytest.param(EKS + "/{}/amazon-linux-2023/arm64/standard/recommended/image_id", id="AL2023 arm64"),
        pytest.param("/aws/service/bottlerocket/aws-k8s-{}/x86_64/latest/image_id", id="Bottlerocket"),
        pytest.param(
            "/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-{}/image_id",
            id="Windows",
        ),
    ],
)
def test_images_of_any_version_can_be_looked_up(version: str, path: str) -> None:
    """The parameters of every family are there for the version that is asked for, and name an image of it."""
    image = shared_site().client("ssm").get_parameter(Name=path.format(version))["Parameter"]["Value"]

    (found,) = shared_site().client("ec2").describe_images(ImageIds=[image])["Images"]
    assert version in found["Name"]


@pytest.mark.parametrize(
    ("version", "there"),
    [
        pytest.param("1.32", True, id="the last version of AL2"),
        pytest.param("1.33", False, id="no AL2 any longer"),
    ],
)
def test_al2_ends(version: str, *, there: bool) -> None:
    """AWS publishes no AL2 images from Kubernetes 1.33 on."""
    ssm = shared_site().client("ssm")
    name = f"{EKS}/{version}/amazon-linux-2/recommended/image_id"

    if there:
        assert ssm.get_parameter(Name=name)["Parameter"]["Value"].startswith("ami-")
        return
    with pytest.raises(ClientError) as caught:
        ssm.get_parameter(Name=name)
    assert code_of(caught.value) == "ParameterNotFound"


def test_images_are_found_by_path_and_by_name() -> None:
    """All parameters under a path are listed, and images are found by a pattern with a version in it."""
    ssm, ec2 = shared_site().client("ssm"), shared_site().client("ec2")

    found = ssm.get_parameters_by_path(Path=f"{EKS}/1.30/amazon-linux-2023", Recursive=True)["Parameters"]
    assert all(f"{EKS}/1.30/amazon-linux-2023/" in each["Name"] for each in found)
    assert found
    by_name = [{"Name": "name", "Values": ["amazon-eks-node-al2023-*-1.28-*"]}]
    assert len(ec2.describe_images(Filters=by_name)["Images"]) == 5


def _of(**asked: Any) -> set[tuple[str, str]]:
    pages = shared_site().client("ec2").get_paginator("describe_spot_price_history").paginate(**asked)
    return {
        (each["InstanceType"], each["AvailabilityZone"])
        for page in pages
        for each in page["SpotPriceHistory"]
    }


@pytest.mark.parametrize(
    ("asked", "types", "zones"),
    [
        pytest.param({}, "cm", "abcd", id="all"),
        pytest.param({"InstanceTypes": ["m5.large"]}, "m", "abcd", id="a type"),
        pytest.param({"AvailabilityZone": "us-west-2b"}, "cm", "b", id="a zone"),
        pytest.param({"ProductDescriptions": ["Linux/UNIX"]}, "cm", "abcd", id="Linux"),
        pytest.param({"ProductDescriptions": ["Linux/UNIX (Amazon VPC)"]}, "cm", "abcd", id="Linux in a VPC"),
        pytest.param({"ProductDescriptions": ["Windows"]}, "", "", id="Windows"),
        pytest.param(
            {"Filters": [{"Name": "instance-type", "Values": ["c5.large"]}]}, "c", "abcd", id="a filter"
        ),
        pytest.param(
            {
                "InstanceTypes": ["c5.large", "m5.large"],
                "Filters": [
                    {"Name": "instance-type", "Values": ["c5.large"]},
                    {"Name": "availability-zone", "Values": ["us-west-2a", "us-west-2c"]},
                ],
            },
            "c",
            "ac",
            id="all at once",
        ),
        pytest.param({"StartTime": datetime.now(UTC)}, "cm", "abcd", id="now"),
        pytest.param({"EndTime": datetime.now(UTC) - timedelta(days=1)}, "", "", id="until yesterday"),
    ],
)
def test_spot_prices_are_filtered(asked: dict[str, Any], types: str, zones: str) -> None:
    """DescribeSpotPriceHistory tells what it is asked for, and nothing else."""
    assert _of(**asked) == {(f"{name}5.large", f"us-west-2{zone}") for name in types for zone in zones}


def test_an_unknown_filter_of_spot_prices_is_refused() -> None:
    """A filter that EC2 does not have is refused."""
    with pytest.raises(ClientError) as caught:
        _of(Filters=[{"Name": "colour", "Values": ["blue"]}])
    assert code_of(caught.value) == "InvalidParameterValue"


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        pytest.param({}, {"c5.large", "m5.large"}, id="all"),
        pytest.param({"instanceType": "m5.large"}, {"m5.large"}, id="a type"),
        pytest.param(
            {"regionCode": "us-west-2", "tenancy": "Shared"}, {"c5.large", "m5.large"}, id="a region"
        ),
        pytest.param({"regionCode": "eu-west-1"}, set(), id="another region"),
        pytest.param({"operatingSystem": "Windows"}, set(), id="Windows"),
    ],
)
def test_the_price_list_is_filtered(filters: dict[str, str], expected: set[str]) -> None:
    """GetProducts finds the products that match all filters, with their prices."""
    told = (
        shared_site()
        .client("pricing")
        .get_products(
            ServiceCode="AmazonEC2",
            Filters=[{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in filters.items()],
        )
    )

    products = [json.loads(each) for each in told["PriceList"]]
    assert {each["product"]["attributes"]["instanceType"] for each in products} == expected
    assert all(each["terms"]["OnDemand"] for each in products)


@pytest.mark.parametrize(
    ("region", "expected"),
    [
        pytest.param("us-west-2", "abc", id="the first three"),
        pytest.param("ap-northeast-1", "acd", id="a region without a zone b"),
        pytest.param("us-west-1", "ab", id="a region with two zones"),
    ],
)
def test_clusters_are_in_zones_that_exist(region: str, expected: str) -> None:
    """A cluster has subnets in zones that its region has."""
    assert zones_of(region) == tuple(f"{region}{each}" for each in expected)
