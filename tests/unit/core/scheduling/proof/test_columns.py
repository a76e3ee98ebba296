"""What whole pods are worth, and the bound that follows, against all patterns of tiny problems."""

from __future__ import annotations

import random
from itertools import product
from typing import TYPE_CHECKING, Any, cast

import highspy
import numpy as np
import pytest

from karpenter.core.scheduling.price.divided import DomainSplit, most_divided
from karpenter.core.scheduling.price.linear import library
from karpenter.core.scheduling.price.whole import Bin, PatternProblem
from karpenter.core.scheduling.proof import columns, machines
from karpenter.core.scheduling.proof.bound import least_divided, least_in_each
from karpenter.core.scheduling.proof.columns import ColumnProgram, PatternSearch
from karpenter.core.scheduling.proof.machines import MachineSearch

if TYPE_CHECKING:
    from collections.abc import Iterator


SEEDS = [*range(10), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(10, 60))]


def divisions(split: DomainSplit) -> Iterator[tuple[int, ...]]:
    """Yield every division of a split that maxSkew allows."""
    for counts in product(range(split.count + 1), repeat=len(split.items)):
        total = [count + already for count, already in zip(counts, split.already, strict=True)]
        if (
            sum(counts) == split.count
            and max(total) - (0 if split.from_zero else min(total)) <= split.max_skew
        ):
            yield counts


ALLOWED = [
    (already, skew, from_zero)
    for already, skew, from_zero in product([(0, 0, 0), (1, 0, 2), (3, 3, 2)], [1, 2], [False, True])
    if max(already) - (0 if from_zero else min(already)) <= skew
]
"""Splits that maxSkew allows before anything is placed; others are left out of problems."""


@pytest.mark.parametrize(("already", "skew", "from_zero"), ALLOWED)
@pytest.mark.parametrize("count", [1, 2, 5, 7])
def test_divisions_of_a_split(already: tuple[int, ...], count: int, skew: int, *, from_zero: bool) -> None:
    """The least worth, and the fewest and the most pods of each domain, are those of all divisions."""
    split = DomainSplit(count, (0, 1, 2), already, skew, from_zero=from_zero)
    value = [3.0, 1.0, 2.0]
    found = list(divisions(split))

    if not found:
        assert (least_divided(split, value), least_in_each(split)) == (0.0, (0, 0, 0))
        assert most_divided(split) == (count,) * 3
        return
    worth = [sum(each * unit for each, unit in zip(counts, value, strict=True)) for counts in found]
    assert least_divided(split, value) == pytest.approx(min(worth))
    assert most_divided(split) == tuple(max(column) for column in zip(*found, strict=True))
    assert least_in_each(split) == tuple(min(column) for column in zip(*found, strict=True))


def drawn(seed: int) -> PatternProblem:
    """Return a few items and machines in two resources; nodes that are there once are free."""
    rng = random.Random(seed)  # noqa: S311  a repeatable problem, not a secret
    items = range(rng.randint(2, 4))
    count = tuple(rng.randint(1, 4) for _ in items)
    return PatternProblem(
        count=count,
        want=tuple((rng.randint(1, 5), rng.randint(0, 5)) for _ in items),
        cap=tuple(rng.choice((1, 2, most)) for most in count),
        bins=(
            *(
                Bin(
                    (rng.randint(4, 14), rng.randint(0, 14)),
                    rng.uniform(0.5, 2.0),
                    tuple(item for item in items if rng.random() < 0.8),
                )
                for _ in range(rng.randint(2, 5))
            ),
            *(
                Bin((rng.randint(1, 6), 5), 0.0, tuple(items), once=True)
                for _ in range(rng.choice((0, 0, 1, 2)))
            ),
        ),
    )


