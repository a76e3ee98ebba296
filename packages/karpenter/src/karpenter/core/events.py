"""
Every Event that Karpenter publishes: its reason, its message, and how it is deduplicated.

Reasons are upstream's, because users and tools filter by them. ``same_as`` are the dedupe values and
``quiet_for`` the dedupe timeout in seconds. When an Event is published is decided by the callers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.labels import DO_NOT_DISRUPT, INSTANCE_TYPE, SOLD_OUT, ZONE
from karpenter.api.nodeclaim import NodeClaim
from karpenter.core.effects import Announce, about

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.api.meta import Condition, ObjectReference, Resource
    from karpenter.api.node import Node, NodeCondition
    from karpenter.api.nodepool import NodePool
    from karpenter.api.pod import Pod

MAX_ERROR_LENGTH: Final = 300
"""Characters of a provider's error that an Event or condition shows."""

CAPACITY_FAILURE: Final = "InsufficientCapacityError"
"""The reason of the Event of a NodeClaim whose launch failed for want of capacity."""

_NAMES_SHOWN: Final = 5
_MINUTE: Final = 60.0
_INTERRUPTIONS: Final = {
    "rebalance_recommendation": "SpotRebalanceRecommendation",
    "capacity_reservation_interrupted": "CapacityReservationInstanceInterrupted",
    "instance_stopped": "InstanceStopping",
    "instance_terminated": "InstanceTerminating",
    "scheduled_change": "InstanceUnhealthy",
    "instance_status": "InstanceUnhealthy",
    "system_status": "InstanceUnhealthy",
    "event_status": "InstanceUnhealthy",
}
"""Reasons of interruptions that are not the CamelCase form of their kind."""


def truncate(text: str, most: int = MAX_ERROR_LENGTH) -> str:
    """Return the first `most` characters of a text."""
    return text if len(text) <= most else f"{text[:most]}..."


def listing(names: Sequence[str], most: int = _NAMES_SHOWN) -> str:
    """Return the first names, and how many more there are."""
    shown = ", ".join(names[:most])
    rest = len(names) - most
    return f"{shown} and {rest} other(s)" if rest > 0 else shown


def nominated(pod: Pod, *, claim: str = "", node: str = "", because: str = "") -> Announce:
    """Return the Event of a pod for which a NodeClaim or Node is nominated, `because` that suits it best."""
    places = [f"nodeclaim/{claim}"] * bool(claim) + [f"node/{node}"] * bool(node)
    why = f": {because}" if because else ""
    return Announce(
        about=about(pod),
        reason="Nominated",
        message=f"Pod should schedule on {' and '.join(places)}{why}.",
        same_as=(pod.metadata.uid, *places),
    )


def failed_scheduling(pod: Pod, problem: str) -> Announce:
    """Return the Event of a pod that no existing node and no NodePool can run."""
    return Announce(
        about=about(pod),
        type="Warning",
        reason="FailedScheduling",
        message=f"Failed to schedule pod: {problem}",
        same_as=(pod.metadata.uid,),
        quiet_for=5 * _MINUTE,
    )


def preferences_ignored(pod: Pod, count: int, most: int) -> Announce:
    """Return the Event of a pod with more preferences than are considered."""
    return Announce(
        about=about(pod),
        type="Warning",
        reason="PreferencesIgnored",
        message=f"Pod has {count} preferences, of which the {most} with the largest weight are considered.",
        same_as=(pod.metadata.uid,),
        quiet_for=60 * _MINUTE,
    )


def no_compatible_types(pool: NodePool, problem: str) -> Announce:
    """Return the Event of a NodePool whose requirements no instance type satisfies."""
    return Announce(
        about=about(pool),
        type="Warning",
        reason="NoCompatibleInstanceTypes",
        message=f"No instance type is compatible with the requirements of this NodePool: {problem}",
        same_as=(pool.metadata.uid,),
        quiet_for=_MINUTE,
    )


def insufficient_capacity(claim: NodeClaim, problem: str, sold_out: str = "") -> Announce:
    """Return the Event of a NodeClaim whose offerings have no capacity; `sold_out` names all of them."""
    return Announce(
        about=about(claim),
        type="Warning",
        reason=CAPACITY_FAILURE,
        message=f"Insufficient capacity, the NodeClaim is deleted: {truncate(problem)}",
        annotations={SOLD_OUT: sold_out} if sold_out else {},
        same_as=(claim.metadata.uid,),
    )


def node_class_not_ready(claim: NodeClaim, problem: str) -> Announce:
    """Return the Event of a NodeClaim whose node class is not ready."""
    return Announce(
        about=about(claim),
        type="Warning",
        reason="NodeClassNotReady",
        message=f"Node class is not ready, the NodeClaim is deleted: {truncate(problem)}",
        same_as=(claim.metadata.uid,),
    )


