"""Demand that is divided over domains, and pods that keep apart."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from karpenter.api.labels import ARCH, HOSTNAME, ZONE
from karpenter.core.scheduling.encode.encode import EncodedProblem
from karpenter.core.scheduling.pack.scheduler import Scheduler
from karpenter.core.scheduling.price import divided
from karpenter.core.scheduling.price.bound import DualValues, Item
from karpenter.core.scheduling.price.divided import DomainSplit, divided_demand
from karpenter.core.scheduling.proof import bound as proof_bound
from karpenter.core.scheduling.proof.bound import Proof, divided_bound, worth_of_pods
from karpenter.core.scheduling.solve import search
from karpenter_local.testing.builders import (
    Preferences,
    affinity_term,
    instance_type,
    node,
    offering,
    only,
    pod,
    pool,
    problem,
    replicas,
    spread,
)
from tests.unit.core.scheduling.pack.schedulers import placed
from tests.unit.core.scheduling.price.test_bound import market

ZONES = ("test-zone-a", "test-zone-b", "test-zone-c")
MACHINE = instance_type(
    "m", cpu=8, memory=32, sold=[offering(zone, "on-demand", 1.0 + n) for n, zone in enumerate(ZONES)]
)
ELSEWHERE = spread(ZONE, app="other")


def scheduler_of(count: int = 5, *, running: tuple[int, ...] = (), **asked: Any) -> Scheduler:
    """Return a scheduler for equal pods; as many of them run already in each zone."""
    nodes = [
        node(f"n{zone}", *replicas(pod(f"old-{zone}", app="a"), many), zone=zone, free={"cpu": "0"})
        for zone, many in zip(ZONES, running, strict=False)
    ]
    given = problem(
        replicas(pod("a", cpu="1", app="a", **asked), count), pools=[pool("p", MACHINE)], nodes=nodes
    )
    return Scheduler(EncodedProblem(given))


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        pytest.param({}, 0, id="any number"),
        pytest.param({"ports": [80]}, 1, id="a host port"),
        pytest.param({"spreads": [spread(HOSTNAME, app="a", skew=3)]}, 3, id="a spread over hosts"),
        pytest.param({"spreads": [spread(HOSTNAME, app="b", skew=3)]}, 0, id="a spread of other pods"),
        pytest.param({"apart": [affinity_term(HOSTNAME, app="a")]}, 1, id="pods that keep apart"),
        pytest.param({"apart": [affinity_term(HOSTNAME, app="b")]}, 0, id="pods that avoid others"),
        pytest.param({"near": [affinity_term(HOSTNAME, app="a")]}, 0, id="pods that share a node"),
        pytest.param(
            {"spreads": [spread(HOSTNAME, app="a", skew=2)], "apart": [affinity_term(HOSTNAME, app="a")]},
            1,
            id="the strictest rule",
        ),
        pytest.param(
            {"spreads": [spread(HOSTNAME, app="a", skew=2)], "ports": [80]}, 1, id="a port is stricter"
        ),
        pytest.param({"spreads": [spread(HOSTNAME, app="a", anyway=True)]}, 0, id="a preference"),
    ],
)
def test_how_many_pods_may_share_a_new_node(asked: dict[str, Any], most: int) -> None:
    """As many pods may share a node as the strictest rule allows that no relaxation drops."""
    assert divided._most_per_node(scheduler_of(**asked).pod_data[0]) == most


@pytest.mark.parametrize(
    ("asked", "running", "key"),
    [
        pytest.param({}, (), None, id="no spread"),
        pytest.param({"spreads": [spread(ZONE, app="a")]}, (), ZONE, id="a spread over zones"),
        pytest.param({"spreads": [ELSEWHERE]}, (), None, id="a spread of other pods"),
        pytest.param({"spreads": [ELSEWHERE, spread(ZONE, app="a")]}, (), ZONE, id="the second of two"),
        pytest.param(
            {"spreads": [spread(ZONE, app="a")], "near": [affinity_term(ZONE, app="a")]},
            (),
            ZONE,
            id="beside affinity",
        ),
        pytest.param({"near": [affinity_term(ZONE, app="a")]}, (), None, id="affinity is no spread"),
        pytest.param({"spreads": [spread(ZONE, app="a", anyway=True)]}, (), None, id="a preference"),
        pytest.param(
            {"spreads": [spread(ZONE, app="a")], "prefers": Preferences(nodes=((1, [only(ARCH, "arm64")]),))},
            (),
            ZONE,
            id="beside a preference that is dropped",
        ),
        pytest.param({"spreads": [spread(ZONE, app="a")]}, (1, 0, 0), ZONE, id="running pods within maxSkew"),
        pytest.param({"spreads": [spread(ZONE, app="a")]}, (3, 2, 2), ZONE, id="many running pods"),
        pytest.param({"spreads": [spread(ZONE, app="a")]}, (2, 0, 0), None, id="running pods beyond maxSkew"),
        pytest.param({"spreads": [spread(ZONE, app="a", skew=2)]}, (2, 0, 0), ZONE, id="a wider maxSkew"),
        pytest.param(
            {"spreads": [spread(ZONE, app="a", min_domains=4)]},
            (2, 2, 2),
            None,
            id="fewer domains than minDomains count as empty",
        ),
        pytest.param(
            {"spreads": [spread(ZONE, app="a", min_domains=3)]}, (2, 2, 2), ZONE, id="as many as minDomains"
        ),
        pytest.param(
            {"spreads": [spread(ZONE, app="a", min_domains=4)]}, (1, 1, 1), ZONE, id="beside an empty domain"
        ),
    ],
)
def test_a_spread_of_its_own(asked: dict[str, Any], running: tuple[int, ...], key: str | None) -> None:
    """A class is divided by a spread that no relaxation drops and that running pods do not exceed."""
    scheduler = scheduler_of(running=running, **asked)
    data = scheduler.pod_data[0]
    counting = Counter(scheduler.counting(data[0]))

    found = divided._own_spread(data, counting)

    assert (None if found is None else found.key) == key


def test_a_spread_that_counts_other_classes_divides_nothing() -> None:
    """Where another class counts in a spread, its own pods say nothing about the skew."""
    scheduler = scheduler_of(spreads=[spread(ZONE, app="a")])
    data = scheduler.pod_data[0]
    (group,) = scheduler.counting(data[0])

    assert divided._own_spread(data, Counter({group: 2})) is None


def test_the_second_spread_divides_where_the_first_counts_other_classes() -> None:
    """Of two spreads over zones the one that counts the class alone is found, in whichever place it is."""
    scheduler = scheduler_of(spreads=[spread(ZONE, app="a"), spread(ZONE, app="a", skew=2)])
    data = scheduler.pod_data[0]
    first, second = (demand.group for demand in data[0].demands.domains)

    assert divided._own_spread(data, Counter({first: 2, second: 1})) is second
    assert divided._own_spread(data, Counter({first: 1, second: 2})) is first


def test_pods_are_counted_in_the_zones_of_new_nodes() -> None:
    """Three pods that spread are in three zones, beside an existing node that is full."""
    full = node("full", zone=ZONES[0], free={"cpu": "0"})
    spread_out = replicas(pod("a", cpu="1", app="a", spreads=[spread(ZONE, app="a")]), 3)

    scheduler = placed(problem(spread_out, pools=[pool("p", MACHINE)], nodes=[full]))

    assert divided._reached(scheduler, {0: ZONE}) == {(0, zone): 1 for zone in ZONES}
    assert divided._reached(scheduler, {}) == {}


def test_a_class_is_one_item_in_each_zone() -> None:
    """Five pods over three zones: a zone has two at most, and a third of all as long as nothing is known."""
    scheduler = scheduler_of(5, spreads=[spread(ZONE, app="a", min_domains=3)])

    found = divided_demand(scheduler, {0: 5})

    assert found.sizes == [2, 2, 2]
    assert found.shares == pytest.approx([5 / 3] * 3)
    assert found.where == [((0,), ZONE, zone) for zone in ZONES]
    assert found.splits == (DomainSplit(5, (0, 1, 2), (0, 0, 0), 1, from_zero=False),)
    assert [item.bits[0].bit_count() for item in found.items] == [1, 1, 1]


def test_too_few_zones_count_from_zero() -> None:
    """Below minDomains the emptiest domain counts as empty, so a domain has maxSkew pods at most."""
    scheduler = scheduler_of(5, spreads=[spread(ZONE, app="a", skew=2, min_domains=4)])

    found = divided_demand(scheduler, {0: 5})

    assert found.sizes == [2, 2, 2]
    assert found.splits == (DomainSplit(5, (0, 1, 2), (0, 0, 0), 2, from_zero=True),)


def test_equal_classes_are_one_item_unless_they_keep_apart() -> None:
    """How many may share a node is counted class by class."""
    apart = {"apart": [affinity_term(HOSTNAME, app="a")]}
    given = problem(
        replicas(pod("x", cpu="1", namespace="one"), 2),
        replicas(pod("y", cpu="1", namespace="two", pod_labels={"b": "c"}), 3),
        replicas(pod("u", cpu="1", namespace="one", app="a", **apart), 4),  # type: ignore[arg-type]
        replicas(pod("v", cpu="1", namespace="two", app="a", **apart), 5),  # type: ignore[arg-type]
        pools=[pool("p", MACHINE)],
    )
    scheduler = Scheduler(EncodedProblem(given))
    counts = {each.number: len(each.pods) for each in scheduler.encoded.classes}

    found = divided_demand(scheduler, counts)

    plain = sum(count for item, count in zip(found.items, found.sizes, strict=True) if not item.cap)
    assert sorted(zip([item.cap for item in found.items], found.sizes, strict=True)) == [
        (0, 5),
        (1, 4),
        (1, 5),
    ]
    assert plain == 5
    assert sorted(len(classes) for classes, _, _ in found.where) == [1, 1, len(counts) - 2]


def test_the_shares_of_a_schedule() -> None:
    """Where a schedule has divided a class, its division is what the values are worked out for."""
    first, _ = search(
        problem(
            replicas(pod("a", cpu="1", app="a", spreads=[spread(ZONE, app="a")]), 4),
            pools=[pool("p", MACHINE)],
        )
    )
    found = divided_demand(Scheduler(first.encoded), {0: 4}, first)

    assert sum(found.shares) == pytest.approx(4)
    assert sorted(found.shares) == pytest.approx([1, 1, 2])


@pytest.mark.parametrize(
    ("asked", "has_bound"),
    [
        pytest.param({}, False, id="pods without rules"),
        pytest.param({"apart": [affinity_term(HOSTNAME, app="a")]}, True, id="pods that keep apart"),
        pytest.param({"spreads": [spread(ZONE, app="a")]}, True, id="pods that are spread"),
    ],
)
def test_rules_that_have_a_bound_of_their_own(asked: dict[str, Any], *, has_bound: bool) -> None:
    """Only pods that keep apart or are divided have such a bound."""
    given = problem(replicas(pod("a", cpu="1", app="a", **asked), 4), pools=[pool("p", MACHINE)])

    found = divided_bound(*search(given))

    assert (found is not None) is has_bound
    if found is not None:
        assert found[0] == pytest.approx({"apart": 4.0, "spreads": 4 / 8 * 1.75}[next(iter(asked))], rel=0.2)


@pytest.mark.parametrize(
    ("share", "cap", "needing"),
    [
        pytest.param(4.0, 1, [0], id="more machines than are bought"),
        pytest.param(4.0, 4, [], id="as many machines"),
        pytest.param(4.0, 0, [], id="pods that may share"),
        pytest.param(2.0, 1, [0], id="one machine more"),
        pytest.param(1.0, 1, [], id="one pod"),
    ],
)
def test_items_that_need_more_machines(share: float, cap: int, needing: list[int]) -> None:
    """Pods that keep apart count where they need more machines than divisible pods buy."""
    item = Item((1, 1), (1,), cap)
    ours = market([(4, (1, 1))], [(1.0, (4, 4))])
    values = DualValues(np.array([[0.125, 0.125]]), np.array([0.25]), 1.0, "", np.array([[1.0]]))
    found = proof_bound._needing_more([item], [share], Proof((item,), ours, values))

    assert found.tolist() == needing


def test_what_divided_pods_are_worth() -> None:
    """Pods of a split are worth what the cheapest division costs, others what there are of them."""
    split = DomainSplit(3, (1, 2), (0, 0), 1, from_zero=False)

    # One pod of the first item, and of the split two where it is cheap.
    assert worth_of_pods((2, 2, 2), (split,), np.array([5.0, 1.0, 10.0])) == 2 * 5 + 2 * 1 + 10


def test_without_a_flow_nothing_needs_more_machines() -> None:
    """Where it is not known which machines divisible pods buy, no item lacks any."""
    item = Item((1, 1), (1,), 1)
    ours = market([(4, (1, 1))], [(1.0, (4, 4))])
    values = DualValues(np.array([[0.125, 0.125]]), np.array([0.25]), 1.0, "")

    assert proof_bound._needing_more([item], [4.0], Proof((item,), ours, values)).tolist() == []
