"""Where kube-scheduler would bind pods, as a shadow takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.manifests import documents, read_object, render_documents
from karpenter.core.provisioning.provisioner import ProvisioningSettings
from karpenter.core.state.cluster import view_of
from karpenter.shadow.binding import bind_pods
from tests.unit.changeover.objects import NOW, machine, pod

if TYPE_CHECKING:
    from karpenter.core.state.cluster import ClusterView

SELF = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [SELF]}}


def view(*plain: dict[str, Any]) -> ClusterView:
    """Return a cluster of these objects."""
    found = [read_object(each) for each in documents(render_documents(list(plain)), "test")]
    return view_of([each for each in found if each is not None])


def waiting(name: str, **spec: Any) -> dict[str, Any]:
    """Return a pod that waits."""
    body = pod(name, "", cpu="2")
    body["metadata"]["labels"] = {"app": "web"}
    body["spec"] |= spec
    body["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    }
    return body


@pytest.mark.parametrize(
    ("spec", "node"),
    [
        pytest.param({}, "b", id="the least allocated node takes it"),
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
