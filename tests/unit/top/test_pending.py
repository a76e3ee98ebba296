"""Pods that wait, by workload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter.top.pending import pending_pods
from tests.unit.console.clusters import inquiry
from tests.unit.top.clusters import node, pod, view
from tests.unit.why import clusters

if TYPE_CHECKING:
    from pathlib import Path

    from karpenter.top.pending import PendingPod

OWNER: dict[str, Any] = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1"}
OWNED = {"ownerReferences": [{**OWNER, "controller": True}]}


def decided(objects: list[dict[str, Any]], folder: Path) -> tuple[PendingPod, ...]:
    asked = inquiry(objects, folder)
    return pending_pods(asked.view, asked.provision(asked.view))


def test_without_a_nodepool_kube_scheduler_is_quoted() -> None:
    """Where Karpenter has nothing to say, the condition of the pod says why it waits."""
    condition = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available."}
    waiting = view(node("a"), pod("b", conditions=[condition]), pod("c"), pod("d", "a"))
    assert [(each.pod, each.sentence) for each in pending_pods(waiting, None)] == [
        ("default/b", "0/1 nodes are available."),
        ("default/c", "It waits; kube-scheduler has not said why."),
    ]


def test_thousands_of_pods_of_one_workload_are_one_row() -> None:
    """Replicas that wait for the same reason are one row, however many they are."""
    (found,) = pending_pods(view(*(pod(f"web-{number}", metadata=OWNED) for number in range(3000))), None)

    assert (found.pod, found.count, found.name) == ("default/web-0", 3000, "web x 3,000")


def test_the_nearest_nodepool_is_the_cause(tmp_path: Path) -> None:
    """A NodePool that is meant for other pods is told last; the cause is what the nearest one lacks."""
    taint = [{"key": "critical", "effect": "NoSchedule"}]
    other = clusters.pool("critical")
    other["spec"]["template"]["spec"]["taints"] = taint
    objects = [other, clusters.pool("general"), clusters.pod("huge", "900")]
    (found,) = decided(objects, tmp_path)

    assert found.cause.startswith("wants cpu 900, the most is ")
    assert found.cause.endswith("(NodePool general; 1 other NodePool cannot either)")
    assert found.sentence.startswith("It waits and has no place: NodePool general: the pod is too large")
    assert "NodePool critical: the pod does not tolerate" in found.sentence


def test_pods_with_several_places_are_one_row(tmp_path: Path) -> None:
    """Replicas that go to several nodes are told together; a pod that goes to one is told where."""
    pods = [clusters.pod(f"web-{number}", "9", metadata=OWNED) for number in range(4)]
    found = {each.name: each for each in decided([clusters.pool(), *pods, clusters.pod("a")], tmp_path)}

    assert found["web x 4"].sentence.startswith("They will run on ")
    assert found["web x 4"].cause == "on 4 new nodes of NodePool default"
    assert found["a"].sentence.startswith("It will run on a new ")
    assert all(each.placed for each in found.values())


def test_pods_without_a_place_come_first(tmp_path: Path) -> None:
    """What needs a person is told before what Karpenter does by itself."""
    found = decided([clusters.pool(), clusters.pod("small"), clusters.pod("huge", "900")], tmp_path)

    assert [each.name for each in found] == ["huge", "small"]


def test_a_gated_pod_says_what_it_waits_for(tmp_path: Path) -> None:
    """A pod that nothing is decided about has the words of karpenter why."""
    (found,) = decided([clusters.pool(), clusters.pod("a", schedulingGates=[{"name": "quota"}])], tmp_path)

    assert "scheduling gates go: quota" in found.cause


def test_a_pod_that_runs_without_a_node_does_not_wait() -> None:
    """The pod of an operator that runs beside the cluster has no node, and waits for none."""
    assert not pending_pods(view(pod("karpenter", phase="Running")), None)
