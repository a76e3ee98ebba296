"""When a broken node is replaced, and when nothing is touched because too many are."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from karpenter.api.labels import NODEPOOL, TERMINATION_TIMESTAMP
from karpenter.cloud.cloudprovider import RepairPolicy
from karpenter.core.effects import NOTHING, Amend, Announce, Count, DeleteObject
from karpenter.core.lifecycle.health import BLOCKED, UnhealthyCondition, find_unhealthy_condition, repair
from tests.unit.core.lifecycle.objects import BORN, NOW, at, complete, node, pod

MINUTE = timedelta(minutes=1)
POLICIES = (
    RepairPolicy(condition_type="Ready", condition_status="False", toleration=30 * MINUTE),
    RepairPolicy(condition_type="DiskBroken", condition_status="True", toleration=10 * MINUTE),
)
LATER = BORN + 31 * MINUTE


def ill(name: str = "node-1", *, pool: str = "default", **conditions: str) -> Any:
    """Return a node with conditions since its birth."""
    held = [{"type": k, "status": v, "lastTransitionTime": at(BORN)} for k, v in conditions.items()]
    return node(name=name, meta={"labels": {NODEPOOL: pool}}, status={"conditions": held})


def well(number: int, pool: str = "default") -> Any:
    """Return a node that nothing is wrong with."""
    return ill(f"well-{number}", pool=pool, Ready="True")


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        pytest.param({}, None, id="a node that says nothing is well"),
        pytest.param({"Ready": "True", "DiskBroken": "False"}, None, id="other statuses are well"),
        pytest.param({"Ready": "False"}, UnhealthyCondition(BORN + 30 * MINUTE, "Ready"), id="one is broken"),
        pytest.param(
            {"Ready": "False", "DiskBroken": "True"},
            UnhealthyCondition(BORN + 10 * MINUTE, "DiskBroken"),
            id="of two, what runs out first counts",
        ),
    ],
)
def test_ailments(conditions: dict[str, str], expected: UnhealthyCondition | None) -> None:
    """A node is broken while a condition has the status that its provider names."""
    assert find_unhealthy_condition(ill(**conditions), POLICIES) == expected


def test_a_condition_without_a_time_says_nothing() -> None:
    """A condition of which nobody knows since when it holds is not counted from."""
    assert find_unhealthy_condition(node(ready=False), POLICIES) is None


def test_what_is_put_up_with() -> None:
    """Before its time a broken node is looked at again exactly then."""
    broken = ill(Ready="False")

    assert repair(broken, [complete()], [broken], POLICIES, BORN + 20 * MINUTE).again == 600.0


@pytest.mark.parametrize(
    "claims", [pytest.param([], id="no claim"), pytest.param([complete(), complete()], id="two claims")]
)
def test_machines_that_are_not_clearly_ours(claims: list[Any]) -> None:
    """Only a machine with exactly one claim is replaced."""
    broken = ill(Ready="False")

    assert repair(broken, claims, [broken], POLICIES, LATER) is NOTHING


def test_a_broken_node_goes_at_once() -> None:
    """The claim gets a deadline that has come, is deleted, and is counted with its condition and image."""
    broken = ill(DiskBroken="True")
    due = repair(broken, [complete(status={"imageID": "image-1"})], [broken], POLICIES, LATER, pods=[pod()])
    hurry, deletion, disrupted, moving, unhealthy = due.effects

    assert isinstance(hurry, Amend)
    assert hurry.changes == {"metadata": {"annotations": {TERMINATION_TIMESTAMP: at(LATER)}}}
    assert isinstance(deletion, DeleteObject)
    assert (deletion.kind, deletion.uid) == ("NodeClaim", "claim-1-uid")
    assert isinstance(disrupted, Count)
    assert disrupted.labels["reason"] == "unhealthy"
    assert isinstance(moving, Count)
    assert (moving.metric, moving.amount) == ("karpenter_pods_disruption_initiated_total", 1.0)
    assert isinstance(unhealthy, Count)
    assert unhealthy.labels == {
        "condition": "disk_broken",
        "nodepool": "default",
        "capacity_type": "",
        "image_id": "image-1",
    }


@pytest.mark.parametrize(
    ("deadline", "hurried"),
    [
        pytest.param(at(NOW), 0, id="one that has passed stays"),
        pytest.param(at(LATER + MINUTE), 1, id="one that is to come is brought forward"),
        pytest.param("soon", 1, id="nonsense is replaced"),
    ],
)
def test_deadlines_that_are_there(deadline: str, hurried: int) -> None:
    """A claim that has no time left keeps its deadline."""
    broken = ill(Ready="False")
    held = complete(meta={"annotations": {TERMINATION_TIMESTAMP: deadline}})
    due = repair(broken, [held], [broken], POLICIES, LATER)

    assert sum(isinstance(each, Amend) for each in due.effects) == hurried


def test_a_claim_that_leaves_already_only_hurries() -> None:
    """Nothing is deleted or counted twice."""
    broken = ill(Ready="False")
    leaving = complete(meta={"deletionTimestamp": at(NOW)})
    due = repair(broken, [leaving], [broken], POLICIES, LATER)

    assert [type(each) for each in due.effects] == [Amend]


@pytest.mark.parametrize(
    ("broken", "healthy", "replaced"),
    [
        pytest.param(1, 0, True, id="the only node"),
        pytest.param(1, 4, True, id="a fifth"),
        pytest.param(2, 4, True, id="a share of nodes rounds up"),
        pytest.param(2, 3, False, id="more than a fifth"),
        pytest.param(3, 8, True, id="three of eleven"),
        pytest.param(4, 8, False, id="four of twelve"),
    ],
)
def test_too_many_at_once(broken: int, healthy: int, replaced: bool) -> None:
    """Where more than a fifth of a pool is broken nothing is replaced, and the node says so."""
    nodes = [ill(f"ill-{n}", Ready="False") for n in range(broken)] + [well(n) for n in range(healthy)]
    nodes += [well(100 + n, pool="other") for n in range(50)]
    due = repair(nodes[0], [complete()], nodes, POLICIES, LATER)

    if replaced:
        assert any(isinstance(each, DeleteObject) for each in due.effects)
    else:
        (told,) = due.effects
        assert isinstance(told, Announce)
        assert (told.reason, told.type, told.quiet_for) == ("NodeRepairBlocked", "Warning", 900.0)
        assert f"{broken} of {broken + healthy} nodes of NodePool default" in told.message
        assert due.again == BLOCKED


def test_a_claim_without_a_pool_is_measured_by_the_cluster() -> None:
    """What belongs to no pool is compared with every node there is."""
    nodes = [ill(f"ill-{n}", pool="a", Ready="False") for n in range(3)]
    due = repair(nodes[0], [complete(meta={"labels": {}})], nodes, POLICIES, LATER)
    (told,) = due.effects

    assert isinstance(told, Announce)
    assert "3 of 3 nodes of the cluster" in told.message
