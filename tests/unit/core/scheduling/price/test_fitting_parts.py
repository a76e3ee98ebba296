"""What is asked whether pods fit, and what it takes, with values that are worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from karpenter.core.scheduling.price import fitting
from karpenter.core.scheduling.price.columns import Bin, PatternProblem, PatternSearch
from karpenter.core.scheduling.price.divided import DomainSplit
from karpenter.core.scheduling.price.fitting import (
    PROGRAM,
    SOON,
    Shares,
    exchanged,
    large_on_machines,
    on_machines,
    packed_at_random,
    shortfall,
)

ONE = PatternProblem(count=(1,), want=((2,),), cap=(1,), bins=(Bin((4,), 1.0, (0,)), Bin((4,), 1.0, (0,))))
"""One pod, and a machine of twice its size in two zones."""

THREE = PatternProblem(
    count=(1, 1, 1), want=((5,), (6,), (7,)), cap=(1, 1, 1), bins=(Bin((18,), 1.0, (0, 1, 2)),)
)
"""Three pods that fill a machine."""


def single(sizes: list[int], rooms: list[int]) -> PatternProblem:
    """Return a pod of each size and a machine of each room."""
    every = tuple(range(len(sizes)))
    return PatternProblem(
        count=(1,) * len(sizes),
        want=tuple((size,) for size in sizes),
        cap=(1,) * len(sizes),
        bins=tuple(Bin((room,), 1.0, every) for room in rooms),
    )


@pytest.mark.parametrize(("most", "asked"), [(6, True), (5, False)])
def test_how_large_a_program_is_asked(most: int, monkeypatch: pytest.MonkeyPatch, *, asked: bool) -> None:
    """Three pods on two machines are six columns, whether all pods are whole or only the large ones."""
    monkeypatch.setattr(fitting, "_COLUMNS", most)
    monkeypatch.setattr(fitting, "_COLUMNS_OF_LARGE", most)

    found, work = on_machines(THREE, [(0,), (0,)], SOON)
    shares, possible, work_of_large = large_on_machines(THREE, [(0,), (0,)])

    assert (found is not None, work > 0) == (asked, asked)
    assert (shares is not None, work_of_large > 0) == (asked, asked)
    assert possible


@pytest.mark.parametrize(("most", "asked"), [(3, True), (2, False)])
def test_how_many_pods_are_exchanged(most: int, monkeypatch: pytest.MonkeyPatch, *, asked: bool) -> None:
    """Three pods that fill a machine are found to fit on it, if so many are exchanged at all."""
    monkeypatch.setattr(fitting, "_EXCHANGED", most)
    shares = Shares((0,), np.ones((1, 3)), np.array([1, 1, 1]))

    found, work = exchanged(THREE, np.ones((1, 3)), shares, np.random.default_rng(0), 1)

    assert (found is not None) is asked
    assert work == 0


@pytest.mark.parametrize(
    ("machines", "limit", "rounds", "work"),
    [
        # One column for the pod; a row for the room and a row for the pod: 3.
        pytest.param([(0,)], SOON, SOON // 3, 3 * 3, id="one bin, soon"),
        pytest.param([(0,)], SOON + 6, (SOON + 6) // 2, 3 * 2, id="one bin, later: half of 3, and one"),
        # Two columns for the bins and a row that chooses one of them more: 6, and 8 times that.
        pytest.param([(0, 1)], SOON, SOON // 6, 3 * 6 * 8, id="two bins, soon"),
        pytest.param([(0, 1)], SOON + 6, (SOON + 6) // 25, 3 * 25, id="two bins, later: half of 48, and one"),
    ],
)
def test_the_steps_of_an_integer_program(
    machines: list[tuple[int, ...]], limit: int, rounds: int, work: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round counts as the columns and rows of the program, about eight times if bins are chosen."""
    asked: list[int] = []

    def ended(_: object, __: object, most: int) -> list[int]:
        asked.append(most)
        return [0, 1, 2]

    monkeypatch.setattr(fitting, "_end_soon", ended)

    found, taken = on_machines(ONE, machines, limit)

    assert found is not None
    assert found.patterns
    assert asked == [rounds]
    assert taken == PROGRAM + work


def test_a_program_is_ended_after_so_many_rounds() -> None:
    """Two rounds are allowed: the third one is interrupted, and counted."""
    solver = SimpleNamespace(told=None, kind=None)
    solver.setCallback = lambda told, _: setattr(solver, "told", told)
    solver.startCallback = lambda kind: setattr(solver, "kind", kind)
    wanted: list[Any] = [SimpleNamespace(user_interrupt=False) for _ in range(3)]

    rounds = fitting._end_soon(solver, "interrupt", 2)
    for each in wanted:
        solver.told(0, "", None, each, None)

    assert solver.kind == "interrupt"
    assert [each.user_interrupt for each in wanted] == [False, False, True]
    assert len(rounds) == 3


@pytest.mark.parametrize(("limit", "filled"), [(SOON, True), (SOON + 1, False)])
def test_machines_are_filled_in_a_short_program(
    limit: int, monkeypatch: pytest.MonkeyPatch, *, filled: bool
) -> None:
    """Only a program that has to end soon is told how full machines are at least."""
    asked: list[object] = []
    monkeypatch.setattr(fitting._Assignment, "fill", lambda _, machines: asked.append(machines))

    on_machines(ONE, [(0,)], limit)

    assert bool(asked) is filled


