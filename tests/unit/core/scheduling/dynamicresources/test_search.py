"""The search for devices: what is found, in which order, and what is said when nothing is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.labels import ZONE
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.dynamicresources.search import StepBudget
from karpenter.core.scheduling.dynamicresources.types import ANYWHERE, NodeTerms
from tests.unit.core.scheduling.dynamicresources.bench import Bench, pool
from tests.unit.core.scheduling.dynamicresources.hardware import (
    DRIVER,
    asking,
    every,
    exactly,
    first_of,
    gpu,
    model,
    sliced,
    templates,
    zones,
)

if TYPE_CHECKING:
    from karpenter.api.dra import DeviceClaim, ResourceSliceSpec

NUMA = f"{DRIVER}/numa"
FOUR = [gpu("a", numa=0), gpu("b", numa=1), gpu("c", numa=0), gpu("d", numa=1)]


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param([asking(exactly())], ["a"], id="the first device"),
        pytest.param([asking(exactly(count=3))], ["a", "b", "c"], id="the first three"),
        pytest.param([asking(exactly(count=5))], None, id="more than there are"),
        pytest.param([asking(exactly("x"), exactly("y"))], ["a", "b"], id="requests never share"),
        pytest.param([asking(exactly()), asking(exactly())], ["a", "b"], id="claims never share"),
        pytest.param(
            [asking(exactly(count=3)), asking(exactly(count=2))], None, id="too many for two claims"
        ),
        pytest.param(
            [asking(exactly("r", f'device.attributes["{DRIVER}"].numa == 1'))],
            ["b"],
            id="a device that is selected",
        ),
        pytest.param(
            [asking(exactly("any"), exactly("r", f'device.attributes["{DRIVER}"].numa == 0', count=2))],
            ["b", "a", "c"],
            id="the first choice is undone when it leaves too few",
        ),
        pytest.param(
            [
                asking(exactly("any")),
                asking(exactly("r", f'device.attributes["{DRIVER}"].numa == 0', count=2)),
            ],
            ["b", "a", "c"],
            id="even across claims",
        ),
        pytest.param([asking(exactly(of="any", count=4))], ["a", "b", "c", "d"], id="a class of anything"),
        pytest.param([asking()], [], id="a claim for nothing"),
        pytest.param([], [], id="no claims"),
    ],
)
def test_numbers_of_devices(claims: list[DeviceClaim], expected: list[str] | None) -> None:
    """Each request gets its number of devices, the first that leave the others theirs."""
    assert Bench(pool(*FOUR)).names(*claims) == expected


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param(asking(exactly(count=2), same=NUMA), ["a", "c"], id="two that agree"),
        pytest.param(asking(exactly(count=3), same=NUMA), None, id="no three agree"),
        pytest.param(asking(exactly("x"), exactly("y"), same=NUMA), ["a", "c"], id="across requests"),
        pytest.param(
            asking(exactly("x"), exactly("y"), exactly("z"), same=NUMA, among=["x", "z"]),
            ["a", "b", "c"],
            id="some requests agree, another does not care",
        ),
        pytest.param(
            asking(exactly("x"), exactly("y", f'device.attributes["{DRIVER}"].numa == 1'), same=NUMA),
            ["b", "d"],
            id="the first choice is undone when nothing agrees with it",
        ),
        pytest.param(asking(exactly(count=2), same="numa"), None, id="an attribute is named with its domain"),
        pytest.param(
            asking(exactly(count=1), same=f"{DRIVER}/rack"), None, id="an attribute that no device has"
        ),
        pytest.param(
            asking(first_of("r", exactly("x", count=3), exactly("y", count=2)), same=NUMA, among=["r/x"]),
            ["a", "b"],
            id="only one alternative must agree",
        ),
        pytest.param(
            asking(first_of("r", exactly("x", count=3), exactly("y", count=2)), same=NUMA),
            ["a", "c"],
            id="every alternative must agree",
        ),
    ],
)
def test_what_must_be_the_same(claim: DeviceClaim, expected: list[str] | None) -> None:
    """The first device settles the value, and the others have it too."""
    assert Bench(pool(*FOUR)).names(claim) == expected


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        pytest.param({"int": 1}, {"int": 1}, True, id="equal numbers"),
        pytest.param({"string": "1"}, {"int": 1}, False, id="a text and a number"),
        pytest.param({"bool": True}, {"int": 1}, False, id="a truth and a number"),
        pytest.param({"string": "1.0.0"}, {"version": "1.0.0"}, False, id="a text and a version"),
        pytest.param({"version": "1.0.0"}, {"version": "1.0.0"}, True, id="equal versions"),
        pytest.param({"bool": False}, {"bool": False}, True, id="equal truths"),
    ],
)
def test_values_are_the_same_by_type(one: dict[str, Any], other: dict[str, Any], agree: bool) -> None:
    """Values are the same when type and value are."""
    devices = [{"name": n, "attributes": {"x": value}} for n, value in (("a", one), ("b", other))]
    found = Bench(pool(*devices)).names(asking(exactly(count=2), same=f"{DRIVER}/x"))

    assert (found is not None) is agree


def test_claims_agree_each_for_itself() -> None:
    """What devices of one claim have in common says nothing about another claim."""
    pair = asking(exactly(count=2), same=NUMA)

    assert Bench(pool(*FOUR)).names(pair, pair) == ["a", "c", "b", "d"]


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param(
            asking(first_of("r", exactly("x"), exactly("y", count=2))), ["a"], id="the first will do"
        ),
        pytest.param(
            asking(first_of("r", exactly("x", model("H")), exactly("y", count=2))),
            ["a", "b"],
            id="nothing matches it",
        ),
        pytest.param(
            asking(first_of("r", exactly("x", count=9), exactly("y"))), ["a"], id="there are too few for it"
        ),
        pytest.param(
            asking(first_of("r", exactly("x", count=9), exactly("y", count=8))), None, id="none will do"
        ),
        pytest.param(
            asking(first_of("r", exactly("x", count=4), exactly("y", count=2)), exactly("s")),
            ["a", "b", "c"],
            id="it leaves nothing for the next request",
        ),
        pytest.param(
            asking(first_of("r", every("x"), exactly("y")), exactly("s")),
            ["a", "b"],
            id="all of them leave nothing",
        ),
        pytest.param(
            asking(first_of("r", exactly("x", model("H")), every("y"))),
            ["a", "b", "c", "d"],
            id="all as a last resort",
        ),
    ],
)
def test_the_first_that_is_available(claim: DeviceClaim, expected: list[str] | None) -> None:
    """The first alternative that can be served, and leaves the rest a chance, is taken."""
    assert Bench(pool(*FOUR)).names(claim) == expected


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param(asking(every()), ["a", "b", "c", "d"], id="every device"),
        pytest.param(
            asking(every("r", f'device.attributes["{DRIVER}"].numa == 1')),
            ["b", "d"],
            id="every device selected",
        ),
        pytest.param(asking(every("r", "false")), None, id="there must be one"),
        pytest.param(asking(every(), exactly("s")), None, id="nothing is left for others"),
        pytest.param(asking(every(), same=NUMA), None, id="all of them, but they do not agree"),
        pytest.param(asking(every("r", model("H"))), None, id="a selector that fails on one of them"),
    ],
)
def test_all_of_them(claim: DeviceClaim, expected: list[str] | None) -> None:
    """All devices that match are wanted, and each must be free."""
    assert Bench(pool(*FOUR)).names(claim) == expected


@pytest.mark.parametrize(
    ("slices", "claim", "expected"),
    [
        pytest.param(
            [sliced(gpu("a"), pool={"resourceSliceCount": 2})], asking(exactly()), None, id="incomplete"
        ),
        pytest.param([sliced(gpu("a"), gpu("a"))], asking(exactly()), None, id="invalid"),
        pytest.param(
            [pool(gpu("a")), sliced(gpu("x"), pool={"name": "other", "resourceSliceCount": 2})],
            asking(exactly()),
            ["a"],
            id="beside an incomplete one, for some",
        ),
        pytest.param(
            [pool(gpu("a")), sliced(gpu("x"), pool={"name": "other", "resourceSliceCount": 2})],
            asking(every()),
            None,
            id="beside an incomplete one, for all",
        ),
        pytest.param(
            [pool(gpu("a")), sliced(gpu("x"), pool={"name": "o", "resourceSliceCount": 2}, nodeName="n2")],
            asking(every()),
            ["a"],
            id="beside an incomplete one of another node, for all",
        ),
    ],
)
def test_pools_that_cannot_be_trusted(
    slices: list[ResourceSliceSpec], claim: DeviceClaim, expected: list[str] | None
) -> None:
    """Nothing is taken from a pool that is not all there, and allocationMode All cannot be served."""
    assert Bench(*slices).names(claim) == expected


def test_all_with_templates_that_make_no_sense() -> None:
    """Template devices must be consistent, too, for allocationMode All."""
    bench = Bench(pool(gpu("a")), brings=templates(gpu("x"), gpu("x")))

    assert (bench.names(asking(exactly())), bench.names(asking(every()))) == (["a"], None)
    assert "cannot be trusted: there are two devices called x" in bench.search.shortfall


@pytest.mark.parametrize(
    ("taken", "claim", "expected"),
    [
        pytest.param("a", asking(exactly()), ["b"], id="a device that is allocated"),
        pytest.param("abcd", asking(exactly()), None, id="all are taken"),
        pytest.param("a", asking(every()), None, id="one of all is taken"),
        pytest.param(
            "a", asking(exactly(adminAccess=True)), ["a"], id="looking after a device that is allocated"
        ),
        pytest.param(
            "ab", asking(every("r", adminAccess=True)), ["a", "b", "c", "d"], id="looking after all devices"
        ),
        pytest.param(
            "",
            asking(exactly("r", adminAccess=True, count=2), exactly("s")),
            ["a", "b", "a"],
            id="and taking none",
        ),
        pytest.param(
            "",
            asking(exactly("r", adminAccess=True), exactly("s", count=5)),
            None,
            id="and never allocating more than there is",
        ),
    ],
)
def test_devices_that_are_taken(taken: str, claim: DeviceClaim, expected: list[str] | None) -> None:
    """A device is allocated to one claim; adminAccess leaves it there."""
    assert Bench(pool(*FOUR), taken=taken).names(claim) == expected


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param(asking(exactly()), ["a"], id="published ones first"),
        pytest.param(asking(exactly(count=2)), ["a", "x*"], id="then those of the machine"),
        pytest.param(asking(every()), ["a", "x*", "y*"], id="all of both"),
        pytest.param(asking(exactly(count=3), same=NUMA), None, id="they must agree as well"),
        pytest.param(asking(exactly(count=2), same=NUMA), ["x*", "y*"], id="those of the machine agree"),
    ],
)
def test_what_a_machine_brings_along(claim: DeviceClaim, expected: list[str] | None) -> None:
    """A machine has what is published and within reach, and then what it brings along."""
    bench = Bench(sliced(gpu("a", numa=7)), brings=templates(gpu("x", numa=0), gpu("y", numa=0)))

    assert bench.names(claim) == expected


ROOT = "resource.kubernetes.io/pcieRoot"


@pytest.mark.parametrize(
    ("agree", "claim", "expected"),
    [
        pytest.param(
            [["x", "z"]], asking(exactly(count=2), same=ROOT), ["x*", "z*"], id="two that will agree"
        ),
        pytest.param(
            [["x", "y"], ["y", "z"]], asking(exactly(count=3), same=ROOT), ["x*", "y*", "z*"], id="three"
        ),
        pytest.param(
            [["x", "z"]], asking(exactly(count=3), same=ROOT), None, id="one that agrees with no other"
        ),
        pytest.param(
            [["x", "y"]], asking(exactly(count=1), same=ROOT), ["x*"], id="one that agrees with another"
        ),
    ],
)
def test_attributes_that_are_not_known_yet(
    agree: list[list[str]], claim: DeviceClaim, expected: list[str] | None
) -> None:
    """Devices that will agree on an attribute count as having the same value."""
    brings = templates(gpu("x"), gpu("y"), gpu("z"), agree={ROOT: agree})

    assert Bench(brings=brings).names(claim) == expected


def test_values_and_attribute_groups_do_not_mix() -> None:
    """A device with a value and one that will agree with others are never taken for the same."""
    known = gpu("a")
    known["attributes"][ROOT] = {"string": "pci0"}
    bench = Bench(pool(known), brings=templates(gpu("x"), gpu("y"), agree={ROOT: [["x", "y"]]}))

    assert bench.names(asking(exactly(count=2), same=ROOT)) == ["x*", "y*"]
    assert bench.names(asking(exactly(count=3), same=ROOT)) is None


BROKEN = gpu("broken") | {"taints": [{"key": "sick", "effect": "NoSchedule"}]}


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param(asking(exactly()), ["fine"], id="it is passed over"),
        pytest.param(asking(exactly(count=2)), None, id="it does not count"),
        pytest.param(asking(every()), ["fine"], id="it is none of all"),
        pytest.param(
            asking(exactly(tolerations=[{"key": "sick", "operator": "Exists"}])),
            ["broken"],
            id="it is tolerated",
        ),
    ],
)
def test_tainted_devices(claim: DeviceClaim, expected: list[str] | None) -> None:
    """A device with a taint is for requests that tolerate it."""
    assert Bench(pool(BROKEN, gpu("fine"))).names(claim) == expected


@pytest.mark.parametrize(
    ("slices", "required_terms", "expected"),
    [
        pytest.param([sliced(gpu("a"), nodeSelector=zones("zone-1"))], (), ["a"], id="a device of its zone"),
        pytest.param(
            [sliced(gpu("a"), nodeSelector=zones("zone-2"))], (), None, id="a device of another zone"
        ),
        pytest.param(
            [sliced(gpu("a"), nodeSelector=zones("zone-2", "zone-1"))],
            (),
            ["a"],
            id="a device of one zone or another",
        ),
        pytest.param(
            [sliced(gpu("a"))],
            ((Requirements.only(ZONE, frozenset({"zone-2"})),),),
            None,
            id="it must be elsewhere",
        ),
        pytest.param(
            [sliced(gpu("a"))],
            (
                (
                    Requirements.only(ZONE, frozenset({"zone-2"})),
                    Requirements.only(ZONE, frozenset({"zone-1"})),
                ),
            ),
            ["a"],
            id="it must be here or elsewhere",
        ),
        pytest.param([sliced(gpu("a"))], ((),), None, id="it may be nowhere"),
        pytest.param([sliced(gpu("a"))], (ANYWHERE,), ["a"], id="it may be anywhere"),
    ],
)
def test_where_devices_are(
    slices: list[ResourceSliceSpec], required_terms: tuple[NodeTerms, ...], expected: list[str] | None
) -> None:
    """The node must be where every device can be reached, and where other claims let it be."""
    bench = Bench(*slices)
    found = bench.find(asking(exactly()), required_terms=required_terms)

    assert (found and [allocation.device.id.name for allocation in found.allocations]) == expected


MANY = [gpu(f"g{n}", numa=n % 2) for n in range(40)]


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param(asking(exactly(count=32)), 32, id="as many as a claim can have"),
        pytest.param(asking(every()), None, id="all of them are too many"),
        pytest.param(
            asking(exactly("x", count=30), first_of("y", exactly("a", count=3), exactly("b", count=2))),
            32,
            id="an alternative that is not too many",
        ),
        pytest.param(
            asking(exactly("x", count=20), every("y", f'device.attributes["{DRIVER}"].numa == 1')),
            None,
            id="some and all of some are too many",
        ),
    ],
)
def test_how_many_a_claim_can_have(claim: DeviceClaim, expected: int | None) -> None:
    """A claim has at most 32 devices, and alternatives are counted as they are tried."""
    found = Bench(pool(*MANY)).find(claim)

    assert (found and len(found.allocations)) == expected


@pytest.mark.parametrize(
    ("slices", "claim", "says"),
    [
        pytest.param(
            [pool(*FOUR)],
            asking(exactly("gpu", count=5)),
            "request gpu of claim claim-0: wants 5 of DeviceClass gpu, 4 match and 4 of them can be had",
            id="too few",
        ),
        pytest.param(
            [pool(*FOUR)],
            asking(exactly("gpu", "false")),
            "request gpu of claim claim-0: wants 1 of DeviceClass gpu, 0 match and 0 of them can be had",
            id="none",
        ),
        pytest.param(
            [pool(*FOUR)],
            asking(exactly("gpu", count=3), same=NUMA),
            "request gpu of claim claim-0: no 3 of the 4 devices that match can be had together",
            id="none that agree",
        ),
        pytest.param(
            [pool(*FOUR)],
            asking(every(), same=NUMA),
            "request gpu of claim claim-0: not all 4 devices of DeviceClass gpu can be had together",
            id="all, but they do not agree",
        ),
        pytest.param(
            [pool(*FOUR)],
            asking(every("gpu", "false")),
            "no device matches DeviceClass gpu",
            id="all of nothing",
        ),
        pytest.param(
            [pool(*MANY)],
            asking(every()),
            "a claim can have at most 32 devices, not 40",
            id="more than a claim can have",
        ),
        pytest.param(
            [pool(*FOUR)],
            asking(every("gpu", model("H"))),
            "a selector fails on device a: no such key: model",
            id="a selector that fails",
        ),
        pytest.param(
            [sliced(gpu("a"), pool={"resourceSliceCount": 2})],
            asking(every()),
            f"pool {DRIVER}/pool cannot be trusted: 1 of 2 slices are published",
            id="a pool that is not all there",
        ),
        pytest.param(
            [pool(*FOUR)],
            asking(first_of("r", exactly("x", count=9), exactly("y", count=8))),
            "request r/x of claim claim-0: wants 9 of DeviceClass gpu, 4 match and 4 of them can be had; "
            "request r/y of claim claim-0: wants 8 of DeviceClass gpu, 4 match and 4 of them can be had",
            id="every alternative is spoken of",
        ),
        pytest.param(
            [pool(*FOUR)],
            asking(exactly("x", count=3), exactly("y", count=2)),
            "request y of claim claim-0: wants 2 of DeviceClass gpu, 4 match and 1 of them can be had",
            id="the request at which it got stuck",
        ),
    ],
)
def test_what_is_said(slices: list[ResourceSliceSpec], claim: DeviceClaim, says: str) -> None:
    """When nothing is found, one sentence says what the request lacks at which the search got stuck."""
    bench = Bench(*slices)

    assert bench.find(claim) is None
    assert says in bench.search.shortfall


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param([asking(exactly(count=16), same=NUMA)], 16, id="as many as agree"),
        pytest.param(
            [asking(exactly("x", count=8), exactly("y", count=8), same=NUMA)], 16, id="across requests"
        ),
        pytest.param([asking(exactly(count=17), same=NUMA)], None, id="more than agree"),
        pytest.param([asking(exactly(count=16), same=NUMA)] * 2, None, id="only one group is large enough"),
    ],
)
def test_devices_that_are_alike_are_tried_once(claims: list[DeviceClaim], expected: int | None) -> None:
    """Names and ids make no difference, so a group that is too small is given up at once."""
    devices = [gpu(f"g{n:02}", numa=0 if n < 15 else 1, uuid=f"id-{n}") for n in range(31)]
    bench = Bench(pool(*devices))
    found = bench.find(*claims, steps=500)

    assert (found and len(found.allocations), bench.search.is_given_up) == (expected, False)


def test_the_search_ends() -> None:
    """A question with too many answers to look at is given up at the same step every time."""
    different = [gpu(f"g{n:02}", consumes_counters={"g": str(100 + n)}) for n in range(30)]
    bench = Bench(pool(*different, counters={"g": "1499"}))

    assert (bench.find(asking(exactly(count=15))), bench.search.is_given_up) == (None, True)
    assert "request gpu of claim claim-0: the search was given up after 10000 steps" in bench.search.shortfall
    assert bench.find(asking(exactly("x"), exactly("y")), steps=5) is None
    assert "request y of claim claim-0: the search was given up" in bench.search.shortfall


def test_a_budget_has_so_many_steps() -> None:
    """Two steps are taken where two may be, and no third."""
    budget = StepBudget(2)

    assert [budget.spend() for _ in range(3)] == [True, True, False]
    assert budget.are_spent
