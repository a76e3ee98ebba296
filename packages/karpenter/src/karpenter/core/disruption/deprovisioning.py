"""
Which claims of a static NodePool are deleted when it has more than its ``replicas``.

Claims without an instance go first, then empty nodes, then those whose pods cost least to evict and that
expire soonest; nodes that must not be disrupted, or have a pod that must not, go last. Budgets do not apply,
because the user has asked for fewer nodes. Their nodes still drain as any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import DO_NOT_DISRUPT, NODEPOOL
from karpenter.base.duration import DurationError, parse_duration_or_never
from karpenter.core.disruption.cost import eviction_cost
from karpenter.core.lifecycle.conditions import delete_claim
from karpenter.core.state.pod import has_do_not_disrupt, is_active, is_owned_by_daemonset, is_reschedulable
from karpenter.core.state.statenode import StateNode, state_nodes

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.nodepool import NodePool
    from karpenter.core.effects import Effect
    from karpenter.core.state.cluster import ClusterView


def scale_down(pool: NodePool, view: ClusterView, now: datetime) -> tuple[Effect, ...]:
    """Return what removes the machines of a static pool that are too many."""
    wanted = pool.spec.replicas
    if wanted is None or pool.metadata.deletion_timestamp is not None:
        return ()
    active = [claim for claim in view.claims.values() if _stays(claim, pool, view)]
    if len(active) <= wanted:
        return ()
    nodes = {node.claim.name: node for node in state_nodes(view) if node.claim is not None}
    active.sort(key=lambda claim: _rank(claim, nodes.get(claim.name), now))
    because = f"its pool keeps {wanted} machines and has {len(active)}"
    return tuple(
        effect
        for claim in active[: len(active) - wanted]
        for effect in delete_claim(claim, "scaledown", because)
    )


def lifetime_left(claim: NodeClaim, now: datetime) -> float:
    """Return what share of its life a machine still has before it is too old: 1 for one that never is."""
    born = claim.metadata.creation_timestamp
    try:
        whole = parse_duration_or_never(claim.spec.expire_after)
    except DurationError:
        return 1.0
    if born is None or not whole:
        return 1.0
    return min(1.0, max(0.0, (born + whole - now) / whole))


def _stays(claim: NodeClaim, pool: NodePool, view: ClusterView) -> bool:
    own = claim.metadata.labels.get(NODEPOOL) == pool.name
    return own and claim.metadata.deletion_timestamp is None and claim.name not in view.marked


def _rank(claim: NodeClaim, node: StateNode | None, now: datetime) -> tuple[bool, bool, bool, float, str]:
    """Return where a machine stands in the order in which machines go."""
    pods = node.pods if node is not None else ()
    kept = node is not None and node.annotations.get(DO_NOT_DISRUPT) == "true"
    protected = kept or any(is_active(pod) and has_do_not_disrupt(pod, now) for pod in pods)
    empty = not protected and all(is_owned_by_daemonset(pod) for pod in pods)
    cost = sum(eviction_cost(pod) for pod in pods if is_reschedulable(pod)) * lifetime_left(claim, now)
    # https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/static/deprovisioning/controller.go
    return bool(claim.status.provider_id), not empty, protected, cost, claim.name
