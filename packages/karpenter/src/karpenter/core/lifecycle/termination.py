"""
The end of a node: closed to new pods, emptied, its volumes let go, its machine ended; only then is it gone.

One look goes as far as it can. How far the node has come is written down in its claim's conditions, so that a
restart goes on where things stand.

The end of a claim: its nodes leave first, then its machine, then the claim itself.

The machine is asked to end until its cloud says that it is gone; only then does the finalizer go.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.labels import DISRUPTED, EXCLUDE_FROM_LOAD_BALANCERS, NO_SCHEDULE, TERMINATION_TIMESTAMP
from karpenter.api.node import Node, Taint
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.pod import Pod
from karpenter.api.storage import VolumeAttachment
from karpenter.core.effects import NOTHING, Amend, Count, DeleteObject, Evict, Measure, Step, Terminate, about
from karpenter.core.events import awaiting_volumes, failed_draining, grace_period_expiring, listing
from karpenter.core.lifecycle import conditions
from karpenter.core.lifecycle.conditions import (
    INSTANCE_TERMINATING,
    REGISTERED,
    capacity_labels,
    claim_conditions,
    has_finalizer,
    nodepool_labels,
    patch_object,
    remove_finalizer,
    render_time,
    termination_grace_period,
    zone_labels,
)
from karpenter.core.lifecycle.registration import render_taint
from karpenter.core.lifecycle.terminator import FORCEFUL, drain, is_drainable
from karpenter.core.model.taints import same_taint
from karpenter.core.state.volumeusage import claimed_volumes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karpenter.api.storage import PersistentVolumeClaim
    from karpenter.core.effects import Effect
    from karpenter.core.lifecycle.conditions import ConditionSet


SHORTEST_DRAIN: Final = timedelta(seconds=5)
"""How long a node is closed before it counts as empty: pods may just be on their way to it."""

DRAINING: Final = 1.0
ENDING: Final = 5.0
_CLOSED: Final = Taint(key=DISRUPTED, effect=NO_SCHEDULE)


class InvalidTerminationTime(ValueError):  # noqa: N818  says what is wrong
    """The time by which a node has to be gone cannot be read."""


class TerminatingNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is being deleted, and all that its end depends on."""

    node: Node
    claim: NodeClaim | None = None
    """The claim of the same machine, if there is exactly one."""

    pods: tuple[Pod, ...] = ()
    attachments: tuple[VolumeAttachment, ...] = ()
    """Volumes that are attached to the node and have to be let go."""

    machine_gone: bool = False
    """Whether the node is not ready and its cloud knows no such machine any more."""


def terminate_node(leaving: TerminatingNode, now: datetime) -> Step:
    """Return what is due for a node that is being deleted."""
    node, claim = leaving.node, leaving.claim
    if not has_finalizer(node):
        return NOTHING
    if claim is not None and claim.metadata.deletion_timestamp is None:
        because = "its node is being deleted"
        return Step(
            effects=(
                DeleteObject(kind=claim.kind, name=claim.name, uid=claim.metadata.uid, because=because),
            ),
            again=DRAINING,
        )
    if leaving.machine_gone:
        return Step(effects=_gone(node, now))
    by = termination_time(claim)
    closed = disrupted_taint_patch(node)
    step = _drain(leaving, by, now)
    return Step(effects=(*closed, *step.effects), again=step.again)


def termination_time(claim: NodeClaim | None) -> datetime | None:
    """
    Return when a claim's node goes, pods or no pods; None when it waits for them.

    Raises:
        BadDeadline: somebody has written nonsense.
    """
    text = claim.metadata.annotations.get(TERMINATION_TIMESTAMP) if claim is not None else None
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            raise ValueError("it has no time zone")  # noqa: TRY301  the same answer to both
    except ValueError as error:
        assert claim is not None
        raise InvalidTerminationTime(
            f"claim {claim.name}: annotation {TERMINATION_TIMESTAMP} is {text!r}, which is no time: {error}"
        ) from None
    return found


