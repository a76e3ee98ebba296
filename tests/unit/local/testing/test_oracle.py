"""The oracle on cases small enough to be worked out by hand."""

from __future__ import annotations

import pytest

from karpenter.api.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    NODES,
    ON_DEMAND,
    PREFER_NO_SCHEDULE,
    RESERVED,
    ZONE,
)
from karpenter.core.model.hostportusage import HostPort
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.problem import Options, PodVolumes
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
    tolerate,
)
from karpenter_local.testing.oracle import slow_solve

small = instance_type("small", cpu=2, memory=4)
large = instance_type("large", cpu=8, memory=16)
default = pool("default", small, large)


def test_the_largest_pods_are_placed_first() -> None:
    """Pods are taken by cpu, then memory, then age, and fill the emptiest claim first."""
    pods = [pod("c", cpu="1"), pod("b", cpu="1", memory="1Gi"), pod("a", cpu="7")]

    assert slow_solve(problem(pods, pools=[default])).claims == (
        ("default", ("default/a", "default/b")),
        ("default", ("default/c",)),
    )


def test_the_cheapest_machine_is_bought() -> None:
    """A claim costs as much as the cheapest offering of the smallest machine that holds its pods."""
    assert slow_solve(problem(pod("a", cpu="1"), pools=[default])).hourly == pytest.approx(0.06)


def test_nodes_that_are_there_come_first() -> None:
    """A pod goes to the first node that takes it, before anything is bought."""
    nodes = [node("full", free={"cpu": "0"}), node("one"), node("two")]

    assert slow_solve(problem(pod("a"), pools=[default], nodes=nodes)).placed == {"one": ("default/a",)}


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(node("n", taints=(taint("dedicated"),)), id="a taint that is not tolerated"),
        pytest.param(node("n", free={"memory": "0"}), id="no room"),
        pytest.param(node("n", zone="zone-3"), id="another zone than the selector"),
        pytest.param(node("n", ports=(HostPort(80),)), id="a host port that is taken"),
        pytest.param(node("n", quiet=True), id="a quiet time, for pods that are only moved"),
        pytest.param(node("n", pod("other", app="b")), id="anti-affinity of the pod"),
        pytest.param(
            node("n", pod("x", apart=[affinity_term(HOSTNAME, app="a")])), id="anti-affinity of a bound pod"
        ),
        pytest.param(
            node("n", volumes={"csi": frozenset({"default/other"})}, volume_limits={"csi": 1}),
            id="as many volumes as it can attach",
        ),
    ],
)
def test_a_node_is_passed_over(there: object) -> None:
    """A node does not take a pod when anything speaks against it."""
    wanted = pod("a", app="a", on={ZONE: "zone-1"}, ports=[80], apart=[affinity_term(HOSTNAME, app="b")])
    disk = PodVolumes(claims={"csi": frozenset({"default/mine"})})
    found = slow_solve(problem(wanted, nodes=[there], moved=[wanted.key], volumes={wanted.key: disk}))  # type: ignore[list-item]

    assert found.refused == {"default/a"}


def test_the_node_without_anything_against_it_is_taken() -> None:
    """The pod of the test before goes to a node that differs in nothing else."""
    wanted = pod("a", app="a", on={ZONE: "zone-1"}, ports=[80], apart=[affinity_term(HOSTNAME, app="b")])
    disk = PodVolumes(claims={"csi": frozenset({"default/mine"})})
    there = node("n", volume_limits={"csi": 1})
    found = slow_solve(problem(wanted, nodes=[there], moved=[wanted.key], volumes={wanted.key: disk}))

    assert found.placed == {"n": ("default/a",)}


def test_pools_are_tried_in_order() -> None:
    """A pod opens a claim of the first pool that can serve it."""
    pools = [pool("gpu", large, taints=(taint("gpu"),)), pool("first", large), pool("second", small)]

    assert slow_solve(problem(pod("a"), pools=pools)).claims == (("first", ("default/a",)),)


