"""
The lifecycle of a NodeClaim: launch, registration, initialization and liveness.

Liveness deletes NodeClaims that are not launched, or whose Node does not register, in time. The default
timeouts are upstream's: five minutes for the launch, 15 minutes for registration.

Each reconcile goes through all steps, so it does not matter which event caused it or how many were missed.
A claim that is being deleted is reconciled by :mod:`.termination`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.meta import is_status_condition_true
from karpenter.core.effects import Amend, Effect, Step
from karpenter.core.lifecycle.conditions import (
    CONSISTENT_STATE_FOUND,
    CONSOLIDATABLE,
    DRIFTED,
    INITIALIZED,
    LAUNCHED,
    REGISTERED,
    ConditionSet,
    Progress,
    add_finalizer,
    claim_conditions,
    delete_claim,
    has_finalizer,
    patch_object,
)
from karpenter.core.lifecycle.consistency import is_consistent
from karpenter.core.lifecycle.initialization import initialize
from karpenter.core.lifecycle.launch import launch
from karpenter.core.lifecycle.registration import register, registration_outcome, synced

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karpenter.api.dra import ResourceSlice
    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim

# A NodeClaim that cannot launch or register holds room in limits and keeps pods waiting, so it is deleted
# and the scheduler tries again: https://karpenter.sh/docs/concepts/nodeclaims/
LAUNCH_TIMEOUT: Final = timedelta(minutes=5)
# A claim without a node after 15 minutes is deleted, because its user data or permissions are wrong:
# https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/controllers/nodeclaim/lifecycle/liveness.go
REGISTRATION_TIMEOUT: Final = timedelta(minutes=15)


_OF_OTHERS: Final = frozenset({CONSISTENT_STATE_FOUND, CONSOLIDATABLE, DRIFTED})


class LivenessTimeouts(msgspec.Struct, frozen=True, kw_only=True):
    """How long the launch and the registration of a claim may take."""

    launch: timedelta = LAUNCH_TIMEOUT
    registration: timedelta = REGISTRATION_TIMEOUT


def seconds_left(condition_set: ConditionSet, timeouts: LivenessTimeouts) -> float | None:
    """Return the seconds that are left for the present step of a claim; None once it is registered."""
    if condition_set.is_true(REGISTERED):
        return None
    if not condition_set.is_true(LAUNCHED):
        ends = condition_set.since(LAUNCHED) + timeouts.launch
    else:
        ends = condition_set.since(REGISTERED) + timeouts.registration
    return (ends - condition_set.now).total_seconds()


def delete_for_timeout(claim: NodeClaim, condition_set: ConditionSet) -> tuple[Effect, ...]:
    """Return the deletion of a claim whose time has run out."""
    if not condition_set.is_true(LAUNCHED):
        condition = condition_set.get(LAUNCHED)
        assert condition is not None
        noted = registration_outcome(claim, healthy=False, reason=condition.reason, message=condition.message)
        return (*noted, *delete_claim(claim, "launch_timeout", "it was not launched in time"))
    noted = registration_outcome(
        claim, healthy=False, reason="RegistrationFailed", message="Failed to register node"
    )
    return (*noted, *delete_claim(claim, "registration_timeout", "its node did not register in time"))


def lifecycle_inputs(claim: NodeClaim) -> tuple[object, ...]:
    """Return what of a claim its lifecycle may depend on: all but what other controllers keep there."""
    meta, status = claim.metadata, claim.status
    return (
        msgspec.structs.replace(meta, resource_version=""),
        claim.spec,
        msgspec.structs.replace(status, last_pod_event_time=None, conditions=()),
        tuple(each for each in status.conditions if each.type not in _OF_OTHERS),
    )


def reads_nodes(claim: NodeClaim) -> bool:
    """Whether the lifecycle of a claim depends on its Nodes: until they are initialized, and at its end."""
    return claim.metadata.deletion_timestamp is not None or not is_status_condition_true(
        claim.status.conditions, INITIALIZED
    )


def _initialize_at_once(
    registered: Progress, claim: NodeClaim, node: Node, slices: Iterable[ResourceSlice] | None
) -> Progress:
    """
    Return a registration that also initializes its Node, or says what initialization waits for.

    A Node that was complete before its turn came takes one write in place of two, and its claim as well.
    The write of the Node is conditional on the version that was read, so nothing has changed meanwhile.
    """
    progress = initialize(claim, (synced(claim, node, done=True),), registered.condition_set, slices)
    first = registered.first
    for label in progress.first:
        first = _joined(first, label)
    return msgspec.structs.replace(registered, condition_set=progress.condition_set, first=first)


def _joined(effects: tuple[Effect, ...], label: Effect) -> tuple[Effect, ...]:
    """Return effects with a label of a Node, in the write to that Node if there is one."""
    assert isinstance(label, Amend)
    last = effects[-1] if effects else None
    if not isinstance(last, Amend):
        return (*effects, label)
    metadata = last.changes.get("metadata", {})
    labels = {**metadata.get("labels", {}), **label.changes["metadata"]["labels"]}
    changes = {**last.changes, "metadata": {**metadata, "labels": labels}}
    return (*effects[:-1], msgspec.structs.replace(last, changes=changes))


def _checked(progress: Progress, claim: NodeClaim, nodes: Sequence[Node]) -> Progress:
    """Return an initialization that says, too, that the Node is consistent if it is, which saves a write."""
    condition_set = progress.condition_set
    if not condition_set.is_true(INITIALIZED) or not is_consistent(claim, nodes[0]):
        return progress
    return msgspec.structs.replace(progress, condition_set=condition_set.set_true(CONSISTENT_STATE_FOUND))


_TIMEOUTS = LivenessTimeouts()


def reconcile_nodeclaim(
    claim: NodeClaim,
    nodes: Sequence[Node],
    now: datetime,
    *,
    holds: Sequence[str] = (),
    slices: Iterable[ResourceSlice] | None = None,
    timeouts: LivenessTimeouts = _TIMEOUTS,
) -> Step:
    """
    Return the effects for a claim that is not being deleted.

    `nodes` are those with its provider id; `holds` names the registration hooks that have not finished;
    `slices` are the ResourceSlices of the cluster, None when DRA is ignored.
    """
    if not has_finalizer(claim):
        return Step(effects=(add_finalizer(claim, "its machine must be terminated before it is gone"),))
    condition_set = claim_conditions(claim, now)
    left = seconds_left(condition_set, timeouts)
    if left is not None and left <= 0:
        return Step(effects=delete_for_timeout(claim, condition_set))
    if condition_set.status(LAUNCHED) == "Unknown":
        return Step(effects=(launch(claim, "it is not launched yet"),), again=left)
    condition_set = condition_set.refresh(LAUNCHED)
    if condition_set.is_true(REGISTERED) and condition_set.status(INITIALIZED) == "Unknown":
        progress = _checked(initialize(claim, nodes, condition_set, slices), claim, nodes)
    elif condition_set.status(REGISTERED) == "Unknown":
        progress = register(claim, nodes, condition_set, holds)
        if progress.condition_set.is_true(REGISTERED):
            progress = _checked(_initialize_at_once(progress, claim, nodes[0], slices), claim, nodes)
    else:
        progress = Progress(condition_set=condition_set.refresh(REGISTERED).refresh(INITIALIZED))
    written = patch_object(
        claim, progress.condition_set, status=progress.status, because="its conditions have changed"
    )
    return Step(effects=(*progress.first, *written, *progress.then), again=left)
