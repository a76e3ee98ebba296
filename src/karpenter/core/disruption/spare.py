"""
A last look at the machines of a command, at the moment when they would go: which of them stay after all.

Between the decision and that moment a machine is closed, but not yet the users' hands: somebody may have
forbidden to disrupt the node or a pod on it, and a pod may have been on its way when the machine was closed.
A machine that would then wait half empty for a pod that must not go is opened again instead.

Budgets are not asked again: they have counted the machine since it was closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.core.disruption.command import DRIFTED, EMPTY
from karpenter.core.disruption.costs import moving_cost
from karpenter.core.state.nodes import state_nodes
from karpenter.core.state.pods import is_active, protection, runs_again

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.state.nodes import StateNode
    from karpenter.core.state.view import ClusterView


def spared(candidates: Iterable[Candidate], reason: str, view: ClusterView, now: datetime) -> dict[str, str]:
    """Return why machines that were about to go stay after all, by the name of their node."""
    wanted = {each.name for each in candidates}
    found = {node.name: _hold(node, reason, now) for node in state_nodes(view) if node.name in wanted}
    return {name: why for name, why in found.items() if why}


def _hold(node: StateNode, reason: str, now: datetime) -> str:
    if node.annotations.get(DO_NOT_DISRUPT) == "true":
        return f"the node has the annotation {DO_NOT_DISRUPT}=true now"
    if reason == EMPTY and moving_cost(pod for pod in node.pods if runs_again(pod)) > 1.0:
        return "the node is not empty any more"
    if reason == DRIFTED and node.claim is not None and node.claim.spec.termination_grace_period is not None:
        return ""  # the grace period ends what pods wish
    return next(
        (
            f"pod {pod.key} must not be disrupted now: {wish}"
            for pod in node.pods
            if is_active(pod) and (wish := protection(pod, now))
        ),
        "",
    )
