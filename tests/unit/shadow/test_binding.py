"""Where kube-scheduler would bind pods, as a shadow takes it."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.manifests import documents, read_object, render_documents
from karpenter.core.provisioning.provisioner import ProvisioningSettings
from karpenter.core.state.cluster import ClusterView, view_of
from karpenter.shadow.binding import bind_pods, least_wanted
from tests.unit.changeover.objects import NOW, machine, pod

SELF = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [SELF]}}


def view(*plain: dict[str, Any]) -> ClusterView:
    found = [read_object(each) for each in documents(render_documents(list(plain)), "test")]
    return view_of([each for each in found if each is not None])


def waiting(name: str, **spec: Any) -> dict[str, Any]:
    body = pod(name, "", cpu="2")
    body["metadata"]["labels"] = {"app": "web"}
    body["spec"] |= spec
    body["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    }
    return body


def alone(name: str, node: str) -> dict[str, Any]:
    body = pod(name, node, cpu="4")
    body["metadata"]["ownerReferences"] = []
    return body


@pytest.mark.parametrize(
    ("spec", "node"),
    [
        pytest.param({}, "b", id="the node with more room takes it"),
        pytest.param({"nodeSelector": {"kubernetes.io/hostname": "a"}}, "a", id="a selector is kept"),
        pytest.param({"nodeSelector": {"colour": "red"}}, None, id="a selector that no node has"),
        pytest.param({"affinity": APART}, "a", id="apart from a pod of its kind"),
    ],
)
def test_where_a_pod_goes(spec: dict[str, Any], node: str | None) -> None:
    """Node a has more on it; node b has a pod of the same label."""
    there = pod("other", "b")
    there["metadata"]["labels"] = {"app": "web"}
    found = view(*machine("a"), *machine("b"), pod("busy", "a", cpu="8"), there, waiting("new", **spec))

    bound = bind_pods(found, [found.pods["default/new"]], NOW, ProvisioningSettings())

    assert bound == ({"default/new": node} if node else {})


def test_a_tainted_node_takes_nothing() -> None:
    """A node that a command has tainted takes no pod, and neither does one that is too full."""
    claim, node = machine("a")
    node["spec"]["taints"] = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
    found = view(claim, node, *machine("b"), pod("busy", "b", cpu="15"), waiting("new"))

    assert bind_pods(found, [found.pods["default/new"]], NOW, ProvisioningSettings()) == {}


def test_replicas_are_spread_over_nodes_and_zones() -> None:
    """Pods of one controller go to different nodes, though one of the nodes has more room."""
    claim, node = machine("c")
    for each in (claim, node):
        each["metadata"]["labels"]["topology.kubernetes.io/zone"] = "test-zone-b"
    found = view(
        *machine("a"),
        *machine("b"),
        claim,
        node,
        alone("busy", "b"),
        *(waiting(f"w-{at}") for at in range(3)),
    )

    bound = bind_pods(found, [found.pods[f"default/w-{at}"] for at in range(3)], NOW, ProvisioningSettings())

    assert sorted(bound.values()) == ["a", "b", "c"]
    assert {bound["default/w-0"], bound["default/w-1"]} == {"a", "c"}  # another zone before another node


def test_a_node_that_discourages_pods_comes_last() -> None:
    """PreferNoSchedule weighs more than a little room; a pod that tolerates it does not mind."""
    claim, node = machine("a")
    node["spec"]["taints"] = [{"key": "karpenter.sh/emptying", "effect": "PreferNoSchedule"}]
    calm = waiting("calm", tolerations=[{"operator": "Exists"}])
    found = view(claim, node, *machine("b"), alone("busy", "b"), waiting("new"), calm)

    for name, expected in (("new", "b"), ("calm", "a")):
        bound = bind_pods(found, [found.pods[f"default/{name}"]], NOW, ProvisioningSettings())
        assert bound == {f"default/{name}": expected}


def ready(name: str, node: str, since: str, cost: str = "") -> dict[str, Any]:
    body = pod(name, node)
    body["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": cost} if cost else {}
    body["status"]["conditions"] = [
        {"type": "Ready", "status": "True", "lastTransitionTime": f"2026-03-01T{since}:00Z"}
    ]
    return body


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([ready("old", "a", "09:00"), waiting("gone")], id="one without a node"),
        pytest.param([ready("old", "a", "09:00"), pod("gone", "b")], id="one that is not ready"),
        pytest.param(
            [ready("gone", "a", "08:00", cost="-5"), ready("new", "b", "09:00", cost="much")],
            id="one that costs less; what is no number costs nothing",
        ),
        pytest.param(
            [ready("gone", "a", "09:00"), ready("oldest", "a", "08:00"), ready("new", "b", "10:00")],
            id="of the node with more of its pods, the youngest",
        ),
        pytest.param([ready("old", "a", "08:00"), ready("gone", "b", "09:00")], id="the youngest"),
    ],
)
def test_which_pod_a_replicaset_gives_up(pods: list[dict[str, Any]]) -> None:
    """The ranks are those of the ReplicaSet controller."""
    assert least_wanted(view(*pods).pods.values()).name == "gone"
