"""The parts of branch and price, with values that are worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from karpenter.api.labels import HOSTNAME, ZONE
from karpenter.core.scheduling.price import exact
from karpenter.core.scheduling.price.columns import Bin, Pattern, PatternProblem
from karpenter.core.scheduling.price.exact import MachineSearch, Solution, cheapest_schedule
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
from tests.unit.core.scheduling.price.test_bound import market

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


def test_a_part_that_cannot_be_better_is_given_up() -> None:
    """The part with the lowest bound comes next, unless the best plan costs no more."""
    machines = searching()
    part = exact._Part(np.zeros(1), np.ones(1), 3.0, np.zeros(1))
    machines._waiting = [(3.0, 2, part), (MOST, 1, part)]

    assert machines._next() is part
    assert machines._next() is None
    assert machines._waiting == []


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
    assert exact._fits(GIVEN, Pattern(holds, 1.0, 0)) is fits


def undecided(low: list[float], high: list[float], near: list[float]) -> int | None:
    """Return the group that is divided next."""
    part = exact._Part(np.array(low), np.array(high), 0.0, np.array(near))
    return searching()._undecided(part, np.array(near))


@pytest.mark.parametrize(
    ("low", "high", "near", "group"),
    [
        pytest.param([0, 0, 0], [9, 9, 9], [1, 2, 3], 2, id="how many machines there are"),
        pytest.param([0, 0, 3], [9, 9, 3], [1, 2, 3], 0, id="then the first machine that is used"),
        pytest.param([1, 0, 3], [9, 9, 3], [1, 2, 3], 1, id="then the next one"),
        pytest.param([0, 2, 2], [9, 9, 2], [0, 2, 2], None, id="a machine that is not used is no choice"),
        pytest.param([1, 2, 3], [9, 9, 3], [1, 2, 3], None, id="nothing is left open"),
    ],
)
def test_what_whole_machines_leave_open(
    low: list[float], high: list[float], near: list[float], group: int | None
) -> None:
    """Where every number of machines is whole, what is not settled yet is divided by."""
    assert undecided(low, high, near) == group


def test_the_bound_of_a_division() -> None:
    """A division raises bounds by what the program costs more, and at least by a millionth."""
    machines = searching()
    part = machines._bounded(machines._program.low, machines._program.high, 0.0)
    assert part is not None
    group = len(GIVEN.bins)
    broken = exact._Part(part.low, part.high, part.least, np.full(len(part.machines), 2.25))

    below, above = machines._gain(broken, group, 0.25)

    for low, high, gain, step in ((0, 2, below, 0.25), (3, np.inf, above, 0.75)):
        lows, highs = part.low.copy(), part.high.copy()
        lows[group], highs[group] = low, high
        machines._program.bounded(lows, highs)
        solved = machines._program.solve()
        cost = min(solved.cost, MOST) if solved is not None else MOST
        assert gain == pytest.approx(max(cost - part.least, MOST * 1e-6) / step)


def test_the_division_that_raises_bounds_most() -> None:
    """Of the groups that are bought in part the one whose division gains most on both sides is chosen."""
    machines = searching()
    part = exact._Part(np.zeros(4), np.full(4, 9.0), 1.0, np.array([1.5, 2.5, 0.9, 1.25]))
    machines._gains = {0: (1.0, 1.0), 1: (1.0, 2.0), 2: (9.0, 2.0), 3: (2.0, 1.0)}

    # Gains times shares: 1 / 4, 2 / 4, 18 * 0.09, 2 * 3 / 16.
    assert machines._group(part, np.array([0, 1, 2, 3])) == 2
    assert machines._group(part, np.array([0, 1, 3])) == 1
    machines._gains[1] = (1.0, 1.0)
    assert machines._group(part, np.array([0, 1])) == 0  # the first of equals


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


def test_the_library_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Programs are solved without a word on the terminal."""
    searching().run(10_000)

    assert capfd.readouterr() == ("", "")


def test_only_a_few_new_divisions_are_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a few groups whose gain is not known yet, only those are considered whose gain is known."""
    machines = searching()
    asked: list[int] = []
    monkeypatch.setattr(exact, "_LOOKS", 2)

    def gain(_part: exact._Part, group: int, _up: float) -> tuple[float, float]:
        asked.append(group)
        return 1.0, 1.0

    monkeypatch.setattr(machines, "_gain", gain)
    machines._gains = {4: (2.0, 2.0)}
    part = exact._Part(np.zeros(5), np.full(5, 9.0), 1.0, np.array([1.5, 1.6, 1.3, 1.75, 1.2]))

    assert machines._group(part, np.arange(5)) == 4
    assert asked == [0, 1]


def test_two_pods_that_want_the_same_unit() -> None:
    """Where there is one unit of a resource, two pods that want it do not share a machine."""
    given = PatternProblem(count=(1, 1), want=((1,), (1,)), cap=(1, 1), bins=(Bin((1,), 1.0, (0, 1)),))

    found = exact.on_machines(given, [0])

    assert found is not None
    assert found.patterns == ()


@pytest.mark.parametrize(
    ("saves", "machines", "times"),
    [
        pytest.param(False, 3, exact._FAILURES, id="until a few in turn have failed"),
        pytest.param(True, 3, exact._NEIGHBOURS, id="no more often than is allowed"),
        pytest.param(False, 2, exact._FAILURES, id="two machines"),
        pytest.param(True, 1, 0, id="a single machine is left alone"),
    ],
)
def test_how_often_machines_are_searched_again(
    machines: int, times: int, monkeypatch: pytest.MonkeyPatch, *, saves: bool
) -> None:
    """A few machines at a time are searched again, and stay as they are unless that saves money."""
    asked: list[float] = []

    class Again:
        def __init__(self, part: PatternProblem, _worth: Any, most: float, *, hasty: bool) -> None:
            assert hasty
            self._part = part
            asked.append(most)

        def run(self, limit: int) -> tuple[float, Solution | None]:
            assert limit == exact._PART_WORK
            many = self._part.count[0] // 3
            found = Solution(many, tuple(Pattern((3,), 1.0, 0) for _ in range(many)))
            return 0.0, found if saves else None

    monkeypatch.setattr(exact, "MachineSearch", Again)
    given = PatternProblem(
        count=(3 * machines,),
        want=((2,),),
        cap=(9,),
        bins=(Bin((7,), 1.0, (0,)), Bin((5,), 0.0, (0,), once=True)),
        supply=market([(3 * machines, (2,))], [(1.0, (7,))]),
    )
    known = Solution(machines, (*(Pattern((3,), 1.0, 0) for _ in range(machines)), Pattern((0,), 0.0, 1)))

    found = exact.improved(given, known, np.array([0.25]))

    assert len(asked) == times
    assert all(2 <= most <= min(machines, exact._TOGETHER) for most in asked)
    assert found.cost == machines
    assert sorted(each.bin for each in found.patterns) == [0] * machines + [1]
