"""Daemons: what every new node has to carry."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api import labels
from karpenter.api.meta import convert
from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.api.workloads import DaemonSet
from karpenter.core.model.resources import LARGEST
from karpenter.core.scheduling.build.daemonset import (
    daemonset_pods,
    expected_daemons,
    remaining_daemon_resources,
)
from karpenter.core.scheduling.encode.nodeclaimtemplate import daemon_pod
from karpenter.core.state.cluster import view_of
from karpenter.core.state.statenode import StateNode


def needs(*terms: dict[str, str]) -> dict[str, Any]:
    """Return an affinity to nodes with certain labels, one alternative per term."""
    written = [
        {"matchExpressions": [{"key": k, "operator": "In", "values": [v]} for k, v in term.items()]}
        for term in terms
    ]
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": written}}
    }


def asking(cpu: str, **spec: object) -> dict[str, Any]:
    """Return a pod spec that asks for some cpu."""
    return {"containers": [{"name": "agent", "resources": {"requests": {"cpu": cpu}}}], **spec}


def daemon_set(name: str = "agent", **spec: object) -> DaemonSet:
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    return convert(
        {"metadata": {"name": name, "namespace": "sys"}, "spec": {"template": template}}, DaemonSet
    )


def live(
    name: str, owner: str = "agent", created: str | None = None, kind: str = "DaemonSet", **spec: object
) -> Pod:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "1", "controller": True}
    meta = {
        "name": name,
        "namespace": "sys",
        "creationTimestamp": created,
        "ownerReferences": [reference],
    }
    return convert({"metadata": meta, "spec": {"nodeName": "node-1", **spec}}, Pod)


def cpu(pod: Pod) -> object:
    """Return how much cpu a pod asks for, as written."""
    return pod.spec.containers[0].resources.requests["cpu"]


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([], "1", id="the template where none runs"),
        pytest.param([live("a", **asking("2"))], "2", id="a pod that runs"),
        pytest.param(
            [
                live("new", created="2026-01-02T00:00:00Z", **asking("3")),
                live("old", created="2026-01-01T00:00:00Z", **asking("2")),
                live("undated", **asking("4")),
            ],
            "3",
            id="the newest that runs",
        ),
        pytest.param(
            [
                live("one", created="2026-01-02T00:00:00Z", **asking("3")),
                live("two", created="2026-01-02T00:00:00Z", **asking("2")),
            ],
            "2",
            id="of two of the same age the later",
        ),
        pytest.param([live("a", owner="other", **asking("2"))], "1", id="not a pod of another DaemonSet"),
        pytest.param([live("a", kind="ReplicaSet", **asking("2"))], "1", id="not a pod of another kind"),
    ],
)
def test_what_a_daemon_asks_for(pods: list[Pod], expected: str) -> None:
    """A daemon asks for what its newest live pod does, or its template where none runs."""
    (found,) = daemonset_pods(view_of([daemon_set(**asking("1")), *pods]))

    assert cpu(found) == expected


PINNED = needs({labels.HOSTNAME: "node-1"})
GPU = needs({"gpu": "yes"})
COMPANY = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}


@pytest.mark.parametrize(
    ("template", "running", "expected"),
    [
        pytest.param({}, {"affinity": PINNED}, [""], id="a pinned pod is set free"),
        pytest.param(
            {"affinity": GPU}, {"affinity": PINNED}, ["gpu In [yes]"], id="the template's affinity holds"
        ),
        pytest.param({"affinity": GPU}, {}, ["gpu In [yes]"], id="also where the live pod has none"),
        pytest.param({}, {"affinity": {**PINNED, **COMPANY}}, [""], id="other affinity does not pin"),
        pytest.param({}, {}, [""], id="none on either side"),
        pytest.param(
            {"nodeSelector": {"a": "b"}},
            {"nodeSelector": {"a": "c"}},
            ["a In [c]"],
            id="a selector is the live pod's",
        ),
    ],
)
def test_where_a_daemon_runs(template: dict[str, Any], running: dict[str, Any], expected: list[str]) -> None:
    """The node that a live pod is pinned to is forgotten; the template's node affinity holds."""
    (found,) = daemonset_pods(view_of([daemon_set(**template), live("a", **running)]))

    assert [str(each) for each in daemon_pod(found).alternatives] == expected


def test_a_daemon_is_named_after_its_set() -> None:
    """A daemon on a new node has no name of its own yet, and no node."""
    (found,) = daemonset_pods(view_of([daemon_set(), live("a")]))

    assert (found.key, found.spec.node_name, found.metadata.labels) == ("sys/agent", "", {"app": "agent"})


def test_affinity_is_kept() -> None:
    """Only the node affinity of a live pod is replaced."""
    (found,) = daemonset_pods(view_of([daemon_set(), live("a", affinity={**PINNED, **COMPANY})]))

    assert found.spec.affinity is not None
    assert found.spec.affinity.pod_anti_affinity is not None


