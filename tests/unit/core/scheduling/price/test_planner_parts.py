"""The parts of the planner: pods without a node, and how many different ones are packed by price."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from karpenter.core.model.requirements import NOTHING_REQUIRED
from karpenter.core.scheduling.encode.encode import EncodedProblem
from karpenter.core.scheduling.pack.scheduler import Scheduler
from karpenter.core.scheduling.price import planner
from karpenter.core.scheduling.price.bound import Item
from karpenter.core.scheduling.price.planner import DevicePriceScheduler, UnplacedPods, counted
from karpenter.core.scheduling.solve import search
from karpenter_local.testing.builders import instance_type, node, pod, pool, problem, replicas

if TYPE_CHECKING:
    from karpenter.core.scheduling.price.planner import Part

GIVEN = problem(
    replicas(pod("large", cpu="3"), 2),
    replicas(pod("small", cpu="1"), 3),
    pools=[pool("p", instance_type("m", cpu=8))],
    nodes=[node("n", free={"cpu": "0"})],
)


def parts() -> tuple[Part, Part]:
    """Return large pods, and small ones."""
    scheduler = Scheduler(EncodedProblem(GIVEN))
    found = [(each[0], NOTHING_REQUIRED) for each in scheduler.pod_data.values()]
    large, small = sorted(found, key=lambda part: part[0].pod_class.want, reverse=True)
    return large, small


def test_the_largest_pods_are_taken_first() -> None:
    """Pods of an item are taken largest first, as many as there are, and can be given back."""
    large, small = parts()
    pods = UnplacedPods([[small, large]], Counter({large: 2, small: 3}))
    assert pods.count.tolist() == [5.0]

    assert pods.take(0, 1) == [(large, 1)]
    assert pods.take(0, 2) == [(large, 1), (small, 1)]
    assert pods.count.tolist() == [2.0]
    assert pods.rest() == {small[0].pod_class.number: 2}
    pods.put_back(0, large, 1)
    pods.put_back(0, small, 1)
    assert pods.count.tolist() == [4.0]
    assert pods.rest() == {large[0].pod_class.number: 1, small[0].pod_class.number: 3}
    assert pods.take(0, 9) == [(large, 1), (small, 3)]
    assert pods.take(0, 1) == []
    assert pods.rest() == {}


def test_pods_of_rows_are_counted() -> None:
    """A row has the pods of all its parts."""
    large, small = parts()

    assert counted([[large, small], [small]], Counter({large: 2, small: 3})).tolist() == [5.0, 3.0]


@pytest.mark.parametrize("most", [2, 3])
def test_as_many_different_pods_as_are_packed_stay_apart(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to a number of items and of choices nothing is joined."""
    large, small = parts()
    grouped = {Item((3,), (1,)): [large], Item((1,), (2,)): [small]}
    monkeypatch.setattr(planner, "_MOST_ITEMS", most)
    monkeypatch.setattr(planner, "_MOST_KINDS", most)
    scheduler = Scheduler(EncodedProblem(GIVEN))

    assert planner._coarse(grouped, Counter({large: 2, small: 3})) is grouped
    assert planner._with_few_choices(grouped, Counter(), scheduler.templates[0]) is grouped


def test_joined_pods_count_as_large_as_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    """An item of several sizes has the largest amount of each resource, and keeps its other rules."""
    large, small = parts()
    grouped = {Item((3, 1), (1,), 2): [large], Item((1, 2), (1,), 2): [small]}
    monkeypatch.setattr(planner, "_MOST_ITEMS", 1)

    found = planner._coarse(grouped, Counter({large: 2, small: 3}))

    assert found == {Item((3, 2), (1,), 2): [large, small]}


@pytest.mark.parametrize(("most", "claims"), [(2, 2), (1, 1)])
def test_as_many_items_as_may_be_are_packed(most: int, claims: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only more items than that are left to the greedy packer, which buys one large machine."""
    monkeypatch.setattr(planner, "_TOO_MANY", most)
    cheap, huge = instance_type("cheap", cpu=6, price=0.1), instance_type("huge", cpu=64, price=4.0)
    given = problem(
        replicas(pod("large", cpu="3"), 2),
        replicas(pod("small", cpu="1"), 3),
        pools=[pool("p", cheap, huge)],
    )

    assert search(given)[0].claims.count == claims


def test_a_claim_that_is_too_dear_is_not_asked_again() -> None:
    """What was found too dear for a class lacks devices for it, on that bin only."""
    scheduler = DevicePriceScheduler(EncodedProblem(GIVEN))
    (first, *_), (second, *_) = scheduler.pod_data.values()
    scheduler._dear.add((first.pod_class.number, 3))

    assert scheduler.lacks_devices(first, 3)
    assert not scheduler.lacks_devices(first, 2)
    assert not scheduler.lacks_devices(second, 3)
