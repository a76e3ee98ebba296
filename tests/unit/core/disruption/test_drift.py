"""Drift of dynamic pools: in order, within a time limit, and in turns where there is not enough of it."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
import pytest

from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.api.meta import Condition, Resource
from karpenter.api.nodepool import Budget
from karpenter.core.disruption.disrupt import disrupt
from karpenter.core.disruption.memory import DisruptionMemory
from karpenter.core.disruption.outcomes import RestPeriod
from tests.unit.core.disruption.clusters import (
    LONG_AGO,
    MARKET,
    NOW,
    cluster,
    decided,
    facts,
    held,
    machine,
    pod,
    pool,
)

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


def test_the_node_that_drifted_first_goes_first() -> None:
    """By how long it has drifted, and not by name; an empty one goes before both."""
    later = msgspec.structs.replace(SWAPPED, last_transition_time=LONG_AGO + timedelta(hours=1))
    full = [pod("a-1", "a"), pod("b-1", "b")]
    both: list[Resource | list[Resource]] = [
        machine("a", conditions=(later,)),
        machine("b", conditions=(SWAPPED,)),
        *full,
    ]

    assert [each.candidates for each in decided(cluster(pool(), *both)).commands] == [("b",)]
    empty = machine("c", conditions=(later,))
    (command,) = decided(cluster(pool(consolidate_after="Never"), *both, empty)).commands
    assert (command.reason, command.candidates) == ("Drifted", ("c",))


@pytest.mark.parametrize(("grace", "goes"), [("1h", True), (None, False)])
def test_a_drifted_node_with_a_grace_period_goes_whatever_its_pods_say(grace: str | None, goes: bool) -> None:
    """Its pods are drained in the end; without a grace period a protected pod keeps it."""
    kept = pod("web-1", "old", annotations={DO_NOT_DISRUPT: "true"})
    view = cluster(pool(), machine("old", conditions=(SWAPPED,), grace=grace), kept)

    assert [each.candidates for each in decided(view).commands] == ([("old",)] if goes else [])


def test_a_node_whose_replacement_failed_is_tried_again_when_its_rest_is_over() -> None:
    """Until then it stays and says when; at that moment it is replaced."""
    view = cluster(pool(), machine("old", conditions=(SWAPPED,)), pod("web-1", "old"))
    for until, goes in ((NOW, True), (NOW + timedelta(seconds=1), False)):
        memory = DisruptionMemory(failed={"old": RestPeriod(timedelta(minutes=5), until)})
        found = disrupt(view, MARKET, memory, now=NOW, context=facts({}))
        assert [each.reason for each in found.commands if each.reason == "Drifted"] == ["Drifted"] * goes
        assert held(found) == ({} if goes else {"old": "Resting"})


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
