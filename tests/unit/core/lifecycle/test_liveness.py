"""One look at a claim: from its finalizer to its complete node."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api import labels
from karpenter.core.effects import (
    Amend,
    Announce,
    Count,
    DeleteObject,
    Effect,
    Launch,
    RegistrationOutcome,
    Step,
)
from karpenter.core.lifecycle.launch import launch
from karpenter.core.lifecycle.liveness import (
    LivenessTimeouts,
    lifecycle_inputs,
    reads_nodes,
    reconcile_nodeclaim,
)
from tests.unit.core.lifecycle.objects import BORN, ID, NOW, at, claim, complete, launched, node, told

if TYPE_CHECKING:
    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim

CLOSED = {"key": labels.UNREGISTERED, "effect": "NoExecute"}


def amended(due: Step, kind: str = "NodeClaim") -> Amend:
    """Return the write to an object of one kind."""
    return next(each for each in due.effects if isinstance(each, Amend) and each.kind == kind)


def conditions_of(due: Step) -> Any:
    return amended(due).status["conditions"]


def test_the_finalizer_comes_first() -> None:
    """Before anything else a claim is kept from going without its machine."""
    due = reconcile_nodeclaim(claim(meta={"finalizers": ["other"]}), (), NOW)

    assert amended(due).changes == {"metadata": {"finalizers": ["other", labels.TERMINATION_FINALIZER]}}
    assert len(due.effects) == 1


def test_a_claim_without_a_machine_is_launched() -> None:
    """A claim that nobody knows to be launched is, and is looked at again when its time is up."""
    due = reconcile_nodeclaim(claim(), (), NOW)

    assert due.effects == (launch(claim(), "it is not launched yet"),)
    assert due.again == pytest.approx(180)


def test_a_launch_that_takes_too_long_is_given_up() -> None:
    """After five minutes the claim goes, and its pool learns why."""
    found = claim(Launched="Unknown")
    outcome, deleted, counted = reconcile_nodeclaim(found, (), BORN + timedelta(minutes=5)).effects

    assert isinstance(outcome, RegistrationOutcome)
    assert (outcome.healthy, outcome.reason, outcome.pool_uid) == (False, "Because", "pool-uid")
    assert isinstance(deleted, DeleteObject)
    assert isinstance(counted, Count)
    assert counted.labels["reason"] == "launch_timeout"


def test_a_machine_that_does_not_join_is_given_up() -> None:
    """After fifteen minutes without a node the claim goes, and its pool counts a failure."""
    outcome, deleted, counted = reconcile_nodeclaim(launched(), (), BORN + timedelta(minutes=15)).effects

    assert isinstance(outcome, RegistrationOutcome)
    assert (outcome.healthy, outcome.reason) == (False, "RegistrationFailed")
    assert isinstance(deleted, DeleteObject)
    assert isinstance(counted, Count)
    assert counted.labels["reason"] == "registration_timeout"


def test_patience_is_the_caller_s() -> None:
    """A provider may want more time for its launches."""
    timeouts = LivenessTimeouts(launch=timedelta(hours=1))

    assert isinstance(
        reconcile_nodeclaim(claim(), (), BORN + timedelta(minutes=30), timeouts=timeouts).effects[0], Launch
    )


def test_a_claim_nobody_owns_tells_no_pool() -> None:
    """Standalone claims have no pool to tell."""
    effects = reconcile_nodeclaim(claim(meta={"ownerReferences": []}), (), BORN + timedelta(hours=1)).effects

    assert [type(each) for each in effects] == [DeleteObject, Count]


def test_a_node_that_is_not_there_yet_is_waited_for() -> None:
    """Without a node the registration is unknown."""
    due = reconcile_nodeclaim(launched(), (), NOW)

    assert told(conditions_of(due), "Registered") == ("Unknown", "NodeNotFound")
    assert due.again == pytest.approx(13 * 60)


def test_two_nodes_of_one_machine_are_a_mistake() -> None:
    """Several nodes with one provider id make the registration fail, by name."""
    due = reconcile_nodeclaim(launched(), (node(), node(name="node-0")), NOW)

    assert told(conditions_of(due), "Registered") == ("False", "MultipleNodesFound")
    message = next(c["message"] for c in conditions_of(due) if c["type"] == "Registered")
    assert message.endswith("node-0, node-1")


def test_registration_makes_a_node_what_its_claim_promises() -> None:
    """Labels, annotations, taints, finalizer and owner come in one write; the first taint goes."""
    found = launched(
        meta={"annotations": {"note": "yes"}},
        spec={
            "taints": [{"key": "team", "value": "web", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "setup", "effect": "NoSchedule"}],
        },
    )
    due = reconcile_nodeclaim(found, (node(spec={"taints": [CLOSED]}),), NOW)
    write = amended(due, "Node")

    assert write.version == "3"
    assert write.changes["spec"]["taints"] == [
        {"key": "team", "effect": "NoSchedule", "value": "web"},
        {"key": "setup", "effect": "NoSchedule"},
    ]
    metadata = write.changes["metadata"]
    assert metadata["labels"][labels.REGISTERED] == "true"
    assert metadata["labels"][labels.NODEPOOL] == "default"
    assert metadata["annotations"] == {"note": "yes"}
    assert metadata["finalizers"] == [labels.TERMINATION_FINALIZER]
    assert metadata["ownerReferences"][0]["uid"] == "claim-1-uid"
    assert told(conditions_of(due), "Registered") == ("True", "Registered")
    assert amended(due).status["nodeName"] == "node-1"
    assert [type(each) for each in due.effects] == [Amend, Amend, Count, RegistrationOutcome]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(node(ready=False), ("Unknown", "NodeNotReady"), id="a node that is not ready"),
        pytest.param(
            node(spec={"taints": [CLOSED]}),
            ("Unknown", "StartupTaintsExist"),
            id="a node that gets a startup taint by that write",
        ),
    ],
)
def test_registration_says_what_the_node_lacks(found: Node, expected: tuple[str, str]) -> None:
    """One write tells both; the node is judged by what it is after the write."""
    asked = launched(
        spec={"startupTaints": [{"key": "setup", "effect": "NoSchedule"}]},
        Registered="Unknown",
        Initialized="Unknown",
    )
    due = reconcile_nodeclaim(asked, (found,), NOW)
    told_by = {each["type"]: (each["status"], each["reason"]) for each in conditions_of(due)}

    assert told_by["Registered"] == ("True", "Registered")
    assert told_by["Initialized"] == expected
    assert [each for each in due.effects if isinstance(each, Amend) and "initialized" in each.because] == []


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [
        pytest.param("4", ("True", "ConsistentStateFound"), id="as promised"),
        pytest.param("1", None, id="a smaller one is told of by the controller of consistency"),
    ],
)
@pytest.mark.parametrize("registered", ["Unknown", "True"], ids=["with its registration", "after it"])
def test_an_initialization_finds_a_node_consistent(
    registered: str, capacity: str, expected: tuple[str, str] | None
) -> None:
    """The write that initializes a claim also says that its node has the expected resources."""
    found = launched(
        spec={"resources": {"requests": {"cpu": "1"}}},
        status={"capacity": {"cpu": "4"}},
        Registered=registered,
        Initialized="Unknown",
    )
    there = node(status={"capacity": {"cpu": capacity}, "allocatable": {"cpu": capacity}})
    told_by = {
        each["type"]: (each["status"], each["reason"])
        for each in conditions_of(reconcile_nodeclaim(found, (there,), NOW))
    }

    assert told_by["Registered"][0] == "True"
    assert told_by["Initialized"] == ("True", "Initialized")
    assert told_by.get("ConsistentStateFound") == expected


def test_a_complete_node_is_registered_and_initialized_by_one_write() -> None:
    """A node that was ready before its turn came is written once, on the version that was judged."""
    found = launched(Registered="Unknown", Initialized="Unknown")
    due = reconcile_nodeclaim(found, (node(spec={"taints": [CLOSED]}),), NOW)
    (write,) = (each for each in due.effects if isinstance(each, Amend) and each.kind == "Node")

    assert write.version == "3"
    assert write.changes["metadata"]["labels"][labels.REGISTERED] == "true"
    assert write.changes["metadata"]["labels"][labels.INITIALIZED] == "true"
    assert write.changes["spec"]["taints"] == []
    assert told(conditions_of(due), "Ready") == ("True", "Ready")


def test_a_node_that_came_up_open_is_told_of() -> None:
    """A node without the first taint may have taken pods too early."""
    effects = reconcile_nodeclaim(launched(), (node(),), NOW).effects

    assert isinstance(effects[0], Announce)
    assert effects[0].reason == "UnregisteredTaintMissing"


def test_taints_are_left_alone_where_the_node_says_so() -> None:
    """A label keeps the claim's taints off the node."""
    found = launched(spec={"taints": [{"key": "team", "effect": "NoSchedule"}]})
    marked = node(meta={"labels": {labels.DO_NOT_SYNC_TAINTS: "true"}}, spec={"taints": [CLOSED]})

    assert amended(reconcile_nodeclaim(found, (marked,), NOW), "Node").changes["spec"]["taints"] == []


