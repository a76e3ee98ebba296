"""What pools say about themselves, and what is cleared away."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.labels import NODEPOOL_HASH, NODEPOOL_HASH_VERSION, LabelRules
from karpenter.api.meta import Condition
from karpenter.cloud.cloudprovider import Machine
from karpenter.core.effects import Amend, RegistrationOutcome
from karpenter.core.lifecycle.disruption_conditions import disruption_conditions
from karpenter.core.lifecycle.garbagecollection import machines_without_claim, nodes_without_claim
from karpenter.core.lifecycle.launch import LaunchFailure, launch_failed
from karpenter.core.lifecycle.nodepool import nodepool_resources, nodepool_status
from karpenter.core.lifecycle.registrationhealth import (
    NO_HISTORY,
    RegistrationHistory,
    history_of_condition,
    record_outcome,
)
from karpenter.core.model.nodepool_hash import pool_hash_annotations
from karpenter.core.state.cluster import NodeClass
from tests.unit.core.disruption.clusters import MARKET, NOW, pool
from tests.unit.core.lifecycle.objects import node
from tests.unit.core.lifecycle.test_termination import pair, with_condition

if TYPE_CHECKING:
    from karpenter.api.nodepool import NodePool

READY = NodeClass(group="karpenter.kwok.sh", kind="KWOKNodeClass", name="default", ready=True)


def reason(found: NodePool, node_class: NodeClass | None, kind: str) -> str:
    """Return what a pool says about one thing."""
    for each in nodepool_status(found, node_class, (), rules=LabelRules(), now=NOW):
        if isinstance(each, Amend) and each.status:
            return str(next(c["reason"] for c in each.status["conditions"] if c["type"] == kind))
    raise AssertionError("the pool says nothing")


@pytest.mark.parametrize(
    ("node_class", "expected"),
    [
        pytest.param(READY, "NodeClassReady", id="ready"),
        pytest.param(None, "NodeClassNotFound", id="missing"),
        pytest.param(msgspec.structs.replace(READY, deleting=True), "NodeClassTerminating", id="leaving"),
        pytest.param(msgspec.structs.replace(READY, ready=None), "NodeClassReadinessUnknown", id="silent"),
        pytest.param(
            msgspec.structs.replace(READY, ready=False, reason="NoSubnets"), "NoSubnets", id="not ready"
        ),
    ],
)
def test_a_pool_tells_of_its_class(node_class: NodeClass | None, expected: str) -> None:
    """A pool is only used while its node class is ready, and says what is wrong with it."""
    assert reason(pool(), node_class, "NodeClassReady") == expected


def test_a_pool_that_makes_no_sense_says_so() -> None:
    """A pool that fails validation is not used; a hash that cannot be made is not written."""
    base = pool()
    bad = msgspec.structs.replace(
        base.spec.template.spec, expire_after="soon", termination_grace_period="later"
    )
    spec = msgspec.structs.replace(base.spec, template=msgspec.structs.replace(base.spec.template, spec=bad))
    found = msgspec.structs.replace(base, spec=msgspec.structs.replace(spec, limits={"cpu": "many"}))

    effects = nodepool_status(found, READY, (), rules=LabelRules(), now=NOW)

    assert reason(found, READY, "ValidationSucceeded") == "NodePoolValidationFailed"
    assert all("annotations" not in str(each.changes) for each in effects if isinstance(each, Amend))


@pytest.mark.parametrize(
    ("drifted", "keys"),
    [
        pytest.param(False, {NODEPOOL_HASH, NODEPOOL_HASH_VERSION}, id="a claim takes over the new hash"),
        pytest.param(True, {NODEPOOL_HASH_VERSION}, id="a drifted claim stays drifted"),
    ],
)
def test_hashes_of_another_version(drifted: bool, keys: set[str]) -> None:
    """When the way of hashing changes, claims are brought along without drifting."""
    claim = pair()[1]
    claim = with_condition(claim, "Drifted") if drifted else claim
    writes = [
        each
        for each in nodepool_status(pool(), READY, (claim,), rules=LabelRules(), now=NOW)
        if isinstance(each, Amend) and each.kind == "NodeClaim"
    ]

    assert set(writes[0].changes["metadata"]["annotations"]) == keys


@pytest.mark.parametrize(
    ("changed", "is_written"),
    [
        pytest.param({}, False, id="it has both"),
        pytest.param({NODEPOOL_HASH: "1"}, True, id="its template was another"),
        pytest.param({NODEPOOL_HASH_VERSION: "v1"}, True, id="it was hashed in another way"),
    ],
)
def test_the_hash_of_a_pool_is_written_once(changed: dict[str, str], is_written: bool) -> None:
    """A pool whose annotations are its hash and the version of it is not annotated again."""
    hashes = {**pool_hash_annotations(pool()), **changed}
    found = msgspec.structs.replace(
        pool(), metadata=msgspec.structs.replace(pool().metadata, annotations=hashes)
    )
    (write,) = nodepool_status(found, READY, (), rules=LabelRules(), now=NOW)
    assert isinstance(write, Amend)

    assert write.changes.get("metadata") == (
        {"annotations": pool_hash_annotations(pool())} if is_written else None
    )


def test_a_pool_counts_what_it_has() -> None:
    """A pool shows what its machines have together, and is not written when nothing has changed."""
    (write,) = nodepool_resources(pool(), {"cpu": 4000, "nodes": 1})
    assert isinstance(write, Amend)
    status = msgspec.structs.replace(pool().status, resources={**write.status["resources"]}, nodes=1)
    same = msgspec.structs.replace(pool(), status=status)
    less = nodepool_resources(same, {})

    assert nodepool_resources(same, {"cpu": 4000, "nodes": 1}) == ()
    assert less


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        pytest.param((), None, id="nothing to go by"),
        pytest.param((False,), True, id="one failure is no harm"),
        pytest.param((False, False), False, id="two of four are too many"),
        pytest.param((False, False, True, True), False, id="they count until they are forgotten"),
        pytest.param((False, True, True, True), True, id="one of four is fine"),
    ],
)
def test_health(outcomes: tuple[bool, ...], expected: bool | None) -> None:
    """Half of the last four machines failing makes a pool unhealthy."""
    assert RegistrationHistory(outcomes).is_healthy is expected


def test_health_is_recalled_after_a_restart() -> None:
    """What a pool's condition says is where its history begins again."""
    bad = Condition(type="NodeRegistrationHealthy", status="False")
    found = msgspec.structs.replace(pool(), status=msgspec.structs.replace(pool().status, conditions=(bad,)))
    failure = RegistrationOutcome(
        pool="default", pool_uid="", healthy=False, reason="", message="", because="it never came"
    )

    assert history_of_condition(found) == RegistrationHistory((False, False))
    assert history_of_condition(pool()) == NO_HISTORY
    assert record_outcome(found, history_of_condition(found), failure, NOW)[0] == RegistrationHistory(
        (False, False, False)
    )
    assert "RegistrationFailed" not in str(record_outcome(pool(), NO_HISTORY, failure, NOW)[1])


