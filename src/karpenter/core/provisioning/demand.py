"""
Which pods a decision is made for.

A pod that the scheduler of the cluster has tried and found no node for; one that it has not looked at yet may
still find room by itself. Pods of nodes that are leaving need a place too, and so does the room that buffers
ask for. A pod that wants none of our nodes is left alone without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import NODEPOOL
from karpenter.core.model.labels import RequirementError
from karpenter.core.scheduling.intake.buffers import virtual_pods
from karpenter.core.scheduling.intake.pods import evacuated
from karpenter.core.scheduling.relax import ladder
from karpenter.core.state.guards import Guards
from karpenter.core.state.nodes import state_nodes
from karpenter.core.state.pods import waits

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.api.pod import Pod, PodSpec
    from karpenter.core.scheduling.intake.intake import Policy
    from karpenter.core.state.view import ClusterView


def is_provisionable(pod: Pod) -> bool:
    """Whether a pod waits because the cluster's scheduler found no node for it."""
    return waits(pod) and any(
        each.type == "PodScheduled" and each.reason == "Unschedulable" for each in pod.status.conditions
    )


def demand(view: ClusterView, now: datetime, policy: Policy) -> tuple[Pod, ...]:
    """Return the pods that need a place."""
    waiting = [pod for pod in view.pods.values() if is_provisionable(pod)]
    refusing = {id(pod.spec): pod.spec for pod in waiting if _may_refuse(pod.spec)}
    refused = {key for key, spec in refusing.items() if wants_no_pool(spec)}
    pods = [pod for pod in waiting if id(pod.spec) not in refused]
    pods += evacuated(state_nodes(view), Guards(view), now)
    if policy.buffers:
        pods += virtual_pods(view)
    return tuple(pods)


def wants_no_pool(spec: PodSpec) -> bool:
    """Whether a pod asks for a node that no NodePool has made."""
    try:
        first, *_ = ladder(spec, (), respect=True, avoidance=False)
    except RequirementError:
        return False  # it is refused later, with a sentence
    wanted = first.requirements[NODEPOOL]
    return not wanted.complement and not wanted.values


def _may_refuse(spec: PodSpec) -> bool:
    return spec.affinity is not None or bool(spec.node_selector)
