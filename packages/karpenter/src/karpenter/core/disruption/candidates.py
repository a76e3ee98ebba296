"""
Which nodes are candidates for disruption, and what keeps the others: asked of every node, in one order.

Some obstacles hold against every reason (a node that is not initialized, a pod that must not be disrupted);
drift alone may override pods when the claim has a ``terminationGracePeriod``. A candidate also knows what
it costs and what emptying it costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from karpenter.api.labels import DO_NOT_DISRUPT, NODEPOOL
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.core.disruption.codes import DisruptionCode
from karpenter.core.disruption.command import KeptNode, Obstacle
from karpenter.core.disruption.cost import moving_cost, price_of
from karpenter.core.disruption.surge import surging_pods
from karpenter.core.lifecycle.disruption_conditions import (
    consolidatable_at,
    consolidate_after,
    is_consolidatable,
    known_drift,
)
from karpenter.core.scheduling.build.pods import is_currently_reschedulable
from karpenter.core.state.pod import do_not_disrupt_reason, is_active, is_reschedulable
from karpenter.core.state.statenode import StateNode

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView
    from karpenter.core.state.pdb import PdbLimits


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A node that could be disrupted."""

    node: StateNode
    pool: NodePool
    price: float | None
    pods: tuple[Pod, ...]
    """The pods that would run again elsewhere."""

    movable: tuple[Pod, ...]
    """Those of them that can be evicted in the end; only these need a place."""

    cost: float
    """What emptying it costs; 1 means that nothing is lost."""

    surging: frozenset[str] = frozenset()
    """Keys of pods whose successors start before they go."""

    drift: str = ""
    quiet: str = ""
    """Why it is too early to consolidate it."""

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def claim(self) -> NodeClaim:
        assert self.node.claim is not None
        return self.node.claim

    @property
    def is_empty(self) -> bool:
        """Whether nothing is lost when it goes."""
        return self.cost <= 1.0

    @property
    def is_dynamic(self) -> bool:
        """Whether its NodePool has as many nodes as its pods need; static ones have a fixed number."""
        return self.pool.spec.replicas is None

    @property
    def worth(self) -> float:
        """What going saves, per cost of emptying it."""
        return (self.price or 0.0) / self.cost


class CandidateSurvey(msgspec.Struct, frozen=True, kw_only=True):
    """Every managed node: the candidates, and what keeps the others."""

    candidates: tuple[Candidate, ...]
    eventual: tuple[Candidate, ...]
    """Nodes that only drift may disrupt, because pods keep them from everything else."""

    held: Mapping[str, KeptNode]


def find_candidates(
    nodes: Iterable[StateNode],
    view: ClusterView,
    catalog: Catalog,
    pdbs: PdbLimits,
    now: datetime,
    *,
    nominated: frozenset[str] = frozenset(),
    surge: bool = False,
) -> CandidateSurvey:
    """
    Return what could go now.

    `nominated` nodes are kept for pending pods; with `surge` successors start before pods are evicted, where
    they can.
    """
    candidates, eventual, held = [], [], {}
    for node in nodes:
        if not node.is_managed:
            continue
        succeeded = surging_pods(node.pods, view, pdbs, now) if surge else frozenset()
        found = _candidate(node, view, catalog, pdbs, now, surging=succeeded)
        obstacle = _node_obstacle(node, view, catalog, nominated)
        pods = _pod_obstacle(node, pdbs, now, succeeded) if not obstacle else None
        if found is None or obstacle is not None or pods is not None:
            code, message = (
                obstacle or pods or (DisruptionCode.NODE_POOL_NOT_FOUND, "its NodePool does not exist")
            )
            price = price_of(node, catalog)
            held[node.name] = KeptNode(node=node.name, code=code, message=message, hourly=price or 0.0)
            # A claim with a grace period drains in the end, whatever its pods say, so drift may take it:
            # https://karpenter.sh/docs/concepts/disruption/#terminationgraceperiod
            if (
                found is not None
                and obstacle is None
                and found.claim.spec.termination_grace_period is not None
            ):
                eventual.append(found)
        else:
            candidates.append(found)
    return CandidateSurvey(candidates=tuple(candidates), eventual=tuple(eventual), held=held)


