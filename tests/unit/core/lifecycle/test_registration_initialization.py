"""How a machine becomes a node of ours."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.labels import (
    DO_NOT_SYNC_TAINTS,
    NO_EXECUTE,
    NO_SCHEDULE,
    NOT_READY,
    REGISTERED,
    TERMINATION_FINALIZER,
    UNREGISTERED,
)
from karpenter.api.meta import OwnerReference
from karpenter.api.node import Node, Taint
from karpenter.api.nodeclaim import NodeClaim, NodeClaimResources
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.core.effects import Amend, Announce, DeleteObject
from karpenter.core.lifecycle.conditions import claim_conditions, overlay_conditions
from karpenter.core.lifecycle.consistency import check_consistency
from karpenter.core.lifecycle.initialization import initialize
from karpenter.core.lifecycle.liveness import LivenessTimeouts, delete_for_timeout, seconds_left
from karpenter.core.lifecycle.registration import register, registration_outcome
from tests.unit.core.disruption.clusters import NOW, machine
from tests.unit.core.lifecycle.test_termination import with_condition, with_meta

if TYPE_CHECKING:
    from karpenter.core.lifecycle import conditions

CLOSED = Taint(key=UNREGISTERED, effect=NO_EXECUTE)
STARTUP = Taint(key="example.com/starting", effect=NO_SCHEDULE)


def pair(**spec: Any) -> tuple[Node, NodeClaim]:
    node, claim = machine("node-1")
    assert isinstance(node, Node)
    assert isinstance(claim, NodeClaim)
    return node, msgspec.structs.replace(claim, spec=msgspec.structs.replace(claim.spec, **spec))


def tainted(node: Node, *taints: Taint) -> Node:
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=taints))


def reason_of(condition_set: conditions.ConditionSet, kind: str) -> str:
    found = condition_set.get(kind)
    assert found is not None
    return found.reason


def test_a_machine_without_node_is_waited_for() -> None:
    """Until a node says that it is the machine, the claim is not registered."""
    _, claim = pair()

    assert (
        reason_of(register(claim, [], claim_conditions(claim, NOW), ()).condition_set, "Registered")
        == "NodeNotFound"
    )


def test_two_nodes_cannot_be_one_machine() -> None:
    """Several nodes with one provider id are a fault that is said so."""
    node, claim = pair()
    found = register(claim, [node, with_meta(node, name="node-2")], claim_conditions(claim, NOW), ())

    assert reason_of(found.condition_set, "Registered") == "MultipleNodesFound"


def test_a_provider_may_hold_a_node_back() -> None:
    """While something of the provider's is pending, the node keeps its closing taint."""
    node, claim = pair(taints=(STARTUP,))
    bare = tainted(with_meta(node, labels={}), CLOSED)
    found = register(claim, [bare], claim_conditions(claim, NOW), ("network",))

    assert reason_of(found.condition_set, "Registered") == "RegistrationHookPending"
    (write,) = found.first
    assert isinstance(write, Amend)
    assert {taint["key"] for taint in write.changes["spec"]["taints"]} == {UNREGISTERED, STARTUP.key}


def test_a_node_that_came_up_open_is_warned_of() -> None:
    """A node without the closing taint may have taken pods too early."""
    node, claim = pair()
    open_node = with_meta(node, labels={}, annotations={})
    told = register(
        with_meta(claim, annotations={"note": "yes"}), [open_node], claim_conditions(claim, NOW), ()
    ).first

    assert [type(each) for each in told] == [Announce, Amend]


def test_taints_are_left_alone_on_request() -> None:
    """A node may ask not to be given its claim's taints."""
    node, claim = pair(taints=(STARTUP,))
    own = tainted(with_meta(node, labels={DO_NOT_SYNC_TAINTS: "true"}), CLOSED)
    (write,) = register(claim, [own], claim_conditions(claim, NOW), ()).first

    assert isinstance(write, Amend)
    assert write.changes["spec"]["taints"] == []


def test_what_is_registered_is_not_written_again() -> None:
    """A node that is what its claim promises already is left alone."""
    node, claim = pair()
    owned = OwnerReference(kind="NodeClaim", uid=claim.metadata.uid)
    done = with_meta(node, finalizers=(TERMINATION_FINALIZER,), owner_references=(owned,))

    assert register(claim, [done], claim_conditions(claim, NOW), ()).first == ()


