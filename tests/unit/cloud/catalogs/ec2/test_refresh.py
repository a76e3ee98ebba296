from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from karpenter.api.labels import CAPACITY_TYPE, ZONE
from karpenter.cloud.catalogs.ec2.refresh import RefreshFailed, pricing_region, refresh
from tests.unit.cloud.catalogs.ec2.small_region import product, small_region

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.core.model.catalog import Catalog
    from tests.unit.cloud.catalogs.ec2.endpoint import Aws

NOW = datetime(2026, 10, 1, 12, tzinfo=UTC)
KA = "karpenter.k8s.aws"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    """Lend a small AWS that the SDK takes for the real one."""
    with small_region(monkeypatch) as small:
        yield small


def refreshed(region: str = "eu-west-1") -> Catalog:
    """Return the catalogue of the small AWS."""
    return refresh(region, now=NOW, tell=lambda _: None)


@pytest.mark.usefixtures("aws")
def test_the_catalogue_has_what_aws_sells_for_a_price() -> None:
    """Types that cannot be nodes, are not sold, or have no price are left out; pages are all read."""
    assert list(refreshed().by_name) == ["brand9.new", "m5.large"]


@pytest.mark.usefixtures("aws")
def test_offerings_have_the_prices_of_aws() -> None:
    """On-demand holds for all zones; of spot prices the latest counts, and no price means not sold."""
    offerings = refreshed().by_name["m5.large"].offerings

    assert {(o.zone, o.capacity_type, o.price) for o in offerings} == {
        ("eu-west-1a", "on-demand", 0.107),
        ("eu-west-1b", "on-demand", 0.107),
        ("eu-west-1a", "spot", 0.05),
    }


@pytest.mark.usefixtures("aws")
def test_labels_and_resources_follow_from_the_records() -> None:
    """A refreshed type is like the one that ships with the product, zones and prices aside."""
    kind = refreshed().by_name["m5.large"]

    assert kind.requirements[ZONE].values == {"eu-west-1a", "eu-west-1b"}
    assert kind.requirements[CAPACITY_TYPE].values == {"on-demand", "spot"}
    assert kind.requirements["topology.k8s.aws/zone-id"].values == {"euw1-az1", "euw1-az3"}
    assert kind.requirements["topology.kubernetes.io/region"].values == {"eu-west-1"}
    assert kind.requirements[f"{KA}/instance-network-bandwidth"].values == {"750"}
    assert dict(kind.allocatable) == {
        "cpu": 1930,
        "memory": 6903 * 2**20,
        "pods": 29,
        "ephemeral-storage": 17 * 2**30,
        "vpc.amazonaws.com/pod-eni": 9,
    }


@pytest.mark.usefixtures("aws")
def test_a_type_newer_than_the_product_has_no_branch_interfaces() -> None:
    """What no API tells is known only for types that the product knows."""
    assert "vpc.amazonaws.com/pod-eni" not in refreshed().by_name["brand9.new"].capacity


def test_questions_are_narrow(aws: Aws) -> None:
    """Only what can be a node is asked for, only present spot prices, only prices for Linux."""
    refreshed()

    types = aws.questions("DescribeInstanceTypes")[0]
    history = aws.questions("DescribeSpotPriceHistory")[0]
    products = [
        {f["Field"]: f["Value"] for f in question["Filters"]} for question in aws.questions("GetProducts")
    ]
    assert (types["Filter.1.Value.1"], types["Filter.2.Value.1"]) == ("hvm", "arm64")
    assert history["StartTime"] == "2026-10-01T12:00:00Z"
    assert {(p["tenancy"], p["productFamily"]) for p in products} == {
        ("Shared", "Compute Instance"),
        ("Dedicated", "Compute Instance (bare metal)"),
    }
    assert {(p["regionCode"], p["operatingSystem"], p["preInstalledSw"]) for p in products} == {
        ("eu-west-1", "Linux", "NA")
    }


