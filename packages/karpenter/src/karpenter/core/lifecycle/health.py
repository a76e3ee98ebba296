"""
When a broken node is replaced: a condition that its provider calls broken has lasted too long.

Its machine goes without waiting for pods, budgets or grace, since nothing on it can be trusted. Where more
than a fifth of the nodes beside it are broken too, something larger is wrong and nothing is touched.

Knows conditions only; which of them mean that a node is broken is the provider's to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from karpenter.api.labels import CAPACITY_TYPE, TERMINATION_TIMESTAMP
from karpenter.core.effects import NOTHING, Amend, Count, Step
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
    from karpenter.core.effects import Effect

BLOCKED: Final = 300.0
"""Seconds after which a node is looked at again that too many others are broken beside."""

_SHARE: Final = 20
"""Of a hundred nodes, how many may be broken for one of them to be replaced."""


class RepairCondition(Protocol):
    """A condition of a node that means that it is broken, when it lasts."""

    @property
    def condition_type(self) -> str:
        """Which condition."""

    @property
    def condition_status(self) -> str:
        """With which status."""

    @property
    def toleration(self) -> timedelta:
        """How long it is put up with."""


class UnhealthyCondition(NamedTuple):
    """A condition that says that a node is broken, and until when that is put up with."""

    until: datetime
    condition: str


def find_unhealthy_condition(node: Node, policies: Iterable[RepairCondition]) -> UnhealthyCondition | None:
    """Return what is wrong with a node, whatever runs out first; None for one that is well."""
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
    """Return what is due for a node; `claims` are its machine's, `nodes` all there are, `pods` its own."""
    wrong = find_unhealthy_condition(node, policies)
    if wrong is None or len(claims) != 1:
        return NOTHING
    if now < wrong.until:
        return Step(again=(wrong.until - now).total_seconds())
    claim = claims[0]
    if problem := _too_many(claim, nodes, policies):
        return Step(effects=(repair_blocked(node, problem),), again=BLOCKED)
    effects = [*_hurry(claim, now)]
    if claim.metadata.deletion_timestamp is None:
        because = f"its node has been broken for too long ({wrong.condition})"
        effects += delete_claim(claim, "unhealthy", because, pods)
        effects.append(_counted(claim, wrong.condition))
    return Step(effects=tuple(effects))


def _too_many(claim: NodeClaim, nodes: Iterable[Node], policies: Sequence[RepairCondition]) -> str:
    """Return why so many nodes are broken that none is replaced, as a sentence; nothing when it is few."""
    pool = pool_of(claim)
    beside = [node for node in nodes if not pool or pool_of(node) == pool]
    broken = sum(1 for node in beside if find_unhealthy_condition(node, policies) is not None)
    if broken <= -(-len(beside) * _SHARE // 100):
        return ""
    whose = f"NodePool {pool}" if pool else "the cluster"
    return (
        f"The node is not replaced: {broken} of {len(beside)} nodes of {whose} are broken,"
        f" which is more than {_SHARE}%"
    )


def _hurry(claim: NodeClaim, now: datetime) -> tuple[Effect, ...]:
    """Return the write that lets a node end at once, unless its time is up already."""
    try:
        by = termination_time(claim)
    except InvalidTerminationTime:  # what is written now is one
        by = None
    if by is not None and by <= now:
        return ()
    note = {"metadata": {"annotations": {TERMINATION_TIMESTAMP: render_time(now)}}}
    return (Amend(kind=claim.kind, name=claim.name, changes=note, because="its node is broken"),)


def _counted(claim: NodeClaim, kind: str) -> Count:
    labels = {
        "condition": snake_case(kind),
        **nodepool_labels(claim),
        "capacity_type": claim.metadata.labels.get(CAPACITY_TYPE, ""),
        "image_id": claim.status.image_id,
    }
    return Count(metric="karpenter_nodeclaims_unhealthy_disrupted_total", labels=labels)
