"""The least that any purchase could cost."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import highspy
import numpy as np
import pytest

from karpenter.core.scheduling.price.bound import EQUAL_VALUES, LINEAR_PROGRAM, Market, dual_values
from karpenter.core.scheduling.price.linear import _ITEMS

if TYPE_CHECKING:
    from collections.abc import Sequence


def market(
    items: Sequence[tuple[int, tuple[float, ...]]],
    machines: Sequence[tuple[float, tuple[float, ...]]],
    *,
    caps: list[float] | None = None,
    fits: list[list[bool]] | None = None,
) -> Market:
    """Return a market of pods (how many, wanting what) and machines (price, room)."""
    want = np.array([w for _, w in items], np.float64)
    room = np.array([r for _, r in machines], np.float64)
    roomy = np.asarray((want[None] <= room[:, None]).all(axis=2), bool)
    return Market(
        np.array([n for n, _ in items], np.float64),
        want,
        np.array(caps or [np.inf] * len(items), np.float64),
        room,
        np.array([p for p, _ in machines], np.float64),
        roomy if fits is None else np.array(fits, bool) & roomy,
        tuple((0, number) for number in range(len(machines))),
    )


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the library for linear programs impossible to import."""
    monkeypatch.setitem(sys.modules, "highspy", None)


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        pytest.param(market([(4, (1, 1))], [(1.0, (4, 4))]), 1.0, id="pods that fill a machine cost it"),
        pytest.param(market([(8, (1, 1))], [(1.0, (4, 4))]), 2.0, id="twice the pods cost twice as much"),
        pytest.param(market([(2, (1, 1))], [(1.0, (4, 4))]), 1.0, id="a machine is bought whole"),
        pytest.param(
            market([(4, (1, 0))], [(1.0, (4, 1)), (0.5, (1, 4))]),
            1.0,
            id="only a resource that is wanted is paid for",
        ),
        pytest.param(
            market([(3, (4, 1)), (3, (1, 4))], [(1.0, (5, 5))]),
            3.0,
            id="pods that complement each other share",
        ),
        pytest.param(
            market([(3, (3, 3))], [(1.0, (4, 4))]),
            3.0,
            id="whole pods count where only one fits on a machine",
        ),
        pytest.param(
            market([(4, (1, 1))], [(1.0, (4, 4))], caps=[1]),
            4.0,
            id="pods that may not share cost a machine each",
        ),
        pytest.param(
            market([(6, (1, 1))], [(1.0, (4, 4))]),
            1.5,
            id="beyond the first machine half costs half at least",
        ),
        pytest.param(
            market([(4, (1, 1)), (1, (9, 9))], [(1.0, (4, 4))]),
            1.0,
            id="a pod that fits nowhere costs nothing",
        ),
        pytest.param(
            market(
                [(4, (1, 1)), (4, (1, 1))], [(1.0, (4, 4)), (9.0, (4, 4))], fits=[[True, False], [True, True]]
            ),
            10.0,
            id="pods that may only use the dear machine pay for it",
        ),
        pytest.param(market([(4, (1, 1))], [(0.0, (4, 4))]), 0.0, id="what costs nothing costs nothing"),
    ],
)
def test_bound(ours: Market, expected: float) -> None:
    """The bound is what divisible pods cost on divisible machines, or whole pods of one kind alone."""
    found = dual_values(ours)

    assert found.bound == pytest.approx(expected)
    assert found.method == LINEAR_PROGRAM


@pytest.mark.usefixtures("no_library")
@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        pytest.param(market([(4, (1, 1))], [(1.0, (4, 4))]), 1.0, id="one resource that decides is enough"),
        pytest.param(
            market([(4, (1, 0))], [(1.0, (4, 4))]), 1.0, id="a resource that no pod requests does not matter"
        ),
        pytest.param(
            market([(30, (4, 1)), (30, (1, 4))], [(1.0, (8, 2)), (1.0, (2, 8))]),
            30.0,
            id="two resources are weighed against each other",
        ),
        pytest.param(
            market([(4, (0, 1)), (4, (1, 1))], [(1.0, (0, 4)), (2.0, (4, 4))]),
            3.0,
            id="a resource that the cheap machine lacks is paid for where it is",
        ),
        pytest.param(
            market([(2, (1,))], [(1.0, (0,))], fits=[[False]]),
            0.0,
            id="a resource that no machine has has no value",
        ),
    ],
)
def test_bound_without_the_library(ours: Market, expected: float) -> None:
    """Without a linear program values are the same on every machine; what they prove holds, and says so."""
    found = dual_values(ours)

    assert found.bound == pytest.approx(expected, rel=0.2)
    assert found.bound <= expected + 1e-9
    assert found.method == EQUAL_VALUES


def test_a_program_that_does_not_end_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the library gives no answer, equal values prove what they can."""

    class Stuck(highspy.Highs):
        """A solver that never finds the best answer."""

        def getModelStatus(self) -> Any:  # noqa: N802  the library's own name
            return highspy.HighsModelStatus.kTimeLimit

    names = ("HighsLp", "kHighsInf", "MatrixFormat", "HighsModelStatus")
    stuck = SimpleNamespace(Highs=Stuck, **{name: getattr(highspy, name) for name in names})
    monkeypatch.setitem(sys.modules, "highspy", stuck)

    found = dual_values(market([(4, (1, 1))], [(1.0, (4, 4))]))

    assert found.bound == pytest.approx(1.0)
    assert found.method == EQUAL_VALUES


def test_many_different_pods_are_sampled() -> None:
    """With very many items the program looks at the heaviest only; the bound is about all of them."""
    items = [(1, (1 + number / 1000, 1.0)) for number in range(_ITEMS + 40)]

    found = dual_values(market(items, [(1.0, (4, 4))]))

    exact = sum(cpu for _, (cpu, _) in items) / 4
    assert found.bound == pytest.approx(exact)
    assert len(found.pod) == len(items)


@pytest.mark.parametrize(
    ("free", "expected"),
    [
        pytest.param((0, 0), 2.0, id="no free room saves nothing"),
        pytest.param((2, 2), 1.5, id="free room saves what it may hold, at most"),
        pytest.param((100, 100), 0.0, id="enough free room may hold everything"),
    ],
)
def test_free_room(free: tuple[int, int], expected: float) -> None:
    """What could run on room that is there already need not be paid for."""
    found = dual_values(market([(8, (1, 1))], [(1.0, (4, 4))]), np.array(free, np.float64))

    assert found.bound == pytest.approx(expected)


def test_the_dearest_pods_use_free_room_first() -> None:
    """Free room is taken to be used in the way that saves most, so that nothing could save more."""
    ours = market([(1, (1,)), (1, (1,))], [(1.0, (1,)), (9.0, (1,))], fits=[[True, False], [False, True]])

    assert dual_values(ours, np.array([1.0])).bound == pytest.approx(1.0)


def test_pods_that_cost_nothing_need_no_free_room() -> None:
    """When nothing has a price, free room changes nothing."""
    assert dual_values(market([(1, (1,))], [(0.0, (1,))]), np.array([1.0])).bound == 0.0
