"""Who must be near whom, and who apart: which groups there are, whom they pick and what they count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from karpenter.api.labels import ARCH, HOSTNAME, ZONE
from karpenter.api.meta import LabelSelector, LabelSelectorRequirement
from karpenter.api.pod import Pod, PodAffinityTerm
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.pack import greedy
from karpenter.core.scheduling.pack.topologygroup import TopologyGroup, TopologyType
from karpenter_local.testing.builders import (
    Preferences,
    affinity_term,
    instance_type,
    node,
    offerings,
    only,
    pod,
    pool,
    problem,
    selecting,
    spread,
    taint,
    tolerate,
)
from tests.unit.core.scheduling.pack.schedulers import fresh, pod_data_of, unlabelled

if TYPE_CHECKING:
    from karpenter.core.scheduling.pack.topology import TopologyDemand
    from karpenter.core.scheduling.problem import Problem

TWO = pool("p", instance_type("t", sold=offerings(1, zones=["zone-1", "zone-2"])))
EVERY_APP = LabelSelector(match_expressions=(LabelSelectorRequirement(key="app", operator="Exists"),))


def asked(given: Problem, name: str = "x") -> list[TopologyDemand]:
    """Return everything that the first relaxation of a pod asks of its surroundings."""
    demands = pod_data_of(fresh(given), name).demands
    return [*demands.domains, *demands.hosts]


def only_group(given: Problem, name: str = "x") -> TopologyGroup:
    """Return the one group that limits a pod."""
    (one,) = asked(given, name)
    return one.group


def even(**how: object) -> Pod:
    """Return a pod that is spread over zones with others labelled ``web``."""
    return pod("x", app="web", spreads=[spread(ZONE, app="web", **how)])  # type: ignore[arg-type]


def test_a_spread_counts_pods_of_its_namespace_that_run() -> None:
    """Pods that the selector picks count in their zone; other apps and namespaces do not."""
    there = [
        node("n1", pod("a", app="web"), pod("b", app="db"), zone="zone-1"),
        node("n2", pod("c", app="web", namespace="other"), zone="zone-2"),
    ]

    group = only_group(problem(even(), pools=[TWO], nodes=there))

    assert (group.kind, group.key) == (TopologyType.SPREAD, ZONE)
    assert group.counts == {"zone-1": 1, "zone-2": 0}


def test_the_zones_of_nodes_are_domains_even_where_nothing_is_sold() -> None:
    """A zone in which a node stands is a domain, although no pool can launch there."""
    there = node("n", zone="zone-7", takes_pods=False)

    group = only_group(problem(even(), pools=[TWO], nodes=[there]))

    assert group.counts == {"zone-1": 0, "zone-2": 0, "zone-7": 0}


def test_pods_on_nodes_that_are_gone_do_not_count() -> None:
    """A pod whose node is not known is nowhere."""
    given = problem(even(), pools=[TWO], nodes=[node("n", pod("a", app="web"), zone="zone-1")])

    group = only_group(msgspec.structs.replace(given, topology_nodes=()))

    assert group.counts == {"zone-1": 0, "zone-2": 0}


def test_nodes_without_the_label_do_not_count() -> None:
    """A pod on a node without the topology label is in no domain."""
    bare = unlabelled(node("n", pod("a", app="web")), ZONE)

    group = only_group(problem(even(), pools=[TWO], nodes=[bare]))

    assert group.counts == {"zone-1": 0, "zone-2": 0}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(None, {"zone-1": 0, "zone-2": 1}, id="by default only nodes that suit the pod count"),
        pytest.param("Honor", {"zone-1": 0, "zone-2": 1}, id="when honoured, only nodes that suit count"),
        pytest.param("Ignore", {"zone-1": 1, "zone-2": 1}, id="when ignored, all nodes count"),
    ],
)
def test_node_affinity_policy(policy: str | None, expected: dict[str, int]) -> None:
    """A spread counts the nodes that the pod's own selector and affinity allow, unless told not to."""
    there = [
        node("n1", pod("a", app="web"), zone="zone-1", arch="arm64"),
        node("n2", pod("b", app="web"), zone="zone-2", arch="amd64"),
    ]
    by_selector = pod(
        "x", app="web", on={ARCH: "amd64"}, spreads=[spread(ZONE, app="web", affinity_policy=policy)]
    )
    by_affinity = pod(
        "y",
        app="web",
        terms=[[only(ARCH, "amd64")]],
        spreads=[spread(ZONE, app="web", affinity_policy=policy)],
    )

    given = problem(by_selector, by_affinity, pools=[TWO], nodes=there)

    assert only_group(given, "x").counts == expected
    assert only_group(given, "y").counts == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(None, {"zone-1": 1, "zone-2": 0}, id="by default taints do not matter"),
        pytest.param("Ignore", {"zone-1": 1, "zone-2": 0}, id="when ignored, taints do not matter"),
        pytest.param("Honor", {"zone-2": 0}, id="when honoured, tainted nodes and pools do not count"),
    ],
)
def test_node_taints_policy(policy: str | None, expected: dict[str, int]) -> None:
    """A spread that honours taints leaves out nodes and pools that the pod does not tolerate."""
    pools = [
        pool("a", instance_type("t", sold=offerings(1, zones=["zone-1"])), taints=(taint("gpu"),)),
        pool("b", instance_type("t", sold=offerings(1, zones=["zone-2"]))),
    ]
    there = node("n", pod("a", app="web"), zone="zone-1", taints=(taint("gpu"),))

    group = only_group(problem(even(taints_policy=policy), pools=pools, nodes=[there]))

    assert group.counts == expected


