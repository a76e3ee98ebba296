"""
Termination of Nodes and NodeClaims.

A Node that is being deleted is tainted karpenter.sh/disrupted, drained, waits for its volumes to be
detached, has its machine terminated, and loses its finalizer once the cloud no longer knows the machine.
Each reconcile goes as far as it can. Progress is written to the conditions Drained, VolumesDetached and
InstanceTerminating of the NodeClaim, so that a restart continues there.

A NodeClaim that is being deleted first deletes its Nodes, then terminates its machine, and then loses its
finalizer. See https://karpenter.sh/docs/concepts/disruption/.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.labels import DISRUPTED, EXCLUDE_FROM_LOAD_BALANCERS, NO_SCHEDULE, TERMINATION_TIMESTAMP
from karpenter.api.meta import is_status_condition_true
from karpenter.api.node import Node, Taint
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.pod import Pod
from karpenter.api.storage import PersistentVolumeClaim, VolumeAttachment
from karpenter.core.effects import (
    NOTHING,
    Amend,
    Count,
    DeleteObject,
    Effect,
    Evict,
    Measure,
    Step,
    Terminate,
    about,
)
from karpenter.core.events import awaiting_volumes, failed_draining, grace_period_expiring, listing
from karpenter.core.lifecycle import conditions
from karpenter.core.lifecycle.conditions import (
    INSTANCE_TERMINATING,
    REGISTERED,
    ConditionSet,
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


# kube-scheduler may have bound a pod before it saw the taint; the pod appears a moment later.
MIN_DRAIN_TIME: Final = timedelta(seconds=5)
"""How long a Node is tainted before it counts as drained."""

DRAINING: Final = 1.0
"""Seconds between two reconciles of a Node that drains."""

TERMINATING: Final = 5.0
"""Seconds between two reconciles of a Node or NodeClaim whose machine is terminating."""

# https://karpenter.sh/docs/concepts/disruption/#termination-controller
_DISRUPTED_TAINT: Final = Taint(key=DISRUPTED, effect=NO_SCHEDULE)


class InvalidTerminationTime(ValueError):  # noqa: N818  says what is wrong
    """The annotation with the termination time of a Node cannot be parsed."""


class TerminatingNode(msgspec.Struct, frozen=True, kw_only=True):
    """A Node that is being deleted, and what its termination depends on."""

    node: Node
    claim: NodeClaim | None = None
    """The NodeClaim with the same provider id, if there is exactly one."""

    pods: tuple[Pod, ...] = ()
    attachments: tuple[VolumeAttachment, ...] = ()
    """Volume attachments that must be detached before the machine is terminated."""

    machine_gone: bool = False
    """Whether the Node is not ready and its cloud does not know the machine."""


def terminate_node(terminating: TerminatingNode, now: datetime) -> Step:
    """Return the effects for a Node that is being deleted."""
    node, claim = terminating.node, terminating.claim
    # Without our finalizer the API server deletes the Node at once and there is nothing to drain:
    # https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
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
    if terminating.machine_gone:
        return Step(effects=_finalize_node(node, now))
    by = termination_time(claim)
    tainted = disrupted_taint_patch(node)
    step = _drain(terminating, by, now)
    return Step(effects=(*tainted, *step.effects), again=step.again)


def termination_time(claim: NodeClaim | None) -> datetime | None:
    """
    Return when the Node of a claim is terminated, drained or not; None without a terminationGracePeriod.

    Raises:
        InvalidTerminationTime: the annotation is not a time.
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
            f"nodeclaim {claim.name}: annotation {TERMINATION_TIMESTAMP} is {text!r}, not a time: {error}"
        ) from None
    return found


def disrupted_taint_patch(node: Node) -> tuple[Effect, ...]:
    """
    Return the write that taints a Node and excludes it from load balancers; empty if both are set.

    The label makes service controllers remove the Node from load balancers while it drains:
    https://kubernetes.io/docs/reference/labels-annotations-taints/#node-kubernetes-io-exclude-from-external-load-balancers
    """
    taints = with_disrupted_taint(node)
    changes: dict[str, Any] = {}
    if taints != node.spec.taints:
        changes["spec"] = {"taints": [render_taint(taint) for taint in taints]}
    # Any value excludes the Node. Ours says who set it.
    if node.metadata.labels.get(EXCLUDE_FROM_LOAD_BALANCERS) != "karpenter":
        changes["metadata"] = {"labels": {EXCLUDE_FROM_LOAD_BALANCERS: "karpenter"}}
    if not changes:
        return ()
    version = node.metadata.resource_version
    return (
        Amend(
            kind="Node", name=node.name, changes=changes, version=version, because="the node is terminating"
        ),
    )


