"""Rules about what leaves: in which order, in time, not before its time, and not what is needed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.kube.transport import Request, Response
from karpenter_local.sandbox.operators import REPLICA as ACTING
from karpenter_local.simulation.invariants.disruption import ExplainedInvariant, ValidityInvariant
from karpenter_local.simulation.invariants.draining import CRITICAL, DrainInvariant, ProtectionInvariant
from karpenter_local.simulation.invariants.machines import (
    InitializedInvariant,
    LaunchedOnceInvariant,
    StaticPoolInvariant,
)
from karpenter_local.simulation.mirror import ObjectWrite
from tests.unit.local.simulation.broken import (
    LONG,
    REPLICA,
    asked,
    claim,
    found,
    machine,
    node,
    operator,
    pod,
    pool,
    wrote,
)

if TYPE_CHECKING:
    from karpenter_local.simulation.cluster import SimulatedCluster
    from karpenter_local.simulation.invariants.invariant import Invariant

VITAL = {"priorityClassName": CRITICAL}
EVENTS = "/api/v1/namespaces/default/events"
STARTS = ("node.kubernetes.io/not-ready",)
EVICTION = "/api/v1/namespaces/default/pods/web/eviction"


def a_node(cluster: SimulatedCluster, judge: Invariant, *states: str, **more: Any) -> None:
    """Let there be a machine with its claim and its node, called a."""
    machine(cluster, "a")
    claim(cluster, "a", *states)
    wrote(cluster, judge, None, node(cluster, "a", **more))


async def evicted(cluster: SimulatedCluster, judge: Invariant, after: float, **more: Any) -> None:
    """Let the operator evict the pod web from machine a, a while after it came."""
    before = pod(cluster, "web", on="a", **more)
    wrote(cluster, judge, None, before)
    await asyncio.sleep(after)
    judge.on_write(ObjectWrite(before, None))
    token = ACTING.set(REPLICA)
    judge.on_call(*asked("POST", EVICTION))
    ACTING.reset(token)


@pytest.mark.parametrize(
    ("web", "other", "wrong"),
    [
        pytest.param(VITAL, {}, 1, id="a critical pod before another"),
        pytest.param({}, VITAL, 0, id="another before a critical one"),
        pytest.param(VITAL, VITAL, 0, id="one critical pod after the other"),
        pytest.param(VITAL, {"phase": "Succeeded"}, 0, id="what has come to its end is no matter"),
        pytest.param(VITAL, {"leaving": True}, 0, id="nor is what is stuck in its termination"),
    ],
)
def test_critical_pods_go_last(web: dict[str, Any], other: dict[str, Any], wrong: int) -> None:
    """A critical pod is evicted when no other pod is left that has to be drained."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        operator(cluster)
        a_node(cluster, judge, closed=True)
        wrote(cluster, judge, None, pod(cluster, "other", on="a", **other))
        await evicted(cluster, judge, 70.0, **web)

    assert len(found(ProtectionInvariant, scene)) == wrong


@pytest.mark.parametrize(
    ("after", "wrong"), [pytest.param(20.0, 1, id="before it is over"), pytest.param(61.0, 0, id="after it")]
)
def test_pods_stay_for_as_long_as_they_say(after: float, wrong: int) -> None:
    """A pod that must not be disrupted for a minute is not evicted within that minute."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        operator(cluster)
        a_node(cluster, judge, closed=True)
        await evicted(cluster, judge, after, keep_for="60s")

    assert len(found(ProtectionInvariant, scene)) == wrong


@pytest.mark.parametrize(
    ("after", "wrong"), [pytest.param(20.0, 1, id="before it is over"), pytest.param(61.0, 0, id="after it")]
)
def test_a_disruption_waits_for_what_pods_say(after: float, wrong: int) -> None:
    """A node is not disrupted within the minute for which a pod on it must not be."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        operator(cluster)
        pool(cluster)
        a_node(cluster, judge, "Initialized")
        wrote(cluster, judge, None, pod(cluster, "web", on="a", keep_for="60s"))
        await asyncio.sleep(after)
        before = cluster.mirror.claims["a"]
        wrote(cluster, judge, before, claim(cluster, "a", "Initialized", reason="Underutilized"), REPLICA)

    assert len(found(ValidityInvariant, scene)) == wrong


@pytest.mark.parametrize(
    ("after", "bound", "wrong"),
    [
        pytest.param(4.0, "", ["pod default/web was told to go there"], id="a moment ago"),
        pytest.param(20.0, "", [], id="long ago"),
        pytest.param(4.0, "a", [], id="and it has come"),
    ],
)
def test_a_node_stays_that_a_pod_was_told_to_go_to(after: float, bound: str, wrong: list[str]) -> None:
    """A node for which a pod that waits was nominated is not disrupted."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        operator(cluster)
        pool(cluster)
        a_node(cluster, judge, "Initialized")
        pod(cluster, "web", phase="Pending")
        body = {
            "reason": "Nominated",
            "message": "Pod should schedule on nodeclaim/a and node/a.",
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web"},
        }
        token = ACTING.set(REPLICA)
        told = Request(
            method="POST", path="/api/v1/namespaces/default/events", body=msgspec.json.encode(body)
        )
        judge.on_call(told, Response(status=201))
        ACTING.reset(token)
        await asyncio.sleep(after)
        if bound:
            pod(cluster, "web", on=bound)
        before = cluster.mirror.claims["a"]
        wrote(cluster, judge, before, claim(cluster, "a", "Initialized", reason="Drifted"), REPLICA)

    told = [each.rpartition(", and ")[2] for each in found(ValidityInvariant, scene)]
    assert [each for each in told if "told" in each] == wrong


@pytest.mark.parametrize(
    ("grace", "calm", "wrong"),
    [
        pytest.param("1m", 300.0, 1, id="it is over"),
        pytest.param("87600h", 300.0, 0, id="it is not over"),
        pytest.param("1m", 60.0, 0, id="faults have just ended"),
    ],
)
def test_a_machine_ends_when_its_grace_period_is_over(grace: str, calm: float, wrong: int) -> None:
    """Pods that must not be evicted keep a machine no longer than its claim says."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        machine(cluster, "a")
        claim(cluster, "a", "Registered", leaving=True, terminationGracePeriod=grace)
        cluster.faulty_until = 0.0
        await asyncio.sleep(calm)
        judge.on_tick()

    assert len(found(DrainInvariant, scene)) == wrong


