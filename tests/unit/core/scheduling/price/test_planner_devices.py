"""Packing pods with devices by price, and how cheap it could ever be."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.labels import INSTANCE_TYPE
from karpenter.core.scheduling.problem import Options
from karpenter.core.scheduling.proof.prove import solve_and_prove
from karpenter_local.testing.builders import node, pod, pool
from tests.unit.core.scheduling.dynamicresources.clusters import asked, kind, outcome, shared, solved, want
from tests.unit.core.scheduling.dynamicresources.hardware import (
    asking,
    exactly,
    first_of,
    gpu,
    model,
    sliced,
    templates,
)

ONE = asking(exactly())


def machine(devices: int, price: float, **fields: Any) -> Any:
    """Return a type with so many devices at a price."""
    return kind(
        f"x{devices}", price=price, brings=templates(*(gpu(f"g{n}") for n in range(devices))), **fields
    )


@pytest.mark.parametrize(
    ("price_of_four", "packing", "machines"),
    [
        pytest.param(
            6.0, "price", ["x1", "x1", "x1"], id="three small machines are cheaper than a large one"
        ),
        pytest.param(6.0, "greedy", ["x4"], id="the greedy packing fills the large one"),
        pytest.param(1.5, "price", ["x4"], id="a large machine is cheaper than three small ones"),
        pytest.param(
            2.5, "price", ["x4"], id="a large machine is cheaper, though two small ones are as well"
        ),
    ],
)
def test_machines_of_their_own(price_of_four: float, packing: Any, machines: list[str]) -> None:
    """A pod joins a machine if that costs no more than one of its own."""
    types = [machine(1, 1.0), machine(4, price_of_four)]
    wants = [want(pod(f"web-{n}"), ONE) for n in range(3)]
    plan = solved(*wants, pools=[pool("default", *types)], options=Options(packing=packing))

    assert sorted(each.purchase.instance_type for each in plan.new_nodes) == machines


def test_pods_without_devices_may_join() -> None:
    """Room beside devices is used by others, as ever."""
    types = [machine(1, 1.0), machine(4, 6.0), kind("plain", price=0.9)]
    wants = [want(pod("gpu"), ONE), *(want(pod(f"web-{n}")) for n in range(3))]
    plan = solved(*wants, pools=[pool("default", *types)])

    assert set(outcome(plan).values()) == {"default-1:x1"}


def test_a_limit_on_machines() -> None:
    """Where only one machine may be bought, the run that places more pods is kept."""
    types = [machine(1, 1.0), machine(4, 6.0)]
    wants = [want(pod(f"web-{n}"), ONE) for n in range(3)]
    plan = solved(*wants, pools=[pool("default", *types, limits={"nodes": "1"})])

    assert set(outcome(plan).values()) == {"default-1:x4"}


def test_pods_that_existing_nodes_take() -> None:
    """Where nothing is bought for devices, there is nothing to save."""
    wants = [want(pod("gpu"), ONE), want(pod("web", cpu="3500m"))]
    plan = solved(
        *wants,
        pools=[pool("default", machine(1, 1.0))],
        nodes=[node("n1", free={"cpu": "1"})],
        slices=[sliced(gpu("a"), nodeName="n1")],
    )

    assert outcome(plan) == {"gpu": "n1", "web": "default-1:x1"}


@pytest.mark.parametrize(
    ("claims", "bound"),
    [
        pytest.param([], 1.0, id="without devices: the cheapest machine"),
        pytest.param([ONE], 10.0, id="with a device: a machine that has one"),
        pytest.param([shared("ours", ONE)], 1.0, id="with a claim that another pod may serve"),
    ],
)
def test_how_cheap_it_could_be(claims: list[Any], bound: float) -> None:
    """The lower bound knows which machines have devices at all."""
    types = [kind("plain", cpu=4, price=1.0), machine(1, 10.0, cpu=4)]
    options = Options(packing="greedy")
    plan = solve_and_prove(
        asked(
            want(pod("web", cpu="1", memory="1"), *claims), pools=[pool("default", *types)], options=options
        )
    )

    assert plan.cost.lower_bound == pytest.approx(bound * 0.6)  # spot is sold at 60 %


def test_a_bound_that_was_not_worked_out_before() -> None:
    """Where the search is given up, every machine counts, which only lowers the bound."""
    hard = templates(
        *(gpu(f"g{n:02}", consumes_counters={"g": str(100 + n)}) for n in range(30)), counters={"g": "1499"}
    )
    types = [kind("hard", cpu=4, price=1.0, brings=hard), machine(15, 10.0, cpu=4)]
    pods = want(pod("web", cpu="1", memory="1"), asking(exactly(count=15)))
    plan = solve_and_prove(asked(pods, pools=[pool("default", *types)]))

    assert plan.cost.lower_bound == pytest.approx(1.0 * 0.6)
    assert plan.cost.hourly == pytest.approx(10.0 * 0.6)


FIRST, SECOND = gpu("d1", model="d1"), gpu("d2", model="d2")
TINY = kind("tiny", cpu=1, price=0.1)
BIG = kind("big", cpu=16, price=9.0, brings=templates(gpu("own", model="own")))
RATHER = asking(first_of("r", exactly("x", model("own")), exactly("y")))


@pytest.mark.parametrize(
    ("second", "fourth"),
    [
        pytest.param({}, {INSTANCE_TYPE: "plain"}, id="a machine that got the device once it was given back"),
        pytest.param({INSTANCE_TYPE: "plain"}, {"on": "node"}, id="a node that got it"),
    ],
)
def test_a_run_that_cannot_be_repeated(second: dict[str, str], fourth: dict[str, str]) -> None:
    """
    Packing others by price starts from the same devices, or is left alone.

    The first pod's claim holds d1 until the third pod settles what it becomes, so the second
    pod has d2 and the fourth gets d1. Had the claim been settled from the start, the second pod
    would have d1, and nothing would be left for the fourth, which wants no other.
    """
    plain = kind("plain", price=1.0)
    wants = [
        want(pod("first", cpu="3500m"), RATHER),
        want(pod("second", cpu="3", on=second or {"on": "node"}), ONE),
        want(pod("third", cpu="2", on={INSTANCE_TYPE: "big"})),
        want(pod("fourth", cpu="1", on=fourth), asking(exactly("r", model("d1")))),
        *(want(pod(f"tiny-{n}", cpu="400m", on={INSTANCE_TYPE: "tiny"})) for n in range(3)),
    ]
    plan = solved(
        *wants,
        pools=[pool("default", plain, BIG, TINY)],
        nodes=[node("n1", free={"cpu": "3200m"}, node_labels={"on": "node"})],
        slices=[sliced(FIRST, SECOND)],
    )

    assert not plan.refusals


def test_a_machine_becomes_larger_where_that_costs_less_than_another() -> None:
    """A second pod makes a machine dearer by less than a machine of its own; a third one by more."""
    types = [machine(1, 0.10), machine(2, 0.15), machine(4, 0.60)]
    wants = [want(pod(f"web-{n}"), ONE) for n in range(3)]

    plan = solved(*wants, pools=[pool("default", *types)])

    assert sorted(each.purchase.instance_type for each in plan.new_nodes) == ["x1", "x2"]
