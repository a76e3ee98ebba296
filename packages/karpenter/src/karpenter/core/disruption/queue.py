"""
Carrying out a command: nodes are tainted, replacements come first, and only then are claims deleted.

What a command has done so far can be undone at any time before the end, and everything it writes is found
again after a restart: a tainted node that no command in progress is about gets its taint removed.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from karpenter.api.labels import DISRUPTED, NO_SCHEDULE, LabelRules
from karpenter.api.meta import find_status_condition, is_status_condition_true
from karpenter.core.disruption.command import EMPTY, UNDERUTILIZED, Command
from karpenter.core.effects import Amend, Count, CreateClaim, DeleteObject, Effect, Nominate
from karpenter.core.events import disruption_terminating, nominated
from karpenter.core.lifecycle.conditions import (
    DISRUPTION_REASON,
    INITIALIZED,
    claim_conditions,
    disrupted_labels,
    disrupted_pods_labels,
    patch_object,
)
from karpenter.core.lifecycle.registration import render_taint
from karpenter.core.lifecycle.termination import with_disrupted_taint
from karpenter.core.provisioning.nomination import Nomination, nomination_of
from karpenter.core.provisioning.provisioner import create, creation_problem
from karpenter.core.state.statenode import StateNode, state_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.scheduling.problem import NewNode
    from karpenter.core.state.cluster import ClusterView

# Replacements that never become ready must not keep nodes tainted for ever; many nodes at once need longer,
# because the API server is asked for each: https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/disruption/queue.go
_PER_CANDIDATE: Final = timedelta(milliseconds=80)
_SHORTEST: Final = timedelta(minutes=10)
_LONGEST: Final = timedelta(hours=1)
_CONSOLIDATION: Final = frozenset({EMPTY, UNDERUTILIZED})
"""Reasons that the consolidation policy of a pool allows or forbids."""

Progress = Literal["waiting", "ready", "lost", "late"]
"""Of the replacements of a command: on their way, all there, one gone for good, or taking too long."""


def taint_disrupted(node: StateNode, reason: str, now: datetime) -> tuple[Effect, ...]:
    """Return the writes that taint a node, and set DisruptionReason on its claim."""
    effects: list[Effect] = []
    if node.node is not None:
        taints = with_disrupted_taint(node.node)
        if taints != node.node.spec.taints:
            effects.append(_taints(node, [render_taint(taint) for taint in taints], f"disrupted: {reason}"))
    if node.claim is not None:
        condition_set = claim_conditions(node.claim, now).set_true(DISRUPTION_REASON, reason)
        effects += patch_object(node.claim, condition_set, because=f"disrupted: {reason}")
    return tuple(effects)


def untaint(node: StateNode, now: datetime) -> tuple[Effect, ...]:
    """Return the writes that let pods come to a node again; nothing if they may."""
    because = "its disruption was given up"
    effects: list[Effect] = []
    if node.node is not None and is_tainted(node):
        left = [taint for taint in node.node.spec.taints if taint.key != DISRUPTED]
        effects.append(_taints(node, [render_taint(taint) for taint in left], because))
    if node.claim is not None:
        condition_set = claim_conditions(node.claim, now).clear(DISRUPTION_REASON)
        effects += patch_object(node.claim, condition_set, because=because)
    return tuple(effects)


# https://karpenter.sh/docs/concepts/disruption/#control-flow
def is_tainted(node: StateNode) -> bool:
    """Whether a node takes no pods because of a command."""
    taints = node.node.spec.taints if node.node is not None else ()
    return any(taint.key == DISRUPTED and taint.effect == NO_SCHEDULE for taint in taints)


def replacement(node: NewNode, command: Command, view: ClusterView, rules: LabelRules) -> CreateClaim:
    """
    Return the creation of a claim for a replacement of a command.

    The claim is of the NodePool of the decision, as its requirements and its hash are; one of a template that
    has changed since drifts, as in Karpenter.

    Raises:
        LookupError: its NodePool is gone, or has exceeded its limits.
    """
    reason = command.reason
    effect = create(node, command.pools[node.pool], rules, f"it replaces what is disrupted: {reason}")
    if problem := creation_problem(effect, view):
        raise LookupError(problem)
    return msgspec.structs.replace(effect, reason=reason.lower())


def nominate_destinations(command: Command, view: ClusterView, until: datetime) -> list[Effect]:
    """Return what keeps the nodes that take the pods of a command from being disrupted themselves."""
    effects: list[Effect] = []
    for key, name in command.moves.items():
        effects.append(Nominate(node=name, until=until, because=f"pod {key} is to move there"))
        pod = view.pods.get(key)
        if pod is not None:
            effects.append(nominated(pod, node=name))
    return effects


def planned_places(
    command: Command, launched: Sequence[NodeClaim], view: ClusterView, now: datetime
) -> dict[str, Nomination]:
    """Return where the pods of a command are to run; `launched` are its replacements, in order."""
    nodes = {node.name: node for node in state_nodes(view)}
    found = {key: nomination_of(nodes[name], now) for key, name in command.moves.items() if name in nodes}
    for new, claim in zip(command.replacements, launched, strict=False):
        found |= dict.fromkeys(new.pods, Nomination(claim.name, now))
    return found


def tainted_without_command(view: ClusterView, queued: AbstractSet[str]) -> tuple[StateNode, ...]:
    """Return the nodes that were tainted by a command that is not in progress; `queued` claims are."""
    return tuple(
        node
        for node in state_nodes(view)
        if node.claim is not None
        and node.claim.name not in queued
        and not node.is_deleting
        and (
            is_tainted(node)
            or find_status_condition(node.claim.status.conditions, DISRUPTION_REASON) is not None
        )
    )


def progress(
    replacements: Iterable[NodeClaim | None], *, started: datetime, now: datetime, queued: int
) -> Progress:
    """Return how far the replacements of a command have come; `queued` nodes wait for commands to end."""
    waiting = False
    for claim in replacements:
        if claim is None:
            return "lost"
        waiting = waiting or not is_status_condition_true(claim.status.conditions, INITIALIZED)
    if not waiting:
        return "ready"
    return "late" if now - started > time_limit(queued) else "waiting"


def time_limit(queued: int) -> timedelta:
    """Return how long a command may take while so many nodes wait for commands to end."""
    return min(max(queued * _PER_CANDIDATE, _SHORTEST), _LONGEST)


def delete_candidates(
    candidates: Sequence[NodeClaim], nodes: Sequence[StateNode], reason: str
) -> tuple[Effect, ...]:
    """Return what deletes the claims of a command, now that their replacements are initialized."""
    told = [
        disruption_terminating(item, reason)
        for node in nodes
        for item in (node.node, node.claim)
        if item is not None
    ]
    return (
        *told,
        *(
            DeleteObject(
                kind=claim.kind, name=claim.name, uid=claim.metadata.uid, because=f"disrupted: {reason}"
            )
            for claim in candidates
        ),
    )


def count_disrupted(candidates: Sequence[Candidate], reason: str) -> tuple[Effect, ...]:
    """Return what counts the claims and pods that a command disrupts; the policy only where one decided."""
    effects: list[Effect] = []
    for candidate in candidates:
        policy = candidate.pool.spec.disruption.consolidation_policy if reason in _CONSOLIDATION else ""
        effects += [
            Count(
                metric="karpenter_nodeclaims_disrupted_total",
                labels=disrupted_labels(candidate.claim, _snake(reason)),
            ),
            Count(
                metric="karpenter_pods_disruption_initiated_total",
                labels=disrupted_pods_labels(candidate.claim, _snake(reason), _snake(policy)),
                amount=float(len(candidate.pods)),
            ),
        ]
    return tuple(effects)


def _taints(node: StateNode, taints: list[dict[str, str]], because: str) -> Amend:
    assert node.node is not None
    return Amend(
        kind="Node",
        name=node.node.name,
        changes={"spec": {"taints": taints}},
        version=node.node.metadata.resource_version,
        because=because,
    )


def _snake(words: str) -> str:
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in words).lstrip("_")
