"""Every rule can be violated: a rule that accepts everything would find nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from karpenter_local.simulation.invariants.disruption import BudgetInvariant
from karpenter_local.simulation.invariants.draining import ProtectionInvariant
from karpenter_local.simulation.invariants.machines import (
    FinalizerInvariant,
    LimitInvariant,
    OwnershipInvariant,
    SteadyStateInvariant,
)
from karpenter_local.simulation.invariants.workloads import ServiceInvariant, WriteRateInvariant
from karpenter_local.simulation.mirror import ObjectWrite
from tests.unit.local.simulation.broken import (
    asked,
    asked_to_leave,
    budget,
    claim,
    found,
    machine,
    node,
    pod,
    pool,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter_local.simulation.cluster import SimulatedCluster
    from karpenter_local.simulation.invariants.invariant import Invariant

PODS = "/api/v1/namespaces/default/pods/web"


def nothing(_cluster: SimulatedCluster, _invariant: Invariant) -> None: ...


def a_pair(cluster: SimulatedCluster, _invariant: Invariant) -> None:
    """Let there be a machine with its claim and its node."""
    machine(cluster, "a")
    claim(cluster, "a")
    node(cluster, "a")


def an_orphan(cluster: SimulatedCluster, _invariant: Invariant) -> None:
    """Let there be a machine without a claim."""
    machine(cluster, "a")
    node(cluster, "a")


def a_wish(cluster: SimulatedCluster, _invariant: Invariant) -> None:
    """Let there be a claim without a machine."""
    claim(cluster, "a")


def a_loner(cluster: SimulatedCluster, _invariant: Invariant) -> None:
    """Let there be a claim and a machine without a node."""
    machine(cluster, "a")
    claim(cluster, "a")


def a_shell(cluster: SimulatedCluster, _invariant: Invariant) -> None:
    """Let there be a node without a machine."""
    node(cluster, "a")


@pytest.mark.parametrize(
    ("scene", "wrong"),
    [
        pytest.param(nothing, [], id="nothing at all"),
        pytest.param(a_pair, [], id="a machine, its claim and its node"),
        pytest.param(an_orphan, ["machine kwok://a has no claim"], id="a machine without a claim"),
        pytest.param(a_wish, ["claim a has no machine"], id="a claim without a machine"),
        pytest.param(a_loner, ["claim a has no node"], id="a claim without a node"),
        pytest.param(a_shell, ["node a has no machine"], id="a node without a machine"),
    ],
)
def test_machines_and_claims_are_in_pairs(
    scene: Callable[[SimulatedCluster, Invariant], None], wrong: list[str]
) -> None:
    """In the end there is a claim and a node for every machine, and the other way round."""
    assert found(OwnershipInvariant, scene) == wrong


def a_leaving_node(cluster: SimulatedCluster, _invariant: Invariant) -> None:
    """Let a node be deleted and stay."""
    node(cluster, "a", leaving=True)


def a_closed_node(cluster: SimulatedCluster, _invariant: Invariant) -> None:
    """Let a node be closed and stay."""
    node(cluster, "a", closed=True)


def a_held_node(cluster: SimulatedCluster, _invariant: Invariant) -> None:
    """Let a pod that must not be disrupted hold a node."""
    node(cluster, "a", leaving=True)
    pod(cluster, "web", on="a", kept=True)


def a_guarded_node(cluster: SimulatedCluster, _invariant: Invariant) -> None:
    """Let a disruption budget hold a node."""
    node(cluster, "a", leaving=True)
    pod(cluster, "web", on="a")
    budget(cluster, least=1)


def an_overdue_node(cluster: SimulatedCluster, invariant: Invariant) -> None:
    """Let a node be held beyond the time that its machine has."""
    a_held_node(cluster, invariant)
    claim(cluster, "a", terminationGracePeriod="1m")


@pytest.mark.parametrize(
    ("scene", "wrong"),
    [
        pytest.param(a_leaving_node, ["node a is being deleted and does not go"], id="a node that stays"),
        pytest.param(a_closed_node, ["node a is closed and stays"], id="a node that stays tainted"),
        pytest.param(a_held_node, [], id="a node that a protected pod holds"),
        pytest.param(a_guarded_node, [], id="a node that a budget holds"),
        pytest.param(
            an_overdue_node, ["node a is being deleted and does not go"], id="a node whose time is over"
        ),
    ],
)
def test_what_is_deleted_goes(scene: Callable[[SimulatedCluster, Invariant], None], wrong: list[str]) -> None:
    """No finalizer is stuck, but users may hold what is theirs."""
    assert found(FinalizerInvariant, scene) == wrong


def a_waiting_pod(cluster: SimulatedCluster, _invariant: Invariant) -> None:
    pod(cluster, "web", phase="Pending")


def a_full_pool(cluster: SimulatedCluster, _invariant: Invariant) -> None:
    """Let a pod wait for a pool that is full."""
    pool(cluster, cores=4)
    machine(cluster, "a", cores=4)
    claim(cluster, "a")
    pod(cluster, "web", phase="Pending", selector={"pool": "default"})


def a_pool_with_room(cluster: SimulatedCluster, _invariant: Invariant) -> None:
    """Let a pod wait for a pool that has room."""
    pool(cluster, cores=8)
    machine(cluster, "a", cores=4)
    claim(cluster, "a")
    pod(cluster, "web", phase="Pending", selector={"pool": "default"})


def a_lost_pod(cluster: SimulatedCluster, _invariant: Invariant) -> None:
    """Let a workload have fewer pods than it asks for."""
    made = {"metadata": {"name": "app"}, "spec": {"replicas": 2}, "status": {"readyReplicas": 1}}
    cluster.sandbox.cluster.server.store.put("deployments.apps", "default/app", made)


@pytest.mark.parametrize(
    ("scene", "wrong"),
    [
        pytest.param(a_waiting_pod, ["pod default/web is Pending, without a node"], id="a pod that waits"),
        pytest.param(a_full_pool, [], id="a pod whose pool is full"),
        pytest.param(
            a_pool_with_room, ["pod default/web is Pending, without a node"], id="a pod whose pool is not"
        ),
        pytest.param(a_lost_pod, ["deployment app has 1 pods of 2"], id="a pod that is lost"),
    ],
)
def test_every_workload_has_its_pods(
    scene: Callable[[SimulatedCluster, Invariant], None], wrong: list[str]
) -> None:
    """In the end everything runs that can."""
    assert found(ServiceInvariant, scene) == wrong


def test_a_cluster_that_moves_is_not_steady() -> None:
    """A claim that came a moment ago has to be old before a cluster counts as steady."""

    def scene(cluster: SimulatedCluster, invariant: Invariant) -> None:
        pool(cluster)
        invariant.on_write(ObjectWrite(None, claim(cluster, "a")))

    assert found(SteadyStateInvariant, scene) == ["claim a came 0 s ago"]


@pytest.mark.parametrize(
    ("cores", "wrong"),
    [
        pytest.param(8, [], id="as much as is allowed"),
        pytest.param(4, ["pool default has 8 cores and may have 4"], id="more than is allowed"),
    ],
)
def test_limits_are_kept(cores: int, wrong: list[str]) -> None:
    """What counts is what exists in the cloud."""

    def scene(cluster: SimulatedCluster, invariant: Invariant) -> None:
        pool(cluster, cores=cores)
        machine(cluster, "a")
        machine(cluster, "b")
        claim(cluster, "a")
        invariant.on_write(ObjectWrite(None, claim(cluster, "b")))

    assert found(LimitInvariant, scene) == wrong


@pytest.mark.parametrize(
    ("lag", "later", "wrong"),
    [
        pytest.param(15.0, 0.0, 0, id="EC2 hid the first for longer than an operator waits"),
        pytest.param(4.0, 0.0, 1, id="EC2 showed the first in time"),
        pytest.param(15.0, 600.0, 1, id="EC2 has shown the first for long"),
    ],
)
def test_a_machine_that_ec2_hides_may_be_above_a_limit(lag: float, later: float, wrong: int) -> None:
    """A second one is launched for its claim; the first one does not count until it can have been ended."""

    async def scene(cluster: SimulatedCluster, invariant: Invariant) -> None:
        pool(cluster, cores=4)
        machine(cluster, "a", claim="a")
        machine(cluster, "b", claim="a")
        cluster.launched = {"a": 0.0, "b": 10.0}
        cluster.lags = [(0.0, 60.0, lag)]
        await asyncio.sleep(10.0 + later)
        invariant.on_write(ObjectWrite(None, claim(cluster, "a")))

    assert len(found(LimitInvariant, scene)) == wrong


def test_a_disruption_that_is_given_up_may_leave_a_pool_above_its_limit() -> None:
    """Its room was free for others from the moment at which it was decided that its machine goes."""

    def scene(cluster: SimulatedCluster, invariant: Invariant) -> None:
        pool(cluster, cores=4)
        machine(cluster, "a")
        machine(cluster, "b")
        claim(cluster, "b")
        before = claim(cluster, "a", reason="Drifted")
        invariant.on_write(ObjectWrite(before, claim(cluster, "a")))

    assert found(LimitInvariant, scene) == []


@pytest.mark.parametrize(
    ("allowed", "wrong"),
    [
        pytest.param("2", 0, id="room for both"),
        pytest.param("1", 1, id="room for one"),
        pytest.param("0", 1, id="room for none"),
        pytest.param("60%", 0, id="a share that rounds up"),
    ],
)
def test_budgets_are_kept(allowed: str, wrong: int) -> None:
    """A machine begins to be disrupted only where every budget has room for one more."""

    def scene(cluster: SimulatedCluster, invariant: Invariant) -> None:
        pool(cluster, budget=allowed)
        claim(cluster, "a", "Initialized", reason="Drifted")
        before = claim(cluster, "b", "Initialized")
        invariant.on_write(ObjectWrite(before, claim(cluster, "b", "Initialized", reason="Drifted")))

    assert len(found(BudgetInvariant, scene)) == wrong


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        pytest.param({"reasons": ["Drifted"]}, 1, id="for this reason"),
        pytest.param({"reasons": ["Empty"]}, 0, id="for another reason"),
        pytest.param({"schedule": "*/4 * * * *", "duration": "2m"}, 1, id="in a window that is open"),
        pytest.param({"schedule": "*/7 * * * *", "duration": "1m"}, 1, id="at its first minute"),
    ],
)
def test_budgets_may_be_for_some_reasons_and_times(more: dict[str, Any], wrong: int) -> None:
    """A budget counts only for its reasons, and only while its window is open; a run begins at midnight."""

    def scene(cluster: SimulatedCluster, invariant: Invariant) -> None:
        pool(cluster, budget="0", **more)
        before = claim(cluster, "b", "Initialized")
        invariant.on_write(ObjectWrite(before, claim(cluster, "b", "Initialized", reason="Drifted")))

    assert len(found(BudgetInvariant, scene)) == wrong


def test_a_window_is_closed_after_its_duration() -> None:
    """A budget whose window has ended holds nothing back."""

    async def scene(cluster: SimulatedCluster, invariant: Invariant) -> None:
        pool(cluster, budget="0", schedule="*/4 * * * *", duration="2m")
        before = claim(cluster, "b", "Initialized")
        await asyncio.sleep(150)
        invariant.on_write(ObjectWrite(before, claim(cluster, "b", "Initialized", reason="Drifted")))

    assert found(BudgetInvariant, scene) == []


@pytest.mark.parametrize(
    ("kept", "least", "call", "wrong"),
    [
        pytest.param(False, 0, ("POST", f"{PODS}/eviction"), 0, id="an eviction"),
        pytest.param(True, 0, ("POST", f"{PODS}/eviction"), 1, id="an eviction of a protected pod"),
        pytest.param(False, 1, ("POST", f"{PODS}/eviction"), 1, id="an eviction beyond a budget"),
        pytest.param(False, 0, ("DELETE", PODS), 1, id="a deletion"),
        pytest.param(True, 0, ("POST", f"{PODS}/binding"), 0, id="something else"),
    ],
)
def test_pods_are_protected(kept: bool, least: int, call: tuple[str, str], wrong: int) -> None:
    """Pods are evicted, not deleted; never beyond a budget, and never where that is not wanted."""

    async def scene(cluster: SimulatedCluster, invariant: Invariant) -> None:
        node(cluster, "a", closed=True)
        claim(cluster, "a", leaving=True)
        budget(cluster, least=least)
        await asked_to_leave(cluster, invariant, call, on="a", kept=kept)

    assert len(found(ProtectionInvariant, scene)) == wrong


@pytest.mark.parametrize(
    ("after", "wrong"),
    [
        pytest.param(0.0, 0, id="annotated when the eviction was on its way"),
        pytest.param(10.0, 1, id="annotated before the operator can have read the pod"),
    ],
)
def test_a_protection_of_which_the_watch_has_not_told(after: float, wrong: int) -> None:
    """An operator whose watch is late reads a pod before it evicts it, and finds the annotation."""

    async def scene(cluster: SimulatedCluster, invariant: Invariant) -> None:
        node(cluster, "a", closed=True)
        call = ("POST", f"{PODS}/eviction")
        await asked_to_leave(cluster, invariant, call, on="a", kept=True, after=after, told=False)

    assert len(found(ProtectionInvariant, scene)) == wrong


def test_only_closed_nodes_are_drained() -> None:
    """A pod that is evicted from a node that still takes pods may come back to it."""

    def scene(cluster: SimulatedCluster, invariant: Invariant) -> None:
        node(cluster, "a")
        invariant.on_write(
            ObjectWrite(pod(cluster, "web", on="a"), pod(cluster, "web", on="a", leaving=True))
        )
        invariant.on_call(*asked("POST", f"{PODS}/eviction"))

    assert len(found(ProtectionInvariant, scene)) == 1


def test_pods_may_be_forced_when_their_time_is_over() -> None:
    """A terminationGracePeriod that has passed overrules everything."""

    async def scene(cluster: SimulatedCluster, invariant: Invariant) -> None:
        node(cluster, "a")
        claim(cluster, "a", leaving=True, terminationGracePeriod="0s")
        await asked_to_leave(cluster, invariant, ("DELETE", PODS), on="a", kept=True)

    assert found(ProtectionInvariant, scene) == []


def test_pods_of_nodes_that_are_gone_run_no_longer() -> None:
    """What was on a machine that is gone is not protected by anything; what waits for one is."""

    async def gone(cluster: SimulatedCluster, invariant: Invariant) -> None:
        await asked_to_leave(cluster, invariant, ("DELETE", PODS), on="gone", kept=True)

    async def waiting(cluster: SimulatedCluster, invariant: Invariant) -> None:
        await asked_to_leave(cluster, invariant, ("DELETE", PODS), kept=True)

    assert found(ProtectionInvariant, gone) == []
    assert len(found(ProtectionInvariant, waiting)) == 2


def test_nothing_spins() -> None:
    """The same write, hundreds of times in a moment, is a dead loop."""

    def scene(_cluster: SimulatedCluster, invariant: Invariant) -> None:
        for _ in range(300):
            invariant.on_call(*asked("PATCH", "/apis/karpenter.sh/v1/nodeclaims/a"))

    assert len(found(WriteRateInvariant, scene)) == 1
