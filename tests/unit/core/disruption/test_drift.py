"""Drift of dynamic pools: in order, within a time limit, and in turns where there is not enough of it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from karpenter.api.meta import Condition
from karpenter.api.nodepool import Budget
from tests.unit.core.disruption.clusters import LONG_AGO, MARKET, cluster, decided, held, machine, pod, pool

if TYPE_CHECKING:
    from collections.abc import Callable

SWAPPED = Condition(type="Drifted", status="True", reason="ImageDrift", last_transition_time=LONG_AGO)
HUGE = "15"

STUCK = [
    [*machine(name, "xlarge", conditions=(SWAPPED,)), pod(f"{name}-1", name, cpu=HUGE)] for name in "abc"
]
"""Drifted machines whose pods have no other place, since their pool may not grow."""


def after(number: int) -> Callable[[], bool]:
    """Return what says that time is up, once it was asked so often."""
    asked = itertools.count()
    return lambda: next(asked) >= number


@pytest.mark.parametrize("size", ["small", "xlarge"])
def test_a_replacement_is_the_cheapest_that_fits(size: str) -> None:
    """However large or small the drifted machine is, its pod decides what takes its place."""
    view = cluster(pool(), machine("node-1", size, conditions=(SWAPPED,)), pod("web-1", "node-1", cpu="1"))
    (command,) = decided(view).commands
    (node,) = command.replacements
    fitting = [kind for kind in MARKET.types if kind.allocatable["cpu"] >= 1000]
    sold = [each for kind in fitting for each in kind.offerings if each.capacity_type == "on-demand"]

    assert command.reason == "Drifted"
    assert node.purchase.price == min(each.price for each in sold)
    assert command.hourly_after <= command.hourly_before


def test_a_look_that_takes_too_long_ends_with_what_is_known() -> None:
    """What was looked at says what holds it; the others say that their turn comes."""
    verdict = decided(cluster(pool(ways=("none",)), *STUCK), stop=after(1))

    assert verdict.commands == ()
    assert held(verdict) == {"a": "CannotMove", "b": "OutOfTime", "c": "OutOfTime"}
    assert verdict.memory.overdue == {"b", "c"}
    assert not all(each.code.is_lasting for each in verdict.kept)


def test_who_was_not_reached_is_among_the_next() -> None:
    """However long the list is, every node has its turn."""
    verdict = decided(cluster(pool(ways=("none",)), *STUCK), stop=after(2), overdue=frozenset("bc"))

    assert held(verdict) == {"a": "OutOfTime", "b": "CannotMove", "c": "CannotMove"}


def test_who_was_not_reached_is_known_whatever_else_holds_it() -> None:
    """A budget against savings has its own sentence, and must not cost a drifted machine its turn."""
    stingy = pool(ways=("none",), budgets=(Budget(nodes="0", reasons=("Underutilized",)),))

    verdict = decided(cluster(stingy, *STUCK), stop=after(1))

    assert set(held(verdict).values()) == {"Budget"}
    assert verdict.memory.overdue == {"b", "c"}


def test_reasons_are_told_when_they_were_tried() -> None:
    """The first that finds something ends the pass, so the reasons after it are not tried."""
    fruitless: list[str] = []
    fruitful: list[str] = []

    decided(cluster(pool(ways=("none",)), *STUCK), tried=fruitless.append)
    decided(cluster(pool(), machine("idle")), tried=fruitful.append)

    assert fruitless == ["Empty", "Drifted", "Underutilized"]
    assert fruitful == ["Empty"]
