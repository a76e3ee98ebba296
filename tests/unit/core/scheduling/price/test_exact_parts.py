"""The parts of the search for machines, with values that are worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from karpenter.api.labels import HOSTNAME, ZONE
from karpenter.core.scheduling.price import exact
from karpenter.core.scheduling.price.columns import Bin, Pattern, PatternProblem
from karpenter.core.scheduling.price.exact import cheapest_schedule
from karpenter.core.scheduling.price.machines import MachineSearch, Solution, _fits, on_machines
from karpenter.core.scheduling.solve import search
from karpenter_local.testing.builders import (
    affinity_term,
    instance_type,
    node,
    pod,
    pool,
    problem,
    replicas,
    spread,
)

MOST = 4.0
GIVEN = PatternProblem(
    count=(3, 3), want=((2,), (3,)), cap=(3, 3), bins=(Bin((7,), 1.0, (0, 1)), Bin((5,), 0.8, (0, 1)))
)


def searching() -> MachineSearch:
    """Return a search that has not begun."""
    return MachineSearch(GIVEN, np.ones(2), MOST)


@pytest.mark.parametrize(
    ("cost", "taken"),
    [
        pytest.param(MOST * (1 - 2e-6), True, id="cheaper"),
        pytest.param(MOST * (1 - 1e-6), False, id="cheaper by no more than rounding errors"),
        pytest.param(MOST, False, id="as dear"),
        pytest.param(3.0, True, id="much cheaper"),
    ],
)
def test_a_plan_is_taken_over_if_it_is_cheaper(cost: float, *, taken: bool) -> None:
    """A plan replaces the best when it is cheaper by more than rounding errors."""
    machines = searching()
    known = Solution(cost, (Pattern((3, 3), cost, 0),))

    machines.offer(known)

    assert machines._solved is (known if taken else None)
    assert machines.best == (cost if taken else MOST)


@pytest.mark.parametrize(
    ("holds", "fits"),
    [
        pytest.param((2, 1), True, id="to the last unit"),
        pytest.param((1, 1), True, id="with room to spare"),
        pytest.param((1, 2), False, id="too much"),
    ],
)
def test_whether_a_pattern_fits(holds: tuple[int, int], *, fits: bool) -> None:
    """A pattern may fill its machine, and no more."""
    assert _fits(GIVEN, Pattern(holds, 1.0, 0)) is fits


@pytest.mark.parametrize(
    ("name", "most", "small"),
    [
        pytest.param("_PODS", 4, True, id="as many pods"),
        pytest.param("_PODS", 3, False, id="more pods"),
        pytest.param("_NODES", 1, True, id="as many nodes"),
        pytest.param("_NODES", 0, False, id="more nodes"),
    ],
)
def test_what_is_small(name: str, most: int, monkeypatch: pytest.MonkeyPatch, *, small: bool) -> None:
    """Only small problems have an exact bound."""
    monkeypatch.setattr(exact, "_CLASSES", 0)
    monkeypatch.setattr(exact, name, most)

    assert (bounded() is not None) is small


@pytest.mark.parametrize(
    ("classes", "pods", "small"),
    [
        pytest.param(2, 4, True, id="few classes with as many pods"),
        pytest.param(1, 4, False, id="more classes"),
        pytest.param(2, 3, False, id="more pods"),
    ],
)
def test_what_is_small_with_few_classes(
    classes: int, pods: int, monkeypatch: pytest.MonkeyPatch, *, small: bool
) -> None:
    """A few classes may have more pods."""
    monkeypatch.setattr(exact, "_PODS", 0)
    monkeypatch.setattr(exact, "_CLASSES", classes)
    monkeypatch.setattr(exact, "_PODS_OF_FEW_CLASSES", pods)

    assert (bounded() is not None) is small


def bounded() -> float | None:
    """Return the exact bound of four pods of two classes beside a node that is full."""
    machine = instance_type("m", cpu=4, memory=64, price=1.0)
    given = problem(
        replicas(pod("a", cpu="3"), 2),
        replicas(pod("b", cpu="2"), 2),
        pools=[pool("p", machine)],
        nodes=[node("n", free={"cpu": "1"})],
    )
    scheduler, left = search(given)
    return cheapest_schedule(scheduler, left, 9.0)[1]


@pytest.mark.parametrize(
    ("asked", "key", "is_plain"),
    [
        pytest.param({}, "", True, id="nothing"),
        pytest.param({"ports": [80]}, "", False, id="a host port"),
        pytest.param({"near": [affinity_term(HOSTNAME, app="a")]}, "", False, id="affinity on a node"),
        pytest.param({"apart": [affinity_term(HOSTNAME, app="a")]}, "", True, id="pods that keep apart"),
        pytest.param({"spreads": [spread(ZONE, app="a")]}, ZONE, True, id="the spread that it is split by"),
        pytest.param({"spreads": [spread(ZONE, app="a")]}, "", False, id="a spread that it is not split by"),
        pytest.param({"spreads": [spread(ZONE, app="a", anyway=True)]}, ZONE, False, id="a preference"),
        pytest.param(
            {"spreads": [spread(ZONE, app="a"), spread(ZONE, app="b")]}, ZONE, False, id="two spreads"
        ),
    ],
)
def test_classes_that_nothing_else_limits(asked: dict[str, Any], key: str, *, is_plain: bool) -> None:
    """Only resources, labels, hosts and a split may limit the pods of a solution that is opened."""
    given = problem(
        replicas(pod("a", cpu="1", app="a", **asked), 2), pools=[pool("p", instance_type("m", cpu=4))]
    )
    scheduler, _ = search(given)

    assert exact._is_plain(scheduler, scheduler.pod_data[0], key) is is_plain


NODES = PatternProblem(
    count=(4, 2, 1),
    want=((2, 0), (3, 0), (1, 1)),
    cap=(2, 2, 1),
    bins=(
        Bin((9, 1), 1.0, (0, 1, 2)),
        Bin((8, 0), 0.0, (0, 1), once=True),
        Bin((3, 1), 0.0, (1, 2), once=True),
        Bin((1, 0), 0.0, (0,), once=True),
    ),
)


def test_nodes_are_filled_before_machines() -> None:
    """
    Pods of machines go to nodes that have room for them, as many as may share a node; no machine is empty.

    The first node holds one pod of 3, and two of 2 join it, since no more than two may; one unit is left, for
    which a pod of 3 is too large. That one goes to the second node, beside which nothing else fits, though
    the last pod would alone. What is left on the third is too little for any.
    """
    held = [Pattern((4, 0, 0), 1.0, 0), Pattern((0, 1, 0), 1.0, 0), Pattern((0, 0, 1), 1.0, 0)]

    found = exact.nodes_filled(NODES, [*held, Pattern((0, 1, 0), 0.0, 1)])

    assert [(each.bin, each.holds, each.price) for each in found] == [
        (0, (2, 0, 0), 1.0),
        (0, (0, 0, 1), 1.0),
        (1, (2, 1, 0), 0.0),
        (2, (0, 1, 0), 0.0),
    ]


def test_the_library_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Programs are solved without a word on the terminal."""
    searching().run(10_000)

    assert capfd.readouterr() == ("", "")


def test_two_pods_that_want_the_same_unit() -> None:
    """Where there is one unit of a resource, two pods that want it do not share a machine."""
    given = PatternProblem(count=(1, 1), want=((1,), (1,)), cap=(1, 1), bins=(Bin((1,), 1.0, (0, 1)),))

    found, _ = on_machines(given, [0])

    assert found is not None
    assert found.patterns == ()
