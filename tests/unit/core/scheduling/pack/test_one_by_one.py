"""Placing pod by pod, where chances come and go with counts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from karpenter.api.labels import ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ON_DEMAND, ZONE
from karpenter.core.scheduling.decode import DecodedPlan
from karpenter.core.scheduling.pack.one_by_one import ClaimSearch, OneByOne
from karpenter.core.scheduling.pack.scheduler import Scheduler, SearchLimit
from karpenter.core.scheduling.problem import Options, Problem
from karpenter.core.scheduling.solve import solve
from karpenter_local.testing.builders import (
    Preferences,
    affinity_term,
    instance_type,
    node,
    offering,
    offerings,
    only,
    pod,
    pool,
    problem,
    replicas,
    spread,
)
from karpenter_local.testing.validator import problems_of
from tests.unit.core.scheduling.pack import schedulers
from tests.unit.core.scheduling.pack.schedulers import bins

if TYPE_CHECKING:
    from karpenter.api.pod import Pod, TopologySpreadConstraint

RACK = "example.com/rack"
GREEDY = Options(packing="greedy")
T2, T8 = instance_type("t2", cpu=2, memory=4), instance_type("t8", cpu=8, memory=16)
POOL = pool("p", T2, T8)


def even(count: int, *, key: str = ZONE, cpu: str = "500m", skew: int = 1, **how: int) -> tuple[Pod, ...]:
    """Return so many pods that are spread over the values of a label."""
    spreads = [spread(key, app="web", skew=skew, min_domains=how.get("min_domains"))]
    return replicas(pod("w", app="web", cpu=cpu, spreads=spreads), count)


def per_domain(scheduler: Scheduler, key: str = ZONE) -> dict[str, int]:
    """Return how many pods there are per value of a label, on nodes and on claims."""
    found: Counter[str] = Counter()
    for placement in scheduler.placements:
        if placement.bin < scheduler.nodes.count:
            found[scheduler.problem.nodes[placement.bin].labels[key]] += placement.pod_count
        else:
            (domain,) = scheduler.claims.states[placement.bin - scheduler.nodes.count].domains(key) or {
                "open"
            }
            found[domain] += placement.pod_count
    return dict(found)


# Spread.


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(problem(even(7), pools=[POOL]), [2, 2, 3], id="zones are level"),
        pytest.param(
            problem(
                even(5),
                pools=[POOL],
                nodes=[node("n", pod("v", app="web"), zone="zone-1", free={"cpu": "0"})],
            ),
            [1, 2, 2],
            id="pods that run already count",
        ),
        pytest.param(
            problem(even(4), pools=[pool("p", T2, T8, requires=[only(ZONE, "zone-1", "zone-2")])]),
            [2, 2],
            id="only zones of the pool count",
        ),
        pytest.param(
            problem(
                replicas(pod("w", app="web", on={ZONE: "zone-1"}, spreads=[spread(ZONE, app="web")]), 4),
                pools=[POOL],
            ),
            [4],
            id="a zone that the pod chooses is the only one",
        ),
        pytest.param(
            problem(even(3, min_domains=4), pools=[POOL]), [1, 1, 1], id="too few domains take one each"
        ),
        pytest.param(problem(even(5, min_domains=4), pools=[POOL]), [1, 1, 1], id="and no more"),
        pytest.param(problem(even(5, min_domains=3), pools=[POOL]), [1, 2, 2], id="enough domains do"),
    ],
)
def test_zone_spread(given: Problem, expected: list[int]) -> None:
    """Pods are spread over zones as evenly as their skew demands."""
    assert sorted(per_domain(schedulers.placed(given)).values()) == expected


def test_existing_nodes_are_used_as_far_as_the_spread_allows() -> None:
    """A node takes its zone's share; the other zones get machines of their own."""
    scheduler = schedulers.placed(problem(even(6), pools=[POOL], nodes=[node("n", zone="zone-1")]))

    assert DecodedPlan(scheduler).placed == {"n": ("default/w-000", "default/w-003")}
    assert per_domain(scheduler) == {"zone-1": 2, "zone-2": 2, "zone-3": 2}