def test_tolerated_taints_count_when_taints_are_honoured() -> None:
    """A pod that tolerates a taint counts what is behind it."""
    tolerant = pod(
        "x",
        app="web",
        tolerations=[tolerate("gpu")],
        spreads=[spread(ZONE, app="web", taints_policy="Honor")],
    )
    there = node("n", pod("a", app="web"), zone="zone-1", taints=(taint("gpu"),))

    assert only_group(problem(tolerant, pools=[TWO], nodes=[there])).counts == {"zone-1": 1, "zone-2": 0}


def test_a_spread_without_selector_limits_nothing() -> None:
    """A spread that selects no pods has nothing to level."""
    aimless = msgspec.structs.replace(spread(ZONE, app="web"), label_selector=None)

    assert asked(problem(pod("x", app="web", spreads=[aimless]), pools=[TWO])) == []


def test_match_label_keys_narrow_to_pods_of_the_same_kind() -> None:
    """Only pods that share the pod's own value of a label count; a label that the pod lacks is ignored."""
    keys = ("version", "missing")
    own = pod(
        "x",
        pod_labels={"app": "web", "version": "2"},
        spreads=[spread(ZONE, app="web", match_label_keys=keys)],
    )
    there = node(
        "n",
        pod("a", pod_labels={"app": "web", "version": "1"}),
        pod("b", pod_labels={"app": "web", "version": "2"}),
        zone="zone-1",
    )

    assert only_group(problem(own, pools=[TWO], nodes=[there])).counts == {"zone-1": 1, "zone-2": 0}


def test_mismatch_label_keys_narrow_to_pods_of_another_kind() -> None:
    """Pods that share the pod's own value of a label do not count."""
    term = PodAffinityTerm(
        topology_key=ZONE, label_selector=selecting(app="web"), mismatch_label_keys=("version",)
    )
    own = pod("x", pod_labels={"app": "web", "version": "2"}, near=[term])
    there = [
        node("n1", pod("a", pod_labels={"app": "web", "version": "1"}), zone="zone-1"),
        node("n2", pod("b", pod_labels={"app": "web", "version": "2"}), zone="zone-2"),
    ]

    (one,) = asked(problem(own, pools=[TWO], nodes=there))

    assert one.group.counts == {"zone-1": 1, "zone-2": 0}
    assert not one.self_selecting


