from __future__ import annotations

from collections import Counter
from time import process_time

import pytest

from karpenter.api.labels import CAPACITY_TYPE, ZONE
from karpenter.cloud.catalogs.ec2.data import Region, load_data, pack_data, pack_zones
from karpenter.cloud.catalogs.ec2.instancetypes import WELL_KNOWN, ec2_catalog
from karpenter.cloud.catalogs.load import load_catalog

KA = "karpenter.k8s.aws"
AWS = load_catalog("aws")


def price(name: str, kind: str, catalog: str = "aws") -> set[float]:
    """Return the prices of a type over all zones."""
    offerings = load_catalog(catalog).by_name[name].offerings
    return {sold.price for sold in offerings if sold.capacity_type == kind}


def test_the_catalogue_is_whole() -> None:
    """Every type that is sold in us-east-1 for a known price is there, in six zones."""
    assert len(AWS.by_name) == len(AWS.types) == 1340
    assert sum(len(kind.offerings) for kind in AWS.types) == 12570
    assert set(Counter(sold.zone for kind in AWS.types for sold in kind.offerings)) == {
        f"us-east-1{letter}" for letter in "abcdef"
    }


@pytest.mark.parametrize(
    ("name", "dollars"),
    [
        ("t4g.nano", 0.0042),
        ("t3.micro", 0.0104),
        ("m7g.large", 0.0816),
        ("c5.large", 0.085),
        ("m5.large", 0.096),
        ("m5.xlarge", 0.192),
        ("c4.large", 0.1),
        ("m3.medium", 0.067),
        ("c5.metal", 4.08),
        ("m6g.metal", 2.6112),
        ("c7i.metal-24xl", 4.7124),
        ("g4dn.xlarge", 0.526),
        ("inf2.xlarge", 0.7582),
        ("trn1.32xlarge", 21.5),
        ("p5.48xlarge", 55.04),
        ("u7in-32tb.224xlarge", 360.98695),
    ],
)
def test_on_demand_prices_are_those_of_the_list(name: str, dollars: float) -> None:
    """On demand a type costs the same in every zone: its price of 2026-07-20."""
    assert price(name, "on-demand") == {dollars}


def test_other_regions_cost_a_factor_more() -> None:
    """Prices of other regions are those of us-east-1 times how dear the region is."""
    assert price("m5.large", "on-demand", "aws:eu-west-1") == {0.10714}
    assert price("m5.large", "on-demand", "aws:us-west-2") == {0.096}


def test_spot_prices_lie_around_the_share_of_their_class() -> None:
    """Spot costs the share of its class, give or take a tenth, and differs from zone to zone."""
    spot = price("m5.large", "spot")

    assert len(spot) > 1
    assert all(0.096 * 0.47 * 0.9 - 1e-5 <= dollars <= 0.096 * 0.47 * 1.1 + 1e-5 for dollars in spot)


def test_spot_is_always_cheaper_and_never_free() -> None:
    """No modelled price is zero or above on-demand."""
    for kind in AWS.types:
        on_demand = max(sold.price for sold in kind.offerings)
        assert all(0 < sold.price < on_demand for sold in kind.offerings if sold.capacity_type == "spot")


def test_labels_of_a_machine_with_gpus() -> None:
    """Every label that applies has its value, and the others are absent."""
    requirements = AWS.by_name["g5.12xlarge"].requirements

    assert requirements.without(ZONE, CAPACITY_TYPE).labels() == {
        "node.kubernetes.io/instance-type": "g5.12xlarge",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/region": "us-east-1",
        f"{KA}/instance-category": "g",
        f"{KA}/instance-family": "g5",
        f"{KA}/instance-generation": "5",
        f"{KA}/instance-size": "12xlarge",
        f"{KA}/instance-capability-flex": "false",
        f"{KA}/instance-cpu": "48",
        f"{KA}/instance-cpu-manufacturer": "amd",
        f"{KA}/instance-cpu-sustained-clock-speed-mhz": "3300",
        f"{KA}/instance-memory": "196608",
        f"{KA}/instance-network-bandwidth": "40000",
        f"{KA}/instance-ebs-bandwidth": "16000",
        f"{KA}/instance-local-nvme": "3800",
        f"{KA}/instance-hypervisor": "nitro",
        f"{KA}/instance-encryption-in-transit-supported": "true",
        f"{KA}/nitro-sandbox": "true",
        f"{KA}/instance-gpu-name": "a10g",
        f"{KA}/instance-gpu-manufacturer": "nvidia",
        f"{KA}/instance-gpu-count": "4",
        f"{KA}/instance-gpu-memory": "22888",
    }
    assert requirements[f"{KA}/instance-tenancy"].values == {"default", "dedicated"}