def test_only_claims_of_pools_have_outcomes() -> None:
    """A claim without a pool tells nobody how it went."""
    _, claim = pair()

    assert registration_outcome(claim, healthy=True) == ()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({"status": {"conditions": ()}}, "NodeNotReady", id="not ready"),
        pytest.param({"spec": {"taints": (STARTUP,)}}, "StartupTaintsExist", id="a taint of its start"),
        pytest.param(
            {"spec": {"taints": (Taint(key=NOT_READY, effect=NO_SCHEDULE),)}},
            "KnownEphemeralTaintsExist",
            id="a taint that passes by itself",
        ),
        pytest.param(
            {"status": {"allocatable": {}}}, "ResourceNotRegistered", id="a resource that is missing"
        ),
        pytest.param(
            {"status": {"allocatable": {"cpu": "many"}}},
            "ResourceNotRegistered",
            id="a resource that cannot be read",
        ),
    ],
)
def test_what_a_node_lacks(change: dict[str, dict[str, Any]], expected: str) -> None:
    """A node is complete when it is ready, open and has what was promised."""
    node, claim = pair(startup_taints=(STARTUP,), resources=NodeClaimResources(requests={"cpu": "1"}))
    for part, fields in change.items():
        node = msgspec.structs.replace(node, **{part: msgspec.structs.replace(getattr(node, part), **fields)})
    bare = msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, conditions=()))

    found = initialize(bare, [node], claim_conditions(bare, NOW))

    assert reason_of(found.condition_set, "Initialized") == expected


def test_a_node_that_vanished_is_not_complete() -> None:
    """Without its node a claim cannot be initialized; with a complete one it is, and the node is told."""
    node, claim = pair()
    bare = msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, conditions=()))
    condition_set = claim_conditions(bare, NOW)

    assert reason_of(initialize(bare, [], condition_set).condition_set, "Initialized") == "NodeNotFound"
    assert initialize(bare, [node], condition_set).first == ()
    assert len(initialize(bare, [with_meta(node, labels={REGISTERED: "true"})], condition_set).first) == 1


def test_patience_ends() -> None:
    """A claim that gets no machine, or no node, in time is given up."""
    _, claim = pair()
    born = with_meta(claim, creation_timestamp=NOW - timedelta(minutes=10))
    bare = msgspec.structs.replace(born, status=msgspec.structs.replace(born.status, conditions=()))
    condition_set = claim_conditions(bare, NOW)
    launched = claim_conditions(with_condition(bare, "Launched"), NOW)

    assert seconds_left(condition_set, LivenessTimeouts()) == -300
    assert seconds_left(launched, LivenessTimeouts()) == 300
    assert (
        seconds_left(claim_conditions(with_condition(claim, "Registered"), NOW), LivenessTimeouts()) is None
    )
    for each, word in ((condition_set, "launch_timeout"), (launched, "registration_timeout")):
        effects = delete_for_timeout(bare, each)
        assert any(isinstance(effect, DeleteObject) for effect in effects)
        assert word in str(effects)


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [
        pytest.param({"cpu": "4"}, True, id="as promised"),
        pytest.param({"cpu": "3600m"}, True, id="nine tenths are enough"),
        pytest.param({"cpu": "3"}, False, id="less is told"),
        pytest.param({"cpu": "many"}, False, id="an amount that cannot be read is told"),
    ],
)
def test_a_node_is_held_to_its_promise(capacity: dict[str, str], expected: bool) -> None:
    """At least nine tenths of every resource that pods asked for must be there."""
    node, claim = pair(
        resources=NodeClaimResources(requests={"cpu": "1", "memory": "1Gi", "example.com/gpu": 0})
    )
    found = msgspec.structs.replace(
        node, status=msgspec.structs.replace(node.status, capacity={"memory": "8Gi", **capacity})
    )

    told = [each for each in check_consistency(claim, [found], NOW).effects if isinstance(each, Announce)]

    assert (not told) is expected
    assert check_consistency(claim, [], NOW).effects == ()


def test_overlays_have_conditions_too() -> None:
    """An overlay starts with conditions that nobody has answered yet."""
    overlay = with_meta(NodeOverlay(), creation_timestamp=NOW)

    assert overlay_conditions(overlay, NOW).status("ValidationSucceeded") == "Unknown"
