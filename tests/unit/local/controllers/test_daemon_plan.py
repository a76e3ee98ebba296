"""Which nodes a daemon set is on, and how it gets there."""

from typing import Any

import pytest

from karpenter.api.meta import convert
from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.kube.targets import Plain
from karpenter_local.controllers.daemon_plan import (
    Daemon,
    DaemonFit,
    DaemonRollout,
    by_node,
    node_of,
    plan,
    pod_for,
    rollout_of,
    status,
)
from karpenter_local.controllers.history import HASH
from tests.unit.local.controllers.objects import NOW, pod, workload

HERE, STAYS, AWAY = DaemonFit(True, True), DaemonFit(False, True), DaemonFit(False, False)
ROLLING = DaemonRollout(surge=0, unavailable=1, rolling=True, min_ready=0)


def daemon_set(**template: Any) -> Plain:
    """Return a daemon set with some pod spec."""
    found = workload("DaemonSet", "agent")
    found["spec"]["template"]["spec"] |= template
    return found


def node(*, labels: dict[str, str] | None = None, **spec: Any) -> Node:
    """Return a node called ``n``."""
    return convert({"metadata": {"name": "n", "labels": labels or {}}, "spec": spec}, Node)


def taint(effect: str, key: str = "team") -> dict[str, str]:
    return {"key": key, "effect": effect}


def daemon(name: str, on: str, *, revision: str = "new", **more: Any) -> Pod:
    return pod(name, node=on, labels={HASH: revision}, **more)


@pytest.mark.parametrize(
    ("template", "on", "expected"),
    [
        pytest.param({}, node(), HERE, id="any node"),
        pytest.param({}, node(taints=[taint("NoSchedule")]), STAYS, id="a node that takes no more"),
        pytest.param({}, node(taints=[taint("NoExecute")]), AWAY, id="a node that wants pods gone"),
        pytest.param({}, node(taints=[taint("PreferNoSchedule")]), HERE, id="a node that would rather not"),
        pytest.param(
            {},
            node(
                unschedulable=True,
                taints=[
                    taint("NoSchedule", "node.kubernetes.io/unschedulable"),
                    taint("NoExecute", "node.kubernetes.io/not-ready"),
                    taint("NoSchedule", "node.kubernetes.io/disk-pressure"),
                ],
            ),
            HERE,
            id="trouble that daemons tolerate",
        ),
        pytest.param(
            {},
            node(taints=[taint("NoSchedule", "node.kubernetes.io/network-unavailable")]),
            STAYS,
            id="no network",
        ),
        pytest.param(
            {"hostNetwork": True},
            node(taints=[taint("NoSchedule", "node.kubernetes.io/network-unavailable")]),
            HERE,
            id="the host's own network",
        ),
        pytest.param({"nodeSelector": {"gpu": "yes"}}, node(), AWAY, id="another node"),
        pytest.param(
            {"nodeSelector": {"gpu": "yes"}}, node(labels={"gpu": "yes"}), HERE, id="the right node"
        ),
        pytest.param({"nodeName": "other"}, node(), AWAY, id="named another"),
        pytest.param(
            {"tolerations": [{"operator": "Exists"}]}, node(taints=[taint("NoExecute")]), HERE, id="tolerant"
        ),
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
                            ]
                        }
                    }
                }
            },
            node(),
            AWAY,
            id="required affinity",
        ),
    ],
)
def test_fit(template: dict[str, Any], on: Node, expected: DaemonFit) -> None:
    """A daemon belongs on nodes whose labels it matches and whose taints it tolerates."""
    assert Daemon(daemon_set(**template)).fit(on) == expected


