"""
A last look at the machines of a command, at the moment when they would go: which of them stay after all.

Between the decision and that moment a machine is closed, but not yet the users' hands: somebody may have
forbidden to disrupt the node or a pod on it, and a pod may have been on its way when the machine was closed.
A machine that would then wait half empty for a pod that must not go is opened again instead.

Budgets of pools are not asked again: they have counted the machine since it was closed. Those of pods that
allow nothing at the moment are waited for, as ever; only one that never allows anything counts here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.core.disruption.command import DRIFTED, EMPTY
from karpenter.core.disruption.costs import moving_cost
from karpenter.core.state.guards import Guards
from karpenter.core.state.nodes import state_nodes
from karpenter.core.state.pods import is_active, protection, runs_again

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from karpenter.api.pod import Pod
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.state.nodes import StateNode
    from karpenter.core.state.view import ClusterView


def spared(candidates: Iterable[Candidate], reason: str, view: ClusterView, now: datetime) -> dict[str, str]:
    """Return why machines that were about to go stay after all, by the name of their node."""
    nodes, guards = {node.name: node for node in state_nodes(view)}, Guards(view)
    chosen = [each for each in candidates if each.name in nodes]
    found = {each.name: _hold(nodes[each.name], each.surging, reason, guards, now) for each in chosen}
    return {name: why for name, why in found.items() if why}


def _hold(node: StateNode, surging: AbstractSet[str], reason: str, guards: Guards, now: datetime) -> str:
    if node.annotations.get(DO_NOT_DISRUPT) == "true":
        return f"the node has the annotation {DO_NOT_DISRUPT}=true now"
    if reason == EMPTY and moving_cost(pod for pod in node.pods if runs_again(pod)) > 1.0:
        return "the node is not empty any more"
    if reason == DRIFTED and node.claim is not None and node.claim.spec.termination_grace_period is not None:
        return ""  # the grace period ends what pods wish
    staying = (pod for pod in node.pods if is_active(pod))
    return next((why for pod in staying if (why := _wish(pod, surging, guards, now))), "")


def _wish(pod: Pod, surging: AbstractSet[str], guards: Guards, now: datetime) -> str:
    if wish := protection(pod, now):
        return f"pod {pod.key} must not be disrupted now: {wish}"
    if pod.key not in surging and guards.holds_for_good(pod, now):
        return f"pod {pod.key} can never be evicted: its PodDisruptionBudget does not allow it now"
    return ""
