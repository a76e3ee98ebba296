"""Whole prices, and replicas on demand, in a problem."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from karpenter.api.labels import CAPACITY_TYPE, ON_DEMAND, ON_DEMAND_FLOOR, SPOT
from karpenter.api.pod import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from karpenter.core.model.catalog import Catalog
from karpenter.core.model.pricing import Commitment, PricePolicy
from karpenter.core.scheduling.build.build import SchedulingPolicy, assemble
from karpenter.core.scheduling.build.pods import with_workload_floors
from karpenter.core.scheduling.problem import Options
from karpenter.core.state.statenode import state_nodes
from tests.unit.core.disruption.clusters import MARKET, cluster, kind, machine, pod, pool


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


def test_a_problem_has_whole_prices_and_what_is_left_of_commitments() -> None:
    """Pools get whole prices, wrong annotations are told, and commitments in use are used up."""
    own = Commitment(kind="ReservedInstance", name="ri", instance_type="large", count=3)
    policy = SchedulingPolicy(prices=PricePolicy(node=0.01, commitments=(own,)))
    wrong = msgspec.structs.replace(
        pool(),
        metadata=msgspec.structs.replace(pool().metadata, annotations={"karpenter.sh/node-price": "x"}),
    )
    view = cluster(wrong, machine("node-1", "large"))
    built = assemble(
        view, MARKET, nodes=state_nodes(view), pods=[pod("web-0")], options=Options(), policy=policy
    )
    prices = {kind.name: kind.offerings[0].price for kind in built.problem.pools[0].types}

    assert prices == pytest.approx({"small": 0.11, "medium": 0.21, "large": 0.01, "xlarge": 0.81}, abs=1e-6)
    assert built.commitments == ((own, 2.0),)
    assert built.left_out == (
        "NodePool default: annotation karpenter.sh/node-price is 'x': expected dollars per hour such as 0.01",
    )


@pytest.mark.parametrize(
    ("zone", "left"),
    [pytest.param("zone-1", 0.9, id="0.20 per hour"), pytest.param("zone-2", 0.85, id="0.30 per hour")],
)
def test_a_node_uses_a_commitment_at_the_price_of_its_zone(zone: str, left: float) -> None:
    """A Savings Plan that pays half of a price is used by half of what the node costs where it runs."""
    plan = Commitment(kind="SavingsPlan", hourly=1.0, rate=0.5)
    policy = SchedulingPolicy(prices=PricePolicy(commitments=(plan,)))
    prices = {"zone-1": 0.2, "zone-2": 0.3}
    medium = kind("medium", 4, 0.2)
    sold = tuple(
        msgspec.structs.replace(each, price=prices[each.zone]) if each.capacity_type == ON_DEMAND else each
        for each in medium.offerings
    )
    market = Catalog(types=(msgspec.structs.replace(medium, offerings=sold),))
    view = cluster(pool(), machine("node-1", "medium", zone=zone))

    built = assemble(view, market, nodes=state_nodes(view), pods=[], options=Options(), policy=policy)

    assert [each for each, _ in built.commitments] == [plan]
    assert [amount for _, amount in built.commitments] == pytest.approx([left])
