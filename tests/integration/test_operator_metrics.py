"""What metrics and Events tell of a cluster in which pods came, ran and went."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import pytest

from karpenter.cloud.kwok import NeverJoin
from karpenter_local.sandbox.sandbox import Sandbox
from karpenter_local.virtual import run_virtual
from tests.integration.sandboxes import in_sandbox

if TYPE_CHECKING:
    from collections.abc import Mapping

QUIET = {"disable-cluster-state-observability": "true"}


def read(sandbox: Sandbox) -> Mapping[str, float]:
    """Return what Prometheus would read, by series."""
    assert sandbox.leader is not None
    text = sandbox.leader.operator.metrics.exposition().decode()
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def total(shown: Mapping[str, float], name: str, **labels: str) -> float:
    """Return the sum of all series of a metric that have some labels."""
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    return sum(
        value
        for series, value in shown.items()
        if re.fullmatch(rf"{name}(\{{.*\}})?", series) and all(each in series for each in wanted)
    )


@in_sandbox()
async def test_what_metrics_show(sandbox: Sandbox) -> None:
    """Nodes, pods, pools, conditions, the provider and the controllers are all to be seen."""
    await sandbox.create_node_pool(limits={"cpu": "100"})
    await sandbox.deploy(replicas=10)
    await sandbox.until_running(10)
    await asyncio.sleep(30)
    shown, machines = read(sandbox), sandbox.cloud.count()

    assert total(shown, "karpenter_pods_state", phase="Running", managed="true") == 10
    assert total(shown, "karpenter_nodes_total_pod_requests", resource_type="cpu") == 10
    assert total(shown, "karpenter_nodes_allocatable", resource_type="cpu", managed="true") > 10
    assert total(shown, "karpenter_nodes_allocatable", resource_type="cpu", instance_family="") == 0
    assert 0 < total(shown, "karpenter_cluster_utilization_percent", resource_type="cpu") <= 100
    assert total(shown, "karpenter_nodepools_limit", resource_type="cpu") == 100
    assert 0 < total(shown, "karpenter_nodepools_usage", resource_type="cpu") <= 100
    assert total(shown, "karpenter_nodepools_usage", resource_type="nodes") == machines
    assert total(shown, "karpenter_nodepools_cost_total") > 0
    assert total(shown, "karpenter_pods_startup_duration_seconds_count") == 10
    assert total(shown, "karpenter_pods_bound_duration_seconds_count") == 10
    assert total(shown, "karpenter_pods_scheduling_decision_duration_seconds_count") == 10
    assert total(shown, "karpenter_pods_unstarted_time_seconds") == 0
    assert total(shown, "karpenter_cluster_state_synced") == 1
    assert total(shown, "karpenter_cluster_state_node_count") == machines
    created = {"controller": "nodeclaim.lifecycle", "method": "Create", "provider": "kwok"}
    assert total(shown, "karpenter_cloudprovider_duration_seconds_count", **created) == machines
    condition = {"type": "Initialized", "status": "True"}
    assert total(shown, "operator_nodeclaim_status_condition_count", **condition) == machines
    assert total(shown, "operator_nodeclaim_status_condition_transitions_total", **condition) == machines
    assert total(shown, "operator_status_condition_count", kind="NodePool", type="Ready", status="True") == 1
    assert total(shown, "controller_runtime_reconcile_total", controller="nodeclaim.lifecycle") > machines
    assert total(shown, "rest_client_requests_total", method="POST", code="201") >= machines

    for reason in ("Launched", "Registered", "Initialized", "Nominated"):
        assert await sandbox.events(reason)


@in_sandbox(settings=QUIET)
async def test_what_is_left_out_on_request(sandbox: Sandbox) -> None:
    """Without observability there are no series of single objects, and no Events of conditions."""
    await sandbox.create_node_pool()
    await sandbox.deploy(replicas=1)
    await sandbox.until_running(1)
    shown = read(sandbox)

    kinds = ("karpenter_nodes_allocatable", "karpenter_pods_", "karpenter_nodepools_", "operator_")
    counted = "karpenter_pods_nominated_total"  # of all pods together
    assert [each for each in shown if each.startswith(kinds) and not each.startswith(counted)] == []
    assert total(shown, "karpenter_cluster_state_node_count") == 1
    assert not await sandbox.events("Launched")


@pytest.mark.parametrize("zone", ["test-zone-a", ""])
def test_pods_that_wait_are_shown_with_their_zone(zone: str) -> None:
    """While nothing can be launched, metrics show who waits, for how long, and where it could only be."""

    async def scenario() -> None:
        async with Sandbox(name="test") as sandbox:
            sandbox.kwok.control.next("launch", *([NeverJoin()] * 20))
            await sandbox.create_node_pool()
            selector = {"topology.kubernetes.io/zone": zone} if zone else {}
            await sandbox.deploy(replicas=2, nodeSelector=selector)
            await asyncio.sleep(100)
            shown = read(sandbox)

            zones = "karpenter_scheduler_pending_pods_by_effective_zone_count"
            assert total(shown, zones, controller="provisioner", zone=zone or "flexible") == 2
            assert 180 <= total(shown, "karpenter_pods_unbound_time_seconds") <= 200
            assert total(shown, "karpenter_pods_provisioning_scheduling_undecided_time_seconds") == 0

    run_virtual(scenario())