def test_a_spread_evens_out() -> None:
    """Each pod goes to the zone that has fewest, so no zone is ahead by more than the skew."""
    web = pod("web", app="web", spreads=[spread(ZONE, app="web")])
    found = slow_solve(problem(replicas(web, 7), pools=[default]))

    assert sorted(len(pods) for _, pods in found.claims) == [2, 2, 3]


def test_a_spread_over_too_few_domains_stops_at_the_skew() -> None:
    """With fewer zones than minDomains the emptiest counts as empty, so each zone gets only the skew."""
    web = pod("web", app="web", spreads=[spread(ZONE, app="web", min_domains=4)])

    assert len(slow_solve(problem(replicas(web, 5), pools=[default])).refused) == 2


def test_a_spread_over_nodes_caps_each_node() -> None:
    """On one node there are never more than the skew allows."""
    web = pod("web", app="web", spreads=[spread(HOSTNAME, app="web", skew=2)])

    assert [len(pods) for _, pods in slow_solve(problem(replicas(web, 5), pools=[default])).claims] == [
        2,
        2,
        1,
    ]


def test_the_first_pod_of_its_kind_begins_a_domain() -> None:
    """Pods with affinity to their own kind all follow the first."""
    web = pod("web", cpu="3", app="web", near=[affinity_term(ZONE, app="web")])
    found = slow_solve(problem(replicas(web, 5), pools=[default], nodes=[node("n", zone="zone-2")]))

    assert found.placed == {"n": ("default/web-000",)}
    assert found.refused == set()


def test_company_that_never_comes_is_waited_for_in_vain() -> None:
    """A pod with affinity to another kind is refused when there is none."""
    lonely = pod("lonely", near=[affinity_term(ZONE, app="web")])

    assert slow_solve(problem(lonely, pools=[default])).refused == {"default/lonely"}


def test_company_that_comes_later_is_waited_for() -> None:
    """A pod whose matching pods are smaller, and so placed later, is tried again and follows it."""
    big = pod("big", cpu="1", near=[affinity_term(HOSTNAME, app="web")])
    found = slow_solve(problem(big, pod("web", app="web"), pools=[default]))

    assert found.claims == (("default", ("default/web", "default/big")),)


def test_anti_affinity_holds_wherever_a_claim_could_still_be() -> None:
    """A pod on a claim of any zone keeps others out of every zone."""
    free = pod("free", cpu="2", app="web")
    shy = pod("shy", apart=[affinity_term(ZONE, app="web")])

    assert slow_solve(problem(free, shy, pools=[default])).refused == {"default/shy"}


def test_preferences_are_given_up_one_by_one() -> None:
    """A preference that cannot be met is given up, the others are kept."""
    preferred = Preferences(nodes=((5, [only(ZONE, "nowhere")]), (1, [only(CAPACITY_TYPE, ON_DEMAND)])))

    assert slow_solve(problem(pod("a", prefers=preferred), pools=[default])).hourly == pytest.approx(0.1)


def test_preferences_can_be_ignored() -> None:
    """With the policy Ignore a preference is never looked at."""
    preferred = Preferences(nodes=((1, [only(CAPACITY_TYPE, ON_DEMAND)]),))
    asked = problem(pod("a", prefers=preferred), pools=[default], options=Options(preferences="Ignore"))

    assert slow_solve(asked).hourly == pytest.approx(0.06)


def test_spreads_that_may_be_ignored_go_first_third_second() -> None:
    """When a spread is given up, the last takes its place in the order."""
    wants = pod(
        "a",
        app="a",
        spreads=[spread(key, app="a", anyway=True) for key in ("nowhere/1", ZONE, "nowhere/2")],
    )
    found = slow_solve(problem(replicas(wants, 4), pools=[default]))

    assert sorted(len(pods) for _, pods in found.claims) == [1, 1, 2]


