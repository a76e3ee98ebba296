"""The search for patterns, step by step, with values that are worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from karpenter.core.scheduling.price.linear import library
from karpenter.core.scheduling.price.whole import Bin, PatternProblem
from karpenter.core.scheduling.proof import columns
from karpenter.core.scheduling.proof.columns import ColumnProgram, PatternSearch


def one_bin(room: int, *wants: int, count: int = 9, cap: int = 9) -> PatternProblem:
    """Return items of one resource that share a machine."""
    return PatternProblem(
        count=(count,) * len(wants),
        want=tuple((want,) for want in wants),
        cap=(cap,) * len(wants),
        bins=(Bin((room,), 1.0, tuple(range(len(wants)))),),
    )


@pytest.mark.parametrize(
    ("spare", "pays", "counts"),
    [
        pytest.param(0.0, 0.0, [0, 1, 2, 3], id="nothing lacks and nothing is paid"),
        pytest.param(0.0, 1.0, [0, 1, 2, 3], id="each pod pays"),
        pytest.param(2.0, 0.0, [0, 1, 2, 3], id="something is spare"),
        pytest.param(-2.0, 1.0, [2, 3], id="two pods make up for what lacks"),
        pytest.param(-1.5, 1.0, [2, 3], id="one pod is too few"),
        pytest.param(-9.0, 1.0, [], id="more pods lack than fit"),
        pytest.param(2.0, -1.0, [0, 1, 2], id="what is spare pays for two pods"),
        pytest.param(0.0, -1.0, [0], id="nothing is spare"),
        pytest.param(-1.0, 0.0, [], id="something lacks that no pod pays"),
        pytest.param(-1.0, -1.0, [], id="every pod makes it worse"),
        pytest.param(-0.5, 0.5, [1, 2, 3], id="fractions"),
        pytest.param(0.5, -0.5, [0, 1], id="fractions that are spare"),
    ],
)
def test_only_numbers_of_pods_that_may_reach_the_goal(spare: float, pays: float, counts: list[int]) -> None:
    """Of the next item a pattern gets as many pods as can still make it worth what it needs."""
    search = PatternSearch(one_bin(10, 3))
    empty = search._empty(np.array([0]))

    found = search._next(empty, np.array([0]), np.array([0.25]), np.array([spare]), np.array([pays]))

    assert found.holds[:, 0].tolist() == counts
    assert found.room[:, 0].tolist() == [10 - 3 * count for count in counts]
    assert found.worth.tolist() == [0.25 * count for count in counts]


@pytest.mark.parametrize(
    ("room", "want", "cap", "most"),
    [
        pytest.param((9, 9), (3, 0), 9, 3, id="a resource that is not asked for"),
        pytest.param((9, 0), (3, 0), 9, 3, id="a resource that there is none of"),
        pytest.param((9, 1), (3, 1), 9, 1, id="the resource that is short"),
        pytest.param((9, 9), (1, 1), 2, 2, id="pods that keep apart"),
        pytest.param((2, 2), (3, 1), 9, 0, id="a pod that is too large"),
    ],
)
def test_how_many_pods_a_machine_holds(
    room: tuple[int, int], want: tuple[int, int], cap: int, most: int
) -> None:
    """A machine holds as many pods as every resource allows, and as may share it."""
    given = PatternProblem(count=(9,), want=(want,), cap=(cap,), bins=(Bin(room, 1.0, (0,)),))
    search = PatternSearch(given)

    alone = search.alone()

    assert search.cap.tolist() == [[most]]
    assert alone.holds.tolist() == ([[most]] if most else [])
    assert alone.gain.tolist() == [0.0] * len(alone.bin)


def test_each_item_alone_goes_where_a_pod_costs_least() -> None:
    """The cheapest machine per pod is full of it; nodes that are there once are not bought."""
    given = PatternProblem(
        count=(9, 9),
        want=((1,), (4,)),
        cap=(9, 9),
        bins=(
            Bin((8,), 0.0, (0, 1), once=True),
            Bin((4,), 1.0, (0, 1)),
            Bin((9,), 1.75, (0, 1)),
        ),
    )

    found = PatternSearch(given).alone()

    assert found.bin.tolist() == [2, 2]
    assert found.holds.tolist() == [[9, 0], [0, 2]]


def states(*rows: tuple[int, float, float]) -> columns._States:
    """Return partial patterns: machine, room that is left, and worth."""
    return columns._States(
        np.array([row[0] for row in rows]),
        np.array([[row[1]] for row in rows]),
        np.array([row[2] for row in rows]),
        np.zeros((len(rows), 1), np.int64),
    )


@pytest.mark.parametrize(
    ("rows", "dominated"),
    [
        pytest.param([(0, 3, 2.0), (0, 2, 1.0)], [1], id="less room and less worth"),
        pytest.param([(0, 3, 2.0), (0, 3, 2.0)], [1], id="the second of equals"),
        pytest.param([(0, 3, 2.0), (0, 4, 1.0)], [], id="more room"),
        pytest.param([(0, 3, 2.0), (0, 2, 3.0)], [], id="more worth"),
        pytest.param([(0, 3, 2.0), (1, 2, 1.0)], [], id="another machine"),
        pytest.param([(0, 1, 3.0), (0, 4, 2.0), (0, 3, 1.0), (1, 9, 9.0)], [2], id="by the second one"),
        pytest.param([(0, 9, 9.0), (1, 4, 2.0), (1, 4, 1.0)], [2], id="of the second machine"),
        pytest.param(
            [(0, n, 9.0 - n) for n in range(1, 6)] + [(0, 5, 3.5)],
            [],
            id="only the first four are compared with",
        ),
        pytest.param([(0, n, 9.0 - n) for n in range(1, 6)] + [(0, 4, 3.5)], [5], id="by the fourth one"),
    ],
)
def test_partial_patterns_that_others_dominate(
    rows: list[tuple[int, float, float]], dominated: list[int]
) -> None:
    """A partial pattern with no more room and no more worth than a better one is not needed."""
    assert np.flatnonzero(columns._dominated(states(*rows))).tolist() == dominated


@pytest.mark.parametrize(
    ("want", "mixes"),
    [
        pytest.param([[1.0, 0.0]], [[1.0, 0.0]], id="one resource"),
        pytest.param(
            [[1.0, 0.0], [0.0, 2.0]],
            [[1, 0], [0, 1], [0.15, 0.85], [0.3, 0.7], [0.5, 0.5], [0.7, 0.3], [0.85, 0.15]],
            id="two resources and what is between them",
        ),
    ],
)
def test_mixes_of_resources(want: list[list[float]], mixes: list[list[float]]) -> None:
    """Sizes are measured by each resource that is asked for, and by mixes of two."""
    assert columns.mixes(np.array(want)).tolist() == pytest.approx(np.array(mixes))


@pytest.mark.parametrize(("resources", "count"), [(3, 3 + 5 + 2), (4, 4 + 5 + 5)])
def test_many_resources_have_fewer_mixes(resources: int, count: int) -> None:
    """From eight mixes on a pair of resources adds one."""
    assert len(columns.mixes(np.ones((1, resources)))) == count


def test_patterns_that_gain_most_come_first() -> None:
    """Of equal gains the first found comes first."""
    found = columns.FoundPatterns(
        np.arange(4), np.zeros((4, 1), np.int64), np.array([0.1, 0.3, 0.2, 0.3]), np.ones(1)
    )

    assert found.order(3).tolist() == [1, 3, 2]


GROUPED = PatternProblem(
    count=(5, 3),
    want=((2,), (3,)),
    cap=(5, 1),
    bins=(
        Bin((4,), 1.0, (0, 1)),
        Bin((6,), 1.4, (0, 1)),
        Bin((6,), 1.5, (1,)),
        Bin((3,), 0.0, (0,), once=True),
    ),
)


def test_groups_of_machines() -> None:
    """Plans are divided by each machine, all machines, those of an item, of one size and of one price."""
    program = ColumnProgram(GROUPED, 9.0, library())
    limits = {
        tuple(np.flatnonzero(member).tolist()): (low, high)
        for member, low, high in zip(program.member, program.low, program.high, strict=True)
    }

    assert limits == {
        (0,): (0, np.inf),
        (1,): (0, np.inf),
        (2,): (0, np.inf),
        (3,): (0, 1),  # a node that is there once
        (0, 1, 2): (3, np.inf),  # pods of the second item keep apart, and may use all of them
        (0, 1): (0, np.inf),  # the first item may use a node as well
        (1, 2): (0, np.inf),  # of one size
    }
    assert program.once.tolist() == [False, False, False, True] + [False] * (len(program.low) - 4)


def numbers(program: ColumnProgram) -> Any:
    return len(program._bins)


def test_a_pattern_joins_the_program_once() -> None:
    """Adding the same patterns again changes nothing."""
    program = ColumnProgram(GROUPED, 9.0, library())
    before = numbers(program)
    alone = program.search.alone()

    assert before == len(GROUPED.bins)
    assert (program._add(alone), numbers(program)) == (2, before + 2)
    assert (program._add(alone), numbers(program)) == (0, before + 2)


def test_machines_of_which_none_may_be_bought_are_not_searched() -> None:
    """A machine that is closed gets no patterns, and the bound is that of the others."""
    given = PatternProblem(
        count=(2, 3), want=((2,), (3,)), cap=(2, 3), bins=(Bin((6,), 1.0, (0, 1)), Bin((7,), 1.1, (0, 1)))
    )
    program = ColumnProgram(given, 9.0, library())
    low, high = program.low.copy(), program.high.copy()
    high[0] = 0.0
    program.bounded(low, high)

    solved = program.generate(9.0)

    assert solved is not None
    assert program._bins.count(0) == 1  # the column that is bought for nothing
    assert solved.machines[0] == 0.0
    assert solved.cost == pytest.approx(2.2)
