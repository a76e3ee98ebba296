"""Nodes as metrics show them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from karpenter.api.labels import INSTANCE_TYPE, NODEPOOL
from karpenter.controllers.metrics.node import NodeMetrics
from karpenter.core.state.cluster import ObjectDeleted, ObjectUpdated
from karpenter.telemetry.metrics import nodes as declared
from tests.unit.controllers.metrics.harness import Showing
from tests.unit.core.lifecycle.objects import at, complete, node, pod
from tests.unit.telemetry.clocks import NOON

DAEMON = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}]}
BOTH: dict[str, Any] = {
    "containers": [
        {"name": "app", "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1Gi"}}}
    ]
}
MEANWHILE = at(NOON - timedelta(seconds=90))


def shown() -> Showing:
    """Return a node with a pod and a daemon, as it is shown."""
    found = Showing()
    there = node(
        meta={
            "labels": {
                NODEPOOL: "default",
                INSTANCE_TYPE: "m-4x",
                "karpenter.sh/registered": "true",
                "karpenter.sh/initialized": "true",
            },
            "creationTimestamp": MEANWHILE,
        },
        status={
            "phase": "Running",
            "capacity": {"cpu": "4", "memory": "8Gi"},
            "allocatable": {"cpu": "3900m", "memory": "7Gi", "ephemeral-storage": "1Gi"},
        },
    )
    for each in (there, complete(), pod(spec=BOTH), pod("daemon", meta=DAEMON, spec=BOTH)):
        found.store.apply(ObjectUpdated(each))
    NodeMetrics(found.store, found.metrics, found.clock)
    return found


def test_room_and_what_is_asked_for() -> None:
    """A node shows its room, what all pods and daemons ask for and may use, and what it keeps for itself."""
    found = shown()
    cpu = {
        each: found.rows(each, "resource_type")[("cpu",)]
        for each in (
            declared.ALLOCATABLE,
            declared.TOTAL_POD_REQUESTS,
            declared.TOTAL_POD_LIMITS,
            declared.TOTAL_DAEMON_REQUESTS,
            declared.TOTAL_DAEMON_LIMITS,
            declared.SYSTEM_OVERHEAD,
        )
    }

    assert list(cpu.values()) == [3.9, 1.0, 2.0, 0.5, 1.0, 0.1]
    assert found.rows(declared.SYSTEM_OVERHEAD, "resource_type")[("memory",)] == 2.0**30
    assert found.rows(declared.UTILIZATION, "resource_type")[("cpu",)] == 25.641
    assert ("ephemeral_storage",) in found.rows(declared.ALLOCATABLE, "resource_type")


def test_labels() -> None:
    """A node is shown with its well-known labels, its name, its phase and whether it is ours."""
    rows = shown().rows(
        declared.CURRENT_LIFETIME, "node_name", "nodepool", "instance_type", "phase", "managed"
    )

    assert rows == {("node-1", "default", "m-4x", "Running", "true"): 90.007}


def test_what_changes_and_goes() -> None:
    """A node that changes is shown as it is now; one that is gone is not shown."""
    found = shown()
    assert found.rows(declared.TOTAL_POD_REQUESTS, "resource_type")[("cpu",)] == 1.0
    found.store.apply(ObjectUpdated(pod("second", spec=BOTH)))
    assert found.rows(declared.TOTAL_POD_REQUESTS, "resource_type")[("cpu",)] == 1.5

    found.store.apply(ObjectDeleted(node()))
    for gauge in (declared.TOTAL_POD_REQUESTS, declared.CURRENT_LIFETIME, declared.ALLOCATABLE):
        assert found.rows(gauge) == {}
    assert found.rows(declared.UTILIZATION) == {}


def test_a_node_that_cannot_be_read() -> None:
    """A node whose amounts make no sense is shown without them."""
    found = shown()
    found.store.apply(ObjectUpdated(node(status={"allocatable": {"cpu": "lots"}})))

    assert found.rows(declared.ALLOCATABLE) == {}
    assert len(found.rows(declared.CURRENT_LIFETIME)) == 1


def test_nodes_of_others() -> None:
    """A node without a claim is shown, and said to be nobody's."""
    found = Showing()
    NodeMetrics(found.store, found.metrics, found.clock)
    found.store.apply(ObjectUpdated(node(meta={"creationTimestamp": None})))

    assert found.rows(declared.CURRENT_LIFETIME, "managed") == {("false",): 0.0}