def test_a_node_that_is_right_already_is_not_written() -> None:
    """After a lost answer the claim is written, and of the node what was not there yet."""
    own = {labels.NODEPOOL: "default", labels.ZONE: "zone-1", "karpenter.kwok.sh/kwoknodeclass": "default"}
    meta = {
        "labels": {**own, labels.REGISTERED: "true"},
        "finalizers": [labels.TERMINATION_FINALIZER],
        "ownerReferences": [{"uid": "claim-1-uid", "kind": "NodeClaim", "name": "claim-1"}],
    }
    due = reconcile_nodeclaim(launched(), (node(meta=meta, ready=False),), NOW)
    assert [each.kind for each in due.effects if isinstance(each, Amend)] == ["NodeClaim"]

    due = reconcile_nodeclaim(launched(), (node(meta=meta),), NOW)
    assert amended(due, "Node").changes == {"metadata": {"labels": {labels.INITIALIZED: "true"}}}


def test_a_provider_may_hold_a_registration() -> None:
    """While something is missing the taint stays, and the condition names what."""
    due = reconcile_nodeclaim(launched(), (node(spec={"taints": [CLOSED]}),), NOW, holds=["network", "disk"])

    assert told(conditions_of(due), "Registered") == ("Unknown", "RegistrationHookPending")
    assert "taints" not in amended(due, "Node").changes.get("spec", {})
    assert labels.REGISTERED not in amended(due, "Node").changes["metadata"]["labels"]


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        pytest.param((), "NodeNotFound", id="no node"),
        pytest.param((node(ready=False),), "NodeNotReady", id="not ready"),
        pytest.param(
            (node(spec={"taints": [{"key": "setup", "effect": "NoSchedule"}]}),),
            "StartupTaintsExist",
            id="a startup taint is left",
        ),
        pytest.param(
            (node(spec={"taints": [{"key": labels.NOT_READY, "effect": "NoSchedule"}]}),),
            "KnownEphemeralTaintsExist",
            id="a passing taint is left",
        ),
        pytest.param(
            (node(status={"allocatable": {"cpu": "4", "example.com/gpu": "0"}}),),
            "ResourceNotRegistered",
            id="a resource is missing",
        ),
        pytest.param(
            (node(status={"allocatable": {"cpu": "lots"}}),),
            "ResourceNotRegistered",
            id="an amount is unreadable",
        ),
    ],
)
def test_a_node_is_not_complete(nodes: Any, reason: str) -> None:
    """The first thing that a node lacks is the reason."""
    found = launched(
        Registered="True",
        Initialized="Unknown",
        spec={
            "startupTaints": [{"key": "setup", "effect": "NoSchedule"}],
            "resources": {"requests": {"cpu": "1", "example.com/gpu": "1", "pods": "0"}},
        },
    )

    assert told(conditions_of(reconcile_nodeclaim(found, nodes, NOW)), "Initialized") == ("Unknown", reason)


