"""Why a node class is not ready, and what that keeps from happening."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.cloud.catalogs.ec2.instancetypes import DOMAIN
from karpenter.core.state.statenode import state_nodes
from karpenter.why.answer import Explanation, counted

if TYPE_CHECKING:
    from karpenter.api.nodepool import NodePool
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView, NodeClass
    from karpenter.why.answer import Inquiry


def missing_class(pool: NodePool, view: ClusterView, catalog: Catalog) -> str:
    """Return that a node class was not read and the price is too low for that; empty where it is not."""
    ref = pool.spec.template.spec.node_class_ref
    known = (ref.group, ref.kind, ref.name) in view.node_classes
    if known or ref.group != DOMAIN or not catalog.volume_prices:
        return ""
    return f"{ref.kind} {ref.name} was not read, so prices lack the volumes of its machines"


def explain_class(inquiry: Inquiry, found: NodeClass) -> Explanation:
    """Return whether a node class is ready, what keeps it from that, and which NodePools use it."""
    pools = [
        name
        for name, pool in sorted(inquiry.view.pools.items())
        for ref in [pool.spec.template.spec.node_class_ref]
        if (ref.group, ref.kind, ref.name) == (found.group, found.kind, found.name)
    ]
    nodes = sum(node.pool in pools for node in state_nodes(inquiry.view))
    use = f"it is used by NodePool {', '.join(pools)}, with {counted(nodes, 'node')} now"
    because = [use if pools else "no NodePool refers to it"]
    if found.deleting:
        answer = "It is being deleted, and waits for its NodeClaims to go."
    elif found.ready is False:
        answer = "It is not ready, so nothing is launched for it."
        because = [*(found.causes or filter(None, [found.message or found.reason])), *because]
    elif found.ready is None:
        answer = "Its readiness is not known: the operator has not looked at it yet."
        because = [*found.causes, *because]
    else:
        answer = "It is ready."
    return Explanation(
        object=f"{found.kind.lower()}/{found.name}",
        placed=found.ready is True and not found.deleting,
        answer=answer,
        because=(*because, *inquiry.remarks.get(f"{found.kind.lower()}/{found.name}", ())),
    )
