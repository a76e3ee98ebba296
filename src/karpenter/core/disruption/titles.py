"""
What a command is called: one line in logs, a line for each of its machines in Events, and its facts.

A machine's own Event names that machine alone, however many go together. The facts are those that people
filter logs by, under the names that they know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, RESERVED, SPOT
from karpenter.core.announcements import listing
from karpenter.core.disruption.carry import describe
from karpenter.core.disruption.command import Command
from karpenter.core.state.nodes import state_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.scheduling.plan import NewNode
    from karpenter.core.state.view import ClusterView

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