def test_a_complete_node_is_labelled() -> None:
    """The label comes before the condition, once."""
    found = launched(Registered="True", Initialized="Unknown")
    due = reconcile_nodeclaim(found, (node(),), NOW)

    assert amended(due, "Node").changes == {"metadata": {"labels": {labels.INITIALIZED: "true"}}}
    assert told(conditions_of(due), "Ready") == ("True", "Ready")
    again = reconcile_nodeclaim(found, (node(meta={"labels": {labels.INITIALIZED: "true"}}),), NOW)
    assert [each.kind for each in again.effects if isinstance(each, Amend)] == ["NodeClaim"]


def test_a_complete_claim_needs_nothing() -> None:
    """Nothing is written when nothing has changed."""
    first = reconcile_nodeclaim(complete(), (node(),), NOW)
    effects: tuple[Effect, ...] = first.effects
    settled = complete(Ready="True")

    assert [type(each) for each in effects] == [Amend]
    assert reconcile_nodeclaim(settled, (node(),), NOW) == Step()
    assert settled.status.provider_id == ID


@pytest.mark.parametrize(
    ("after", "same"),
    [
        pytest.param(launched(meta={"resourceVersion": "8"}), True, id="written again"),
        pytest.param(launched(status={"lastPodEventTime": at(NOW)}), True, id="with a new pod"),
        pytest.param(launched(ConsistentStateFound="True"), True, id="found consistent"),
        pytest.param(launched(Consolidatable="True"), True, id="consolidatable"),
        pytest.param(launched(Drifted="True"), True, id="drifted"),
        pytest.param(launched(Registered="True"), False, id="registered"),
        pytest.param(launched(status={"nodeName": "node-1"}), False, id="named"),
        pytest.param(launched(meta={"labels": {"a": "b"}}), False, id="labelled"),
        pytest.param(launched(meta={"finalizers": []}), False, id="without finalizer"),
        pytest.param(launched(spec={"expireAfter": "1h"}), False, id="of another spec"),
    ],
)
def test_what_the_lifecycle_depends_on(after: NodeClaim, same: bool) -> None:
    """What other controllers keep in the status of a claim is no step of its life."""
    assert (lifecycle_inputs(launched()) == lifecycle_inputs(after)) is same


@pytest.mark.parametrize(
    ("found", "reads"),
    [
        pytest.param(launched(), True, id="no node yet"),
        pytest.param(launched(Registered="True", Initialized="Unknown"), True, id="not initialized"),
        pytest.param(complete(), False, id="initialized"),
        pytest.param(complete(meta={"deletionTimestamp": at(NOW)}), True, id="on its way out"),
    ],
)
def test_when_the_lifecycle_depends_on_nodes(found: NodeClaim, reads: bool) -> None:
    """Between its initialization and its end nothing about a node changes the life of its claim."""
    assert reads_nodes(found) is reads
