"""What the machines of an EC2NodeClass have besides the instance, and what AWS asks for it."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.cloud.catalogs.ec2.volumes import class_volumes, has_public_ipv4, node_class_of, volume_prices
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.core.model.pricing import NodeVolume


def mapping(**ebs: Any) -> dict[str, Any]:
    """Return the spec of a class with one volume."""
    return {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": ebs}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(mapping(volumeSize="100Gi", volumeType="gp3"), [("gp3", 100, 0, 0)], id="gp3"),
        pytest.param(
            mapping(volumeSize="1Ti", volumeType="gp3", iops=6000, throughput=500),
            [("gp3", 1024, 6000, 500)],
            id="provisioned",
        ),
        pytest.param(mapping(volumeSize="10G"), [("gp2", 10, 0, 0)], id="no type, rounded up"),
        pytest.param(mapping(snapshotID="snap-1"), [], id="only a snapshot"),
        pytest.param(mapping(volumeSize="1x"), [], id="no size"),
        pytest.param({"blockDeviceMappings": [{"deviceName": "/dev/xvda"}]}, [], id="no volume"),
        pytest.param({"blockDeviceMappings": "many"}, [], id="unreadable"),
        pytest.param({"amiSelectorTerms": [{"alias": "al2023@latest"}]}, [("gp3", 20, 0, 0)], id="AL2023"),
        pytest.param({"amiSelectorTerms": 5}, [], id="terms that are no list"),
        pytest.param({"amiSelectorTerms": [5, {"alias": ""}]}, [], id="terms without an alias"),
        pytest.param({"amiFamily": "Windows2022"}, [("gp3", 50, 0, 0)], id="Windows"),
        pytest.param(
            {"amiSelectorTerms": [{"alias": "bottlerocket@v1"}]},
            [("gp3", 4, 0, 0), ("gp3", 20, 0, 0)],
            id="Bottlerocket",
        ),
        pytest.param({"amiSelectorTerms": [{"id": "ami-1"}]}, [], id="own images have volumes of their own"),
    ],
)
def test_volumes_of_a_class(spec: dict[str, Any], expected: list[tuple[str, int, int, int]]) -> None:
    """Stated volumes count; without any, those that the image family has by default."""
    wanted = [
        NodeVolume(type=kind, gib=gib, iops=iops, throughput=rate) for kind, gib, iops, rate in expected
    ]

    assert list(class_volumes(spec)) == wanted


@pytest.mark.parametrize(("stated", "expected"), [(True, True), (False, False), (None, False)])
def test_public_addresses(stated: bool | None, expected: bool) -> None:
    """An address counts where the class asks for it; what a subnet decides is not known."""
    assert has_public_ipv4({"associatePublicIPAddress": stated}) is expected


@pytest.mark.parametrize(
    ("region", "gib"),
    [("us-east-1", 0.08), ("eu-central-1", 0.0952), ("sa-east-1", 0.152), ("nowhere", 0.08)],
)
def test_regions_have_prices_of_their_own(region: str, gib: float) -> None:
    """A GiB of gp3 costs what https://aws.amazon.com/ebs/pricing/ says."""
    assert volume_prices(region)["gp3"].gib == pytest.approx(gib)


def test_catalogs_of_ec2_know_what_volumes_cost() -> None:
    """The built-in catalogues of EC2 have prices of volumes and addresses, that of kwok has none."""
    assert load_catalog("aws").volume_prices["gp3"].gib == 0.08
    assert load_catalog("aws").public_ipv4_price == 0.005
    assert not load_catalog("kwok").volume_prices


@pytest.mark.parametrize(
    ("status", "zones"),
    [
        pytest.param({"subnets": [{"zone": "b"}, {"zone": "a"}, {"zone": "b"}]}, ("a", "b"), id="each once"),
        pytest.param({}, (), id="not looked for yet"),
        pytest.param({"subnets": 7}, (), id="no list"),
        pytest.param({"subnets": [7, {"zone": 7}, {"id": "subnet-1"}]}, (), id="no zones"),
        pytest.param(None, (), id="no status"),
    ],
)
def test_zones_of_a_class(status: Any, zones: tuple[str, ...]) -> None:
    """The zones are those of the subnets that were found; what no schema has checked is passed over."""
    plain = {"metadata": {"name": "default"}, "spec": {}, "status": status}
    if status is None:
        del plain["status"]

    assert node_class_of(plain, "karpenter.k8s.aws", "EC2NodeClass").zones == zones
