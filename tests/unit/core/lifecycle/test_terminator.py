"""The ends of claims and nodes: who goes first, who is waited for, and what is cleared away."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api import labels
from karpenter.api.meta import convert
from karpenter.api.storage import PersistentVolumeClaim, VolumeAttachment
from karpenter.cloud.cloudprovider import Machine
from karpenter.core.effects import Amend, Announce, Count, DeleteObject, Evict, Measure, Step, Terminate
from karpenter.core.lifecycle.garbagecollection import claims_without_machine, machines_without_claim
from karpenter.core.lifecycle.hydration import hydrate
from karpenter.core.lifecycle.podevents import pod_event_node, record_pod_event
from karpenter.core.lifecycle.termination import (
    TerminatingNode,
    finalize_nodeclaim,
    pending_volume_attachments,
    terminate_node,
)
from karpenter.core.lifecycle.terminator import drain
from tests.unit.core.lifecycle.objects import (
    BORN,
    CLASS_LABEL,
    ID,
    NOW,
    at,
    claim,
    complete,
    launched,
    node,
    pod,
    told,
)

if TYPE_CHECKING:
    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.pod import Pod

GONE = {"deletionTimestamp": at(NOW)}
FINAL = {"finalizers": [labels.TERMINATION_FINALIZER], **GONE}
BOUND = {"tolerations": [{"operator": "Exists"}]}
OWNED = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}]}


def kinds(due: Step) -> list[type]:
    return [type(each) for each in due.effects]


def test_a_claim_without_our_finalizer_needs_nothing() -> None:
    """What is not ours to hold may go."""
    assert finalize_nodeclaim(claim(meta={**GONE, "finalizers": []}), (), NOW) == Step()


def test_the_grace_period_is_written_down_first() -> None:
    """The time by which all pods are gone is told to the claim and its nodes."""
    due = finalize_nodeclaim(complete(meta=GONE, spec={"terminationGracePeriod": "10m"}), (node(),), NOW)
    write = due.effects[0]

    assert isinstance(write, Amend)
    assert write.changes["metadata"]["annotations"] == {
        labels.TERMINATION_TIMESTAMP: at(NOW + timedelta(minutes=10))
    }
    assert kinds(due) == [Amend, Announce, Announce]


def test_nodes_go_before_the_machine() -> None:
    """A registered claim waits for its nodes, and asks those that stay to go."""
    due = finalize_nodeclaim(complete(meta=GONE), (node(), node(name="node-2", meta=FINAL)), NOW)

    assert [each.name for each in due.effects if isinstance(each, DeleteObject)] == ["node-1"]
    assert due.again == 5.0


def test_a_claim_without_a_machine_goes_at_once() -> None:
    """There is nothing to end."""
    assert kinds(finalize_nodeclaim(claim(meta=GONE), (), NOW)) == [Amend, Measure, Count]


def test_a_machine_is_asked_to_end_until_it_is_gone() -> None:
    """While it ends the claim says so; once it is gone the finalizer goes, and both times are measured."""
    (ending,) = finalize_nodeclaim(launched(meta=GONE), (), NOW).effects
    assert isinstance(ending, Terminate)
    (going,) = ending.going
    assert isinstance(going, Amend)
    assert told(going.status["conditions"], "InstanceTerminating")[0] == "True"

    (again,) = finalize_nodeclaim(launched(meta=GONE, InstanceTerminating="True"), (), NOW).effects
    assert isinstance(again, Terminate)
    assert [type(each) for each in again.gone] == [Amend, Measure, Measure, Count]


def leave(found: NodeClaim | None, **parts: Any) -> Step:
    return terminate_node(TerminatingNode(node=node(meta=FINAL), claim=found, **parts), parts.pop("now", NOW))


def evicted(due: Step) -> list[str]:
    """Return the pods that are made to leave."""
    return [each.pod for each in due.effects if isinstance(each, Evict)]


def test_a_node_that_is_emptied_says_so_and_waits() -> None:
    """Pods are asked to leave for the reason that the claim names, and the claim says that it drains."""
    found = complete(meta=GONE, DisruptionReason="True")
    due = leave(found, pods=(pod(),))
    eviction = next(each for each in due.effects if isinstance(each, Evict))

    assert eviction.because == "DisruptionReason"
    assert any(isinstance(each, Announce) and each.reason == "FailedDraining" for each in due.effects)
    write = due.effects[-1]
    assert isinstance(write, Amend)
    assert told(write.status["conditions"], "Drained") == ("Unknown", "Draining")


def test_a_node_counts_as_empty_only_after_a_while() -> None:
    """Pods may have been on their way when it was closed."""
    just_begun = complete(meta=GONE)
    due = leave(just_begun)
    assert not evicted(due)
    assert due.again == 1.0

    long_ago = complete(meta=GONE, Drained="Unknown")
    write = leave(long_ago).effects[1]
    assert isinstance(write, Amend)
    assert told(write.status["conditions"], "Drained") == ("True", "Drained")
    assert told(write.status["conditions"], "VolumesDetached") == ("True", "VolumesDetached")


def test_a_node_whose_draining_begins_in_the_future_begins_now() -> None:
    """A leader whose clock was an hour ahead does not keep a node for an hour."""
    found = complete(meta=GONE, Drained="Unknown")
    earlier = NOW - timedelta(hours=1)
    *_, write = terminate_node(TerminatingNode(node=node(meta=FINAL), claim=found), earlier).effects

    assert isinstance(write, Amend)
    (drained,) = [each for each in write.status["conditions"] if each["type"] == "Drained"]
    assert (drained["status"], drained["lastTransitionTime"]) == ("Unknown", at(earlier))


def attached(name: str, volume: str | None, where: str = "node-1") -> VolumeAttachment:
    source = {"persistentVolumeName": volume} if volume else {}
    return convert(
        {"metadata": {"name": name}, "spec": {"nodeName": where, "source": source}}, VolumeAttachment
    )


def test_volumes_are_let_go_before_the_machine_ends() -> None:
    """Attachments are waited for until time is up."""
    volumes = (attached("va", "pv"),)
    waits = leave(complete(meta=GONE, Drained="True"), attachments=volumes)
    assert any(isinstance(each, Announce) for each in waits.effects)
    write = waits.effects[-1]
    assert isinstance(write, Amend)
    assert told(write.status["conditions"], "VolumesDetached") == ("Unknown", "AwaitingVolumeDetachment")

    late = {**GONE, "annotations": {labels.TERMINATION_TIMESTAMP: at(NOW - timedelta(seconds=1))}}
    over = leave(complete(meta=late, Drained="True"), attachments=volumes).effects[-1]
    assert isinstance(over, Amend)
    assert told(over.status["conditions"], "VolumesDetached") == ("False", "TerminationGracePeriodElapsed")
    assert kinds(leave(None, attachments=volumes)) == [Amend, Announce]


def test_the_machine_ends_when_everything_was_said() -> None:
    """Once the claim tells that its node is empty the machine is ended; a node without a claim likewise."""
    settled = complete(meta=GONE, Drained="True", VolumesDetached="True", Ready="True")
    due = leave(settled)
    ending = due.effects[-1]

    assert isinstance(ending, Terminate)
    assert ending.going
    assert [type(each) for each in ending.gone] == [Amend, Count, Measure, Measure]
    assert kinds(leave(None)) == [Amend, Terminate]
    assert due.again == 5.0


def test_attachments_of_pods_that_stay_do_not_hold_a_node() -> None:
    """Only volumes that a drain lets go are waited for, by name."""
    mounts = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
    other = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "unknown"}}]}
    stays = pod("stays", spec={**BOUND, **mounts})
    bound = convert(
        {"metadata": {"name": "data", "namespace": "default"}, "spec": {"volumeName": "kept"}},
        PersistentVolumeClaim,
    )
    everything = [attached("b", "pv"), attached("a", "pv2"), attached("c", "kept"), attached("d", None)]
    everything.append(attached("e", "pv", "node-2"))
    found = pending_volume_attachments(
        {each.name: each for each in everything},
        "node-1",
        (stays, pod("odd", spec={**BOUND, **other}), pod()),
        {"default/data": bound},
    )

    assert [each.name for each in found] == ["a", "b"]


@pytest.mark.parametrize(
    ("pods", "leaving"),
    [
        pytest.param((pod("b", meta=OWNED), pod("a")), ["a"], id="ordinary pods before daemons"),
        pytest.param(
            (pod("a", spec={"priorityClassName": "system-node-critical"}), pod("b", meta=OWNED)),
            ["b"],
            id="daemons before critical ones",
        ),
        pytest.param(
            (pod("a", meta=GONE), pod("b", meta=OWNED)), [], id="a tier is waited for until it is gone"
        ),
        pytest.param((pod("a", spec=BOUND),), [], id="what tolerates the taint stays"),
    ],
)
def test_one_tier_leaves_at_a_time(pods: tuple[Pod, ...], leaving: list[str]) -> None:
    """Whoever others need leaves last."""
    assert [each.name for each in drain(pods, NOW).evicting] == leaving


def test_a_pod_that_is_stuck_is_not_waited_for() -> None:
    """A minute past its end a pod holds its node no longer."""
    assert drain([pod(meta=GONE)], NOW + timedelta(seconds=61)).is_done


def test_pods_that_would_be_late_leave_at_once() -> None:
    """Near the end of the node's time all pods are made to leave, whatever their tier."""
    both = (pod("a"), pod("b", meta=OWNED, spec={"terminationGracePeriodSeconds": 600}))

    assert [p.name for p in drain(both, NOW, NOW + timedelta(minutes=5)).evicting] == ["b", "a"]


