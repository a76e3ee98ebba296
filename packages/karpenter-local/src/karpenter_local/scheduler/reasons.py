"""
What the scheduler says when a pod fits nowhere, word for word as users and tools know it.

Every filter refuses a node with a sentence; :func:`unavailable` counts the sentences and joins them into the
message of the pod's ``PodScheduled`` condition. Nothing here decides: it only spells.
"""

from collections import Counter
from collections.abc import Iterable
from enum import IntEnum, auto


class Filter(IntEnum):
    """Who refused a node, in the order in which they are asked; the first refusal is the one reported."""

    NODE_NAME = auto()
    NODE_UNSCHEDULABLE = auto()
    TAINTS = auto()
    NODE_AFFINITY = auto()
    PORTS = auto()
    RESOURCES = auto()
    VOLUME_RESTRICTIONS = auto()
    VOLUME_LIMITS = auto()
    VOLUME_BINDING = auto()
    VOLUME_ZONE = auto()
    SPREAD = auto()
    POD_AFFINITY = auto()


UNSCHEDULABLE = "node(s) were unschedulable"
NOT_NAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
UNTOLERATED = "node(s) had untolerated taint(s)"
WRONG_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
PORTS_TAKEN = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY_PODS = "Too many pods"
DISK_IN_USE = "node(s) had no available disk"
ONCE_POD_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)
TOO_MANY_VOLUMES = "node(s) exceed max volume count"
VOLUME_ELSEWHERE = "node(s) had volume node affinity conflict"
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
UNBOUND_CLAIMS = "pod has unbound immediate PersistentVolumeClaims"
VOLUME_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
WRONG_VOLUME_ZONE = "node(s) had no available volume zone"
SPREAD_LABEL_MISSING = "node(s) didn't match pod topology spread constraints (missing required label)"
SPREAD_SKEWED = "node(s) didn't match pod topology spread constraints"
AFFINITY_UNMET = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY_UNMET = "node(s) didn't match pod anti-affinity rules"
OTHERS_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"

NO_NODES = "no nodes available to schedule pods"
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NEVER_PREEMPTS = "not eligible due to preemptionPolicy=Never."
VICTIM_LEAVING = "not eligible due to a terminating pod on the nominated node."


def insufficient(resource: str) -> str:
    """Return the refusal of a node with too little of `resource` left."""
    return f"Insufficient {resource}"


def claim_missing(name: str) -> str:
    """Return the refusal of every node because a claim does not exist."""
    return f'persistentvolumeclaim "{name}" not found'


def claim_awaited(name: str) -> str:
    """Return the refusal of every node because the claim of an ephemeral volume was not made yet."""
    return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'


def claim_lost(name: str, volume: str) -> str:
    """Return the refusal of every node because a claim has lost its volume."""
    return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'


def claim_leaving(name: str) -> str:
    """Return the refusal of every node because a claim is being deleted."""
    return f'persistentvolumeclaim "{name}" is being deleted'


def unavailable(nodes: int, refusals: Iterable[str], *, everywhere: str = "", preemption: str = "") -> str:
    """
    Return the whole message: how many nodes there are, how often each refusal was given, what preemption
    found.

    `everywhere` replaces the count of refusals where the pod was refused before any node was looked at.
    """
    if nodes == 0:
        return NO_NODES
    counts = Counter(refusals)
    why = everywhere or ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    message = f"0/{nodes} nodes are available"
    if why:
        message += f": {why}."
    if everywhere:
        # Before it looks for victims the scheduler looks for device claims to give up, and that search was
        # not set up for a pod that is refused this early: its error ends up in the message.
        message += " not found"
    elif preemption:
        message += f" no new claims to deallocate, preemption: {preemption}"
    return message