@pytest.mark.parametrize(
    ("name", "label", "value"),
    [
        pytest.param("m5.metal", "instance-hypervisor", "", id="bare metal has no hypervisor"),
        pytest.param("m7i-flex.large", "instance-capability-flex", "true", id="flex types say so"),
        pytest.param("m7i-flex.large", "instance-generation", "7", id="flex types have a generation"),
        pytest.param("u-6tb1.56xlarge", "instance-generation", "1", id="memory giants have one too"),
        pytest.param("u7in-32tb.224xlarge", "instance-category", "u", id="and a category"),
        pytest.param("p6-b200.48xlarge", "instance-generation", "6", id="a hyphen changes nothing"),
        pytest.param("inf1.xlarge", "instance-accelerator-name", "inferentia", id="Inferentia"),
        pytest.param("trn1.32xlarge", "instance-accelerator-count", "16", id="Trainium"),
        pytest.param("trn1.32xlarge", "instance-accelerator-manufacturer", "aws", id="which AWS makes"),
        pytest.param("g7.2xlarge", "instance-gpu-name", "rtx-pro-4500", id="names have hyphens"),
        pytest.param("m5.large", "instance-network-bandwidth", "750", id="a baseline, not the burst"),
        pytest.param("p4d.24xlarge", "instance-network-bandwidth", "400000", id="four network cards"),
    ],
)
def test_single_labels(name: str, label: str, value: str) -> None:
    """Labels say what EC2 says, in the spelling of labels."""
    assert AWS.by_name[name].requirements[f"{KA}/{label}"].values == {value}


@pytest.mark.parametrize(
    ("name", "label"),
    [
        pytest.param("m5.large", f"{KA}/instance-gpu-count", id="no GPU"),
        pytest.param("m5.large", f"{KA}/instance-local-nvme", id="no local disk"),
        pytest.param("m3.large", f"{KA}/instance-local-nvme", id="local disks, but no NVMe"),
        pytest.param("m1.small", f"{KA}/instance-network-bandwidth", id="a network that is called Low"),
        pytest.param("m1.small", f"{KA}/instance-cpu-sustained-clock-speed-mhz", id="an unknown clock"),
        pytest.param("m4.large", "node.kubernetes.io/windows-build", id="Linux"),
        pytest.param("m4.large", f"{KA}/capacity-reservation-id", id="no reservation"),
    ],
)
def test_labels_that_do_not_apply_are_absent(name: str, label: str) -> None:
    """Selecting for a label that a type cannot have excludes the type."""
    requirements = AWS.by_name[name].requirements

    assert label in requirements
    assert requirements[label].operator == "DoesNotExist"


def test_every_type_speaks_about_every_well_known_label() -> None:
    """No well-known label is left open, so that every selector has an answer."""
    assert all(kind.requirements.keys() >= WELL_KNOWN for kind in AWS.types)
    assert AWS.well_known == WELL_KNOWN
    assert AWS.restricted_domains == {KA}


def test_what_amazon_linux_2023_does_not_run_on_is_not_available() -> None:
    """The first ARM family needs an older system; it is listed, but cannot be bought."""
    kind = AWS.by_name["a1.large"]

    assert kind.offerings
    assert not kind.available
    assert kind.requirements[ZONE].operator == "DoesNotExist"


def test_offerings_know_their_zone_by_id_too() -> None:
    """A zone name means something else in every account; its id does not."""
    sold = AWS.by_name["m5.large"].offerings[0]

    assert sold.requirements.labels() == {
        ZONE: "us-east-1a",
        "topology.k8s.aws/zone-id": "use1-az2",
        CAPACITY_TYPE: "on-demand",
    }


def test_some_types_are_not_sold_as_spot() -> None:
    """Capacity types are those that EC2 supports for the type."""
    assert AWS.by_name["u7in-32tb.224xlarge"].requirements[CAPACITY_TYPE].values == {"on-demand"}


def test_making_it_is_quick_and_shares_what_is_equal() -> None:
    """Well under a third of a second of work, and a dozen sets of requirements for all offerings."""
    load_data.cache_clear()
    started = process_time()
    catalog = ec2_catalog(load_data(), "us-east-1")

    assert process_time() - started < 1.0  # measured: 0.08 s; the slack is for loaded machines
    assert len({id(sold.requirements) for kind in catalog.types for sold in kind.offerings}) == 12


@pytest.mark.parametrize("region", sorted(load_data().regions))
def test_every_region_has_types_in_at_least_two_zones(region: str) -> None:
    """Each region has zones of its own, with ids that belong to them."""
    sold = load_data().regions[region]

    assert len(sold.sold) == len(load_data().types)
    assert len(sold.zones) == len(set(sold.zones.values())) >= 2
    assert all(name.startswith(region) for name in sold.zones)


def test_the_file_is_reproducible() -> None:
    """Packing the data again gives data that reads the same, and the same bytes each time."""
    data = load_data()

    assert pack_data(data) == pack_data(data)
    assert (data.types_as_of, data.prices_as_of) == ("2026-09-30", "2026-07-20")


def test_zones_survive_packing() -> None:
    """Which zone sells which type takes one character per type."""
    sold = [frozenset({"z-a"}), frozenset(), frozenset({"z-c", "z-a"})]
    region = Region(
        price_factor=1.0,
        zones={"z-a": "id-1", "z-b": "id-2", "z-c": "id-3"},
        sold=pack_zones(["z-a", "z-b", "z-c"], sold),
    )

    assert len(region.sold) == 3
    assert [region.zones_of(index) for index in range(3)] == [
        {"z-a": "id-1"},
        {},
        {"z-a": "id-1", "z-c": "id-3"},
    ]
