"""The parts of packing by price, with values that are worked out by hand."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest

from karpenter.core.scheduling.price import patterns
from karpenter.core.scheduling.price.bound import DualValues, dual_values
from tests.unit.core.scheduling.price.test_bound import market

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@pytest.mark.parametrize(
    ("amounts", "shares"),
    [
        pytest.param([[1.0, 3.0]], [[0.5, 1.5]], id="by what each is worth"),
        pytest.param([[0.0, 0.0]], [[1.0, 1.0]], id="evenly where nothing is worth anything"),
        pytest.param([[0.25, 0.25], [0.1, 0.3]], [[1.0, 1.0], [0.5, 1.5]], id="small amounts"),
    ],
)
def test_weights_of_resources(amounts: list[list[float]], shares: list[list[float]]) -> None:
    """The weights of the resources of a machine are one on average."""
    assert patterns._shares(np.array(amounts)).tolist() == pytest.approx(np.array(shares))


@pytest.mark.parametrize(
    ("count", "flow", "worth", "pods"),
    [
        pytest.param([4], [[0.5, 0.5]], [1.0], [[2], [2]], id="whole pods stay where they are"),
        pytest.param([3], [[0.5, 0.5]], [1.0], [[2], [1]], id="the first of equals gets the rest"),
        pytest.param([3], [[0.4, 0.6]], [1.0], [[1], [2]], id="what lacks most gets the rest"),
        pytest.param(
            [1, 1], [[0.6, 0.4], [0.6, 0.4]], [2.0, 1.0], [[1, 0], [0, 1]], id="what was given too little"
        ),
        pytest.param(
            [1, 5], [[0.0, 1.0], [1.0, 0.0]], [1.0, 1.0], [[0, 5], [1, 0]], id="only where it flows to"
        ),
        pytest.param(
            [3, 1], [[1 / 3, 2 / 3], [0.5, 0.5]], [1.0, 5.0], [[1, 1], [2, 0]], id="a third is whole"
        ),
    ],
)
def test_whole_pods_of_a_flow(
    count: list[int], flow: list[list[float]], worth: list[float], pods: list[list[int]]
) -> None:
    """Every pod goes to one machine, the dearest first, and machines get what the flow owes them."""
    used, found = patterns._whole_flow(np.array(count, float), np.array(flow), np.array(worth))

    assert used.tolist() == [0, 1]
    assert found.tolist() == pods


def test_machines_without_flow_are_not_used() -> None:
    """Only machines that something flows to are named."""
    used, pods = patterns._whole_flow(np.array([2.0]), np.array([[0.0, 1.0]]), np.ones(1))

    assert (used.tolist(), pods.tolist()) == ([1], [[2]])


@pytest.mark.parametrize(("total", "parts"), [(2, 1), (2, 2), (4, 3), (3, 4)])
def test_ways_to_divide_a_number(total: int, parts: int) -> None:
    """Every way to divide a number in so many parts is found once, in order."""
    found = patterns._compositions(total, parts)

    assert len(set(found)) == len(found) == comb(total + parts - 1, parts - 1)
    assert {sum(each) for each in found} == {total}
    assert {len(each) for each in found} == {parts}
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("resources", "steps"),
    [
        pytest.param(1, 3, id="one"),
        pytest.param(3, 3, id="three have a fine grid"),
        pytest.param(4, 2, id="four have a coarse one"),
    ],
)
def test_the_grid_of_weights(resources: int, steps: int) -> None:
    """Weights of resources go from one extreme to the other; what is not wanted has none."""
    want = (*(1,) * resources, 0)
    ours = market([(1, want)], [(1.0, (9,) * len(want))])

    found = np.array(patterns._mixes(ours, ours.want[None] / ours.room[:, None]))

    assert len(found) == comb(steps + resources - 1, resources - 1)
    assert found.sum(axis=1) == pytest.approx(1.0)
    assert found[:, :-1].max() == 1.0
    assert not found[:, -1].any()
    assert np.diff(np.unique(found)).min(initial=1.0) == pytest.approx(1 / steps if resources > 1 else 1.0)


@pytest.mark.parametrize(
    ("demand", "holds", "bought"),
    [
        pytest.param(7.0, 2.0, 3, id="as many as there are pods for"),
        pytest.param(1.0, 2.0, 1, id="one at least"),
        pytest.param(40.0, 2.0, 20, id="many"),
    ],
)
def test_equal_machines_are_bought_at_once(demand: float, holds: float, bought: int) -> None:
    """A machine is bought as often as the demand allows."""
    cover = patterns._Cover(np.array([demand, 0.0]), np.ones(2), patterns._FILL_RULES[0])

    cover.buy(np.array([holds, 0.0]), 0.5)

    assert len(cover.holds) == bought
    assert cover.spent == bought * 0.5
    assert cover.left.tolist() == [demand - bought * holds, 0.0]
    assert cover.active.tolist() == ([0] if demand > bought * holds else [])


def levelled(count: int, want: int, room: int, cap: float = np.inf) -> list[float]:
    """Return how many pods each machine of one kind gets."""
    ours = market([(count, (want, want))], [(1.0, (room, room))], caps=[cap])
    packer = patterns._Packer(ours, dual_values(ours))
    holds: list[float] = packer._levelled(0, ours.count)[:, 0].tolist()
    return holds


@pytest.mark.parametrize(
    ("count", "want", "room", "cap", "holds"),
    [
        pytest.param(10, 1, 4, np.inf, [4, 4], id="two full ones and a rest"),
        pytest.param(8, 1, 4, np.inf, [4, 4], id="two full ones"),
        pytest.param(3, 1, 4, np.inf, [], id="none gets full"),
        pytest.param(11, 3, 10, np.inf, [3, 3, 3], id="whole pods do not fill a machine"),
        pytest.param(24, 4, 100, np.inf, [24], id="nearly full is full"),
        pytest.param(8, 1, 4, 2, [2, 2], id="pods that keep apart"),
        pytest.param(31, 1, 16, np.inf, [16, 15], id="a pod that is left over"),
        pytest.param(31, 1, 16, 15, [15, 15], id="a pod that is left over and keeps apart"),
    ],
)
def test_full_machines_with_even_shares(
    count: int, want: int, room: int, cap: float, holds: list[float]
) -> None:
    """Machines of one kind share a demand evenly, and as many are bought as get full."""
    assert levelled(count, want, room, cap) == holds


def test_pods_that_are_left_over_keep_apart() -> None:
    """
    Two machines of 10 and 10 get full of 14 pods of 2; of five others, which keep apart, each holds two.

    What is needed is 2.8 machines, so that each has one of the five at first, and three are left over.
    """
    ours = market([(5, (1, 0)), (14, (0, 2))], [(1.0, (10, 10))], caps=[2, 9])

    found = patterns._Packer(ours, dual_values(ours))._levelled(0, ours.count)

    assert found.tolist() == [[2, 5], [2, 5]]


def test_a_machine_that_is_nearly_as_large_as_its_pods_is_enough() -> None:
    """The cheapest machine that has the room of a load is taken, to the last unit of each resource."""
    ours = market([(1, (2, 3)), (1, (2, 2))], [(3.0, (9, 9)), (1.0, (2, 3)), (0.5, (2, 2))])
    packer = patterns._Packer(ours, dual_values(ours))

    found = packer.priced(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))

    assert found.machine.tolist() == [1, 2, 0]
    assert found.price.tolist() == [1.0, 0.5, 3.0]
    assert found.cost == 4.5


def test_pods_without_value_go_to_the_cheapest_machine() -> None:
    """Where no pod is worth anything, the cheapest machine that takes one is bought."""
    ours = market([(2, (1, 1))], [(3.0, (9, 9)), (1.0, (2, 3))])
    nothing = DualValues(np.zeros((2, 2)), np.zeros(1), 0.0, "")

    found = patterns.pack_by_price(ours, nothing, rounds=0, seed=0)

    assert found.machine.tolist() == [1]


def covered(packer: patterns._Packer) -> patterns.Packing:
    """Return a packing of the whole demand."""
    (first, *_) = packer.covers(packer._market.count)
    packer.cover([first])
    return packer.priced(first.holds)


@pytest.mark.parametrize(
    ("rounds", "trials"),
    [
        pytest.param(0, [], id="none"),
        pytest.param(1, [1], id="one"),
        pytest.param(3, [3], id="as many as are allowed"),
        pytest.param(100, [8, 7], id="until fifteen in turn have failed"),
    ],
)
def test_trials_are_made_side_by_side(
    rounds: int, trials: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to eight trials are made at once, and no more than are left."""
    ours = market([(8, (4, 4))], [(1.0, (4, 4))])
    packer = patterns._Packer(ours, dual_values(ours))
    found = covered(packer)
    made: list[int] = []
    cover = packer.cover

    def counted(covers: Sequence[patterns._Cover]) -> None:
        made.append(len(covers))
        cover(covers)

    monkeypatch.setattr(packer, "cover", counted)

    again = packer.improve(found, rounds=rounds, rng=np.random.default_rng(0))

    assert made == trials
    assert again.holds.tolist() == found.holds.tolist()


