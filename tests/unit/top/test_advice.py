from __future__ import annotations

from datetime import timedelta
from typing import Any

from karpenter.api.cluster import Event
from karpenter.api.meta import convert
from karpenter.top.advice import MOST_PENDING, last_decisions, pending_pods
from tests.unit.top.clusters import NOW, ago, node, pod, view


def _event(reason: str, seconds: int, **more: Any) -> Event:
    return convert(
        {
            "metadata": {"name": f"{reason}-{seconds}", "namespace": "default"},
            "involvedObject": {"kind": "NodeClaim", "name": "default-1"},
            "reason": reason,
            "message": f"{reason}.",
            "source": {"component": "karpenter"},
            "lastTimestamp": ago(seconds=seconds),
            **more,
        },
        Event,
    )


def test_the_last_decisions_are_those_of_karpenter() -> None:
    """Events of others are left out, the newest comes first, and what is said twice is shown once."""
    found = last_decisions(
        [
            _event("Launched", 60),
            _event("Registered", 5, type="Warning"),
            _event("Launched", 61),
            _event("Pulled", 1, source={"component": "kubelet"}),
            _event("Later", 90, series={"lastObservedTime": ago(seconds=2)}),
        ]
    )
    assert [each.reason for each in found] == ["Later", "Registered", "Launched"]
    assert found[1].warning
    assert found[2].at == NOW - timedelta(seconds=60)
    assert found[2].object == "nodeclaim/default-1"


def test_without_a_nodepool_kube_scheduler_is_quoted() -> None:
    """Where Karpenter has nothing to say, the condition of the pod says why it waits."""
    condition = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available."}
    waiting = view(node("a"), pod("b", conditions=[condition]), pod("c"), pod("d", "a"))
    assert [(each.pod, each.sentence) for each in pending_pods(waiting, None)] == [
        ("default/b", "0/1 nodes are available."),
        ("default/c", "It waits; kube-scheduler has not said why."),
    ]


def test_pods_of_one_workload_share_a_line() -> None:
    """Replicas that wait for the same reason are one line; of a long queue only some are asked about."""
    owner = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1"}]
    pods = [pod(f"web-{number}", metadata={"ownerReferences": owner}) for number in range(MOST_PENDING + 3)]
    first, rest = pending_pods(view(*pods), None)
    assert (first.pod, first.count) == ("default/web-0", MOST_PENDING)
    assert (rest.count, rest.sentence) == (3, "Not looked at.")
