"""
The Node that a machine becomes.

It comes as a kubelet would bring it: with the taint that keeps pods off until the operator has seen it,
with the labels of its machine and of its claim, and with the room of its instance type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.labels import HOSTNAME, NO_EXECUTE, UNREGISTERED
from karpenter.api.meta import ObjectMeta
from karpenter.api.node import Node, NodeSpec, NodeStatus, Taint
from karpenter.core.model.resources import render_resources

if TYPE_CHECKING:
    from random import Random

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.cloud.interface import Machine

SCHEME: Final = "kwok://"
"""How the provider ids of this cloud begin; the rest is the name of the node."""

FAKE_NODE: Final = "kwok.x-k8s.io/node"
"""Label and annotation by which the kwok controller knows the nodes that it keeps alive."""

PRICE: Final = "eks-node-viewer/instance-price"
PARTITION: Final = "kwok-partition"

_LONGEST_NAME: Final = 253
_LETTERS: Final = "bcdfghjklmnpqrstvwxz"


def node_name(claim: str, chance: Random) -> str:
    """Return a name that no other node has."""
    word = "".join(chance.choices(_LETTERS, k=5))
    end = f"-{word}-{chance.getrandbits(32)}"
    return f"kwok-{claim}"[: _LONGEST_NAME - len(end)] + end


def node_of(machine: Machine, claim: NodeClaim, price: float) -> Node:
    """Return the Node that a machine becomes, as it looks when it joins."""
    return Node(
        metadata=ObjectMeta(
            name=machine.provider_id.removeprefix(SCHEME),
            labels={
                **machine.labels,
                **claim.metadata.labels,
                HOSTNAME: claim.name,
                FAKE_NODE: "fake",
                PRICE: f"{price:f}",
                PARTITION: "a",
            },
            annotations={**claim.metadata.annotations, FAKE_NODE: "fake"},
        ),
        spec=NodeSpec(provider_id=machine.provider_id, taints=(Taint(key=UNREGISTERED, effect=NO_EXECUTE),)),
        status=NodeStatus(
            capacity={**render_resources(machine.capacity)},
            allocatable={**render_resources(machine.allocatable)},
            phase="Pending",
        ),
    )
