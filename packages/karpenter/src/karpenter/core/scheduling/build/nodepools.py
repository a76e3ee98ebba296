"""
Which NodePools may launch nodes now, in which order they are tried (by weight, then by name), and how much
their limits leave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import NODEPOOL, NODEPOOL_HASH, NODEPOOL_HASH_VERSION, node_class_label
from karpenter.api.meta import find_status_condition
from karpenter.api.nodepool import NodePool
from karpenter.base.hashstructure import UnhashableError
from karpenter.base.quantity import QuantityError
from karpenter.core.model.nodepool_hash import POOL_HASH_VERSION, pool_hash
from karpenter.core.model.overlays import ParsedOverlay, apply_overlays
from karpenter.core.model.pricing import Additions, whole_prices
from karpenter.core.model.requirement import RequirementError
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import add, cut, parse_resources
from karpenter.core.scheduling.problem import Pool

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView
    from karpenter.core.state.statenode import StateNode


_NO_ADDITIONS: Final = Additions()
_READY_PARTS: Final = frozenset({"NodeClassReady", "ValidationSucceeded"})
"""Conditions of a NodePool that its condition Ready sums up."""


def pools_by_weight(view: ClusterView) -> tuple[PoolReadiness, ...]:
    """Return every NodePool in the order of trying, with what keeps it from launching nodes."""
    # Weight decides, then the name; upstream orders NodePools the same way:
    # https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/utils/nodepool/nodepool.go
    ordered = sorted(view.pools.values(), key=lambda p: p.name, reverse=True)
    ordered.sort(key=lambda p: -(p.spec.weight or 0))
    return tuple(PoolReadiness(pool, _obstacle(pool, view)) for pool in ordered)


class PoolReadiness(msgspec.Struct, frozen=True):
    """A NodePool, and why it may not launch nodes for pending pods; nothing when it may."""

    pool: NodePool
    obstacle: str = ""


def _obstacle(pool: NodePool, view: ClusterView) -> str:
    if pool.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    # Static NodePools keep a fixed number of nodes and ignore pods (https://karpenter.sh/docs/concepts/nodepools/).
    if pool.spec.replicas is not None:
        return "it is static: its nodes are not launched for pods"
    ready = find_status_condition(pool.status.conditions, "Ready")
    if ready is not None and ready.status != "True":
        cause = class_obstacle(pool, view) or _unready_parts(pool) or ready.message
        return f"it is not ready{f': {cause}' if cause else ''}"
    return class_obstacle(pool, view) or _unreadable(pool)


def class_obstacle(pool: NodePool, view: ClusterView) -> str:
    """Return why the node class of a NodePool launches nothing; empty where it may, or is not known."""
    ref = pool.spec.template.spec.node_class_ref
    found = view.node_classes.get((ref.group, ref.kind, ref.name))
    if found is None:
        return ""
    if found.deleting:
        return f"its {ref.kind} {ref.name} is being deleted"
    if found.ready is False:
        why = "; ".join(found.causes) or found.message or found.reason
        return f"its {ref.kind} {ref.name} is not ready{f': {why}' if why else ''}"
    return ""


def _unready_parts(pool: NodePool) -> str:
    """Return which conditions keep a NodePool from being ready, with what they say."""
    return "; ".join(
        f"{each.type}: {each.message or each.reason}"
        for each in pool.status.conditions
        if each.type in _READY_PARTS and each.status == "False"
    )


def _unreadable(pool: NodePool) -> str:
    """Return what in a NodePool cannot be read; an API server would have refused it."""
    try:
        Requirements.from_entries(pool.spec.template.spec.requirements)
        parse_resources(pool.spec.limits)
        pool_hash(pool)
    except (QuantityError, RequirementError, UnhashableError) as error:
        return f"it cannot be read: {error}"
    return ""


def pool_usage(nodes: Iterable[StateNode]) -> dict[str, dict[str, int]]:
    """Return the capacity of the nodes of each NodePool together; deleting nodes no longer count."""
    found: dict[str, dict[str, int]] = {}
    for node in nodes:
        # A deleting node is replaced by what is launched now, so its capacity no longer counts against the
        # limits.
        if node.pool and not node.is_deleting:
            found[node.pool] = add(found.get(node.pool, {}), node.capacity)
    return found


def as_pool(
    pool: NodePool,
    catalog: Catalog,
    used: Mapping[str, int],
    corrections: Sequence[ParsedOverlay] = (),
    extra: Additions = _NO_ADDITIONS,
) -> Pool:
    """Return what a NodePool may launch at this moment, at whole prices."""
    template = pool.spec.template
    ref = template.spec.node_class_ref
    labels = {
        **template.metadata.labels,
        NODEPOOL: pool.name,
        node_class_label(ref.group, ref.kind): ref.name,
    }
    corrected = apply_overlays(pool.name, template.metadata.labels, catalog.types_of(pool.name), corrections)
    limits = parse_resources(pool.spec.limits)
    return Pool(
        name=pool.name,
        requirements=Requirements.from_entries(template.spec.requirements).intersect(
            Requirements.from_labels(labels)
        ),
        labels=labels,
        annotations={
            **template.metadata.annotations,
            NODEPOOL_HASH: pool_hash(pool),
            NODEPOOL_HASH_VERSION: POOL_HASH_VERSION,
        },
        taints=template.spec.taints,
        startup_taints=template.spec.startup_taints,
        types=whole_prices(corrected.types, extra),
        limits=cut({name: limit - used.get(name, 0) for name, limit in limits.items()}),
        whole_limits=limits,
        overlaid=corrected.marks,
    )