def unregistered_taint_missing(claim: NodeClaim, node: Node) -> Announce:
    """Return the Event of a NodeClaim whose Node joined without the unregistered taint."""
    return Announce(
        about=about(claim),
        type="Warning",
        reason="UnregisteredTaintMissing",
        message=f"Node {node.name} joined without the taint karpenter.sh/unregistered,"
        " so pods may have been scheduled before its labels and taints were set.",
        same_as=(claim.name,),
    )


def failed_consistency(claim: NodeClaim, problem: str) -> Announce:
    """Return the Event of a NodeClaim whose Node has fewer resources than expected."""
    return Announce(
        about=about(claim),
        type="Warning",
        reason="FailedConsistencyCheck",
        message=problem,
        same_as=(claim.name, problem),
    )


def grace_period_expiring(item: Resource, by: str) -> Announce:
    """Return the Event of a Node or NodeClaim with a termination time."""
    return Announce(
        about=about(item),
        type="Warning",
        reason="TerminationGracePeriodExpiring",
        message=f"All pods will be deleted by {by}, the end of the terminationGracePeriod.",
        same_as=(item.name,),
    )


def evicted(pod: Pod, reason: str) -> Announce:
    return Announce(
        about=about(pod),
        reason="Evicted",
        message=f"Evicted pod: {reason}.",
        same_as=(pod.metadata.uid,),
    )


def disrupted(pod: Pod, grace: int) -> Announce:
    """Return the Event of a pod that is deleted because its node reaches its termination time."""
    own = pod.spec.termination_grace_period_seconds
    asked = f"{own} s" if own is not None else "the default"
    return Announce(
        about=about(pod),
        reason="Disrupted",
        message=f"Deleted pod before the terminationGracePeriod of its node ends,"
        f" with a grace period of {grace} s (its own is {asked}).",
        same_as=(pod.metadata.uid,),
    )


def failed_draining(node: ObjectReference, problem: str) -> Announce:
    """Return the Event of a Node that cannot drain."""
    return Announce(
        about=node, type="Warning", reason="FailedDraining", message=problem, same_as=(node.name, problem)
    )


def awaiting_volumes(node: Node, attachments: Sequence[str]) -> Announce:
    return Announce(
        about=about(node),
        reason="AwaitingVolumeDetachment",
        message=f"Waiting for volumes to be detached: {listing(attachments)}",
        same_as=(node.name,),
    )


def repair_blocked(node: Node, problem: str) -> Announce:
    """Return the Event of an unhealthy Node that is not repaired."""
    return Announce(
        about=about(node),
        type="Warning",
        reason="NodeRepairBlocked",
        message=problem,
        same_as=(node.name, problem),
        quiet_for=15 * _MINUTE,
    )


def disruption_blocked(item: Resource, problem: str) -> Announce:
    """Return the Event of a Node or NodeClaim that cannot be disrupted."""
    return Announce(
        about=about(item),
        reason="DisruptionBlocked",
        message=problem,
        same_as=(item.kind, item.name),
        minor=True,
    )


def budget_blocked(pool: NodePool, problem: str) -> Announce:
    """Return the Event of a NodePool whose budgets allow no disruption."""
    return Announce(
        about=about(pool),
        reason="DisruptionBlocked",
        message=problem,
        same_as=(pool.kind, pool.name, problem),
        quiet_for=_MINUTE,
    )


def unconsolidatable(item: Resource, problem: str) -> Announce:
    """Return the Event of a Node or NodeClaim that cannot be consolidated."""
    return Announce(
        about=about(item),
        reason="Unconsolidatable",
        message=problem,
        same_as=(item.kind, item.name),
        quiet_for=15 * _MINUTE,
        minor=True,
    )


def disruption_launching(claim: NodeClaim, reason: str) -> Announce:
    """Return the Event of a NodeClaim that is launched as a replacement."""
    return Announce(
        about=about(claim),
        reason="DisruptionLaunching",
        message=f"Launching NodeClaim as a replacement for disrupted nodes: {reason}.",
        same_as=(claim.name, reason),
    )


def disruption_waiting(claim: NodeClaim) -> Announce:
    """Return the Event of a replacement that is not initialized yet."""
    return Announce(
        about=about(claim),
        reason="DisruptionWaitingReadiness",
        message="Waiting for this replacement to initialize before the disrupted nodes are deleted.",
        same_as=(claim.name,),
    )