def test_avoidance_is_given_up_last() -> None:
    """A pool that would rather not have a pod gets it when no other can."""
    pools = [
        pool("shy", small, taints=(taint("x", PREFER_NO_SCHEDULE),)),
        pool("tiny", instance_type("t", cpu=1)),
    ]

    found = slow_solve(problem(pod("a", cpu="1500m"), pod("b", cpu="200m"), pools=pools))

    assert [name for name, _ in found.claims] == ["shy", "tiny"]


def test_alternatives_are_tried_in_order() -> None:
    """The first required term that can be met decides."""
    wants = pod(
        "a", terms=[[only(ZONE, "nowhere")], [only(CAPACITY_TYPE, ON_DEMAND)], [only(ZONE, "zone-1")]]
    )

    assert slow_solve(problem(wants, pools=[default])).hourly == pytest.approx(0.1)


def test_a_pod_that_contradicts_itself_is_refused() -> None:
    """Two values of one label at once are too much, also for a pool that does not know the label."""
    wants = pod("a", on={"example.com/team": "red"}, terms=[[only("example.com/team", "blue")]])

    assert slow_solve(problem(wants, pools=[default])).refused == {"default/a"}


def test_limits_count_what_would_be_bought() -> None:
    """A pool launches no more than its limits leave, each machine counted as the cheapest that would do."""
    limited = pool("default", small, large, limits={"cpu": "5"})

    assert len(slow_solve(problem(replicas(pod("a", cpu="1500m"), 4), pools=[limited])).refused) == 2


def test_limits_count_machines() -> None:
    """A limit on the number of machines holds within one run."""
    limited = pool("default", small, limits={NODES: "1"})

    assert len(slow_solve(problem(replicas(pod("a", cpu="1500m"), 3), pools=[limited])).refused) == 2


@pytest.mark.parametrize(
    ("policy", "claims"),
    [
        pytest.param("Strict", 0, id="strictly, it is refused"),
        pytest.param("BestEffort", 1, id="at best, it is not"),
    ],
)
def test_a_choice_of_types_can_be_demanded(policy: str, claims: int) -> None:
    """A claim that would leave fewer values than it must is only opened when the minimum may be lowered."""
    choosy = pool("default", small, large, min_values={INSTANCE_TYPE: 2})
    asked = problem(pod("a", cpu="4"), pools=[choosy], options=Options(min_values=policy))  # type: ignore[arg-type]

    assert len(slow_solve(asked).claims) == claims


def test_reserved_machines_are_used_first_and_only_once() -> None:
    """As many machines as are reserved cost next to nothing, the rest costs its price."""
    sold = (*offerings(0.1), offering("zone-1", RESERVED, 0.0001, reservation="r", left=1))
    kind = instance_type("t", cpu=2, sold=sold)
    found = slow_solve(problem(replicas(pod("a", cpu="1500m"), 2), pools=[pool("p", kind), pool("q", large)]))

    assert [name for name, _ in found.claims] == ["p", "p"]
    assert found.hourly == pytest.approx(0.0601)


def test_daemons_take_room_on_new_machines() -> None:
    """A machine must have room for its daemons beside the pods."""
    daemon = pod("d", cpu="500m", tolerations=[tolerate()])
    found = slow_solve(problem(pod("a", cpu="1600m"), pools=[default], daemons=[daemon]))

    assert found.hourly == pytest.approx(0.24)


def test_volumes_decide_the_zone() -> None:
    """A pod is placed where its volumes can be reached, the first place that works."""
    places = tuple(Requirements.only(ZONE, frozenset({zone})) for zone in ("nowhere", "zone-2"))
    found = slow_solve(
        problem(
            pod("a"),
            nodes=[node("n1", zone="zone-1"), node("n2", zone="zone-2")],
            volumes={"default/a": PodVolumes(alternatives=places)},
        )
    )

    assert found.placed == {"n2": ("default/a",)}
