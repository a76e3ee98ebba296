"""
Nodes that the operator removes whatever a budget says: expired, unhealthy, or more than a static pool keeps.

Each has a controller of its own in the operator. A plan has them as commands, before those of disruption.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.cloud.catalogs.ec2.instancetypes import DOMAIN
from karpenter.core.disruption.command import EXPIRED, SCALED_DOWN, UNHEALTHY, Command
from karpenter.core.disruption.cost import price_of
from karpenter.core.disruption.deprovisioning import scale_down
from karpenter.core.effects import DeleteObject
from karpenter.core.lifecycle.expiration import expire
from karpenter.core.lifecycle.health import repair
from karpenter.core.state.pod import is_reschedulable
from karpenter.core.state.statenode import StateNode, state_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.cloud.cloudprovider import RepairPolicy
    from karpenter.core.effects import Effect
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView


def removals(
    view: ClusterView, catalog: Catalog, now: datetime, *, node_repair: bool, static_capacity: bool
) -> list[Command]:
    """Return a command for every node that goes without a decision about disruption."""
    surplus = _surplus(view, now) if static_capacity else frozenset()
    found = []
    for node in state_nodes(view):
        if node.claim is None or node.is_deleting:
            continue
        if expire(node.claim, now).effects:
            reason = EXPIRED
        elif node_repair and _is_unhealthy(node, node.claim, view, now):
            reason = UNHEALTHY
        elif node.claim.name in surplus:
            reason = SCALED_DOWN
        else:
            continue
        found.append(
            Command(
                reason=reason,
                candidates=(node.name,),
                hourly_before=price_of(node, catalog) or 0.0,
                pods_moved=sum(is_reschedulable(pod) for pod in node.pods),
            )
        )
    return found


def _surplus(view: ClusterView, now: datetime) -> frozenset[str]:
    """Return the claims that static NodePools have too many."""
    return _deleted(effect for pool in view.pools.values() for effect in scale_down(pool, view, now))


def _is_unhealthy(node: StateNode, claim: NodeClaim, view: ClusterView, now: datetime) -> bool:
    if node.node is None:
        return False
    due = repair(node.node, [claim], view.nodes.values(), _policies(claim), now, pods=node.pods)
    return claim.name in _deleted(due.effects)


def _policies(claim: NodeClaim) -> tuple[RepairPolicy, ...]:
    """Return the repair policies of the provider of a claim; loaded only where node repair is enabled."""
    if claim.spec.node_class_ref.group == DOMAIN:
        from karpenter.cloud.aws.repair import REPAIRS  # noqa: PLC0415  as above
    else:
        from karpenter.cloud.kwok.cloudprovider import REPAIRS  # noqa: PLC0415  as above
    return REPAIRS


def _deleted(effects: Iterable[Effect]) -> frozenset[str]:
    return frozenset(each.name for each in effects if isinstance(each, DeleteObject))
