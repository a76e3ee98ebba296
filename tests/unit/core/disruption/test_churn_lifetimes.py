"""How long savings last."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
import pytest

from karpenter.core.disruption.churn import (
    LASTING,
    SHORTEST,
    PoolChange,
    PoolTrend,
    end_savings,
    pool_trends,
    record_savings,
)
from karpenter.core.disruption.payback import LeastSaving, Payback
from tests.unit.core.disruption.clusters import NOW, cluster, decided, held, machine, pod, pool, simulated

if TYPE_CHECKING:
    from karpenter.core.state.cluster import ClusterView

HOUR = timedelta(hours=1)


def _changes(*changes: tuple[float, int, bool], pool: str = "default") -> list[PoolChange]:
    """Return changes of a NodePool: hours from now, how many nodes there are since, and whether it grew."""
    return [
        PoolChange(pool=pool, when=NOW + hour * HOUR, nodes=nodes, grew=grew) for hour, nodes, grew in changes
    ]


def _nights(count: int, length: float) -> list[PoolChange]:
    """Return so many nights after which a node comes back, the last of which is about to begin."""
    found = []
    for at in range(-count, 0):
        found += _changes((2 * length * at, 1, False), (2 * length * at + length, 2, True))
    return [*found, *_changes((0.0, 1, False))]


def test_nothing_is_learned_from_a_few() -> None:
    """Four times that room was missed say nothing yet; the fifth does."""
    assert pool_trends(_nights(4, 3.0), NOW) == {}
    assert pool_trends(_nights(5, 3.0), NOW) == {"default": PoolTrend(grows=False, lifetime=3 * HOUR)}


def test_room_that_is_not_missed_counts_for_as_long_as_that_has_lasted() -> None:
    """Five nodes came back after three hours, and one has been gone for fifteen: six for each that came."""
    found = pool_trends(_nights(5, 3.0), NOW + 15 * HOUR)

    assert found["default"].lifetime == 6 * HOUR


def test_growing_and_shrinking_are_learned_apart() -> None:
    """A node is launched every hour for six hours, then five are given up, and come back the next day."""
    grown = [(float(at), at, True) for at in range(1, 7)]
    given_up = [(7.0 + at, 5 - at, False) for at in range(5)]
    back = [(24.0 + at, 2 + at, True) for at in range(6)]
    whole = _changes(*grown, *given_up, *back)
    shrinking = _changes(*grown, *given_up, *back, (29.5, 6, False))

    # Of the nodes that were given up the last comes back first, after 13, 15, 17, 19 and 21 hours.
    lasted = pool_trends(shrinking, NOW + 29.5 * HOUR)["default"]
    assert lasted == PoolTrend(grows=False, lifetime=17 * HOUR)
    # Five times an hour, once 23 hours until there are more than six, and five times an hour again.
    assert pool_trends(whole, NOW + 29 * HOUR)["default"] == PoolTrend(grows=True, lifetime=33 * HOUR / 11)


def test_fewer_nodes_than_before_are_no_end() -> None:
    """Nodes that are launched again bring back what was given up last, and nothing before."""
    first = _changes((0.0, 5, False))
    again = [each for at in range(5) for each in _changes((1.0 + at, 4, False), (1.5 + at, 5, True))]

    # Five times half an hour, and the first for as long as everything.
    found = pool_trends([*first, *again, *_changes((10.0, 4, False))], NOW + 10 * HOUR)
    assert found["default"].lifetime == 12.5 * HOUR / 5


@pytest.mark.parametrize(
    ("length", "after", "expected"),
    [(0.1, 0.0, SHORTEST), (3.0, 5000.0, LASTING)],
    ids=["no less than some minutes", "no more than what is taken for granted"],
)
def test_what_is_learned_has_limits(length: float, after: float, expected: timedelta) -> None:
    """Neither haste nor patience knows no limits."""
    assert pool_trends(_nights(5, length), NOW + after * HOUR)["default"].lifetime == expected


def test_pools_are_learned_apart() -> None:
    """What one NodePool does says nothing about another."""
    both = [*_nights(5, 3.0), *_changes((0.0, 1, True), pool="other")]

    assert pool_trends(both, NOW).keys() == {"default"}


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


def short(life: timedelta, pool: str = "default", *, grows: bool = False) -> Payback:
    """Return what savings must earn where room is missed after so long."""
    return Payback().learned((), {pool: PoolTrend(grows=grows, lifetime=life)})


def _halved(pods: int) -> ClusterView:
    return cluster(pool(), machine("node-1", "xlarge"), *(pod(f"web-{at}", "node-1") for at in range(pods)))


def test_an_exchange_must_save_more_where_savings_are_short_lived() -> None:
    """Half the price of a machine is worth it where it lasts or a NodePool grows, else where it soon ends."""
    halved = _halved(7)

    assert decided(halved).commands
    assert held(decided(halved, payback=short(HOUR))) == {"node-1": "NoPayback"}
    assert held(decided(halved, payback=short(8 * HOUR))) == {"node-1": "NoPayback"}
    assert decided(halved, payback=short(16 * HOUR)).commands
    assert decided(halved, payback=short(HOUR, grows=True)).commands
    assert decided(halved, payback=short(HOUR, "other")).commands


def test_a_single_pod_has_a_price_too() -> None:
    """
    One pod on a node for $0.20 costs that, and moving it half of that where savings are short-lived.

    A node for $0.10 saves as much, and is paid beside the other while it starts: too little.
    """
    alone = cluster(pool(), machine("node-1"), pod("web-0", "node-1"))

    assert decided(alone).commands
    assert held(decided(alone, payback=short(HOUR))) == {"node-1": "NoPayback"}


@pytest.mark.parametrize(
    ("steered", "least"),
    [
        pytest.param(False, LeastSaving(given_up=0.5, exchanged=1.0), id="as pods come and go"),
        pytest.param(True, LeastSaving(given_up=1.0, exchanged=1.5), id="where nodes empty by themselves"),
    ],
)
def test_an_eviction_is_worth_a_part_of_what_a_pod_costs(steered: bool, least: LeastSaving) -> None:
    """Two pods that cost a dollar an hour each, in a NodePool that shrinks: room is missed in two hours."""
    _, found = simulated(cluster(pool(), machine("node-1"), pod("a", "node-1"), pod("b", "node-1")))
    payback = msgspec.structs.replace(short(2 * HOUR), rates={"default": 1.0}, steered=steered)
    growing = msgspec.structs.replace(payback, trends={"default": PoolTrend(grows=True, lifetime=2 * HOUR)})

    assert payback.least(found["node-1"]) == least
    assert growing.least(found["node-1"]) == least._replace(exchanged=least.exchanged / 2)


def test_the_payback_time_does_not_change_what_a_pod_is_worth() -> None:
    """A saving is asked for per hour, whatever the time in which the price of an eviction is earned."""
    _, found = simulated(cluster(pool(), machine("node-1"), pod("a", "node-1")))
    payback = msgspec.structs.replace(short(HOUR), rates={"default": 1.0}, within=4 * HOUR)

    assert payback.least(found["node-1"]) == LeastSaving(given_up=0.5, exchanged=0.5)
    assert Payback(within=4 * HOUR).least(found["node-1"]) == LeastSaving(0.00025, 0.00025)
    assert Payback(within=timedelta(0)).least(found["node-1"]) == LeastSaving(0.0, 0.0)


def test_room_is_given_up_only_where_it_is_dear_if_machines_empty_by_themselves() -> None:
    """A machine that costs as much per pod as the others is waited for; one with fewer pods goes."""
    here = [pod(f"here-{at}", "node-1") for at in range(3)]
    there = [pod(f"there-{at}", "node-2") for at in range(2)]
    alike = cluster(pool(), machine("node-1"), machine("node-2"), *here[:2], *there)
    hasty = short(timedelta(minutes=40))
    patient = msgspec.structs.replace(hasty, steered=True)
    emptier = cluster(pool(), machine("node-1"), machine("node-2"), *here, *there[:1])

    assert decided(alike, payback=hasty).commands
    assert held(decided(alike, payback=patient)).keys() == {"node-1", "node-2"}
    (command,) = decided(emptier, payback=patient).commands
    assert command.candidates == ("node-2",)
    assert not command.replacements
