"""
Where waiting pods are planned to run, and what kube-scheduler is told of that.

A nomination is the node that a pod was given by a decision. A plan for many pods at once fits tightly.
Decided anew while its nodes start, pod by pod, the same pods may not fit, and one node too many would be
launched. So a nominated pod is counted as if it ran on its node already, and no other place is looked for.

A nomination ends with its claim, when its pods no longer fit beside what was bound instead, or a while
after the node is initialized: by then kube-scheduler could have bound the pod, and has decided otherwise.

kube-scheduler knows nothing of that unless it is told. It tries ``status.nominatedNodeName`` before any other
node, and keeps the room of nominated pods from pods of no higher priority. :func:`nominate` decides what is
written there: the node while it is known and has room, and nothing as soon as the nomination ends, because
room that is kept for a pod that cannot come is lost to all others. What another client has written is never
touched; kube-scheduler writes it when it preempts.
https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/5278-nominated-node-name-for-expectation

A pod that is evicted has no name for its successor. :func:`successor` finds it: a pod of the same owner made
from the same template takes the place that the evicted one was to have.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from karpenter.api.labels import DISRUPTED, UNREGISTERED
from karpenter.api.meta import is_status_condition_true, status_condition_since
from karpenter.core.effects import NOTHING, DeleteObject, NominatePod, Step
from karpenter.core.model.resources import fits, merge, pod_requests
from karpenter.core.scheduling.build.virtualpods import is_virtual
from karpenter.core.state.cluster import ClusterView
from karpenter.core.state.pod import (
    has_dra_requirements,
    is_nominated_by_us,
    is_owned_by_statefulset,
    is_terminal,
    is_terminating,
    may_be_nominated,
)
from karpenter.core.state.statenode import StateNode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.pod import Pod

# kube-scheduler binds seconds after a node is ready. Until then consolidation must not take the node for
# empty:
# https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/controllers/state/statenode.go
BINDING_GRACE: Final = timedelta(seconds=20)
"""For how long a nomination holds on a node that is initialized."""

SUCCESSOR_GRACE: Final = timedelta(seconds=60)
"""For how long the place of an evicted pod waits for the pod that its controller creates instead."""

# Pods are nominated for twice the batch duration, and at least for this long, as upstream does.
_SHORTEST: Final = timedelta(seconds=10)

_DO_NOT_SCHEDULE: Final = "DoNotSchedule"

# Labels that tell the revision of a workload that a pod was made from:
# https://kubernetes.io/docs/reference/labels-annotations-taints/
_REVISIONS: Final = ("pod-template-hash", "controller-revision-hash")


class Nomination(msgspec.Struct, frozen=True):
    """The claim that a pod was nominated for, and when."""

    claim: str
    made: datetime
    node: str = ""
    """The name of the Node where it has no claim."""


class NominatedCluster(msgspec.Struct, frozen=True):
    """The cluster with every nominated pod on its node, and which pods those are."""

    view: ClusterView
    nodes: tuple[StateNode, ...]
    pods: frozenset[str] = frozenset()


class PodOrigin(NamedTuple):
    """What a pod and the one that is created in its stead have in common."""

    namespace: str
    owner: str
    """The uid of the object that controls them."""

    revision: tuple[str, ...]


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """The place that waits for the successor of a pod."""

    pod: str
    """The key of the pod that leaves."""

    uid: str
    origin: PodOrigin
    nomination: Nomination
    left: datetime | None = None
    """When the pod has left, or has begun to; until then no other pod is its successor."""


def keep_nominations(
    view: ClusterView,
    nodes: Sequence[StateNode],
    waiting: Iterable[Pod],
    nominations: Mapping[str, Nomination],
    now: datetime,
) -> NominatedCluster:
    """Return the cluster with those pods of `waiting` on their nodes whose nominations still hold."""
    by_place: dict[tuple[str, str], list[Pod]] = {}
    for pod in waiting if nominations else ():
        nomination = nominations.get(pod.key)
        if nomination is not None and not is_virtual(pod) and _holds(nomination, pod, view, now):
            by_place.setdefault((nomination.claim, nomination.node), []).append(pod)
    if not by_place:
        return NominatedCluster(view, tuple(nodes))
    moved: dict[str, Pod] = {}
    after = []
    for node in nodes:
        coming = by_place.get(_place_of(node), []) if not node.is_deleting else []
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


def nomination_of(node: StateNode, now: datetime) -> Nomination:
    """Return the nomination of a pod for a node."""
    claim, name = _place_of(node)
    return Nomination(claim, now, name)


def current_nominations(nominations: Mapping[str, Nomination], view: ClusterView) -> dict[str, Nomination]:
    """Return the nominations whose pod and place still exist, by the key of the pod."""
    return {
        key: each
        for key, each in nominations.items()
        if key in view.pods and (each.claim in view.claims if each.claim else each.node in view.nodes)
    }


def is_starting(node: StateNode) -> bool:
    """Whether a node is starting, so that pods are nominated for it."""
    return node.claim is not None and not node.is_initialized


def is_node_coming(nomination: Nomination | None, claim: NodeClaim | None) -> bool:
    """Whether the node that a pod was nominated for is starting, so that reports on the pod are no news."""
    return (
        nomination is not None
        and claim is not None
        and claim.metadata.deletion_timestamp is None
        and not is_status_condition_true(claim.status.conditions, "Initialized")
    )


def nominate(
    pod: Pod,
    nomination: Nomination | None,
    node: StateNode | None,
    beside: Sequence[Pod],
    now: datetime,
    *,
    opens: bool = False,
) -> Step:
    """
    Return what kube-scheduler is told about a pod.

    `node` is the node that the pod was nominated for, while there is one; `beside` are the pods that are
    nominated for it too, and wait; `opens` says that it is about to take pods.
    """
    if not is_told(pod):
        return NOTHING
    if nomination is None or node is None:
        return Step(effects=_withdraw(pod, "the place that was planned for it is gone"))
    ends = _end(nomination, node.claim)
    if ends is not None and ends <= now:
        return Step(effects=_withdraw(pod, "kube-scheduler has not bound it in time"))
    again = (ends - now).total_seconds() if ends is not None else None
    if problem := _unusable(pod, node, beside):
        return Step(effects=_withdraw(pod, problem), again=again)
    if pod.status.nominated_node_name == node.name or not (opens or _is_open(node)):
        return Step(again=again)
    return Step(effects=(_write(pod, node.name, f"it is planned to run on node {node.name}"),), again=again)


def is_told(pod: Pod) -> bool:
    """
    Whether kube-scheduler is told where a pod is planned to run; it is not where the pod must be spread.

    kube-scheduler counts the pods that are nominated for a node as if they ran there. Pods of one workload
    that must be spread would exceed their skew before the first of them runs, and each would wait.
    """
    spread = any(each.when_unsatisfiable == _DO_NOT_SCHEDULE for each in pod.spec.topology_spread_constraints)
    return may_be_nominated(pod) and not spread


def is_unlaunched(claim: NodeClaim) -> bool:
    """Whether a claim waits for its machine."""
    return not claim.status.provider_id and claim.metadata.deletion_timestamp is None


def withdraw_claim(claim: NodeClaim) -> tuple[DeleteObject, ...]:
    """Return what deletes a claim whose pods have all gone or run elsewhere; nothing once it is launched."""
    if not is_unlaunched(claim):
        return ()
    because = "no pod waits for it any more"
    return (DeleteObject(kind=claim.kind, name=claim.name, uid=claim.metadata.uid, because=because),)


def origin_of(pod: Pod) -> PodOrigin | None:
    """Return what a pod has in common with its successor; None where no controller creates one."""
    owner = next((each for each in pod.metadata.owner_references if each.controller), None)
    if owner is None:
        return None
    labels = pod.metadata.labels
    return PodOrigin(pod.namespace, owner.uid, tuple(labels.get(each, "") for each in _REVISIONS))


def are_alike(pod: Pod, other: Pod | None) -> bool:
    """Whether two pods may have each other's places: one template, and nothing of their own."""
    origin = origin_of(pod)
    if origin is None or other is None or other is pod:
        return False
    # Volumes and devices of their own may bind pods to a zone.
    return origin == origin_of(other) and not is_owned_by_statefulset(pod) and not has_dra_requirements(pod)