def with_disrupted_taint(node: Node) -> tuple[Taint, ...]:
    """Return the taints of a Node with karpenter.sh/disrupted added."""
    if any(same_taint(taint, _DISRUPTED_TAINT) for taint in node.spec.taints):
        return node.spec.taints
    return (*(taint for taint in node.spec.taints if taint.key != DISRUPTED), _DISRUPTED_TAINT)


def pending_volume_attachments(
    attachments: Mapping[str, VolumeAttachment],
    node: str,
    pods: tuple[Pod, ...],
    claims: Mapping[str, PersistentVolumeClaim],
) -> tuple[VolumeAttachment, ...]:
    """
    Return the volume attachments that must be gone before the machine of a Node is terminated, by name.

    Volumes of pods that the drain does not remove stay attached, and those do not count.
    """
    # An EBS volume that is detached only when its instance is gone can take minutes until it can be attached
    # elsewhere, which delays pods of StatefulSets: https://kubernetes.io/docs/concepts/storage/volumes/
    remaining = [pod for pod in pods if not is_drainable(pod)]
    kept = {
        found.spec.volume_name
        for pod in remaining
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


def _drain(terminating: TerminatingNode, by: datetime | None, now: datetime) -> Step:
    node, claim = terminating.node, terminating.claim
    found = drain(terminating.pods, now, by)
    condition_set = conditions.claim_conditions(claim, now) if claim is not None else None
    if not found.is_done or not _was_tainted_long_enough(condition_set, now):
        reason = _reason(condition_set)
        effects: tuple[Effect, ...] = tuple(
            Evict(pod=pod.key, uid=pod.metadata.uid, node=node.name, by=by, because=reason)
            for pod in found.evicting
        )
        if found.waiting:
            names = listing([pod.key for pod in found.waiting])
            effects += (failed_draining(about(node), f"{len(found.waiting)} pods have to leave: {names}"),)
        if claim is not None and condition_set is not None and _is_beginning(condition_set):
            begun = condition_set.set_unknown(conditions.DRAINED, "Draining", "")
            effects += patch_object(claim, begun, because="its node is draining")
        return Step(effects=effects, again=DRAINING)
    drained: tuple[Effect, ...] = ()
    if condition_set is not None and not condition_set.is_true(conditions.DRAINED):
        condition_set = condition_set.set_true(conditions.DRAINED)
        drained = (Count(metric="karpenter_nodes_drained_total", labels=nodepool_labels(node)),)
    step = _detach(terminating, condition_set, by, now)
    return Step(effects=(*step.effects, *drained), again=step.again)


def _detach(
    terminating: TerminatingNode, condition_set: ConditionSet | None, by: datetime | None, now: datetime
) -> Step:
    node, claim = terminating.node, terminating.claim
    kind = conditions.VOLUMES_DETACHED
    overdue = by is not None and now > by
    # The attach/detach controller deletes a VolumeAttachment after the volume is unmounted on the Node:
    # https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/volume-attachment-v1/
    if terminating.attachments and not overdue:
        waiting: tuple[Effect, ...] = (
            awaiting_volumes(node, [each.name for each in terminating.attachments]),
        )
        if claim is not None and condition_set is not None:
            condition_set = condition_set.set_unknown(kind, "AwaitingVolumeDetachment", "")
            waiting += patch_object(claim, condition_set, because="its volumes are being detached")
        return Step(effects=waiting, again=DRAINING)
    if condition_set is not None and terminating.attachments:
        condition_set = condition_set.set_false(kind, "TerminationGracePeriodElapsed", "")
    elif condition_set is not None:
        condition_set = condition_set.set_true(kind)
    return _terminate_machine(terminating, condition_set, now)


def _terminate_machine(
    terminating: TerminatingNode, condition_set: ConditionSet | None, now: datetime
) -> Step:
    node, claim = terminating.node, terminating.claim
    written = (
        patch_object(claim, condition_set, because="its node is drained") if claim and condition_set else ()
    )
    if written:
        # The event of this write causes the next reconcile, which continues from here.
        return Step(effects=written, again=DRAINING)
    going: tuple[Effect, ...] = ()
    if claim is not None and condition_set is not None:
        ending = condition_set.set_true(conditions.INSTANCE_TERMINATING)
        going = patch_object(claim, ending, because="its machine is terminating")
    machine = Terminate(
        provider_id=node.spec.provider_id,
        going=going,
        gone=_finalize_node(node, now),
        because=f"node {node.name} is being deleted",
    )
    return Step(effects=(machine,), again=TERMINATING)


def _finalize_node(node: Node, now: datetime) -> tuple[Effect, ...]:
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


def _is_beginning(condition_set: ConditionSet) -> bool:
    """Whether it is still to be noted since when a node is drained."""
    # A leader whose clock was ahead may have noted a time that is to come, until which the node would stay.
    return not condition_set.status(conditions.DRAINED) or condition_set.is_ahead(conditions.DRAINED)


def _was_tainted_long_enough(condition_set: ConditionSet | None, now: datetime) -> bool:
    """Whether pods that were bound before the taint was seen have had time to appear."""
    if condition_set is None or condition_set.is_true(conditions.DRAINED):
        return True
    # kube-scheduler may bind a pod to a Node whose taint its cache does not have yet:
    # https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
    begun = condition_set.get(conditions.DRAINED)
    return begun is not None and now - condition_set.since(conditions.DRAINED) >= MIN_DRAIN_TIME


def _reason(condition_set: ConditionSet | None) -> str:
    found = condition_set.get(conditions.DISRUPTION_REASON) if condition_set is not None else None
    return found.reason if found is not None and found.status == "True" else FORCEFUL


def finalize_nodeclaim(claim: NodeClaim, nodes: Sequence[Node], now: datetime) -> Step:
    """Return the effects for a claim that is being deleted; `nodes` are those with its provider id."""
    if not has_finalizer(claim):
        return NOTHING
    if termination_time := _deadline(claim):
        note = {"metadata": {"annotations": {TERMINATION_TIMESTAMP: termination_time}}}
        return Step(
            effects=(
                Amend(
                    kind=claim.kind,
                    name=claim.name,
                    changes=note,
                    because="its terminationGracePeriod has begun",
                ),
                grace_period_expiring(claim, termination_time),
                *(grace_period_expiring(node, termination_time) for node in nodes),
            )
        )
    condition_set = claim_conditions(claim, now)
    # The Node goes first: its finalizer drains it, and the machine is terminated after that:
    # https://karpenter.sh/docs/concepts/disruption/#termination-controller
    if condition_set.is_true(REGISTERED) and nodes:
        return Step(
            effects=tuple(_delete(node) for node in nodes if _is_not_deleting(node)), again=TERMINATING
        )
    # Never launched. A launch whose answer was lost leaves a machine without a claim, which garbage
    # collection terminates.
    if not claim.status.provider_id:
        return Step(effects=_finalize_claim(claim, condition_set, now))
    ending = Terminate(
        provider_id=claim.status.provider_id,
        going=patch_object(
            claim, condition_set.set_true(INSTANCE_TERMINATING), because="its machine is terminating"
        ),
        gone=_finalize_claim(claim, condition_set, now),
        because=f"claim {claim.name} is being deleted",
    )
    return Step(effects=(ending,), again=TERMINATING)


def may_have_node(claim: NodeClaim) -> bool:
    """
    Return whether a claim that is being deleted may have a Node that is still to be drained.

    The machine of a claim without a Node is terminated at once, so a cache that lacks the Node is not enough.
    """
    return (
        has_finalizer(claim)
        and bool(claim.status.node_name)
        and is_status_condition_true(claim.status.conditions, REGISTERED)
        and not is_status_condition_true(claim.status.conditions, INSTANCE_TERMINATING)
    )


def _deadline(claim: NodeClaim) -> str:
    """Return the termination time to write on a claim; empty if it has no grace period or has one already."""
    grace, asked = termination_grace_period(claim), claim.metadata.deletion_timestamp
    if grace is None or asked is None or TERMINATION_TIMESTAMP in claim.metadata.annotations:
        return ""
    return render_time(asked + grace)


def _is_not_deleting(node: Node) -> bool:
    return node.metadata.deletion_timestamp is None


def _delete(node: Node) -> DeleteObject:
    return DeleteObject(
        kind=node.kind, name=node.name, uid=node.metadata.uid, because="its claim is being deleted"
    )


def _finalize_claim(claim: NodeClaim, condition_set: ConditionSet, now: datetime) -> tuple[Effect, ...]:
    asked = claim.metadata.deletion_timestamp or now
    effects: list[Effect] = [remove_finalizer(claim, "its machine is gone")]
    if condition_set.is_true(INSTANCE_TERMINATING):
        effects.append(
            Measure(
                metric="karpenter_nodeclaims_instance_termination_duration_seconds",
                labels=nodepool_labels(claim),
                value=(now - condition_set.since(INSTANCE_TERMINATING)).total_seconds(),
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
