"""How pods, nodes and claims leave."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from karpenter.api.labels import (
    DISRUPTED,
    DO_NOT_DISRUPT,
    EXCLUDE_FROM_LOAD_BALANCERS,
    NO_SCHEDULE,
    TERMINATION_FINALIZER,
    TERMINATION_TIMESTAMP,
)
from karpenter.api.meta import Condition, ObjectMeta
from karpenter.api.node import Node, Taint
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.pod import PersistentVolumeClaimSource, PersistentVolumeClaimSpec, Pod, PodStatus, Volume
from karpenter.api.storage import (
    PersistentVolumeClaim,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from karpenter.core.effects import Amend, Announce, Count, DeleteObject, Terminate
from karpenter.core.lifecycle.conditions import termination_grace_period, termination_mode
from karpenter.core.lifecycle.expiration import expire
from karpenter.core.lifecycle.interruption import handle_interruption
from karpenter.core.lifecycle.termination import (
    InvalidTerminationTime,
    TerminatingNode,
    disrupted_taint_patch,
    finalize_nodeclaim,
    may_have_node,
    pending_volume_attachments,
    terminate_node,
    termination_time,
)
from karpenter.core.lifecycle.terminator import (
    DeletePod,
    EvictionAction,
    EvictionDone,
    EvictPod,
    RetryEviction,
    eviction_action,
)
from tests.unit.core.disruption.clusters import LONG_AGO, NOW, machine, pod

SOON = NOW + timedelta(seconds=20)


def pair(**more: Any) -> tuple[Node, NodeClaim]:
    """Return a node and its claim, both with our finalizer."""
    node, claim = machine("node-1", **more)
    assert isinstance(node, Node)
    assert isinstance(claim, NodeClaim)
    return with_meta(node, finalizers=(TERMINATION_FINALIZER,)), with_meta(
        claim, finalizers=(TERMINATION_FINALIZER,)
    )


def with_meta(item: Any, **meta: Any) -> Any:
    """Return an object with some of its metadata changed."""
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, **meta))


def with_condition(
    claim: NodeClaim, kind: str, status: str = "True", since: datetime = LONG_AGO
) -> NodeClaim:
    more = Condition(type=kind, status=status, last_transition_time=since)
    conditions = (*claim.status.conditions, more)
    return msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, conditions=conditions))


def a_pod(*, grace: int | None = None, **meta: Any) -> Pod:
    found = pod("web-0", "node-1", uid="u", **meta)
    spec = msgspec.structs.replace(found.spec, termination_grace_period_seconds=grace)
    return msgspec.structs.replace(found, spec=spec)


@pytest.mark.parametrize(
    ("found", "by", "expected"),
    [
        pytest.param(None, None, EvictionDone(), id="a pod that is gone"),
        pytest.param(a_pod(), None, EvictPod(), id="an ordinary pod is asked to leave"),
        pytest.param(
            a_pod(annotations={DO_NOT_DISRUPT: "true"}),
            None,
            RetryEviction(),
            id="a protected pod is waited for",
        ),
        pytest.param(a_pod(deletion_timestamp=NOW), None, EvictionDone(), id="a pod that leaves already"),
        pytest.param(a_pod(grace=60), SOON, DeletePod(20), id="a pod that wants more time than there is"),
        pytest.param(a_pod(grace=10), SOON, EvictPod(), id="a pod that will be gone in time"),
        pytest.param(a_pod(), SOON, DeletePod(20), id="half a minute unless the pod says otherwise"),
        pytest.param(
            a_pod(deletion_timestamp=NOW + timedelta(hours=1)),
            SOON,
            DeletePod(20),
            id="a pod that leaves too late",
        ),
        pytest.param(
            a_pod(grace=5), NOW - timedelta(hours=1), DeletePod(1), id="past the time it has a second"
        ),
    ],
)
def test_way_out(found: Pod | None, by: datetime | None, expected: EvictionAction) -> None:
    """A pod is asked, waited for, or deleted because its node's time is nearly up."""
    assert eviction_action(found, "u", by, NOW) == expected


