"""
What a catalogue offers the NodePools of a cluster: types that may be launched, NodeOverlays, and prices
with everything that is paid besides the list price.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, RESERVED, ZONE
from karpenter.core.model.catalog import Catalog, InstanceType, Offering
from karpenter.core.model.overlays import ParsedOverlay, apply_overlays, parse_overlays, without_conflicts
from karpenter.core.model.pricing import (
    DISCOUNT,
    LIST,
    Additions,
    Commitment,
    Coverage,
    PricedNode,
    additions,
    coverage,
    paid_price,
    part,
    whole_prices,
)
from karpenter.core.model.resources import uncountable
from karpenter.core.scheduling.build.nodepools import PoolReadiness, pools_by_weight
from karpenter.core.state.statenode import StateNode, state_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karpenter.core.scheduling.build.policy import SchedulingPolicy
    from karpenter.core.state.cluster import ClusterView


def overlaid_catalog(view: ClusterView, catalog: Catalog, policy: SchedulingPolicy) -> Catalog:
    """Return the catalog at whole prices with overlays applied, per NodePool: what existing nodes cost."""
    nodes = state_nodes(view) if policy.prices.commitments else ()
    covered = commitment_coverage(nodes, catalog, policy)
    extra, _ = pool_additions(view, catalog, policy, ())
    overlaid = policy.overlays and bool(view.overlays)
    corrections = applied_overlays(view, catalog, pools_by_weight(view))[0] if overlaid else []
    by_pool = {}
    for pool in view.pools.values():
        sold = catalog.types_of(pool.name)
        labels = pool.spec.template.metadata.labels
        types = apply_overlays(pool.name, labels, sold, corrections).types if corrections else sold
        by_pool[pool.name] = whole_prices(types, extra[pool.name])
    if not covered.nodes and all(types is catalog.types_of(name) for name, types in by_pool.items()):
        return catalog
    priced = msgspec.structs.replace(catalog, by_pool=by_pool)
    paid = {node.name: _paid(node, priced) for node in nodes if node.name in covered.nodes}
    return msgspec.structs.replace(priced, node_prices=paid)


def launchable_catalog(catalog: Catalog, policy: SchedulingPolicy) -> tuple[Catalog, list[str]]:
    """Return what may be launched, and which instance types have amounts beyond 64 bits."""
    problems: dict[str, str] = {}
    types = _launchable_types(catalog.types, policy, problems)
    by_pool = {pool: _launchable_types(own, policy, problems) for pool, own in catalog.by_pool.items()}
    if not problems and policy.reserved_capacity:
        return catalog, []
    left_out = [f"instance type {name} is not bought: {problem}" for name, problem in problems.items()]
    return msgspec.structs.replace(catalog, types=types, by_pool=by_pool), left_out


def _launchable_types(
    kinds: Iterable[InstanceType], policy: SchedulingPolicy, problems: dict[str, str]
) -> tuple[InstanceType, ...]:
    found: list[InstanceType] = []
    for kind in kinds:
        if problem := uncountable(kind.capacity) or uncountable(kind.allocatable):
            problems[kind.name] = problem
        else:
            found.append(_as_launchable(kind, policy))
    return tuple(found)


def _as_launchable(kind: InstanceType, policy: SchedulingPolicy) -> InstanceType:
    if policy.reserved_capacity:
        return kind
    return InstanceType(
        name=kind.name,
        requirements=kind.requirements,
        offerings=tuple(each for each in kind.offerings if each.capacity_type != RESERVED),
        capacity=kind.capacity,
        overhead=kind.overhead,
        devices=kind.devices,
    )


def applied_overlays(
    view: ClusterView, catalog: Catalog, ordered_pools: Sequence[PoolReadiness]
) -> tuple[list[ParsedOverlay], list[str]]:
    """Return the overlays that are applied, and why the others are not."""
    pools = {
        s.pool.name: (s.pool.spec.template.metadata.labels, catalog.types_of(s.pool.name))
        for s in ordered_pools
    }
    read, unread = parse_overlays(view.overlays.values(), catalog.label_rules)
    kept, refused = without_conflicts(read, pools)
    problems = sorted({**unread, **refused}.items())
    return kept, [f"NodeOverlay {name} is not applied: {problem}" for name, problem in problems]


def pool_additions(
    view: ClusterView,
    catalog: Catalog,
    policy: SchedulingPolicy,
    left: tuple[tuple[Commitment, float], ...],
) -> tuple[dict[str, Additions], list[str]]:
    """Return what machines of each NodePool cost besides their list price, and annotations that are wrong."""
    found: dict[str, Additions] = {}
    problems: list[str] = []
    for pool in view.pools.values():
        ref = pool.spec.template.spec.node_class_ref
        node_class = view.node_classes.get((ref.group, ref.kind, ref.name))
        found[pool.name], wrong = additions(
            policy.prices,
            catalog,
            pool.metadata.annotations,
            volumes=node_class.volumes if node_class is not None else (),
            public_ipv4=node_class is not None and node_class.public_ipv4,
            left=left,
        )
        problems += [f"NodePool {pool.name}: {each}" for each in wrong]
    return found, problems


def commitment_coverage(nodes: Iterable[StateNode], catalog: Catalog, policy: SchedulingPolicy) -> Coverage:
    """Return which nodes commitments pay for, and what they leave."""
    if not policy.prices.commitments:
        return Coverage()
    running = (
        PricedNode(node.name, node.labels, offering.price)
        for node in nodes
        if not node.is_deleting and (offering := _offering_of(node, catalog)) is not None
    )
    return coverage(policy.prices.commitments, running)


def _paid(node: StateNode, catalog: Catalog) -> float:
    """Return what a node costs whose list price a commitment pays."""
    offering = _offering_of(node, catalog)
    assert offering is not None, "a node without an offering has no list price to pay"
    paid = part(offering.parts, LIST) + part(offering.parts, DISCOUNT) or offering.price
    return offering.price - paid + paid_price(paid)


def _offering_of(node: StateNode, catalog: Catalog) -> Offering | None:
    """Return the offering that a node runs on; None where the catalog has none."""
    kind = catalog.find(node.pool, node.labels.get(INSTANCE_TYPE, ""))
    zone, bought = node.labels.get(ZONE), node.labels.get(CAPACITY_TYPE)
    mine = (each for each in (kind.offerings if kind is not None else ()) if each.zone == zone)
    return next((each for each in mine if each.capacity_type == bought), None)
