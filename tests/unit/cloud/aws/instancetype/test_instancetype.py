"""Types as a class sees them: labels, and the offerings that they are sold through."""

from typing import Any

import pytest

from karpenter.api.ec2nodeclass_status import CapacityReservation
from karpenter.cloud.aws.instancetype.compatibility import is_compatible
from karpenter.cloud.aws.instancetype.offering import InstanceTypeBuilder
from karpenter.cloud.aws.instancetype.types import Traits
from karpenter.cloud.aws.placementgroup import PlacementGroup
from karpenter.cloud.aws.pricing import PricingProvider
from karpenter.cloud.catalogs.kwok import Interner
from karpenter.core.model.catalog import InstanceType
from tests.unit.cloud.aws.catalogue import ZONES, interface, sold, traits
from tests.unit.cloud.aws.scripted import ScriptedAws

ALL = frozenset(ZONES)
KA = "karpenter.k8s.aws"


def reservation(**more: Any) -> CapacityReservation:
    """Return a reservation of m5.large."""
    said = {
        "id": "cr-1",
        "availability_zone": "us-west-2a",
        "instance_match_criteria": "targeted",
        "instance_type": "m5.large",
        "owner_id": "012345678901",
        **more,
    }
    return CapacityReservation(**said)


def group(strategy: str = "cluster", partitions: int = 0) -> PlacementGroup:
    return PlacementGroup(id="pg-1", name="group", strategy=strategy, partitions=partitions)


def prices(spot: dict[tuple[str, str], float] | None = None) -> PricingProvider:
    """Return prices that ship with the product, and perhaps some of spot."""
    found = PricingProvider(ScriptedAws())
    found._spot = spot
    return found


def built(
    name: str, wanted: Traits | None = None, *, zones: frozenset[str] = ALL, **more: Any
) -> InstanceType | None:
    """Return a type as a class sees it."""
    builder = InstanceTypeBuilder(wanted or traits(), prices(**more), Interner())
    return builder.build(sold(name), zones)


def label(kind: InstanceType | None, key: str) -> set[str]:
    """Return the values of a label; none when the type must not have it."""
    assert kind is not None
    return set(kind.requirements[key].values)


@pytest.mark.parametrize(
    ("name", "key", "values"),
    [
        ("m5.large", "node.kubernetes.io/instance-type", {"m5.large"}),
        ("m5.large", "kubernetes.io/arch", {"amd64"}),
        ("c6g.large", "kubernetes.io/arch", {"arm64"}),
        ("m5.large", "kubernetes.io/os", {"linux"}),
        ("m5.large", "topology.kubernetes.io/zone", set(ZONES)),
        ("m5.large", "topology.kubernetes.io/region", {"us-west-2"}),
        ("m5.large", "topology.k8s.aws/zone-id", set(ZONES.values())),
        ("m5.large", "karpenter.sh/capacity-type", {"on-demand", "spot"}),
        ("m5.large", f"{KA}/instance-cpu", {"2"}),
        ("m5.large", f"{KA}/instance-memory", {"8192"}),
        ("m5.large", f"{KA}/instance-cpu-manufacturer", {"intel"}),
        ("c6g.large", f"{KA}/instance-cpu-manufacturer", {"aws"}),
        ("m5.large", f"{KA}/instance-category", {"m"}),
        ("m5.large", f"{KA}/instance-family", {"m5"}),
        ("m5.large", f"{KA}/instance-generation", {"5"}),
        ("m5.large", f"{KA}/instance-size", {"large"}),
        ("m7i-flex.large", f"{KA}/instance-capability-flex", {"true"}),
        ("m5.large", f"{KA}/instance-capability-flex", {"false"}),
        ("m5.large", f"{KA}/instance-hypervisor", {"nitro"}),
        ("m5.metal", f"{KA}/instance-hypervisor", {""}),
        ("m5d.large", f"{KA}/instance-local-nvme", {"75"}),
        ("m5.large", f"{KA}/instance-local-nvme", set()),
        ("p5.48xlarge", f"{KA}/instance-gpu-name", {"h100"}),
        ("p5.48xlarge", f"{KA}/instance-gpu-manufacturer", {"nvidia"}),
        ("p5.48xlarge", f"{KA}/instance-gpu-count", {"8"}),
        ("p5.48xlarge", f"{KA}/instance-gpu-memory", {"81920"}),
        ("m5.large", f"{KA}/instance-gpu-count", set()),
        ("inf2.24xlarge", f"{KA}/instance-accelerator-name", {"inferentia2"}),
        ("inf2.24xlarge", f"{KA}/instance-accelerator-manufacturer", {"aws"}),
        ("inf2.24xlarge", f"{KA}/instance-accelerator-count", {"6"}),
        ("u7in-32tb.224xlarge", f"{KA}/instance-category", {"u"}),
        ("u7in-32tb.224xlarge", f"{KA}/instance-generation", {"7"}),
        ("m5.large", f"{KA}/instance-tenancy", {"default", "dedicated"}),
        ("m5.large", f"{KA}/capacity-reservation-id", set()),
        ("m5.large", "node.kubernetes.io/windows-build", set()),
    ],
)
def test_labels(name: str, key: str, values: set[str]) -> None:
    """What a node of the type will be labelled with, so that pods can ask for it."""
    assert label(built(name), key) == values


