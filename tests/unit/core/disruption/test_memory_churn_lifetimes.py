"""How long savings last."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
import pytest

from karpenter.core.disruption.memory import (
    LASTING,
    SHORTEST,
    Payback,
    end_savings,
    expected_lifetimes,
    record_savings,
)
from tests.unit.core.disruption.clusters import NOW, cluster, decided, held, machine, pod, pool

if TYPE_CHECKING:
    from karpenter.core.disruption.memory import SavingLifetimes

HOUR = timedelta(hours=1)


def _ended(count: int, each: timedelta) -> SavingLifetimes:
    """Return so many savings that lasted equally long, the last of which has just ended."""
    lives: SavingLifetimes = ()
    for _ in range(count):
        lives = record_savings(lives, ["default"], NOW - each)
    return end_savings(lives, {"default"}, NOW)


def test_nothing_is_learned_from_a_few() -> None:
    """Four savings that ended say nothing yet; the fifth does."""
    assert expected_lifetimes(_ended(4, 12 * HOUR), NOW) == {}
    assert expected_lifetimes(_ended(5, 12 * HOUR), NOW) == {"default": 12 * HOUR}


def test_savings_that_last_count_for_as_long_as_they_have_lasted() -> None:
    """Five ended after twelve hours, and two have lasted for fifteen so far: eighteen for each that ended."""
    lives = _ended(5, 12 * HOUR)
    for _ in range(2):
        lives = record_savings(lives, ["default"], NOW)

    assert expected_lifetimes(lives, NOW + 15 * HOUR) == {"default": 18 * HOUR}


@pytest.mark.parametrize(
    ("each", "expected"),
    [(HOUR, SHORTEST), (30 * LASTING, LASTING)],
    ids=["no less than a part of a day", "no more than what is taken for granted"],
)
def test_what_is_learned_has_limits(each: timedelta, expected: timedelta) -> None:
    """Neither haste nor patience knows no limits."""
    assert expected_lifetimes(_ended(5, each), NOW) == {"default": expected}


def test_growth_ends_only_savings_of_its_own_pool() -> None:
    """And only once: what has ended stays ended."""
    lives = record_savings(record_savings((), ["a", "b"], NOW), ["a"], NOW + HOUR)
    lives = end_savings(end_savings(lives, {"a"}, NOW + 2 * HOUR), {"a"}, NOW + 9 * HOUR)

    assert [(each.pool, each.lasted(NOW + 9 * HOUR)) for each in lives] == [
        ("a", 2 * HOUR),
        ("b", 9 * HOUR),
        ("a", HOUR),
    ]


def test_old_savings_are_forgotten() -> None:
    """What was saved days ago says nothing about today."""
    lives = record_savings(record_savings((), ["a"], NOW), ["b"], NOW + 48 * HOUR)

    assert [each.pool for each in lives] == ["b"]


def short(life: timedelta, pool: str = "default") -> Payback:
    """Return what savings must earn where they last for so long."""
    return Payback().learned((), {pool: life})


def test_an_exchange_must_save_more_where_savings_are_short_lived() -> None:
    """Half the price of a machine is worth it where it lasts, and not where it soon ends."""
    halved = cluster(pool(), machine("node-1", "xlarge"), *(pod(f"web-{at}", "node-1") for at in range(7)))

    assert decided(halved).commands
    assert held(decided(halved, payback=short(SHORTEST))) == {"node-1": "NoPayback"}
    assert decided(halved, payback=short(2 * SHORTEST)).commands
    assert decided(halved, payback=short(SHORTEST, "other")).commands


def test_a_single_pod_has_a_price_too() -> None:
    """
    One pod on a node for $0.20 costs that, and moving it half of that where savings are short-lived.

    A node for $0.10 saves as much, and is paid beside the other while it starts: too little.
    """
    alone = cluster(pool(), machine("node-1"), pod("web-0", "node-1"))

    assert decided(alone).commands
    assert held(decided(alone, payback=short(SHORTEST))) == {"node-1": "NoPayback"}


def test_room_is_given_up_only_where_it_is_dear_if_machines_empty_by_themselves() -> None:
    """A machine that costs as much per pod as the others is waited for; one with fewer pods goes."""
    here = [pod(f"here-{at}", "node-1") for at in range(3)]
    there = [pod(f"there-{at}", "node-2") for at in range(2)]
    alike = cluster(pool(), machine("node-1"), machine("node-2"), *here[:2], *there)
    patient = msgspec.structs.replace(short(SHORTEST), steered=True)
    emptier = cluster(pool(), machine("node-1"), machine("node-2"), *here, *there[:1])

    assert decided(alike, payback=short(SHORTEST)).commands
    assert held(decided(alike, payback=patient)).keys() == {"node-1", "node-2"}
    (command,) = decided(emptier, payback=patient).commands
    assert command.candidates == ("node-2",)
    assert not command.replacements
