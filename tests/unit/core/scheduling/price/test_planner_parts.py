"""The parts of the planner: pods without a node, and how many different ones are packed by price."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

from karpenter.core.model.requirements import NOTHING_REQUIRED
from karpenter.core.scheduling.encode.encode import EncodedProblem
from karpenter.core.scheduling.pack.scheduler import Scheduler
from karpenter.core.scheduling.price import planner
from karpenter.core.scheduling.price.bound import Item, market
from karpenter.core.scheduling.price.patterns import Packing
from karpenter.core.scheduling.price.planner import (
    ClaimOpener,
    DevicePriceScheduler,
    Part,
    UnplacedPods,
    counted,
)
from karpenter.core.scheduling.problem import Options
from karpenter.core.scheduling.solve import search
from karpenter_local.testing.builders import instance_type, node, pod, pool, problem, replicas

if TYPE_CHECKING:
    from karpenter.core.scheduling.encode.preferences import PodData

GIVEN = problem(
    replicas(pod("large", cpu="3"), 2),
    replicas(pod("small", cpu="1"), 3),
    pools=[pool("p", instance_type("m", cpu=8))],
    nodes=[node("n", free={"cpu": "0"})],
)


def parts() -> tuple[Part, Part]:
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


def kept() -> Scheduler:
    """Return a schedule with a pod on a node and two on machines of their own."""
    given = problem(
        replicas(pod("s", cpu="900m", ports=[80]), 3),
        pools=[pool("p", instance_type("m", cpu=2), instance_type("n", cpu=4))],
        nodes=[node("n", free={"cpu": "2"})],
        options=Options(packing="greedy"),
    )
    return search(given)[0]


def places(scheduler: Scheduler) -> list[tuple[int, int]]:
    return [(each.bin, each.pod_count) for each in scheduler.placements]


def test_what_is_kept_is_placed_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every placement is repeated, with its devices asked for on its own node, unless its claim is gone."""
    first = kept()
    first.relaxed.add(1)
    asked: list[int] = []

    def has_devices(_pod_data: PodData, number: int, *_: object) -> bool:
        asked.append(number)
        return True

    second = Scheduler(first.encoded)
    monkeypatch.setattr(second, "has_devices", has_devices)

    assert planner._replay(first, second, frozenset())
    assert places(second) == places(first) == [(0, 1), (1, 1), (2, 1)]
    assert asked == [0, 1, 2]
    assert second.relaxed == {1}
    third = Scheduler(first.encoded)
    assert planner._replay(first, third, frozenset({0}))
    assert places(third) == [(0, 1), (1, 1)]


@pytest.mark.parametrize("lacking", [0, 1, 2])
def test_devices_that_are_given_otherwise_keep_the_plan(
    lacking: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a node or a claim no longer has the devices of a pod, nothing is packed again."""
    first = kept()
    second = Scheduler(first.encoded)
    monkeypatch.setattr(second, "has_devices", lambda _pod_data, number, *_: number != lacking)

    assert not planner._replay(first, second, frozenset())


def opener(large_pods: int) -> tuple[ClaimOpener, Scheduler, Part, Part]:
    """Return what opens machines of eight cores for large pods and two small ones."""
    scheduler = Scheduler(EncodedProblem(GIVEN))
    found = [(each[0], NOTHING_REQUIRED) for each in scheduler.pod_data.values()]
    large, small = sorted(found, key=lambda part: part[0].pod_class.want, reverse=True)
    (template,) = scheduler.templates
    items = [Item(part[0].pod_class.want, (template.bits,)) for part in (large, small)]
    unplaced = UnplacedPods([[large], [small]], Counter({large: large_pods, small: 2}))
    demand = market(items, unplaced.count.tolist(), [template])
    return ClaimOpener(scheduler, template, demand, unplaced), scheduler, large, small


def opened(ours: ClaimOpener, *holds: list[float]) -> Counter[int]:
    """Open machines that hold so many large and small pods; return what is left, by class number."""
    count = len(holds)
    packing = Packing(np.array(holds), np.zeros(count, np.int64), np.arange(count, 0.0, -1.0))
    return ours.open_claims(packing, np.array([3.0, 1.0]))


def test_a_machine_that_is_full_is_remembered() -> None:
    """What a machine holds that nothing fits beside is remembered, and what was added to is not."""
    ours, scheduler, _, _ = opener(large_pods=3)

    assert opened(ours, [2.0, 0.0], [1.0, 0.0]) == {}
    assert [total[0] for total in scheduler.claims.totals] == [8000, 3000]
    assert ours._full == {(0, scheduler.claims.totals[1])}


@pytest.mark.parametrize(
    ("planned", "left"),
    [
        pytest.param(2.0, 2, id="is left as it is"),
        pytest.param(3.0, 0, id="is looked at once pods were put back"),
    ],
)
def test_a_machine_that_holds_the_same_as_a_full_one(planned: float, left: int) -> None:
    """A machine is not filled up where nothing fitted beside the same pods, unless more pods wait by now."""
    ours, _, large, small = opener(large_pods=3)
    ours._full.add((0, tuple(2 * each for each in large[0].pod_class.want)))

    rest = opened(ours, [planned, 0.0])

    assert rest.get(small[0].pod_class.number, 0) == left