SPLIT = DomainSplit(2, (0, 1), (0, 0), 1, from_zero=False)


@pytest.mark.parametrize(
    ("sizes", "splits", "rows"),
    [
        pytest.param((9, 9), (), 2, id="8 of each 10 are taken"),
        pytest.param((9, 8), (), 0, id="7 of each 10 are taken"),
        pytest.param((9, 9), (SPLIT,), 0, id="how the pods are divided is not known"),
    ],
)
def test_how_full_machines_are(sizes: tuple[int, int], splits: tuple[DomainSplit, ...], rows: int) -> None:
    """Of two machines of 10 one leaves no more room than both do; that is said if it takes more than 0.7."""
    given = PatternProblem(
        count=(1, 1),
        want=((sizes[0], 0), (sizes[1], 0)),
        cap=(1, 1),
        bins=(Bin((10, 0), 1.0, (0, 1)),),
        splits=splits,
    )
    program = fitting._Assignment(given, [(0,), (0,)], 0.0)
    before = program._program.rows

    program.fill([(0,), (0,)])

    assert program._program.rows == before + rows


def test_pods_lack_the_only_unit_of_a_resource() -> None:
    """Two pods that want the one unit that a machine has do not fit divided either; one does."""
    given = single([1, 1], [1])
    cap = PatternSearch(given).cap

    assert shortfall(given, cap, [(0,)], np.ones(2)) is not None
    assert shortfall(msgspec.structs.replace(given, count=(1, 0)), cap, [(0,)], np.ones(2)) is None


def test_a_machine_that_is_one_of_two_bins_is_divided_over_them() -> None:
    """Half of a machine in each zone holds a pod of half its size there; of two thirds it does not."""
    given = PatternProblem(
        count=(1, 1), want=((3,), (3,)), cap=(1, 1), bins=(Bin((6,), 1.0, (0,)), Bin((6,), 1.0, (1,)))
    )
    larger = msgspec.structs.replace(given, want=((4,), (4,)))

    assert shortfall(given, PatternSearch(given).cap, [(0, 1)], np.ones(2)) is None
    assert shortfall(larger, PatternSearch(larger).cap, [(0, 1)], np.ones(2)) is not None


class Still:
    """Random numbers without any chance in them."""

    def __init__(self, earlier: float) -> None:
        self._earlier = earlier

    def dirichlet(self, alpha: Any, size: int) -> Any:
        return np.full((size, len(alpha)), 1.0 / len(alpha))

    def normal(self, mean: float, _deviation: float, size: tuple[int, ...]) -> Any:
        return np.full(size, mean)

    def choice(self, _among: object, size: tuple[int, ...]) -> Any:
        return np.full(size, self._earlier)


def placed(given: PatternProblem, cap: Any, earlier: float = 0.0) -> list[list[int]] | None:
    """Return the sizes of the pods on each machine when no pod is placed by chance."""
    rng: Any = Still(earlier)
    found = packed_at_random(given, np.array(cap, np.float64), np.arange(len(given.bins)), rng)
    if found is None:
        return None
    return [[given.want[item][0] for item in np.flatnonzero(each.holds)] for each in found.patterns]


@pytest.mark.parametrize(
    ("sizes", "rooms", "trials", "machines"),
    [
        # By the first rule 7 goes to the machine of 8, and the 4s to that of 10, where 3 finds no room.
        pytest.param([7, 4, 4, 3], [10, 8], 1, None, id="least room left fails"),
        pytest.param([7, 4, 4, 3], [10, 8], 2, [[7, 3], [4, 4]], id="all resources evenly finds"),
        # After 15 there are 5 of 5 and 6 of 21; 4 leaves 1 of 5 or 2 of 21, and belongs to the second.
        pytest.param([15, 4, 3, 2, 2], [5, 21], 2, None, id="least room left and evenly fail"),
        pytest.param([15, 4, 3, 2, 2], [5, 21], 3, [[3, 2], [15, 4, 2]], id="least share left finds"),
    ],
)
def test_rules_for_the_choice_of_a_machine(
    sizes: list[int],
    rooms: list[int],
    trials: int,
    machines: list[list[int]] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The largest pod comes first; trials take turns in the rule by which a machine is chosen for it."""
    monkeypatch.setattr(fitting, "TRIALS", trials)

    assert placed(single(sizes, rooms), np.ones((len(rooms), len(sizes)))) == machines


@pytest.mark.parametrize(("earlier", "machines"), [(0.0, None), (2.0, [[2], [3]])])
def test_pods_that_may_use_few_machines_come_earlier(
    earlier: float, machines: list[list[int]] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A pod of 2 may use the first machine only, one of 3 both; each machine holds one of them.

    The larger one comes first, and takes the first machine. With scarcity it counts as before, the other one,
    which may use one of two machines, as three times its size.
    """
    monkeypatch.setattr(fitting, "TRIALS", 1)

    assert placed(single([2, 3], [4, 4]), [[1, 1], [0, 1]], earlier) == machines


def test_which_pods_are_large() -> None:
    """On two machines of 50 a pod of 4 takes a twenty-fifth of all room, and one of 3 less."""
    given = PatternProblem((1, 1, 1), ((4, 0), (3, 0), (3, 9)), (1, 1, 1), (Bin((50, 50), 1.0, (0, 1, 2)),))

    assert fitting._Assignment(given, [(0,), (0,)], 0.04)._large.tolist() == [True, False, True]
    assert fitting._Assignment(given, [(0,), (0,)], 0.0)._large.all()
