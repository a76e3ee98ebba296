"""Labels of metrics about claims and nodes, read from the labels of the objects themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import CAPACITY_TYPE, NODEPOOL, ZONE
from karpenter.base.duration import DurationError, parse_duration

if TYPE_CHECKING:
    from datetime import timedelta

    from karpenter.api.meta import Resource
    from karpenter.api.nodeclaim import NodeClaim


def pool_of(item: Resource) -> str:
    """Return the pool that a claim or node belongs to; empty for those that belong to none."""
    return item.metadata.labels.get(NODEPOOL, "")


def by_pool(item: Resource) -> dict[str, str]:
    """Return the labels of metrics that are told apart by pool."""
    return {"nodepool": pool_of(item)}


def by_zone(item: Resource) -> dict[str, str]:
    """Return the labels of metrics that are told apart by pool and zone."""
    return {**by_pool(item), "zone": item.metadata.labels.get(ZONE, "")}


def by_capacity(item: Resource) -> dict[str, str]:
    """Return the labels of metrics that are told apart by pool, zone and capacity type."""
    return {**by_zone(item), "capacity_type": item.metadata.labels.get(CAPACITY_TYPE, "")}


def disrupted_labels(claim: NodeClaim, reason: str) -> dict[str, str]:
    """Return the labels of metrics about claims that go by our own decision."""
    return {
        "reason": reason,
        **by_pool(claim),
        "capacity_type": claim.metadata.labels.get(CAPACITY_TYPE, ""),
    }


def moved_labels(claim: NodeClaim, reason: str, policy: str = "") -> dict[str, str]:
    """Return the labels of metrics about the pods of claims that go by our own decision."""
    return {
        **disrupted_labels(claim, reason),
        "consolidation_policy": policy,
        "termination_mode": termination_mode(claim),
    }


def grace_of(claim: NodeClaim) -> timedelta | None:
    """Return how long the node of a claim may take to leave; None means as long as its pods take."""
    text = claim.spec.termination_grace_period
    if text is None:
        return None
    try:
        return parse_duration(text)
    except DurationError:  # an API server would have refused it
        return None


def termination_mode(claim: NodeClaim) -> str:
    """Return how much time the pods of a claim's node have: all, none, or some."""
    grace = grace_of(claim)
    if grace is None:
        return "graceful"
    return "eventual" if grace.total_seconds() > 0 else "forceful"


def snake(words: str) -> str:
    """Return a word with capitals inside as metrics spell it: memory_pressure for MemoryPressure."""
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in words).lstrip("_")
