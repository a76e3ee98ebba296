"""The whole price of a machine."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, ON_DEMAND_FLOOR, SPOT, ZONE
from karpenter.api.price_annotations import Floor, annotated_floor
from karpenter.core.model.catalog import Catalog, Offering, VolumePrice, combine
from karpenter.core.model.pricing import (
    COMMITMENT,
    INTERRUPTIONS,
    LIST,
    OVERLAYS,
    Additions,
    Commitment,
    NodeVolume,
    PricedNode,
    PricePolicy,
    additions,
    billed,
    coverage,
    normalization_factor,
    part,
    take,
    whole_prices,
    with_interruption_rates,
    without_commitments,
)
from karpenter_local.testing.builders import instance_type, offering

PRICES = {
    "gp3": VolumePrice(gib=0.08, iops=0.005, included_iops=3000, throughput=0.04, included_throughput=125)
}
KIND = instance_type(
    "m5.large", cpu=2, sold=(offering("zone-1", ON_DEMAND, 0.1), offering("zone-1", SPOT, 0.04))
)
TYPES = (KIND,)
SOLD = Catalog(types=TYPES, volume_prices=PRICES, public_ipv4_price=0.005)
RESERVED = Commitment(kind="ReservedInstance", name="ri", instance_type="m5.large", count=2)
PLAN = Commitment(kind="SavingsPlan", name="sp", family="m5", hourly=0.16, rate=0.8)


def priced(extra: Additions) -> tuple[Offering, Offering]:
    """Return the on-demand and the spot offering at their whole prices."""
    (kind,) = whole_prices(TYPES, extra)
    on_demand, spot = kind.offerings
    return on_demand, spot


def running(name: str, way: str = ON_DEMAND, kind: str = "m5.large") -> PricedNode:
    """Return a node that costs ten cents."""
    return PricedNode(name, {CAPACITY_TYPE: way, INSTANCE_TYPE: kind, ZONE: "zone-1"}, 0.1)


def test_nothing_to_add_changes_nothing() -> None:
    """Without additions the same object is returned, so that what is known of the types holds."""
    assert whole_prices(TYPES, Additions()) is TYPES


def test_equal_additions_make_one_object() -> None:
    """The solver keeps tables per tuple of types, so equal prices are one tuple; old ones are forgotten."""
    first = whole_prices(TYPES, Additions(node=0.5))

    assert whole_prices(TYPES, Additions(node=0.5)) is first
    for number in range(15):
        whole_prices(TYPES, Additions(node=1.0 + number))
    assert whole_prices(TYPES, Additions(node=0.5)) is first, "sixteen are kept"
    for number in range(16):
        whole_prices(TYPES, Additions(node=1.0 + number))
    assert whole_prices(TYPES, Additions(node=0.5)) is not first


@pytest.mark.parametrize(
    ("volume", "monthly"),
    [
        pytest.param(NodeVolume(type="gp3", gib=20), 1.6, id="size"),
        pytest.param(NodeVolume(type="gp3", gib=20, iops=3000, throughput=125), 1.6, id="included"),
        pytest.param(NodeVolume(type="gp3", gib=100, iops=4000, throughput=225), 8 + 5 + 4, id="provisioned"),
        pytest.param(NodeVolume(type="new", gib=100), 0, id="unknown type"),
    ],
)
def test_volumes_cost_by_the_month(volume: NodeVolume, monthly: float) -> None:
    """A volume costs its size, and what is provisioned beyond what is included, over 730 hours."""
    extra, problems = additions(PricePolicy(), SOLD, {}, volumes=[volume])

    assert extra.volumes == pytest.approx(monthly / 730)
    assert problems == ()


def test_parts_add_up() -> None:
    """Volumes, an address, a price per node and one per vCPU come on top, and are told apart."""
    extra, _ = additions(
        PricePolicy(node=0.01, vcpu=0.002, factors={"m5": 0.9, "*": 0.5}),
        SOLD,
        {},
        volumes=[NodeVolume(type="gp3", gib=73)],
        public_ipv4=True,
    )
    on_demand, spot = priced(extra)

    assert dict(on_demand.parts) == pytest.approx(
        {"list": 0.1, "discount": -0.01, "volumes": 0.008, "publicIPv4": 0.005, "node": 0.01, "vcpu": 0.004}
    )
    assert on_demand.price == pytest.approx(0.117)
    assert spot.price == pytest.approx(0.04 * 0.9 + 0.027)


@pytest.mark.parametrize(
    ("factors", "on_demand", "spot"),
    [
        pytest.param({"*": 0.5}, 0.05, 0.02, id="everything"),
        pytest.param({"*": 0.5, "spot": 1.0}, 0.05, 0.04, id="a capacity type"),
        pytest.param({"*": 0.5, "m5": 2.0}, 0.2, 0.08, id="a family"),
        pytest.param({"c5": 0.5}, 0.1, 0.04, id="another family"),
    ],
)
def test_prices_of_an_account(factors: dict[str, float], on_demand: float, spot: float) -> None:
    """List prices are multiplied by the factor of the family, else of the capacity type, else of all."""
    extra, _ = additions(PricePolicy(factors=factors), SOLD, {})

    assert [each.price for each in priced(extra)] == pytest.approx([on_demand, spot])


def test_annotations_of_a_pool_replace_settings() -> None:
    """A NodePool has prices of its own; what cannot be read is told, and the settings hold."""
    policy = PricePolicy(node=1.0, vcpu=2.0)
    extra, problems = additions(
        policy, SOLD, {"karpenter.sh/node-price": "0.5", "karpenter.sh/vcpu-price": "much"}
    )

    assert (extra.node, extra.vcpu) == (0.5, 2.0)
    assert problems == (
        "annotation karpenter.sh/vcpu-price is 'much': expected dollars per hour such as 0.01",
    )


@pytest.mark.parametrize(
    ("text", "of_ten", "of_one"),
    [("3", 3, 1), ("25%", 3, 1), ("0", 0, 0), ("100%", 10, 1)],
)
def test_a_floor_is_a_number_or_a_share(text: str, of_ten: int, of_one: int) -> None:
    """A share is rounded up, and no more nodes are asked for than there are."""
    floor, problem = annotated_floor({ON_DEMAND_FLOOR: text})

    assert floor is not None
    assert (floor.nodes(10), floor.nodes(1), problem) == (of_ten, of_one, "")


@pytest.mark.parametrize("text", ["101%", "some", "-1"])
def test_a_floor_that_cannot_be_read_is_none(text: str) -> None:
    """A floor of another form holds nothing, and is told."""
    floor, problem = annotated_floor({ON_DEMAND_FLOOR: text})

    assert floor is None
    assert problem.startswith("annotation karpenter.sh/on-demand-floor is")
    assert annotated_floor({}) == (None, "")
    assert [str(Floor(3)), str(Floor(20, percent=True))] == ["3", "20 %"]


def test_interruptions_make_spot_dearer() -> None:
    """A spot offering costs its interruptions; no bill has them, and on-demand has none."""
    rated = with_interruption_rates(SOLD, {("m5.large", "zone-1"): 0.2, ("other", "zone-1"): 1.0})
    extra, _ = additions(PricePolicy(interruption=7.3), SOLD, {})
    (kind,) = whole_prices(rated.types, extra)
    on_demand, spot = kind.offerings

    assert part(spot.parts, INTERRUPTIONS) == pytest.approx(0.002)
    assert billed(spot.price, spot.parts) == pytest.approx(0.04)
    assert on_demand.price == 0.1
    assert with_interruption_rates(SOLD, {}) is SOLD
    assert with_interruption_rates(rated, {("m5.large", "zone-1"): 0.1}).types[0].offerings == (
        rated.types[0].offerings
    )
    assert with_interruption_rates(SOLD, {("other", "zone-1"): 1.0}).types == SOLD.types


def test_what_cannot_be_bought_has_no_price() -> None:
    """An offering without a price stays without one, whatever machines cost besides."""
    kind = instance_type("m5.large", cpu=2, sold=(offering("zone-1", SPOT, 0.0, available=False),))
    (found,) = whole_prices((kind,), Additions(node=1.0))

    assert found is kind


def test_reserved_instances_come_before_savings_plans() -> None:
    """Each on-demand node uses the first commitment that has enough left; what is left is told."""
    found = coverage(
        [PLAN, RESERVED],
        [running("b"), running("a", SPOT), running("a"), running("d"), running("c"), running("e")],
    )

    assert found.nodes == {"a": "ri", "b": "ri", "c": "sp", "d": "sp"}
    assert [left for _, left in found.left] == pytest.approx([0, 0])
    assert coverage([], [running("a")]).left == ()


@pytest.mark.parametrize(
    ("commitment", "covered"),
    [
        pytest.param(RESERVED, True, id="instance type"),
        pytest.param(PLAN, True, id="family"),
        pytest.param(Commitment(kind="SavingsPlan", hourly=1.0), True, id="anything"),
        pytest.param(Commitment(kind="SavingsPlan", hourly=0.01), False, id="too little"),
        pytest.param(Commitment(kind="SavingsPlan", hourly=1.0, family="c5"), False, id="another family"),
        pytest.param(
            Commitment(kind="ReservedInstance", instance_type="m5.large", zone="zone-2", count=1),
            False,
            id="another zone",
        ),
    ],
)
def test_the_next_machine_is_paid_for(commitment: Commitment, covered: bool) -> None:
    """An on-demand offering that a commitment could pay for costs next to nothing, its volumes aside."""
    extra, _ = additions(PricePolicy(node=0.01), SOLD, {}, left=((commitment, commitment.size),))
    on_demand, spot = priced(extra)

    assert on_demand.price == pytest.approx(0.01 if covered else 0.11, abs=1e-6)
    assert bool(part(on_demand.parts, COMMITMENT)) is covered
    assert spot.price == pytest.approx(0.05)
    assert (take(extra.covered, "m5.large", "zone-1", 0.1) is not None) is covered


def test_prices_once_commitments_are_used_up() -> None:
    """Without commitments the price is the list price again, with what comes on top."""
    extra, _ = additions(PricePolicy(node=0.01), SOLD, {}, left=((RESERVED, 4.0),))
    other = instance_type("c5.large", sold=(offering("zone-1", ON_DEMAND, 0.2),))
    covered, same = without_commitments((*whole_prices(TYPES, extra), other))

    assert [each.price for each in covered.offerings] == pytest.approx([0.11, 0.05])
    assert dict(covered.offerings[0].parts) == pytest.approx({LIST: 0.1, "node": 0.01})
    assert same is other


def test_commitments_end() -> None:
    """A commitment counts until its end."""
    until = datetime(2027, 1, 1, tzinfo=UTC)
    ending = Commitment(kind="SavingsPlan", hourly=1.0, until=until)
    policy = PricePolicy(commitments=(ending, PLAN))

    assert policy.at(datetime(2026, 1, 1, tzinfo=UTC)) is policy
    assert policy.at(until).commitments == (PLAN,)


def test_catalogs_of_several_pools_keep_what_volumes_cost() -> None:
    """Combined catalogs have the prices of volumes that one of them has."""
    other: dict[str, Any] = {"types": (), "volume_prices": {}}
    found = combine({"a": SOLD, "b": Catalog(**other)})

    assert (found.volume_prices, found.public_ipv4_price) == (PRICES, 0.005)


def test_parts_are_told_in_the_order_of_the_bill() -> None:
    """The list price and its discount come first, then what comes on top, then what a commitment pays."""
    extra, _ = additions(PricePolicy(node=0.01, factors={"*": 0.5}), SOLD, {}, left=((RESERVED, 4.0),))
    on_demand, _ = priced(extra)

    assert [name for name, _ in on_demand.parts] == ["list", "discount", "node", "commitment"]
    assert dict(on_demand.parts) == pytest.approx(
        {"list": 0.1, "discount": -0.05, "node": 0.01, "commitment": -0.05}, abs=1e-6
    )
    assert on_demand.price == pytest.approx(0.01, abs=1e-6)


@pytest.mark.parametrize(
    ("price", "available", "expected"),
    [
        pytest.param(0.1, True, 1.1, id="sold"),
        pytest.param(0.1, False, 1.1, id="sold out, at a price that is known"),
        pytest.param(0.0, True, 1.0, id="sold for nothing"),
        pytest.param(0.0, False, 0.0, id="sold out, without a price"),
    ],
)
def test_what_comes_on_top_of_an_offering(price: float, available: bool, expected: float) -> None:
    """A dollar per node is added to each offering that has a price or can be bought."""
    kind = instance_type("t", cpu=2, sold=(offering("zone-1", SPOT, price, available=available),))
    (found,) = whole_prices((kind,), Additions(node=1.0))

    assert found.offerings[0].price == pytest.approx(expected)


def test_a_type_that_does_not_say_its_vcpus_costs_nothing_for_them() -> None:
    """A price per vCPU is for vCPUs that are known."""
    kind = msgspec.structs.replace(KIND, capacity={})
    (found,) = whole_prices((kind,), Additions(vcpu=1.0))

    assert found is kind


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        pytest.param("m5.large", [4.0, 0.16, 5.0], id="the first that matches is used"),
        pytest.param("m5.xlarge", [0.0, 0.16, 5.0], id="another size uses twice as much of it"),
        pytest.param("m5.2xlarge", [8.0, 0.08, 5.0], id="the second, by what it pays of the price"),
        pytest.param("c5.large", [8.0, 0.16, 4.9], id="the last"),
    ],
)
def test_what_an_instance_leaves_of_commitments(kind: str, expected: list[float]) -> None:
    """The units of its size, or what a Savings Plan pays for ten cents; others stay."""
    anything = Commitment(kind="SavingsPlan", name="any", hourly=5.0)
    left = tuple((each, each.size) for each in (RESERVED, PLAN, anything))

    found = take(left, kind, "zone-1", 0.1)

    assert found is not None
    assert [each for each, _ in found] == [RESERVED, PLAN, anything]
    assert [amount for _, amount in found] == pytest.approx(expected)


def test_interruption_rates_are_raised_and_never_lowered() -> None:
    """Of what is known of an offering and what was observed the larger rate counts."""
    rated = with_interruption_rates(SOLD, {("m5.large", "zone-1"): 0.2})
    lower, higher = (
        with_interruption_rates(rated, {("m5.large", "zone-1"): rate}).types[0].offerings
        for rate in (0.1, 0.3)
    )

    assert [each.interruption_rate for each in lower] == [0.0, 0.2]
    assert [each.interruption_rate for each in higher] == [0.0, 0.3]


@pytest.mark.parametrize(
    ("region", "zone", "expected"),
    [
        pytest.param("us-east-1", "us-east-1a", True, id="a zone of the region"),
        pytest.param("us-west-2", "us-west-2-lax-1a", True, id="a local zone of the region"),
        pytest.param("eu-west-1", "us-east-1a", False, id="a zone of another region"),
        pytest.param("", "us-east-1a", True, id="any region"),
    ],
)
def test_a_commitment_is_for_its_region(region: str, zone: str, expected: bool) -> None:
    """What is paid for in one region pays for nothing in another."""
    commitment = Commitment(kind="SavingsPlan", hourly=1.0, region=region)

    assert commitment.matches("m5.large", zone) is expected


def test_a_fee_on_top_of_the_list_price_uses_up_no_commitment() -> None:
    """A Savings Plan that is worth an instance at its list price pays for it whatever an overlay adds."""
    (kind,) = TYPES
    parts = ((LIST, 0.1), (OVERLAYS, 0.05))
    dearer = msgspec.structs.replace(kind.offerings[0], price=0.15, parts=parts)
    types = (msgspec.structs.replace(kind, offerings=(dearer,)),)
    left = ((PLAN, 0.08),)

    (found,) = whole_prices(types, Additions(covered=left))
    (still,) = without_commitments((found,), left)

    assert found.offerings[0].parts[:2] == parts
    assert found.offerings[0].price == still.offerings[0].price == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        pytest.param("t3.nano", 0.25, id="the smallest"),
        pytest.param("t3.micro", 0.5, id="a micro"),
        pytest.param("t3.small", 1, id="a small one is the unit"),
        pytest.param("m7g.medium", 2, id="a medium"),
        pytest.param("m7g.large", 4, id="a large"),
        pytest.param("m7g.xlarge", 8, id="an xlarge"),
        pytest.param("m7g.12xlarge", 96, id="twelve times an xlarge"),
        pytest.param("u-6tb1.112xlarge", 896, id="three digits"),
        pytest.param("i3.metal", 128, id="a metal size of the table"),
        pytest.param("c6a.metal", 384, id="a metal size of 192 vCPUs"),
        pytest.param("m7i.metal-24xl", 192, id="a metal size that names the size it equals"),
        pytest.param("new.metal", 0, id="a metal size of a family that is not known"),
        pytest.param("g5.xlarge", 0, id="a family that AWS excludes"),
        pytest.param("m7g.0xlarge", 0, id="no size"),
        pytest.param("large", 0, id="a name without a family"),
    ],
)
def test_normalization_factors(kind: str, expected: float) -> None:
    """The units of a size are those of AWS' table; types that it does not know have none."""
    assert normalization_factor(kind) == expected


