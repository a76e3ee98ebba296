"""The observer of chaos sees what it is there for: each rule is broken once."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter_local.certificates import CertificateAuthority
from tests.chaos.__main__ import plan
from tests.chaos.faults import OTHERS
from tests.chaos.observer import (
    ORPHAN_FOR,
    Observer,
    Rules,
    Sight,
    claims_without_instance,
    disrupted,
    orphaned_instances,
    wanted_and_running,
)

RULES = Rules(budget=1, guarded="web", available=2)


def observer() -> Observer:
    """Return an observer that is told what it sees."""
    authority = CertificateAuthority().certificate.decode()
    return Observer(
        url="", authority=authority, token="", rules=RULES, instances=lambda: (), replicas=lambda: ()
    )


def pod(*, ready: bool = True, leaves: bool = False) -> dict[str, Any]:
    gone = {"deletionTimestamp": "now"} if leaves else {}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": {"labels": {"app": "web"}, **gone},
        "status": {"phase": "Running", "conditions": conditions},
    }


def node(name: str, *, tainted: bool = False) -> dict[str, Any]:
    taints = [{"key": "karpenter.sh/disrupted"}] if tainted else []
    return {"metadata": {"name": name}, "spec": {"taints": taints}}


def claim(name: str, *true: str, instance: str = "", leaves: bool = False) -> dict[str, Any]:
    """Return the claim of a node of the same name, with conditions that are true."""
    gone = {"deletionTimestamp": "now"} if leaves else {}
    conditions = [{"type": each, "status": "True"} for each in true]
    provider_id = f"aws:///a/{instance}" if instance else ""
    return {
        "metadata": {"name": name, **gone},
        "status": {"nodeName": name, "providerID": provider_id, "conditions": conditions},
    }


def sight(
    pods: tuple[Any, ...] = (), nodes: tuple[Any, ...] = (), claims: tuple[Any, ...] = (), wanted: int = 0
) -> Sight:
    return Sight(list(pods), list(nodes), list(claims), [{"spec": {"replicas": wanted}}])


@pytest.mark.parametrize(
    ("nodes", "claims", "expected"),
    [
        pytest.param((node("a", tainted=True),), (claim("a", "Initialized"),), ["a"], id="by its taint"),
        pytest.param((node("a"),), (claim("a", "Initialized", leaves=True),), ["a"], id="by its claim"),
        pytest.param((), (claim("a", leaves=True),), [], id="not one that never was a node"),
        pytest.param(
            (node("a", tainted=True),),
            (claim("a", "Initialized", "InstanceTerminating", leaves=True),),
            [],
            id="not one whose machine is ending",
        ),
        pytest.param((node("a"),), (claim("a", "Initialized"),), [], id="not one that stays"),
    ],
)
def test_which_nodes_are_disrupted(nodes: Any, claims: Any, expected: list[str]) -> None:
    """By the taint or the deletion of what was a whole node, until its machine is drained."""
    assert disrupted(sight(nodes=nodes, claims=claims)) == expected


def test_a_taint_that_was_taken_back_meanwhile() -> None:
    """A node counts by its taint only if it had it before and after the claims were read."""
    seen = sight(nodes=(node("a", tainted=True),), claims=(claim("a", "Initialized"),))

    assert disrupted(seen._replace(nodes_before=[node("a")])) == []
    assert disrupted(seen._replace(nodes_before=[node("a", tainted=True)])) == ["a"]


def test_machines_and_claims_that_do_not_belong_together() -> None:
    """A machine without a claim and a claim without its machine are named."""
    seen = sight(claims=(claim("a", instance="i-1"), claim("b", instance="i-2"), claim("c")))
    live = [{"InstanceId": "i-1"}, {"InstanceId": "i-3"}]

    assert orphaned_instances(seen, live) == ["i-3"]
    assert claims_without_instance(seen, live) == ["b"]


def test_pods_that_run() -> None:
    """All that are wanted run, and no others are left."""
    assert wanted_and_running(sight(pods=(pod(), pod()), wanted=2)) == (2, 2)
    assert wanted_and_running(sight(pods=(pod(), pod(leaves=True)), wanted=2)) == (2, -1)


def test_each_rule_can_be_broken() -> None:
    """A PodDisruptionBudget, a budget, a machine that is paid twice, and a leak are found."""
    seen = observer()
    seen._judge(sight(pods=(pod(), pod(), pod())))
    seen._judge(sight(pods=(pod(), pod())))
    assert seen.violations == {}

    seen._judge(sight(pods=(pod(), pod(ready=False), pod(leaves=True))))
    two = tuple(claim(name, "Initialized", leaves=True, instance="i-1") for name in "ab")
    seen._judge(sight(pods=(pod(), pod()), claims=two))
    tagged = {"InstanceId": "i-1", "Tags": [{"Key": "karpenter.sh/nodeclaim", "Value": "a"}]}
    seen._judge_cloud(sight(), [tagged, {**tagged, "InstanceId": "i-2"}])
    seen._orphans = {key: since - ORPHAN_FOR - 1 for key, since in seen._orphans.items()}
    seen._judge_cloud(sight(), [tagged])

    assert {each.partition(":")[0] for each in seen.violations} == {
        "PDB",
        "budget",
        "double",
        "paid twice",
        "leak",
    }


def test_all_kills_and_all_other_faults_are_planned() -> None:
    """Kills are as many as asked for, and every other fault happens as often as asked for."""
    names = [each.name for each in plan(7, 2)]

    assert sum(name.startswith("kill -9,") for name in names) == 7
    assert all(names.count(each.name) == 2 for each in OTHERS)
