"""
Lets nodes empty by themselves: where workloads shrink, and where their new pods go.

A ReplicaSet that scales down chooses which of its pods go, and kube-scheduler chooses where new pods run.
Neither knows which nodes are nearly empty, so free room opens on all of them, and pods have to be evicted
to consolidate. Here both are told: pods on the nodes with the fewest pods get the lowest deletion cost, and
such nodes get a ``PreferNoSchedule`` taint. A node that empties by itself costs no eviction.
https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#pod-deletion-cost

Only annotations of our own are changed: a deletion cost that another controller has set stays.
"""

from __future__ import annotations

from heapq import nsmallest
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from karpenter.api.labels import (
    DELETION_COST_SET,
    DO_NOT_DISRUPT,
    EMPTYING,
    POD_DELETION_COST,
    PREFER_NO_SCHEDULE,
)
from karpenter.api.node import Taint
from karpenter.core.effects import Amend
from karpenter.core.lifecycle.disruption_conditions import consolidate_after
from karpenter.core.lifecycle.registration import render_taint
from karpenter.core.state.pod import do_not_disrupt_reason, is_reschedulable
from karpenter.core.state.statenode import StateNode, state_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from karpenter.api.pod import Pod
    from karpenter.core.state.cluster import ClusterView

BANDS: Final = 8
"""Pods are told apart by the eighth of the machines that theirs is in: fewer writes than by machine."""

_DISCOURAGED: Final = 0.5
"""The share of a pool's machines that would rather not have new pods."""

MOST: Final = 200
"""Pods that are told at once; the others are told at the next look."""

_SOFT: Final = Taint(key=EMPTYING, effect=PREFER_NO_SCHEDULE)


def steer(view: ClusterView, now: datetime) -> tuple[Amend, ...]:
    """Return what tells workloads and kube-scheduler which machines to let go."""
    ranked = _ranked(view, now)
    emptying = {node.name for nodes in ranked.values() for node in nodes[: int(_DISCOURAGED * len(nodes))]}
    bands = {
        node.name: at * BANDS // len(nodes) - BANDS
        for nodes in ranked.values()
        for at, node in enumerate(nodes)
    }
    return (*_tainted(view, emptying), *_told(view, bands, now))


def unsteer(view: ClusterView) -> tuple[Amend, ...]:
    """Return what lets machines have new pods like all others again."""
    return tuple(_tainted(view, frozenset()))


def _ranked(view: ClusterView, now: datetime) -> dict[str, list[StateNode]]:
    """Return the machines that may empty, of every pool those with the fewest pods first."""
    found: dict[str, list[tuple[int, str, StateNode]]] = {}
    for node in state_nodes(view):
        pool = view.pools.get(node.pool)
        if pool is None or pool.spec.replicas is not None or consolidate_after(pool) is None:
            continue
        if node.is_deleting or not node.is_initialized or node.annotations.get(DO_NOT_DISRUPT) == "true":
            continue
        pods = [pod for pod in node.pods if is_reschedulable(pod)]
        if not any(do_not_disrupt_reason(pod, now) for pod in pods):
            found.setdefault(node.pool, []).append((len(pods), node.name, node))
    return {name: [node for *_, node in sorted(each)] for name, each in found.items()}


def _tainted(view: ClusterView, emptying: Iterable[str]) -> Iterator[Amend]:
    """Yield the writes after which just the machines that are to empty discourage new pods."""
    wanted = frozenset(emptying)
    for each in state_nodes(view):
        node = each.node
        if node is None or each.is_deleting or not each.is_managed:
            continue
        others = [taint for taint in node.spec.taints if taint.key != EMPTYING]
        # Writing only differences keeps this at a few writes a minute in a steady cluster.
        is_soft = len(others) < len(node.spec.taints)
        if is_soft != (each.name in wanted):
            taints = others if is_soft else [*others, _SOFT]
            yield Amend(
                kind="Node",
                name=node.name,
                changes={"spec": {"taints": [render_taint(taint) for taint in taints]}},
                version=node.metadata.resource_version,
                because="it is to be filled again" if is_soft else "it is among the emptiest of its pool",
            )


def _told(view: ClusterView, bands: Mapping[str, int], now: datetime) -> list[Amend]:
    """Return the writes that tell workloads which pods to give up first, the most useful first."""
    found: list[tuple[int, str, Pod, str | None]] = []
    for node in state_nodes(view):
        band = bands.get(node.name, 0)  # of a node that is to empty it is below zero
        for pod in node.pods if not node.is_deleting else ():
            if not _is_chosen_by_cost(pod) or not is_reschedulable(pod) or do_not_disrupt_reason(pod, now):
                continue
            notes = pod.metadata.annotations
            cost, ours = notes.get(POD_DELETION_COST), notes.get(DELETION_COST_SET)
            told = str(band) if band else None
            if cost == ours and cost != told:
                found.append((band, pod.key, pod, told))
    return [_cost(pod, told) for *_, pod, told in nsmallest(MOST, found, key=itemgetter(0, 1))]


def _is_chosen_by_cost(pod: Pod) -> bool:
    """Whether the pod's workload asks what pods cost before it deletes some: only ReplicaSets do."""
    # https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#pod-deletion-cost
    return any(owner.controller and owner.kind == "ReplicaSet" for owner in pod.metadata.owner_references)


def _cost(pod: Pod, cost: str | None) -> Amend:
    return Amend(
        kind="Pod",
        name=pod.name,
        namespace=pod.metadata.namespace,
        changes={"metadata": {"annotations": {POD_DELETION_COST: cost, DELETION_COST_SET: cost}}},
        because="its machine may not empty any more" if cost is None else "so its machine may empty first",
    )
