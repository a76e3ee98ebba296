"""The rule about nominated pods can be violated."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.meta import FieldOwned, FieldsV1, ManagedFieldsEntry, StatusFields
from karpenter_local.simulation.invariants.workloads import NOMINATED_SECONDS, NOMINATOR, NominationInvariant
from tests.unit.local.simulation.broken import REPLICA, found, node, operator, pod, wrote

if TYPE_CHECKING:
    from karpenter.api.pod import Pod
    from karpenter_local.simulation.cluster import SimulatedCluster
    from karpenter_local.simulation.invariants.invariant import Invariant

SCHEDULER = "kube-scheduler"


def nominated(cluster: SimulatedCluster, to: str = "", by: str = NOMINATOR, **more: Any) -> Pod:
    """Let there be a pod that waits, nominated by a client."""
    made = pod(cluster, "web", phase="Pending", **more)
    fields = FieldsV1(status=StatusFields(nominated_node_name=FieldOwned()))
    entries = (ManagedFieldsEntry(manager=by, fields_v1=fields),) if to else ()
    made = msgspec.structs.replace(
        made,
        metadata=msgspec.structs.replace(made.metadata, managed_fields=entries),
        status=msgspec.structs.replace(made.status, nominated_node_name=to),
    )
    cluster.mirror.pods[made.key] = made
    return made


@pytest.mark.parametrize(
    ("before", "after", "by", "wrong"),
    [
        pytest.param(("", ""), ("a", NOMINATOR), REPLICA, 0, id="the operator nominates"),
        pytest.param(("a", NOMINATOR), ("", ""), REPLICA, 0, id="it withdraws its own"),
        pytest.param(("a", SCHEDULER), ("", ""), REPLICA, 1, id="it withdraws what kube-scheduler set"),
        pytest.param(("a", SCHEDULER), ("b", NOMINATOR), REPLICA, 1, id="it takes the place of that"),
        pytest.param(("a", NOMINATOR), ("b", SCHEDULER), "", 0, id="kube-scheduler does what it likes"),
    ],
)
def test_what_kube_scheduler_nominated_is_left_alone(
    before: tuple[str, str], after: tuple[str, str], by: str, wrong: int
) -> None:
    """It makes room there by preemption."""

    def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        wrote(cluster, judge, nominated(cluster, *before), nominated(cluster, *after), by=by)

    assert len(found(NominationInvariant, scene)) == wrong


def test_a_pod_that_kube_scheduler_does_not_place_is_not_nominated() -> None:
    """A pod with gates is not looked at."""

    def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        gates: dict[str, Any] = {"schedulingGates": [{"name": "held"}]}
        before, after = nominated(cluster, **gates), nominated(cluster, "a", **gates)
        wrote(cluster, judge, before, after, by=REPLICA)

    assert len(found(NominationInvariant, scene)) == 1


@pytest.mark.parametrize(
    ("there", "after", "wrong"),
    [
        pytest.param(True, NOMINATED_SECONDS + 1, 0, id="the node is there"),
        pytest.param(False, NOMINATED_SECONDS - 1, 0, id="it is gone for a moment"),
        pytest.param(False, NOMINATED_SECONDS + 1, 1, id="it is gone for long"),
    ],
)
def test_no_pod_stays_nominated_for_a_node_that_is_gone(there: bool, after: float, wrong: int) -> None:
    """kube-scheduler keeps no room for it, and the next decision counts on none."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        operator(cluster)
        cluster.faulty_until = cluster.clock.monotonic()
        nominated(cluster, "a")
        if there:
            node(cluster, "a")
        judge.on_tick()
        await asyncio.sleep(after)
        judge.on_tick()

    assert len(found(NominationInvariant, scene)) == wrong
