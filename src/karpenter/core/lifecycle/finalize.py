"""
The end of a claim: its nodes leave first, then its machine, then the claim itself.

The machine is asked to end until its cloud says that it is gone; only then does the finalizer go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.labels import TERMINATION_TIMESTAMP
from karpenter.core.announcements import grace_period_expiring
from karpenter.core.effects import NOTHING, Amend, Count, DeleteObject, Measure, Step, Terminate
from karpenter.core.lifecycle.amending import amend, has_finalizer, remove_finalizer
from karpenter.core.lifecycle.conditions import INSTANCE_TERMINATING, REGISTERED, claim_board, render_time
from karpenter.core.lifecycle.naming import by_capacity, by_pool, grace_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.core.effects import Effect
    from karpenter.core.lifecycle.conditions import Board

LOOK_AGAIN: Final = 5.0


def finalize(claim: NodeClaim, nodes: Sequence[Node], now: datetime) -> Step:
    """Return what is due for a claim that is being deleted; `nodes` are those with its provider id."""
    if not has_finalizer(claim):
        return NOTHING
    if deadline := _deadline(claim):
        note = {"metadata": {"annotations": {TERMINATION_TIMESTAMP: deadline}}}
        return Step(
            effects=(
                Amend(kind=claim.kind, name=claim.name, changes=note, because="its grace period has begun"),
                grace_period_expiring(claim, deadline),
                *(grace_period_expiring(node, deadline) for node in nodes),
            )
        )
    board = claim_board(claim, now)
    if board.is_true(REGISTERED) and nodes:
        return Step(effects=tuple(_delete(node) for node in nodes if _stays(node)), again=LOOK_AGAIN)
    if not claim.status.provider_id:
        return Step(effects=_gone(claim, board, now))
    ending = Terminate(
        provider_id=claim.status.provider_id,
        going=amend(claim, board.true(INSTANCE_TERMINATING), because="its machine is ending"),
        gone=_gone(claim, board, now),
        because=f"claim {claim.name} is being deleted",
    )
    return Step(effects=(ending,), again=LOOK_AGAIN)


def _deadline(claim: NodeClaim) -> str:
    """Return by when a claim's node must be empty, if it has a grace period and nobody wrote that down."""
    grace, asked = grace_of(claim), claim.metadata.deletion_timestamp
    if grace is None or asked is None or TERMINATION_TIMESTAMP in claim.metadata.annotations:
        return ""
    return render_time(asked + grace)


def _stays(node: Node) -> bool:
    return node.metadata.deletion_timestamp is None


def _delete(node: Node) -> DeleteObject:
    return DeleteObject(
        kind=node.kind, name=node.name, uid=node.metadata.uid, because="its claim is being deleted"
    )


def _gone(claim: NodeClaim, board: Board, now: datetime) -> tuple[Effect, ...]:
    asked = claim.metadata.deletion_timestamp or now
    effects: list[Effect] = [remove_finalizer(claim, "its machine is gone")]
    if board.is_true(INSTANCE_TERMINATING):
        effects.append(
            Measure(
                metric="karpenter_nodeclaims_instance_termination_duration_seconds",
                labels=by_pool(claim),
                value=(now - board.since(INSTANCE_TERMINATING)).total_seconds(),
            )
        )
    effects += [
        Measure(
            metric="karpenter_nodeclaims_termination_duration_seconds",
            labels=by_pool(claim),
            value=(now - asked).total_seconds(),
        ),
        Count(metric="karpenter_nodeclaims_terminated_total", labels=by_capacity(claim)),
    ]
    return tuple(effects)