def test_nodes_that_are_full_are_forgotten() -> None:
    """A node without room for another pod is not asked again; one that counts forbid is."""
    there = [
        node("n1", zone="zone-1", free={"cpu": "600m"}),
        node("n2", zone="zone-1"),
        node("n3", zone="zone-2"),
    ]

    scheduler = schedulers.placed(problem(even(4), nodes=there))

    assert {name: len(pods) for name, pods in DecodedPlan(scheduler).placed.items()} == {
        "n1": 1,
        "n2": 1,
        "n3": 2,
    }


def test_several_spreads_hold_at_once() -> None:
    """Pods can be spread over zones and ways to buy at the same time."""
    both = pod("w", app="web", spreads=[spread(ZONE, app="web"), spread(CAPACITY_TYPE, app="web")])
    given = problem(replicas(both, 6), pools=[POOL], options=GREEDY)

    scheduler = schedulers.placed(given)

    assert sorted(per_domain(scheduler).values()) == [2, 2, 2]
    assert sorted(per_domain(scheduler, CAPACITY_TYPE).values()) == [3, 3]
    assert problems_of(given, solve(given)) == []


def test_custom_labels_are_domains() -> None:
    """Pods can be spread over any label whose values the pool names."""
    racks = pool("p", T8, requires=[only(RACK, "a", "b", "c")])

    scheduler = schedulers.placed(problem(even(6, key=RACK), pools=[racks]))

    assert per_domain(scheduler, RACK) == {"a": 2, "b": 2, "c": 2}
    assert sorted(new.labels[RACK] for new in DecodedPlan(scheduler).new_nodes) == ["a", "b", "c"]


def test_spread_over_nodes_opens_nodes() -> None:
    """Pods that may only share a node two by two get as many nodes as that takes."""
    near = [affinity_term(ZONE, app="web")]
    pairs = pod("w", app="web", near=near, spreads=[spread(HOSTNAME, app="web", skew=2)])

    scheduler = schedulers.placed(problem(replicas(pairs, 5), pools=[POOL]))

    assert [len(each) for each in bins(scheduler)] == [2, 2, 1]
    assert len(per_domain(scheduler)) == 1


# Affinity.


def test_the_first_of_its_kind_settles_for_a_zone_and_others_follow() -> None:
    """Pods with affinity to each other start in the cheapest zone and stay there."""
    sold = [
        offering(zone, ON_DEMAND, price)
        for zone, price in (("zone-1", 0.3), ("zone-2", 0.2), ("zone-3", 0.4))
    ]
    kind = instance_type("t", cpu=2, sold=sold)
    together = replicas(pod("w", app="web", cpu="1", near=[affinity_term(ZONE, app="web")]), 5)

    assert per_domain(schedulers.placed(problem(together, pools=[pool("p", kind)]))) == {"zone-2": 5}


def test_bound_pods_attract_pods_with_affinity() -> None:
    """Pods go to the zone that has matching pods, whatever it costs."""
    there = node("n", pod("d", app="db"), zone="zone-3", free={"cpu": "0"})

    scheduler = schedulers.placed(
        problem(replicas(pod("w", near=[affinity_term(ZONE, app="db")]), 3), pools=[POOL], nodes=[there])
    )

    assert per_domain(scheduler) == {"zone-3": 3}


def test_pods_that_must_share_a_node_do_until_it_is_full() -> None:
    """What does not fit on the node of the first is refused: no second node may be started."""
    given = problem(
        replicas(pod("w", app="web", cpu="3", memory="1Gi", near=[affinity_term(HOSTNAME, app="web")]), 3),
        pools=[POOL],
    )

    scheduler = schedulers.placed(given)

    assert bins(scheduler) == [["w-000", "w-001"]]


