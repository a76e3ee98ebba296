"""
Whether a node is what was promised: at least nine tenths of every resource that its pods asked for.

A node that is less says so in its claim; nothing else follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.base.quantity import QuantityError
from karpenter.core.effects import NOTHING, Step
from karpenter.core.events import failed_consistency
from karpenter.core.lifecycle.conditions import (
    CONSISTENT_STATE_FOUND,
    INITIALIZED,
    claim_conditions,
    patch_object,
)
from karpenter.core.model.resources import parse_resources, render_amount

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim

PERIOD: Final = 600.0
_ENOUGH: Final = 0.9


def check_consistency(claim: NodeClaim, nodes: Sequence[Node], now: datetime) -> Step:
    """Return what to write on a claim about its node, which is complete."""
    board = claim_conditions(claim, now)
    if claim.metadata.deletion_timestamp is not None or not board.is_true(INITIALIZED) or len(nodes) != 1:
        return NOTHING
    problem = _shortage(claim, nodes[0])
    if not problem:
        board = board.true(CONSISTENT_STATE_FOUND)
        return Step(effects=patch_object(claim, board, because="its node is what was promised"), again=PERIOD)
    board = board.false(CONSISTENT_STATE_FOUND, "ConsistencyCheckFailed", problem)
    return Step(
        effects=(failed_consistency(claim, problem), *patch_object(claim, board, because=problem)),
        again=PERIOD,
    )


def _shortage(claim: NodeClaim, node: Node) -> str:
    try:
        asked = parse_resources(claim.spec.resources.requests)
        promised = parse_resources(claim.status.capacity)
        has = parse_resources(node.status.capacity)
    except QuantityError as error:
        return str(error)
    for name in sorted(asked):
        share = has.get(name, 0) / promised[name] if promised.get(name) else 1.0
        if asked[name] and share < _ENOUGH:
            expected, found = render_amount(name, promised[name]), render_amount(name, has.get(name, 0))
            return f"The node has {found} of {name} where {expected} was expected ({share:.1%})"
    return ""
