"""
Places that waiting pods were given on machines that are on their way, kept until the pods are there.

A plan for many pods at once fits tightly. Looked at anew while its machines come, pod by pod, the same pods
may not fit, and a machine too many would be launched. So a pod that was given a place keeps it: it is counted
as if it were there, and no other is looked for.

A promise ends with its machine, when its pods no longer fit beside what came instead, or a while after the
machine is complete: the cluster's scheduler had its chance and chose otherwise.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.core.model.resources import fits, merge, pod_requests
from karpenter.core.scheduling.build.virtualpods import is_virtual
from karpenter.core.state.statenode import StateNode
from karpenter.core.state.view import ClusterView, is_true, since

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karpenter.api.pod import Pod

BINDING_GRACE: Final = timedelta(seconds=20)
"""For how long a promise holds on a machine that is complete."""


class Nomination(msgspec.Struct, frozen=True):
    """A place on the machine of a claim, and when it was given."""

    claim: str
    made: datetime


class NominatedCluster(msgspec.Struct, frozen=True):
    """The cluster with every pod where it was promised to be, and which pods those are."""

    view: ClusterView
    nodes: tuple[StateNode, ...]
    pods: frozenset[str] = frozenset()


def keep_nominations(
    view: ClusterView,
    nodes: Sequence[StateNode],
    waiting: Iterable[Pod],
    promises: Mapping[str, Nomination],
    now: datetime,
) -> NominatedCluster:
    """Return the cluster with the pods of `waiting` that keep their promised places in them."""
    by_claim: dict[str, list[Pod]] = {}
    for pod in waiting if promises else ():
        promise = promises.get(pod.key)
        if promise is not None and not is_virtual(pod) and _holds(promise, view, now):
            by_claim.setdefault(promise.claim, []).append(pod)
    if not by_claim:
        return NominatedCluster(view, tuple(nodes))
    moved: dict[str, Pod] = {}
    after = []
    for node in nodes:
        coming = by_claim.get(node.claim.name, []) if node.claim is not None and not node.is_leaving else []
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


def is_coming(node: StateNode) -> bool:
    """Whether a machine is on its way, so that places on it are promised."""
    return node.claim is not None and not node.is_initialized


def _holds(promise: Nomination, view: ClusterView, now: datetime) -> bool:
    claim = view.claims.get(promise.claim)
    if claim is None or claim.name in view.marked:
        return False
    conditions = claim.status.conditions
    if not is_true(conditions, "Initialized"):
        return True
    complete = since(conditions, "Initialized") or promise.made
    return now < max(complete, promise.made) + BINDING_GRACE


def _at(pod: Pod, node: str) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
