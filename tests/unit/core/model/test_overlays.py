"""Overlays: corrections to prices and capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from karpenter.api import labels
from karpenter.api.meta import convert
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.core.model.overlays import (
    OverlaidTypes,
    ParsedOverlay,
    adjusted_price,
    apply_overlays,
    parse_overlays,
    without_conflicts,
)
from tests.unit.core.scheduling.build.catalogue import CATALOG, machine

if TYPE_CHECKING:
    from karpenter.core.model.catalog import InstanceType


RULES = CATALOG.label_rules
GPU = "example.com/gpu"
POOLS: dict[str, tuple[dict[str, str], tuple[InstanceType, ...]]] = {"default": ({}, CATALOG.types)}


def an_overlay(name: str, /, *requirements: tuple[str, str, *tuple[str, ...]], **spec: object) -> NodeOverlay:
    """Return an overlay about instance types with certain labels."""
    wanted = [{"key": k, "operator": o, "values": list(v)} for k, o, *v in requirements]
    return convert({"metadata": {"name": name}, "spec": {"requirements": wanted, **spec}}, NodeOverlay)


def corrections(*overlays: NodeOverlay) -> list[ParsedOverlay]:
    return parse_overlays(overlays, RULES)[0]


def applied(*overlays: NodeOverlay, pool: str = "default", **own: str) -> OverlaidTypes:
    return apply_overlays(pool, own, CATALOG.types, corrections(*overlays))


def prices(found: OverlaidTypes) -> dict[str, list[float]]:
    """Return the prices of every type: on demand and spot in one zone, then in the other."""
    return {kind.name: [each.price for each in kind.offerings] for kind in found.types}


AS_SOLD = {"small": [1.0, 0.5, 1.0, 0.5], "large": [4.0, 2.0, 4.0, 2.0]}
SMALL: tuple[str, str, str] = (labels.INSTANCE_TYPE, "In", "small")


@pytest.mark.parametrize(
    ("price", "adjustment", "expected"),
    [
        pytest.param(1.25, "", 1.25, id="nothing"),
        pytest.param(1.25, "3", 3.0, id="an absolute price"),
        pytest.param(1.25, "0.5", 0.5, id="an absolute price below one"),
        pytest.param(1.25, "+0.75", 2.0, id="an amount on top"),
        pytest.param(1.25, "-0.75", 0.5, id="an amount off"),
        pytest.param(1.25, "-2", 0.0, id="never below zero"),
        pytest.param(10.0, "-10%", 9.0, id="a share off"),
        pytest.param(10.0, "+10%", 11.0, id="a share on top"),
        pytest.param(10.0, "-200%", 0.0, id="no share below zero"),
        pytest.param(10.0, "-100%", 0.0, id="all of it off"),
    ],
)
def test_price_arithmetic(price: float, adjustment: str, expected: float) -> None:
    """A price is replaced, moved by an amount, or moved by a share of itself; never below zero."""
    assert adjusted_price(price, adjustment) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(
            an_overlay("o", price="3"), {"small": [3.0] * 4, "large": [3.0] * 4}, id="every offering"
        ),
        pytest.param(
            an_overlay("o", SMALL, price="3"), {**AS_SOLD, "small": [3.0] * 4}, id="one instance type"
        ),
        pytest.param(
            an_overlay("o", SMALL, (labels.CAPACITY_TYPE, "In", "spot"), price="3"),
            {**AS_SOLD, "small": [1.0, 3.0, 1.0, 3.0]},
            id="only offerings that match",
        ),
        pytest.param(
            an_overlay("o", SMALL, (labels.ZONE, "NotIn", "a"), priceAdjustment="-50%"),
            {**AS_SOLD, "small": [1.0, 0.5, 0.5, 0.25]},
            id="an adjustment in one zone",
        ),
        pytest.param(
            an_overlay("o", (labels.ZONE, "In", "c"), price="3"), AS_SOLD, id="a zone that is not sold"
        ),
        pytest.param(
            an_overlay("o", (labels.NODEPOOL, "In", "default"), price="3"),
            {"small": [3.0] * 4, "large": [3.0] * 4},
            id="one pool",
        ),
        pytest.param(
            an_overlay("o", (labels.NODEPOOL, "In", "other"), price="3"), AS_SOLD, id="another pool"
        ),
        pytest.param(
            an_overlay("o", ("team", "In", "web"), price="3"),
            {"small": [3.0] * 4, "large": [3.0] * 4},
            id="a label of the pool's template",
        ),
        pytest.param(
            an_overlay("o", ("other", "In", "web"), price="3"), AS_SOLD, id="a label that no type has"
        ),
        pytest.param(
            an_overlay("o", ("other", "DoesNotExist"), price="3"),
            {"small": [3.0] * 4, "large": [3.0] * 4},
            id="a restricted label",
        ),
        pytest.param(
            an_overlay("o", (labels.REGION, "In", "x"), price="3"),
            AS_SOLD,
            id="a well-known label that no type has",
        ),
    ],
)
def test_matching(found: NodeOverlay, expected: dict[str, list[float]]) -> None:
    """An overlay is about the offerings whose labels, type and pool have all it asks for."""
    assert prices(applied(found, team="web")) == expected


def test_the_pool_label_cannot_be_feigned() -> None:
    """A template label of that name does not make a pool another."""
    found = an_overlay("o", (labels.NODEPOOL, "In", "other"), price="3")

    assert prices(applied(found, **{labels.NODEPOOL: "other"})) == AS_SOLD


@pytest.mark.parametrize(
    ("overlays", "expected"),
    [
        pytest.param(
            [an_overlay("a", SMALL, price="3", weight=1), an_overlay("b", SMALL, price="7", weight=9)],
            [7.0] * 4,
            id="the heaviest wins",
        ),
        pytest.param(
            [an_overlay("a", SMALL, price="3", weight=1), an_overlay("b", SMALL, price="7")],
            [3.0] * 4,
            id="no weight is the lightest",
        ),
        pytest.param(
            [
                an_overlay("a", SMALL, price="3", weight=1),
                an_overlay("b", SMALL, (labels.ZONE, "In", "a"), price="7", weight=9),
            ],
            [7.0, 7.0, 3.0, 3.0],
            id="lighter ones fill what is left open",
        ),
        pytest.param(
            [
                an_overlay("a", SMALL, priceAdjustment="+1", weight=1),
                an_overlay("b", SMALL, priceAdjustment="+2", weight=9),
            ],
            [3.0, 2.5, 3.0, 2.5],
            id="adjustments do not add up",
        ),
    ],
)
def test_weights(overlays: list[NodeOverlay], expected: list[float]) -> None:
    """Of several overlays the heaviest decides."""
    assert prices(applied(*overlays))["small"] == expected


def test_capacity() -> None:
    """Extended resources are added to a type as soon as one of its offerings matches."""
    found = applied(
        an_overlay("a", SMALL, (labels.ZONE, "In", "a"), capacity={GPU: "2"}, weight=5),
        an_overlay("b", SMALL, capacity={GPU: "1", "example.com/nic": "3"}, weight=1),
    )

    assert found.types[0].capacity == {"cpu": 2000, "pods": 10, GPU: 2, "example.com/nic": 3}


def test_marks() -> None:
    """Types that were changed are marked, for price and for capacity apart."""
    found = applied(
        an_overlay("a", SMALL, price="1"),
        an_overlay("b", (labels.INSTANCE_TYPE, "In", "large"), capacity={GPU: "2"}),
    )

    assert found.marks == {"small": (True, False), "large": (False, True)}


def test_types_that_no_overlay_is_about_are_not_copied() -> None:
    """Types that no overlay selects stay the same objects."""
    found = applied(an_overlay("a", SMALL, price="1"))

    assert found.types[1] is CATALOG.types[1]


def test_no_overlays() -> None:
    """Without overlays nothing is copied, and nothing is marked."""
    assert apply_overlays("default", {}, CATALOG.types, []) == OverlaidTypes(CATALOG.types)


def test_order() -> None:
    """The heaviest comes first, and of equals the later name."""
    found = corrections(
        an_overlay("a", weight=1), an_overlay("c", weight=1), an_overlay("b", weight=7), an_overlay("d")
    )

    assert [each.name for each in found] == ["b", "c", "a", "d"]


@pytest.mark.parametrize(
    ("overlays", "kept"),
    [
        pytest.param(
            [an_overlay("a", price="1", weight=5), an_overlay("b", price="1", weight=5)],
            ["b"],
            id="the same price twice",
        ),
        pytest.param(
            [an_overlay("a", price="1", weight=5), an_overlay("b", price="2", weight=6)],
            ["b", "a"],
            id="prices of different weights",
        ),
        pytest.param(
            [
                an_overlay("a", (labels.ZONE, "In", "a"), price="1"),
                an_overlay("b", (labels.ZONE, "In", "b"), price="2"),
            ],
            ["b", "a"],
            id="prices of different offerings",
        ),
        pytest.param(
            [an_overlay("a", capacity={GPU: "1"}), an_overlay("b", capacity={GPU: "1"})],
            ["b"],
            id="one resource twice",
        ),
        pytest.param(
            [an_overlay("a", capacity={GPU: "1"}), an_overlay("b", capacity={"example.com/nic": "1"})],
            ["b", "a"],
            id="different resources",
        ),
        pytest.param(
            [an_overlay("a", capacity={GPU: "1"}), an_overlay("b", price="1")],
            ["b", "a"],
            id="a price and a resource",
        ),
        pytest.param(
            [
                an_overlay("c", price="1", weight=5),
                an_overlay("b", price="1", weight=3),
                an_overlay("a", price="1", weight=3),
            ],
            ["c", "b"],
            id="the lightest that holds is the one to compare with",
        ),
        pytest.param(
            [
                an_overlay("a", (labels.ZONE, "In", "a"), price="1", capacity={GPU: "1"}),
                an_overlay("b", SMALL, capacity={GPU: "2"}),
            ],
            ["b"],
            id="a conflict on one type refuses all of it",
        ),
        pytest.param(
            [
                an_overlay("c", price="1", weight=5),
                an_overlay("b", price="1", weight=5),
                an_overlay("a", price="1", weight=3),
            ],
            ["c", "a"],
            id="a refused overlay hides no later one",
        ),
        pytest.param(
            [an_overlay("a", (labels.ZONE, "In", "x"), price="1"), an_overlay("b", price="1")],
            ["b", "a"],
            id="an overlay that selects nothing conflicts with none",
        ),
    ],
)
def test_conflicts(overlays: list[NodeOverlay], kept: list[str]) -> None:
    """Two overlays of one weight may not correct the same thing; the later is refused whole."""
    found, refused = without_conflicts(corrections(*overlays), POOLS)

    assert [each.name for each in found] == kept
    assert sorted(refused) == sorted({each.name for each in overlays} - set(kept))


def test_a_conflict_is_a_sentence() -> None:
    """A refused overlay names the one that it conflicts with."""
    _, refused = without_conflicts(corrections(an_overlay("a", price="1"), an_overlay("b", price="1")), POOLS)

    assert refused == {"a": "conflicts with NodeOverlay b of the same weight"}


def test_a_conflict_in_one_pool_counts_for_all() -> None:
    """An overlay is refused everywhere when it contradicts another anywhere."""
    pools = {"one": ({}, CATALOG.types), "two": ({"team": "web"}, (machine("small"),))}
    overlays = [an_overlay("a", price="1"), an_overlay("b", ("team", "In", "web"), price="1")]

    assert [each.name for each in without_conflicts(corrections(*overlays), pools)[0]] == ["b"]


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        pytest.param(
            an_overlay("o", ("a", "Is", "b")),
            'spec.requirements[0].operator: Unsupported value: "Is"',
            id="an operator that is none",
        ),
        pytest.param(
            an_overlay("o", ("a", "NotIn")),
            "spec.requirements[0].values: Required value",
            id="a refusal without a value",
        ),
        pytest.param(
            an_overlay("o", (labels.HOSTNAME, "In", "x")),
            "spec.requirements[0].key: Forbidden",
            id="a restricted label in requirements",
        ),
        pytest.param(
            an_overlay("o", price="cheap"),
            "price 'cheap' is no price: expected a number such as 0.25",
            id="a price that is none",
        ),
        pytest.param(an_overlay("o", price="nan"), "price 'nan' is no price", id="not a number"),
        pytest.param(an_overlay("o", price="-1"), "price '-1' is no price", id="a price below zero"),
        pytest.param(an_overlay("o", price="9" * 400), "price '999", id="a price without end"),
        pytest.param(
            an_overlay("o", priceAdjustment="5"),
            "priceAdjustment '5' is no adjustment: expected one such as -0.5 or +10%",
            id="an adjustment without a sign",
        ),
        pytest.param(
            an_overlay("o", priceAdjustment="+inf"), "priceAdjustment '+inf' is no adj", id="without end"
        ),
        pytest.param(
            an_overlay("o", price="1", priceAdjustment="+5%"),
            "price and priceAdjustment may not both be set",
            id="two prices",
        ),
        pytest.param(
            an_overlay("o", capacity={"cpu": "8"}),
            "capacity may not hold cpu, which the provider knows best",
            id="a resource that the provider knows",
        ),
        pytest.param(
            an_overlay("o", capacity={GPU: "some"}),
            f"resource '{GPU}': 'some' is not a quantity",
            id="an amount that is none",
        ),
        pytest.param(
            an_overlay("o", capacity={GPU: "1e30"}),
            f"resource {GPU}: 1e30 is beyond what can be counted",
            id="an amount that cannot be counted",
        ),
        pytest.param(
            an_overlay("o", capacity={GPU: "-1"}),
            f"resource {GPU}: -1 is less than nothing",
            id="less than nothing",
        ),
    ],
)
def test_overlays_that_cannot_be_read(found: NodeOverlay, sentence: str) -> None:
    """An overlay that makes no sense is refused, and says why; the others are read."""
    read_ones, refused = parse_overlays([found, an_overlay("good", price="1")], RULES)

    assert [each.name for each in read_ones] == ["good"]
    assert refused["o"].startswith(sentence)


@pytest.mark.parametrize("written", ["+.5", "-0.5", "+10%", "-100%", "+1.5%", "-3"])
def test_adjustments_that_can_be_read(written: str) -> None:
    """Every spelling that the API allows is understood."""
    assert [each.price for each in corrections(an_overlay("o", priceAdjustment=written))] == [written]
