"""Nodes and claims, joined into one."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api import labels
from karpenter.api.meta import convert
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.core.state.cluster import view_of
from karpenter.core.state.statenode import StateNode, set_state_nodes, state_nodes
from karpenter_local.testing.builders import manifest_pod

REF = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
STEPS = {"registered": labels.REGISTERED, "initialized": labels.INITIALIZED}


def node(
    *steps: str,
    name: str = "node-1",
    meta: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **spec: object,
) -> Node:
    """Return a node that has taken some steps of its start."""
    own = {"team": "node", **{STEPS[step]: "true" for step in steps}}
    plain = {
        "metadata": {"name": name, "labels": own, "annotations": {"from": "node"}, **(meta or {})},
        "spec": {"providerID": "kwok://1", **spec},
        "status": status or {},
    }
    return convert(plain, Node)


def claim(
    *,
    name: str = "claim-1",
    meta: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **spec: object,
) -> NodeClaim:
    own = {"team": "claim", labels.NODEPOOL: "default"}
    plain = {
        "metadata": {"name": name, "labels": own, "annotations": {"from": "claim"}, **(meta or {})},
        "spec": {"nodeClassRef": REF, "requirements": [], **spec},
        "status": {"providerID": "kwok://1", **(status or {})},
    }
    return convert(plain, NodeClaim)


COMPLETE = ("registered", "initialized")
OURS = StateNode(node=node(*COMPLETE), claim=claim())
STARTING = StateNode(node=node("registered"), claim=claim())
JOINED = StateNode(node=node(), claim=claim())
AWAITED = StateNode(claim=claim())
THEIRS = StateNode(node=node())


@pytest.mark.parametrize(
    ("found", "managed", "registered", "initialized"),
    [
        pytest.param(OURS, True, True, True, id="a complete node of ours"),
        pytest.param(STARTING, True, True, False, id="a registered node that is not complete"),
        pytest.param(JOINED, True, False, False, id="a node that has joined but is not registered"),
        pytest.param(AWAITED, True, False, False, id="a claim without a node"),
        pytest.param(THEIRS, False, True, True, id="somebody else's node is always complete"),
    ],
)
def test_steps(found: StateNode, managed: bool, registered: bool, initialized: bool) -> None:
    """A machine of ours is registered and complete when its node says so."""
    assert (found.is_managed, found.is_registered, found.is_initialized) == (managed, registered, initialized)


@pytest.mark.parametrize(
    ("found", "name", "team", "source"),
    [
        pytest.param(OURS, "node-1", "node", "node", id="the node speaks once it is registered"),
        pytest.param(STARTING, "node-1", "node", "node", id="also before it is complete"),
        pytest.param(JOINED, "node-1", "claim", "claim", id="before that the claim speaks for it"),
        pytest.param(AWAITED, "claim-1", "claim", "claim", id="and where there is no node"),
        pytest.param(THEIRS, "node-1", "node", "node", id="other people's nodes speak for themselves"),
    ],
)
def test_who_speaks(found: StateNode, name: str, team: str, source: str) -> None:
    """Labels and annotations are the claim's until the node has registered."""
    actual = (found.name, found.labels["team"], found.annotations["from"])

    assert actual == (name, team, source)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(OURS, "node-1", id="the name where no label says otherwise"),
        pytest.param(
            StateNode(node=node(meta={"labels": {labels.HOSTNAME: "ip-10-0-0-1"}})),
            "ip-10-0-0-1",
            id="the label",
        ),
        pytest.param(AWAITED, "claim-1", id="the claim's name while there is no node"),
    ],
)
def test_hostname(found: StateNode, expected: str) -> None:
    """Every node has a hostname, its label or else its name."""
    assert found.labels[labels.HOSTNAME] == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(OURS, "", id="a node without a pool label"),
        pytest.param(AWAITED, "default", id="a claim of a pool"),
        pytest.param(
            StateNode(node=node(meta={"labels": {labels.NODEPOOL: "default"}})),
            "",
            id="a node without a claim",
        ),
    ],
)
def test_pool(found: StateNode, expected: str) -> None:
    """Only machines of ours belong to a pool."""
    assert found.pool == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(OURS, False, id="stays"),
        pytest.param(
            StateNode(node=node(*COMPLETE), claim=claim(meta=GONE)), True, id="its claim is deleted"
        ),
        pytest.param(
            StateNode(
                node=node(*COMPLETE),
                claim=claim(status={"conditions": [{"type": "InstanceTerminating", "status": "True"}]}),
            ),
            True,
            id="its machine is terminating",
        ),
        pytest.param(
            StateNode(
                claim=claim(status={"conditions": [{"type": "InstanceTerminating", "status": "False"}]})
            ),
            False,
            id="its machine is not terminating",
        ),
        pytest.param(StateNode(node=node(meta=GONE)), True, id="somebody else's node is deleted"),
        pytest.param(StateNode(node=node(meta=GONE), claim=claim()), True, id="its node is deleted"),
        pytest.param(
            StateNode(node=node(*COMPLETE), claim=claim(), marked=True),
            True,
            id="it was decided that it goes",
        ),
    ],
)
def test_leaving(found: StateNode, expected: bool) -> None:
    """A machine leaves when either half of it is deleted, or its instance terminates."""
    assert found.is_deleting is expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(AWAITED, False, id="no node"),
        pytest.param(OURS, False, id="nothing is said"),
        pytest.param(
            StateNode(node=node(status={"conditions": [{"type": "Ready", "status": "True"}]})),
            True,
            id="ready",
        ),
        pytest.param(
            StateNode(node=node(status={"conditions": [{"type": "Ready", "status": "Unknown"}]})),
            False,
            id="unknown",
        ),
    ],
)
def test_ready(found: StateNode, expected: bool) -> None:
    """A node is ready when its kubelet says so."""
    assert found.is_ready is expected