@pytest.mark.parametrize(
    ("family", "name", "os", "build"),
    [
        ("Windows2019", "m5.large", {"windows"}, {"10.0.17763"}),
        ("Windows2022", "m5.large", {"windows"}, {"10.0.20348"}),
        ("Windows2025", "m5.large", {"windows"}, {"10.0.26100"}),
        ("Windows2022", "c6g.large", set(), {"10.0.20348"}),
    ],
)
def test_windows(family: str, name: str, os: set[str], build: set[str]) -> None:
    """There is no Windows for arm64."""
    kind = built(name, traits(family))

    assert (label(kind, "kubernetes.io/os"), label(kind, "node.kubernetes.io/windows-build")) == (os, build)


def test_a_type_is_sold_in_zones_that_have_it_and_a_subnet() -> None:
    """Neither is enough by itself."""
    kind = built("m5.large", zones=frozenset({"us-west-2a", "us-west-2d"}))

    assert kind is not None
    assert {each.zone for each in kind.offerings} == {"us-west-2a"}


@pytest.mark.parametrize(
    "zones",
    [
        pytest.param(frozenset(), id="anywhere"),
        pytest.param(frozenset({"us-west-2d"}), id="where the class has a subnet"),
    ],
)
def test_a_type_that_is_not_sold_cannot_be_bought(zones: frozenset[str]) -> None:
    """It stays in the catalogue, since machines of it may run and must not count as drifted."""
    kind = built("m5.large", zones=zones)

    assert kind is not None
    assert {each.zone for each in kind.offerings} == set(ZONES)
    assert kind.available == ()
    assert label(kind, "topology.kubernetes.io/zone") == set()


def test_spot_costs_what_on_demand_does_until_spot_prices_come() -> None:
    """Afterwards it cannot be bought in a zone without a price, where machines of it may still run."""
    before, after = built("m5.large"), built("m5.large", spot={("m5.large", "us-west-2a"): 0.03})

    def spot(kind: InstanceType | None) -> set[tuple[str, float, bool]]:
        assert kind is not None
        return {
            (each.zone, each.price, each.available) for each in kind.offerings if each.capacity_type == "spot"
        }

    assert {(price, available) for _, price, available in spot(before)} == {(0.096, True)}
    assert spot(after) == {
        ("us-west-2a", 0.03, True),
        ("us-west-2b", 0.0, False),
        ("us-west-2c", 0.0, False),
    }


