"""
Disruption conditions of a NodeClaim: Drifted and Consolidatable, and when it expires.

Drift, expiry and consolidateAfter are computed from specs, hashes and timestamps. The stored condition
Drifted is read only for what cannot be computed here: a drift reason of the cloud provider, and, where nodes
are disrupted, an instance type that is gone. :func:`disruption_conditions` turns the results into conditions
and says when to look again.

See https://karpenter.sh/docs/concepts/disruption/.
"""

from __future__ import annotations

from datetime import datetime, timedelta
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
from karpenter.api.meta import find_status_condition, is_status_condition_true, status_condition_since
from karpenter.base.duration import DurationError, parse_duration_or_never
from karpenter.core.effects import NOTHING, Step
from karpenter.core.lifecycle.conditions import (
    CONSOLIDATABLE,
    DRIFTED,
    INITIALIZED,
    LAUNCHED,
    MOST_AHEAD,
    claim_conditions,
    patch_object,
)
from karpenter.core.model.requirements import Requirements

if TYPE_CHECKING:
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.nodepool import NodePool
    from karpenter.core.model.catalog import Catalog


# https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/controllers/nodeclaim/disruption/drift.go
INSTANCE_TYPE_DRIFT_AGE: Final = timedelta(hours=1)
"""The age of a claim from which on a missing instance type counts as drift."""

# Upstream asks for the instance types of a claim once in 30 minutes, and keeps only the good news: a catalog
# that lacks a type for a moment must not drift a node whose type was there before:
# https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/controllers/nodeclaim/disruption/drift.go
INSTANCE_TYPE_CHECK_PERIOD: Final = timedelta(minutes=30)
"""How long an instance type that was found is not looked for again."""

DRIFT_PERIOD: Final = 300.0
"""Seconds after which drift is checked again without an event."""

_READ_CONDITIONS: Final = frozenset({LAUNCHED, INITIALIZED, DRIFTED, CONSOLIDATABLE})
_NOT_FOUND: Final = "InstanceTypeNotFound"
_COMPUTED_REASONS: Final = frozenset({"NodePoolDrifted", "RequirementsDrifted", _NOT_FOUND, "Drifted"})


def expires_at(claim: NodeClaim) -> datetime | None:
    # expireAfter is counted from the creation of the NodeClaim, and copied to it: a change of the NodePool is
    # drift and does not move it: https://karpenter.sh/docs/concepts/disruption/#expiration
    born = claim.metadata.creation_timestamp
    try:
        age = parse_duration_or_never(claim.spec.expire_after)
    except DurationError:
        return None
    return None if age is None or born is None else born + age


def consolidatable_at(claim: NodeClaim, pool: NodePool, now: datetime) -> datetime | None:
    """Return when consolidateAfter has passed since the last pod event; None when it never does."""
    wait = consolidate_after(pool)
    # A pod that comes or goes starts consolidateAfter anew; without pods it starts with initialization:
    # https://karpenter.sh/docs/concepts/nodepools/#specdisruption
    last = claim.status.last_pod_event_time
    if last is None or last > now + MOST_AHEAD:
        last = status_condition_since(claim.status.conditions, "Initialized")
    if wait is None or last is None:
        return None
    return last + wait


def consolidate_after(pool: NodePool) -> timedelta | None:
    """Return the consolidateAfter of a pool; None for Never."""
    try:
        return parse_duration_or_never(pool.spec.disruption.consolidate_after)
    except DurationError:
        return None


def is_consolidatable(claim: NodeClaim, pool: NodePool, now: datetime) -> bool:
    """Whether a claim is initialized and consolidateAfter has passed since its last pod event."""
    wait = consolidate_after(pool)
    if wait is None or not is_status_condition_true(claim.status.conditions, "Initialized"):
        return False
    if not wait:
        return True
    until = consolidatable_at(claim, pool, now)
    return until is not None and now >= until


