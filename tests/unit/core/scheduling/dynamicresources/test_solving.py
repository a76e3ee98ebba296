"""Pods with claims get a place: on nodes that have devices, and on machines that will."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.labels import INSTANCE_TYPE, REQUESTED_DRA_DRIVERS, ZONE
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.dynamicresources.types import ANYWHERE, NODE_NAME, PodClaim
from karpenter.core.scheduling.problem import Options
from karpenter_local.testing.builders import node, offerings, only, pod, pool, spread
from tests.unit.core.scheduling.dynamicresources.clusters import (
    allocated,
    asked,
    kind,
    outcome,
    served,
    shared,
    solved,
    told,
    want,
)
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
    from karpenter.api.dra import DeviceClaim

ONE = asking(exactly())
TWO = asking(exactly(count=2))
GREEDY = Options(packing="greedy")

PLAIN = kind("plain", price=1.0)
SINGLE = kind("single", price=2.0, brings=templates(gpu("gpu-0", model="T")))
DOUBLE = kind("double", price=3.0, brings=templates(gpu("gpu-0", model="H"), gpu("gpu-1", model="H")))
ALL = pool("default", PLAIN, SINGLE, DOUBLE)


def local(name: str, *devices: dict[str, Any]) -> Any:
    return sliced(*devices, nodeName=name, pool={"name": name})


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param([], "default-1:plain", id="no devices: the cheapest machine"),
        pytest.param([ONE], "default-1:single", id="one device: the cheapest machine that has one"),
        pytest.param([TWO], "default-1:double", id="two devices"),
        pytest.param([ONE, ONE], "default-1:double", id="two claims"),
        pytest.param([asking(exactly(count=3))], "", id="three devices, which no machine has"),
        pytest.param(
            [asking(exactly("r", model("H")))], "default-1:double", id="a device of a dearer machine"
        ),
        pytest.param([asking(exactly("r", model("X")))], "", id="a device that no machine has"),
        pytest.param(
            [asking(first_of("r", exactly("x", model("X")), exactly("y", model("H"))))],
            "default-1:double",
            id="the second best if the best is nowhere",
        ),
        pytest.param([asking(every())], "default-1:single", id="all devices of a machine, however few"),
        pytest.param([asking(exactly("r", of="any"))], "default-1:single", id="a device of any class"),
    ],
)
def test_machines_for_pods_with_claims(claims: list[DeviceClaim], expected: str) -> None:
    """A machine is bought that will have the devices, the cheapest that does."""
    plan = solved(want(pod("web"), *claims), pools=[ALL])

    assert outcome(plan) == {"web": expected}


def test_types_without_the_devices_are_left_out() -> None:
    """The claim names every type that will have the devices, and the drivers that must run on it."""
    plan = solved(want(pod("web"), ONE), pools=[ALL])
    (found,) = plan.new_nodes

    assert found.instance_types == ("single", "double")
    assert found.requirements[INSTANCE_TYPE].values == {"single", "double"}
    assert found.annotations[REQUESTED_DRA_DRIVERS] == DRIVER


def test_drivers_are_named_once_and_in_order() -> None:
    """All drivers of what a machine brings along are named; one that is elsewhere is not waited for."""
    both = templates(gpu("a"))
    nic = sliced(gpu("n"), driver="nic.example.com")
    brings = msgspec.structs.replace(both, slices=(*both.slices, nic))
    far = sliced(gpu("far"), driver="far.example.com")
    claims = [
        asking(exactly(), exactly("n", 'device.driver == "nic.example.com"', of="any")),
        asking(exactly("f", 'device.driver == "far.example.com"', of="any")),
    ]
    plan = solved(want(pod("web"), *claims), pools=[pool("default", kind("a", brings=brings))], slices=[far])

    assert plan.new_nodes[0].annotations[REQUESTED_DRA_DRIVERS] == f"{DRIVER},nic.example.com"


def test_machines_without_devices_name_no_drivers() -> None:
    """A node for pods without claims waits for no driver."""
    plan = solved(want(pod("web")), want(pod("gpu"), ONE), pools=[ALL])
    drivers = {each.pods: each.annotations.get(REQUESTED_DRA_DRIVERS) for each in plan.new_nodes}

    assert drivers == {("default/gpu", "default/web"): DRIVER}


@pytest.mark.parametrize(
    ("count", "claims", "machines"),
    [
        pytest.param(2, [ONE], ["double"], id="two pods share a machine with two devices"),
        pytest.param(3, [ONE], ["double", "single"], id="a third needs another machine"),
        pytest.param(2, [TWO], ["double", "double"], id="two pods with two devices each"),
        pytest.param(2, [asking(every())], ["single", "single"], id="two pods that want all there are"),
    ],
)
def test_a_device_has_one_owner(count: int, claims: list[DeviceClaim], machines: list[str]) -> None:
    """No device of a machine is given to two pods."""
    wants = [want(pod(f"web-{n}"), *claims) for n in range(count)]
    plan = solved(*wants, pools=[ALL], options=GREEDY)

    assert sorted(each.purchase.instance_type for each in plan.new_nodes) == machines
    assert not plan.refusals


def test_equal_pods_with_claims_of_their_own_are_one_class() -> None:
    """Many pods with claims made from one template are placed by the dozen, each with its own devices."""
    wants = [want(pod(f"web-{n}"), ONE) for n in range(40)]
    plan = solved(*wants, pools=[pool("default", DOUBLE)], options=GREEDY)

    assert [len(each.pods) for each in plan.new_nodes] == [2] * 20


ZONE_1 = node("n1", zone="zone-1")


@pytest.mark.parametrize(
    ("slices", "claims", "expected"),
    [
        pytest.param([local("n1", gpu("a"))], [ONE], "n1", id="a device of the node"),
        pytest.param([local("n1", gpu("a"))], [TWO], "", id="too few devices"),
        pytest.param([local("n2", gpu("a"))], [ONE], "", id="a device of another node"),
        pytest.param([sliced(gpu("a"))], [ONE], "n1", id="a device for all nodes"),
        pytest.param(
            [sliced(gpu("a"), nodeSelector=zones("zone-1"))], [ONE], "n1", id="a device of its zone"
        ),
        pytest.param(
            [sliced(gpu("a"), nodeSelector=zones("zone-2"))], [ONE], "", id="a device of another zone"
        ),
        pytest.param(
            [sliced(gpu("a"), nodeSelector=zones("zone-2", "zone-1"))],
            [ONE],
            "n1",
            id="a device of several zones",
        ),
        pytest.param(
            [
                sliced(
                    gpu("a") | {"nodeName": "n1"}, gpu("b") | {"nodeName": "n2"}, perDeviceNodeSelection=True
                )
            ],
            [TWO],
            "",
            id="one device of the node and one of another",
        ),
        pytest.param(
            [local("n1", gpu("a")), sliced(gpu("b"))], [TWO], "n1", id="one of its own and one for all"
        ),
        pytest.param([], [asking()], "n1", id="a claim for nothing"),
    ],
)
def test_nodes_that_are_there(slices: list[Any], claims: list[DeviceClaim], expected: str) -> None:
    """A pod goes to a node that has, or can reach, free devices for all its claims."""
    plan = solved(want(pod("web"), *claims), nodes=[ZONE_1], slices=slices)

    assert outcome(plan) == {"web": expected}


@pytest.mark.parametrize(
    ("allocated_claims", "claims", "expected"),
    [
        pytest.param([allocated("default/x", "a")], [ONE], "", id="another claim has it"),
        pytest.param([allocated("default/x", "a", adminAccess=True)], [ONE], "n1", id="adminAccess to it"),
        pytest.param(
            [allocated("default/x", "a", pods=["default/other"])], [ONE], "", id="a pod that stays has it"
        ),
        pytest.param(
            [allocated("default/x", "nic", consumedCapacity={"lanes": "6"})],
            [asking(exactly("r", capacity={"lanes": "4"}))],
            "n1",
            id="a share that is left",
        ),
        pytest.param(
            [allocated("default/x", "nic", consumedCapacity={"lanes": "7"})],
            [asking(exactly("r", capacity={"lanes": "4"}))],
            "",
            id="a share that is not left",
        ),
        pytest.param(
            [allocated("default/x", "half-0")],
            [asking(exactly("r", model("part")))],
            "n1",
            id="counters that are left",
        ),
        pytest.param(
            [allocated("default/x", "half-0"), allocated("default/y", "half-1")],
            [asking(exactly("r", model("part")))],
            "",
            id="counters that are drawn",
        ),
    ],
)
def test_what_others_have(allocated_claims: list[Any], claims: list[DeviceClaim], expected: str) -> None:
    """What claims of the cluster hold is not there for others."""
    parts = [gpu(name, model="part", consumes_counters={"g": "4"}) for name in ("half-0", "half-1", "half-2")]
    nic = gpu("nic", shared=True, lanes_="10")
    kept = {"a": [gpu("a")], "nic": [nic]}.get(allocated_claims[0].results[0].device, parts)
    counters = {"g": "8"} if kept is parts else None
    published = sliced(*kept, nodeName="n1", counters=counters)
    plan = solved(
        want(pod("web"), *claims), nodes=[ZONE_1], slices=[published], allocated_claims=allocated_claims
    )

    assert outcome(plan) == {"web": expected}


def test_published_devices_come_before_machines() -> None:
    """A pod that an existing node serves needs no machine; the next one does."""
    wants = [want(pod(f"web-{n}"), ONE) for n in range(2)]
    plan = solved(*wants, nodes=[ZONE_1], pools=[ALL], slices=[local("n1", gpu("a"))])

    assert outcome(plan) == {"web-0": "n1", "web-1": "default-1:single"}


def test_a_device_of_the_network_is_reached_from_new_machines() -> None:
    """A machine without devices of its own will do where a free device can be reached; there is only one."""
    wants = [want(pod(f"web-{n}", cpu="3"), ONE) for n in range(2)]
    plan = solved(*wants, pools=[pool("default", PLAIN)], slices=[sliced(gpu("far"))])

    assert outcome(plan) == {"web-0": "default-1:plain", "web-1": ""}
    assert told(plan) == [
        (
            "DevicesNotAvailable: request gpu of claim claim-0: wants 1 of DeviceClass gpu, "
            "1 match and 0 of them can be had"
        )
    ]


@pytest.mark.parametrize(
    ("zone", "pods_zone", "expected"),
    [
        pytest.param(("zone-2",), None, {"zone-2"}, id="the device pins the machine"),
        pytest.param(("zone-2", "zone-3"), None, {"zone-2"}, id="the first zone of several"),
        pytest.param(("zone-2", "zone-3"), "zone-3", {"zone-3"}, id="the zone that the pod wants"),
        pytest.param(("zone-2",), "zone-1", None, id="not where the pod wants to be"),
        pytest.param(("nowhere",), None, None, id="a zone that is not sold"),
    ],
)
def test_devices_pin_machines(
    zone: tuple[str, ...], pods_zone: str | None, expected: set[str] | None
) -> None:
    """A machine is bought where its devices can be reached, and where the pod wants to be."""
    wants = want(pod("web", on={ZONE: pods_zone} if pods_zone else {}), ONE)
    far = sliced(gpu("far"), nodeSelector=zones(*zone))
    plan = solved(wants, pools=[pool("default", PLAIN)], slices=[far])

    assert [each.requirements[ZONE].values for each in plan.new_nodes] == ([expected] if expected else [])


def test_two_devices_that_are_apart() -> None:
    """Devices of two zones can never be had together."""
    far = [sliced(gpu(zone), nodeSelector=zones(zone), pool={"name": zone}) for zone in ("zone-1", "zone-2")]
    plan = solved(want(pod("web"), TWO), pools=[pool("default", PLAIN)], slices=far)

    assert told(plan) == [
        (
            "DevicesNotAvailable: request gpu of claim claim-0: "
            "no 2 of the 2 devices that match can be had together"
        )
    ]


def test_a_dearer_machine_never_rules_out_a_cheaper_one() -> None:
    """A type that could only be bought elsewhere is left out, not the cheaper one."""
    here = kind("here", sold=offerings(1.0, zones=["zone-1"]), brings=templates(gpu("a")))
    there = kind("there", sold=offerings(2.0, zones=["zone-2"]))
    far = sliced(gpu("far"), nodeSelector=zones("zone-2"))
    plan = solved(want(pod("web"), ONE), pools=[pool("default", there, here)], slices=[far])

    assert plan.new_nodes[0].instance_types == ("here",)


def test_a_dearer_machine_may_narrow_a_cheaper_one() -> None:
    """A type that needs a device of one zone keeps cheaper ones there, if they are sold there."""
    here = kind("here", price=1.0, brings=templates(gpu("a")))
    there = kind("there", price=2.0)
    far = sliced(gpu("far", rare=True), nodeSelector=zones("zone-2"))
    plan = solved(want(pod("web"), ONE), pools=[pool("default", there, here)], slices=[far])
    (found,) = plan.new_nodes

    assert found.instance_types == ("here", "there")
    assert found.requirements[ZONE].values == {"zone-2"}


@pytest.mark.parametrize(
    ("sold", "expected"),
    [
        pytest.param(["zone-1"], ("plain",), id="it is left out"),
        pytest.param(["zone-1", "zone-2"], ("plain", "own", "other"), id="unless it is sold there, too"),
    ],
)
def test_dearer_types_follow_the_cheapest(sold: list[str], expected: tuple[str, ...]) -> None:
    """Where the cheapest type must be pinned, dearer ones that are not sold there are no choice."""
    own = kind("own", sold=offerings(2.0, zones=sold), brings=templates(gpu("a")))
    other = kind("other", sold=offerings(3.0, zones=sold), brings=templates(gpu("a")))
    far = sliced(gpu("far"), nodeSelector=zones("zone-2"))
    plan = solved(want(pod("web"), ONE), pools=[pool("default", PLAIN, own, other)], slices=[far])

    assert plan.new_nodes[0].instance_types == expected


def test_a_cheap_type_elsewhere_gives_way() -> None:
    """If the cheapest of equal types is not sold where the device is, another one is taken."""
    cheap = kind("cheap", sold=offerings(1.0, zones=["zone-1"]))
    dear = kind("dear", sold=offerings(2.0, zones=["zone-2"]))
    far = sliced(gpu("far"), nodeSelector=zones("zone-2"))
    plan = solved(want(pod("web"), ONE), pools=[pool("default", cheap, dear)], slices=[far])

    assert outcome(plan) == {"web": "default-1:dear"}


IN_ZONE_2 = (Requirements.only(ZONE, frozenset({"zone-2"})),)
OR_ZONE_3 = (*IN_ZONE_2, Requirements.only(ZONE, frozenset({"zone-3"})))
ON_N1 = (Requirements.only(NODE_NAME, frozenset({"n1"})),)


@pytest.mark.parametrize(
    ("claims", "on", "expected"),
    [
        pytest.param([served("c", IN_ZONE_2)], {}, {"zone-2"}, id="a claim that has devices in a zone"),
        pytest.param([served("c", OR_ZONE_3)], {ZONE: "zone-3"}, {"zone-3"}, id="in one zone or another"),
        pytest.param([served("c", IN_ZONE_2)], {ZONE: "zone-1"}, None, id="not where the pod wants to be"),
        pytest.param([served("c", IN_ZONE_2), ONE], {}, {"zone-2"}, id="beside a claim that has none yet"),
        pytest.param(
            [served("a", OR_ZONE_3), served("b", (OR_ZONE_3[1],))],
            {},
            {"zone-3"},
            id="two claims with devices",
        ),
        pytest.param([served("c", ON_N1)], {}, None, id="a claim of a node that is full or gone"),
    ],
)
def test_claims_that_have_devices(
    claims: list[PodClaim], on: dict[str, str], expected: set[str] | None
) -> None:
    """A pod whose claim has devices goes where they can be reached, and its machine says so."""
    plan = solved(want(pod("web", on=on), *claims), pools=[ALL])

    assert [each.requirements[ZONE].values for each in plan.new_nodes] == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("node_terms", "expected"),
    [
        pytest.param(ANYWHERE, "n1", id="from anywhere"),
        pytest.param(ON_N1, "n1", id="from this node"),
        pytest.param(IN_ZONE_2, "", id="from another zone"),
    ],
)
def test_claims_that_have_devices_on_nodes(node_terms: tuple[Requirements, ...], expected: str) -> None:
    """A node takes a pod whose claims have devices that it can reach."""
    assert outcome(solved(want(pod("web"), served("c", node_terms)), nodes=[ZONE_1])) == {"web": expected}


def test_out_of_reach_is_said() -> None:
    """When what a claim has cannot be reached, that is what stands in the way."""
    plan = solved(want(pod("web"), served("c", ON_N1)), pools=[ALL])

    assert told(plan) == ["DevicesNotAvailable: the devices that its claims have are out of reach"]


def test_a_moved_pod_lets_go_of_its_devices() -> None:
    """The claim of a pod that leaves its node is served anew, with its old device if need be."""
    running = pod("web")
    moved = msgspec.structs.replace(running, spec=msgspec.structs.replace(running.spec, node_name="old"))
    claim = served("c", (Requirements.only(NODE_NAME, frozenset({"old"})),), ONE)
    fields: dict[str, Any] = {"nodes": [ZONE_1], "slices": [sliced(gpu("a"))]}
    held = [allocated("default/c", "a", pods=["default/web"])]

    assert outcome(solved(want(moved, claim), allocated_claims=held, **fields)) == {"web": "n1"}
    assert outcome(solved(want(running, claim), allocated_claims=held, **fields)) == {"web": ""}


@pytest.mark.parametrize(
    ("slices", "second_on", "expected"),
    [
        pytest.param(
            [], {}, ["default-1:single", "default-1:single"], id="a device of the machine keeps both there"
        ),
        pytest.param(
            [sliced(gpu("far"))], {}, ["default-1:plain", "default-1:plain"], id="a device of the network"
        ),
        pytest.param(
            [sliced(gpu("far"), nodeSelector=zones("zone-2"))],
            {ZONE: "zone-1"},
            ["default-1:plain", ""],
            id="a device of a zone keeps both in it",
        ),
    ],
)
def test_pods_that_share_a_claim(slices: list[Any], second_on: dict[str, str], expected: list[str]) -> None:
    """One claim is served once, and all its pods go where its devices can be reached."""
    claim = shared("ours", ONE)
    first = pod("a", cpu="2")
    plan = solved(want(first, claim), want(pod("b", on=second_on), claim), pools=[ALL], slices=slices)

    assert [outcome(plan)[name] for name in "ab"] == expected


def test_a_shared_claim_reaches_over_machines() -> None:
    """Pods on two machines use one device of the network, and no second device is taken."""
    claim = shared("ours", ONE)
    wants = [want(pod(name, cpu="3"), claim) for name in "ab"]
    plan = solved(*wants, pools=[pool("default", PLAIN)], slices=[sliced(gpu("far"))])

    assert len(plan.new_nodes) == 2


def test_a_shared_claim_of_a_machine_that_is_full() -> None:
    """A claim whose devices a machine brings along cannot be used from another machine."""
    claim = shared("ours", ONE)
    wants = [want(pod(name, cpu="3"), claim) for name in "ab"]
    plan = solved(*wants, pools=[pool("default", SINGLE)])

    assert told(plan) == ["DevicesNotAvailable: claim ours has its devices on another node"]


def test_a_shared_claim_on_a_node() -> None:
    """Pods on one node share a claim; a device of the node cannot be used from elsewhere."""
    claim = shared("ours", ONE)
    wants = [want(pod("a"), claim), want(pod("b"), claim), want(pod("c", cpu="5"), claim)]
    big = node("n2", free={"cpu": "8"})
    plan = solved(*wants, nodes=[ZONE_1, big], slices=[local("n1", gpu("a"))])

    assert outcome(plan) == {"c": "", "a": "n1", "b": "n1"}


def test_nodes_on_their_way() -> None:
    """A node that is not complete has what its type will bring along."""
    wants = [want(pod(name), ONE) for name in "ab"]
    plan = solved(*wants, nodes=[ZONE_1], coming={"n1": templates(gpu("gpu-0"))})

    assert sorted(outcome(plan).values()) == ["", "n1"]


def test_spread_pods_with_devices() -> None:
    """Pods with devices are spread over zones as others are."""
    apart = spread(ZONE, app="web")
    wants = [want(pod(f"web-{n}", app="web", spreads=[apart]), ONE) for n in range(3)]
    plan = solved(*wants, pools=[pool("default", SINGLE)])

    assert sorted(each.purchase.zone for each in plan.new_nodes) == ["zone-1", "zone-2", "zone-3"]


def test_spread_over_zones_where_devices_are() -> None:
    """A zone without devices is left out; what spread then forbids is refused."""
    apart = spread(ZONE, app="web", skew=2)
    wants = [want(pod(f"web-{n}", app="web", spreads=[apart], cpu="3"), ONE) for n in range(4)]
    far = sliced(*(gpu(f"g{n}") for n in range(4)), nodeSelector=zones("zone-1"))
    plan = solved(*wants, pools=[pool("default", PLAIN)], slices=[far])

    assert sorted(each.purchase.zone for each in plan.new_nodes) == ["zone-1", "zone-1"]
    assert len(plan.refusals) == 2


def test_shares_of_a_machine() -> None:
    """A device of a machine is shared by as many pods as it has shares for."""
    brings = templates(gpu("nic", shared=True, lanes_="10"))
    share = asking(exactly("r", capacity={"lanes": "4"}))
    wants = [want(pod(f"web-{n}"), share) for n in range(4)]
    plan = solved(*wants, pools=[pool("default", kind("a", brings=brings))])

    assert sorted(len(each.pods) for each in plan.new_nodes) == [2, 2]


def test_shares_of_the_network() -> None:
    """A device of the network is shared by pods on several machines, but never beyond what it has."""
    far = sliced(gpu("nic", shared=True, lanes_="10"))
    share = asking(exactly("r", capacity={"lanes": "4"}))
    wants = [want(pod(f"web-{n}", cpu="3"), share) for n in range(4)]
    plan = solved(*wants, pools=[pool("default", PLAIN)], slices=[far])

    assert (len(plan.new_nodes), len(plan.refusals)) == (2, 2)


def test_partitions_of_a_machine() -> None:
    """Parts of one piece are given away until the piece is used up."""
    parts = [gpu(f"part-{n}", consumes_counters={"g": "3"}) for n in range(4)]
    brings = templates(*parts, counters={"g": "7"})
    wants = [want(pod(f"web-{n}"), ONE) for n in range(4)]
    plan = solved(*wants, pools=[pool("default", kind("a", brings=brings))])

    assert sorted(len(each.pods) for each in plan.new_nodes) == [2, 2]


def test_a_claim_gives_back_what_it_cannot_use_any_more() -> None:
    """
    A machine that can only become a type with devices of its own frees the device of the network.

    At first the claim could have become the plain type with that device. A second pod rules the
    plain type out, and a third pod gets the device.
    """
    big = kind("big", cpu=16, price=9.0, brings=templates(gpu("gpu-0", model="own")))
    rather = asking(first_of("r", exactly("x", model("own")), exactly("y")))
    wants = [
        want(pod("first", cpu="3"), rather),
        want(pod("second", cpu="2", on={INSTANCE_TYPE: "big"})),
        want(pod("third", cpu="1", on={INSTANCE_TYPE: "plain"}), ONE),
    ]
    plan = solved(*wants, pools=[pool("default", PLAIN, big)], slices=[sliced(gpu("far"))], options=GREEDY)

    assert outcome(plan) == {
        "first": "default-1:big",
        "second": "default-1:big",
        "third": "default-2:plain",
    }


def test_limits_come_into_it() -> None:
    """Where the pool's limit leaves only machines without devices, the limit is what stands in the way."""
    small = pool("default", PLAIN, kind("big", cpu=32, brings=templates(gpu("a"))), limits={"cpu": "8"})
    plan = solved(want(pod("web"), ONE), pools=[small])

    assert told(plan) == [
        "LimitReached: every instance type that would do exceeds the pool's limits, which leave cpu 8"
    ]


def test_daemon_ports_and_requirements_come_first() -> None:
    """A pod that the pool does not suit is told so, whatever it claims."""
    plan = solved(want(pod("web", terms=[[only(INSTANCE_TYPE, "other")]]), ONE), pools=[ALL])

    assert told(plan)[0].startswith("NoInstanceTypeMatches")


def test_the_same_problem_has_the_same_plan() -> None:
    """Nothing about devices is left to chance."""
    wants = [want(pod(f"web-{n}"), asking(exactly(count=1 + n % 2))) for n in range(9)]
    problem = asked(*wants, pools=[ALL], nodes=[ZONE_1], slices=[sliced(gpu("x"), gpu("y"))])
    first, second = (
        solved(*wants, pools=problem.pools, nodes=[ZONE_1], slices=[sliced(gpu("x"), gpu("y"))]) for _ in "ab"
    )

    assert outcome(first) == outcome(second)
