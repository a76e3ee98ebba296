"""
Everything that is told to users as Events: when it is the same as before, for how long it is not repeated.

Reasons are words that people filter by and never change; the sentences are ours. Who tells what, and when, is
decided where it happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.core.effects import Announce, about

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.api.meta import Condition, ObjectReference, Resource
    from karpenter.api.node import Node, NodeCondition
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.nodepool import NodePool
    from karpenter.api.pod import Pod

LONGEST: Final = 300
"""Characters of a provider's error that are shown."""

_SHOWN: Final = 5
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
"""Reasons that are not called after what happened."""


def truncate(text: str, most: int = LONGEST) -> str:
    """Return a text, cut where it gets too long to read."""
    return text if len(text) <= most else f"{text[:most]}..."


def listing(names: Sequence[str], most: int = _SHOWN) -> str:
    """Return some names, and how many more there are."""
    shown = ", ".join(names[:most])
    rest = len(names) - most
    return f"{shown} and {rest} other(s)" if rest > 0 else shown


def nominated(pod: Pod, *, claim: str = "", node: str = "") -> Announce:
    """Tell a pod where it is going to run."""
    places = [f"nodeclaim/{claim}"] * bool(claim) + [f"node/{node}"] * bool(node)
    return Announce(
        about=about(pod),
        reason="Nominated",
        message=f"The pod is expected to run on {' and '.join(places)}.",
        same_as=(pod.metadata.uid, *places),
    )


def failed_scheduling(pod: Pod, problem: str) -> Announce:
    """Tell a pod why no node can be found or made for it."""
    return Announce(
        about=about(pod),
        type="Warning",
        reason="FailedScheduling",
        message=f"No place can be found for the pod: {problem}",
        same_as=(pod.metadata.uid,),
        quiet_for=5 * _MINUTE,
    )


def no_compatible_types(pool: NodePool, problem: str) -> Announce:
    """Tell a pool that nothing that is sold satisfies it."""
    return Announce(
        about=about(pool),
        type="Warning",
        reason="NoCompatibleInstanceTypes",
        message=f"No instance type can be launched for this NodePool: {problem}",
        same_as=(pool.metadata.uid,),
        quiet_for=_MINUTE,
    )


def insufficient_capacity(claim: NodeClaim, problem: str) -> Announce:
    """Tell a claim that what it asks for is sold out."""
    return Announce(
        about=about(claim),
        type="Warning",
        reason="InsufficientCapacityError",
        message=f"The claim is given up, since nothing that satisfies it can be had: {truncate(problem)}",
        same_as=(claim.metadata.uid,),
    )


def node_class_not_ready(claim: NodeClaim, problem: str) -> Announce:
    """Tell a claim that its class cannot launch machines now."""
    return Announce(
        about=about(claim),
        type="Warning",
        reason="NodeClassNotReady",
        message=f"The claim is given up, since its node class is not ready: {truncate(problem)}",
        same_as=(claim.metadata.uid,),
    )


def unregistered_taint_missing(claim: NodeClaim, node: Node) -> Announce:
    """Tell a claim that its node came up open to pods."""
    return Announce(
        about=about(claim),
        type="Warning",
        reason="UnregisteredTaintMissing",
        message=f"Node {node.name} came up without the taint karpenter.sh/unregistered,"
        " so pods may have started before its labels and taints were set.",
        same_as=(claim.name,),
    )


def failed_consistency(claim: NodeClaim, problem: str) -> Announce:
    """Tell a claim that its node is less than was promised."""
    return Announce(
        about=about(claim),
        type="Warning",
        reason="FailedConsistencyCheck",
        message=problem,
        same_as=(claim.name, problem),
    )


def grace_period_expiring(item: Resource, by: str) -> Announce:
    """Tell a node or claim by when all of its pods will have been deleted."""
    return Announce(
        about=about(item),
        type="Warning",
        reason="TerminationGracePeriodExpiring",
        message=f"All pods will be deleted by {by}.",
        same_as=(item.name,),
    )


def evicted(pod: Pod, reason: str) -> Announce:
    """Tell a pod that it was asked to leave."""
    return Announce(
        about=about(pod),
        reason="Evicted",
        message=f"The pod was evicted: {reason}.",
        same_as=(pod.metadata.uid,),
    )


def disrupted(pod: Pod, grace: int) -> Announce:
    """Tell a pod that it is deleted because its node has no time left."""
    own = pod.spec.termination_grace_period_seconds
    wish = f"{own} s" if own is not None else "no particular time"
    return Announce(
        about=about(pod),
        reason="Disrupted",
        message=f"The pod was deleted because its node ends: it has {grace} s to end and asked for {wish}.",
        same_as=(pod.metadata.uid,),
    )


def failed_draining(node: ObjectReference, problem: str) -> Announce:
    """Tell a node what keeps it from being empty."""
    return Announce(
        about=node, type="Warning", reason="FailedDraining", message=problem, same_as=(node.name, problem)
    )


def awaiting_volumes(node: Node, attachments: Sequence[str]) -> Announce:
    """Tell a node which volumes are still attached to it."""
    return Announce(
        about=about(node),
        reason="AwaitingVolumeDetachment",
        message=f"Waiting for volumes to be detached: {listing(attachments)}",
        same_as=(node.name,),
    )


def repair_blocked(node: Node, problem: str) -> Announce:
    """Tell a node why it is not replaced though it is broken."""
    return Announce(
        about=about(node),
        type="Warning",
        reason="NodeRepairBlocked",
        message=problem,
        same_as=(node.name, problem),
        quiet_for=15 * _MINUTE,
    )


