"""Which pods scheduling cannot tell apart, and the order in which classes are placed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
import pytest

from karpenter.api.labels import HOSTNAME, ZONE
from karpenter.api.meta import LabelSelector, LabelSelectorRequirement
from karpenter.api.pod import (
    ContainerStatus,
    Pod,
    PodAffinityTerm,
    PodCondition,
    PodStatus,
    ResourceRequirements,
    TopologySpreadConstraint,
    Volume,
)
from karpenter.core.scheduling.encode.encode import EncodedProblem, classify
from karpenter.core.scheduling.problem import Options, PodVolumes, Problem
from karpenter_local.testing.builders import (
    Preferences,
    affinity_term,
    node,
    only,
    pod,
    problem,
    replicas,
    spread,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 1, 1, 13, tzinfo=UTC)


def classes(given: Problem) -> list[list[str]]:
    """Return the names of equal pods, class by class, in placing order."""
    return [[each.metadata.name for each in group.pods] for group in classify(given, avoidance=False)]


def labelled(name: str, **labels: str) -> Pod:
    return pod(name, pod_labels=labels)


def given_cpu(
    name: str, cpu: str, *, init: bool = False, restarts: int = 0, resize: str = "", reason: str = ""
) -> Pod:
    """Return a pod whose container has been given some cpu."""
    told = ContainerStatus(
        name="main", restart_count=restarts, resources=ResourceRequirements(requests={"cpu": cpu})
    )
    pending = PodCondition(type="PodResizePending", status="True", reason=reason)
    status = PodStatus(
        container_statuses=() if init else (told,),
        init_container_statuses=(told,) if init else (),
        resize=resize,
        conditions=(pending,) if reason else (),
    )
    return msgspec.structs.replace(pod(name), status=status)


def asking(selector: LabelSelector | None) -> Pod:
    return pod("z", cpu="1m", apart=[PodAffinityTerm(topology_key=ZONE, label_selector=selector)])


ALIKE = {
    "copies of a pod": replicas(pod("a"), 3),
    "pods whose specs only read the same": (pod("a"), pod("b")),
    "pods with labels that no selector names": (labelled("a", x="1"), labelled("b", x="2")),
    "pods that restarted, and pods that did not": (given_cpu("a", "1"), given_cpu("b", "1", restarts=7)),
    "a pod that has begun, and one of which nothing is known": (
        pod("a"),
        msgspec.structs.replace(
            pod("b"), status=PodStatus(container_statuses=(ContainerStatus(name="main", restart_count=1),))
        ),
    ),
    "pods with volumes that do not matter": (
        pod("a"),
        msgspec.structs.replace(
            pod("b"), spec=msgspec.structs.replace(pod("b").spec, volumes=(Volume(name="token"),))
        ),
    ),
    "pods that run on different nodes": tuple(
        msgspec.structs.replace(
            pod(name), spec=msgspec.structs.replace(pod(name).spec, node_name=f"n-{name}")
        )
        for name in "ab"
    ),
}


@pytest.mark.parametrize("pods", [pytest.param(pods, id=name) for name, pods in ALIKE.items()])
def test_equal_pods_are_one_class(pods: Iterable[Pod]) -> None:
    """What scheduling does not look at does not tell pods apart."""
    assert len(classes(problem(pods))) == 1


DIFFERENT = {
    "pods that ask for other amounts": problem(pod("a"), pod("b", cpu="200m")),
    "pods in other namespaces": problem(pod("a"), pod("b", namespace="other")),
    "a pod that is moved, and one that waits": problem(pod("a"), pod("b"), moved=["default/b"]),
    "a pod with a volume that matters": problem(
        pod("a"), pod("b"), volumes={"default/b": PodVolumes(claims={"csi": frozenset({"default/c"})})}
    ),
    "pods that were given other amounts": problem(given_cpu("a", "1"), given_cpu("b", "2")),
    "pods whose sidecars were given other amounts": problem(
        given_cpu("a", "1", init=True), given_cpu("b", "2", init=True)
    ),
    "a pod whose resize cannot be done": problem(
        given_cpu("a", "1"), given_cpu("b", "1", resize="Infeasible")
    ),
    "a pod whose resize cannot be done, as newer clusters say it": problem(
        given_cpu("a", "1"), given_cpu("b", "1", reason="Infeasible")
    ),
    "a pod with a default spread": problem(
        pod("a"), pod("b"), spread_defaults={"default/b": (spread(ZONE, app="b"),)}
    ),
}


@pytest.mark.parametrize("given", [pytest.param(given, id=name) for name, given in DIFFERENT.items()])
def test_different_pods_are_different_classes(given: Problem) -> None:
    """Whatever can make a difference to a place makes a difference here."""
    assert len(classes(given)) == 2


EXPRESSION = LabelSelector(match_expressions=(LabelSelectorRequirement(key="x", operator="Exists"),))
EVEN = TopologySpreadConstraint(
    max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=EXPRESSION
)
ASKED = {
    "a spread": pod("z", cpu="1m", spreads=[EVEN]),
    "a spread by the pod's own labels": pod(
        "z", cpu="1m", spreads=[spread(ZONE, app="z", match_label_keys=("x",))]
    ),
    "a required affinity": pod(
        "z", cpu="1m", near=[PodAffinityTerm(topology_key=ZONE, label_selector=EXPRESSION)]
    ),
    "a required anti-affinity": asking(LabelSelector(match_labels={"x": "1"})),
    "an affinity to pods with the same label": pod(
        "z", cpu="1m", near=[affinity_term(ZONE, app="z", match_label_keys=("x",))]
    ),
    "an affinity to pods with another label": pod(
        "z", cpu="1m", near=[PodAffinityTerm(topology_key=ZONE, mismatch_label_keys=("x",))]
    ),
    "a preferred affinity": pod(
        "z",
        cpu="1m",
        prefers=Preferences(near=((1, PodAffinityTerm(topology_key=ZONE, label_selector=EXPRESSION)),)),
    ),
    "a preferred anti-affinity": pod(
        "z",
        cpu="1m",
        prefers=Preferences(apart=((1, PodAffinityTerm(topology_key=ZONE, label_selector=EXPRESSION)),)),
    ),
}


@pytest.mark.parametrize("other", [pytest.param(other, id=name) for name, other in ASKED.items()])
def test_labels_count_where_a_selector_mentions_them(other: Pod) -> None:
    """A label that any pod of the problem asks about tells pods apart."""
    assert classes(problem(labelled("a", x="1"), labelled("b", x="2"), other)) == [["a"], ["b"], ["z"]]


def test_labels_count_where_a_running_pod_avoids_them() -> None:
    """The required anti-affinity of a pod that runs already tells pods apart."""
    there = node("n", *replicas(pod("z", apart=[affinity_term(HOSTNAME, app="a")]), 2))

    assert classes(problem(pod("a", app="a"), pod("b", app="b"), nodes=[there])) == [["a"], ["b"]]


def test_labels_count_where_a_default_spread_mentions_them() -> None:
    """What pods are spread by when they do not say themselves tells pods apart."""
    even = (spread(ZONE, app="a"),)
    defaults = {"default/a": even, "default/b": even, "default/c": even}

    given = problem(pod("a", app="a"), pod("b", app="b"), pod("c", app="a"), spread_defaults=defaults)

    assert classes(given) == [["a", "c"], ["b"]]


def test_a_selector_of_nothing_mentions_no_label() -> None:
    """A term without a selector asks about no label."""
    assert classes(problem(labelled("a", x="1"), labelled("b", x="2"), asking(None))) == [["a", "b"], ["z"]]


def test_own_spreads_come_before_defaults() -> None:
    """A pod that states a spread is not given another."""
    own = pod("a", app="a", spreads=[spread(HOSTNAME, app="a")])

    (group,) = classify(
        problem(own, spread_defaults={"default/a": (spread(ZONE, app="a"),)}), avoidance=False
    )

    assert [
        each.topology_key for relaxation in group.constraints.relaxations for each in relaxation.spreads
    ] == [HOSTNAME]


def test_pods_with_other_default_spreads_are_other_classes() -> None:
    """Pods that are equal but for their default spread are apart; with the same one they are not."""
    pods = [pod(name, app="web") for name in "abc"]
    zones, hosts = (spread(ZONE, app="web"),), (spread(HOSTNAME, app="web"),)
    defaults = {"default/a": zones, "default/b": zones, "default/c": hosts}

    assert sorted(classes(problem(*pods, spread_defaults=defaults))) == [["a", "b"], ["c"]]


def test_pods_that_share_a_spec_hide_no_other() -> None:
    """Two pods of one spec come first, and a pod of another one is a class of its own."""
    first, last = pod("a", cpu="2"), pod("c", cpu="1")
    again = msgspec.structs.replace(
        first, metadata=msgspec.structs.replace(first.metadata, name="b", uid="b")
    )

    assert [len(each) for each in classes(problem(first, again, last))] == [2, 1]


def test_large_pods_come_first() -> None:
    """Classes are placed by cpu, then by memory, from the largest down."""
    given = problem(
        pod("a", cpu="1", memory="1Gi"), pod("b", cpu="2", memory="1Gi"), pod("c", cpu="1", memory="2Gi")
    )

    assert classes(given) == [["b"], ["c"], ["a"]]


def test_old_pods_come_first() -> None:
    """Among equals, pods and classes are placed from the oldest on, then by uid."""
    given = problem(
        pod("a", created=LATER),
        pod("b", created=NOON),
        pod("c", created=NOON, on={ZONE: "z"}),
        pod("d", created=LATER, on={ZONE: "z"}),
        pod("e", on={ZONE: "y"}),
    )

    assert classes(given) == [["e"], ["b", "a"], ["c", "d"]]


def test_relaxations_are_in_order() -> None:
    """A class knows every relaxation of its pods, the most demanding first."""
    (group,) = classify(problem(pod("a", terms=[[only(ZONE, "x")], [only(ZONE, "y")]])), avoidance=False)

    assert [relaxation.requirements[ZONE].values for relaxation in group.constraints.relaxations] == [
        {"x"},
        {"y"},
    ]


def test_pods_that_differ_in_size_alone_share_their_constraints() -> None:
    """What pods ask of a place is worked out once however many sizes they have; a volume keeps them apart."""
    alike = [pod("a", cpu="1", on={ZONE: "z"}), pod("b", cpu="2", on={ZONE: "z"})]
    others = [pod("c", cpu="3", on={ZONE: "y"}), pod("d", cpu="4", on={ZONE: "z"}, namespace="web")]
    stored = pod("e", cpu="5", on={ZONE: "z"})
    given = problem(
        alike, others, stored, volumes={"default/e": PodVolumes(claims={"ebs": frozenset({"claim"})})}
    )

    found = {each.example.metadata.name: each.constraints for each in classify(given, avoidance=False)}

    assert found["a"] is found["b"]
    assert len({id(constraints) for constraints in found.values()}) == 4


def test_preferences_may_be_ignored() -> None:
    """The option decides whether preferences make relaxations at all."""
    fond = pod("a", prefers=Preferences(nodes=((1, [only(ZONE, "x")]),)))

    (respected,) = classify(problem(fond), avoidance=False)
    (ignored,) = classify(problem(fond, options=Options(preferences="Ignore")), avoidance=False)

    assert (len(respected.constraints.relaxations), len(ignored.constraints.relaxations)) == (2, 1)


def test_a_class_knows_what_its_pods_want() -> None:
    """Namespace, ports and requests are those of every pod in the class."""
    (group,) = classify(problem(replicas(pod("a", cpu="2", ports=[80], namespace="web"), 2)), avoidance=False)

    assert group.constraints.namespace == "web"
    assert [port.port for port in group.ports] == [80]
    assert group.requests == {"cpu": 2000, "memory": 128 * 2**20, "pods": 1}


def test_a_class_knows_whether_its_pods_are_moved() -> None:
    """Pods that disruption moves are a class of their own, and those that wait another."""
    given = problem(pod("a"), pod("b"), moved=["default/b"])

    assert {each.pods[0].metadata.name: each.moved for each in classify(given, avoidance=False)} == {
        "a": False,
        "b": True,
    }


def test_a_resource_that_a_pod_does_not_request_is_zero() -> None:
    """Every class has an amount of each resource that any pod requests, in the order of their names."""
    encoded = EncodedProblem(problem(pod("a", cpu="2", resources={"gpu": "1"}), pod("b", cpu="1")))

    assert encoded.axis == ("cpu", "gpu", "memory", "pods")
    assert [each.want for each in encoded.classes] == [
        (2000, 1, 128 * 2**20, 1),
        (1000, 0, 128 * 2**20, 1),
    ]
    assert [each.vector.tolist() for each in encoded.classes] == [list(each.want) for each in encoded.classes]


def test_a_problem_without_pods_has_no_classes() -> None:
    """Nothing is to be placed where no pod waits."""
    assert EncodedProblem(problem()).classes == []
