"""A wave of commands: each is decided about the cluster as it will be after those before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.labels import NODES
from karpenter.api.nodepool import Budget
from karpenter.api.pod import ContainerPort, Pod
from karpenter.core.disruption.candidates import find_candidates
from karpenter.core.disruption.command import UNDERUTILIZED, Command
from karpenter.core.disruption.simulate import RunningPods, SimulationState, Simulator
from karpenter.core.model.catalog import Catalog
from karpenter.core.model.requirements import NOTHING_REQUIRED
from karpenter.core.scheduling.build.policy import SchedulingPolicy
from karpenter.core.scheduling.dynamicresources.types import DynamicResources
from karpenter.core.scheduling.problem import (
    BoundPod,
    ExistingNode,
    NewNode,
    Options,
    PodVolumes,
    Pool,
    Problem,
)
from karpenter.core.state.pdb import PdbLimits
from karpenter.core.state.statenode import state_nodes
from tests.unit.core.disruption.clusters import MARKET, NOW, cluster, decided, kind, machine, pod, pool

if TYPE_CHECKING:
    from karpenter.core.state.cluster import ClusterView

HUGE = Catalog(types=(kind("small", 2, 0.1), kind("medium", 4, 0.2), kind("huge", 64, 6.4)))


def _mixed(budget: str) -> ClusterView:
    """Return many machines that can merge, and some that only pay when they are split."""
    slack = 44
    return cluster(
        pool(budgets=(Budget(nodes=budget),)),
        *(machine(f"node-{n:02}") for n in range(slack)),
        *(pod(f"web-{n}", f"node-{n:02}", cpu="2500m") for n in range(slack)),
        *(machine(f"huge-{n}", "huge") for n in range(3)),
        *(pod(f"big-{n}", f"huge-{n // 4}", cpu="3") for n in range(12)),
    )


def test_a_wave_takes_apart_what_is_dear_as_well() -> None:
    """Machines that only pay when their pods are packed anew go in the same pass."""
    commands = decided(_mixed("100%"), market=HUGE, explain=0, strategy="global").commands

    gone = [name for command in commands for name in command.candidates]
    assert len(gone) == len(set(gone))
    assert {"huge-0", "huge-1", "huge-2"} <= set(gone)
    assert all(command.saving > 0 for command in commands)


def test_a_wave_stays_within_the_budget() -> None:
    """However many commands a pass has, budgets hold for all of them together."""
    commands = decided(_mixed("2"), market=HUGE, explain=0, strategy="global").commands

    assert sum(len(command.candidates) for command in commands) == 2


def test_no_pod_of_a_wave_goes_to_a_machine_that_leaves() -> None:
    """What an earlier command has promised to pods is no candidate of a later one."""
    commands = decided(_mixed("100%"), market=HUGE, explain=0).commands

    gone = {name for command in commands for name in command.candidates}
    assert gone.isdisjoint(node for command in commands for node in command.moves.values())


def _with_port(found: Pod) -> Pod:
    """Return a pod that shares its machine with none of its kind."""
    port = ContainerPort(container_port=80, host_port=80)
    box = msgspec.structs.replace(found.spec.containers[0], ports=(port,))
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, containers=(box,)))


def _volumed() -> tuple[SimulationState, Pod]:
    moved = _with_port(pod("web-0", "node-1", cpu="1"))
    problem = Problem(
        pods=(moved,),
        nodes=(
            ExistingNode(name="node-1", labels={}, free={"cpu": 100}),
            ExistingNode(name="node-2", labels={}, free={"cpu": 4000, "memory": 2**30, "pods": 9}),
        ),
        pools=(
            Pool(
                name="default",
                requirements=NOTHING_REQUIRED,
                types=MARKET.types,
                limits={"cpu": 9000, NODES: 5},
            ),
            Pool(name="other", requirements=NOTHING_REQUIRED, types=MARKET.types, limits={"cpu": 9000}),
        ),
        volumes={moved.key: PodVolumes((), {"csi": frozenset({"data"})})},
    )
    standing = SimulationState(
        problem=problem,
        moving={moved.key: moved},
        waiting=(),
        running=RunningPods([BoundPod(moved, "node-1")], {}),
    )
    return standing, moved


def test_pods_take_room_ports_and_volumes_with_them() -> None:
    """After a command its pods use what they need where they go, and are found there."""
    standing, moved = _volumed()

    after = standing.after(Command(reason=UNDERUTILIZED, candidates=("node-1",), moves={moved.key: "node-2"}))

    node = after.problem.nodes[1]
    assert node.free == {"cpu": 3000, "memory": 2**30 - 2**28, "pods": 8}
    assert node.volumes == {"csi": frozenset({"data"})}
    assert [port.port for port in node.ports] == [80]
    assert after.locations == {moved.key: "node-2"}
    assert after.gone == {"node-1"}


def _replacement(**purchase: Any) -> NewNode:
    view = cluster(pool(), machine("node-1", "xlarge"), pod("web-0", "node-1", cpu="1"))
    (command,) = decided(view).commands
    (node,) = command.replacements
    return msgspec.structs.replace(node, purchase=msgspec.structs.replace(node.purchase, **purchase))


def test_new_machines_count_against_limits() -> None:
    """What a command buys is missing from what its pool may still buy; other pools are not touched."""
    standing, _ = _volumed()

    after = standing.after(
        Command(reason=UNDERUTILIZED, candidates=("node-1",), replacements=(_replacement(),))
    )

    assert [each.limits for each in after.problem.pools] == [{"cpu": 7000, NODES: 4}, {"cpu": 9000}]


@pytest.mark.parametrize(
    ("change", "purchase", "expected"),
    [
        pytest.param({}, {}, True, id="no pod waits and nothing is scarce"),
        pytest.param({}, {"reservation_id": "cr-1"}, False, id="a reservation is used up"),
        pytest.param({}, {"parts": (("commitment", -0.1),)}, False, id="a commitment is used up"),
        pytest.param({"waiting": (pod("late-0"),)}, {}, False, id="pods wait"),
        pytest.param({"devices": DynamicResources(pod_claims={})}, {}, False, id="devices are given away"),
    ],
)
def test_when_the_future_can_be_told(
    change: dict[str, Any], purchase: dict[str, Any], expected: bool
) -> None:
    """A second command is only decided where the first cannot change what other pods get."""
    standing, _ = _volumed()
    devices = change.pop("devices", None)
    standing = msgspec.structs.replace(
        standing, problem=msgspec.structs.replace(standing.problem, devices=devices), **change
    )
    command = Command(reason=UNDERUTILIZED, candidates=("node-1",), replacements=(_replacement(**purchase),))

    assert standing.can_simulate(command) is expected


def test_a_cluster_in_which_pods_wait_is_not_foretold() -> None:
    """While pods wait, a pass has one command at most."""
    view = cluster(pool(), machine("node-1"), pod("web-0", "node-1"), pod("late-0", cpu="1"))
    nodes, pdbs = state_nodes(view), PdbLimits(view)
    candidates = find_candidates(nodes, view, MARKET, pdbs, NOW).candidates
    simulator = Simulator(
        view,
        MARKET,
        nodes,
        pdbs,
        NOW,
        movable=candidates,
        quiet=frozenset(),
        options=Options(),
        policy=SchedulingPolicy(),
    )

    assert simulator.after(Command(reason=UNDERUTILIZED, candidates=("node-1",))) is None


def test_while_pods_wait_one_machine_is_exchanged_at_a_time() -> None:
    """What pods that wait will use cannot be foretold, so a pass stops after its first exchange."""
    names = [f"node-{number}" for number in range(45)]
    view = cluster(
        pool(),
        *(machine(name, "xlarge") for name in names),
        *(_with_port(pod(f"web-{name}", name, cpu="5")) for name in names),
        pod("late-0", cpu="16"),
    )

    (command,) = decided(view, explain=0).commands

    assert len(command.candidates) == 1