def test_prices_in_china_are_in_yuan(aws: Aws) -> None:
    """The currency is that of the region."""
    aws.pages["GetProducts"] = [{"PriceList": [product("m5.large", "0.7", "CNY")]}]

    kind = refreshed("cn-north-1").by_name["m5.large"]

    assert {o.price for o in kind.offerings if o.capacity_type == "on-demand"} == {0.7}


@pytest.mark.usefixtures("aws")
def test_progress_is_told() -> None:
    """The progress is reported."""
    told: list[str] = []

    refresh("eu-west-1", now=NOW, tell=told.append)

    assert told == [
        "3 instance types",
        "2 zones",
        "2 instance types on offer",
        "3 on-demand prices",
        "2 spot prices",
    ]


@pytest.mark.parametrize(
    ("action", "what"),
    [
        ("DescribeInstanceTypes", "instance types"),
        ("DescribeAvailabilityZones", "zones"),
        ("DescribeInstanceTypeOfferings", "instance types on offer"),
        ("GetProducts", "on-demand prices"),
        ("DescribeSpotPriceHistory", "spot prices"),
    ],
)
def test_an_empty_answer_is_no_catalogue(aws: Aws, action: str, what: str) -> None:
    """Half a catalogue would mislead, so none is made."""
    key = {
        "DescribeInstanceTypes": "InstanceTypes",
        "DescribeAvailabilityZones": "AvailabilityZones",
        "DescribeInstanceTypeOfferings": "InstanceTypeOfferings",
        "GetProducts": "PriceList",
        "DescribeSpotPriceHistory": "SpotPriceHistory",
    }[action]
    aws.pages[action] = [{key: []}]

    with pytest.raises(RefreshFailed) as failed:
        refreshed()

    assert str(failed.value) == f"AWS lists no {what} in eu-west-1, so there is no catalogue to make"


def test_a_refusal_names_the_question_and_the_reason(aws: Aws) -> None:
    """Missing permissions are told in one line, with those that are needed."""
    aws.refusals["DescribeInstanceTypeOfferings"] = "UnauthorizedOperation"

    with pytest.raises(RefreshFailed) as failed:
        refreshed()

    assert str(failed.value) == (
        "AWS refused DescribeInstanceTypeOfferings: UnauthorizedOperation: You are not authorized"
    )
    assert "ec2:DescribeSpotPriceHistory" in failed.value.hint


@pytest.mark.usefixtures("aws")
def test_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without credentials, the hint says where they are looked for."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    with pytest.raises(RefreshFailed) as failed:
        refreshed()

    assert str(failed.value) == "no AWS credentials were found"
    assert "AWS_PROFILE" in failed.value.hint


@pytest.mark.usefixtures("aws")
def test_a_profile_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other complaints of the SDK come out as one sentence too."""
    monkeypatch.setenv("AWS_PROFILE", "missing")

    with pytest.raises(RefreshFailed) as failed:
        refreshed()

    assert str(failed.value) == "AWS cannot be asked: The config profile (missing) could not be found"


def test_without_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK is optional, and its absence is a sentence with a remedy."""
    monkeypatch.setitem(sys.modules, "boto3", None)

    with pytest.raises(RefreshFailed) as failed:
        refreshed()

    assert str(failed.value) == "boto3 is not installed, and AWS cannot be asked without it"
    assert failed.value.hint == "pip install boto3"


@pytest.mark.parametrize(
    ("region", "home"),
    [
        pytest.param("us-west-2", "us-east-1", id="America"),
        pytest.param("eu-north-1", "eu-central-1", id="Europe"),
        pytest.param("ap-northeast-1", "ap-south-1", id="Asia"),
        pytest.param("cn-north-1", "cn-northwest-1", id="China"),
        pytest.param("sa-east-1", "us-east-1", id="everywhere else"),
    ],
)
def test_prices_are_asked_where_they_are_kept(region: str, home: str) -> None:
    """Only a few regions keep a price list."""
    assert pricing_region(region) == home