def disruption_blocked(item: Resource, problem: str) -> Announce:
    """Tell a node or claim what keeps it from being disrupted."""
    return Announce(
        about=about(item),
        reason="DisruptionBlocked",
        message=problem,
        same_as=(item.kind, item.name),
        minor=True,
    )


def budget_blocked(pool: NodePool, problem: str) -> Announce:
    """Tell a pool that its budgets allow no disruption."""
    return Announce(
        about=about(pool),
        reason="DisruptionBlocked",
        message=problem,
        same_as=(pool.kind, pool.name, problem),
        quiet_for=_MINUTE,
    )


def unconsolidatable(item: Resource, problem: str) -> Announce:
    """Tell a node or claim why consolidation leaves it alone."""
    return Announce(
        about=about(item),
        reason="Unconsolidatable",
        message=problem,
        same_as=(item.kind, item.name),
        quiet_for=15 * _MINUTE,
        minor=True,
    )


def disruption_launching(claim: NodeClaim, reason: str) -> Announce:
    """Tell a replacement what it is launched for."""
    return Announce(
        about=about(claim),
        reason="DisruptionLaunching",
        message=f"Launching to replace what is disrupted: {reason}.",
        same_as=(claim.name, reason),
    )


def disruption_waiting(claim: NodeClaim) -> Announce:
    """Tell a replacement that others wait for it."""
    return Announce(
        about=about(claim),
        reason="DisruptionWaitingReadiness",
        message="Waiting for this node to be ready before the one that it replaces goes.",
        same_as=(claim.name,),
    )


def disruption_terminating(item: Resource, reason: str) -> Announce:
    """Tell a node or claim that it goes now."""
    return Announce(
        about=about(item),
        reason="DisruptionTerminating",
        message=f"Disrupting: {reason}.",
        same_as=(item.kind, item.name, reason),
    )


def consolidation_candidate(item: Resource, command: str) -> Announce:
    """Tell a node or claim that a consolidation has been found for it."""
    return Announce(
        about=about(item), reason="ConsolidationCandidate", message=command, same_as=(item.kind, item.name)
    )


def consolidation_approved(item: Resource, told: str) -> Announce:
    """Tell a node, a claim or a pool that what a consolidation saves is worth what it disturbs."""
    return Announce(
        about=about(item), reason="ConsolidationApproved", message=told, same_as=(item.kind, item.name)
    )


def consolidation_rejected(item: Resource, command: str, why: str) -> Announce:
    """Tell a node or claim that its consolidation was dropped after a second look."""
    return Announce(
        about=about(item),
        reason="ConsolidationRejected",
        message=f"{command}: given up ({why}).",
        same_as=(item.kind, item.name),
    )


def interruption(item: Resource, kind: str, *, drains: bool = True) -> Announce:
    """Tell a node or claim that its cloud takes the machine away, or would rather have it back."""
    words = kind.replace("_", " ")
    return Announce(
        about=about(item),
        type="Warning" if drains else "Normal",
        reason=_INTERRUPTIONS.get(kind) or "".join(part.capitalize() for part in kind.split("_")),
        message=f"The cloud tells of this machine: {words}.",
        same_as=(item.kind, item.name, kind),
    )


def terminating_on_interruption(item: Resource, kind: str) -> Announce:
    """Tell a node or claim that it goes because of what its cloud has told."""
    return Announce(
        about=about(item),
        type="Warning",
        reason="TerminatingOnInterruption",
        message=f"The machine is given up before its cloud takes it: {kind.replace('_', ' ')}.",
        same_as=(item.kind, item.name),
    )


def condition_changed(item: Resource, was: str, held: Condition | NodeCondition) -> Announce:
    """Tell an object that a condition of its own has changed."""
    why = ": ".join(part for part in (held.reason, held.message) if part)
    return Announce(
        about=about(item),
        reason=held.type,
        message=f"The condition {held.type} went from {was or 'nothing'} to {held.status}"
        f"{f' ({why})' if why else ''}.",
        quiet_for=0.0,
        minor=True,
    )


def finalized(item: Resource, finalizer: str) -> Announce:
    """Tell an object that nothing holds it any longer."""
    return Announce(
        about=about(item), reason="Finalized", message=f"The finalizer {finalizer} is gone.", minor=True
    )


def protection_ignored(pod: Pod, problem: str) -> Announce:
    """Tell a pod why its wish not to be disrupted is not heeded."""
    return Announce(
        about=about(pod),
        type="Warning",
        reason="InvalidDoNotDisruptAnnotation",
        message=f"The annotation {DO_NOT_DISRUPT} is ignored: {problem}",
        same_as=(pod.metadata.uid, problem),
    )


def protected_until(pod: Pod, until: str) -> Announce:
    """Tell a pod until when it is not disrupted."""
    return Announce(
        about=about(pod),
        reason="DoNotDisruptUntil",
        message=f"The pod is not disrupted until {until}.",
        same_as=(pod.metadata.uid, until),
    )


def protection_elapsed(pod: Pod, until: str) -> Announce:
    """Tell a pod that it may be disrupted from now on."""
    return Announce(
        about=about(pod),
        reason="DoNotDisruptGracePeriodElapsed",
        message=f"The pod may be disrupted since {until}.",
        same_as=(pod.metadata.uid, until),
    )