def test_a_trial_that_saves_money_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a saving fifteen more may fail; machines that were emptied are gone, and for other trials too."""
    ours = market([(8, (2, 2))], [(1.0, (2, 2)), (1.5, (4, 4))])
    packer = patterns._Packer(ours, dual_values(ours))
    single = packer.priced(np.ones((8, 1)))
    made: list[int] = []
    cover = packer.cover

    def counted(covers: Sequence[patterns._Cover]) -> None:
        made.append(len(covers))
        cover(covers)

    monkeypatch.setattr(packer, "cover", counted)

    found = packer.improve(single, rounds=100, rng=np.random.default_rng(0))

    assert (single.cost, found.cost) == (8.0, 6.0)
    assert sorted(found.holds[:, 0].tolist()) == [2.0] * 4
    assert made[0] == 8
    assert made[-1] == 7


def test_few_large_machines_are_emptied_at_once() -> None:
    """Two machines are emptied, and more only as long as they hold no more than a hundred pods."""
    ours = market([(400, (1, 1))], [(1.0, (80, 80))])
    packer = patterns._Packer(ours, dual_values(ours))
    found = covered(packer)
    rng = np.random.default_rng(0)

    sizes = {len(packer._trial(list(found.holds), found.price, found.price, rng).some) for _ in range(20)}

    assert sizes == {2}


def test_a_load_goes_to_a_machine_that_all_its_pods_may_use() -> None:
    """One pod that may not use the cheap machine makes its load dear."""
    ours = market(
        [(4, (1, 1)), (4, (1, 1))], [(1.0, (4, 4)), (3.0, (4, 4))], fits=[[True, False], [True, True]]
    )
    packer = patterns._Packer(ours, dual_values(ours))

    found = packer.priced(np.array([[1.0, 0.0], [0.0, 1.0], [3.0, 1.0]]))

    assert found.machine.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("few", "far", "covered"),
    [
        pytest.param(2, 9.0, True, id="few items"),
        pytest.param(1, 9.0, False, id="more items whose plan is good enough"),
        pytest.param(1, 0.0, True, id="more items whose plan is far from the program"),
    ],
)
def test_when_the_program_is_not_followed(
    few: int, far: float, monkeypatch: pytest.MonkeyPatch, *, covered: bool
) -> None:
    """Few items, and those whose plan is dear, are also packed without regard to the linear program."""
    ours = market([(4, (1, 1)), (4, (2, 1))], [(1.0, (4, 4)), (1.9, (8, 8))])
    asked: list[bool] = []
    real = patterns._Packer.covers
    monkeypatch.setattr(patterns, "_FEW_ITEMS", few)
    monkeypatch.setattr(patterns, "_FAR", far)

    def counted(packer: patterns._Packer, demand: NDArray[np.float64]) -> list[patterns._Cover]:
        asked.append(demand is ours.count)
        return real(packer, demand)

    monkeypatch.setattr(patterns._Packer, "covers", counted)

    patterns.pack_by_price(ours, dual_values(ours), rounds=0, seed=0)

    assert asked.count(True) == covered


def test_without_a_linear_program_the_whole_demand_is_packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not known which pods go together, every demand is packed as a whole, and once."""
    ours = market([(4, (1, 1)), (4, (2, 1))], [(1.0, (4, 4)), (1.9, (8, 8))])
    values = msgspec.structs.replace(dual_values(ours), flow=None)
    asked: list[NDArray[np.float64]] = []
    real = patterns._Packer.covers
    monkeypatch.setattr(patterns, "_FEW_ITEMS", 1)

    def counted(packer: patterns._Packer, demand: NDArray[np.float64]) -> list[patterns._Cover]:
        asked.append(demand)
        return real(packer, demand)

    monkeypatch.setattr(patterns._Packer, "covers", counted)

    found = patterns.pack_by_price(ours, values, rounds=0, seed=0)

    assert len(asked) == 1
    assert found.holds.sum(axis=0).tolist() == [4, 4]


