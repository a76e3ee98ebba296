"""Which pools may launch nodes now, in which order, and how much their limits leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.api.labels import NODEPOOL, NODEPOOL_HASH, NODEPOOL_HASH_VERSION, node_class_label
from karpenter.api.nodepool import NodePool
from karpenter.base.duration import DurationError
from karpenter.base.quantity import QuantityError
from karpenter.core.model.labels import RequirementError
from karpenter.core.model.pool_hash import POOL_HASH_VERSION, pool_hash
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import add, parse_resources
from karpenter.core.scheduling.intake.amounts import cut
from karpenter.core.scheduling.intake.overlays import overlay
from karpenter.core.scheduling.problem import Pool
from karpenter.core.state.view import condition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karpenter.core.model.catalog import Catalog
    from karpenter.core.scheduling.intake.overlays import Correction
    from karpenter.core.state.nodes import StateNode
    from karpenter.core.state.view import ClusterView


class PoolState(msgspec.Struct, frozen=True):
    """A pool, and why it may not launch nodes for waiting pods; nothing when it may."""

    pool: NodePool
    obstacle: str = ""


def survey(view: ClusterView) -> tuple[PoolState, ...]:
    """Return every pool, heaviest first, with what keeps it from launching nodes."""
    ordered = sorted(view.pools.values(), key=lambda p: p.name, reverse=True)
    ordered.sort(key=lambda p: -(p.spec.weight or 0))
    return tuple(PoolState(pool, _obstacle(pool, view)) for pool in ordered)


def _obstacle(pool: NodePool, view: ClusterView) -> str:
    if pool.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    if pool.spec.replicas is not None:
        return "it is static: its nodes are not launched for pods"
    ready = condition(pool.status.conditions, "Ready")
    if ready is not None and ready.status != "True":
        return f"it is not ready{f': {ready.message}' if ready.message else ''}"
    return _class_obstacle(pool, view) or _unreadable(pool)


def _class_obstacle(pool: NodePool, view: ClusterView) -> str:
    ref = pool.spec.template.spec.node_class_ref
    found = view.node_classes.get((ref.group, ref.kind, ref.name))
    if found is None:
        return ""
    if found.deleting:
        return f"its {ref.kind} {ref.name} is being deleted"
    if found.ready is False:
        return f"its {ref.kind} {ref.name} is not ready{f': {found.reason}' if found.reason else ''}"
    return ""


def _unreadable(pool: NodePool) -> str:
    """Return what in a pool cannot be read; an API server would have refused it."""
    try:
        Requirements.from_entries(pool.spec.template.spec.requirements)
        parse_resources(pool.spec.limits)
        pool_hash(pool)
    except (DurationError, QuantityError, RequirementError) as error:
        return f"it cannot be read: {error}"
    return ""


def usage(nodes: Iterable[StateNode]) -> dict[str, dict[str, int]]:
    """Return what the machines of each pool have in all; leaving ones no longer count."""
    found: dict[str, dict[str, int]] = {}
    for node in nodes:
        if node.pool and not node.is_leaving:
            found[node.pool] = add(found.get(node.pool, {}), node.capacity)
    return found


def as_pool(
    pool: NodePool, catalog: Catalog, used: Mapping[str, int], corrections: Sequence[Correction] = ()
) -> Pool:
    """Return what a pool may launch at this moment."""
    template = pool.spec.template
    ref = template.spec.node_class_ref
    labels = {
        **template.metadata.labels,
        NODEPOOL: pool.name,
        node_class_label(ref.group, ref.kind): ref.name,
    }
    corrected = overlay(pool.name, template.metadata.labels, catalog.types_of(pool.name), corrections)
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
        types=corrected.types,
        limits=cut({name: limit - used.get(name, 0) for name, limit in limits.items()}),
        overlaid=corrected.marks,
    )
