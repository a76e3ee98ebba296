"""
What follows for machines that stay: what users are told, and whether looking again could help.

What a command is called: one line in logs, a line for each of its machines in Events, and its facts.

A machine's own Event names that machine alone, however many go together. The facts are those that people
filter logs by, under the names that they know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, RESERVED, SPOT
from karpenter.core.disruption.budgets import read_budgets
from karpenter.core.disruption.command import UNDERUTILIZED, Command
from karpenter.core.disruption.consolidation import BALANCED
from karpenter.core.disruption.queue import describe
from karpenter.core.effects import Count, Measure
from karpenter.core.events import (
    budget_blocked,
    consolidation_approved,
    disruption_blocked,
    listing,
    unconsolidatable,
)
from karpenter.core.lifecycle.conditions import DRIFTED
from karpenter.core.lifecycle.disruption_conditions import consolidate_after
from karpenter.core.state.statenode import state_nodes
from karpenter.core.state.view import is_true

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from karpenter.api.nodepool import NodePool
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.command import KeptNode, DisruptionDecision, MoveScore
    from karpenter.core.effects import Effect
    from karpenter.core.scheduling.problem import NewNode
    from karpenter.core.state.statenode import StateNode
    from karpenter.core.state.view import ClusterView


_UNINTERESTING: Final = frozenset({"Waiting", "OutOfTime", "Unknown", "StaticCapacity", "CapacityBuffer"})
_LASTING: Final = frozenset(
    {
        "NoSaving",
        "NoPayback",
        "WhenEmpty",
        "Unpriced",
        "StaticCapacity",
        "NodeDoNotDisrupt",
        "PodDoNotDisrupt",
        "CannotMove",
        "SpotToSpotDisabled",
        "NotBalanced",
        "ConsolidateAfter",
        "PodDisruptionBudget",
        "Deleting",
        "NoNode",
        "NotInitialized",
        "CapacityBuffer",
        "Nominated",
        "Budget",
        "NodeLimit",
        "NodePoolNotFound",
        "NodePoolLabelMissing",
        "Resting",
        "WouldUndo",
    }
)
"""What holds a machine until something changes or a moment comes that is known beforehand."""

_WEIGHED: Final = frozenset(
    {"NoSaving", "NoPayback", "NotBalanced", "SpotToSpotDisabled", "WouldUndo", "CannotMove"}
)
_ABOUT_SAVINGS: Final = frozenset(
    {
        "NoSaving",
        "NoPayback",
        "NotBalanced",
        "SpotToSpotDisabled",
        "WouldUndo",
        "WhenEmpty",
        "Unpriced",
        "Resting",
        "ConsolidateAfter",
    }
)


def is_weighed(kept: KeptNode) -> bool:
    """Whether a machine stays because its going was worked out, and found not worth it or not possible."""
    return kept.code in _WEIGHED


def is_lasting(kept: Iterable[KeptNode]) -> bool:
    """Whether looking again is pointless until something changes."""
    return all(each.code in _LASTING for each in kept)


def kept_events(kept: Iterable[KeptNode], view: ClusterView) -> tuple[Effect, ...]:
    """Return what to tell about machines that stay."""
    return tuple(_told(kept, view))


def unreadable_budgets(view: ClusterView) -> dict[str, str]:
    """Return what is wrong with budgets that cannot be read, by pool; nothing there is disrupted."""
    found = {}
    for name, pool in view.pools.items():
        problems = [each.problem for each in read_budgets(pool.spec.disruption.budgets) if each.problem]
        if problems:
            found[name] = f"Nothing is disrupted, because a budget cannot be read: {'; '.join(problems)}"
    return found


def score_effects(verdict: DisruptionDecision, view: ClusterView) -> tuple[Effect, ...]:
    """Return what to count and to tell about moves that pools have weighed."""
    return tuple(_weighed(verdict, view))


def _weighed(verdict: DisruptionDecision, view: ClusterView) -> Iterator[Effect]:
    nodes = {node.name: node for node in state_nodes(view)}
    for weight in verdict.outweighed:
        yield from _measured(weight, "rejected")
    for command in verdict.commands:
        yield from _moved(command, nodes, view)
        for weight in command.weights:
            yield from _measured(weight, "approved")
            sentence = (
                f"The score {weight.score:.2f} is at least {BALANCED:g} (k={1 / BALANCED:g}): "
                f"{weight.saving:.1%} of the pool's price for {weight.disruption:.1%} of its disruption."
            )
            alone = nodes.get(command.candidates[0]) if len(command.candidates) == 1 else None
            items = (alone.node, alone.claim) if alone is not None else (view.pools.get(weight.pool),)
            for item in items:
                if item is not None:
                    yield consolidation_approved(item, sentence)


def _moved(command: Command, nodes: Mapping[str, StateNode], view: ClusterView) -> Iterator[Effect]:
    """Count a saving for the pools that do not weigh it."""
    if command.reason != UNDERUTILIZED:
        return
    names = {nodes[name].pool for name in command.candidates if name in nodes}
    for name in sorted(names - {weight.pool for weight in command.weights}):
        if name in view.pools:
            policy = view.pools[name].spec.disruption.consolidation_policy
            labels = {"decision": "approved", "nodepool": name, "policy": policy}
            yield Count(metric="karpenter_consolidation_moves_total", labels=labels)


def _measured(weight: MoveScore, decision: str) -> Iterator[Effect]:
    labels = {"decision": decision, "nodepool": weight.pool, "policy": "Balanced"}
    yield Measure(metric="karpenter_consolidation_score", labels=labels, value=weight.score)
    yield Count(metric="karpenter_consolidation_moves_total", labels=labels)


def _is_about_savings(kept: KeptNode, node: StateNode) -> bool:
    """Whether a machine stays for want of a saving; pods without a place also hold it against drift."""
    if kept.code == "CannotMove":
        return node.claim is None or not is_true(node.claim.status.conditions, DRIFTED)
    return kept.code in _ABOUT_SAVINGS


def _is_never(pool: NodePool | None) -> bool:
    """Whether a pool never lets its machines go for a saving."""
    return pool is not None and consolidate_after(pool) is None


def _told(kept: Iterable[KeptNode], view: ClusterView) -> Iterator[Effect]:
    nodes = {node.name: node for node in state_nodes(view)}
    blocked: dict[tuple[str, str], None] = {}
    for each in kept:
        node = nodes.get(each.node)
        if node is None or each.code in _UNINTERESTING:
            continue
        if each.code == "Budget":
            blocked[node.pool, each.message] = None
            continue
        if each.code == "ConsolidateAfter" and not _is_never(view.pools.get(node.pool)):
            continue  # time will tell
        tell = unconsolidatable if _is_about_savings(each, node) else disruption_blocked
        for item in (node.node, node.claim):
            if item is not None:
                yield tell(item, each.message)
    for name, problem in blocked:
        pool = view.pools.get(name)
        if pool is not None:
            yield budget_blocked(pool, problem)


_WAYS: Final = (RESERVED, SPOT, ON_DEMAND)
"""Ways to buy a machine, in the order in which they are taken."""


class Title(msgspec.Struct, frozen=True, kw_only=True):
    """The name of a command."""

    command: Command
    number: str
    pools: tuple[str, ...]

    @property
    def text(self) -> str:
        """The whole command in one line."""
        return describe(self.command, self.pools, self.number)

    def of(self, node: str) -> str:
        """Return the line for one machine of the command."""
        alone = msgspec.structs.replace(self.command, candidates=(node,))
        line, together = describe(alone, self.pools, self.number), len(self.command.candidates)
        return line if together == 1 else f"{line}, part of {together}-node consolidation"


def entitle(command: Command, number: str, view: ClusterView) -> Title:
    """Return the title of a command about some machines of a cluster."""
    pools = {node.name: node.pool for node in state_nodes(view)}
    found = tuple(pools[name] for name in command.candidates if name in pools)
    return Title(command=command, number=number, pools=found)


def facts(command: Command, candidates: Sequence[Candidate]) -> dict[str, object]:
    """Return the facts of a command for the log."""
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
    found = {"capacity-type": next((way for way in _WAYS if allowed.allows(way)), "")}
    return {**found, "instance-types": listing(node.instance_types)} if alone else found