def test_a_node_with_matching_pods_is_shared() -> None:
    """A pod that must share a node with others goes to theirs."""
    there = [node("n1"), node("n2", pod("d", app="db"))]

    scheduler = schedulers.placed(
        problem(pod("w", near=[affinity_term(HOSTNAME, app="db")]), pools=[POOL], nodes=there)
    )

    assert DecodedPlan(scheduler).placed == {"n2": ("default/w",)}


def test_claims_without_matching_pods_are_asked_again() -> None:
    """A claim without matching pods now may have some later, so it is only passed over."""
    given = problem(
        pod("a", cpu="6"),
        pod("b", cpu="5", app="db"),
        replicas(pod("w", cpu="500m", near=[affinity_term(HOSTNAME, app="db")]), 3),
        pools=[POOL],
    )

    assert bins(schedulers.placed(given)) == [["a"], ["b", "w-000", "w-001", "w-002"]]


# Anti-affinity.


def test_pods_that_avoid_their_own_kind_by_zone_take_a_zone_each() -> None:
    """A claim whose zone is open blocks every zone it could get, so the next pod waits for another run."""
    apart = replicas(pod("w", app="web", apart=[affinity_term(ZONE, app="web")]), 2)

    scheduler = schedulers.placed(problem(apart, pools=[POOL]))

    assert bins(scheduler) == [["w-000"]]


def test_a_settled_zone_blocks_only_itself() -> None:
    """Pods that name their zones can avoid each other by zone in one run."""
    pods = [
        pod(f"w{zone}", app="web", on={ZONE: zone}, apart=[affinity_term(ZONE, app="web")])
        for zone in ("zone-1", "zone-2")
    ]

    assert len(bins(schedulers.placed(problem(pods, pools=[POOL])))) == 2


def test_others_are_kept_off_by_pods_placed_before() -> None:
    """A pod that avoids others keeps them out of its zone although they do not mind."""
    keeper = pod("k", cpu="2", on={ZONE: "zone-1"}, apart=[affinity_term(ZONE, app="web")])

    scheduler = schedulers.placed(problem(keeper, pod("w", app="web"), pools=[POOL]))

    assert scheduler.claims.states[1].domains(ZONE) == frozenset({"zone-2", "zone-3"})


# Claims that settle later.


def test_pods_on_an_open_claim_count_once_its_zone_is_settled() -> None:
    """A claim whose zone is open counts nowhere; when a pod settles it, all its pods count there."""
    given = problem(
        pod("a", cpu="2", app="web"),
        pod("b", cpu="1", on={ZONE: "zone-2"}),
        replicas(pod("w", app="web", cpu="100m", spreads=[spread(ZONE, app="web")]), 2),
        pools=[POOL],
    )

    scheduler = schedulers.placed(given)
    group = schedulers.pod_data_of(scheduler, "w-000").demands.domains[0].group

    assert bins(scheduler)[0][:2] == ["a", "b"]
    assert group.counts == {"zone-1": 1, "zone-2": 1, "zone-3": 1}


def test_open_claims_stay_uncounted() -> None:
    """A pod whose claim never settles counts in no zone."""
    given = problem(
        pod("a", cpu="8", app="web"),
        replicas(pod("w", cpu="100m", near=[affinity_term(ZONE, app="web")]), 1),
        pools=[pool("p", T8)],
    )
    scheduler = schedulers.placed(given)

    assert schedulers.pod_data_of(scheduler, "w-000").demands.domains[0].group.counts == {
        "zone-1": 0,
        "zone-2": 0,
        "zone-3": 0,
    }
    assert bins(scheduler) == [["a"]]