def test_pod_for() -> None:
    """A daemon's pod names its node beside whatever else it requires, and tolerates a node in trouble."""
    term = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    owner = daemon_set(affinity={"nodeAffinity": required})

    made = pod_for(owner, "n", "abc")

    terms = made["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    by_name = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    assert terms == {"nodeSelectorTerms": [{**term, "matchFields": [by_name]}]}
    assert made["metadata"]["labels"][HASH] == "abc"
    assert len(made["spec"]["tolerations"]) == 6
    assert "matchFields" not in term
    assert node_of(convert(made, Pod)) == "n"


def test_by_node() -> None:
    """Pods are found by where they are or are meant to be, the oldest first."""
    found = by_node([daemon("young", "n", age=1), daemon("old", "n", age=9), pod("stray", node="")])

    assert {key: [each.name for each in value] for key, value in found.items()} == {
        "n": ["old", "young"],
        "": ["stray"],
    }


@pytest.mark.parametrize(
    ("fits", "mine", "create", "delete"),
    [
        pytest.param({"a": HERE, "b": AWAY}, [], ["a"], [], id="missing"),
        pytest.param({"a": HERE}, [daemon("x", "a")], [], [], id="there"),
        pytest.param({"a": STAYS}, [daemon("x", "a")], [], [], id="there, and may stay"),
        pytest.param({"a": AWAY}, [daemon("x", "a")], [], ["x"], id="must go"),
        pytest.param({}, [daemon("x", "a")], [], ["x"], id="its node is gone"),
        pytest.param({"a": HERE}, [daemon("x", "a", leaving=True)], [], [], id="replaced once it is gone"),
        pytest.param({"a": HERE}, [daemon("x", "a", phase="Failed")], [], ["x"], id="failed"),
        pytest.param(
            {"a": HERE},
            [daemon("old", "a", age=9), daemon("new", "a", age=1)],
            [],
            ["new"],
            id="one too many",
        ),
    ],
)
def test_plan(fits: dict[str, DaemonFit], mine: list[Pod], create: list[str], delete: list[str]) -> None:
    """Every node that fits has one pod, and no other has any."""
    todo = plan(fits, by_node(mine), "new", ROLLING, NOW)

    assert (list(todo.create), [each.name for each in todo.delete]) == (create, delete)


NODES = dict.fromkeys(("a", "b", "c"), HERE)


@pytest.mark.parametrize(
    ("mine", "rollout", "create", "delete"),
    [
        pytest.param(
            [daemon(f"x{on}", on, revision="old") for on in "abc"], ROLLING, [], ["xa"], id="one at a time"
        ),
        pytest.param(
            [
                daemon("xa", "a"),
                daemon("xb", "b", revision="old", ready=False),
                daemon("xc", "c", revision="old"),
            ],
            ROLLING,
            [],
            ["xb"],
            id="what does not work goes at once",
        ),
        pytest.param(
            [
                daemon("xa", "a", ready=False),
                daemon("xb", "b", revision="old"),
                daemon("xc", "c", revision="old"),
            ],
            ROLLING,
            [],
            [],
            id="wait for the new one",
        ),
        pytest.param(
            [daemon(f"x{on}", on, revision="old") for on in "abc"],
            DaemonRollout(surge=0, unavailable=1, rolling=False, min_ready=0),
            [],
            [],
            id="only when deleted",
        ),
        pytest.param(
            [daemon(f"x{on}", on, revision="old") for on in "abc"],
            DaemonRollout(surge=2, unavailable=0, rolling=True, min_ready=0),
            ["a", "b"],
            [],
            id="new ones beside the old ones",
        ),
        pytest.param(
            [
                daemon("old", "a", revision="old", age=9),
                daemon("new", "a", age=1),
                daemon("xb", "b"),
                daemon("xc", "c"),
            ],
            DaemonRollout(surge=1, unavailable=0, rolling=True, min_ready=0),
            [],
            ["old"],
            id="and the old one goes when the new one is there",
        ),
        pytest.param(
            [
                daemon("old", "a", revision="old", age=9),
                daemon("new", "a", age=1, ready=False),
                daemon("xb", "b"),
                daemon("xc", "c", revision="old"),
            ],
            DaemonRollout(surge=1, unavailable=0, rolling=True, min_ready=0),
            [],
            [],
            id="but not before",
        ),
    ],
)
def test_rolling(mine: list[Pod], rollout: DaemonRollout, create: list[str], delete: list[str]) -> None:
    """An update goes from node to node within its limits."""
    todo = plan(NODES, by_node(mine), "new", rollout, NOW)

    assert (list(todo.create), [each.name for each in todo.delete]) == (create, delete)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        pytest.param({}, (0, 1, True), id="one at a time by default"),
        pytest.param({"rollingUpdate": {"maxUnavailable": "30%"}}, (0, 3, True), id="a share"),
        pytest.param({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}, (1, 0, True), id="surge"),
        pytest.param({"type": "OnDelete"}, (0, 1, False), id="by hand"),
    ],
)
def test_rollout_of(strategy: dict[str, Any], expected: tuple[int, int, bool]) -> None:
    """Limits are counts of nodes."""
    found = rollout_of(workload("DaemonSet", "agent", updateStrategy=strategy), 10)

    assert (found.surge, found.unavailable, found.rolling) == expected


def test_status() -> None:
    """The status counts nodes, not pods."""
    fits = {"a": HERE, "b": HERE, "c": HERE, "d": AWAY}
    mine = [
        daemon("xa", "a"),
        daemon("xb", "b", revision="old", ready=False),
        daemon("xd", "d"),
    ]

    assert status(workload("DaemonSet", "agent"), fits, by_node(mine), "new", now=NOW) == {
        "currentNumberScheduled": 2,
        "numberMisscheduled": 1,
        "desiredNumberScheduled": 3,
        "numberReady": 1,
        "observedGeneration": 1,
        "updatedNumberScheduled": 1,
        "numberAvailable": 1,
        "numberUnavailable": 2,
    }
