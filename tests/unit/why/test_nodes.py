"""Why a node stays, how far a NodeClaim is, and why a NodePool is not used: each sentence once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.why.clusters import answer, machine, pod, pool

if TYPE_CHECKING:
    from pathlib import Path

PDB = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 0},
}
OWNED = {
    "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}
    ]
}
OFFICE_HOURS = {"budgets": [{"nodes": "0", "schedule": "0 9 * * 1-5", "duration": "8h"}]}
HELD = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
STARTUP = [{"key": "cni", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("objects", "said", "because"),
    [
        pytest.param(
            [pool(), *machine("n"), pod("a", "3", nodeName="n")],
            "It stays: no cheaper machine would do: the cheapest is four for $0.1000 an hour, and this costs "
            "$0.1000.",
            "NodePool default bought it as NodeClaim claim-n for pods that requested cpu 3, memory 2Gi",
            id="there is no saving",
        ),
        pytest.param(
            [pool(), *machine("n")],
            "It would go now (Empty), which saves $73.00 a month.",
            "no pod runs on it",
            id="it goes",
        ),
        pytest.param(
            [pool(disruption=OFFICE_HOURS), *machine("n")],
            "It stays: the disruption budget of NodePool default (0 nodes during 8h0m0s from 0 9 * * 1-5) "
            "allows no more for Empty.",
            "the budgets of NodePool default let a node go next at 2026-03-02T17:00:00Z",
            id="a budget window",
        ),
        pytest.param(
            [pool(disruption={"budgets": [{"nodes": "0"}]}), *machine("n")],
            "It stays: the disruption budget of NodePool default (0 nodes) allows no more for Empty.",
            "the budgets of NodePool default do not open by themselves",
            id="a budget without a window",
        ),
        pytest.param(
            [pool(), *machine("n"), pod("a", nodeName="n", metadata=HELD)],
            "It stays: pod default/a must not be disrupted: karpenter.sh/do-not-disrupt is true.",
            "as long as it stays it costs $73.00 a month",
            id="a pod",
        ),
        pytest.param(
            [
                pool(),
                *machine("n"),
                PDB,
                pod("a", nodeName="n", metadata={"labels": {"app": "web"}, **OWNED}),
                pod("b", nodeName="n", metadata={"labels": {"app": "web"}, **OWNED}),
            ],
            "It stays: PodDisruptionBudget default/web prevents the eviction of pod default/a.",
            "2 pods run on it: ReplicaSet default/web x 2",
            id="a PodDisruptionBudget",
        ),
        pytest.param(
            [machine("n")[1]],
            "It stays: it has no NodeClaim, so Karpenter neither bought it nor removes it.",
            "it is four, zone-a, on-demand",
            id="it is not ours",
        ),
    ],
)
def test_says_why_a_node_stays(
    objects: list[dict[str, Any]], said: str, because: str, tmp_path: Path
) -> None:
    """A node is told what holds it, who uses it and what that costs."""
    found = answer("node/n", objects, tmp_path)
    assert (found["placed"], found["answer"]) == (True, said)
    assert because in found["because"]


def test_a_node_has_its_price_by_the_month(tmp_path: Path) -> None:
    """The price per month is 730 hours of the offering, and null where the type is not in the catalogue."""
    assert answer("node/n", [pool(), *machine("n"), pod("a", nodeName="n")], tmp_path)["monthly"] == 73.0
    unknown = machine("n")
    for each in unknown:
        each["metadata"]["labels"]["node.kubernetes.io/instance-type"] = "gone"
    assert answer("node/n", [pool(), *unknown, pod("a", nodeName="n")], tmp_path)["monthly"] is None


def test_a_node_that_goes_has_the_price_that_its_going_saves(tmp_path: Path) -> None:
    """Both are whole prices, of a node that is empty or expired, annotations of its NodePool included."""
    own = pool()
    own["metadata"]["annotations"] = {"karpenter.sh/node-price": "0.1"}
    claim, node = machine("n")
    empty = answer("node/n", [own, claim, node], tmp_path)
    claim["spec"]["expireAfter"] = "1h"
    expired = answer("node/n", [own, claim, node], tmp_path)

    assert [each["answer"] for each in (empty, expired)] == [
        "It would go now (Empty), which saves $146.00 a month.",
        "It would go now (Expired), which saves $146.00 a month.",
    ]
    assert [each["monthly"] for each in (empty, expired)] == [146.0, 146.0]


@pytest.mark.parametrize(
    ("objects", "said", "because"),
    [
        pytest.param(
            machine("n", steps=0, node=False),
            "It is not launched yet.",
            ["it waits for the provider to launch an instance for cpu 3, memory 2Gi"],
            id="not launched",
        ),
        pytest.param(
            machine("n", steps=1, node=False),
            "It is not registered yet.",
            [
                "its instance kwok://n has not joined the cluster as a node",
                "it is deleted and bought again in 300 s if it does not join",
            ],
            id="not registered",
        ),
        pytest.param(
            machine("n", steps=2, ready="False"),
            "It is not initialized yet.",
            ["node n is not Ready"],
            id="not ready",
        ),
        pytest.param(
            machine("n", steps=2, taints=STARTUP, claim={"startupTaints": STARTUP}),
            "It is not initialized yet.",
            ["the startup taint cni:NoSchedule is still on node n"],
            id="a startup taint",
        ),
        pytest.param(
            machine("n", steps=2, claim={"resources": {"requests": {"nvidia.com/gpu": "1"}}}),
            "It is not initialized yet.",
            ["node n does not report nvidia.com/gpu yet"],
            id="a device is missing",
        ),
        pytest.param(machine("n"), "It is initialized; it is node n.", [], id="initialized"),
    ],
)
def test_says_how_far_a_node_claim_is(
    objects: list[dict[str, Any]], said: str, because: list[str], tmp_path: Path
) -> None:
    """A NodeClaim is told its next step and what that waits for."""
    found = answer("nodeclaim/claim-n", [pool(), *objects], tmp_path)
    assert (found["answer"], found["because"]) == (said, because)
    assert found["placed"] == (not because)


def test_names_the_pods_of_a_node_claim_that_is_being_deleted(tmp_path: Path) -> None:
    """A NodeClaim that is being deleted waits for the pods on its node."""
    claim, node = machine("n")
    claim["metadata"] |= {
        "deletionTimestamp": "2026-03-02T11:59:00Z",
        "finalizers": ["karpenter.sh/termination"],
    }
    found = answer("nodeclaim/claim-n", [pool(), claim, node, pod("a", nodeName="n")], tmp_path)
    assert found["answer"] == "It is being deleted."
    assert found["because"] == ["these pods are still on its node: default/a"]


@pytest.mark.parametrize(
    ("objects", "placed", "said"),
    [
        pytest.param([pool()], False, "It is not used: no pod waits.", id="no pod waits"),
        pytest.param(
            [pool(), *machine("n")],
            True,
            "It is used, and buys nothing now: no pod waits.",
            id="it has nodes",
        ),
        pytest.param(
            [pool(replicas=2)],
            False,
            "It is not used: it is static: its nodes are not launched for pods.",
            id="it is static",
        ),
        pytest.param(
            [pool(), pod("a")],
            True,
            "It would buy 1 node for 1 pod now, for $73.00 a month.",
            id="it buys",
        ),
        pytest.param(
            [pool("other", weight=10), pool(), pod("a")],
            False,
            "It buys nothing now: the pods that wait go elsewhere.",
            id="another NodePool is first",
        ),
        pytest.param(
            [pool(limits={"cpu": "4"}), *machine("n"), pod("x", "4", nodeName="n"), pod("a")],
            False,
            "It buys nothing now: it cannot serve the pods that wait.",
            id="it is at its limit",
        ),
    ],
)
def test_says_why_a_node_pool_is_not_used(
    objects: list[dict[str, Any]], placed: bool, said: str, tmp_path: Path
) -> None:
    """A NodePool is told what it buys, or why it buys nothing."""
    found = answer("nodepool/default", objects, tmp_path)
    assert (found["placed"], found["answer"]) == (placed, said)


def test_says_that_a_node_pool_is_at_its_limit(tmp_path: Path) -> None:
    """The limit is named with its amount, and each reason with how many pods it keeps out."""
    objects = [pool(limits={"cpu": "4"}), *machine("n"), pod("x", "4", nodeName="n"), pod("a"), pod("b")]
    found = answer("nodepool/default", objects, tmp_path)
    assert [(each["code"], each["message"]) for each in found["nodePools"]] == [
        ("LimitReached", "2 pods: pool default is at its limit of 4 cpu")
    ]


def test_a_node_claim_whose_node_went_is_told_so(tmp_path: Path) -> None:
    """A NodeClaim that was registered and has no Node any more waits for it."""
    found = answer("nodeclaim/claim-n", [pool(), *machine("n", steps=2, node=False)], tmp_path)
    assert (found["answer"], found["because"]) == ("It is not initialized yet.", ["its node is not there"])