def _machine(name: str, **more: Any) -> Machine:
    return Machine(
        provider_id=f"kwok://{name}", claim_uid=f"uid-{name}", created=NOW - timedelta(hours=1), **more
    )


def test_machines_that_no_claim_is_for_are_ended() -> None:
    """A machine that nobody asked for is ended once it is old enough to be missed."""
    orphan = _machine("orphan")
    young = msgspec.structs.replace(_machine("young"), created=NOW)

    effects = machines_without_claim([orphan, young], [], NOW)

    assert [each.provider_id for each in effects] == ["kwok://orphan"]


def test_a_launch_whose_class_is_not_ready_is_given_up() -> None:
    """The claim goes; its pods will ask again."""
    effects = launch_failed(
        pair()[1], LaunchFailure(kind="nodeclass not ready", reason="", message="no subnets"), NOW
    )

    assert "nodeclass_not_ready" in str(effects)


def test_marks_of_what_was_never_launched_or_is_static() -> None:
    """Drift is not asked of a claim without machine, and a static pool is not consolidated."""
    claim = pair()[1]
    bare = msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, conditions=()))
    static = msgspec.structs.replace(pool(), spec=msgspec.structs.replace(pool().spec, replicas=1))

    step = disruption_conditions(bare, static, MARKET, provider_drift="AMIDrift", now=NOW)

    assert "Consolidatable" not in str(step.effects)
    assert "AMIDrift" not in str(step.effects)


def test_the_node_of_a_machine_without_claim_goes_with_it() -> None:
    """Of all Nodes only that of the machine is deleted."""
    (ended,) = machines_without_claim([_machine("orphan")], [], NOW)
    found = [node(name=name, spec={"providerID": f"kwok://{name}"}) for name in ("orphan", "other")]

    (deleted,) = nodes_without_claim(found, [ended])

    assert (deleted.kind, deleted.name, deleted.uid) == ("Node", "orphan", found[0].metadata.uid)