@pytest.mark.parametrize(
    ("sets", "kept", "left_out"),
    [
        pytest.param([daemon_set(**asking("1"))], ["agent"], [], id="an ordinary daemon"),
        pytest.param(
            [daemon_set("bad", **asking("lots")), daemon_set(**asking("1"))],
            ["agent"],
            ["DaemonSet sys/bad is not counted: container 'agent': resource 'cpu': 'lots' is not a quantity"],
            id="an amount that is none",
        ),
        pytest.param(
            [daemon_set("bad", affinity={**needs({})}, **asking("-1"))],
            [],
            ["DaemonSet sys/bad is not counted: resource cpu: -1 is less than nothing"],
            id="less than nothing",
        ),
        pytest.param(
            [daemon_set("bad", **asking("1e30")), daemon_set("fine", **asking("1"))],
            ["fine"],
            ["DaemonSet sys/bad is not counted: resource cpu: 1e30 is beyond what can be counted"],
            id="more than can be counted",
        ),
        pytest.param(
            [daemon_set("a", **asking(f"{LARGEST}m")), daemon_set("b", **asking("1m"))],
            ["a"],
            [f"DaemonSet sys/b is not counted: resource cpu: {LARGEST + 1}m is beyond what can be counted"],
            id="more than can be counted together",
        ),
        pytest.param(
            [
                daemon_set(
                    "bad",
                    affinity={
                        "nodeAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Is"}]}]
                            }
                        }
                    },
                )
            ],
            [],
            ["DaemonSet sys/bad is not counted: label 'a': 'Is' is not one of the operators"],
            id="an affinity that cannot be read",
        ),
    ],
)
def test_daemons_that_count(sets: list[DaemonSet], kept: list[str], left_out: list[str]) -> None:
    """A daemon that cannot be read is not counted, and named; the others are."""
    found = expected_daemons(daemonset_pods(view_of(sets)), ignore_device_claims=True)

    assert [pod.name for pod in found.pods] == kept
    assert len(found.daemons) == len(kept)
    assert [actual[: len(said)] for actual, said in zip(found.left_out, left_out, strict=True)] == left_out


@pytest.mark.parametrize(("ignored", "kept"), [(True, 0), (False, 1)], ids=["ignored", "not ignored"])
def test_daemons_with_devices(ignored: bool, kept: int) -> None:
    """A daemon that waits for devices never runs where devices are ignored."""
    sets = [daemon_set(resourceClaims=[{"name": "gpu"}]), daemon_set("plain", **asking("1"))]
    found = expected_daemons(daemonset_pods(view_of(sets)), ignore_device_claims=ignored)

    assert [pod.name for pod in found.pods] == ["agent", "plain"][1 - kept :]


def node(taints: list[dict[str, str]] | None = None, **own: str) -> Node:
    return convert({"metadata": {"name": "node-1", "labels": own}, "spec": {"taints": taints or []}}, Node)


TAINT = {"key": "x", "effect": "NoSchedule"}
AVOID = {"key": "x", "effect": "PreferNoSchedule"}


@pytest.mark.parametrize(
    ("found", "here", "where", "expected"),
    [
        pytest.param(asking("1"), (), node(), {"cpu": 1000, "pods": 1}, id="a daemon to come"),
        pytest.param(
            asking("1"),
            (live("a", **asking("1")),),
            node(),
            {"cpu": 0, "pods": 0},
            id="a daemon that is here",
        ),
        pytest.param(
            asking("1"),
            (live("a", **asking("400m")),),
            node(),
            {"cpu": 600, "pods": 0},
            id="a daemon that asks for more than it did",
        ),
        pytest.param(
            asking("1"),
            (live("a", **asking("3")),),
            node(),
            {"cpu": 0, "pods": 0},
            id="daemons here never free room",
        ),
        pytest.param(asking("1"), (), node([TAINT]), {}, id="a taint keeps it off"),
        pytest.param(
            asking("1", tolerations=[{"operator": "Exists"}]),
            (),
            node([TAINT]),
            {"cpu": 1000, "pods": 1},
            id="a taint that it tolerates",
        ),
        pytest.param(
            asking("1"),
            (),
            node([AVOID]),
            {"cpu": 1000, "pods": 1},
            id="daemons go where others would rather not",
        ),
        pytest.param(
            asking("1", nodeSelector={"gpu": "yes"}), (), node(), {}, id="a label that the node lacks"
        ),
        pytest.param(
            asking("1", affinity=needs({"gpu": "yes"}, {"disk": "ssd"})),
            (),
            node(disk="ssd"),
            {"cpu": 1000, "pods": 1},
            id="one alternative is enough",
        ),
        pytest.param(
            asking("1", nodeSelector={labels.ZONE: "a"}), (), node(), {}, id="a zone that the node lacks"
        ),
    ],
)
def test_still_to_come(
    found: dict[str, Any], here: tuple[Pod, ...], where: Node, expected: dict[str, int]
) -> None:
    """Daemons that belong on an existing node and are not there yet take room."""
    expected_here = expected_daemons(
        daemonset_pods(view_of([daemon_set(**found)])), ignore_device_claims=True
    )

    assert remaining_daemon_resources(StateNode(node=where, pods=here), expected_here.daemons) == expected