OWN = {"key": "own", "effect": "NoSchedule"}
STARTUP = {"key": "startup", "effect": "NoSchedule"}
NOT_READY = {"key": labels.NOT_READY, "effect": "NoSchedule"}
GATE = {"key": f"{labels.READINESS_TAINT_PREFIX}network", "effect": "NoSchedule"}
UNREGISTERED = {"key": labels.UNREGISTERED, "effect": "NoExecute"}
TAINTED = claim(taints=[OWN], startupTaints=[{**STARTUP, "value": "x"}])


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(StateNode(claim=TAINTED), ["own"], id="those of the claim where there is no node"),
        pytest.param(
            StateNode(node=node(taints=[UNREGISTERED, NOT_READY]), claim=TAINTED),
            ["own"],
            id="those of the claim until the node is registered",
        ),
        pytest.param(
            StateNode(node=node("registered", taints=[OWN, STARTUP, NOT_READY, GATE]), claim=TAINTED),
            ["own"],
            id="startup and passing taints do not count while a node of ours starts",
        ),
        pytest.param(
            StateNode(node=node(*COMPLETE, taints=[OWN, STARTUP, NOT_READY, GATE]), claim=TAINTED),
            ["own", "startup", labels.NOT_READY, GATE["key"]],
            id="all count once it is complete",
        ),
        pytest.param(
            StateNode(node=node(taints=[NOT_READY])),
            [labels.NOT_READY],
            id="all count on other people's nodes",
        ),
        pytest.param(
            StateNode(node=node(unschedulable=True)),
            ["node.kubernetes.io/unschedulable"],
            id="a cordoned node is tainted",
        ),
        pytest.param(
            StateNode(
                node=node(
                    unschedulable=True,
                    taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
                )
            ),
            ["node.kubernetes.io/unschedulable"],
            id="a cordoned node is tainted once",
        ),
    ],
)
def test_taints(found: StateNode, expected: list[str]) -> None:
    """Taints are those that will keep pods off once the node is up."""
    assert [taint.key for taint in found.taints] == expected