@pytest.mark.parametrize(
    ("grace", "expected"),
    [(None, "graceful"), ("30s", "eventual"), ("0s", "forceful"), ("soon", "graceful")],
)
def test_termination_mode(grace: str | None, expected: str) -> None:
    """A claim without grace period waits for its pods; one of zero does not."""
    assert termination_mode(pair(grace=grace)[1]) == expected


def test_grace_of() -> None:
    """The grace period is read from the claim."""
    assert termination_grace_period(pair(grace="10m")[1]) == timedelta(minutes=10)


TOLD = [Announce, Announce]
"""To the claim and to its node."""


@pytest.mark.parametrize(
    ("drains", "forceful", "leaving", "expected"),
    [
        pytest.param(False, False, False, TOLD, id="a rebalancing is only told"),
        pytest.param(
            True, False, False, [*TOLD, DeleteObject, *TOLD], id="an interruption drains, which is told, too"
        ),
        pytest.param(True, True, False, [*TOLD, Amend, DeleteObject, *TOLD], id="without time it hurries"),
        pytest.param(True, True, True, TOLD, id="what leaves already is left alone"),
    ],
)
def test_interrupted(drains: bool, forceful: bool, leaving: bool, expected: list[type]) -> None:
    """A machine that its cloud takes away is drained first, as far as there is time."""
    node, claim = pair()
    if leaving:
        claim = with_meta(claim, deletion_timestamp=NOW)

    effects = handle_interruption(
        claim, [node], kind="spot_interrupted", drains=drains, forceful=forceful, now=NOW
    )

    assert [type(each) for each in effects if type(each) in {Announce, Amend, DeleteObject}] == expected


def test_expire() -> None:
    """A claim goes when it is too old, and says when that will be."""
    claim = pair(expires="72h")[1]

    assert expire(claim, NOW).again == timedelta(hours=24).total_seconds()
    assert next(type(each) for each in expire(claim, NOW + timedelta(hours=24)).effects) is DeleteObject
    assert expire(with_meta(claim, deletion_timestamp=NOW), NOW + timedelta(days=9)).effects == ()


def test_pods_of_a_claim_that_is_too_old_are_counted() -> None:
    """Those that run again elsewhere; a pod that has ended is disturbed by nothing."""
    found = pair(expires="24h")[1]
    pods = [pod("web-1", "m"), pod("web-2", "m"), pod("done-1", "m")]
    pods[2] = msgspec.structs.replace(pods[2], status=PodStatus(phase="Succeeded"))
    counts = {
        each.metric: each.amount
        for each in expire(found, NOW + timedelta(days=9), pods).effects
        if isinstance(each, Count)
    }

    assert counts == {
        "karpenter_nodeclaims_disrupted_total": 1.0,
        "karpenter_pods_disruption_initiated_total": 2.0,
    }


def test_a_claim_writes_down_its_deadline_first() -> None:
    """With a grace period, the time by which the node goes is written down before anything else."""
    node, claim = pair(grace="10m")
    (note, *told) = finalize_nodeclaim(with_meta(claim, deletion_timestamp=NOW), [node], NOW).effects

    assert isinstance(note, Amend)
    assert note.changes["metadata"]["annotations"][TERMINATION_TIMESTAMP] == "2026-03-02T12:10:00Z"
    assert len(told) == 2


@pytest.mark.parametrize(
    ("registered", "terminating", "name", "finalizers", "expected"),
    [
        pytest.param(
            "True", "Unknown", "node-1", (TERMINATION_FINALIZER,), True, id="one that is registered"
        ),
        pytest.param("False", "Unknown", "node-1", (TERMINATION_FINALIZER,), False, id="one that is not"),
        pytest.param(
            "True", "True", "node-1", (TERMINATION_FINALIZER,), False, id="its machine ends already"
        ),
        pytest.param("True", "Unknown", "", (TERMINATION_FINALIZER,), False, id="its node has no name"),
        pytest.param("True", "Unknown", "node-1", (), False, id="nothing is left to do for it"),
    ],
)
def test_a_claim_that_may_have_a_node(
    registered: str, terminating: str, name: str, finalizers: tuple[str, ...], expected: bool
) -> None:
    """The Node of a claim is looked for unless it was never there, or was drained before."""
    _, claim = pair()
    claim = with_condition(with_meta(claim, finalizers=finalizers), "Registered", registered)
    claim = with_condition(claim, "InstanceTerminating", terminating)
    claim = msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, node_name=name))

    assert may_have_node(claim) is expected


