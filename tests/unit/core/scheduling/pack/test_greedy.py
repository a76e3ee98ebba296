"""First come, first served."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karpenter.api.labels import ARCH, HOSTNAME, INSTANCE_TYPE, PREFER_NO_SCHEDULE, ZONE
from karpenter.core.model.hostportusage import HostPort
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.decode import DecodedPlan
from karpenter.core.scheduling.pack import greedy
from karpenter.core.scheduling.pack.one_by_one import room_for_many
from karpenter.core.scheduling.problem import Options, PodVolumes, Problem
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
    taint,
)
from tests.unit.core.scheduling.pack import schedulers
from tests.unit.core.scheduling.pack.schedulers import bins

if TYPE_CHECKING:
    from karpenter.api.pod import Pod, TopologySpreadConstraint
    from karpenter.core.scheduling.pack.scheduler import Scheduler

T4 = instance_type("t4", cpu=4, memory=8)
T8 = instance_type("t8", cpu=8, memory=16)
POOL = pool("p", T4, T8)


def sizes(scheduler: Scheduler) -> list[int]:
    """Return how many pods each claim has."""
    return [len(each) for each in bins(scheduler)]


# Existing nodes.


def test_existing_nodes_come_first_in_order() -> None:
    """Pods fill the nodes that are there, one after the other, before anything is bought."""
    there = [node("n1", free={"cpu": "2"}), node("n2", free={"cpu": "1"})]

    scheduler = schedulers.placed(problem(replicas(pod("a", cpu="1"), 4), pools=[POOL], nodes=there))

    assert DecodedPlan(scheduler).placed == {
        "n1": ("default/a-000", "default/a-001"),
        "n2": ("default/a-002",),
    }
    assert bins(scheduler) == [["a-003"]]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            problem(replicas(pod("a", ports=[80]), 2), nodes=[node("n1"), node("n2")]),
            {"n1": 1, "n2": 1},
            id="one host port per node",
        ),
        pytest.param(
            problem(pod("a", ports=[80]), nodes=[node("n1", ports=(HostPort(80),)), node("n2")]),
            {"n2": 1},
            id="a port that is taken is not to be had",
        ),
        pytest.param(
            problem(
                replicas(pod("a", app="a", spreads=[spread(HOSTNAME, app="a", skew=2)]), 5),
                nodes=[node("n1"), node("n2", pod("z", app="a"))],
            ),
            {"n1": 2, "n2": 1},
            id="a spread over nodes caps each of them",
        ),
        pytest.param(
            problem(pod("a"), nodes=[node("n1", quiet=True), node("n2")]),
            {"n1": 1},
            id="a quiet node takes who waits",
        ),
        pytest.param(
            problem(pod("a"), nodes=[node("n1", quiet=True), node("n2")], moved=["default/a"]),
            {"n2": 1},
            id="but none that is only moved",
        ),
        pytest.param(
            problem(pod("a", on={ZONE: "x"}), nodes=[node("n1")]), {}, id="a node that does not suit"
        ),
        pytest.param(
            problem(pod("a"), nodes=[node("n1", free={"memory": "-1"}), node("n2")]),
            {"n2": 1},
            id="an overdrawn node takes nothing",
        ),
    ],
)
def test_nodes_take_what_they_may(given: Problem, expected: dict[str, int]) -> None:
    """A node takes as many pods as room, ports and topology allow."""
    assert {
        name: len(pods) for name, pods in DecodedPlan(schedulers.placed(given)).placed.items()
    } == expected


def test_volumes_are_attached_up_to_the_limit_of_a_node() -> None:
    """A node attaches so many different volumes of a driver; volumes that it has already need no more."""
    volumes = {
        f"default/{name}": PodVolumes(
            claims={"csi": frozenset({f"default/{claim}"}), "other": frozenset({"x"})}
        )
        for name, claim in (("a", "one"), ("b", "one"), ("c", "two"), ("d", "three"))
    }
    there = [node("n1", volumes={"csi": frozenset({"default/one"})}, volume_limits={"csi": 2}), node("n2")]

    scheduler = schedulers.placed(problem(*(pod(name) for name in "abcd"), nodes=there, volumes=volumes))

    assert DecodedPlan(scheduler).placed == {
        "n1": ("default/a", "default/b", "default/c"),
        "n2": ("default/d",),
    }


# Claims.


def test_the_claim_with_the_fewest_pods_comes_first() -> None:
    """Small pods go where the fewest pods are, the first of equals."""
    given = problem(
        replicas(pod("big", cpu="5"), 3), replicas(pod("small", cpu="1"), 4), pools=[pool("p", T8)]
    )

    scheduler = schedulers.placed(given)

    assert bins(scheduler) == [
        ["big-000", "small-000", "small-003"],
        ["big-001", "small-001"],
        ["big-002", "small-002"],
    ]


@pytest.mark.parametrize(
    "count", [pytest.param(5, id="one by one"), pytest.param(greedy._FEW + 11, id="all at once")]
)
def test_levelling_many_pods_is_placing_them_one_by_one(count: int) -> None:
    """However many equal pods there are, each claim gets what it would get one pod at a time."""
    kinds = [instance_type("t32", cpu=32, memory=64), instance_type("a32", cpu=32, memory=64, arch="arm64")]
    fixed = [
        pod("x", cpu="30", on={ARCH: "amd64"}),
        pod("y", cpu="29", memory="20Gi", on={ARCH: "arm64"}),
        pod("z", cpu="28", on={ARCH: "arm64"}),
        pod("w", cpu="27", terms=[[only(INSTANCE_TYPE, "t32")]]),
    ]
    small = pod("s", cpu="100m", on={ARCH: "arm64"})
    given = problem(
        *fixed, replicas(small, count), pools=[pool("p", *kinds)], options=Options(packing="greedy")
    )
    scheduler, slow = schedulers.fresh(given), schedulers.fresh(given)
    everyone = {each.number: len(each.pods) for each in scheduler.encoded.classes}

    greedy.pack(scheduler, everyone)
    for each in slow.encoded.classes:
        for _ in range(len(each.pods)):
            greedy.place_class(slow, each, 1)

    assert sizes(scheduler) == sizes(slow)


def test_a_full_claim_is_passed_over_when_many_are_placed() -> None:
    """A claim whose types have no room for one more gets none, and what is left opens new claims."""
    given = problem(
        replicas(pod("big", cpu="7800m"), 2),
        pod("mid", cpu="4"),
        replicas(pod("small", cpu="500m"), 20),
        pools=[pool("p", T8)],
    )

    assert sizes(schedulers.placed(given)) == [1, 1, 9, 12]


def test_claims_that_do_not_suit_are_passed_over_when_many_are_placed() -> None:
    """A claim that must not become what the pods need gets none of them."""
    arm = instance_type("arm", cpu=8, memory=16, arch="arm64")
    given = problem(
        pod("big", cpu="6", on={ARCH: "amd64"}),
        replicas(pod("small", cpu="100m", on={ARCH: "arm64"}), 20),
        pools=[pool("p", T8, arm)],
    )

    assert sizes(schedulers.placed(given)) == [1, 20]


def test_anti_affinity_takes_a_claim_each() -> None:
    """Pods that avoid their own kind use every claim once, then open new ones."""
    given = problem(
        replicas(pod("big", cpu="6"), 2),
        replicas(pod("a", app="a", apart=[affinity_term(HOSTNAME, app="a")]), 3),
        pools=[pool("p", T8)],
    )

    assert bins(schedulers.placed(given)) == [["big-000", "a-000"], ["big-001", "a-001"], ["a-002"]]


def test_many_pods_that_are_spread_over_nodes_fill_claims_evenly() -> None:
    """Of many pods a claim takes as many as the skew leaves, and the others open claims of their own."""
    given = problem(
        replicas(pod("big", cpu="5", app="a"), 3),
        replicas(pod("a", app="a", cpu="100m", spreads=[spread(HOSTNAME, app="a", skew=4)]), 20),
        pools=[pool("p", T8)],
    )

    assert sizes(schedulers.placed(given)) == [4, 4, 4, 4, 4, 3]


def test_when_no_claim_may_take_a_pod_a_new_one_is_opened() -> None:
    """Claims that are all closed to a class are not looked at."""
    avoiding = [affinity_term(HOSTNAME, app="a")]
    given = problem(
        pod("a", app="a", cpu="2", apart=avoiding), pod("b", cpu="1", apart=avoiding), pools=[pool("p", T8)]
    )

    assert bins(schedulers.placed(given)) == [["a"], ["b"]]


def test_volumes_choose_the_zone_of_a_claim() -> None:
    """Pods with volumes go one by one, each to a claim that can reach its volume."""
    places = {
        f"default/{name}": PodVolumes(alternatives=(Requirements.only(ZONE, frozenset({zone})),))
        for name, zone in (("a", "zone-1"), ("b", "zone-2"), ("c", "zone-1"))
    }

    scheduler = schedulers.placed(problem(pod("a"), pod("b"), pod("c"), pools=[POOL], volumes=places))

    assert bins(scheduler) == [["a", "c"], ["b"]]


def test_host_ports_of_daemons_rule_types_out() -> None:
    """A pod that wants a port avoids the types whose daemons have it."""
    daemon = pod("d", ports=[80], on={INSTANCE_TYPE: "t4"})

    scheduler = schedulers.placed(problem(pod("a", ports=[80]), pod("b"), pools=[POOL], daemons=[daemon]))

    assert bins(scheduler) == [["a", "b"]]
    kinds = scheduler.claims.states[0].template.table.types_of(scheduler.claims.states[0].bits)
    assert [POOL.types[kind].name for kind in kinds] == ["t8"]


def test_ports_that_pods_hold_on_claims_are_taken() -> None:
    """Two pods that want the same port get a claim each; another port shares."""
    scheduler = schedulers.placed(
        problem(
            pod("a", cpu="3", ports=[80]),
            pod("b", cpu="2", ports=[80]),
            pod("c", ports=[81]),
            pools=[pool("p", T8)],
        )
    )

    assert bins(scheduler) == [["a", "c"], ["b"]]


# New claims.


def test_pools_are_tried_in_order() -> None:
    """The first pool that can serve a pod does, whatever another would cost."""
    cheap = pool("q", instance_type("cheap", price=0.001))

    scheduler = schedulers.placed(problem(pod("a"), pools=[pool("p", T4, taints=(taint("t"),)), POOL, cheap]))

    assert [state.template.number for state in scheduler.claims.states] == [1]


def test_new_claims_are_filled_as_far_as_they_go() -> None:
    """Each new claim takes as many pods as its largest type holds."""
    assert sizes(schedulers.placed(problem(replicas(pod("a", cpu="1"), 20), pools=[POOL]))) == [8, 8, 4]


def test_preferences_are_given_up_one_at_a_time() -> None:
    """A preference that cannot be met is dropped; one that can is kept."""
    fond = pod("a", prefers=Preferences(nodes=((9, [only(ZONE, "zone-9")]), (1, [only(ZONE, "zone-3")]))))

    scheduler = schedulers.placed(problem(fond, pools=[POOL]))

    assert scheduler.claims.states[0].domains(ZONE) == frozenset({"zone-3"})


def test_a_discouraging_taint_is_accepted_last() -> None:
    """A pool that would rather not have pods gets them when nothing else is left."""
    reluctant = pool("p", T4, taints=(taint("t", PREFER_NO_SCHEDULE),))

    willing = schedulers.placed(problem(pod("a"), pools=[reluctant, pool("q", T4)]))
    alone = schedulers.placed(problem(pod("a"), pools=[reluctant]))

    assert [state.template.number for state in willing.claims.states] == [1]
    assert bins(alone) == [["a"]]


# The queue.


def test_pods_wait_for_matching_pods_that_come_later() -> None:
    """A pod whose matching pods are placed after it is tried again."""
    given = problem(
        pod("a", cpu="2", near=[affinity_term(ZONE, app="db")]),
        pod("b", cpu="1", app="db", on={ZONE: "zone-2"}),
        pools=[POOL],
    )

    scheduler = schedulers.placed(given)

    assert bins(scheduler) == [["b", "a"]]


def test_trying_again_ends_when_nothing_moves() -> None:
    """Two pods that wait for each other wait for ever, and the search ends."""
    given = problem(
        pod("a", app="a", near=[affinity_term(ZONE, app="b")]),
        pod("b", app="b", near=[affinity_term(ZONE, app="a")]),
        pools=[POOL],
    )
    scheduler = schedulers.fresh(given)

    left = greedy.pack(scheduler, {0: 1, 1: 1})

    assert left == {0: 1, 1: 1}
    assert scheduler.is_complete


def test_a_search_can_be_stopped() -> None:
    """Between classes the search asks whether to go on; what was placed stays."""
    answers = iter([False, True])
    given = problem(pod("a", cpu="2"), pod("b"), pools=[POOL], options=Options(stop=lambda: next(answers)))
    scheduler = schedulers.fresh(given)

    left = greedy.pack(scheduler, {0: 1, 1: 1})

    assert list(left.values()) == [1]
    assert bins(scheduler) == [["a"]]
    assert not scheduler.is_complete


def picky(name: str, **asks: Any) -> Pod:
    """Return a pod with many preferences that nothing meets."""
    terms = tuple((1, [only(f"example.com/{name}-{each}", "x")]) for each in range(30))
    return pod(name, prefers=Preferences(nodes=terms), **asks)


def test_pods_with_many_preferences_are_placed_last() -> None:
    """What is easy is placed before what is costly, however small it is."""
    scheduler = schedulers.placed(problem(picky("a", cpu="3"), pod("b", cpu="1"), pools=[POOL]))

    assert [each.pod_data.pod_class.example.name for each in scheduler.placements] == ["b", "a"]


@pytest.mark.parametrize(
    "spreads",
    [
        pytest.param((), id="pods that are placed together"),
        pytest.param((spread(ZONE, app="web"),), id="pods that are placed one by one"),
    ],
)
def test_a_search_can_be_stopped_between_relaxations(spreads: tuple[TopologySpreadConstraint, ...]) -> None:
    """A pod that is still giving up preferences when the time is up is left, and so is all after it."""
    asked = count()
    given = problem(
        pod("easy"),
        picky("hard", spreads=spreads),
        pools=[POOL],
        options=Options(stop=lambda: next(asked) > 8),
    )
    scheduler = schedulers.fresh(given)

    left = greedy.pack(scheduler, {0: 1, 1: 1})

    assert (bins(scheduler), list(left.values())) == ([["easy"]], [1])
    assert not scheduler.is_complete
    assert next(asked) < 12


def test_only_what_waits_is_placed() -> None:
    """Pods that are not said to wait are not touched."""
    scheduler = schedulers.fresh(problem(replicas(pod("a"), 3), pod("b", cpu="2"), pools=[POOL]))
    number = next(each.number for each in scheduler.encoded.classes if len(each.pods) == 3)

    assert greedy.pack(scheduler, {number: 2}) == {}
    assert bins(scheduler) == [["a-000", "a-001"]]


def test_room_is_counted_for_many_claims_at_once() -> None:
    """The room of many claims in one state is what each would have alone."""
    scheduler = schedulers.placed(
        problem(
            replicas(pod("a", cpu="3", apart=[affinity_term(HOSTNAME, app="a")], app="a"), 4), pools=[POOL]
        )
    )
    state = scheduler.claims.states[0]
    scheduler.claims.used[:, 3] = 10**15  # one that holds more than any type has
    want = np.array(scheduler.encoded.classes[0].vector)

    found = room_for_many(scheduler, state, np.arange(4), want)

    assert found.tolist() == [1, 1, 1, 0]


def test_each_pod_goes_to_the_claim_with_the_fewest() -> None:
    """Claims hold two and three pods: the next goes to the one, and of equals the first has the one after."""
    given = problem(
        pod("a", cpu="7"),
        pod("b", cpu="5"),
        pod("c", cpu="1"),
        *replicas(pod("d", cpu="600m"), 2),
        *replicas(pod("e", cpu="0"), 2),
        pools=[pool("p", T8)],
        options=Options(packing="greedy"),
    )

    assert bins(schedulers.placed(given)) == [["a", "c", "e-000", "e-001"], ["b", "d-000", "d-001"]]


def test_equal_pods_are_placed_together() -> None:
    """A hundred pods of which sixteen fit on a node are seven placements, one for each node."""
    scheduler = schedulers.placed(problem(replicas(pod("w", cpu="500m"), 100), pools=[pool("p", T8)]))

    assert [each.pod_count for each in scheduler.placements] == [16] * 6 + [4]


def test_pods_that_are_placed_are_not_placed_again() -> None:
    """Where a reservation may be released, only pods that are left are tried another time."""
    sold = [*offerings(0.2), offering("zone-1", "reserved", 0.001, reservation="r", left=1)]
    given = problem(pod("a"), pools=[pool("p", instance_type("t", sold=sold))], nodes=[node("n")])

    assert len(schedulers.placed(given).placements) == 1


def test_many_pods_with_a_host_port_avoid_those_that_have_it() -> None:
    """A claim whose pod has the port takes no other pod with it, however many are placed."""
    first, then = (pod(name, cpu=cpu, ports=[80]) for name, cpu in (("x", "5"), ("w", "100m")))
    scheduler = schedulers.placed(problem(replicas(first, 10), replicas(then, 10), pools=[POOL]))

    assert [len(each) for each in bins(scheduler)] == [1] * 20
