"""The linear program of divisible pods, and what makes it small, with values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from karpenter.core.scheduling.price import linear
from karpenter.core.scheduling.price.linear import best_values, library, size_classes
from tests.unit.core.scheduling.price.test_bound import market


@pytest.mark.parametrize(
    ("machines", "kept", "follows"),
    [
        pytest.param([(1.0, (4, 4)), (2.0, (8, 8))], [0], [0, 0], id="a machine and two of it"),
        pytest.param([(2.0, (8, 8)), (1.0, (4, 4))], [0], [0, 0], id="the first of equals"),
        pytest.param([(1.0, (4, 4)), (1.9, (8, 8))], [1], [0, 0], id="a cheaper large one"),
        pytest.param([(1.0, (4, 4)), (2.1, (8, 8))], [0], [0, 0], id="a cheaper small one"),
        pytest.param([(1.0, (4, 2)), (1.0, (2, 4))], [0, 1], [0, 1], id="each has more of something"),
        pytest.param([(1.0, (4, 4, 1)), (0.9, (4, 4, 0))], [1], [0, 0], id="what is not asked for"),
        pytest.param(
            [(1.0, (4, 4)), (1.0, (4, 4)), (3.0, (4, 4))], [0], [0, 0, 0], id="equals and a dear one"
        ),
    ],
)
def test_machines_that_divisible_pods_need(
    machines: list[tuple[float, tuple[float, ...]]], kept: list[int], follows: list[int]
) -> None:
    """A machine is not needed where parts of another have its room and cost no more."""
    ours = market([(4, (1, 1, *(0,) * (len(machines[0][1]) - 2)))], machines)

    found = linear._efficient(ours)

    assert (found[0].tolist(), found[1].tolist()) == (kept, follows)


def test_a_machine_with_more_of_what_is_asked_for_once_is_needed() -> None:
    """One pod that asks for one unit of a resource makes it count."""
    ours = market([(1, (4, 4, 1))], [(1.0, (4, 4, 2)), (0.9, (4, 4, 1))])

    assert linear._efficient(ours)[0].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("fits", "kept"),
    [
        pytest.param([[True, True], [True, False]], [0], id="the other may be used by more"),
        pytest.param([[True, False], [False, True]], [0, 1], id="each is for other pods"),
        pytest.param([[True, False], [True, True]], [1], id="the dearer one is for more pods"),
    ],
)
def test_machines_for_other_pods_are_needed(fits: list[list[bool]], kept: list[int]) -> None:
    """A machine replaces another only for pods that may use it."""
    ours = market([(4, (1, 1)), (4, (1, 1))], [(1.0, (4, 4)), (1.0, (4, 4))], fits=fits)

    assert linear._efficient(ours)[0].tolist() == kept


def test_the_cheapest_divisible_plan() -> None:
    """Pods go where they cost least, and the values of a machine add up to its price."""
    ours = market([(4, (1, 0)), (4, (0, 1))], [(1.0, (4, 1)), (0.5, (1, 4)), (9.0, (9, 9))])

    found = best_values(ours, library())

    assert found is not None
    assert found.flow.sum(axis=1) == pytest.approx([1.0, 1.0])
    assert found.flow[:, 2].tolist() == [0.0, 0.0]
    worth = (found.unit * ours.room).sum(axis=1)
    assert (worth <= ours.price * (1 + 1e-9)).all()
    assert worth[:2] == pytest.approx(ours.price[:2])


def groups(sizes: list[list[float]], most: int, counts: list[float] | None = None) -> list[list[int]]:
    """Return which positions share a class, in order."""
    weights = np.array(counts or [1.0] * len(sizes))
    return [each.tolist() for each in size_classes(np.array(sizes), weights, "x" * len(sizes), most)]


@pytest.mark.parametrize(
    ("sizes", "most", "expected"),
    [
        pytest.param([[0.0, 10], [0.2, 10], [0.2, 14]], 2, [[0], [1, 2]], id="less than one in all"),
        pytest.param([[1.0, 0.0], [1.0, 0.0]], 9, [[0, 1]], id="a resource that is not asked for"),
        pytest.param([[3.0], [1.0], [2.0]], 9, [[0], [1], [2]], id="in the order of their first item"),
        pytest.param([[3.0], [1.0], [2.0]], 3, [[0], [1], [2]], id="as many as are allowed"),
        pytest.param([[8.0], [1.0], [2.0]], 2, [[0], [1, 2]], id="one less"),
    ],
)
def test_size_classes(sizes: list[list[float]], most: int, expected: list[list[int]]) -> None:
    """The class that wastes the largest share of a resource is split."""
    assert groups(sizes, most) == expected


def test_the_kinds_that_weigh_most_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the heaviest kinds become one."""
    monkeypatch.setattr(linear, "_ITEMS", 3)

    found = linear._main_kinds([b"a", b"b", b"c", b"d", b"b"], np.array([5.0, 1.0, 2.0, 1.5, 1.5]))

    assert found == [b"a", b"b", b"", b"", b"b"]