def assigned(given: PatternProblem) -> float:
    """Return the cost of the cheapest plan, with as many machines of each kind as there are pods."""
    highs: Any = cast("Any", highspy).Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("mip_rel_gap", 0.0)
    served: list[list[int]] = [[] for _ in given.count]
    cost: list[float] = []

    def column(price: float, upper: int) -> int:
        highs.addVar(0, upper)
        highs.changeColIntegrality(len(cost), highspy.HighsVarType.kInteger)
        highs.changeColCost(len(cost), price)
        cost.append(price)
        return len(cost) - 1

    for each in given.bins:
        for _ in range(1 if each.once else sum(given.count)):
            used = column(0.0 if each.once else each.price, 1)
            mine = {item: column(0.0, min(given.cap[item], given.count[item])) for item in each.items}
            for item, number in mine.items():
                served[item].append(number)
            for resource, room in enumerate(each.room):
                index = [used, *mine.values()]
                value = [-float(room), *(float(given.want[item][resource]) for item in mine)]
                highs.addRow(-highspy.kHighsInf, 0.0, len(index), np.array(index, np.int32), np.array(value))
    for item, numbers in enumerate(served):
        highs.addRow(
            given.count[item],
            given.count[item],
            len(numbers),
            np.array(numbers, np.int32),
            np.ones(len(numbers)),
        )
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return float("inf")
    return float(highs.getInfo().objective_function_value)


def patterns_of(given: PatternProblem, each: Bin) -> list[tuple[int, ...]]:
    """Return every set of pods that fits a machine."""
    ranges = [
        range(min(count, cap) + 1 if item in each.items else 1)
        for item, (count, cap) in enumerate(zip(given.count, given.cap, strict=True))
    ]
    return [
        holds
        for holds in product(*ranges)
        if all(
            sum(held * want[resource] for held, want in zip(holds, given.want, strict=True)) <= room
            for resource, room in enumerate(each.room)
        )
    ]


def most_worth(given: PatternProblem, number: int, value: list[float]) -> float:
    """Return what the best pattern of a machine is worth, by trying every one."""
    return max(
        sum(held * unit for held, unit in zip(holds, value, strict=True))
        for holds in patterns_of(given, given.bins[number])
    )


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("limit", [1, 1000])
def test_no_pattern_is_worth_more_than_the_search_says(seed: int, limit: int) -> None:
    """The most that a machine can hold is never underestimated, and is exact when nothing is left out."""
    given = drawn(seed)
    value = np.random.default_rng(seed).uniform(0.1, 1.0, len(given.count))

    found = PatternSearch(given).best(value, np.zeros(len(given.bins)), limit)

    for number in range(len(given.bins)):
        best = most_worth(given, number, value.tolist())
        assert found.upper[number] >= best * (1 - 1e-9)
        if limit > 1:
            assert found.upper[number] == pytest.approx(best)
    for number, holds in zip(found.bin.tolist(), found.holds.tolist(), strict=True):
        each = given.bins[number]
        used = [sum(h * want[r] for h, want in zip(holds, given.want, strict=True)) for r in range(2)]
        assert all(amount <= room for amount, room in zip(used, each.room, strict=True))
        assert all(held <= given.cap[item] for item, held in enumerate(holds))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_bound_is_never_above_the_cheapest_plan(seed: int) -> None:
    """No plan that an integer program of pods and machines finds is cheaper than the bound."""
    given = drawn(seed)
    cheapest = assigned(given)
    most = cheapest * 1.5 if np.isfinite(cheapest) else 50.0
    program = ColumnProgram(given, most, library())
    program.begin(np.ones(len(given.count)))

    solved = program.generate(most)

    assert solved is not None
    assert solved.cost <= cheapest * (1 + 1e-6)


def drawn_with_machines(seed: int) -> tuple[PatternProblem, float]:
    """Return a problem for which machines must be bought, and can be, with what they cost at least."""
    given = drawn(seed)
    cheapest = assigned(given)
    return (given, cheapest) if 0 < cheapest < np.inf else drawn_with_machines(seed + 1000)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("few", [0, 14])
