"""The parts of the search for machines, with values that are worked out by hand."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import numpy as np
import pytest

from karpenter.api.labels import HOSTNAME, ZONE
from karpenter.core.scheduling.price import exact
from karpenter.core.scheduling.price.columns import Bin, Pattern, PatternProblem
from karpenter.core.scheduling.price.exact import cheapest_schedule
from karpenter.core.scheduling.price.fitting import Solution, _fits
from karpenter.core.scheduling.price.machines import MachineSearch
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


@pytest.mark.parametrize(
    ("count", "want", "room", "most"),
    [
        pytest.param((9,), (10,), 47, 40, id="multiples of ten"),
        pytest.param((3,), (10,), 47, 30, id="no more than all pods take"),
        pytest.param((9,), (10,), 20, 20, id="two of nine pods"),
        pytest.param((1, 1), (1, 19_990), 20_000, 19_991, id="as many multiples as are worked out"),
        pytest.param((1, 1), (2, 20_000), 20_001, 20_000, id="a unit of two"),
        pytest.param((1, 1, 1), (40, 60, 70), 105, 100, id="sums of a few pods"),
        pytest.param((1, 1), (40, 60), 39, 0, id="no pod fits"),
        pytest.param((5, 2), (6, 4), 17, 16, id="6 + 6 + 4"),
        pytest.param((5,), (0,), 17, 17, id="no pod asks for it"),
        pytest.param((1, 1), (1, 30_001), 25_000, 25_000, id="too many multiples"),
        pytest.param((), (), 17, 17, id="no pods"),
    ],
)
def test_what_pods_can_take_of_a_room(
    count: tuple[int, ...], want: tuple[int, ...], room: int, most: int
) -> None:
    """A room beyond the largest sum of requests within it is never used."""
    found = exact.attainable(count, [(each,) for each in want], np.array([[float(room)]]))

    assert found.tolist() == [[most]]


@pytest.mark.parametrize("seed", range(30))
def test_what_pods_can_take_is_their_largest_sum(seed: int) -> None:
    """For each room and resource it is the largest sum of any pods within it, of all sets of pods."""
    rng = np.random.default_rng(seed)
    count = rng.integers(1, 4, 3).tolist()
    want = (rng.integers(0, 9, (3, 2)) * [1, 5]).tolist()
    rooms = rng.integers(0, 60, (4, 2)).astype(np.float64) + 0.5

    found = exact.attainable(count, want, rooms)

    sums = np.array([np.array(some) @ np.array(want) for some in product(*(range(n + 1) for n in count))])
    for room, most in zip(rooms, found, strict=True):
        for resource in range(2):
            reached = sums[sums[:, resource] <= room[resource], resource].max()
            asked = any(each[resource] for each in want)
            assert most[resource] == (reached if asked else np.floor(room[resource]))


class Search:
    """A search that proves at once that nothing costs less, and notes how far it was asked to go."""

    def __init__(self) -> None:
        self.limits: list[int] = []
        self.best = 9.0

    def run(self, limit: int) -> tuple[float, None]:
        self.limits.append(limit)
        return self.best, None


@pytest.mark.parametrize(
    ("many", "opens", "limit"),
    [
        pytest.param(4, False, 30_000 + 700_000, id="few pods"),
        pytest.param(3, False, 30_000 + 200_000, id="many pods"),
        pytest.param(4, True, 30_000, id="a plan can be opened: a first search"),
    ],
)
def test_how_long_a_small_problem_is_searched(
    many: int, limit: int, monkeypatch: pytest.MonkeyPatch, *, opens: bool
) -> None:
    """With many pods a proof is rarely reached; values of the linear program bound what machines hold."""
    found: Any = Search()
    begun: list[bool] = []

    def begin(*_: object, dual: bool) -> Any:
        begun.append(dual)
        return found

    monkeypatch.setattr(exact, "_MANY", many)
    monkeypatch.setattr(exact, "_opens", lambda *_: opens)
    monkeypatch.setattr(exact, "MachineSearch", begin)

    assert bounded() == 9.0

    assert begun == [True]
    assert found.limits == [limit]


@pytest.mark.parametrize(("cpu", "limit"), [("9", 9000.0), ("0", 0.0)])
def test_nodes_count_against_no_limit(cpu: str, limit: float) -> None:
    """A limit counts machines of 4 CPUs that are bought; existing nodes are counted in it already."""
    given = problem(
        replicas(pod("a", cpu="3"), 2),
        pools=[pool("p", instance_type("m", cpu=4, memory=64, price=1.0), limits={"cpu": cpu, "nodes": "3"})],
        nodes=[node("n", free={"cpu": "1"})],
    )
    scheduler, _ = search(given)

    found, _ = exact.pattern_problem(scheduler, {0: 2})

    assert [each.once for each in found.bins] == [False, True]
    assert found.limits == (((4000.0, 0.0), limit), ((1.0, 0.0), 3.0))
    assert found.counted.tolist() == [[4000.0, 0.0], [1.0, 0.0]]


@pytest.mark.parametrize(("spare", "known"), [(0, True), (-1, False)])
def test_a_claim_may_be_full(spare: int, *, known: bool) -> None:
    """A schedule is known as patterns if its claims hold no more than machines have, to the last unit."""
    given = problem(replicas(pod("a", cpu="2"), 2), pools=[pool("p", instance_type("m", cpu=8, price=1.0))])
    scheduler, _ = search(given)
    found, _ = exact.pattern_problem(scheduler, {0: 2})
    assert found.supply is not None
    room = np.array([[2.0 * each for each in found.want[0]]])
    room[0, scheduler.encoded.axis.index("cpu")] += spare
    supply = msgspec.structs.replace(found.supply, room=room)

    plan = exact._known(scheduler, msgspec.structs.replace(found, supply=supply))

    assert (plan is not None) is known
    assert plan is None or [each.holds for each in plan.patterns] == [(2,)]


@pytest.mark.parametrize(("free", "opens"), [("3", True), ("2", False)])
def test_a_solution_on_a_node_is_opened_if_the_node_takes_it(free: str, *, opens: bool) -> None:
    """A pod of 3 CPUs is put on a node with so many; where one less is free there is no schedule."""
    given = problem(
        pod("a", cpu="3"),
        pools=[pool("p", instance_type("m", cpu=4, memory=64, price=1.0))],
        nodes=[node("n", free={"cpu": free, "pods": "9"})],
    )
    scheduler, _ = search(given)
    found, worth = exact.pattern_problem(scheduler, {0: 1})

    opened = exact._opened(scheduler, found, Solution(0.0, (Pattern((1,), 0.0, 1),)), worth)

    assert (opened is not None) is opens
    assert opened is None or [(each.bin, each.pod_count) for each in opened.placements] == [(0, 1)]
