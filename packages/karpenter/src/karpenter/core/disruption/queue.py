"""
Carrying out a command: machines are closed, replacements come first, and only then does anything go.

What a command has done so far can be undone at any time before the end, and everything it writes is found
again after a restart: a closed node that no command of ours remembers is opened again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

from karpenter.api.labels import DISRUPTED, NO_SCHEDULE
from karpenter.core.disruption.command import EMPTY, UNDERUTILIZED
from karpenter.core.effects import Amend, Count, DeleteObject
from karpenter.core.events import disruption_terminating
from karpenter.core.lifecycle.conditions import DISRUPTION_REASON, INITIALIZED, amend, claim_board
from karpenter.core.lifecycle.metrics import disrupted_labels, moved_labels
from karpenter.core.lifecycle.registration import render_taint
from karpenter.core.lifecycle.termination import with_closing_taint
from karpenter.core.state.statenode import state_nodes
from karpenter.core.state.view import condition, is_true

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.command import Command
    from karpenter.core.effects import Effect
    from karpenter.core.state.statenode import StateNode
    from karpenter.core.state.view import ClusterView

_PER_CANDIDATE: Final = timedelta(milliseconds=80)
_SHORTEST: Final = timedelta(minutes=10)
_LONGEST: Final = timedelta(hours=1)
_CONSOLIDATION: Final = frozenset({EMPTY, UNDERUTILIZED})
"""Reasons that the consolidation policy of a pool allows or forbids."""

Progress = Literal["waiting", "ready", "lost", "late"]
"""Of the replacements of a command: on their way, all there, one gone for good, or taking too long."""


def close(node: StateNode, reason: str, now: datetime) -> tuple[Effect, ...]:
    """Return the writes that keep new pods off a machine, and say on its claim why it goes."""
    effects: list[Effect] = []
    if node.node is not None:
        taints = with_closing_taint(node.node)
        if taints != node.node.spec.taints:
            effects.append(_taints(node, [render_taint(taint) for taint in taints], f"disrupted: {reason}"))
    if node.claim is not None:
        board = claim_board(node.claim, now).true(DISRUPTION_REASON, reason)
        effects += amend(node.claim, board, because=f"disrupted: {reason}")
    return tuple(effects)


def open_again(node: StateNode, now: datetime) -> tuple[Effect, ...]:
    """Return the writes that let pods come to a machine again; nothing if they may."""
    because = "its disruption was given up"
    effects: list[Effect] = []
    if node.node is not None and is_closed(node):
        left = [taint for taint in node.node.spec.taints if taint.key != DISRUPTED]
        effects.append(_taints(node, [render_taint(taint) for taint in left], because))
    if node.claim is not None:
        board = claim_board(node.claim, now).clear(DISRUPTION_REASON)
        effects += amend(node.claim, board, because=because)
    return tuple(effects)


def is_closed(node: StateNode) -> bool:
    """Whether a machine takes no pods because of a command."""
    taints = node.node.spec.taints if node.node is not None else ()
    return any(taint.key == DISRUPTED and taint.effect == NO_SCHEDULE for taint in taints)


def strays(view: ClusterView, queued: AbstractSet[str]) -> tuple[StateNode, ...]:
    """Return the machines that were closed by a command which nobody remembers; `queued` ones are."""
    return tuple(
        node
        for node in state_nodes(view)
        if node.claim is not None
        and node.claim.name not in queued
        and not node.is_leaving
        and (is_closed(node) or condition(node.claim.status.conditions, DISRUPTION_REASON) is not None)
    )


def progress(
    replacements: Iterable[NodeClaim | None], *, started: datetime, now: datetime, queued: int
) -> Progress:
    """Return how far the replacements of a command have come; `queued` machines wait for commands to end."""
    waiting = False
    for claim in replacements:
        if claim is None:
            return "lost"
        waiting = waiting or not is_true(claim.status.conditions, INITIALIZED)
    if not waiting:
        return "ready"
    return "late" if now - started > patience(queued) else "waiting"


def patience(queued: int) -> timedelta:
    """Return how long a command may take while so many machines wait for commands to end."""
    return min(max(queued * _PER_CANDIDATE, _SHORTEST), _LONGEST)


def remove(candidates: Sequence[NodeClaim], nodes: Sequence[StateNode], reason: str) -> tuple[Effect, ...]:
    """Return what removes the machines of a command, now that their replacements are there."""
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


def counted(candidates: Sequence[Candidate], reason: str) -> tuple[Effect, ...]:
    """Return what counts the machines and pods that a command removes; the policy only where one decided."""
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
                labels=moved_labels(candidate.claim, _snake(reason), _snake(policy)),
                amount=float(len(candidate.pods)),
            ),
        ]
    return tuple(effects)


def describe(command: Command, pools: Iterable[str], number: str) -> str:
    """Return a command as one line: what goes, what comes, what that saves."""
    names = ", ".join(command.candidates)
    arrow = f" -> [{len(command.replacements)} replacement(s)]" if command.replacements else ""
    owners = ",".join(sorted(set(pools)))
    return (
        f"{command.reason}/{number}: {command.decision}: nodepools=[{owners}]: [{names}]{arrow}"
        f" (savings: ${command.saving:.2f})"
    )


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