def test_critical_pods_wait_for_those_that_would_be_late() -> None:
    """A pod that is made to leave is waited for by the tiers after its own until it is gone."""
    vital = pod("vital", spec={"priorityClassName": "system-cluster-critical"})
    slow = {"terminationGracePeriodSeconds": 600}
    by = NOW + timedelta(minutes=5)

    assert [p.name for p in drain((vital, pod("slow", spec=slow)), NOW, by).evicting] == ["slow"]
    assert drain((vital, pod("slow", meta=GONE, spec=slow)), NOW, by).evicting == ()


def machine(**parts: Any) -> Machine:
    return Machine(
        **{"provider_id": ID, "claim_uid": "claim-1-uid", "created": NOW - timedelta(hours=1), **parts}
    )


@pytest.mark.parametrize(
    ("found", "machines", "nodes", "goes"),
    [
        pytest.param(complete(), (), (), True, id="its machine is gone"),
        pytest.param(
            complete(), (machine(deleting=True),), (node(ready=False),), True, id="its machine ends"
        ),
        pytest.param(complete(), (machine(),), (), False, id="its machine is there"),
        pytest.param(complete(), (), (node(),), False, id="its node still reports"),
        pytest.param(launched(), (), (), False, id="it has not registered yet"),
        pytest.param(complete(meta=GONE), (), (), False, id="it goes already"),
    ],
)
def test_claims_without_a_machine_go(
    found: NodeClaim, machines: tuple[Machine, ...], nodes: tuple[Node, ...], goes: bool
) -> None:
    """A registered claim whose machine the cloud does not know, and whose node is silent, is removed."""
    assert bool(claims_without_machine([found], machines, lambda _: nodes)) == goes


