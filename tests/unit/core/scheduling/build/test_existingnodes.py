"""Existing nodes as the solver sees them."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api import labels
from karpenter.api.meta import convert
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.pod import Pod
from karpenter.api.storage import CSINode, PersistentVolumeClaim, StorageClass
from karpenter.core.model.hostportusage import HostPort
from karpenter.core.model.resources import LARGEST
from karpenter.core.scheduling.build.existingnodes import countable_nodes, existing_nodes
from karpenter.core.scheduling.encode.nodeclaimtemplate import daemon_pod
from karpenter.core.state.cluster import view_of
from karpenter.core.state.statenode import StateNode


def node(name: str = "node-1", **allocatable: str) -> Node:
    return convert({"metadata": {"name": name}, "status": {"allocatable": allocatable}}, Node)


def pod(name: str = "web", cpu: str = "1", **spec: object) -> Pod:
    """Return a pod that asks for some cpu."""
    containers = [
        {
            "name": "app",
            "resources": {"requests": {"cpu": cpu}},
            "ports": [{"containerPort": 80, "hostPort": 8080}],
        }
    ]
    plain = {"metadata": {"name": name, "namespace": "shop"}, "spec": {"containers": containers, **spec}}
    return convert(plain, Pod)


def test_what_is_left() -> None:
    """Room is what is left beside bound pods and daemons that are still to come."""
    found = StateNode(node=node(cpu="4", pods="10"), pods=(pod(),))
    (actual,) = existing_nodes([found], [daemon_pod(pod("agent", "500m"))], view_of([]), frozenset())

    assert (actual.free, actual.ports) == ({"cpu": 2500, "pods": 8}, (HostPort(8080),))


def test_what_is_overdrawn_without_end_can_still_be_counted() -> None:
    """However many daemons are to come, what is left can be held in an array."""
    found = StateNode(node=node(cpu="1"))
    daemon = daemon_pod(pod("agent", f"{LARGEST}m"))
    (actual,) = existing_nodes([found], [daemon, daemon], view_of([]), frozenset())

    assert actual.free == {"cpu": -LARGEST}


def test_the_order_of_nodes() -> None:
    """Complete nodes are tried first, then by name."""
    claim: dict[str, Any] = {
        "metadata": {"name": "a"},
        "spec": {"nodeClassRef": {"group": "g", "kind": "K", "name": "n"}, "requirements": []},
        "status": {"providerID": "x"},
    }
    nodes = [StateNode(claim=convert(claim, NodeClaim)), StateNode(node=node("c")), StateNode(node=node("b"))]
    found = existing_nodes(nodes, [], view_of([]), frozenset({"b"}))

    assert [(each.name, each.initialized, each.quiet) for each in found] == [
        ("b", True, True),
        ("c", True, False),
        ("a", False, False),
    ]


def csi(*drivers: dict[str, Any]) -> CSINode:
    return convert({"metadata": {"name": "node-1"}, "spec": {"drivers": list(drivers)}}, CSINode)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(csi({"name": "d", "allocatable": {"count": 5}}), {"d": 5}, id="a driver with a limit"),
        pytest.param(csi({"name": "d", "allocatable": {}}), {}, id="a driver without a count"),
        pytest.param(csi({"name": "d"}), {}, id="a driver without a limit"),
        pytest.param(csi(), {}, id="no driver"),
    ],
)
def test_volume_limits(found: CSINode, expected: dict[str, int]) -> None:
    """How many volumes a driver can attach is read from the node's drivers."""
    (actual,) = existing_nodes([StateNode(node=node())], [], view_of([found]), frozenset())

    assert actual.volume_limits == expected


def test_attached_volumes() -> None:
    """Claims of bound pods are attached already, each counted once."""
    claims = [
        convert(
            {"metadata": {"name": name, "namespace": "shop"}, "spec": {"storageClassName": "c"}},
            PersistentVolumeClaim,
        )
        for name in ("one", "two")
    ]
    storage = convert({"metadata": {"name": "c"}, "provisioner": "d"}, StorageClass)
    mounted = [
        pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}])
        for name, claim in (("a", "one"), ("b", "two"), ("c", "two"))
    ]
    found = StateNode(node=node(), pods=(pod(), *mounted))
    (actual,) = existing_nodes([found], [], view_of([*claims, storage]), frozenset())

    assert actual.volumes == {"d": frozenset({"shop/one", "shop/two"})}


def test_labels_and_taints() -> None:
    """A node is known by its labels, its hostname among them, and its taints."""
    tainted = convert(
        {
            "metadata": {"name": "node-1", "labels": {"team": "web"}},
            "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]},
        },
        Node,
    )
    (actual,) = existing_nodes([StateNode(node=tainted)], [], view_of([]), frozenset())

    assert (actual.labels, [taint.key for taint in actual.taints]) == (
        {labels.HOSTNAME: "node-1", "team": "web"},
        ["x"],
    )


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        pytest.param(
            StateNode(node=node(memory="1e30")),
            "node node-1 takes no pods: resource memory: 1e30 is beyond what can be counted",
            id="an amount that cannot be counted",
        ),
        pytest.param(
            StateNode(node=node(cpu="lots")),
            "node node-1 takes no pods: resource 'cpu': 'lots' is not a quantity",
            id="an amount that is none",
        ),
        pytest.param(
            StateNode(node=node(cpu="4"), pods=(pod(cpu="lots"),)),
            "node node-1 takes no pods: container 'app': resource 'cpu': 'lots' is not a quantity",
            id="a bound pod that cannot be read",
        ),
        pytest.param(
            StateNode(node=node(cpu="4"), pods=(pod(cpu="1e30"),)),
            "node node-1 takes no pods: resource cpu: -9",
            id="a bound pod that cannot be counted",
        ),
    ],
)
def test_nodes_that_cannot_be_counted(found: StateNode, sentence: str) -> None:
    """A node whose amounts cannot be read or counted takes no pods, and is named."""
    kept, left_out = countable_nodes([StateNode(node=node("good", cpu="4")), found])

    assert [each.name for each in kept] == ["good"]
    assert [said[: len(sentence)] for said in left_out] == [sentence]