def disrupted_taint_patch(node: Node) -> tuple[Effect, ...]:
    """Return the write that keeps new pods and new traffic off a node; nothing if it is closed."""
    taints = with_disrupted_taint(node)
    changes: dict[str, Any] = {}
    if taints != node.spec.taints:
        changes["spec"] = {"taints": [render_taint(taint) for taint in taints]}
    if node.metadata.labels.get(EXCLUDE_FROM_LOAD_BALANCERS) != "karpenter":
        changes["metadata"] = {"labels": {EXCLUDE_FROM_LOAD_BALANCERS: "karpenter"}}
    if not changes:
        return ()
    version = node.metadata.resource_version
    return (Amend(kind="Node", name=node.name, changes=changes, version=version, because="the node leaves"),)


def with_disrupted_taint(node: Node) -> tuple[Taint, ...]:
    """Return the taints of a node that takes no more pods."""
    if any(same_taint(taint, _CLOSED) for taint in node.spec.taints):
        return node.spec.taints
    return (*(taint for taint in node.spec.taints if taint.key != DISRUPTED), _CLOSED)


def pending_volume_attachments(
    attachments: Mapping[str, VolumeAttachment],
    node: str,
    pods: tuple[Pod, ...],
    claims: Mapping[str, PersistentVolumeClaim],
) -> tuple[VolumeAttachment, ...]:
    """Return the attachments that have to vanish before a node's machine ends, by name."""
    staying = [pod for pod in pods if not is_drainable(pod)]
    kept = {
        found.spec.volume_name
        for pod in staying
        for key, _ in claimed_volumes(pod)
        if (found := claims.get(key)) is not None
    }
    return tuple(
        each
        for _, each in sorted(attachments.items())
        if each.spec.node_name == node
        and each.spec.source.persistent_volume_name
        and each.spec.source.persistent_volume_name not in kept
    )


def _drain(leaving: TerminatingNode, by: datetime | None, now: datetime) -> Step:
    node, claim = leaving.node, leaving.claim
    found = drain(leaving.pods, now, by)
    board = conditions.claim_conditions(claim, now) if claim is not None else None
    if not found.is_done or not _was_closed_long_enough(board, now):
        reason = _reason(board)
        effects: tuple[Effect, ...] = tuple(
            Evict(pod=pod.key, uid=pod.metadata.uid, node=node.name, by=by, because=reason)
            for pod in found.leaving
        )
        if found.waiting:
            names = listing([pod.key for pod in found.waiting])
            effects += (failed_draining(about(node), f"{len(found.waiting)} pods have to leave: {names}"),)
        if claim is not None and board is not None and not board.status(conditions.DRAINED):
            begun = board.unknown(conditions.DRAINED, "Draining", "")
            effects += patch_object(claim, begun, because="its node is being emptied")
        return Step(effects=effects, again=DRAINING)
    drained: tuple[Effect, ...] = ()
    if board is not None and not board.is_true(conditions.DRAINED):
        board = board.true(conditions.DRAINED)
        drained = (Count(metric="karpenter_nodes_drained_total", labels=nodepool_labels(node)),)
    step = _detach(leaving, board, by, now)
    return Step(effects=(*step.effects, *drained), again=step.again)


def _detach(leaving: TerminatingNode, board: ConditionSet | None, by: datetime | None, now: datetime) -> Step:
    node, claim = leaving.node, leaving.claim
    kind = conditions.VOLUMES_DETACHED
    overdue = by is not None and now > by
    if leaving.attachments and not overdue:
        waiting: tuple[Effect, ...] = (awaiting_volumes(node, [each.name for each in leaving.attachments]),)
        if claim is not None and board is not None:
            board = board.unknown(kind, "AwaitingVolumeDetachment", "")
            waiting += patch_object(claim, board, because="its volumes are being let go")
        return Step(effects=waiting, again=DRAINING)
    if board is not None and leaving.attachments:
        board = board.false(kind, "TerminationGracePeriodElapsed", "")
    elif board is not None:
        board = board.true(kind)
    return _end(leaving, board, now)


def _end(leaving: TerminatingNode, board: ConditionSet | None, now: datetime) -> Step:
    node, claim = leaving.node, leaving.claim
    written = patch_object(claim, board, because="its node is empty") if claim and board else ()
    if written:
        # The next look, which this write causes, goes on from there.
        return Step(effects=written, again=DRAINING)
    going: tuple[Effect, ...] = ()
    if claim is not None and board is not None:
        ending = board.true(conditions.INSTANCE_TERMINATING)
        going = patch_object(claim, ending, because="its machine is ending")
    machine = Terminate(
        provider_id=node.spec.provider_id,
        going=going,
        gone=_gone(node, now),
        because=f"node {node.name} is being deleted",
    )
    return Step(effects=(machine,), again=ENDING)


