"""
Builds a :class:`~karpenter.core.scheduling.problem.Problem` from a ClusterView: what the solver needs, and
no more.

What NodePools may launch is in :mod:`.nodepools` and :mod:`.offered`, free room of existing nodes in
:mod:`.existingnodes`. Pods are checked in :mod:`.pods`, daemons in :mod:`.daemonset`, capacity buffers in
:mod:`.virtualpods`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.core.model.pricing import Commitment
from karpenter.core.scheduling.build.daemonset import daemonset_pods, expected_daemons
from karpenter.core.scheduling.build.existingnodes import countable_nodes, existing_nodes
from karpenter.core.scheduling.build.floors import with_workload_floors
from karpenter.core.scheduling.build.nodepools import PoolReadiness, as_pool, pool_usage, pools_by_weight
from karpenter.core.scheduling.build.offered import (
    applied_overlays,
    commitment_coverage,
    launchable_catalog,
    pool_additions,
)
from karpenter.core.scheduling.build.pods import bound_pods, check_pods
from karpenter.core.scheduling.build.spread_defaults import spread_defaults
from karpenter.core.scheduling.dynamicresources.build import build_dynamic_resources
from karpenter.core.scheduling.problem import Options, Problem, Refusal, TopologyNode
from karpenter.core.state.statenode import StateNode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.api.pod import Pod
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.scheduling.build.policy import SchedulingPolicy
    from karpenter.core.state.cluster import ClusterView


def assemble(
    view: ClusterView,
    catalog: Catalog,
    *,
    nodes: Sequence[StateNode],
    pods: Sequence[Pod],
    options: Options,
    policy: SchedulingPolicy,
    quiet: frozenset[str] = frozenset(),
    moved: frozenset[str] = frozenset(),
    without: frozenset[str] = frozenset(),
) -> BuiltProblem:
    """
    Return the problem of scheduling `pods` on a cluster without the nodes named in `without`.

    `quiet` nodes take no `moved` pods.
    """
    rules = catalog.label_rules
    pods, unbound = with_workload_floors(pods, view, nodes)
    remaining = [node for node in nodes if node.name not in without]
    active, uncounted = countable_nodes(node for node in remaining if not node.is_deleting)
    devices, unserved = None, dict[str, str]()
    if not policy.ignore_device_claims:
        deleting = (node for node in nodes if node.is_deleting or node.name in without)
        devices, unserved = build_dynamic_resources(
            view, catalog, pods=pods, active=active, deleting=deleting
        )
    checked = check_pods(
        pods, view, rules, ignore_device_claims=policy.ignore_device_claims, device_problems=unserved
    )
    expected = expected_daemons(daemonset_pods(view), ignore_device_claims=policy.ignore_device_claims)
    staying, unread = bound_pods(view, {pod.key for pod in checked.accepted})
    ordered_pools = pools_by_weight(view)
    offered, unlaunchable = launchable_catalog(catalog, policy)
    corrections, refused = applied_overlays(view, offered, ordered_pools) if policy.overlays else ([], [])
    used = pool_usage(active)
    unused = commitment_coverage(nodes, offered, policy).left
    extra, unpriced = pool_additions(view, offered, policy, unused)
    problem = Problem(
        pods=checked.accepted,
        nodes=existing_nodes(active, expected.daemons, view, quiet),
        pools=tuple(
            as_pool(state.pool, offered, used.get(state.pool.name, {}), corrections, extra[state.pool.name])
            for state in ordered_pools
            if not state.obstacle
        ),
        daemons=expected.pods,
        volumes=checked.volumes,
        bound_pods=tuple(staying),
        topology_nodes=tuple(
            TopologyNode(name=each.name, labels=each.labels, taints=each.taints) for each in remaining
        ),
        namespaces={name: namespace.metadata.labels for name, namespace in view.namespaces.items()},
        moved=moved,
        spread_defaults=spread_defaults(checked.accepted, policy.spread_defaults, view),
        devices=devices,
        rules=rules,
        options=options,
    )
    return BuiltProblem(
        problem=problem,
        refusals=checked.refused,
        pools=ordered_pools,
        nodes=tuple(nodes),
        left_out=(*uncounted, *unread, *expected.left_out, *unlaunchable, *refused, *unpriced, *unbound),
        commitments=unused,
    )


class BuiltProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem, and what is not part of it: refused pods, NodePools that are not ready, ignored objects."""

    problem: Problem
    refusals: tuple[Refusal, ...] = ()
    pools: tuple[PoolReadiness, ...] = ()
    nodes: tuple[StateNode, ...] = ()
    left_out: tuple[str, ...] = ()
    """Nodes, daemons, instance types, overlays and buffers that are ignored, one sentence each."""

    commitments: tuple[tuple[Commitment, float], ...] = ()
    """Commitments that running nodes do not use up, and how much is left of each."""
