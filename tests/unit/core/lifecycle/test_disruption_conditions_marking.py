"""What is written on claims for disruption to read, and on pools about their machines."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.labels import NODEPOOL_HASH, NODEPOOL_HASH_VERSION, LabelRules
from karpenter.core.effects import Amend, RegistrationOutcome, Step
from karpenter.core.lifecycle.disruption_conditions import (
    disruption_conditions,
    disruption_inputs,
    disruption_inputs_of_pool,
)
from karpenter.core.lifecycle.liveness import reconcile_nodeclaim
from karpenter.core.lifecycle.nodepool import nodepool_status
from karpenter.core.lifecycle.registrationhealth import NO_HISTORY, RegistrationHistory, record_outcome
from karpenter.core.lifecycle.termination import TerminatingNode, terminate_node
from karpenter.core.model.catalog import Catalog
from tests.unit.core.lifecycle.objects import (
    BORN,
    ID,
    NOW,
    at,
    claim,
    complete,
    launched,
    node,
    pod,
    pool,
    told,
)
from tests.unit.core.lifecycle.test_terminator import FINAL, GONE

if TYPE_CHECKING:
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.nodepool import NodePool

NOTHING_SOLD = Catalog(types=())
QUIET = {"disruption": {"consolidateAfter": "10m"}}
NEVER = {"disruption": {"consolidateAfter": "Never"}}


def statuses(due: Step) -> dict[str, str]:
    """Return the conditions that are to be written, by type."""
    (write,) = due.effects
    assert isinstance(write, Amend)
    return {each["type"]: each["reason"] for each in write.status["conditions"]}


@pytest.mark.parametrize(
    ("after", "same"),
    [
        pytest.param(launched(Registered="True"), True, id="registered"),
        pytest.param(launched(ConsistentStateFound="True"), True, id="found consistent"),
        pytest.param(launched(status={"nodeName": "node-1"}), True, id="named"),
        pytest.param(launched(Initialized="True"), False, id="initialized"),
        pytest.param(launched(Drifted="True"), False, id="drifted"),
        pytest.param(launched(status={"imageID": "ami-1"}), False, id="of another image"),
        pytest.param(launched(meta={"labels": {"a": "b"}}), False, id="labelled"),
        pytest.param(launched(meta=GONE), False, id="on its way out"),
    ],
)
def test_what_marks_depend_on(after: NodeClaim, same: bool) -> None:
    """Progress towards a node changes no mark but by Launched and Initialized."""
    assert (disruption_inputs(launched()) == disruption_inputs(after)) is same


@pytest.mark.parametrize(
    ("after", "same"),
    [
        pytest.param(pool(status={"nodes": 3, "resources": {"cpu": "4"}}), True, id="with more nodes"),
        pytest.param(pool(meta={"resourceVersion": "6"}), True, id="written again"),
        pytest.param(pool(spec={"weight": 7}), False, id="of another spec"),
        pytest.param(pool(meta={"annotations": {NODEPOOL_HASH: "2"}}), False, id="of another hash"),
        pytest.param(pool(meta={"labels": {"a": "b"}}), False, id="labelled"),
        pytest.param(pool(meta={"uid": "another"}), False, id="made anew"),
        pytest.param(pool(meta=GONE), False, id="on its way out"),
        pytest.param(pool(NodeClassReady="True"), False, id="with a class that is ready"),
    ],
)
def test_what_marks_depend_on_of_the_pool(after: NodePool, same: bool) -> None:
    """What a pool counts changes no mark."""
    assert (disruption_inputs_of_pool(pool()) == disruption_inputs_of_pool(after)) is same


@pytest.mark.parametrize(
    ("found", "of"),
    [
        pytest.param(complete(), None, id="its pool is gone"),
        pytest.param(complete(meta=GONE), pool(), id="it goes already"),
    ],
)
def test_some_claims_are_not_marked(found: NodeClaim, of: NodePool | None) -> None:
    """Marks are for claims of a pool that stay."""
    assert disruption_conditions(found, of, NOTHING_SOLD, NOW) == Step()


def test_a_quiet_claim_is_consolidatable() -> None:
    """With nothing to wait for the mark is set at once, and drift is looked for again in five minutes."""
    due = disruption_conditions(complete(), pool(), NOTHING_SOLD, NOW)

    assert statuses(due)["Consolidatable"] == "Consolidatable"
    assert due.again == 300.0


def test_a_claim_is_looked_at_again_when_its_quiet_time_ends() -> None:
    """Until consolidateAfter has passed there is no mark."""
    recent = complete(Consolidatable="True", status={"providerID": ID, "lastPodEventTime": at(NOW)})
    due = disruption_conditions(
        recent, pool(spec={"disruption": {"consolidateAfter": "1m"}}), NOTHING_SOLD, NOW
    )

    assert "Consolidatable" not in statuses(due)
    assert due.again == pytest.approx(60.0)
    assert disruption_conditions(complete(), pool(spec=QUIET), NOTHING_SOLD, BORN).again == 300.0


@pytest.mark.parametrize(
    ("found", "of"),
    [
        pytest.param(complete(Ready="True"), pool(spec=NEVER), id="the pool never consolidates"),
        pytest.param(launched(Registered="Unknown", Initialized="Unknown"), pool(), id="it is not complete"),
        pytest.param(complete(Ready="True"), pool(spec={"replicas": 2}), id="the pool is static"),
    ],
)
def test_some_claims_are_never_consolidatable(found: NodeClaim, of: NodePool) -> None:
    """Without a mark there is nothing to wait for but drift."""
    due = disruption_conditions(found, of, NOTHING_SOLD, NOW)

    assert due.again == 300.0
    assert all("Consolidatable" not in statuses(Step(effects=(each,))) for each in due.effects)


def test_drift_is_worked_out_anew() -> None:
    """The provider's reason is written; a mark that does not hold goes; unlaunched claims have none."""
    drifted = disruption_conditions(
        complete(Drifted="True"), pool(), NOTHING_SOLD, NOW, provider_drift="ImageDrift"
    )
    assert statuses(drifted)["Drifted"] == "ImageDrift"

    assert "Drifted" not in statuses(
        disruption_conditions(complete(Drifted="True"), pool(), NOTHING_SOLD, NOW)
    )
    unlaunched = claim(Launched="Unknown", Drifted="True")
    assert "Drifted" not in statuses(
        disruption_conditions(unlaunched, pool(), NOTHING_SOLD, NOW, provider_drift="ImageDrift")
    )