def regional(kind: str, count: int, name: str = "ri", **more: Any) -> Commitment:
    return Commitment(kind="ReservedInstance", name=name, instance_type=kind, count=count, **more)


@pytest.mark.parametrize(
    ("commitments", "nodes", "expected", "left"),
    [
        pytest.param(
            [regional("m4.large", 4)],
            {"a": "m4.xlarge", "b": "m4.xlarge"},
            {"a": "ri", "b": "ri"},
            [0],
            id="4 x 4 units pay for 2 x 8",
        ),
        pytest.param(
            [regional("m3.2xlarge", 1)],
            {"a": "m3.xlarge", "b": "m3.xlarge", "c": "m3.large", "d": "m3.large"},
            {"a": "ri", "c": "ri", "d": "ri"},
            [0],
            id="16 units go to the smallest first: 4 + 4 + 8",
        ),
        pytest.param(
            [regional("c4.large", 1)], {"a": "c4.xlarge"}, {}, [4], id="4 units pay for no part of 8"
        ),
        pytest.param(
            [regional("c4.large", 1, "one"), regional("c4.large", 1, "two")],
            {"a": "c4.xlarge"},
            {"a": "one, two"},
            [0],
            id="units of one family are one amount",
        ),
        pytest.param(
            [regional("c4.large", 1, "", region="us-east-1"), regional("c4.large", 1, "", region="zone")],
            {"a": "c4.xlarge"},
            {},
            [4, 4],
            id="units of two regions are two amounts",
        ),
        pytest.param(
            [regional("c4.large", 1, "ri"), regional("c4.large", 2, "az", zone="zone-1")],
            {"a": "c4.large", "b": "c4.large", "c": "c4.large", "d": "c4.xlarge"},
            {"a": "az", "b": "az", "c": "ri"},
            [0, 0],
            id="zonal ones are used first, by their own size",
        ),
        pytest.param(
            [regional("g5.2xlarge", 1)],
            {"a": "g5.xlarge", "b": "g5.2xlarge"},
            {"b": "ri"},
            [0],
            id="an excluded family is paid for by its own size",
        ),
        pytest.param(
            [regional("i3.8xlarge", 2)], {"a": "i3.metal"}, {"a": "ri"}, [0], id="2 x 64 units pay for metal"
        ),
        pytest.param(
            [regional("m7g.xlarge", 1)],
            {"a": "m7gd.large", "b": "m7g.odd", "c": "g5.xlarge"},
            {},
            [8],
            id="other families and unknown sizes use nothing",
        ),
        pytest.param(
            [regional("m7g.xlarge", 1, family="m6g")],
            {"a": "m7g.xlarge"},
            {},
            [8],
            id="a family besides the type limits it",
        ),
    ],
)
def test_regional_reserved_instances_pay_for_every_size(
    commitments: list[Commitment], nodes: dict[str, str], expected: dict[str, str], left: list[float]
) -> None:
    """The first three are the examples of AWS, whose page is linked at `coverage`."""
    found = coverage(commitments, [running(name, kind=kind) for name, kind in nodes.items()])

    assert found.nodes == expected
    assert [amount for _, amount in found.left] == left