SIZE = {"cpu": "4", "example.com/gpu": "2"}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(
            StateNode(claim=claim(status={"capacity": SIZE, "allocatable": SIZE})),
            {"cpu": 4000, "example.com/gpu": 2},
            id="the claim's where there is no node",
        ),
        pytest.param(
            StateNode(
                node=node(
                    "registered",
                    status={
                        "capacity": {"cpu": "3", "example.com/gpu": "0"},
                        "allocatable": {"cpu": "3", "example.com/gpu": "0"},
                    },
                ),
                claim=claim(status={"capacity": SIZE, "allocatable": SIZE}),
            ),
            {"cpu": 3000, "example.com/gpu": 2},
            id="the claim's where a starting node has nothing to show yet",
        ),
        pytest.param(
            StateNode(
                node=node("registered", status={"capacity": {"x": "0"}, "allocatable": {"x": "0"}}),
                claim=claim(status={"capacity": {}, "allocatable": {}}),
            ),
            {"x": 0},
            id="zero where neither has any",
        ),
        pytest.param(
            StateNode(
                node=node(*COMPLETE, status={"capacity": {"cpu": "3"}, "allocatable": {"cpu": "3"}}),
                claim=claim(status={"capacity": SIZE, "allocatable": SIZE}),
            ),
            {"cpu": 3000},
            id="the node's once it is complete",
        ),
        pytest.param(
            StateNode(node=node(status={"capacity": {"cpu": "3"}, "allocatable": {"cpu": "3"}})),
            {"cpu": 3000},
            id="the node's where it is somebody else's",
        ),
    ],
)
def test_amounts(found: StateNode, expected: dict[str, int]) -> None:
    """A node's amounts count, the claim's fill what a starting node lacks; a machine is one of ``nodes``."""
    assert (found.allocatable, found.capacity) == (expected, {**expected, labels.NODES: 1})


def test_available() -> None:
    """What is left is what pods that are bound leave over; resources nobody offers are not owed."""
    daemon = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1"}]}
    found = StateNode(
        node=node(status={"allocatable": {"cpu": "4", "memory": "1Gi"}}),
        pods=(
            manifest_pod("one", node="node-1", cpu="1"),
            manifest_pod("two", node="node-1", cpu="500m", meta=daemon),
        ),
    )

    assert (found.available, found.daemon_requests) == (
        {"cpu": 2500, "memory": 2**30},
        {"cpu": 500, "pods": 1},
    )


def test_nodes_and_claims_are_joined_by_provider_id() -> None:
    """One machine is one node, whatever its two halves are called."""
    found = state_nodes(view_of([node(), claim(), manifest_pod("one", node="node-1", cpu="1")]))

    assert [(n.name, n.is_managed, len(n.pods)) for n in found] == [("node-1", True, 1)]


def test_a_claim_may_name_a_node_that_does_not_say_which_machine_it_is() -> None:
    """A node without a provider id belongs to the claim that names it, and is counted once."""
    found = state_nodes(view_of([node(providerID=""), claim(status={"nodeName": "node-1"})]))

    assert [(n.name, n.is_managed) for n in found] == [("node-1", True)]


def test_other_machines_are_not_joined() -> None:
    """A node of another machine is somebody else's; machines are sorted by name."""
    found = state_nodes(view_of([node(providerID="kwok://2"), claim(status={"nodeName": "node-9"})]))

    assert [(n.name, n.is_managed) for n in found] == [("claim-1", True), ("node-1", False)]


def test_claims_that_were_not_launched_are_no_machines() -> None:
    """Without a provider id there is nothing yet."""
    assert state_nodes(view_of([claim(status={"providerID": ""})])) == ()


def test_pods_may_be_bound_before_the_node_was_seen() -> None:
    """Pods on the node that a claim names are on that machine."""
    found = state_nodes(
        view_of([claim(status={"nodeName": "node-1"}), manifest_pod("one", node="node-1", cpu="1")])
    )

    assert [pod.name for pod in found[0].pods] == ["one"]


def test_nodes_of_a_view_are_joined_once() -> None:
    """Asking a view twice gives the same nodes."""
    view = view_of([node(), claim()])

    assert state_nodes(view) is state_nodes(view)


def test_nodes_that_were_joined_beforehand() -> None:
    """Whoever keeps the state may tell a view its nodes."""
    view = view_of([node(), claim()])
    set_state_nodes(view, (AWAITED,))

    assert state_nodes(view) == (AWAITED,)