def _gone(node: Node, now: datetime) -> tuple[Effect, ...]:
    asked, born = node.metadata.deletion_timestamp or now, node.metadata.creation_timestamp or now
    return (
        remove_finalizer(node, "its machine is gone"),
        Count(metric="karpenter_nodes_terminated_total", labels=zone_labels(node)),
        Measure(
            metric="karpenter_nodes_termination_duration_seconds",
            labels=nodepool_labels(node),
            value=(now - asked).total_seconds(),
        ),
        Measure(
            metric="karpenter_nodes_lifetime_duration_seconds",
            labels=nodepool_labels(node),
            value=(now - born).total_seconds(),
        ),
    )


def _was_closed_long_enough(board: ConditionSet | None, now: datetime) -> bool:
    """Whether pods that were on their way to the node when it was closed have had time to show themselves."""
    if board is None or board.is_true(conditions.DRAINED):
        return True
    begun = board.get(conditions.DRAINED)
    return begun is not None and now - board.since(conditions.DRAINED) >= SHORTEST_DRAIN


def _reason(board: ConditionSet | None) -> str:
    found = board.get(conditions.DISRUPTION_REASON) if board is not None else None
    return found.reason if found is not None and found.status == "True" else FORCEFUL


LOOK_AGAIN: Final = 5.0


def finalize_nodeclaim(claim: NodeClaim, nodes: Sequence[Node], now: datetime) -> Step:
    """Return what is due for a claim that is being deleted; `nodes` are those with its provider id."""
    if not has_finalizer(claim):
        return NOTHING
    if termination_time := _deadline(claim):
        note = {"metadata": {"annotations": {TERMINATION_TIMESTAMP: termination_time}}}
        return Step(
            effects=(
                Amend(kind=claim.kind, name=claim.name, changes=note, because="its grace period has begun"),
                grace_period_expiring(claim, termination_time),
                *(grace_period_expiring(node, termination_time) for node in nodes),
            )
        )
    board = claim_conditions(claim, now)
    if board.is_true(REGISTERED) and nodes:
        return Step(effects=tuple(_delete(node) for node in nodes if _stays(node)), again=LOOK_AGAIN)
    if not claim.status.provider_id:
        return Step(effects=_claim_gone(claim, board, now))
    ending = Terminate(
        provider_id=claim.status.provider_id,
        going=patch_object(claim, board.true(INSTANCE_TERMINATING), because="its machine is ending"),
        gone=_claim_gone(claim, board, now),
        because=f"claim {claim.name} is being deleted",
    )
    return Step(effects=(ending,), again=LOOK_AGAIN)


def _deadline(claim: NodeClaim) -> str:
    """Return by when a claim's node must be empty, if it has a grace period and nobody wrote that down."""
    grace, asked = termination_grace_period(claim), claim.metadata.deletion_timestamp
    if grace is None or asked is None or TERMINATION_TIMESTAMP in claim.metadata.annotations:
        return ""
    return render_time(asked + grace)


def _stays(node: Node) -> bool:
    return node.metadata.deletion_timestamp is None


def _delete(node: Node) -> DeleteObject:
    return DeleteObject(
        kind=node.kind, name=node.name, uid=node.metadata.uid, because="its claim is being deleted"
    )


def _claim_gone(claim: NodeClaim, board: ConditionSet, now: datetime) -> tuple[Effect, ...]:
    asked = claim.metadata.deletion_timestamp or now
    effects: list[Effect] = [remove_finalizer(claim, "its machine is gone")]
    if board.is_true(INSTANCE_TERMINATING):
        effects.append(
            Measure(
                metric="karpenter_nodeclaims_instance_termination_duration_seconds",
                labels=nodepool_labels(claim),
                value=(now - board.since(INSTANCE_TERMINATING)).total_seconds(),
            )
        )
    effects += [
        Measure(
            metric="karpenter_nodeclaims_termination_duration_seconds",
            labels=nodepool_labels(claim),
            value=(now - asked).total_seconds(),
        ),
        Count(metric="karpenter_nodeclaims_terminated_total", labels=capacity_labels(claim)),
    ]
    return tuple(effects)
