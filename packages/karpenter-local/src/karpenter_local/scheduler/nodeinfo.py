"""What a node offers, as the scheduler sees it: labels, taints, and how much fits."""

from collections.abc import Mapping

import msgspec

from karpenter.api.node import Node, Taint
from karpenter.core.model.resources import PODS, parse_resources

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""A cordoned node repels pods that do not tolerate this, whether or not it already carries the taint."""


class NodeInfo(msgspec.Struct, frozen=True):
    """One node."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    room: Mapping[str, int]
    """Allocatable amounts, without the number of pods."""
    most_pods: int


def node_info(node: Node) -> NodeInfo:
    """
    Return what `node` offers.

    Raises:
        QuantityError: naming the resource that cannot be read.
    """
    room = parse_resources(node.status.allocatable)
    return NodeInfo(
        name=node.name,
        labels=node.metadata.labels,
        # When a taint was added is of no interest here and would make equal nodes differ.
        taints=tuple(Taint(key=t.key, value=t.value, effect=t.effect) for t in node.spec.taints),
        unschedulable=node.spec.unschedulable,
        room={name: amount for name, amount in room.items() if name != PODS},
        most_pods=room.get(PODS, 0),
    )
