"""
Consistency: the Node of an initialized NodeClaim has at least 90 % of each requested resource.

A smaller Node gets the condition ConsistentStateFound=False and an Event; nothing is disrupted for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.node import Node
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

    from karpenter.api.nodeclaim import NodeClaim

# Upstream compares every ten minutes, and allows a node a tenth less than its instance type has: the
# hypervisor keeps memory that EC2 does not list: https://karpenter.sh/docs/troubleshooting/
PERIOD: Final = 600.0
# A node shows a little less than its instance type promises; a tenth less is a wrong AMI or kubelet.
# https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/controllers/nodeclaim/consistency/nodeshape.go
_MIN_SHARE: Final = 0.9
_READ_CONDITIONS: Final = frozenset({INITIALIZED, CONSISTENT_STATE_FOUND})


def consistency_inputs(item: NodeClaim | Node) -> tuple[object, ...]:
    """Return what of a claim or of its Node this check and hydration depend on."""
    meta, status = item.metadata, item.status
    if isinstance(item, Node):
        return (meta.uid, meta.labels, item.spec.provider_id, status.capacity)
    read = tuple(each for each in item.status.conditions if each.type in _READ_CONDITIONS)
    deleted = meta.deletion_timestamp
    return (meta.uid, meta.labels, deleted, item.spec, item.status.provider_id, status.capacity, read)


def check_consistency(claim: NodeClaim, nodes: Sequence[Node], now: datetime) -> Step:
    """Return the condition to write on a claim after comparing it with its Node."""
    condition_set = claim_conditions(claim, now)
    if (
        claim.metadata.deletion_timestamp is not None
        or not condition_set.is_true(INITIALIZED)
        or len(nodes) != 1
    ):
        return NOTHING
    problem = _shortage(claim, nodes[0])
    if not problem:
        condition_set = condition_set.set_true(CONSISTENT_STATE_FOUND)
        return Step(
            effects=patch_object(claim, condition_set, because="its node has the expected resources"),
            again=PERIOD,
        )
    condition_set = condition_set.set_false(CONSISTENT_STATE_FOUND, "ConsistencyCheckFailed", problem)
    return Step(
        effects=(failed_consistency(claim, problem), *patch_object(claim, condition_set, because=problem)),
        again=PERIOD,
    )


def is_consistent(claim: NodeClaim, node: Node) -> bool:
    """Whether the Node of a claim has the expected resources."""
    return not _shortage(claim, node)


def _shortage(claim: NodeClaim, node: Node) -> str:
    try:
        asked = parse_resources(claim.spec.resources.requests)
        expected = parse_resources(claim.status.capacity)
        has = parse_resources(node.status.capacity)
    except QuantityError as error:
        return str(error)
    for name in sorted(asked):
        share = has.get(name, 0) / expected[name] if expected.get(name) else 1.0
        if asked[name] and share < _MIN_SHARE:
            wanted, found = render_amount(name, expected[name]), render_amount(name, has.get(name, 0))
            return f"The node has {found} of {name} where {wanted} was expected ({share:.1%})"
    return ""
