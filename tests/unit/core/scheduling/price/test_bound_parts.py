"""The parts of the lower bound, with values that are worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from karpenter.core.scheduling.price import bound
from karpenter.core.scheduling.price.bound import Item, cost_per_pod, demand_key, few_masks, lower_bound
from karpenter.core.scheduling.solve import search
from karpenter_local.testing.builders import instance_type, node, pod, pool, problem, replicas
from tests.unit.core.scheduling.price.test_bound import market

TWO = market([(2, (1, 1)), (1, (2, 4))], [(1.0, (4, 4)), (3.0, (8, 8))])


@pytest.mark.parametrize(
    ("free", "worth"),
    [
        pytest.param((100.0, 100.0), 4.0, id="room for all pods"),
        pytest.param((1.0, 1.0), 2 * 0.5, id="a pod takes all of both resources"),
        pytest.param((5.0, 5.0), 4.0, id="the shares of all pods add up to the resources"),
        pytest.param((4.0, 4.0), 2.0 + 2.0 * 2 / 3, id="the rest for a part of a pod"),
        pytest.param((2.0, 2.0), 2.0, id="nothing is left for the second item"),
        pytest.param((0.0, 0.0), 0.0, id="no room"),
    ],
)
def test_the_most_that_free_room_is_worth(free: tuple[float, float], worth: float) -> None:
    """Free room serves the pods that pay most for their share of it first."""
    # Shares of one unit of both: two for a pod of the first item, six for one of the second.
    found = bound._worth_of_free_room(TWO, np.array([1.0, 2.0]), np.array(free))

    assert found == pytest.approx(worth, abs=1e-6)


@pytest.mark.parametrize(
    ("machines", "rate"),
    [
        pytest.param([(1.0, (4, 4))], 0.25, id="a machine"),
        pytest.param([(1.0, (4, 4)), (1.0, (8, 4))], 0.125, id="the machine with most for its price"),
        pytest.param([(0.0, (0, 4)), (1.0, (4, 4))], 0.25, id="a free machine without the resource"),
        pytest.param([(0.0, (1, 4)), (1.0, (4, 4))], 0.0, id="a free machine with the resource"),
        pytest.param([(1.0, (0, 4))], 0.0, id="no machine has it"),
        pytest.param([(1.0, (0.5, 4))], 2.0, id="less than one unit"),
    ],
)
def test_the_highest_value_of_a_resource(
    machines: list[tuple[float, tuple[float, ...]]], rate: float
) -> None:
    """A unit is worth what it costs on the machine that has most of it for its price."""
    ours = market([(1, (0, 1))], machines)

    assert bound._rate(ours, np.array([1.0, 0.0])).tolist() == [rate, 0.0]


@pytest.mark.parametrize(
    ("items", "machine", "unit"),
    [
        pytest.param([(1, (1, 4))], (1, 8), [1.0, 0.0], id="one unit in all"),
        pytest.param([(1, (4, 1))], (8, 1), [0.0, 1.0], id="the second resource"),
        pytest.param([(2, (4, 0))], (8, 1), [0.125, 0.0], id="a resource that is not asked for"),
    ],
)
def test_equal_values_for_all_machines(
    items: list[tuple[int, tuple[float, ...]]], machine: tuple[float, ...], unit: list[float]
) -> None:
    """Without the library the resource or the mix that is worth most in all has the value."""
    ours = market(items, [(1.0, machine), (9.0, machine)])

    assert bound._equal_values(ours).tolist() == [unit, unit]


@pytest.mark.parametrize(
    ("want", "cap", "cost"),
    [
        pytest.param((1, 1), np.inf, 0.25, id="four on the small machine"),
        pytest.param((3, 1), np.inf, 1.0, id="one on the small machine"),
        pytest.param((8, 0), np.inf, 3.0, id="only the large machine"),
        pytest.param((2, 0), np.inf, 0.5, id="a resource that is not asked for"),
        pytest.param((1, 0), np.inf, 0.25, id="a machine that has nothing of it"),
        pytest.param((1, 1), 2, 0.5, id="two that may share"),
        pytest.param((9, 9), np.inf, 0.0, id="none fits"),
    ],
)
def test_what_a_pod_costs_at_least(want: tuple[int, int], cap: float, cost: float) -> None:
    """A pod costs its part of the best machine full of such pods."""
    ours = market([(1, want)], [(1.0, (4, 4)), (3.0, (8, 8)), (0.9, (1.5, 0))], caps=[cap])

    assert cost_per_pod(ours).tolist() == [cost]


def test_what_tells_demands_apart() -> None:
    """Equal pods are added up; how many may share a node does not matter."""
    items = [Item((1,), (3,), 1), Item((1,), (3,), 2), Item((2,), (3,))]

    assert demand_key(items, [2.0, 3.0, 4.0]) == {(Item((1,), (3,)), 5.0), (Item((2,), (3,)), 4.0)}


def test_sets_of_offerings_that_few_pods_have_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sets of most pods stay; the others become their union, in every template."""
    monkeypatch.setattr(bound, "_MASKS", 1)
    items = [Item((1,), (0b001, 0b1)), Item((2,), (0b010, 0b0), 4), Item((3,), (0b100, 0b1))]

    found = few_masks(items, [9, 1, 1])

    assert [item.bits for item in found] == [(0b001, 0b1), (0b110, 0b1), (0b110, 0b1)]
    assert [(item.want, item.cap) for item in found] == [((1,), 0), ((2,), 4), ((3,), 0)]
    monkeypatch.setattr(bound, "_MASKS", 3)
    assert few_masks(items, [9, 1, 1]) == items


