"""
Nominations: nodes that pending pods were given while the nodes start, kept until the pods are bound.

A plan for many pods at once fits tightly. Decided anew while its nodes start, pod by pod, the same pods may
not fit, and one node too many would be launched. So a nominated pod is counted as if it ran on its node
already, and no other place is looked for.

A nomination ends with its claim, when its pods no longer fit beside what was bound instead, or a while
after the node is initialized: by then kube-scheduler could have bound the pod, and has decided otherwise.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.meta import is_status_condition_true, status_condition_since
from karpenter.core.model.resources import fits, merge, pod_requests
from karpenter.core.scheduling.build.virtualpods import is_virtual
from karpenter.core.state.cluster import ClusterView
from karpenter.core.state.statenode import StateNode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karpenter.api.pod import Pod

BINDING_GRACE: Final = timedelta(seconds=20)
"""For how long a nomination holds on a node that is initialized."""


_SHORTEST: Final = timedelta(seconds=10)


class Nomination(msgspec.Struct, frozen=True):
    """The claim that a pod was nominated for, and when."""

    claim: str
    made: datetime


class NominatedCluster(msgspec.Struct, frozen=True):
    """The cluster with every nominated pod on its node, and which pods those are."""

    view: ClusterView
    nodes: tuple[StateNode, ...]
    pods: frozenset[str] = frozenset()


def keep_nominations(
    view: ClusterView,
    nodes: Sequence[StateNode],
    waiting: Iterable[Pod],
    nominations: Mapping[str, Nomination],
    now: datetime,
) -> NominatedCluster:
    """Return the cluster with those pods of `waiting` on their nodes whose nominations still hold."""
    by_claim: dict[str, list[Pod]] = {}
    for pod in waiting if nominations else ():
        nomination = nominations.get(pod.key)
        if nomination is not None and not is_virtual(pod) and _holds(nomination, view, now):
            by_claim.setdefault(nomination.claim, []).append(pod)
    if not by_claim:
        return NominatedCluster(view, tuple(nodes))
    moved: dict[str, Pod] = {}
    after = []
    for node in nodes:
        coming = by_claim.get(node.claim.name, []) if node.claim is not None and not node.is_deleting else []
        if not coming or not fits(merge(map(pod_requests, coming)), node.available):
            after.append(node)
            continue
        there = [_at(pod, node.name) for pod in coming]
        moved |= {pod.key: pod for pod in there}
        after.append(
            StateNode(node=node.node, claim=node.claim, pods=(*node.pods, *there), marked=node.marked)
        )
    if not moved:
        return NominatedCluster(view, tuple(nodes))
    return NominatedCluster(
        msgspec.structs.replace(view, pods={**view.pods, **moved}), tuple(after), frozenset(moved)
    )


def nomination_period(batch_max: timedelta) -> timedelta:
    """
    Return how long a node is nominated for pods that fit on it, given the longest time that a batch collects.

    Twice that time, so that pods of the next batch still find the node nominated, as in Karpenter:
    https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/state/statenode.go
    """
    return max(2 * batch_max, _SHORTEST)


def current_nominations(nominations: Mapping[str, Nomination], view: ClusterView) -> dict[str, Nomination]:
    """Return the nominations whose pod and claim still exist, by the key of the pod."""
    return {key: each for key, each in nominations.items() if key in view.pods and each.claim in view.claims}


def is_starting(node: StateNode) -> bool:
    """Whether a node is starting, so that pods are nominated for it."""
    return node.claim is not None and not node.is_initialized


def _holds(nomination: Nomination, view: ClusterView, now: datetime) -> bool:
    claim = view.claims.get(nomination.claim)
    if claim is None or claim.name in view.marked:
        return False
    conditions = claim.status.conditions
    # kube-scheduler cannot bind the pod before: startup taints keep it away.
    if not is_status_condition_true(conditions, "Initialized"):
        return True
    complete = status_condition_since(conditions, "Initialized") or nomination.made
    return now < max(complete, nomination.made) + BINDING_GRACE


def _at(pod: Pod, node: str) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