def test_a_plan_that_is_just_good_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that costs exactly as much as is enough is good enough."""
    ours = market([(4, (1, 1)), (4, (1, 1))], [(1.0, (4, 4))])
    values = dual_values(ours)
    monkeypatch.setattr(patterns, "_FEW_ITEMS", 1)
    monkeypatch.setattr(patterns, "_FAR", 2.0 / float(values.pod @ ours.count))
    real = patterns._Packer.covers

    def only_the_rest(packer: patterns._Packer, demand: NDArray[np.float64]) -> list[patterns._Cover]:
        assert demand is not ours.count
        return real(packer, demand)

    monkeypatch.setattr(patterns._Packer, "covers", only_the_rest)

    assert patterns.pack_by_price(ours, values, rounds=0, seed=0).cost == 2.0


def test_two_machines_may_become_one() -> None:
    """Two machines are enough to be packed again."""
    ours = market([(2, (2, 2))], [(1.0, (2, 2)), (1.5, (4, 4))])
    packer = patterns._Packer(ours, dual_values(ours))

    found = packer.improve(packer.priced(np.ones((2, 1))), rounds=20, rng=np.random.default_rng(0))

    assert (found.cost, found.machine.tolist()) == (1.5, [1])


def test_a_machine_is_filled_again_when_what_it_holds_is_gone() -> None:
    """Of the machines that are considered again, those whose pods are still there stay as they are."""
    cover = patterns._Cover(np.array([4.0, 2.0]), np.array([1.0, 2.0]), patterns._FILL_RULES[0])
    cover.consider(np.array([7, 8]))
    first = cover.again.tolist()
    cover.fill(np.array([[3.0, 0.0], [0.0, 1.0]]), np.array([3.0, 3.0]))
    holds, price, ratio = cover.best()
    cover.buy(holds, price)
    cover.consider(np.array([9, 8, 7]))

    assert first == [0, 1]
    assert (holds.tolist(), price, ratio) == ([3.0, 0.0], 3.0, 1.0)
    assert (cover.left.tolist(), cover.spent) == ([1.0, 2.0], 3.0)
    assert cover.again.tolist() == [0, 2]

    cover.fill(np.array([[1.0, 1.0], [1.0, 0.0]]), np.array([9.0, 9.0]))

    assert [each if isinstance(each, float) else each.tolist() for each in cover.best()] == [[0, 1], 3.0, 1.5]


def test_a_machine_that_took_nothing_is_filled_again() -> None:
    """A machine in which there was nothing of value may take what is considered next."""
    cover = patterns._Cover(np.array([4.0]), np.array([1.0]), patterns._FILL_RULES[0])
    cover.consider(np.array([7, 8]))
    cover.fill(np.array([[0.0], [4.0]]), np.array([3.0, 3.0]))
    cover.consider(np.array([7, 8]))

    assert cover.again.tolist() == [0]


def test_of_each_item_a_share_is_added_at_once() -> None:
    """Of the pods that fit, three fifths are added at once; the next ones are chosen by what is left then."""
    want = np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 1.0]]])
    pull = np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[0.0, 0.0]]])

    held = patterns._filled(want, np.array([[10.0], [7.0], [9.0]]), pull, np.array([[50.0, 50.0]]))

    assert held.tolist() == [[6.0, 3.0]]


def test_a_full_machine_takes_nothing() -> None:
    """While another machine is filled, a full one neither takes nor loses pods."""
    want = np.array([[[1.0], [1.0]], [[0.0], [0.0]]])
    room = np.array([[1.0, 9.0], [-2e-6, 1.0]])

    held = patterns._filled(want, room, np.ones_like(want), np.array([[5.0], [9.0]]))

    assert held.tolist() == [[0.0], [9.0]]


def test_machines_of_equal_worth_are_considered_small_and_large() -> None:
    """Where many machines are as good as each other, those that are considered are of all sizes."""
    sizes = [2 * number for number in range(1, 41)]
    ours = market([(1000, (1, 1))], [(float(size), (size, size)) for size in sizes])
    packer = patterns._Packer(ours, dual_values(ours))

    few = packer._few(packer._main, ours.count)

    assert len(few) == patterns._SHAPES
    assert len({number // 10 for number in few.tolist()}) == 4


def test_what_a_machine_can_hold_is_worth_no_more_than_its_dual_values() -> None:
    """The value of a full machine is bounded by what its room is worth, and unbounded without values."""
    ours = market(
        [(4, (1, 1)), (4, (2, 1))], [(1.0, (4, 4)), (3.0, (8, 8))], fits=[[True, True], [False, True]]
    )
    unit = np.array([[0.125, 0.125], [0.0, 0.0]])
    packer = patterns._Packer(ours, DualValues(unit, np.array([0.25, 0.3]), 0.0, ""))

    assert packer._most_worth(np.array([0, 1])).tolist() == [1.0, np.inf]
    assert packer._most_worth(np.array([1])).tolist() == [pytest.approx(0.8), np.inf]


def test_where_every_machine_is_filled_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine that was bought may not be considered again, and what others hold may still be there."""
    ours = market([(4, (1, 1))], [(1.0, (4, 4))])
    packer = patterns._Packer(ours, dual_values(ours))
    filled: list[int] = []
    monkeypatch.setattr(patterns, "_filled", lambda want, *_: filled.append(len(want)))

    packer._fill([])

    assert filled == []