@pytest.mark.parametrize(
    ("free", "fitting"),
    [
        pytest.param({"cpu": "2", "pods": "9"}, 4, id="by cpu"),
        pytest.param({"cpu": "9", "pods": "1"}, 2, id="by the number of pods"),
        pytest.param({"cpu": "900m", "pods": "9"}, 0, id="none"),
        pytest.param({"cpu": "-1", "pods": "9"}, 0, id="a node that is overdrawn"),
    ],
)
def test_pods_that_fit_on_nodes(free: dict[str, str], fitting: int) -> None:
    """As many pods fit on two nodes as every resource of each allows."""
    given = problem(
        replicas(pod("a", cpu="1", memory="1Mi"), 9),
        pod("g", cpu="50m", resources={"example.com/gpu": "1"}),
        pools=[pool("p", instance_type("m", cpu=4, resources={"example.com/gpu": 1}))],
        nodes=[node("n", free=free), node("m", free=free)],
    )
    scheduler, _ = search(given)
    (number,) = (each.number for each in scheduler.encoded.classes if len(each.pods) == 9)

    assert bound._on_nodes(scheduler, number, bound.free_room(scheduler)) == fitting


def test_no_nodes_have_no_room() -> None:
    """Without nodes no pod fits on one."""
    scheduler, _ = search(problem(pod("a"), pools=[pool("p", instance_type("m", cpu=4))]))

    assert bound.free_room(scheduler).tolist() == []
    assert bound._on_nodes(scheduler, 0, bound.free_room(scheduler)) == 0


def test_a_node_without_a_resource() -> None:
    """What a node does not state it has none of, and what it owes is nothing."""
    given = problem(
        pod("a", resources={"example.com/gpu": "1"}),
        pools=[pool("p", instance_type("m", cpu=4, resources={"example.com/gpu": 1}))],
        nodes=[node("n", free={"cpu": "-2"})],
    )
    scheduler, _ = search(given)
    room = dict(zip(scheduler.encoded.axis, bound.free_room(scheduler)[0].tolist(), strict=True))

    assert (room["cpu"], room["example.com/gpu"]) == (0, 0)


@pytest.mark.parametrize(
    ("want", "machines", "best"),
    [
        pytest.param((1, 1), [0, 1], (0, 0.5), id="the cheaper of two"),
        pytest.param((1, 1), [1], (1, 0.75), id="the only one"),
        pytest.param((6, 1), [0, 1], (1, 2.625), id="the one that fits"),
        pytest.param((9, 1), [0, 1], (-1, 0.0), id="none"),
    ],
)
def test_where_an_item_costs_least(
    want: tuple[int, int], machines: list[int], best: tuple[int, float]
) -> None:
    """An item goes to the machine on which its resources are worth least."""
    unit = np.array([[0.25, 0.25], [0.375, 0.375]])
    ours = market([(1, want)], [(1.0, (4, 4)), (3.0, (8, 8))])

    found, spent = bound._best(ours.want, ours.fits, unit, np.array(machines))

    assert (found.tolist(), spent.tolist()) == ([best[0]], [best[1]])


def test_pods_that_are_placed() -> None:
    """Pods that are left are not counted, nor classes of which none is placed."""
    scheduler, left = search(
        problem(
            replicas(pod("a", cpu="3"), 5),
            replicas(pod("b", cpu="9"), 2),
            pools=[pool("p", instance_type("m", cpu=4), limits={"nodes": "2"})],
        )
    )
    numbers = {each.pods[0].metadata.name[0]: each.number for each in scheduler.encoded.classes}

    assert left == {numbers["a"]: 3, numbers["b"]: 2}
    assert bound.placed_counts(scheduler, left) == {numbers["a"]: 2}
    assert bound.placed_counts(scheduler, {}) == {numbers["a"]: 5, numbers["b"]: 2}


def test_the_item_that_costs_most_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many items those are considered whose pods cost most in all, and a machine is paid for whole."""
    ours = market([(1, (3, 3)), (40, (1, 1)), (1, (1, 1))], [(1.0, (4, 4))])
    pod = np.array([0.75, 0.25, 0.25])

    assert bound._dearest_item_cost(ours, pod) == pytest.approx(10.0)
    monkeypatch.setattr(bound, "_DEAREST", 1)
    assert bound._dearest_item_cost(ours, pod) == pytest.approx(10.0)
    few = market([(1, (1, 1))], [(1.0, (4, 4))])
    assert bound._dearest_item_cost(few, pod[1:2]) == pytest.approx(1.0)


def test_pods_that_all_fit_on_nodes_cost_nothing() -> None:
    """Where every pod has room on a node, the bound is zero."""
    given = problem(
        pod("a", cpu="1"), pools=[pool("p", instance_type("m", cpu=4))], nodes=[node("n", free={"cpu": "2"})]
    )

    assert lower_bound(*search(given)) == (0.0, "linear program")
