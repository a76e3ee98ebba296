"""
Node repair: a NodeClaim is deleted when its Node has been unhealthy for longer than the toleration.

The cloud provider's repair policies say which node conditions are unhealthy, and for how long each is
tolerated. An unhealthy node is deleted forcefully, without regard to pods, budgets and grace periods.
Nothing is deleted while more than 20 % of the nodes of the NodePool (or of the cluster) are unhealthy.

See https://karpenter.sh/docs/concepts/disruption/ (node auto repair).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from karpenter.api.labels import CAPACITY_TYPE, TERMINATION_TIMESTAMP
from karpenter.core.effects import NOTHING, Amend, Count, Effect, Step
from karpenter.core.events import repair_blocked
from karpenter.core.lifecycle.conditions import (
    delete_claim,
    nodepool_labels,
    pool_of,
    render_time,
    snake_case,
)
from karpenter.core.lifecycle.termination import InvalidTerminationTime, termination_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, timedelta

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.pod import Pod

# Node repair stops where more than a fifth of a pool is unhealthy: the fault is then not that of nodes.
# https://karpenter.sh/docs/concepts/disruption/#node-auto-repair
BLOCKED: Final = 300.0
"""Seconds after which a node is checked again when too many nodes are unhealthy."""

# When many nodes fail at once the cause is rarely the nodes, and replacing them would make it worse:
# https://karpenter.sh/docs/concepts/disruption/#node-auto-repair
_MAX_UNHEALTHY_PERCENT: Final = 20
"""The share of unhealthy nodes up to which nodes are repaired."""


class RepairCondition(Protocol):
    """A repair policy: a node condition that is unhealthy when it lasts."""

    @property
    def condition_type(self) -> str: ...

    @property
    def condition_status(self) -> str: ...

    @property
    def toleration(self) -> timedelta: ...


class UnhealthyCondition(NamedTuple):
    """An unhealthy condition of a node, and until when it is tolerated."""

    until: datetime
    condition: str


def find_unhealthy_condition(node: Node, policies: Iterable[RepairCondition]) -> UnhealthyCondition | None:
    """Return the unhealthy condition of a node whose toleration ends first; None for a healthy node."""
    found = []
    for policy in policies:
        for held in node.status.conditions:
            same = (held.type, held.status) == (policy.condition_type, policy.condition_status)
            if same and held.last_transition_time is not None:
                found.append(UnhealthyCondition(held.last_transition_time + policy.toleration, held.type))
    return min(found, default=None)


def repair(
    node: Node,
    claims: Sequence[NodeClaim],
    nodes: Iterable[Node],
    policies: Sequence[RepairCondition],
    now: datetime,
    *,
    pods: Iterable[Pod] = (),
) -> Step:
    """Return the effects for a node; `claims` have its provider id, `nodes` are all nodes, `pods` its own."""
    unhealthy = find_unhealthy_condition(node, policies)
    if unhealthy is None or len(claims) != 1:
        return NOTHING
    if now < unhealthy.until:
        return Step(again=(unhealthy.until - now).total_seconds())
    claim = claims[0]
    if problem := _too_many_unhealthy(claim, nodes, policies):
        return Step(effects=(repair_blocked(node, problem),), again=BLOCKED)
    # An unhealthy node cannot be drained: its kubelet may not answer. It is terminated without waiting for
    # budgets or grace periods: https://karpenter.sh/docs/concepts/disruption/#node-auto-repair
    effects = [*_set_termination_time(claim, now)]
    if claim.metadata.deletion_timestamp is None:
        because = f"its node has been unhealthy for too long ({unhealthy.condition})"
        effects += delete_claim(claim, "unhealthy", because, pods)
        effects.append(_counted(claim, unhealthy.condition))
    return Step(effects=tuple(effects))


def _too_many_unhealthy(claim: NodeClaim, nodes: Iterable[Node], policies: Sequence[RepairCondition]) -> str:
    """Return why no node is repaired because too many are unhealthy, as a sentence; empty if nodes are."""
    pool = pool_of(claim)
    nodes_of_pool = [node for node in nodes if not pool or pool_of(node) == pool]
    unhealthy = sum(1 for node in nodes_of_pool if find_unhealthy_condition(node, policies) is not None)
    if unhealthy <= -(-len(nodes_of_pool) * _MAX_UNHEALTHY_PERCENT // 100):
        return ""
    whose = f"NodePool {pool}" if pool else "the cluster"
    return (
        f"The node is not repaired: {unhealthy} of {len(nodes_of_pool)} nodes of {whose} are unhealthy,"
        f" which is more than {_MAX_UNHEALTHY_PERCENT}%"
    )


def _set_termination_time(claim: NodeClaim, now: datetime) -> tuple[Effect, ...]:
    """Return the write that sets the termination time of a claim to now, unless it has passed."""
    try:
        by = termination_time(claim)
    except InvalidTerminationTime:  # it is overwritten below
        by = None
    if by is not None and by <= now:
        return ()
    note = {"metadata": {"annotations": {TERMINATION_TIMESTAMP: render_time(now)}}}
    return (Amend(kind=claim.kind, name=claim.name, changes=note, because="its node is unhealthy"),)


def _counted(claim: NodeClaim, kind: str) -> Count:
    labels = {
        "condition": snake_case(kind),
        **nodepool_labels(claim),
        "capacity_type": claim.metadata.labels.get(CAPACITY_TYPE, ""),
        "image_id": claim.status.image_id,
    }
    return Count(metric="karpenter_nodeclaims_unhealthy_disrupted_total", labels=labels)
