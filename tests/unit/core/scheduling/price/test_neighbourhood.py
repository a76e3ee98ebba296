"""Repacking a few machines at a time: every rule holds, the best division is found, and work is counted."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest

from karpenter.core.scheduling.price import neighbourhood
from karpenter.core.scheduling.price.neighbourhood import Repacking, repacked
from karpenter.core.scheduling.price.whole import Bin, Pattern, PatternProblem, Solution
from tests.unit.core.scheduling.proof.test_columns import assigned, drawn

if TYPE_CHECKING:
    from collections.abc import Sequence


LONG = 30_000


def plan(given: PatternProblem, *machines: tuple[int, Sequence[int]]) -> Solution:
    """Return a plan: the number of each machine, and what it holds."""
    patterns = tuple(Pattern(tuple(holds), given.bins[number].price, number) for number, holds in machines)
    return Solution(sum(each.price for each in patterns), patterns)


def kinds(found: Solution) -> list[int]:
    return sorted(each.bin for each in found.patterns)


def one_by_one(given: PatternProblem) -> Solution | None:
    """Return a plan with a machine for each pod, the cheapest; None where there is none."""
    empty = tuple(0 for _ in given.count)
    machines = [(number, empty) for number, each in enumerate(given.bins) if each.once]
    for item, count in enumerate(given.count):
        fitting = [
            number
            for number, each in enumerate(given.bins)
            if not each.once
            and item in each.items
            and all(want <= room for want, room in zip(given.want[item], each.room, strict=True))
        ]
        if not fitting:
            return None
        best = min(fitting, key=lambda number: given.bins[number].price)
        machines += [(best, tuple(int(each == item) for each in range(len(empty))))] * count
    return plan(given, *machines)


def broken_rules(given: PatternProblem, found: Solution) -> list[str]:
    """Return what a plan does that it may not."""
    broken = []
    holds = np.array([each.holds for each in found.patterns])
    if holds.sum(axis=0).tolist() != list(given.count):
        broken.append("pods were lost or are there twice")
    for each in found.patterns:
        machine = given.bins[each.bin]
        if (np.array(each.holds) @ np.array(given.want) > machine.room).any():
            broken.append("a machine is too small")
        if any(count and item not in machine.items for item, count in enumerate(each.holds)):
            broken.append("a pod may not use its machine")
        if any(count > most for count, most in zip(each.holds, given.cap, strict=True)):
            broken.append("pods that keep apart share a machine")
        if each.price != machine.price:
            broken.append("a machine has the price of another")
    nodes = [each.bin for each in found.patterns if given.bins[each.bin].once]
    if sorted(nodes) != [number for number, each in enumerate(given.bins) if each.once]:
        broken.append("a node is there twice or not at all")
    return broken


# Every pod of these fits on a machine that is bought.
SEEDS = [seed for seed in range(200) if one_by_one(drawn(seed)) is not None]


@pytest.mark.parametrize(
    "seed", [*SEEDS[:8], *(pytest.param(seed, marks=pytest.mark.long) for seed in SEEDS[8:])]
)
def test_repacking_keeps_the_rules_and_finds_the_cheapest_of_few(seed: int) -> None:
    """From a machine for each pod, repacking comes to the cheapest plan that an integer program finds."""
    given = drawn(seed)
    known = one_by_one(given)
    assert known is not None

    found = repacked(given, known, LONG)

    assert broken_rules(given, found) == []
    assert found.cost == pytest.approx(sum(each.price for each in found.patterns))
    assert found.cost == pytest.approx(assigned(given))


@pytest.mark.parametrize("seed", range(30))
def test_the_best_division_is_found(seed: int) -> None:
    """Units are divided over machines at the least of what all divisions cost."""
    rng = np.random.default_rng(seed)
    count, machines = int(rng.integers(0, 4)), int(rng.integers(2, 5))
    price = rng.uniform(0.0, 3.0, (machines, 1 << count))
    costs = {
        owners: sum(
            price[machine, sum(1 << unit for unit in range(count) if owners[unit] == machine)]
            for machine in range(machines)
        )
        for owners in product(range(machines), repeat=count)
    }
    repacking = Repacking(drawn(0), ())

    found = repacking._divided(price, count, 99.0, 0.0)

    assert found is not None
    assert sum(price[machine, chosen] for machine, chosen in enumerate(found)) == pytest.approx(
        min(costs.values())
    )
    assert repacking._divided(price, count, min(costs.values()) - 0.01, 0.0) is None


def test_a_division_may_cost_as_much_as_is_spare() -> None:
    """With nothing to spare the cheapest division is taken, else any of those that cost little more."""
    price = np.array([[0.0, 1.0], [0.0, 1.5], [0.0, 4.0]])
    repacking = Repacking(drawn(0), ())

    strict = {tuple(repacking._divided(price, 1, 9.0, 0.0) or ()) for _ in range(50)}
    loose = {tuple(repacking._divided(price, 1, 9.0, 3.5) or ()) for _ in range(200)}
    bounded = {tuple(repacking._divided(price, 1, 1.0, 3.5) or ()) for _ in range(200)}

    assert strict == bounded == {(1, 0, 0)}
    # The unit is on the last machine or not; where it is not, the rest is divided in the best way.
    assert loose == {(1, 0, 0), (0, 0, 1)}


def test_divisions_that_differ_by_rounding_are_equal() -> None:
    """A billionth more is as good as the least."""
    repacking = Repacking(drawn(0), ())

    found = {
        tuple(repacking._divided(np.array([[0.0, 0.0], [0.0, 1e-9]]), 1, 9.0, 0.0) or ()) for _ in range(50)
    }

    assert found == {(1, 0), (0, 1)}


TENS = PatternProblem(
    count=(1, 1, 1, 1),
    want=((6,), (4,), (7,), (3,)),
    cap=(1, 1, 1, 1),
    bins=(Bin((10,), 1.0, (0, 1, 2, 3)),),
)


def test_pods_change_places_so_that_a_machine_is_saved() -> None:
    """6 and 3, 7, and 4 on three machines of 10 become 6 and 4, 7 and 3."""
    known = plan(TENS, (0, (1, 0, 0, 1)), (0, (0, 0, 1, 0)), (0, (0, 1, 0, 0)))

    found = repacked(TENS, known, LONG)

    assert found.cost == 2.0
    assert sorted(each.holds for each in found.patterns) == [(0, 0, 1, 1), (1, 1, 0, 0)]


def test_a_plan_that_cannot_be_cheaper_is_the_same_object() -> None:
    """What is not improved is returned as it was, with the division of splits."""
    known = msgspec.structs.replace(plan(TENS, (0, (1, 1, 0, 0)), (0, (0, 0, 1, 1))), divided=((1, 2),))
    dear = msgspec.structs.replace(
        plan(TENS, (0, (1, 0, 0, 0)), (0, (0, 1, 0, 0)), (0, (0, 0, 1, 1))), divided=((1, 2),)
    )

    assert repacked(TENS, known, LONG) is known
    assert repacked(TENS, dear, LONG).divided == ((1, 2),)
    assert repacked(TENS, dear, 0) is dear


def test_more_equal_pods_than_units_move_together() -> None:
    """Twelve pods on two machines go to one that costs less, though eight units are moved at once."""
    given = PatternProblem(
        count=(12,), want=((1,),), cap=(12,), bins=(Bin((6,), 1.0, (0,)), Bin((12,), 1.5, (0,)))
    )

    found = repacked(given, plan(given, (0, (6,)), (0, (6,))), LONG)

    assert found.cost == 1.5
    assert found.patterns == (Pattern((12,), 1.5, 1),)


def test_pods_go_to_a_node_that_costs_nothing() -> None:
    """A node takes what saves most, is there once, and is kept when nothing is on it."""
    given = PatternProblem(
        count=(1, 1),
        want=((3,), (2,)),
        cap=(1, 1),
        bins=(Bin((2,), 1.0, (0, 1)), Bin((4,), 1.5, (0, 1)), Bin((3,), 0.0, (0, 1), once=True)),
    )

    found = repacked(given, plan(given, (2, (0, 1)), (1, (1, 0))), LONG)

    assert found.cost == 1.0
    assert sorted(found.patterns, key=lambda each: each.bin) == [
        Pattern((0, 1), 1.0, 0),
        Pattern((1, 0), 0.0, 2),
    ]
    small = msgspec.structs.replace(given, bins=(*given.bins[:2], Bin((1,), 0.0, (0, 1), once=True)))
    found = repacked(small, plan(small, (2, (0, 0)), (1, (1, 0)), (1, (0, 1))), LONG)
    assert kinds(found) == [0, 1, 2]


def test_two_nodes_that_hold_nothing() -> None:
    """Where there is nothing to move, nothing changes."""
    given = PatternProblem(
        count=(1,),
        want=((1,),),
        cap=(1,),
        bins=(Bin((1,), 1.0, (0,)), *(Bin((0,), 0.0, (0,), once=True) for _ in range(4))),
    )
    known = plan(given, (1, (0,)), (2, (0,)), (3, (0,)), (4, (0,)), (0, (1,)))

    assert repacked(given, known, LONG) is known


def test_pods_that_no_machine_holds_stay_where_they_are() -> None:
    """A plan that breaks a rule is left as it is."""
    given = PatternProblem(count=(2,), want=((11,),), cap=(2,), bins=(Bin((10,), 1.0, (0,)),))
    known = plan(given, (0, (1,)), (0, (1,)))

    assert Repacking(given, known.patterns).run(1000) == known.patterns


def test_pods_that_keep_apart_stay_apart() -> None:
    """Two of three pods may share a machine, so two machines are the fewest."""
    given = PatternProblem(count=(3,), want=((1,),), cap=(2,), bins=(Bin((9,), 1.0, (0,)),))

    found = repacked(given, plan(given, (0, (1,)), (0, (1,)), (0, (1,))), LONG)

    assert sorted(each.holds for each in found.patterns) == [(1,), (2,)]


def test_pods_stay_on_machines_that_they_may_use() -> None:
    """A pod that may not use the cheap machine does not go there, and nothing goes to it that is barred."""
    given = PatternProblem(
        count=(1, 1), want=((1,), (1,)), cap=(1, 1), bins=(Bin((2,), 1.0, (0,)), Bin((2,), 5.0, (0, 1)))
    )

    found = repacked(given, plan(given, (1, (1, 0)), (1, (0, 1))), LONG)

    assert found.cost == 5.0
    assert found.patterns == (Pattern((1, 1), 5.0, 1),)


@pytest.mark.parametrize(
    ("limit", "cost"), [pytest.param(4.0, 1.5, id="within"), pytest.param(3.9, 2.0, id="beyond")]
)
def test_limits_hold(limit: float, cost: float) -> None:
    """A machine of which more counts is not bought beyond the limit."""
    given = PatternProblem(
        count=(2,),
        want=((1,),),
        cap=(2,),
        bins=(Bin((1,), 1.0, (0,)), Bin((2,), 1.5, (0,))),
        limits=(((1.0, 4.0), limit),),
    )

    found = repacked(given, plan(given, (0, (1,)), (0, (1,))), LONG)

    assert found.cost == cost


def test_a_single_machine_is_left_alone() -> None:
    """With one machine there is nothing to exchange."""
    repacking = Repacking(TENS, plan(TENS, (0, (1, 0, 0, 0))).patterns)

    assert repacking.run(LONG) == (Pattern((1, 0, 0, 0), 1.0, 0),)
    assert repacking.work == 0


def test_work_is_counted() -> None:
    """A move counts by the sets of units, up to 2**8, on machines, and by their divisions."""
    given = PatternProblem(
        count=(9,), want=((1,),), cap=(9,), bins=tuple(Bin((9,), 1.0, (0,)) for _ in range(100))
    )
    repacking = Repacking(given, plan(given, (0, (8,)), (0, (1,))).patterns)
    sizes = []
    for _ in range(30):
        repacking.work = 0
        drawn_now = repacking._drawn()
        repacking._choices(drawn_now, 9.0)
        sizes.append((len(drawn_now.pods), repacking.work))

    # Three choices, as two machines and a new one, and a hundred machines.
    assert (8, 50 + 3 * 100 * 2**8 // 500) in sizes
    assert set(sizes) <= {(units, 50 + 3 * 100 * 2**units // 500) for units in range(9)}
    repacking.work = 0
    repacking._divided(np.zeros((4, 2**8)), 8, 9.0, 0.0)
    assert repacking.work == 2 * (3**8 // 500)


def test_ever_less_may_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """At first a plan may become dearer by half a percent, and by nothing at the end."""
    spared = []

    def moved(self: Repacking, spare: float) -> None:
        spared.append(spare)
        self.work += 250

    monkeypatch.setattr(Repacking, "_move", moved)

    Repacking(TENS, plan(TENS, (0, (1, 1, 0, 0)), (0, (0, 0, 1, 1))).patterns).run(1000)

    assert spared == pytest.approx([0.01, 0.0075, 0.005, 0.0025])


def test_a_plan_that_is_far_dearer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two percent above the best, the search goes on from the best, and the best is what it returns."""
    given = msgspec.structs.replace(
        TENS, bins=tuple(Bin((10,), price, (0, 1, 2, 3)) for price in (1.0, 1.02, 1.03, 0.9))
    )
    seen, moves = [], iter([1, 2, 3, 2, 1])

    def moved(self: Repacking, _: float) -> None:
        seen.append(self._machines.tolist())
        self._machines = np.array([next(moves)] * 2)
        self.work += 200

    monkeypatch.setattr(Repacking, "_move", moved)
    known = plan(given, (0, (1, 1, 0, 0)), (0, (0, 0, 1, 1)))

    found = repacked(given, known, 1000)

    assert seen == [[0, 0], [1, 1], [0, 0], [3, 3], [3, 3]]
    assert kinds(found) == [3, 3]


def test_a_plan_that_is_cheaper_by_rounding_is_not_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """A billionth less is as much."""
    given = msgspec.structs.replace(
        TENS, bins=tuple(Bin((10,), price, (0, 1, 2, 3)) for price in (1.0, (2.0 - 1e-9) / 2))
    )

    def moved(self: Repacking, _: float) -> None:
        self._machines = np.array([1, 1])
        self.work += 1000

    monkeypatch.setattr(Repacking, "_move", moved)

    found = Repacking(given, plan(given, (0, (1, 1, 0, 0)), (0, (0, 0, 1, 1))).patterns).run(1000)

    assert [each.bin for each in found] == [0, 0]


def test_sets_and_their_parts() -> None:
    """Three sets of two pods have one, two and two parts, the set of both has four."""
    whole, part, start = neighbourhood._parts(2)

    assert list(zip(whole.tolist(), part.tolist(), strict=True)) == [
        (0, 0),
        (1, 0),
        (1, 1),
        (2, 0),
        (2, 2),
        (3, 0),
        (3, 1),
        (3, 2),
        (3, 3),
    ]
    assert start.tolist() == [0, 1, 3, 5]
    assert neighbourhood._members(2).tolist() == [[False, False], [True, False], [False, True], [True, True]]
