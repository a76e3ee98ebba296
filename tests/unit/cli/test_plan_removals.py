"""What a plan has besides pending pods and disruption: static NodePools, expiry and repair."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.node import Node, NodeCondition
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import Budget
from karpenter.cli.planning.decision import PlanDecision, decide
from karpenter.cli.planning.removals import removals
from karpenter.operator.options import parse_settings
from tests.unit.core.disruption.clusters import MARKET, NOW, cluster, machine, pod, pool

if TYPE_CHECKING:
    from karpenter.api.nodepool import NodePool
    from karpenter.core.disruption.command import Command
    from karpenter.core.state.cluster import ClusterView


def static(replicas: int, name: str = "default", **more: Any) -> NodePool:
    found = pool(name, **more)
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, replicas=replicas))


def planned(view: ClusterView, *, gate: bool = True, disruption: bool = False) -> PlanDecision:
    settings = parse_settings({"feature-gates": f"StaticCapacity={str(gate).lower()},NodeRepair=true"})
    return decide(view, MARKET, settings, NOW, disruption=disruption)


def removed(view: ClusterView, *, repair: bool = True) -> list[Command]:
    return removals(view, MARKET, NOW, node_repair=repair, static_capacity=True)


def sick(name: str, minutes: int) -> list[Any]:
    """Return a machine whose kubelet has not answered for so long."""
    node, claim = machine(name)
    assert isinstance(node, Node)
    since = NOW - timedelta(minutes=minutes)
    condition = NodeCondition(type="Ready", status="Unknown", last_transition_time=since)
    status = msgspec.structs.replace(node.status, conditions=(condition,))
    return [msgspec.structs.replace(node, status=status), claim]


def test_a_static_node_pool_launches_what_it_lacks() -> None:
    """Its machines are in the plan and in the bill, which no other plan for it can beat."""
    found = planned(cluster(static(3))).plan

    assert [(each.name, each.pool, each.pods) for each in found.new_nodes] == [
        ("default-1", "default", ()),
        ("default-2", "default", ()),
        ("default-3", "default", ()),
    ]
    assert found.cost.hourly == pytest.approx(sum(each.purchase.price for each in found.new_nodes))
    assert found.cost.optimal


def test_what_a_static_node_pool_has_is_not_launched_again() -> None:
    """Names of machines that exist are not given twice."""
    found = planned(cluster(static(2), machine("default-1"))).plan

    assert [each.name for each in found.new_nodes] == ["default-2"]


def test_pods_go_to_the_machines_of_a_static_node_pool() -> None:
    """They start before pods are decided about, and count as starting nodes."""
    found = planned(cluster(static(1), pool("other"), pod("web-1"))).plan

    (node,) = found.new_nodes
    assert (node.pool, node.pods, found.placed) == ("default", ("default/web-1",), {})
    assert node.requests["cpu"] == 1000
    assert node.requests["pods"] == 1


def test_replicas_wait_for_their_gate() -> None:
    """Without the feature gate StaticCapacity the operator launches nothing."""
    assert planned(cluster(static(3)), gate=False).plan.new_nodes == ()


def test_a_static_node_pool_that_nothing_satisfies() -> None:
    """How many machines it lacks is told."""
    found = planned(cluster(static(3, ways=("reserved",))))

    assert (found.plan.new_nodes, found.unsold) == ((), {"default": 3})


def test_machines_that_a_static_node_pool_has_too_many_go() -> None:
    """The emptiest first, whatever budgets say, and a plan with --disruption shows it once."""
    view = cluster(
        static(1, budgets=(Budget(nodes="0"),)), machine("busy"), machine("idle"), pod("web-1", "busy")
    )
    found = planned(view, disruption=True).disruption

    assert found is not None
    assert [(each.reason, each.candidates) for each in found.commands] == [("ScaledDown", ("idle",))]
    assert [each.node for each in found.kept] == ["busy"]


def test_expired_machines_go_in_any_case() -> None:
    """A machine that is too old goes whatever budgets say, with its price and the pods that run elsewhere."""
    view = cluster(
        pool(budgets=(Budget(nodes="0"),)), machine("old", expires="24h"), machine("young"), pod("w-0", "old")
    )
    (command,) = removed(view)

    assert (command.reason, command.candidates, command.pods_moved) == ("Expired", ("old",), 1)
    assert command.hourly_before > 0


def test_a_leaving_machine_is_not_removed_again() -> None:
    """What is being deleted already is not part of another command."""
    node, claim = machine("old", expires="24h")
    assert isinstance(claim, NodeClaim)
    meta = msgspec.structs.replace(claim.metadata, deletion_timestamp=NOW)

    assert removed(cluster(pool(), [node, msgspec.structs.replace(claim, metadata=meta)])) == []


@pytest.mark.parametrize(
    ("minutes", "gate", "expected"),
    [
        pytest.param(11, True, ["Unhealthy"], id="longer than is tolerated"),
        pytest.param(9, True, [], id="not for long"),
        pytest.param(11, False, [], id="without the feature gate NodeRepair"),
    ],
)
def test_unhealthy_machines_are_repaired(minutes: int, gate: bool, expected: list[str]) -> None:
    """A node that has been unhealthy for too long goes, where node repair is enabled."""
    others = [machine(f"good-{number}") for number in range(5)]
    view = cluster(pool(), sick("bad", minutes), *others)

    assert [each.reason for each in removed(view, repair=gate)] == expected
