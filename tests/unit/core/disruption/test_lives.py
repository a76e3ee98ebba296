"""How long savings last."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from karpenter.core.disruption.lives import LASTING, SHORTEST, expected_lives, grown, saved
from karpenter.core.disruption.payback import Payback
from tests.unit.core.disruption.clusters import NOW, cluster, decided, held, machine, pod, pool

if TYPE_CHECKING:
    from karpenter.core.disruption.lives import Lives

HOUR = timedelta(hours=1)
SHRINKABLE = cluster(pool(), machine("node-1", "xlarge"), pod("web-0", "node-1"))


def _ended(count: int, each: timedelta) -> Lives:
    """Return so many savings that lasted equally long, the last of which has just ended."""
    lives: Lives = ()
    for _ in range(count):
        lives = saved(lives, ["default"], NOW - each)
    return grown(lives, {"default"}, NOW)


def test_nothing_is_learned_from_a_few() -> None:
    """Four savings that ended say nothing yet; the fifth does."""
    assert expected_lives(_ended(4, 12 * HOUR), NOW) == {}
    assert expected_lives(_ended(5, 12 * HOUR), NOW) == {"default": 12 * HOUR}


def test_savings_that_last_count_for_as_long_as_they_have_lasted() -> None:
    """Five ended after twelve hours, and two have lasted for fifteen so far: eighteen for each that ended."""
    lives = _ended(5, 12 * HOUR)
    for _ in range(2):
        lives = saved(lives, ["default"], NOW)

    assert expected_lives(lives, NOW + 15 * HOUR) == {"default": 18 * HOUR}


@pytest.mark.parametrize(
    ("each", "expected"),
    [(HOUR, SHORTEST), (30 * LASTING, LASTING)],
    ids=["no less than a part of a day", "no more than what is taken for granted"],
)
def test_what_is_learned_has_limits(each: timedelta, expected: timedelta) -> None:
    """Neither haste nor patience knows no limits."""
    assert expected_lives(_ended(5, each), NOW) == {"default": expected}


def test_growth_ends_only_savings_of_its_own_pool() -> None:
    """And only once: what has ended stays ended."""
    lives = saved(saved((), ["a", "b"], NOW), ["a"], NOW + HOUR)
    lives = grown(grown(lives, {"a"}, NOW + 2 * HOUR), {"a"}, NOW + 9 * HOUR)

    assert [(each.pool, each.lasted(NOW + 9 * HOUR)) for each in lives] == [
        ("a", 2 * HOUR),
        ("b", 9 * HOUR),
        ("a", HOUR),
    ]


def test_old_savings_are_forgotten() -> None:
    """What was saved days ago says nothing about today."""
    lives = saved(saved((), ["a"], NOW), ["b"], NOW + 48 * HOUR)

    assert [each.pool for each in lives] == ["b"]


def test_an_eviction_costs_more_where_savings_are_short_lived() -> None:
    """A saving that pays where it lasts is left alone in a pool that will soon need the room again."""
    (command,) = decided(SHRINKABLE).commands
    payback = Payback(eviction_price=command.saving / 4)

    assert decided(SHRINKABLE, payback=payback).commands
    short = payback.learned((), {"default": LASTING / 8, "other": SHORTEST})
    assert held(decided(SHRINKABLE, payback=short)) == {"node-1": "NoPayback"}
    assert decided(SHRINKABLE, payback=payback.learned((), {"other": SHORTEST})).commands