def within_consolidate_after(claim: NodeClaim | None, pool: NodePool | None, now: datetime) -> bool:
    """Whether consolidateAfter has not passed yet, so that consolidation moves no pods onto the node."""
    if claim is None or pool is None or not consolidate_after(pool):
        return False
    until = consolidatable_at(claim, pool, now)
    return until is not None and now < until


def drift_reason(
    claim: NodeClaim, pool: NodePool, catalog: Catalog, now: datetime, *, found_at: datetime | None = None
) -> str:
    """
    Return the reason why a claim has drifted; empty if it has not.

    `found_at` is what :func:`instance_type_found_at` has returned; without it the type is looked for.
    """
    if not is_status_condition_true(claim.status.conditions, "Launched"):
        return ""
    # The order is upstream's: the first reason becomes that of the condition:
    # https://karpenter.sh/docs/concepts/disruption/#drift
    return (
        _static_drift(claim, pool)
        or _requirements_drift(claim, pool)
        or (_instance_type_drift(claim, pool, catalog, now) if found_at is None else "")
        or _provider_drift(claim)
    )


def known_drift(claim: NodeClaim, pool: NodePool) -> str:
    """
    Return the reason why a claim is replaced as drifted; empty if it is not.

    Whether its instance type is gone is read from the condition, whose controller knows when it was found
    last.
    """
    if not is_status_condition_true(claim.status.conditions, "Launched"):
        return ""
    found = find_status_condition(claim.status.conditions, "Drifted")
    gone = found is not None and found.status == "True" and found.reason == _NOT_FOUND
    return (
        _static_drift(claim, pool)
        or _requirements_drift(claim, pool)
        or (_NOT_FOUND if gone else _provider_drift(claim))
    )


def instance_type_found_at(
    claim: NodeClaim, pool: NodePool, catalog: Catalog, now: datetime, before: datetime | None
) -> datetime | None:
    """Return when the instance type of a claim was found; `before` is what was returned last."""
    if before is not None and now - before < INSTANCE_TYPE_CHECK_PERIOD:
        return before
    if _is_young(claim, now) or not catalog.types_of(pool.name):
        return None
    return None if _instance_type_drift(claim, pool, catalog, now) else now


def drifted_since(claim: NodeClaim) -> datetime | None:
    """Return when the condition Drifted became True; None if it is not True."""
    return (
        status_condition_since(claim.status.conditions, "Drifted")
        if is_status_condition_true(claim.status.conditions, "Drifted")
        else None
    )


def _static_drift(claim: NodeClaim, pool: NodePool) -> str:
    """Return whether the hashes differ; without all four annotations there is nothing to compare."""
    ours, theirs = claim.metadata.annotations, pool.metadata.annotations
    stamped = all(key in each for each in (ours, theirs) for key in (NODEPOOL_HASH, NODEPOOL_HASH_VERSION))
    # Hashes of different versions are made of different fields and cannot be compared; the NodePool
    # controller brings the claim to the present version first:
    # https://karpenter.sh/docs/concepts/disruption/
    if not stamped or ours[NODEPOOL_HASH_VERSION] != theirs[NODEPOOL_HASH_VERSION]:
        return ""
    return "NodePoolDrifted" if ours[NODEPOOL_HASH] != theirs[NODEPOOL_HASH] else ""


def _requirements_drift(claim: NodeClaim, pool: NodePool) -> str:
    # Requirements are not hashed: one that a node still satisfies after a change is no drift:
    # https://karpenter.sh/docs/concepts/disruption/#drift
    wanted = Requirements.from_entries(pool.spec.template.spec.requirements)
    labels = Requirements.from_labels(claim.metadata.labels)
    return "" if labels.accepts(wanted) else "RequirementsDrifted"


def _is_young(claim: NodeClaim, now: datetime) -> bool:
    born = claim.metadata.creation_timestamp
    return born is not None and now - born < INSTANCE_TYPE_DRIFT_AGE


