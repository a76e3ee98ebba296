"""
What time and specs say about a claim: expired, drifted, ready to be consolidated.

Worked out from specs, hashes and timestamps at a moment, as the operator's own controllers
would mark it; a condition in the claim's status decides only where there is nothing to work
it out from (a provider's own kind of drift).

What is written on a claim for disruption to read: that it has drifted, that it was quiet long enough.

The questions are answered in ``core.lifecycle.marks``; here the answers become conditions, and the time of
the next answer becomes known.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODEPOOL_HASH,
    NODEPOOL_HASH_VERSION,
    ON_DEMAND,
    RESERVED,
    ZONE,
)
from karpenter.base.duration import DurationError, parse_duration_or_never
from karpenter.core.effects import NOTHING, Step
from karpenter.core.lifecycle.conditions import (
    CONSOLIDATABLE,
    DRIFTED,
    INITIALIZED,
    LAUNCHED,
    amend,
    claim_board,
)
from karpenter.core.model.requirements import Requirements
from karpenter.core.state.view import condition, is_true, since

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.nodepool import NodePool
    from karpenter.core.model.catalog import Catalog


SETTLING: Final = timedelta(hours=1)
"""How old a claim must be before a missing instance type counts as drift."""

_WORKED_OUT: Final = frozenset({"NodePoolDrifted", "RequirementsDrifted", "InstanceTypeNotFound", "Drifted"})


def expires_at(claim: NodeClaim) -> datetime | None:
    """Return when a claim is too old, or None when it never is."""
    born = claim.metadata.creation_timestamp
    try:
        age = parse_duration_or_never(claim.spec.expire_after)
    except DurationError:
        return None
    return None if age is None or born is None else born + age


def is_expired(claim: NodeClaim, now: datetime) -> bool:
    """Whether a claim is too old."""
    moment = expires_at(claim)
    return moment is not None and now >= moment


def quiet_until(claim: NodeClaim, pool: NodePool) -> datetime | None:
    """Return until when a node is left alone after its last pod came or went; None when never again."""
    wait = consolidate_after(pool)
    last = claim.status.last_pod_event_time or since(claim.status.conditions, "Initialized")
    if wait is None or last is None:
        return None
    return last + wait


def consolidate_after(pool: NodePool) -> timedelta | None:
    """Return how long a pool's nodes are left alone; None when they are never consolidated."""
    try:
        return parse_duration_or_never(pool.spec.disruption.consolidate_after)
    except DurationError:
        return None


def is_consolidatable(claim: NodeClaim, pool: NodePool, now: datetime) -> bool:
    """Whether a node has been quiet for long enough."""
    wait = consolidate_after(pool)
    if wait is None or not is_true(claim.status.conditions, "Initialized"):
        return False
    if not wait:
        return True
    until = quiet_until(claim, pool)
    return until is not None and now >= until


def is_quiet(claim: NodeClaim | None, pool: NodePool | None, now: datetime) -> bool:
    """Whether a node is inside its quiet time, so that pods are not moved onto it for savings."""
    if claim is None or pool is None or not consolidate_after(pool):
        return False
    until = quiet_until(claim, pool)
    return until is not None and now < until


def drift_reason(claim: NodeClaim, pool: NodePool, catalog: Catalog, now: datetime) -> str:
    """Return why a claim no longer is what its pool wants, or nothing."""
    if not is_true(claim.status.conditions, "Launched"):
        return ""
    return (
        _hash_drift(claim, pool)
        or _requirements_drift(claim, pool)
        or _catalogue_drift(claim, pool, catalog, now)
        or _provider_drift(claim)
    )


def drifted_since(claim: NodeClaim) -> datetime | None:
    """Return when a claim was found to have drifted, if anyone wrote it down."""
    return since(claim.status.conditions, "Drifted") if is_true(claim.status.conditions, "Drifted") else None


def _hash_drift(claim: NodeClaim, pool: NodePool) -> str:
    """Return whether the hashes differ; without all four annotations there is nothing to compare."""
    ours, theirs = claim.metadata.annotations, pool.metadata.annotations
    stamped = all(key in each for each in (ours, theirs) for key in (NODEPOOL_HASH, NODEPOOL_HASH_VERSION))
    if not stamped or ours[NODEPOOL_HASH_VERSION] != theirs[NODEPOOL_HASH_VERSION]:
        return ""
    return "NodePoolDrifted" if ours[NODEPOOL_HASH] != theirs[NODEPOOL_HASH] else ""


def _requirements_drift(claim: NodeClaim, pool: NodePool) -> str:
    wanted = Requirements.from_entries(pool.spec.template.spec.requirements)
    labels = Requirements.from_labels(claim.metadata.labels)
    return "" if labels.accepts(wanted) else "RequirementsDrifted"


def _catalogue_drift(claim: NodeClaim, pool: NodePool, catalog: Catalog, now: datetime) -> str:
    born = claim.metadata.creation_timestamp
    if born is not None and now - born < SETTLING:
        return ""
    if not catalog.types_of(pool.name):
        return ""  # whoever sells has not answered, which says nothing about a machine that runs
    labels = claim.metadata.labels
    kind = catalog.sold(pool.name, labels.get(INSTANCE_TYPE, ""))
    if kind is None:
        return "InstanceTypeNotFound"
    if ZONE not in labels or CAPACITY_TYPE not in labels:
        return ""
    bought = {labels[CAPACITY_TYPE]}
    if RESERVED in bought:
        bought.add(ON_DEMAND)
    # A provider that names its zones keeps machines of a type whose zone no longer sells it.
    anywhere = labels[ZONE] in catalog.zones
    found = any((anywhere or o.zone == labels[ZONE]) and o.capacity_type in bought for o in kind.offerings)
    return "" if found else "InstanceTypeNotFound"


def _provider_drift(claim: NodeClaim) -> str:
    found = condition(claim.status.conditions, "Drifted")
    if found is None or found.status != "True" or found.reason in _WORKED_OUT:
        return ""
    return found.reason or "Drifted"


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