def _candidate(
    node: StateNode,
    view: ClusterView,
    catalog: Catalog,
    pdbs: PdbLimits,
    now: datetime,
    *,
    surging: frozenset[str],
) -> Candidate | None:
    pool = view.pools.get(node.pool)
    if pool is None or node.claim is None:
        return None
    pods = tuple(pod for pod in node.pods if is_reschedulable(pod))
    return Candidate(
        node=node,
        pool=pool,
        price=price_of(node, catalog),
        pods=pods,
        movable=tuple(
            pod for pod in pods if pod.key in surging or is_currently_reschedulable(pod, pdbs, now)
        ),
        surging=surging,
        cost=moving_cost(pods),
        drift=known_drift(node.claim, pool),
        quiet=_quiet(node.claim, pool, now),
    )


def _node_obstacle(
    node: StateNode, view: ClusterView, catalog: Catalog, nominated: frozenset[str]
) -> Obstacle | None:
    """Return the first thing about the node itself that keeps it."""
    checks = (
        (node.is_deleting, DisruptionCode.DELETING, "the node is being deleted already"),
        (node.node is None, DisruptionCode.NO_NODE, "the machine has not joined the cluster yet"),
        # A node that is not initialized may still get the resources that its pods wait for:
        # https://karpenter.sh/docs/concepts/disruption/
        (not node.is_initialized, DisruptionCode.NOT_INITIALIZED, "the node is not initialized yet"),
        # Pods have been promised room on it; kube-scheduler binds them a moment later:
        # https://karpenter.sh/docs/concepts/disruption/
        (node.name in nominated, DisruptionCode.NOMINATED, "the node is nominated for a pending pod"),
        (
            # https://karpenter.sh/docs/concepts/disruption/#node-level-controls
            node.annotations.get(DO_NOT_DISRUPT) == "true",
            DisruptionCode.NODE_DO_NOT_DISRUPT,
            f"the node has the annotation {DO_NOT_DISRUPT}=true",
        ),
        (
            NODEPOOL not in node.labels,
            DisruptionCode.NODE_POOL_LABEL_MISSING,
            f"the node has no label {NODEPOOL}",
        ),
        (
            node.pool not in view.pools,
            DisruptionCode.NODE_POOL_NOT_FOUND,
            f"NodePool {node.pool} does not exist",
        ),
        (
            not catalog.types_of(node.pool),
            DisruptionCode.NO_INSTANCE_TYPES,
            f"it is not known which instance types NodePool {node.pool} may use",
        ),
    )
    return next(((code, message) for holds, code, message in checks if holds), None)


def _pod_obstacle(
    node: StateNode, pdbs: PdbLimits, now: datetime, surging: frozenset[str]
) -> Obstacle | None:
    for pod in node.pods:
        # https://karpenter.sh/docs/concepts/disruption/#pod-level-controls
        if is_active(pod) and (reason := do_not_disrupt_reason(pod, now)):
            return DisruptionCode.POD_DO_NOT_DISRUPT, f"pod {pod.key} must not be disrupted: {reason}"
    for pod in node.pods:
        if pod.key not in surging and (obstacle := pdbs.eviction_blocked_by(pod, now)):
            return DisruptionCode.POD_DISRUPTION_BUDGET, obstacle
    return None


def _quiet(claim: NodeClaim, pool: NodePool, now: datetime) -> str:
    if consolidate_after(pool) is None:
        return f"NodePool {pool.name} has consolidateAfter {pool.spec.disruption.consolidate_after}"
    if is_consolidatable(claim, pool, now):
        return ""
    until = consolidatable_at(claim, pool, now)
    wait = pool.spec.disruption.consolidate_after
    ends = f", which ends at {until:%Y-%m-%dT%H:%M:%SZ}" if until is not None else ""
    return f"the node is not consolidatable yet: consolidateAfter of its pool is {wait}{ends}"
