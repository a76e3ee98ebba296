"""Replicas on demand in a problem."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from karpenter.api.labels import CAPACITY_TYPE, ON_DEMAND, ON_DEMAND_FLOOR, SPOT
from karpenter.api.pod import Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from karpenter.core.scheduling.build.floors import with_workload_floors
from karpenter.core.state.statenode import state_nodes
from tests.unit.core.disruption.clusters import cluster, machine, pod, pool


def bound(floor: str, *, running: tuple[str, ...] = (), pending: int = 4, **spec: Any) -> list[str]:
    """Return which pending replicas of a workload require on-demand nodes."""
    notes = {ON_DEMAND_FLOOR: floor}
    machines = [machine(f"node-{way}", bought=way) for way in (ON_DEMAND, SPOT)]
    there = [pod(f"web-{number}", f"node-{way}", annotations=notes) for number, way in enumerate(running)]
    one = msgspec.structs.replace(pod("web").spec, **spec)
    waiting = [
        msgspec.structs.replace(pod(f"web-{len(there) + number}", annotations=notes), spec=one)
        for number in range(pending)
    ]
    view = cluster(pool(), *machines, *there, *waiting, pod("other-0"))
    found, problems = with_workload_floors([*waiting, pod("other-0")], view, state_nodes(view))
    assert [each.key for each in found] == [each.key for each in (*waiting, pod("other-0"))]
    return problems or [
        each.name for each in found if each.spec.node_selector.get(CAPACITY_TYPE) == ON_DEMAND
    ]


@pytest.mark.parametrize(
    ("floor", "running", "expected"),
    [
        pytest.param("2", (), ["web-0", "web-1"], id="a number"),
        pytest.param("50%", (), ["web-0", "web-1"], id="a share"),
        pytest.param("2", (ON_DEMAND, SPOT), ["web-2"], id="one runs on demand"),
        pytest.param("1", (ON_DEMAND,), [], id="enough run on demand"),
        pytest.param("9", (), ["web-0", "web-1", "web-2", "web-3"], id="more than there are"),
    ],
)
def test_some_replicas_require_on_demand(floor: str, running: tuple[str, ...], expected: list[str]) -> None:
    """As many replicas of a workload as its floor lacks require on-demand nodes; others are free."""
    assert bound(floor, running=running) == expected


def affinity(key: str) -> Affinity:
    """Return a node affinity that requires a label to be spot."""
    entry = NodeSelectorRequirement(key=key, operator="In", values=(SPOT,))
    term = NodeSelectorTerm(match_expressions=(entry,))
    required = NodeSelector(node_selector_terms=(term,))
    return Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"node_selector": {CAPACITY_TYPE: SPOT}}, [], id="a node selector"),
        pytest.param({"affinity": affinity(CAPACITY_TYPE)}, [], id="a node affinity"),
        pytest.param({"affinity": affinity("team")}, ["web-0", "web-1"], id="an affinity for something else"),
        pytest.param({"affinity": Affinity()}, ["web-0", "web-1"], id="an affinity without nodes"),
        pytest.param(
            {"affinity": Affinity(node_affinity=NodeAffinity())}, ["web-0", "web-1"], id="preferences only"
        ),
    ],
)
def test_replicas_that_choose_themselves_are_left_alone(spec: dict[str, Any], expected: list[str]) -> None:
    """What the pod requires decides."""
    assert bound("2", **spec) == expected


def test_a_floor_of_pods_that_cannot_be_read_is_told() -> None:
    """One sentence names a pod and what is expected."""
    expected = "annotation karpenter.sh/on-demand-floor is 'most': expected nodes such as 3, or 20%"
    assert bound("most") == [f"pod default/web-0: {expected}"]
    assert bound("") == []


def test_a_floor_that_cannot_be_read_keeps_no_other() -> None:
    """Every workload has its own floor."""
    pods = [
        pod("app-0", annotations={ON_DEMAND_FLOOR: "most"}),
        pod("web-0", annotations={ON_DEMAND_FLOOR: "1"}),
    ]
    found, problems = with_workload_floors(pods, cluster(*pods), ())

    assert [each.spec.node_selector.get(CAPACITY_TYPE) for each in found] == [None, ON_DEMAND]
    assert len(problems) == 1


def test_replicas_that_run_on_demand_are_the_first_to_stay_there() -> None:
    """Of two replicas that need another place one must be on demand: the one that is there now."""
    notes = {ON_DEMAND_FLOOR: "1"}
    pods = [pod("web-0", annotations=notes), pod("web-1", "node-1", annotations=notes)]
    view = cluster(pool(), machine("node-1", bought=ON_DEMAND), *pods)

    found, _ = with_workload_floors(pods, view, state_nodes(view))

    assert [each.spec.node_selector.get(CAPACITY_TYPE) for each in found] == [None, ON_DEMAND]


def test_without_floors_pods_are_the_same() -> None:
    """Pods without the annotation are not looked at."""
    pods = [pod("web-0")]
    assert with_workload_floors(pods, cluster(*pods), ())[0] is pods