def test_equal_terms_share_a_group() -> None:
    """Everyone who states the same looks at the same counts."""
    scheduler = fresh(
        problem(even(), pod("y", cpu="1", app="web", spreads=[spread(ZONE, app="web")]), pools=[TWO])
    )
    (one,), (other,) = (pod_data_of(scheduler, name).demands.domains for name in "xy")

    assert one.group is other.group


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        pytest.param(
            affinity_term(ZONE, app="db"), {"zone-1": 1, "zone-2": 0}, id="by default the pod's own namespace"
        ),
        pytest.param(
            affinity_term(ZONE, app="db", namespaces=("other",)),
            {"zone-1": 0, "zone-2": 1},
            id="a list of namespaces",
        ),
        pytest.param(
            affinity_term(ZONE, app="db", namespace_selector=LabelSelector(match_labels={"team": "red"})),
            {"zone-1": 0, "zone-2": 1},
            id="namespaces by their labels",
        ),
        pytest.param(
            affinity_term(
                ZONE,
                app="db",
                namespaces=("default",),
                namespace_selector=LabelSelector(match_labels={"team": "red"}),
            ),
            {"zone-1": 1, "zone-2": 1},
            id="a list and labels add up",
        ),
        pytest.param(
            affinity_term(ZONE, app="db", namespace_selector=LabelSelector()),
            {"zone-1": 1, "zone-2": 1},
            id="an empty selector is every namespace",
        ),
        pytest.param(
            affinity_term(ZONE, app="db", namespace_selector=LabelSelector(match_labels={"team": "blue"})),
            {"zone-1": 0, "zone-2": 0},
            id="labels that no namespace has are no namespace",
        ),
    ],
)
def test_namespaces_of_a_term(term: PodAffinityTerm, expected: dict[str, int]) -> None:
    """A term looks at the pods of the namespaces that it names, by list or by label."""
    there = [
        node("n1", pod("a", app="db"), zone="zone-1"),
        node("n2", pod("b", app="db", namespace="other"), zone="zone-2"),
    ]
    known = {"default": {"team": "green"}, "other": {"team": "red"}}

    given = problem(pod("x", near=[term]), pools=[TWO], nodes=there, namespaces=known)

    assert only_group(given).counts == expected


def test_groups_over_nodes_count_by_bin() -> None:
    """Pods on nodes that take pods are counted on their bin, others as being elsewhere."""
    there = [
        node("n1", pod("a", app="web")),
        node("n2", pod("b", app="web"), pod("c", app="web")),
        node("n3", pod("d", app="web"), takes_pods=False),
    ]

    group = only_group(
        problem(pod("x", apart=[affinity_term(HOSTNAME, app="web")]), pools=[TWO], nodes=there)
    )

    assert group.hosts.of(0, 3).tolist() == [1, 2, 0]
    assert group.hosts.elsewhere == 1
    assert group.counts == {}


def test_running_pods_keep_others_off() -> None:
    """The required anti-affinity of a pod that runs limits the pods that it means, not others."""
    keeper = pod("k", apart=[affinity_term(ZONE, app="web")])
    given = problem(
        pod("x", app="web"), pod("y", app="db"), pools=[TWO], nodes=[node("n", keeper, zone="zone-1")]
    )

    (one,) = asked(given)

    assert (one.group.kind, one.group.counts, one.self_selecting) == (
        TopologyType.INVERSE_ANTI_AFFINITY,
        {"zone-1": 1, "zone-2": 0},
        False,
    )
    assert asked(given, "y") == []


def test_preferred_anti_affinity_adds_no_inverse_group() -> None:
    """What a pod would merely rather not have nearby is its own business."""
    keeper = pod("k", prefers=Preferences(apart=((1, affinity_term(ZONE, app="web")),)))

    assert asked(problem(pod("x", app="web"), pools=[TWO], nodes=[node("n", keeper)])) == []


def test_waiting_pods_keep_others_off_too() -> None:
    """The required anti-affinity of a pod of the run counts from when it is placed."""
    keeper = pod("k", cpu="2", app="k", apart=[affinity_term(ZONE, app="web")])
    scheduler = fresh(problem(pod("x", app="web"), keeper, pools=[TWO]))

    (one,) = pod_data_of(scheduler, "x").demands.domains

    assert one.group.kind is TopologyType.INVERSE_ANTI_AFFINITY
    assert one.group in scheduler.counting(pod_data_of(scheduler, "k"))
    assert one.group not in scheduler.counting(pod_data_of(scheduler, "x"))


def test_a_pod_that_avoids_its_own_kind_counts_once_in_each_group() -> None:
    """Two equal terms of one pod are one group, in which it counts once."""
    twice = pod("x", app="web", apart=[affinity_term(ZONE, app="web"), affinity_term(ZONE, app="web")])
    scheduler = fresh(problem(twice, pools=[TWO]))

    kinds = sorted(group.kind.value for group in scheduler.counting(pod_data_of(scheduler, "x")))

    assert kinds == ["anti-affinity of another pod", "pod anti-affinity"]


def test_pods_of_other_namespaces_are_not_picked() -> None:
    """A pod with the right label in another namespace does not count."""
    scheduler = fresh(problem(even(), pod("y", app="web", namespace="other"), pools=[TWO]))

    assert len(scheduler.counting(pod_data_of(scheduler, "x"))) == 1
    assert scheduler.counting(pod_data_of(scheduler, "y")) == ()