def outcome(*, healthy: bool, **parts: Any) -> RegistrationOutcome:
    return RegistrationOutcome(
        pool="default", pool_uid="pool-uid", healthy=healthy, because="it did", **parts
    )


def condition_after(
    history: RegistrationHistory, what: RegistrationOutcome, **held: str
) -> tuple[str, str] | None:
    """Return what the pool says after an outcome, if it says something new."""
    _, effects = record_outcome(pool(**dict[str, Any](held)), history, what, NOW)
    (write,) = effects
    assert isinstance(write, Amend)
    conditions = write.status["conditions"]
    if not any(each["type"] == "NodeRegistrationHealthy" for each in conditions):
        return None
    return told(conditions, "NodeRegistrationHealthy")


def test_two_failures_of_four_are_too_many() -> None:
    """One failure is an accident; two make the pool unhealthy until successes outnumber them."""
    failed, fine = outcome(healthy=False, message="no"), outcome(healthy=True)

    assert condition_after(NO_HISTORY, failed) is None
    assert condition_after(RegistrationHistory((False,)), failed) == ("False", "RegistrationFailed")
    assert condition_after(RegistrationHistory((False, False)), fine) is None
    assert condition_after(RegistrationHistory((False, False, True, True)), fine) == (
        "True",
        "NodeRegistrationHealthy",
    )
    told_already = condition_after(RegistrationHistory((False,)), failed, NodeRegistrationHealthy="False")
    assert told_already == ("False", "Because")


def test_a_taint_of_the_pool_does_not_keep_a_node_from_being_complete() -> None:
    """Only startup taints and passing ones are waited for."""
    found = launched(Registered="True", Initialized="Unknown")
    tainted = node(spec={"taints": [{"key": "team", "effect": "NoSchedule"}]})
    write = reconcile_nodeclaim(found, (tainted,), NOW + timedelta(minutes=1)).effects[-1]

    assert isinstance(write, Amend)
    assert told(write.status["conditions"], "Initialized")[0] == "True"


def test_a_node_without_a_claim_is_emptied_too() -> None:
    """There is just nobody to write that on."""
    due = terminate_node(TerminatingNode(node=node(meta=FINAL), pods=(pod(),)), NOW)

    assert not any(isinstance(each, Amend) and each.kind == "NodeClaim" for each in due.effects)


def test_claims_are_rehashed_only_when_the_version_changes() -> None:
    """A pool that is at the present version leaves its claims as they are."""
    current = pool(meta={"annotations": {NODEPOOL_HASH_VERSION: "v3"}})
    effects = nodepool_status(current, None, [launched()], rules=LabelRules(), now=NOW)

    assert [each.kind for each in effects if isinstance(each, Amend)] == ["NodePool"]