def reserved(kind: InstanceType | None) -> list[tuple[str, float, bool, str]]:
    assert kind is not None
    return [
        (each.zone, each.price, each.available, each.reservation_id)
        for each in kind.offerings
        if each.capacity_type == "reserved"
    ]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({}, [("us-west-2a", 0.096 / 10_000_000, True, "cr-1")], id="costs next to nothing"),
        pytest.param(
            {"state": "expiring"}, [("us-west-2a", 0.096 / 10_000_000, False, "cr-1")], id="expiring"
        ),
        pytest.param({"instance_type": "m5.xlarge"}, [], id="of another type"),
        pytest.param({"availability_zone": "us-west-2d"}, [], id="in a zone without a subnet"),
    ],
)
def test_a_reservation_is_an_offering(more: dict[str, Any], expected: list[Any]) -> None:
    """It is paid for whether it is used or not, so that it is used first."""
    assert reserved(built("m5.large", traits(reservations=(reservation(**more),)))) == expected


def test_labels_of_reservations() -> None:
    """Pods may ask for a reservation by its id, its type, or whether it may be interrupted."""
    both = (reservation(), reservation(id="cr-2", interruptible=True, reservation_type="capacity-block"))
    kind = built("m5.large", traits(reservations=both))

    assert label(kind, f"{KA}/capacity-reservation-id") == {"cr-1", "cr-2"}
    assert label(kind, f"{KA}/capacity-reservation-type") == {"default", "capacity-block"}
    assert label(kind, f"{KA}/capacity-reservation-interruptible") == {"true", "false"}
    assert "reserved" in label(kind, "karpenter.sh/capacity-type")


@pytest.mark.parametrize(
    ("partitions", "expected"), [(0, 6), (3, 18)], ids=["no partitions", "one for each partition"]
)
def test_offerings_of_a_placement_group(partitions: int, expected: int) -> None:
    """Pods may be spread over partitions, so each is something to choose."""
    wanted = traits(group=group("partition" if partitions else "cluster", partitions))
    kind = built("m5.large", wanted)

    assert kind is not None
    assert len(kind.offerings) == expected
    assert label(kind, f"{KA}/placement-group-id") == {"pg-1"}
    assert label(kind, f"{KA}/placement-group-partition") == {str(n + 1) for n in range(partitions)}


@pytest.mark.parametrize(
    ("name", "wanted", "expected"),
    [
        pytest.param("m5.large", traits(), True, id="an ordinary type"),
        pytest.param("a1.medium", traits(), False, id="AL2023 does not run on a1"),
        pytest.param("a1.medium", traits("AL2"), True, id="AL2 does"),
        pytest.param("c6g.large", traits("Windows2022"), False, id="Windows does not run on arm64"),
        pytest.param("t2.large", traits(tracking=True), False, id="connections are tracked on nitro only"),
        pytest.param("m5.large", traits(tracking=True), True, id="which this one is"),
        pytest.param("m5.large", traits(nested=True), False, id="no nested virtualization"),
        pytest.param("m5.large", traits(group=group("cluster")), True, id="a placement group"),
        pytest.param(
            "m5.large", traits(group=group("other")), False, id="one of a kind that it does not take"
        ),
        pytest.param("m5.large", traits(interfaces=(interface(0, 2),)), True, id="its third interface"),
        pytest.param("m5.large", traits(interfaces=(interface(0, 3),)), False, id="one interface too many"),
        pytest.param("m5.large", traits(interfaces=(interface(1, 0),)), False, id="a card that it lacks"),
        pytest.param(
            "m5.large",
            traits(interfaces=(interface(), interface(0, 1, "efa-only"))),
            False,
            id="EFA that it does not speak",
        ),
    ],
)
def test_suits_class(name: str, wanted: Traits, expected: bool) -> None:
    """A type that cannot be what the class asks for is listed, but cannot be bought."""
    assert is_compatible(sold(name), wanted) is expected
    kind = built(name, wanted)
    assert kind is not None
    assert any(each.available for each in kind.offerings) is expected