def test_a_claim_that_narrows_without_settling_waits_on() -> None:
    """Narrowing to two zones settles nothing; narrowing to one does, and its pods count there."""
    given = problem(
        pod("a", cpu="2", app="web"),
        pod("b", cpu="1", terms=[[only(ZONE, "zone-1", "zone-2")]]),
        pod("c", cpu="500m", app="x", spreads=[spread(ZONE, app="web")]),
        pools=[POOL],
    )
    scheduler = schedulers.placed(given)

    group = schedulers.pod_data_of(scheduler, "c").demands.domains[0].group
    (zone,) = scheduler.claims.states[0].domains(ZONE) or {"open"}
    assert bins(scheduler) == [["a", "b", "c"]]
    assert {name: count for name, count in group.counts.items() if count} == {zone: 1}


# Several relaxations.


def test_what_another_relaxation_changed_is_noticed() -> None:
    """A claim that took a pod under one relaxation is seen as it is now under every other."""
    sold = [
        offering("zone-1", ON_DEMAND, 0.11),
        offering("zone-2", ON_DEMAND, 0.111),
        offering("zone-3", ON_DEMAND, 0.11),
    ]
    kind = instance_type("t", cpu=2, memory=2, sold=sold, overhead={"cpu": 100})
    fond = Preferences(nodes=((1, [only(ZONE, "zone-2")]),), near=((1, affinity_term(ZONE, app="a")),))
    given = problem(
        replicas(pod("x", app="a", cpu="600m"), 3),
        pod("y", app="a", cpu="200m"),
        pod("z", app="a", cpu="150m"),
        replicas(pod("p", app="b", cpu="100m", prefers=fond), 2),
        pools=[pool("p", kind)],
        options=GREEDY,
    )

    plan = solve(given)

    assert problems_of(given, plan) == []
    assert sorted(len(new.pods) for new in plan.new_nodes) == [3, 4]


def test_a_node_without_matching_pods_is_asked_again() -> None:
    """
    A node that a preferred affinity refuses takes pods under it once another relaxation put one there.

    One pod runs in zone-1, so the spread sends the first to zone-2, where none is to share a node with. The
    second may go to either zone, and shares the node with the first.
    """
    there = [
        node("full", pod("v", app="web"), zone="zone-1", free={"cpu": "0"}),
        node("n1", zone="zone-1"),
        node("n2", zone="zone-2"),
    ]
    fond = Preferences(near=((1, affinity_term(HOSTNAME, app="web")),))
    pods = replicas(pod("w", app="web", prefers=fond, spreads=[spread(ZONE, app="web")]), 2)

    scheduler = schedulers.placed(problem(pods, nodes=there))

    assert DecodedPlan(scheduler).placed == {"n2": ("default/w-000", "default/w-001")}


def test_a_claim_that_is_too_full_for_one_alternative_is_there_for_the_next_pod() -> None:
    """
    A claim that holds 5 cores can become t8, but not t2, which only the second alternative asks for.

    The spread over capacity types sends every other pod to spot, which only t2 is sold as. The claim that
    refuses the fourth pod, because it would have to become t2, takes the fifth, and becomes t8.
    """
    t8 = instance_type("t8", cpu=8, memory=16, sold=[offering("zone-1", ON_DEMAND, 0.8)])
    either = [[only(INSTANCE_TYPE, "t8")], [only(INSTANCE_TYPE, "t2")]]
    pods = replicas(pod("w", app="web", cpu="1", terms=either, spreads=[spread(CAPACITY_TYPE, app="web")]), 5)

    scheduler = schedulers.placed(problem(replicas(pod("a", cpu="5"), 3), pods, pools=[pool("p", T2, t8)]))

    assert bins(scheduler) == [
        ["a-000", "w-000"],
        ["a-001", "w-002"],
        ["a-002", "w-004"],
        ["w-001", "w-003"],
    ]


def test_claims_are_found_in_their_new_state_by_other_relaxations() -> None:
    """A claim that another relaxation narrowed takes pods in its new state, or is closed for good."""
    fond = Preferences(nodes=((5, [only(ARCH, "arm64")]), (1, [only(INSTANCE_TYPE, "t8")])))
    pods = replicas(pod("w", app="web", cpu="1", prefers=fond, spreads=[spread(ZONE, app="web")]), 30)

    given = problem(pods, pools=[pool("p", T2, T8)], options=GREEDY)

    assert problems_of(given, solve(given)) == []
    assert len(bins(schedulers.placed(given))) == 6