def test_only_what_is_asked_for_is_in_the_program() -> None:
    """A resource that no pod asks for has no row."""
    ours = market([(1, (4, 0, 1))], [(1.0, (4, 4, 4))])

    assert linear._FlowProgram(ours, library())._active.tolist() == [0, 2]


def test_few_rows_of_many() -> None:
    """A few of many rows are taken evenly, with the first and the last; few stay as they are."""
    many = np.arange(100.0)[:, None]
    few = linear._few(many)[:, 0].tolist()

    assert (few[0], few[-1], len(few)) == (0.0, 99.0, linear._CANDIDATES)
    assert linear._few(many[:5]).tolist() == many[:5].tolist()


@pytest.mark.parametrize("count", [linear._MACHINES, linear._MACHINES + 1])
def test_machines_that_promise_most(count: int) -> None:
    """Few machines begin all; of more, those with the most room for their price."""
    ours = market([(1, (4, 4, 1, 0))], [(1.0 + number, (9, 9, 9, 1)) for number in range(count)])

    assert linear._promising(ours).tolist() == list(range(linear._MACHINES))


def test_every_set_of_items_has_machines_that_promise_most() -> None:
    """Machines for a few items are dear, and some of them begin all the same."""
    count = linear._MACHINES
    machines = [(1.0 + number, (9.0, 9.0)) for number in range(count + 5)]
    fits = [[number < count, number >= count] for number in range(count + 5)]
    ours = market([(4, (1, 1)), (4, (1, 1))], machines, fits=fits)

    found = linear._promising(ours).tolist()

    assert found == [*range(count), *range(count, count + linear._EACH)]


def test_what_a_pod_pays_at_least() -> None:
    """A pod pays least on the machine where its resources are worth least; nothing where none fits."""
    ours = market([(1, (1, 2)), (1, (5, 5))], [(1.0, (4, 4)), (2.0, (4, 4))])
    unit = np.array([[0.5, 0.25], [0.25, 0.25]])

    assert linear._least(ours, np.array([0, 1]), unit).tolist() == [0.75, 0.0]
    assert linear._least(ours, np.array([0]), unit[:1]).tolist() == [1.0, 0.0]


def test_items_of_one_proportion_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Items that ask for resources in the same proportion become one of average proportion."""
    monkeypatch.setattr(linear, "_ITEMS", 2)
    ours = market([(1, (1, 1)), (3, (2, 2)), (2, (1, 4))], [(1.0, (8, 8))])

    sample, member = linear._sample(ours)

    assert member.tolist() == [0, 0, 1]
    # A unit costs an eighth of the machine; an item counts by what its pods cost.
    assert sample.count.tolist() == [pytest.approx((1 * 2 + 3 * 4) / 8), pytest.approx(2 * 5 / 8)]
    assert (sample.want * sample.count[:, None]).tolist() == [[7.0, 7.0], [2.0, 8.0]]
    assert sample.fits.tolist() == [[True, True]]
    monkeypatch.setattr(linear, "_ITEMS", 3)
    assert linear._sample(ours)[0] is ours


def test_machines_that_are_not_solved_for_take_over_values() -> None:
    """Values are stretched up to the price of a machine; where pods pay too little it joins the program."""
    ours = market([(4, (1, 1))], [(1.0, (4, 2)), (2.0, (4, 2)), (1.0, (2, 2)), (0.5, (4, 2))])

    unit, joining = linear._extended(ours, np.array([0]), np.array([[0.125, 0.25]]))

    assert unit.tolist() == [
        [0.125, 0.25],
        [0.25, 0.5],
        [pytest.approx(0.125 / 0.75), pytest.approx(0.25 / 0.75)],
        [0.0625, 0.125],
    ]
    assert joining.tolist() == [3]
    assert linear._extended(ours, np.arange(4), np.full((4, 2), -1.0))[0].tolist() == [[0.0, 0.0]] * 4