def test_the_cheapest_plan_is_found_and_proved(seed: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search finds what an integer program finds, whether or not it values whole pods first."""
    monkeypatch.setattr(machines, "_FEW_ITEMS", few)
    given, cheapest = drawn_with_machines(seed)

    least, solved = MachineSearch(given, np.ones(len(given.count)), cheapest * 1.5).run(10**6)

    assert solved is not None
    assert least == pytest.approx(cheapest, rel=2e-6)
    assert solved.cost == pytest.approx(cheapest)


def test_a_program_that_contradicts_itself_has_no_solution() -> None:
    """More machines of a group than of the group around it cannot be."""
    given = PatternProblem(
        count=(1,), want=((1,),), cap=(1,), bins=(Bin((1,), 1.0, (0,)), Bin((2,), 1.0, (0,)))
    )
    program = ColumnProgram(given, 5.0, library())
    low, high = program.low.copy(), program.high.copy()
    low[0], high[2] = 2.0, 1.0
    program.bounded(low, high)

    assert program.solve() is None
    assert program.generate(9.0) is None


def test_rounds_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is not solved to the end still has a bound."""
    given = drawn(3)
    program = ColumnProgram(given, 10.0, library())
    full = program.generate(1e9)
    monkeypatch.setattr(columns, "_ROUNDS", 1)
    program = ColumnProgram(given, 10.0, library())

    once = program.generate(1e9)

    assert once is not None
    assert full is not None
    assert once.cost <= full.cost * (1 + 1e-6)


@pytest.mark.parametrize(
    ("bins", "cap", "groups"),
    [
        pytest.param(
            (Bin((2, 2), 1.0, (0,)), Bin((4, 4), 2.0, (0,))),
            9,
            [{0}],
            id="two small ones cost as much as a large",
        ),
        pytest.param((Bin((2, 2), 1.0, (0,)), Bin((4, 4), 2.1, (0,))), 9, [], id="the large one is dearer"),
        pytest.param(
            (Bin((2, 2), 1.0, (0,)), Bin((4, 3), 2.0, (0,))), 9, [], id="the large one has less room"
        ),
        pytest.param((Bin((2, 2), 1.0, (0,)), Bin((4, 4), 2.0, (0,))), 1, [], id="pods that keep apart"),
        pytest.param(
            (Bin((2, 2), 1.0, (0,)), Bin((1, 1), 0.9, (0,)), Bin((4, 4), 1.7, (0,))),
            9,
            [{0, 1}],
            id="any two of three",
        ),
        pytest.param(
            (Bin((2, 2), 1.0, (0,)), Bin((1, 6), 1.0, (0,)), Bin((4, 4), 2.0, (0,)), Bin((2, 12), 2.0, (0,))),
            9,
            [{0}, {1}],
            id="two of each, and not one of both",
        ),
        pytest.param(
            (
                Bin((2, 2), 1.00, (0,)),
                Bin((1, 3), 0.90, (0,)),
                Bin((3, 1), 0.95, (0,)),
                Bin((4, 4), 2.00, (0,)),
                Bin((3, 5), 1.80, (0,)),
                Bin((5, 3), 1.90, (0,)),
                Bin((2, 6), 1.80, (0,)),
                Bin((6, 2), 1.90, (0,)),
            ),
            9,
            [{0, 2}, {0, 1}],
            id="the dearest that goes with it comes first",
        ),
    ],
)
def test_machines_of_which_one_will_do(bins: tuple[Bin, ...], cap: int, groups: list[set[int]]) -> None:
    """Two machines that a larger one replaces for no more are never bought together."""
    given = PatternProblem(count=(9,), want=((1, 1),), cap=(cap,), bins=bins)

    found = columns._replaceable(given, np.ones(len(bins), bool))

    assert [set(np.flatnonzero(each).tolist()) for each in found] == groups


def test_an_item_that_no_machine_holds_is_in_no_group() -> None:
    """Groups are of machines that can be used; a pod that fits none of them adds nothing."""
    bins = (Bin((4,), 1.0, (0,)),)
    with_it = PatternProblem(count=(1, 1), want=((1,), (9,)), cap=(1, 1), bins=bins)
    without = PatternProblem(count=(1,), want=((1,),), cap=(1,), bins=bins)

    found = [ColumnProgram(each, 9.0, library()).member.tolist() for each in (with_it, without)]

    assert found[0] == found[1]
