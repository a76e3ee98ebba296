"""The validator finds what is wrong with a plan, and nothing where nothing is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from karpenter.api.labels import (
    ARCH,
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    MIN_VALUES_RELAXED,
    NODES,
    PREFER_NO_SCHEDULE,
    RESERVED,
    SPOT,
    ZONE,
)
from karpenter.api.meta import LabelSelector
from karpenter.core.model.hostportusage import HostPort
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.problem import Cost, Options, Plan, PodVolumes, Problem
from karpenter_local.testing.builders import (
    RESERVATION,
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
from karpenter_local.testing.validator import problems_of
from tests.unit.local.testing.plans import machine, plan

if TYPE_CHECKING:
    from karpenter.api.pod import Pod, PodAffinityTerm

replace = msgspec.structs.replace
small = instance_type("small", cpu=2, memory=4)
large = instance_type("large", cpu=8, memory=16)
default = pool("default", small, large)
a, b = pod("a", cpu="1"), pod("b", cpu="1")


def zone(*names: str) -> Requirements:
    return Requirements.only(ZONE, frozenset(names))


def spot(kind: str = "small", where: str = "zone-1") -> tuple[str, str, str]:
    """Return the purchase of a spot machine."""
    return kind, where, SPOT


def test_a_sound_plan_has_no_problems() -> None:
    """Nothing is wrong with a machine that holds its pods and is the cheapest of those listed."""
    new = machine(default, a, b, bought=spot(), types=("small", "large"))

    assert problems_of(problem(a, b, pools=[default]), plan(new)) == []


sound = machine(default, a, b, bought=spot(), types=("small", "large"))
tainted = pool("default", small, taints=(taint("x"),))
arm = pool("default", instance_type("small", cpu=2, memory=4, arch="arm64"))


@pytest.mark.parametrize(
    ("asked", "answer", "found"),
    [
        pytest.param(
            problem(a, b, pools=[default]), plan(), "default/a is in the plan 0 times", id="a pod is lost"
        ),
        pytest.param(
            problem(a, b, pools=[default]),
            plan(sound, refused=(a.key,)),
            "2 times",
            id="a pod is placed and refused",
        ),
        pytest.param(
            problem(a, pools=[default]),
            plan(sound),
            "not in the problem",
            id="a pod that is not in the problem",
        ),
        pytest.param(
            problem(a, pools=[default]), plan(placed={"n": (a.key,)}), "takes none", id="a node there is not"
        ),
        pytest.param(problem(a, b), plan(sound), "which there is not", id="a pool there is not"),
        pytest.param(
            problem(a, nodes=[node("n", free={"cpu": "500m"})]),
            plan(placed={"n": (a.key,)}),
            "its new pods want",
            id="no room on a node",
        ),
        pytest.param(
            problem(a, b, pod("c", cpu="1"), pools=[default]),
            plan(machine(default, a, b, pod("c", cpu="1"), bought=spot())),
            "too little room",
            id="no room on a machine",
        ),
        pytest.param(
            problem(a, b, pools=[default], daemons=[pod("d", cpu="100m")]),
            plan(machine(default, a, b, bought=spot())),
            "too little room",
            id="no room beside the daemons",
        ),
        pytest.param(
            problem(a, pools=[tainted]),
            plan(machine(tainted, a, bought=spot())),
            "does not tolerate x",
            id="a taint that is not tolerated",
        ),
        pytest.param(
            problem(pod("a", on={ARCH: "amd64"}), pools=[arm]),
            plan(machine(arm, a, bought=spot())),
            "needs other labels",
            id="another architecture",
        ),
        pytest.param(
            problem(pod("a", on={ZONE: "zone-1"}), pools=[default]),
            plan(machine(default, a, bought=spot())),
            "needs other labels",
            id="a zone that is not settled",
        ),
        pytest.param(
            problem(pod("a", on={"team": "red"}), pools=[default]),
            plan(machine(default, a, bought=spot())),
            "needs other labels",
            id="a label that no machine has",
        ),
        pytest.param(
            problem(pod("a", on={"team": "red"}), nodes=[node("n")]),
            plan(placed={"n": (a.key,)}),
            "needs other labels",
            id="a label that the node does not have",
        ),
        pytest.param(
            problem(pod("a", ports=[80]), pod("b", ports=[80]), nodes=[node("n")]),
            plan(placed={"n": (a.key, b.key)}),
            "both want port",
            id="a port taken twice",
        ),
        pytest.param(
            problem(pod("a", ports=[80]), nodes=[node("n", ports=(HostPort(80),))]),
            plan(placed={"n": (a.key,)}),
            "both want port",
            id="a port that was taken before",
        ),
        pytest.param(
            problem(pod("a", ports=[80]), pools=[default], daemons=[pod("d", ports=[80])]),
            plan(machine(default, a, bought=spot())),
            "the daemon",
            id="a port that a daemon wants",
        ),
        pytest.param(
            problem(a, nodes=[node("n", quiet=True)], moved=[a.key]),
            plan(placed={"n": (a.key,)}),
            "quiet time",
            id="a quiet node",
        ),
        pytest.param(
            problem(a, pools=[default], volumes={a.key: PodVolumes(alternatives=(zone("zone-1"),))}),
            plan(machine(default, a, bought=spot())),
            "cannot reach its volumes",
            id="a volume out of reach",
        ),
        pytest.param(
            problem(
                a,
                nodes=[node("n", volumes={"csi": frozenset({"x"})}, volume_limits={"csi": 1})],
                volumes={a.key: PodVolumes(claims={"csi": frozenset({"y"})})},
            ),
            plan(placed={"n": (a.key,)}),
            "would attach 2",
            id="too many volumes",
        ),
    ],
)
def test_pods_that_may_not_be_there_are_found(asked: Problem, answer: Plan, found: str) -> None:
    """Whatever forbids a pod its place is found and said."""
    assert any(found in each for each in problems_of(asked, answer))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        pytest.param({"pods": ()}, "has no pods", id="no pods on it"),
        pytest.param({"taints": (taint("x"),)}, "other taints", id="other taints than its pool"),
        pytest.param({"labels": {}}, "lacks the label", id="a label of the pool is missing"),
        pytest.param(
            {"labels": {**sound.labels, ZONE: "mars"}},
            "would not come up with",
            id="a label that no offering has",
        ),
        pytest.param({"allocatable": {}}, "does not have the room", id="another room than the type's"),
        pytest.param(
            {"annotations": {MIN_VALUES_RELAXED: "true"}}, "though they are strict", id="strictness given up"
        ),
        pytest.param(
            {"purchase": replace(sound.purchase, price=0.01)}, "whose price is another", id="a made-up price"
        ),
        pytest.param(
            {"purchase": replace(sound.purchase, capacity_type="on-demand", price=0.1)},
            "though 0.06 would do",
            id="not the cheapest offering",
        ),
        pytest.param(
            {"purchase": replace(sound.purchase, zone="mars")},
            "do not allow",
            id="an offering that is not sold",
        ),
    ],
)
def test_machines_that_are_described_wrongly_are_found(change: dict[str, object], found: str) -> None:
    """What a new node says about itself must follow from its pool, its pods and the catalogue."""
    new = replace(sound, **change)

    assert any(found in each for each in problems_of(problem(a, b, pools=[default]), plan(new)))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        pytest.param({"types": ()}, "lists no instance type", id="no type"),
        pytest.param({"types": ("small", "small")}, "some twice", id="a type twice"),
        pytest.param({"types": ("small", "huge")}, "cannot be bought", id="a type the pool does not have"),
        pytest.param({"types": ("large", "small")}, "cheapest first", id="not in the order of prices"),
        pytest.param({"required": Requirements({})}, "allows more", id="more than the pool allows"),
        pytest.param({"requested": {}}, "less than its pods", id="less than its pods request"),
        pytest.param(
            {"requested": {"cpu": 3000}}, "less than its pods", id="not everything that its pods request"
        ),
        pytest.param(
            {"requested": {"cpu": 3000, "memory": 2**32, "pods": 2}},
            "more than some",
            id="more than a type has",
        ),
        pytest.param(
            {"required": default.requirements.intersect(Requirements.only(HOSTNAME, frozenset({"h"})))},
            "host name",
            id="a host name beforehand",
        ),
    ],
)
def test_lists_of_types_that_would_not_do_are_found(change: dict[str, object], found: str) -> None:
    """The list of types is what can be bought as the claim requires, cheapest first, each once."""
    new = replace(sound, instance_type_options=replace(sound.instance_type_options, **change))  # type: ignore[type-var]

    assert any(found in each for each in problems_of(problem(a, b, pools=[default]), plan(new)))


def many(number: int) -> list[Pod]:
    """Return so many pods that each fill a small machine."""
    return list(replicas(pod("big", cpu="1500m"), number))


def test_limits_are_counted_as_large_as_claims_could_be() -> None:
    """A limit is exceeded when the largest listed types together would exceed it."""
    limited = pool("default", small, large, limits={"cpu": "9", NODES: "1"})
    pods = many(2)
    news = [machine(limited, each, bought=spot(), types=("small", "large")) for each in pods]

    assert problems_of(problem(pods, pools=[limited]), plan(*news)) == [
        "the new nodes of default could take 16000 of cpu, its limits leave 9000",
        "the new nodes of default could take 2 of nodes, its limits leave 1",
    ]


def test_a_demanded_choice_must_be_left() -> None:
    """A claim lists as many types as its pool demands values."""
    choosy = pool("default", small, large, min_values={INSTANCE_TYPE: 2})
    asked = problem(a, pools=[choosy], options=Options(min_values="BestEffort"))
    new = machine(choosy, a, bought=spot())

    assert problems_of(asked, plan(new)) == [
        "new node default-1 leaves 1 values of node.kubernetes.io/instance-type, less than 2"
    ]


def test_reservations_can_be_used_up() -> None:
    """No more machines come from a reservation than are left in it."""
    sold = (*offerings(0.1), offering("zone-1", RESERVED, 0.001, reservation="r", left=1))
    kept = pool("default", instance_type("small", cpu=2, sold=sold))
    held = Requirements.only(CAPACITY_TYPE, frozenset({RESERVED})).intersect(
        Requirements.only(RESERVATION, frozenset({"r"}))
    )
    pods = many(2)
    bought = ("small", "zone-1", RESERVED)
    news = [machine(kept, each, bought=bought, narrowed=held, reservation="r") for each in pods]

    assert problems_of(problem(pods, pools=[kept]), plan(*news)) == [
        "the reservation r would be used 2 times, 1 are left"
    ]


@pytest.mark.parametrize(
    ("cost", "found"),
    [
        pytest.param(Cost(hourly=1.0), "its machines cost 0.06", id="another sum"),
        pytest.param(Cost(hourly=0.06, lower_bound=0.07), "less than its lower bound", id="a bound above it"),
    ],
)
def test_the_price_must_add_up(cost: Cost, found: str) -> None:
    """A plan costs what its machines cost, and never less than its bound."""
    problems = problems_of(problem(a, b, pools=[default]), replace(plan(sound), cost=cost))

    assert len(problems) == 1
    assert found in problems[0]


def spread_out(
    counts: dict[str, int], *, skew: int = 1, before: str = "", min_domains: int | None = None
) -> list[str]:
    """Return what is wrong with a spread of pods over zones."""
    web = pod("web", app="web", spreads=[spread(ZONE, app="web", skew=skew, min_domains=min_domains)])
    pods = replicas(web, sum(counts.values()))
    news, rest = [], list(pods)
    for name, count in counts.items():
        mine, rest = rest[:count], rest[count:]
        bought = spot(where=name)
        news.append(machine(default, *mine, bought=bought, narrowed=zone(name), name=name))
    there = [
        node(f"old-{n}", pod(f"o{n}", app="web"), zone=name, takes_pods=False)
        for n, name in enumerate(before.split())
    ]
    return problems_of(problem(pods, pools=[default], nodes=there), plan(*news))


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param({"zone-1": 2, "zone-2": 1, "zone-3": 1}, id="one ahead"),
        pytest.param({"zone-1": 1}, id="only one"),
    ],
)
def test_an_even_spread_is_sound(counts: dict[str, int]) -> None:
    """A zone may be ahead of the emptiest by the skew."""
    assert spread_out(counts) == []


def test_an_uneven_spread_is_found() -> None:
    """A zone that is ahead of an empty one by two is beyond a skew of one."""
    assert any("beyond skew 1" in each for each in spread_out({"zone-1": 2, "zone-2": 1}))


def test_pods_that_ran_before_count() -> None:
    """What ran before counts as filled and as ahead."""
    assert spread_out({"zone-2": 1, "zone-3": 1}, before="zone-1") == []
    assert any("beyond skew" in each for each in spread_out({"zone-1": 1}, before="zone-1"))


def test_too_few_domains_count_as_empty_ones() -> None:
    """Below minDomains no zone may hold more than the skew."""
    even = {"zone-1": 2, "zone-2": 2, "zone-3": 2}

    assert spread_out(even, min_domains=3) == []
    assert any("beyond skew" in each for each in spread_out(even, min_domains=4))


def test_pods_that_do_not_insist_may_make_it_uneven() -> None:
    """Pods that are counted but state no spread themselves are free to crowd a zone."""
    web = pod("web", app="web", spreads=[spread(ZONE, app="web")])
    free = replicas(pod("free", app="web", on={ZONE: "zone-1"}), 3)
    new = machine(default, web, *free, bought=spot(), narrowed=zone("zone-1"))

    assert problems_of(problem(web, free, pools=[default]), plan(new)) == []


def test_a_spread_that_is_not_settled_is_found() -> None:
    """A pod that is spread over zones must be in one."""
    web = pod("web", app="web", spreads=[spread(ZONE, app="web")])
    new = machine(default, web, bought=spot())

    assert any("could be in" in each for each in problems_of(problem(web, pools=[default]), plan(new)))


def test_too_many_on_a_node_are_found() -> None:
    """A spread over nodes caps each node at the skew."""
    web = replicas(pod("web", app="web", spreads=[spread(HOSTNAME, app="web")]), 2)
    new = machine(default, *web, bought=spot())

    assert any(
        "new node default-1 has 2" in each for each in problems_of(problem(web, pools=[default]), plan(new))
    )


def test_company_that_must_be_kept_off_is_found() -> None:
    """Anti-affinity is kept in both directions, and wherever a claim could still be."""
    shy = pod("shy", apart=[affinity_term(ZONE, app="web")])
    web = pod("web", app="web")
    asked = problem(shy, web, pools=[default])
    fixed = [
        machine(default, shy, bought=spot(), narrowed=zone("zone-1"), name="one"),
        machine(default, web, bought=spot(where="zone-2"), narrowed=zone("zone-2"), name="two"),
    ]
    open_ = [fixed[0], machine(default, web, bought=spot(), name="two")]

    assert problems_of(asked, plan(*fixed)) == []
    assert any("must be apart" in each for each in problems_of(asked, plan(*open_)))


def test_pods_that_ran_before_keep_others_off() -> None:
    """A bound pod gets no pods that its anti-affinity selects."""
    there = node("n", pod("shy", apart=[affinity_term(HOSTNAME, app="web")]))
    web = pod("web", app="web")

    assert any(
        "must be apart" in each
        for each in problems_of(problem(web, nodes=[there]), plan(placed={"n": (web.key,)}))
    )


def test_pods_without_the_pods_they_need_are_found() -> None:
    """Affinity needs a matching pod in the same, settled domain."""
    friend = pod("friend", near=[affinity_term(ZONE, app="web")])
    web = pod("web", app="web")
    asked = problem(friend, web, pools=[default])
    apart = [
        machine(default, friend, bought=spot(), narrowed=zone("zone-1"), name="one"),
        machine(default, web, bought=spot(where="zone-2"), narrowed=zone("zone-2"), name="two"),
    ]
    together = [machine(default, friend, web, bought=spot(), narrowed=zone("zone-1"))]

    assert any("has no matching pod" in each for each in problems_of(asked, plan(*apart)))
    assert problems_of(asked, plan(*together)) == []


def test_pods_of_one_kind_begin_only_one_domain() -> None:
    """Pods with affinity to each other follow the first; a second beginning is found."""
    web = replicas(pod("web", app="web", near=[affinity_term(ZONE, app="web")]), 2)
    news = [
        machine(default, each, bought=spot(where=name), narrowed=zone(name), name=name)
        for each, name in zip(web, ("zone-1", "zone-2"), strict=True)
    ]

    assert any("began several" in each for each in problems_of(problem(web, pools=[default]), plan(*news)))


def test_pods_of_one_kind_join_those_that_ran_before() -> None:
    """Where there are matching pods already, no new domain is begun."""
    web = pod("web", app="web", near=[affinity_term(ZONE, app="web")])
    there = node("n", pod("old", app="web"), zone="zone-2", takes_pods=False)
    new = machine(default, web, bought=spot(), narrowed=zone("zone-1"))

    assert any(
        "although there were matching pods" in each
        for each in problems_of(problem(web, pools=[default], nodes=[there]), plan(new))
    )


def test_company_needs_the_label_that_it_is_about() -> None:
    """A node without the label has no matching pods by it."""
    web = pod("web", app="web", near=[affinity_term("rack", app="web")])

    assert any(
        "does not have" in each
        for each in problems_of(problem(web, nodes=[node("n")]), plan(placed={"n": (web.key,)}))
    )


def test_room_that_is_there_must_be_used() -> None:
    """A plain pod is not put on a new machine, nor refused, while a node has room for it."""
    asked = problem(a, b, pools=[default], nodes=[node("n")])

    assert any("has room for default/a" in each for each in problems_of(asked, plan(sound)))
    assert any(
        "has room for default/a" in each
        for each in problems_of(asked, plan(placed={"n": (b.key,)}, refused=(a.key,)))
    )


def test_a_pod_that_can_be_served_must_be() -> None:
    """A plain pod is not refused while a pool without limits can serve it."""
    assert problems_of(problem(a, pools=[default]), plan(refused=(a.key,))) == [
        "default/a was refused, although a pool without limits can serve it"
    ]


def test_pools_that_come_first_must_be_used_first() -> None:
    """A machine of a later pool needs a pod that no earlier pool could serve."""
    second = pool("second", small)
    asked = problem(a, pools=[default, second])

    assert problems_of(asked, plan(machine(second, a, bought=spot()))) == [
        "new node second-1 is of second, though default comes first"
    ]


@pytest.mark.parametrize(
    "wants",
    [
        pytest.param(pod("a", spreads=[spread(ZONE, app="x", anyway=True)]), id="a spread"),
        pytest.param(pod("a", prefers=Preferences(nodes=((1, [only(ZONE, "zone-1")]),))), id="a preference"),
        pytest.param(pod("a", terms=[[only(ZONE, "zone-1")], [only(ZONE, "zone-2")]]), id="alternatives"),
        pytest.param(
            pod("a", prefers=Preferences(near=((1, affinity_term(ZONE, app="x")),))), id="preferred affinity"
        ),
        pytest.param(pod("a", ports=[80]), id="a port that is taken"),
    ],
)
def test_pods_with_wishes_may_be_elsewhere(wants: Pod) -> None:
    """Of a pod that is not plain it is not said where it should have been."""
    there = node("n", ports=(HostPort(80),), zone="zone-3")
    new = machine(default, wants, bought=spot(), narrowed=zone("zone-1"))

    assert problems_of(problem(wants, pools=[default], nodes=[there]), plan(new)) == []


def test_avoidance_may_have_been_given_up() -> None:
    """A taint that only prefers to be left alone is no obstacle in the end."""
    shy = pool("default", small, taints=(taint("x", PREFER_NO_SCHEDULE),))

    assert problems_of(problem(a, pools=[shy]), plan(machine(shy, a, bought=spot()))) == []


def test_tolerations_are_looked_at() -> None:
    """A tolerated taint is no obstacle."""
    wants = pod("a", tolerations=[tolerate("x")])

    assert problems_of(problem(wants, pools=[tainted]), plan(machine(tainted, wants, bought=spot()))) == []


@pytest.mark.parametrize(
    ("term", "is_kept"),
    [
        pytest.param(affinity_term(HOSTNAME, app="web"), True, id="its own namespace only"),
        pytest.param(
            affinity_term(HOSTNAME, app="web", namespaces=("other",)), False, id="a list of namespaces"
        ),
        pytest.param(
            affinity_term(HOSTNAME, app="web", namespace_selector=LabelSelector()),
            False,
            id="every namespace",
        ),
        pytest.param(
            affinity_term(
                HOSTNAME, app="web", namespace_selector=LabelSelector(match_labels={"name": "other"})
            ),
            False,
            id="namespaces with a label",
        ),
        pytest.param(
            affinity_term(
                HOSTNAME, app="web", namespace_selector=LabelSelector(match_labels={"name": "third"})
            ),
            True,
            id="no such namespace",
        ),
        pytest.param(
            affinity_term(HOSTNAME, app="web", namespaces=("other",), match_label_keys=("tier",)),
            True,
            id="pods that share a label value with it",
        ),
    ],
)
def test_namespaces_decide_which_pods_are_meant(term: PodAffinityTerm, is_kept: bool) -> None:
    """Anti-affinity means pods of the namespaces that it names, in whichever way."""
    shy = pod("shy", pod_labels={"tier": "front"}, apart=[term])
    web = pod("web", app="web", namespace="other")
    found = problems_of(problem(shy, web, pools=[default]), plan(machine(default, shy, web, bought=spot())))

    assert (found == []) is is_kept


def test_a_spread_counts_only_nodes_that_the_pod_could_use() -> None:
    """Zones that the selector rules out are neither empty nor full."""
    web = pod("web", app="web", on={CAPACITY_TYPE: SPOT}, spreads=[spread(ZONE, app="web")])
    kind = instance_type(
        "small", cpu=2, sold=[offering("zone-1", SPOT, 0.1), offering("zone-2", "on-demand", 0.2)]
    )
    only_spot = pool("default", kind)
    pods = replicas(web, 2)
    narrow = zone("zone-1").intersect(Requirements.only(CAPACITY_TYPE, frozenset({SPOT})))
    there = node("n", pod("old", app="web"), zone="zone-1", takes_pods=False)
    new = machine(only_spot, *pods, bought=spot(), narrowed=narrow)
    found = problems_of(problem(pods, pools=[only_spot], nodes=[there]), plan(new))

    assert any("makes 2 in" in each for each in found)