def test_a_pod_that_only_lacks_a_reservation_waits() -> None:
    """Waiting for a reservation gives up neither preferences nor pools."""
    sold = [*offerings(0.2), offering("zone-1", "reserved", 0.001, reservation="r", left=0)]
    given = problem(
        pod(
            "w",
            app="web",
            near=[affinity_term(ZONE, app="web")],
            prefers=Preferences(nodes=((1, [only(ZONE, "zone-1")]),)),
        ),
        pools=[pool("p", instance_type("t", sold=sold)), pool("q", T8)],
        options=GREEDY,
    )
    scheduler = schedulers.fresh(given)

    left = OneByOne(scheduler, scheduler.pod_data[0]).place(1)

    assert (left, scheduler.must_wait, scheduler.claims.count) == (1, True, 0)


def test_nothing_helps_a_pod_that_no_relaxation_can_place() -> None:
    """When every relaxation fails, pods are left over."""
    given = problem(even(2, cpu="64"), pools=[POOL])
    scheduler = schedulers.fresh(given)

    assert OneByOne(scheduler, scheduler.pod_data[0]).place(2) == 2


def test_the_first_of_equally_empty_claims_is_taken_whatever_became_of_it() -> None:
    """A claim that was narrowed later than others still comes before them, since it was opened before."""
    given = problem(
        pod("a", cpu="7500m", app="a"),
        pod("b", cpu="5", app="a", on={ZONE: "zone-1"}),
        pod("x", cpu="1"),
        replicas(pod("w", cpu="10m", near=[affinity_term(HOSTNAME, app="a")], on={ZONE: "zone-1"}), 3),
        pools=[pool("p", T8)],
    )

    assert bins(schedulers.placed(given)) == [["a", "w-000", "w-001"], ["b", "x", "w-002"]]


def test_a_claim_that_was_passed_over_is_taken_once_its_preference_is_relaxed() -> None:
    """A claim that the spread cannot use now is left; the relaxation without the spread takes it."""
    small = instance_type(
        "small", cpu=4, sold=[offering("zone-1", ON_DEMAND, 0.1), offering("zone-2", ON_DEMAND, 0.1)]
    )
    big = instance_type("big", cpu=8, sold=[offering("zone-2", ON_DEMAND, 0.2)])
    level = [spread(ZONE, app="web", anyway=True)]
    given = problem(
        pod("a", cpu="3"),
        replicas(pod("w", app="web", cpu="2", spreads=level), 2),
        pools=[pool("p", small, big, limits={"nodes": "1"})],
        nodes=[node("n", pod("v", app="web"), zone="zone-2", free={"cpu": "0"})],
    )

    assert bins(schedulers.placed(given)) == [["a", "w-000", "w-001"]]


def test_a_claim_that_counts_forbid_now_is_taken_once_they_allow_it() -> None:
    """
    Beside 3 cores a claim has room for 1.2 more only as big, which is sold in zone-2 alone.

    A pod runs in zone-2, so the first goes to zone-1, where the claim would have to become small. The second
    may go to zone-2, and takes it. That an existing node has a pod already closes only that node.
    """
    small = instance_type(
        "small", cpu=4, sold=[offering(zone, ON_DEMAND, 0.1) for zone in ("zone-1", "zone-2")]
    )
    big = instance_type("big", cpu=8, sold=[offering("zone-2", ON_DEMAND, 0.2)])
    apart = [affinity_term(HOSTNAME, app="a")]
    level = [spread(ZONE, app="web"), spread(HOSTNAME, app="web")]
    given = problem(
        pod("c", cpu="8"),
        pod("a", app="a", cpu="3"),
        replicas(pod("b", cpu="1300m", on={ZONE: "zone-1"}, apart=apart), 2),
        replicas(pod("w", app="web", cpu="1200m", spreads=level), 2),
        pools=[pool("p", small, big)],
        nodes=[node("n", pod("v", app="web"), zone="zone-2", free={"cpu": "0"})],
    )

    assert bins(schedulers.placed(given)) == [["c"], ["a", "w-001"], ["b-000", "b-001", "w-000"]]


