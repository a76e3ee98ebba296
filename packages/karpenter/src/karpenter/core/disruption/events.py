"""
What users are told of a decision: Events and metrics of kept nodes, of commands and of scores, and log
facts.

A node's own Event names that node alone, however many go together. The facts of a command are those that
people filter logs by, under the names that Karpenter gives them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, RESERVED, SPOT
from karpenter.api.meta import Resource, is_status_condition_true
from karpenter.core.disruption.balanced import BALANCED
from karpenter.core.disruption.codes import DisruptionCode
from karpenter.core.disruption.command import UNDERUTILIZED, Command, KeptNode, MoveScore
from karpenter.core.effects import Announce, Count, Effect, Measure
from karpenter.core.events import (
    budget_blocked,
    consolidation_approved,
    consolidation_candidate,
    consolidation_rejected,
    disruption_blocked,
    listing,
    unconsolidatable,
)
from karpenter.core.lifecycle.conditions import DRIFTED
from karpenter.core.lifecycle.disruption_conditions import consolidate_after
from karpenter.core.state.statenode import StateNode, state_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from karpenter.api.nodepool import NodePool
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.scheduling.problem import NewNode
    from karpenter.core.state.cluster import ClusterView

_CAPACITY_TYPES: Final = (RESERVED, SPOT, ON_DEMAND)
"""In the order in which a provider launches them."""


def kept_events(kept: Iterable[KeptNode], view: ClusterView) -> tuple[Effect, ...]:
    """Return the Events of nodes that stay."""
    return tuple(_kept_events(kept, view))


def score_effects(
    commands: Iterable[Command], rejected: Iterable[MoveScore], view: ClusterView
) -> tuple[Effect, ...]:
    """Return the metrics and Events of moves that were scored; `rejected` ones scored too little."""
    return tuple(_score_effects(commands, rejected, view))


def candidate_events(command: Command, view: ClusterView) -> tuple[Effect, ...]:
    """Return the Events of the nodes that a command is about to remove."""
    return tuple(_told(command, view, consolidation_candidate))


def rejection_events(command: Command, view: ClusterView, why: str) -> tuple[Effect, ...]:
    return tuple(_told(command, view, partial(consolidation_rejected, why=why)))


def command_text(command: Command, view: ClusterView) -> str:
    """Return a command as one line: what goes, what comes, what that saves."""
    pools = {node.name: node.pool for node in state_nodes(view)}
    return _text(command, [pools[name] for name in command.candidates if name in pools])


def log_facts(command: Command, candidates: Sequence[Candidate]) -> dict[str, object]:
    return {
        "decision": command.decision,
        "reason": command.reason,
        "disrupted-node-count": len(candidates),
        "replacement-node-count": len(command.replacements),
        "pod-count": command.pods_moved,
        "disrupted-nodes": [_disrupted(each) for each in candidates],
        "replacement-nodes": [
            _replacement(node, alone=len(command.replacements) == 1) for node in command.replacements
        ],
    }


def _kept_events(kept: Iterable[KeptNode], view: ClusterView) -> Iterator[Effect]:
    nodes = {node.name: node for node in state_nodes(view)}
    blocked: dict[tuple[str, str], None] = {}
    for each in kept:
        node = nodes.get(each.node)
        if node is None or not each.code.is_announced:
            continue
        if each.code == DisruptionCode.BUDGET:
            blocked[node.pool, each.message] = None
            continue
        if each.code == DisruptionCode.CONSOLIDATE_AFTER and not _is_never(view.pools.get(node.pool)):
            continue  # it passes by itself
        tell = unconsolidatable if _is_about_savings(each, node) else disruption_blocked
        for item in (node.node, node.claim):
            if item is not None:
                yield tell(item, each.message)
    for name, problem in blocked:
        pool = view.pools.get(name)
        if pool is not None:
            yield budget_blocked(pool, problem)


def _is_about_savings(kept: KeptNode, node: StateNode) -> bool:
    """Whether a node is only kept from consolidation; pods without a place also keep it from drift."""
    if kept.code == DisruptionCode.CANNOT_MOVE:
        return node.claim is None or not is_status_condition_true(node.claim.status.conditions, DRIFTED)
    return kept.code.is_about_savings


def _is_never(pool: NodePool | None) -> bool:
    return pool is not None and consolidate_after(pool) is None


def _score_effects(
    commands: Iterable[Command], rejected: Iterable[MoveScore], view: ClusterView
) -> Iterator[Effect]:
    nodes = {node.name: node for node in state_nodes(view)}
    for score in rejected:
        yield from _scored(score, "rejected")
    for command in commands:
        yield from _moves(command, nodes, view)
        for score in command.scores:
            yield from _scored(score, "approved")
            sentence = (
                f"The score {score.score:.2f} is at least {BALANCED:g} (k={1 / BALANCED:g}): "
                f"{score.saving:.1%} of the pool's price for {score.disruption:.1%} of its disruption."
            )
            alone = nodes.get(command.candidates[0]) if len(command.candidates) == 1 else None
            items = (alone.node, alone.claim) if alone is not None else (view.pools.get(score.pool),)
            for item in items:
                if item is not None:
                    yield consolidation_approved(item, sentence)


def _moves(command: Command, nodes: Mapping[str, StateNode], view: ClusterView) -> Iterator[Effect]:
    """Count a saving for the NodePools that do not score it."""
    if command.reason != UNDERUTILIZED:
        return
    names = {nodes[name].pool for name in command.candidates if name in nodes}
    for name in sorted(names - {score.pool for score in command.scores}):
        if name in view.pools:
            policy = view.pools[name].spec.disruption.consolidation_policy
            labels = {"decision": "approved", "nodepool": name, "policy": policy}
            yield Count(metric="karpenter_consolidation_moves_total", labels=labels)


def _scored(score: MoveScore, decision: str) -> Iterator[Effect]:
    labels = {"decision": decision, "nodepool": score.pool, "policy": "Balanced"}
    yield Measure(metric="karpenter_consolidation_score", labels=labels, value=score.score)
    yield Count(metric="karpenter_consolidation_moves_total", labels=labels)


def _told(
    command: Command, view: ClusterView, make: Callable[[Resource, str], Announce]
) -> Iterator[Announce]:
    together, wanted = len(command.candidates), frozenset(command.candidates)
    nodes = [node for node in state_nodes(view) if node.name in wanted]
    pools = [node.pool for node in nodes]
    for node in nodes:
        text = _text(msgspec.structs.replace(command, candidates=(node.name,)), pools)
        if together > 1:
            text = f"{text}, part of {together}-node consolidation"
        yield from (make(item, text) for item in (node.node, node.claim) if item is not None)


def _text(command: Command, pools: Iterable[str]) -> str:
    names = ", ".join(command.candidates)
    arrow = f" -> [{len(command.replacements)} replacement(s)]" if command.replacements else ""
    owners = ",".join(sorted(set(pools)))
    back = f", back to NodePool {command.destinations}" if command.preferred else ""
    return (
        f"{command.reason}/{command.number:04d}: {command.decision}: nodepools=[{owners}]: [{names}]{arrow}"
        f" (savings: ${command.saving:.2f}){back}"
    )


def _disrupted(candidate: Candidate) -> dict[str, str]:
    labels = candidate.node.labels
    return {
        "Node": candidate.name,
        "NodeClaim": candidate.claim.name,
        "instance-type": labels.get(INSTANCE_TYPE, ""),
        "capacity-type": labels.get(CAPACITY_TYPE, ""),
    }


def _replacement(node: NewNode, *, alone: bool) -> dict[str, str]:
    allowed = node.requirements[CAPACITY_TYPE]
    found = {"capacity-type": next((each for each in _CAPACITY_TYPES if allowed.allows(each)), "")}
    return {**found, "instance-types": listing(node.instance_types)} if alone else found