def test_a_claim_that_never_had_a_machine_goes_at_once() -> None:
    """Nothing has to end before the finalizer goes."""
    _, claim = pair()
    bare = msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, provider_id=""))

    step = finalize_nodeclaim(with_meta(bare, deletion_timestamp=NOW), [], NOW)

    assert not any(isinstance(each, Terminate) for each in step.effects)
    assert finalize_nodeclaim(with_meta(claim, finalizers=()), [], NOW).effects == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, None), ("2026-03-02T12:10:00Z", NOW + timedelta(minutes=10))],
)
def test_deadline(text: str | None, expected: datetime | None) -> None:
    """A claim may say by when its node has to be gone."""
    claim = pair()[1]
    notes = {TERMINATION_TIMESTAMP: text} if text else {}

    assert termination_time(with_meta(claim, annotations=notes)) == expected
    assert termination_time(None) is None


@pytest.mark.parametrize("text", ["soon", "2026-03-02T12:10:00"])
def test_a_deadline_that_is_no_time(text: str) -> None:
    """Nonsense is refused with a sentence that names the claim and the annotation."""
    with pytest.raises(InvalidTerminationTime, match=TERMINATION_TIMESTAMP):
        termination_time(with_meta(pair()[1], annotations={TERMINATION_TIMESTAMP: text}))


def test_a_node_is_closed_once() -> None:
    """New pods and new traffic are kept off a node that leaves; a closed node is not written again."""
    node, _ = pair()
    (write,) = disrupted_taint_patch(node)
    assert isinstance(write, Amend)
    closed = with_meta(node, labels={**node.metadata.labels, EXCLUDE_FROM_LOAD_BALANCERS: "karpenter"})
    taint = Taint(key=DISRUPTED, effect=NO_SCHEDULE)
    closed = msgspec.structs.replace(closed, spec=msgspec.structs.replace(closed.spec, taints=(taint,)))

    assert write.changes["spec"]["taints"][0]["key"] == DISRUPTED
    assert disrupted_taint_patch(closed) == ()


def test_the_claim_goes_with_its_node() -> None:
    """Deleting a node deletes its claim first; a node without our finalizer is none of our business."""
    node, claim = pair()
    leaving = with_meta(node, deletion_timestamp=NOW)

    (first,) = terminate_node(TerminatingNode(node=leaving, claim=claim), NOW).effects

    assert isinstance(first, DeleteObject)
    assert terminate_node(TerminatingNode(node=with_meta(leaving, finalizers=())), NOW).effects == ()


def test_a_machine_that_is_gone_needs_no_drain() -> None:
    """When its cloud knows no such machine any more, the node goes at once."""
    node, claim = pair()
    gone = TerminatingNode(node=node, claim=with_meta(claim, deletion_timestamp=NOW), machine_gone=True)

    assert not any(isinstance(each, Terminate) for each in terminate_node(gone, NOW).effects)


def _attached(name: str, volume: str | None) -> VolumeAttachment:
    source = VolumeAttachmentSource(persistent_volume_name=volume)
    return VolumeAttachment(
        metadata=ObjectMeta(name=name), spec=VolumeAttachmentSpec(node_name="node-1", source=source)
    )


def test_volumes_of_pods_that_stay_do_not_block() -> None:
    """Only volumes that a leaving pod used have to be let go."""
    stays = a_pod()
    mount = Volume(name="data", persistent_volume_claim=PersistentVolumeClaimSource(claim_name="kept"))
    spec = msgspec.structs.replace(stays.spec, volumes=(mount,))
    finished = msgspec.structs.replace(
        stays, spec=spec, status=msgspec.structs.replace(stays.status, phase="Succeeded")
    )
    claims = {
        "default/kept": PersistentVolumeClaim(
            metadata=ObjectMeta(name="kept", namespace="default"),
            spec=PersistentVolumeClaimSpec(volume_name="v1"),
        )
    }
    attachments = {
        each.name: each for each in (_attached("a", "v1"), _attached("b", "v2"), _attached("c", None))
    }

    found = pending_volume_attachments(attachments, "node-1", (finished,), claims)

    assert [each.name for each in found] == ["b"]


