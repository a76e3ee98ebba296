"""
When a node is complete: ready, rid of the taints of its start, with every resource that was promised.

There is no time limit: a node that never completes is kept and says what it waits for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import INITIALIZED
from karpenter.base.quantity import QuantityError
from karpenter.core.effects import Amend
from karpenter.core.lifecycle import conditions
from karpenter.core.lifecycle.progress import Progress
from karpenter.core.model.resources import parse_resources
from karpenter.core.model.taints import is_passing, same_taint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.core.lifecycle.conditions import Board


def initialize(claim: NodeClaim, nodes: Sequence[Node], board: Board) -> Progress:
    """Return how far the node of a registered claim has come."""
    kind = conditions.INITIALIZED
    if len(nodes) != 1:
        return Progress(board=board.unknown(kind, "NodeNotFound", "Node not registered with cluster"))
    node = nodes[0]
    missing = _missing(claim, node)
    if missing is not None:
        return Progress(board=board.unknown(kind, *missing))
    if node.metadata.labels.get(INITIALIZED) == "true":
        return Progress(board=board.true(kind))
    label = Amend(
        kind="Node",
        name=node.name,
        changes={"metadata": {"labels": {INITIALIZED: "true"}}},
        because="the node is complete",
    )
    return Progress(board=board.true(kind), first=(label,))


def _missing(claim: NodeClaim, node: Node) -> tuple[str, str] | None:
    """Return the first thing that a node lacks, as a reason and a sentence."""
    if not is_ready(node):
        return "NodeNotReady", "Node status is NotReady"
    for taint in claim.spec.startup_taints:
        if any(same_taint(taint, each) for each in node.spec.taints):
            return "StartupTaintsExist", f"StartupTaint {_written(taint.key, taint.effect)} still exists"
    for taint in node.spec.taints:
        if is_passing(taint):
            return (
                "KnownEphemeralTaintsExist",
                f"KnownEphemeralTaint {_written(taint.key, taint.effect)} still exists",
            )
    if resource := _unregistered(claim, node):
        return "ResourceNotRegistered", f"Resource {resource} was requested but not registered"
    return None


def _unregistered(claim: NodeClaim, node: Node) -> str:
    try:
        wanted = parse_resources(claim.spec.resources.requests)
        has = parse_resources(node.status.allocatable)
    except QuantityError as error:  # an API server would have refused it
        return str(error)
    return next((name for name, amount in sorted(wanted.items()) if amount and not has.get(name)), "")


def _written(key: str, effect: str) -> str:
    return f"{key}:{effect}"


def is_ready(node: Node) -> bool:
    """Whether the kubelet says that the node is ready."""
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