@pytest.mark.parametrize(
    ("found", "goes"),
    [
        pytest.param(machine(provider_id="kwok://x", claim_uid="x"), True, id="nobody asked for it"),
        pytest.param(machine(provider_id="kwok://x"), True, id="its claim has another one"),
        pytest.param(machine(claim_uid=""), False, id="a claim names it"),
        pytest.param(machine(provider_id="kwok://x", claim_uid="x", created=NOW), False, id="it is young"),
        pytest.param(
            machine(provider_id="kwok://x", claim_uid="x", created=None), False, id="its age is unknown"
        ),
        pytest.param(
            machine(provider_id="kwok://x", claim_uid="x", deleting=True), False, id="it goes already"
        ),
    ],
)
def test_machines_without_a_claim_end(found: Machine, goes: bool) -> None:
    """A machine that no claim is for, and that is old enough to be missed, is ended."""
    assert bool(machines_without_claim([found], [launched()], NOW)) == goes


def test_a_machine_is_not_missed_by_a_claim_that_does_not_know_it_yet() -> None:
    """The launch may be answered at this moment."""
    assert machines_without_claim([machine(provider_id="kwok://x")], [claim()], NOW) == ()


def test_claims_and_nodes_name_their_class() -> None:
    """What lacks the label gets it; nodes that are not registered wait."""
    bare = launched(meta={"labels": {}})
    registered = node(meta={"labels": {labels.REGISTERED: "true"}})
    effects = hydrate(bare, (registered, node(name="node-2")))

    assert [(each.kind, each.name) for each in effects if isinstance(each, Amend)] == [
        ("NodeClaim", "claim-1"),
        ("Node", "node-1"),
    ]
    assert (
        hydrate(claim(), (node(meta={"labels": {labels.REGISTERED: "true", CLASS_LABEL: "default"}}),)) == ()
    )