def expect(pod: Pod, nomination: Nomination, now: datetime) -> Expected | None:
    """Return the place that waits for the successor of a pod; None where there will be no successor."""
    origin = origin_of(pod)
    if origin is None or is_terminal(pod):
        return None
    left = now if is_terminating(pod) else None
    return Expected(pod=pod.key, uid=pod.metadata.uid, origin=origin, nomination=nomination, left=left)


def successor(pod: Pod, expected: Iterable[Expected], now: datetime) -> Expected | None:
    """Return the place that waits for a pod that was just created; the one of its own name comes first."""
    origin = origin_of(pod)
    if origin is None or not may_be_nominated(pod):
        return None
    waiting = [
        each
        for each in expected
        if each.origin == origin and each.uid != pod.metadata.uid and _waits(each, now)
    ]
    return min(waiting, key=lambda each: (each.pod != pod.key, each.left), default=None)


def is_over(expected: Expected, now: datetime) -> bool:
    """Whether a place has waited in vain for the successor of a pod that has left."""
    return expected.left is not None and now - expected.left > SUCCESSOR_GRACE


def _waits(expected: Expected, now: datetime) -> bool:
    return expected.left is not None and not is_over(expected, now)


def _place_of(node: StateNode) -> tuple[str, str]:
    """Return the claim of a node, or the name of a node that has none."""
    return (node.claim.name, "") if node.claim is not None else ("", node.name)


