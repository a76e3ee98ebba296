"""
What is written on a claim for disruption to read: that it has drifted, that it was quiet long enough.

The questions are answered in ``core.lifecycle.marks``; here the answers become conditions, and the time of
the next answer becomes known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.core.effects import NOTHING, Step
from karpenter.core.lifecycle.amending import amend
from karpenter.core.lifecycle.conditions import CONSOLIDATABLE, DRIFTED, INITIALIZED, LAUNCHED, claim_board
from karpenter.core.lifecycle.marks import consolidate_after, drift_reason, is_consolidatable, quiet_until

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.nodepool import NodePool
    from karpenter.core.model.catalog import Catalog

DRIFT_PERIOD: Final = 300.0
"""Seconds after which drift is looked for again, though nothing has happened."""


def mark(
    claim: NodeClaim, pool: NodePool | None, catalog: Catalog, now: datetime, *, provider_drift: str = ""
) -> Step:
    """Return what to write on a claim; `provider_drift` is the provider's own kind of drift, if any."""
    if pool is None or claim.metadata.deletion_timestamp is not None:
        return NOTHING
    board = claim_board(claim, now)
    again = DRIFT_PERIOD
    reason = ""
    if board.is_true(LAUNCHED):
        reason = drift_reason(_without_mark(claim), pool, catalog, now) or provider_drift
    board = board.true(DRIFTED, reason, reason) if reason else board.clear(DRIFTED)
    if pool.spec.replicas is None:
        if is_consolidatable(claim, pool, now):
            board = board.true(CONSOLIDATABLE)
        else:
            board = board.clear(CONSOLIDATABLE)
            until = quiet_until(claim, pool)
            if board.is_true(INITIALIZED) and consolidate_after(pool) is not None and until is not None:
                again = min(again, max((until - now).total_seconds(), 0.0))
    return Step(effects=amend(claim, board, because="its marks have changed"), again=again)


def _without_mark(claim: NodeClaim) -> NodeClaim:
    """Return the claim as it would be had nobody marked it: its drift is worked out anew."""
    left = tuple(each for each in claim.status.conditions if each.type != DRIFTED)
    return msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, conditions=left))