@pytest.mark.parametrize(
    ("count", "wrong"), [pytest.param(3, 0, id="one too many"), pytest.param(2, 1, id="one that it needs")]
)
def test_a_static_pool_loses_only_what_is_too_many(count: int, wrong: int) -> None:
    """The operator deletes a machine of a static pool while enough others stay."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        operator(cluster)
        seams = cluster.seams_of(REPLICA)
        assert seams is not None
        seams.transport.seen["nodepools"] = 10**9
        there = pool(cluster)
        static = msgspec.structs.replace(there, spec=msgspec.structs.replace(there.spec, replicas=2))
        cluster.mirror.pools["default"] = static
        wrote(cluster, judge, None, static)
        for name in "abc"[:count]:
            machine(cluster, name)
            node(cluster, name)
            wrote(cluster, judge, None, claim(cluster, name, "Registered", "Initialized"))
        await asyncio.sleep(LONG)
        before = cluster.mirror.claims["a"]
        wrote(cluster, judge, before, claim(cluster, "a", "Registered", "Initialized", leaving=True), REPLICA)

    lost = [each for each in found(StaticPoolInvariant, scene) if "loses claim" in each]
    assert len(lost) == wrong


def test_a_loss_of_which_the_watch_has_not_told_is_no_fault() -> None:
    """A machine that a user deleted still counts for an operator that was not told."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        operator(cluster)
        there = pool(cluster)
        cluster.mirror.pools["default"] = msgspec.structs.replace(
            there, spec=msgspec.structs.replace(there.spec, replicas=2)
        )
        for name in "abc":
            machine(cluster, name)
            node(cluster, name)
            claim(cluster, name, "Registered", "Initialized")
        before = cluster.mirror.claims["c"]
        wrote(cluster, judge, before, claim(cluster, "c", "Registered", "Initialized", leaving=True))
        before = cluster.mirror.claims["a"]
        wrote(cluster, judge, before, claim(cluster, "a", "Registered", "Initialized", leaving=True), REPLICA)

    assert not [each for each in found(StaticPoolInvariant, scene) if "loses claim" in each]


@pytest.mark.parametrize(
    ("first", "then", "wrong"),
    [
        pytest.param(STARTS, STARTS, 1, id="ever since"),
        pytest.param(STARTS, (), 0, id="no longer"),
        pytest.param((), STARTS, 0, id="again, of which it may not know"),
    ],
)
def test_a_node_that_starts_is_not_initialized(
    first: tuple[str, ...], then: tuple[str, ...], wrong: int
) -> None:
    """A claim does not count as initialized while its node has the taint that it came with."""

    def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        operator(cluster)
        came = node(cluster, "a", taints=first)
        wrote(cluster, judge, None, came)
        wrote(cluster, judge, came, node(cluster, "a", taints=then))
        before = claim(cluster, "a")
        wrote(cluster, judge, before, claim(cluster, "a", "Initialized"), REPLICA)

    assert len(found(InitializedInvariant, scene)) == wrong


@pytest.mark.parametrize(
    ("broken", "wrong"),
    [
        pytest.param(300.0, 1, id="after some minutes"),
        pytest.param(600.0, 0, id="after ten minutes"),
    ],
)
def test_a_node_is_repaired_when_it_was_broken_for_long(broken: float, wrong: int) -> None:
    """A claim whose node is not ready is deleted for that after ten minutes only."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        operator(cluster)
        pool(cluster)
        a_node(cluster, judge, "Registered")
        ready = cluster.mirror.nodes["a"]
        status = msgspec.structs.replace(ready.status, conditions=())
        wrote(cluster, judge, ready, msgspec.structs.replace(ready, status=status))
        before = msgspec.structs.replace(
            claim(cluster, "a", "Registered"),
            status=msgspec.structs.replace(cluster.mirror.claims["a"].status, node_name="a"),
        )
        cluster.broken.add("kwok://a")
        await asyncio.sleep(broken)
        wrote(cluster, judge, before, None, REPLICA)

    assert len(found(ExplainedInvariant, scene)) == wrong


@pytest.mark.parametrize(
    ("ahead", "wrong"),
    [
        pytest.param(3600.0, 0, id="by a clock that is wrong"),
        pytest.param(0.0, 1, id="by one that is right"),
    ],
)
def test_a_launch_that_is_given_up_may_have_been_made(ahead: float, wrong: int) -> None:
    """A machine never becomes that of its claim if a wrong clock gives the claim up before AWS answers."""

    def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        operator(cluster)
        seams = cluster.seams_of(REPLICA)
        assert seams is not None
        seams.clock.ahead = ahead
        machine(cluster, "a")
        cluster.launched["a"] = 0.0
        made = claim(cluster, "a")
        before = msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, provider_id=""))
        wrote(cluster, judge, None, before)
        wrote(cluster, judge, before, None, REPLICA)

    assert len(found(LaunchedOnceInvariant, scene)) == wrong
