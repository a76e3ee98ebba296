"""
One look at a claim: what is due for it now, from its finalizer to its complete node.

Every look goes through all steps, so that it does not matter which event caused it or how many were missed.
A claim that is being deleted is :mod:`.finalize`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.core.effects import Launch, Step
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
from karpenter.core.lifecycle.liveness import LivenessTimeouts, delete_for_timeout, seconds_left
from karpenter.core.lifecycle.registration import register

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from karpenter.api.dra import ResourceSlice
    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim

_PATIENCE = LivenessTimeouts()


def reconcile_nodeclaim(
    claim: NodeClaim,
    nodes: Sequence[Node],
    now: datetime,
    *,
    holds: Sequence[str] = (),
    slices: Iterable[ResourceSlice] | None = None,
    patience: LivenessTimeouts = _PATIENCE,
) -> Step:
    """
    Return what is due for a claim that is not being deleted.

    `nodes` are those with its provider id; `holds` names what the provider has to finish first; `slices` are
    the devices that drivers show, None where nobody asks for devices.
    """
    if not has_finalizer(claim):
        return Step(effects=(add_finalizer(claim, "its machine must not outlive it"),))
    board = claim_conditions(claim, now)
    left = seconds_left(board, patience)
    if left is not None and left <= 0:
        return Step(effects=delete_for_timeout(claim, board))
    if board.status(LAUNCHED) == "Unknown":
        return Step(effects=(Launch(claim=claim, because="it has no machine yet"),), again=left)
    board = board.refresh(LAUNCHED)
    if board.is_true(REGISTERED) and board.status(INITIALIZED) == "Unknown":
        progress = initialize(claim, nodes, board, slices)
    elif board.status(REGISTERED) == "Unknown":
        progress = register(claim, nodes, board, holds)
    else:
        progress = Progress(board=board.refresh(REGISTERED).refresh(INITIALIZED))
    written = patch_object(claim, progress.board, status=progress.status, because="its node has come further")
    return Step(effects=(*progress.first, *written, *progress.then), again=left)