def _instance_type_drift(claim: NodeClaim, pool: NodePool, catalog: Catalog, now: datetime) -> str:
    if _is_young(claim, now):
        return ""
    if not catalog.types_of(pool.name):
        return ""  # the provider has no catalog for the pool now, which says nothing about this node
    labels = claim.metadata.labels
    kind = catalog.sold(pool.name, labels.get(INSTANCE_TYPE, ""))
    if kind is None:
        return _NOT_FOUND
    if ZONE not in labels or CAPACITY_TYPE not in labels:
        return ""
    capacity_types = {labels[CAPACITY_TYPE]}
    # A reserved instance becomes on-demand when its capacity reservation ends, without a change of the
    # instance: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html
    if RESERVED in capacity_types:
        capacity_types.add(ON_DEMAND)
    # A provider that names its zones keeps the nodes of a type that their zone no longer offers.
    any_zone = labels[ZONE] in catalog.zones
    found = any(
        (any_zone or each.zone == labels[ZONE]) and each.capacity_type in capacity_types
        for each in kind.offerings
    )
    return "" if found else _NOT_FOUND


def _provider_drift(claim: NodeClaim) -> str:
    found = find_status_condition(claim.status.conditions, "Drifted")
    if found is None or found.status != "True" or found.reason in _COMPUTED_REASONS:
        return ""
    return found.reason or "Drifted"


def disruption_inputs(claim: NodeClaim) -> tuple[object, ...]:
    """Return what of a claim its disruption conditions, and drift as providers see it, depend on."""
    meta, status = claim.metadata, claim.status
    return (
        meta.uid,
        meta.labels,
        meta.annotations,
        meta.deletion_timestamp,
        claim.spec,
        status.provider_id,
        status.image_id,
        status.last_pod_event_time,
        tuple(each for each in status.conditions if each.type in _READ_CONDITIONS),
    )


def disruption_inputs_of_pool(pool: NodePool) -> tuple[object, ...]:
    """Return what of a pool the disruption conditions of its claims may depend on: all but what it counts."""
    meta = pool.metadata
    return (
        meta.uid,
        meta.labels,
        meta.annotations,
        meta.deletion_timestamp,
        pool.spec,
        pool.status.conditions,
    )


def disruption_conditions(
    claim: NodeClaim,
    pool: NodePool | None,
    catalog: Catalog,
    now: datetime,
    *,
    provider_drift: str = "",
    found_at: datetime | None = None,
) -> Step:
    """
    Return the conditions to write on a claim.

    `provider_drift` is a drift reason of the cloud provider, `found_at` when its instance type was found.
    """
    if pool is None or claim.metadata.deletion_timestamp is not None:
        return NOTHING
    condition_set = claim_conditions(claim, now)
    again = DRIFT_PERIOD
    reason = ""
    if condition_set.is_true(LAUNCHED):
        bare = _without_drifted(claim)
        reason = drift_reason(bare, pool, catalog, now, found_at=found_at) or provider_drift
    condition_set = (
        condition_set.set_true(DRIFTED, reason, reason) if reason else condition_set.clear(DRIFTED)
    )
    if pool.spec.replicas is None:
        if is_consolidatable(claim, pool, now):
            condition_set = condition_set.set_true(CONSOLIDATABLE)
        else:
            condition_set = condition_set.clear(CONSOLIDATABLE)
            until = consolidatable_at(claim, pool, now)
            if (
                condition_set.is_true(INITIALIZED)
                and consolidate_after(pool) is not None
                and until is not None
            ):
                again = min(again, max((until - now).total_seconds(), 0.0))
    return Step(
        effects=patch_object(claim, condition_set, because="its disruption conditions have changed"),
        again=again,
    )


def _without_drifted(claim: NodeClaim) -> NodeClaim:
    """Return the claim without its condition Drifted, so that drift is computed anew."""
    left = tuple(each for each in claim.status.conditions if each.type != DRIFTED)
    return msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, conditions=left))
