"""What works behind gates has rules that can be violated, too."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.meta import convert
from karpenter.api.node import Node
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool
from karpenter.operator.options import parse_settings
from karpenter_local.simulation.invariants.machines import RepairInvariant, StaticPoolInvariant
from karpenter_local.simulation.invariants.workloads import BufferInvariant, OverlayInvariant
from karpenter_local.simulation.mirror import ObjectWrite
from karpenter_local.simulation.scenario import Scenario
from karpenter_local.simulation.workload import draw_gated
from tests.unit.local.simulation.broken import claim, found, node, pod, pool

if TYPE_CHECKING:
    from karpenter_local.simulation.cluster import SimulatedCluster
    from karpenter_local.simulation.invariants.invariant import Invariant


def static(cluster: SimulatedCluster, replicas: int, limit: int = 0) -> None:
    """Let the pool be of a fixed size."""
    pool(cluster)
    made = cluster.mirror.pools["default"]
    limits = {"nodes": str(limit)} if limit else {}
    spec = msgspec.structs.replace(made.spec, replicas=replicas, limits=limits)
    cluster.mirror.pools["default"] = msgspec.structs.replace(made, spec=spec)
    assert isinstance(cluster.mirror.pools["default"], NodePool)


@pytest.mark.parametrize(
    ("replicas", "limit", "wrong"),
    [
        pytest.param(2, 0, [], id="as many as it says"),
        pytest.param(3, 2, [], id="as many as its limit allows"),
        pytest.param(1, 0, ["pool default has 2 machines of 1, and 2 claims"], id="too many"),
        pytest.param(3, 0, ["pool default has 2 machines of 3, and 2 claims"], id="too few"),
        pytest.param(1, 1, ["pool default has 2 machines and may have 1"], id="more than its limit"),
    ],
)
def test_static_pools_have_their_size(replicas: int, limit: int, wrong: list[str]) -> None:
    """In the end they have as many machines as they say, and never more than they may."""

    def scene(cluster: SimulatedCluster, invariant: Invariant) -> None:
        static(cluster, replicas, limit)
        claim(cluster, "a", "Initialized")
        invariant.on_write(ObjectWrite(None, claim(cluster, "b", "Initialized")))

    assert found(StaticPoolInvariant, scene)[:1] == wrong


def test_machines_that_leave_do_not_count() -> None:
    """A machine that a user's pod holds is on its way out all the same, and takes room below the limit."""

    def scene(cluster: SimulatedCluster, _invariant: Invariant) -> None:
        static(cluster, 2, limit=2)
        claim(cluster, "a", "Initialized")
        claim(cluster, "b", "Initialized", leaving=True)

    assert found(StaticPoolInvariant, scene) == []


def ready(cluster: SimulatedCluster, name: str, *, cores: str = "4", status: str = "True") -> None:
    """Let there be a node with so many cores."""
    node(cluster, name)
    said = {"conditions": [{"type": "Ready", "status": status}], "allocatable": {"cpu": cores}}
    plain: dict[str, Any] = {
        "metadata": {"name": name},
        "spec": {"providerID": f"kwok://{name}"},
        "status": said,
    }
    cluster.mirror.nodes[name] = convert(plain, Node)


@pytest.mark.parametrize(
    ("cores", "wrong"),
    [
        pytest.param("4", [], id="enough room"),
        pytest.param("2", ["buffer default/spare has room for 2 pods of 3"], id="too little"),
    ],
)
def test_buffers_have_their_room(cores: str, wrong: list[str]) -> None:
    """In the end as many pods would fit as a buffer asks for."""

    def scene(cluster: SimulatedCluster, _invariant: Invariant) -> None:
        ready(cluster, "a", cores=cores)
        ready(cluster, "broken", cores="64", status="False")
        pod(cluster, "over", on="a", phase="Succeeded")
        template = {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}
        made = {"metadata": {"name": "spare"}, "template": {"spec": template}}
        cluster.sandbox.cluster.server.store.put("podtemplates", "default/spare", made)
        plain = {
            "metadata": {"name": "spare", "namespace": "default"},
            "spec": {"podTemplateRef": {"name": "spare"}, "replicas": 3},
        }
        cluster.mirror.buffers["default/spare"] = convert(plain, CapacityBuffer)

    assert found(BufferInvariant, scene) == wrong


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        pytest.param(["True", "False"], [], id="one holds, the other does not"),
        pytest.param(["False", "False"], ["no overlay holds"], id="none holds"),
        pytest.param(["True", ""], ["overlay b does not say if it holds"], id="one is silent"),
    ],
)
def test_overlays_say_if_they_hold(said: list[str], wrong: list[str]) -> None:
    """In the end each has its word, and one of the heaviest is in force."""

    def scene(cluster: SimulatedCluster, _invariant: Invariant) -> None:
        for name, status in zip("ab", said, strict=True):
            conditions = [{"type": "ValidationSucceeded", "status": status, "reason": "X"}] if status else []
            plain = {
                "metadata": {"name": name},
                "spec": {"requirements": [], "weight": 1},
                "status": {"conditions": conditions},
            }
            cluster.mirror.overlays[name] = convert(plain, NodeOverlay)

    assert found(OverlayInvariant, scene) == wrong


@pytest.mark.parametrize(
    ("gate", "wrong"),
    [
        pytest.param("true", ["node a is broken and stays"], id="where broken nodes are repaired"),
        pytest.param("false", [], id="where they are not"),
    ],
)
def test_broken_nodes_do_not_stay(gate: str, wrong: list[str]) -> None:
    """In the end no node is broken, if that is what the operator is for."""

    def scene(cluster: SimulatedCluster, _invariant: Invariant) -> None:
        cluster.sandbox.settings = parse_settings({"feature-gates": f"NodeRepair={gate}"})
        ready(cluster, "a", status="False")
        ready(cluster, "b")

    assert found(RepairInvariant, scene) == wrong


def test_nothing_breaks_where_nothing_goes_wrong() -> None:
    """Without faults gates are open as often, and nodes stay whole."""
    quiet = [draw_gated(Random(seed), 180.0, "none") for seed in range(100)]  # noqa: S311  chance of a test
    loud = [draw_gated(Random(seed), 180.0, "many") for seed in range(100)]  # noqa: S311  chance of a test

    assert [each.gates for each in quiet] == [each.gates for each in loud]
    assert 20 < sum(1 for each in quiet if each.gates) < 60
    assert sum(len(each.steps) for each in quiet) < sum(len(each.steps) for each in loud)


def test_given_gates_do_not_disable_those_of_a_scenario() -> None:
    """A scenario has steps that need its gates: another gate does not disable them, the same one does."""
    scenario = Scenario(seed=1, seconds=1.0, steps=(), settings={"feature-gates": "StaticCapacity=true"})

    assert scenario.settings_with({}) == scenario.settings
    assert scenario.settings_with({"feature-gates": "NodeRepair=true", "log-level": "debug"}) == {
        "feature-gates": "StaticCapacity=true,NodeRepair=true",
        "log-level": "debug",
    }