def _holds(nomination: Nomination, pod: Pod, view: ClusterView, now: datetime) -> bool:
    claim = view.claims.get(nomination.claim)
    if nomination.claim and (claim is None or claim.name in view.marked):
        return False
    # A pod that has not left its old node yet may take its time.
    ends = _end(nomination, claim) if not pod.spec.node_name else None
    return ends is None or now < ends


def _end(nomination: Nomination, claim: NodeClaim | None) -> datetime | None:
    """Return when a nomination ends by itself; None while its node starts."""
    if claim is None:
        return nomination.made + BINDING_GRACE
    conditions = claim.status.conditions
    # kube-scheduler cannot bind the pod before: startup taints keep it away.
    if not is_status_condition_true(conditions, "Initialized"):
        return None
    complete = status_condition_since(conditions, "Initialized") or nomination.made
    return max(complete, nomination.made) + BINDING_GRACE


def _is_open(node: StateNode) -> bool:
    """Whether a node takes pods; kube-scheduler withdraws nominations for one that does not."""
    return node.node is not None and not any(each.key == UNREGISTERED for each in node.node.spec.taints)


def _unusable(pod: Pod, node: StateNode, beside: Iterable[Pod]) -> str:
    """Return why a pod cannot come to the node that it was nominated for; nothing if it can."""
    if node.node is None:
        return "its node has not joined yet"
    if node.is_deleting or any(taint.key == DISRUPTED for taint in node.node.spec.taints):
        return f"node {node.name} is being disrupted"
    # kube-scheduler counts every nominated pod when it tries one of them: of pods that do not fit together,
    # none would.
    first = (each for each in beside if _order(each) < _order(pod) and not each.spec.node_name)
    if not fits(merge(map(pod_requests, (*first, pod))), node.available):
        return f"node {node.name} has no room left for it"
    return ""


def _order(pod: Pod) -> tuple[int, str]:
    return -(pod.spec.priority or 0), pod.key


def _withdraw(pod: Pod, because: str) -> tuple[NominatePod, ...]:
    return (_write(pod, "", because),) if is_nominated_by_us(pod) else ()


def _write(pod: Pod, node: str, because: str) -> NominatePod:
    return NominatePod(pod=pod.key, uid=pod.metadata.uid, node=node, because=because)


def _at(pod: Pod, node: str) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
