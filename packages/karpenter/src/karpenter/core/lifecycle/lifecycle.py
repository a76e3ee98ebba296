"""
The lifecycle of a NodeClaim: launch, registration, initialization and liveness.

Each reconcile goes through all steps, so it does not matter which event caused it or how many were missed.
A claim that is being deleted is reconciled by :mod:`.termination`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.core.effects import Step
from karpenter.core.lifecycle.conditions import (
    INITIALIZED,
    LAUNCHED,
    REGISTERED,
    Progress,
    add_finalizer,
    claim_conditions,
    has_finalizer,
    patch_object,
)
from karpenter.core.lifecycle.initialization import initialize
from karpenter.core.lifecycle.launch import launch
from karpenter.core.lifecycle.liveness import LivenessTimeouts, delete_for_timeout, seconds_left
from karpenter.core.lifecycle.registration import register

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from karpenter.api.dra import ResourceSlice
    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim

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
        progress = initialize(claim, nodes, condition_set, slices)
    elif condition_set.status(REGISTERED) == "Unknown":
        progress = register(claim, nodes, condition_set, holds)
    else:
        progress = Progress(condition_set=condition_set.refresh(REGISTERED).refresh(INITIALIZED))
    written = patch_object(
        claim, progress.condition_set, status=progress.status, because="its conditions have changed"
    )
    return Step(effects=(*progress.first, *written, *progress.then), again=left)