def disruption_terminating(item: Resource, reason: str) -> Announce:
    """Return the Event of a Node or NodeClaim that is disrupted now."""
    return Announce(
        about=about(item),
        reason="DisruptionTerminating",
        message=f"Disrupting {item.kind}: {reason}.",
        same_as=(item.kind, item.name, reason),
    )


def consolidation_candidate(item: Resource, command: str) -> Announce:
    """Return the Event of a Node or NodeClaim that is a candidate of a consolidation command."""
    return Announce(
        about=about(item), reason="ConsolidationCandidate", message=command, same_as=(item.kind, item.name)
    )


def consolidation_approved(item: Resource, told: str) -> Announce:
    """Return the Event of an object whose consolidation saves more than its disruption costs."""
    return Announce(
        about=about(item), reason="ConsolidationApproved", message=told, same_as=(item.kind, item.name)
    )


def consolidation_rejected(item: Resource, command: str, why: str) -> Announce:
    """Return the Event of a Node or NodeClaim whose consolidation command failed validation."""
    return Announce(
        about=about(item),
        reason="ConsolidationRejected",
        message=f"{command}: rejected by validation ({why}).",
        same_as=(item.kind, item.name),
    )


def interruption(item: Resource, kind: str, *, drains: bool = True) -> Announce:
    """Return the Event of a Node or NodeClaim whose machine is interrupted."""
    words = kind.replace("_", " ")
    return Announce(
        about=about(item),
        type="Warning" if drains else "Normal",
        reason=_INTERRUPTIONS.get(kind) or "".join(part.capitalize() for part in kind.split("_")),
        message=f"Interruption message for the machine: {words}.",
        same_as=(item.kind, item.name, kind),
    )


def terminating_on_interruption(item: Resource, kind: str) -> Announce:
    """Return the Event of a Node or NodeClaim that is deleted because of an interruption."""
    return Announce(
        about=about(item),
        type="Warning",
        reason="TerminatingOnInterruption",
        message=f"Terminating because of an interruption: {kind.replace('_', ' ')}.",
        same_as=(item.kind, item.name),
    )


def condition_changed(item: Resource, was: str, held: Condition | NodeCondition) -> Announce:
    """Return the Event of an object whose status condition has transitioned; `was` is the status before."""
    message = _progress(item, held)
    if not message:
        why = ": ".join(part for part in (held.reason, held.message) if part)
        message = (
            f"Status condition transitioned: {held.type} is {held.status}"
            f"{f', was {was}' if was else ''}{f' ({why})' if why else ''}."
        )
    return Announce(about=about(item), reason=held.type, message=message, quiet_for=0.0, minor=True)


def _progress(item: Resource, held: Condition | NodeCondition) -> str:
    """Return what a NodeClaim has got when it is launched or registered; empty for every other condition."""
    if not isinstance(item, NodeClaim) or held.status != "True":
        return ""
    if held.type == "Launched" and item.status.provider_id:
        labels, machine = item.metadata.labels, item.status.provider_id.rpartition("/")[2]
        instance_type, zone = labels.get(INSTANCE_TYPE, ""), labels.get(ZONE, "")
        offering = " in ".join(part for part in (instance_type, zone) if part)
        return f"Launched: {', '.join(part for part in (offering, machine) if part)}"
    if held.type == "Registered" and item.status.node_name:
        return f"Registered: node {item.status.node_name}"
    return ""


def finalized(item: Resource, finalizer: str) -> Announce:
    """Return the Event of an object whose finalizer was removed."""
    return Announce(
        about=about(item),
        reason="Finalized",
        message=f"Finalized: removed the finalizer {finalizer}.",
        minor=True,
    )


def protection_ignored(pod: Pod, problem: str) -> Announce:
    """Return the Event of a pod whose do-not-disrupt annotation is invalid."""
    return Announce(
        about=about(pod),
        type="Warning",
        reason="InvalidDoNotDisruptAnnotation",
        message=f"The annotation {DO_NOT_DISRUPT} is ignored: {problem}",
        same_as=(pod.metadata.uid, problem),
    )


def protected_until(pod: Pod, until: str) -> Announce:
    """Return the Event of a pod whose do-not-disrupt annotation ends at a time."""
    return Announce(
        about=about(pod),
        reason="DoNotDisruptUntil",
        message=f"Pod is not disrupted until {until}.",
        same_as=(pod.metadata.uid, until),
    )


def protection_elapsed(pod: Pod, until: str) -> Announce:
    """Return the Event of a pod whose do-not-disrupt annotation has elapsed."""
    return Announce(
        about=about(pod),
        reason="DoNotDisruptGracePeriodElapsed",
        message=f"Pod may be disrupted since {until}.",
        same_as=(pod.metadata.uid, until),
    )
