"""
What evicting pods costs, and what nodes cost per hour: the numbers behind every ranking.

The cost of a pod follows its deletion cost and priority as in Karpenter:
https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/utils/disruption/disruption.go
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, POD_DELETION_COST, ZONE
from karpenter.core.model.requirement import integer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.pod import Pod
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.statenode import StateNode

# The deletion cost is an int32 and a priority of users at most a billion, so they add 16 and 30 at most:
# https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#pod-deletion-cost
# https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/
_DELETION_COST_SCALE: Final = 2**27
# Upstream adds the priority divided by this to the cost of a pod, which is 1, and clamps the sum at 10:
# https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/utils/disruption/disruption.go
_PRIORITY_SCALE: Final = 2**25
_MOST: Final = 10.0


def eviction_cost(pod: Pod) -> float:
    """Return how much it hurts to evict a pod: 1 for an ordinary one, between -10 and 10."""
    cost = 1.0
    deletion = integer(pod.metadata.annotations.get(POD_DELETION_COST, ""))
    if deletion is not None:
        cost += deletion / _DELETION_COST_SCALE
    if pod.spec.priority is not None:
        cost += pod.spec.priority / _PRIORITY_SCALE
    # One pod must not outweigh all others of its node.
    return max(-_MOST, min(_MOST, cost))


def moving_cost(pods: Iterable[Pod]) -> float:
    """Return what emptying a node costs: 1 for the node, and something for each pod that hurts."""
    return 1.0 + sum(max(0.0, eviction_cost(pod)) for pod in pods)


def price_of(node: StateNode, catalog: Catalog) -> float | None:
    """
    Return what a machine costs per hour, sold out or not; None when it is not known.

    What cannot be bought and costs nothing has no price.
    """
    if node.name in catalog.node_prices:
        return catalog.node_prices[node.name]
    # The price is that of the offering the node runs on; AWS bills the instance at the current spot price:
    # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-spot-instances.html
    kind = catalog.find(node.pool, node.labels.get(INSTANCE_TYPE, ""))
    if kind is None:
        return None
    zone, bought = node.labels.get(ZONE), node.labels.get(CAPACITY_TYPE)
    mine = [each for each in kind.offerings if each.zone == zone and each.capacity_type == bought]
    return min((each.price for each in mine if each.available or each.price), default=None)