def test_selectors_without_a_fixed_label_are_found_as_well() -> None:
    """A selector that names no value picks pods among all of them."""
    term = PodAffinityTerm(topology_key=ZONE, label_selector=EVERY_APP)
    there = node("n", pod("a", app="db"), pod("b"), zone="zone-1")
    scheduler = fresh(
        problem(pod("x", cpu="1", near=[term]), pod("y", app="web"), pools=[TWO], nodes=[there])
    )

    (one,) = pod_data_of(scheduler, "x").demands.domains

    assert one.group.counts == {"zone-1": 1, "zone-2": 0}
    assert scheduler.counting(pod_data_of(scheduler, "y")) == (one.group,)
    assert scheduler.counting(pod_data_of(scheduler, "x")) == ()


def test_selectors_with_several_values_are_found_as_well() -> None:
    """A selector of several values picks pods with any of them, and a negated one those with none."""
    either = LabelSelector(
        match_expressions=(
            LabelSelectorRequirement(key="app", operator="In", values=("db", "web")),
            LabelSelectorRequirement(key="tier", operator="NotIn", values=("test",)),
        )
    )
    term = PodAffinityTerm(topology_key=ZONE, label_selector=either)
    there = node("n", pod("a", app="db"), pod("b", pod_labels={"app": "db", "tier": "test"}), zone="zone-1")

    group = only_group(problem(pod("x", near=[term]), pools=[TWO], nodes=[there]))

    assert group.counts == {"zone-1": 1, "zone-2": 0}


def test_whether_nodes_are_counted_is_asked_once_per_node() -> None:
    """A spread's view of a node is remembered; a group that counts everywhere asks nothing."""
    there = [node("n", pod("a", app="web"), pod("b", pod_labels={"app": "web", "x": "1"}), zone="zone-1")]
    scheduler = fresh(
        problem(
            pod("x", app="web", on={ARCH: "amd64"}, spreads=[spread(ZONE, app="web")]),
            pools=[TWO],
            nodes=there,
        )
    )
    (one,) = pod_data_of(scheduler, "x").demands.domains
    labels = Requirements.from_labels({ARCH: "arm64"})

    assert scheduler.topology.counts_node(one.group, scheduler.problem.nodes[0])
    assert not scheduler.topology.counts_labels(one.group, labels, ())
    assert one.group.counts == {"zone-1": 2, "zone-2": 0}


@pytest.mark.parametrize("first", [pytest.param("a", id="not first"), pytest.param("b", id="not second")])
def test_each_group_decides_by_itself_whether_it_counts_a_claim(first: str) -> None:
    """A pod on a claim for amd64 counts for pods of any architecture, though not for those of arm64."""
    level = [spread(ZONE, app="web")]
    waiting = {"a": pod("a", on={ARCH: "arm64"}, spreads=level), "b": pod("b", spreads=level)}
    web = pod("w", app="web", cpu="1", on={ARCH: "amd64", ZONE: "zone-1"})
    order = [waiting[first], *(waiting[name] for name in waiting if name != first)]
    scheduler = fresh(problem(web, *order, pools=[TWO]))
    greedy.pack(scheduler, {pod_data_of(scheduler, "w").pod_class.number: 1})

    counts = {name: pod_data_of(scheduler, name).demands.domains[0].group.counts for name in "ab"}
    assert counts == {"a": {"zone-1": 0, "zone-2": 0}, "b": {"zone-1": 1, "zone-2": 0}}


def test_depending_on_counts() -> None:
    """A refusal may turn into consent for pods that depend on domains, or on who shares their node."""
    given = problem(
        even(),
        pod("n", near=[affinity_term(HOSTNAME, app="web")]),
        pod("a", apart=[affinity_term(HOSTNAME, app="web")]),
        pools=[TWO],
    )
    scheduler = fresh(given)

    assert [pod_data_of(scheduler, name).demands.depends_on_counts for name in "xna"] == [True, True, False]


@pytest.mark.parametrize("keys", [pytest.param((), id="plain"), pytest.param(("app",), id="with label keys")])
def test_a_term_without_selector_matches_no_pod(keys: tuple[str, ...]) -> None:
    """An affinity that selects nothing is met by no pod, not even by those with equal labels."""
    term = PodAffinityTerm(topology_key=ZONE, match_label_keys=keys)
    there = node("n", pod("v", app="web"), zone="zone-1")
    group = only_group(problem(pod("x", app="web", near=[term]), pools=[TWO], nodes=[there]))

    assert group.counts == {"zone-1": 0, "zone-2": 0}
    assert not group.selects("default", {"app": "web"})
