"""
Registration: a machine has joined the cluster as a Node.

The Node is found by its provider id. One write syncs the labels, annotations and taints of the NodeClaim to
it, adds the termination finalizer and the owner reference, and removes the taint karpenter.sh/unregistered.
The taint keeps pods away until labels and taints are in place:
https://karpenter.sh/docs/concepts/nodeclaims/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.labels import (
    DO_NOT_SYNC_TAINTS,
    NO_EXECUTE,
    REGISTERED,
    TERMINATION_FINALIZER,
    UNREGISTERED,
)
from karpenter.api.meta import to_plain
from karpenter.api.node import Node, Taint
from karpenter.core.effects import Amend, Count, Effect, RegistrationOutcome
from karpenter.core.events import unregistered_taint_missing
from karpenter.core.lifecycle import conditions
from karpenter.core.lifecycle.conditions import ConditionSet, Progress, pool_of, zone_labels
from karpenter.core.model.taints import merge, without

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.api.nodeclaim import NodeClaim

# Nodes join with this taint, so that no pod starts before their labels and taints are there:
# https://karpenter.sh/docs/concepts/nodeclaims/
_UNREGISTERED: Final = Taint(key=UNREGISTERED, effect=NO_EXECUTE)


def register(
    claim: NodeClaim, nodes: Sequence[Node], condition_set: ConditionSet, holds: Sequence[str]
) -> Progress:
    """
    Return how far the registration of a claim's Node has come.

    `holds` names the registration hooks of the provider that have not finished; they keep the taint on the
    Node.
    """
    kind = conditions.REGISTERED
    if not nodes:
        return Progress(
            condition_set=condition_set.set_unknown(kind, "NodeNotFound", "Node not registered with cluster")
        )
    # A provider id is unique, so this happens only when a machine registers again under another name.
    if len(nodes) > 1:
        names = ", ".join(sorted(node.name for node in nodes))
        message = f"Several nodes have the provider id of this NodeClaim: {names}"
        return Progress(condition_set=condition_set.set_false(kind, "MultipleNodesFound", message))
    node = nodes[0]
    warnings = _warnings(claim, node)
    if holds:
        held = condition_set.set_unknown(kind, "RegistrationHookPending", ", ".join(holds))
        return Progress(condition_set=held, first=(*warnings, *_sync(claim, node, done=False)))
    return Progress(
        condition_set=condition_set.set_true(kind),
        status={"nodeName": node.name},
        first=(*warnings, *_sync(claim, node, done=True)),
        then=(
            Count(metric="karpenter_nodes_created_total", labels=zone_labels(claim)),
            *registration_outcome(claim, healthy=True),
        ),
    )


def registration_outcome(
    claim: NodeClaim, *, healthy: bool, reason: str = "", message: str = ""
) -> tuple[Effect, ...]:
    """Return the registration outcome of a claim, for the registration health of its NodePool."""
    owner = next((each for each in claim.metadata.owner_references if each.kind == "NodePool"), None)
    if owner is None or not pool_of(claim):
        return ()
    return (
        RegistrationOutcome(
            pool=pool_of(claim),
            pool_uid=owner.uid,
            healthy=healthy,
            reason=reason,
            message=message,
            because=f"nodeclaim {claim.name} {'registered' if healthy else 'failed to register'}",
        ),
    )


def _warnings(claim: NodeClaim, node: Node) -> tuple[Effect, ...]:
    # The kubelet registers with this taint, so that no pod is bound before labels and taints are synced. User
    # data that leaves it out has a race with kube-scheduler: https://karpenter.sh/docs/concepts/nodeclaims/
    has_unregistered_taint = any(t.key == UNREGISTERED and t.effect == NO_EXECUTE for t in node.spec.taints)
    if has_unregistered_taint or REGISTERED in node.metadata.labels:
        return ()
    return (unregistered_taint_missing(claim, node),)


def synced(claim: NodeClaim, node: Node, *, done: bool) -> Node:
    """Return a Node with the labels and taints of its claim, as it is once they are synced to it."""
    taints = node.spec.taints
    # Bootstrap code that manages the taints of its Node itself sets this label.
    if node.metadata.labels.get(DO_NOT_SYNC_TAINTS) != "true":
        taints = merge(taints, claim.spec.taints)
        # Once: whatever the node had to wait for may have removed them since, if the claim was not written.
        waits = any(taint.key == UNREGISTERED for taint in node.spec.taints)
        if waits or node.metadata.labels.get(REGISTERED) != "true":
            taints = merge(taints, claim.spec.startup_taints)
    labels = dict(claim.metadata.labels)
    if done:
        taints = without(taints, [_UNREGISTERED])
        labels[REGISTERED] = "true"
    return msgspec.structs.replace(
        node,
        metadata=msgspec.structs.replace(node.metadata, labels={**node.metadata.labels, **labels}),
        spec=msgspec.structs.replace(node.spec, taints=taints),
    )


def _sync(claim: NodeClaim, node: Node, *, done: bool) -> tuple[Effect, ...]:
    """Return the write that syncs a claim's metadata and taints to its Node; empty if nothing differs."""
    after = synced(claim, node, done=done)
    metadata: dict[str, Any] = {}
    if missing := {k: v for k, v in after.metadata.labels.items() if node.metadata.labels.get(k) != v}:
        metadata["labels"] = missing
    notes = claim.metadata.annotations
    if missing := {k: v for k, v in notes.items() if node.metadata.annotations.get(k) != v}:
        metadata["annotations"] = missing
    # `kubectl delete node` must drain the node first, so the finalizer is on Nodes as well:
    # https://karpenter.sh/docs/concepts/disruption/
    if TERMINATION_FINALIZER not in node.metadata.finalizers:
        metadata["finalizers"] = [*node.metadata.finalizers, TERMINATION_FINALIZER]
    if not any(owner.uid == claim.metadata.uid for owner in node.metadata.owner_references):
        metadata["ownerReferences"] = [*map(to_plain, node.metadata.owner_references), _owner(claim)]
    changes: dict[str, Any] = {"metadata": metadata} if metadata else {}
    if after.spec.taints != node.spec.taints:
        changes["spec"] = {"taints": [render_taint(taint) for taint in after.spec.taints]}
    if not changes:
        return ()
    return (
        Amend(
            kind="Node",
            name=node.name,
            changes=changes,
            # The list of taints is written whole; kubelet and node controllers write it as well, so a write
            # that raced with theirs must fail and be made again:
            # https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
            version=node.metadata.resource_version,
            because=f"it is the node of nodeclaim {claim.name}",
        ),
    )


def render_taint(taint: Taint) -> dict[str, Any]:
    """Return a taint in the form that the API takes."""
    return {"key": taint.key, "effect": taint.effect, **to_plain(taint)}


def _owner(claim: NodeClaim) -> dict[str, Any]:
    return {
        "apiVersion": claim.api_version,
        "kind": claim.kind,
        "name": claim.name,
        "uid": claim.metadata.uid,
        "blockOwnerDeletion": True,
    }