@pytest.mark.parametrize("with_claim", [True, False])
def test_volumes_are_waited_for_until_time_is_up(with_claim: bool) -> None:
    """A node waits for its volumes to be detached, but not past its deadline."""
    node, claim = pair()
    gone = with_condition(with_meta(claim, deletion_timestamp=LONG_AGO), "Drained")
    late = with_meta(gone, annotations={TERMINATION_TIMESTAMP: "2026-03-02T11:00:00Z"})
    attached = (_attached("a", "v1"),)

    waiting = terminate_node(
        TerminatingNode(node=node, claim=gone if with_claim else None, attachments=attached), NOW
    )
    over = terminate_node(TerminatingNode(node=node, claim=late, attachments=attached), NOW)

    assert any(
        isinstance(each, Announce) and each.reason == "AwaitingVolumeDetachment" for each in waiting.effects
    )
    assert not any(isinstance(each, Announce) for each in over.effects)


DRAINED = "Drained"
VOLUMES = "VolumesDetached"


def _ends(claim: NodeClaim | None, pods: tuple[Pod, ...]) -> bool:
    """Say whether the machine of a node with some pods is terminated now."""
    node = with_meta(pair()[0], deletion_timestamp=LONG_AGO)
    leaving = with_meta(claim, deletion_timestamp=LONG_AGO) if claim is not None else None
    due = terminate_node(TerminatingNode(node=node, claim=leaving, pods=pods), NOW)
    return any(isinstance(effect, Terminate) for effect in due.effects)


@pytest.mark.parametrize("with_claim", [pytest.param(True, id="a claim"), pytest.param(False, id="no claim")])
@pytest.mark.parametrize(
    "drained",
    [
        pytest.param((), id="a drain that has just begun"),
        pytest.param(((DRAINED, "Unknown"),), id="a drain that has begun long ago"),
        pytest.param(((DRAINED, "True"), (VOLUMES, "True")), id="a node that was drained before"),
    ],
)
@pytest.mark.parametrize(
    "left",
    [
        pytest.param(a_pod(), id="a pod that runs"),
        pytest.param(a_pod(deletion_timestamp=NOW), id="a pod that leaves"),
        pytest.param(a_pod(annotations={DO_NOT_DISRUPT: "true"}), id="a protected pod"),
    ],
)
def test_a_machine_ends_only_when_it_is_empty(
    left: Pod, drained: tuple[tuple[str, str], ...], with_claim: bool
) -> None:
    """However far its drain has come, a machine is not terminated while a pod has to leave its node."""
    claim = pair()[1] if with_claim else None
    if claim is not None:
        steps = tuple(
            Condition(type=kind, status=status, reason=kind, last_transition_time=LONG_AGO)
            for kind, status in drained
        )
        conditions = (*claim.status.conditions, *steps)
        status = msgspec.structs.replace(claim.status, conditions=conditions)
        claim = msgspec.structs.replace(claim, status=status)

    assert not _ends(claim, (left,))
    assert _ends(None, ())


def test_a_node_is_tainted_for_a_while_before_it_counts_as_drained() -> None:
    """A pod may have been bound before the scheduler saw the taint: an empty node is looked at again."""
    young, old = (
        with_condition(pair()[1], DRAINED, "Unknown", NOW - timedelta(seconds=seconds)) for seconds in (4, 5)
    )
    node = with_meta(pair()[0], deletion_timestamp=LONG_AGO)
    young, old = (with_meta(each, deletion_timestamp=LONG_AGO) for each in (young, old))
    drained = [
        any(
            isinstance(effect, Amend) and effect.because == "its node is drained"
            for effect in terminate_node(TerminatingNode(node=node, claim=each), NOW).effects
        )
        for each in (young, old)
    ]

    assert drained == [False, True]