WAITS = pod(spec={"nodeName": ""})
LATE = NOW + timedelta(seconds=5)
STATIC = {
    "creationTimestamp": at(LATE),
    "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "n"}],
}


@pytest.mark.parametrize(
    ("now", "before", "where"),
    [
        pytest.param(pod(), WAITS, "node-1", id="it is bound"),
        pytest.param(pod(status={"phase": "Failed"}), pod(), "node-1", id="it ends"),
        pytest.param(pod(meta=GONE), pod(), "node-1", id="it is asked to go"),
        pytest.param(None, pod(), "node-1", id="it is gone"),
        pytest.param(pod(), pod(), "", id="it only changes"),
        pytest.param(pod(), None, "", id="we hear of it for the first time"),
        pytest.param(pod(meta={"creationTimestamp": at(BORN)}), None, "", id="it came before us"),
        pytest.param(pod(meta={"creationTimestamp": at(LATE)}), None, "node-1", id="it came unseen"),
        pytest.param(pod(meta=STATIC), None, "", id="it came with its node"),
        pytest.param(WAITS, WAITS, "", id="it has no node"),
        pytest.param(None, pod(meta=OWNED), "", id="it is a daemon"),
        pytest.param(None, None, "", id="there is no pod"),
    ],
)
def test_pods_that_come_and_go(now: Pod | None, before: Pod | None, where: str) -> None:
    """Only coming and going counts, and daemons do not."""
    assert pod_event_node(now, before, NOW) == where


def test_pod_events_are_written_once_in_ten_seconds() -> None:
    """Bursts are one event."""
    recent = complete(status={"providerID": ID, "lastPodEventTime": at(NOW - timedelta(seconds=9))})
    older = complete(status={"providerID": ID, "lastPodEventTime": at(NOW - timedelta(seconds=10))})
    (write,) = record_pod_event(older, NOW)

    assert record_pod_event(recent, NOW) == ()
    assert isinstance(write, Amend)
    assert write.status == {"lastPodEventTime": at(NOW)}


@pytest.mark.parametrize(
    ("ahead", "writes"),
    [
        pytest.param(60, 0, id="by a clock that is a little ahead"),
        pytest.param(61, 1, id="by one that was wrong"),
    ],
)
def test_a_pod_event_in_the_future(ahead: int, writes: int) -> None:
    """A time that is still to come is replaced, unless clocks may differ by so much."""
    found = complete(status={"providerID": ID, "lastPodEventTime": at(NOW + timedelta(seconds=ahead))})

    assert len(record_pod_event(found, NOW)) == writes