# Searching claims.


@pytest.mark.parametrize(
    ("refusals", "found", "gave_up", "after"),
    [
        pytest.param(0, None, True, 0, id="none may refuse"),
        pytest.param(2, None, True, 1, id="two of the three that refuse may"),
        pytest.param(3, 3, False, 4, id="three may"),
        pytest.param(9, 3, False, 10, id="many may"),
    ],
)
def test_how_many_claims_may_refuse_a_pod(
    refusals: int, found: int | None, gave_up: bool, after: int
) -> None:
    """
    Three claims are full and the fourth is not: a search that may be refused three times finds it.

    One that is given up halves the refusals of the next; one that finds a claim after some allows one more.
    """
    given = problem(
        replicas(pod("b", cpu="7"), 3), replicas(pod("o", cpu="6"), 1), pod("x", cpu="2"), pools=[POOL]
    )
    scheduler = schedulers.fresh(given)
    for name in ("b-000", "o-000"):
        big = schedulers.pod_data_of(scheduler, name)
        OneByOne(scheduler, [big]).place(len(big.pod_class.pods))
    scheduler.search_limit.refusals = refusals
    search = ClaimSearch(scheduler, schedulers.pod_data_of(scheduler, "x"), final=True)
    assert search.gave_up is (refusals == 0)
    took = None if search.gave_up else search.find()

    assert (took and took[0], search.gave_up) == (found, gave_up)
    assert scheduler.search_limit.refusals == after


def crowd(*small: Pod) -> Problem:
    """Return a problem with more full claims than are asked one after the other, and some small pods."""
    apart = [affinity_term(HOSTNAME, app="big")]
    full = replicas(pod("b", app="big", cpu="7900m", apart=apart), 40)
    open_ = replicas(pod("o", app="big", cpu="7", apart=apart), 3)
    return problem(full, open_, *small, pools=[pool("p", T8)], options=GREEDY)


@pytest.mark.parametrize(
    ("spreads", "claims"),
    [
        pytest.param([spread(ZONE, app="web")], 43, id="zone spread"),
        pytest.param([spread(HOSTNAME, app="web")], 46, id="host spread"),
        pytest.param([], 43, id="no constraint"),
    ],
)
def test_a_search_that_many_claims_refuse_finds_what_arrays_find(
    spreads: list[TopologySpreadConstraint], claims: int
) -> None:
    """After many full claims the search is given up, and the claim with room is found all the same."""
    small = [
        pod(f"w{number}", app="web", cpu=f"{300 - number}m", memory="100Mi", spreads=spreads)
        for number in range(6)
    ]

    scheduler = schedulers.placed(crowd(*small))

    assert scheduler.claims.count == claims
    assert sum(len(each) for each in bins(scheduler)[40:]) == 9
    assert scheduler.search_limit.refusals < 16


def test_full_claims_are_not_asked_one_after_the_other_for_ever() -> None:
    """Each search that is given up halves the limit; after a while the search is tried again."""
    limit = SearchLimit()
    for _ in range(5):
        assert limit.begin()
        limit.learn(gave_up=True)

    tried = [limit.begin() for _ in range(33)]

    assert tried == [False] * 32 + [True]
    limit.learn(gave_up=False)
    assert limit.refusals == 5


def test_success_never_raises_the_patience_beyond_its_start() -> None:
    """A search that finds a claim restores what failures took, and no more."""
    limit, fresh = SearchLimit(), SearchLimit()

    limit.learn(gave_up=False)

    assert limit.refusals == fresh.refusals
