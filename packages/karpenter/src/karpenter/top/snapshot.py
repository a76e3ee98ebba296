"""
Everything that ``karpenter top`` shows of one moment, as one value; and that value as JSON.

The field names of the JSON are an interface; see docs/guides/top.md.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.core.model.pricing import HOURS_A_MONTH
from karpenter.core.model.resources import CPU, MEMORY, pod_requests, render_resources
from karpenter.core.model.selectors import EVERYTHING, Selector
from karpenter.core.state.cluster import ClusterView
from karpenter.core.state.pod import is_active, is_owned_by_daemonset
from karpenter.top.advice import Advice, LastDecision
from karpenter.top.model import (
    ClusterTotals,
    NodeRow,
    NodeSort,
    label_text,
    matches,
    sorted_rows,
    totals,
    waiting_pods,
    without_effect,
)
from karpenter.top.pending import PendingPod, pending_pods
from karpenter.top.table import DEFAULT_STYLE
from karpenter.why.costs import (
    DEFAULT_TEAM_LABEL,
    CostAllocation,
    CostNode,
    CostPod,
    allocate_costs,
    gpus_of,
    team_of,
    workload_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karpenter.api.pod import Pod

_DIGITS: Final = 6
_MIB: Final = 1024**2
_SHOWN_DECISIONS: Final = 100
_CURRENCIES: Final = {"$": "USD", "¥": "CNY"}


class TopOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown of the nodes, and how."""

    resources: tuple[str, ...] = ("cpu",)
    extra_labels: tuple[str, ...] = ()
    selector: Selector = EVERYTHING
    order: NodeSort = NodeSort()
    style: tuple[str, ...] = DEFAULT_STYLE
    pricing: bool = True
    team_label: str = DEFAULT_TEAM_LABEL
    """The label by which costs are summed."""


class TopSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster at one moment, as it is shown."""

    now: datetime
    rows: tuple[NodeRow, ...]
    totals: ClusterTotals
    pending: tuple[PendingPod, ...] = ()
    advice: Advice | None = None
    """None until the first decision is made, and where none can be."""

    decisions: tuple[LastDecision, ...] = ()
    notes: tuple[str, ...] = ()
    words: str = ""
    """The words that rows are filtered by."""

    view: ClusterView
    """What the rows were made from."""

    currency: str = "$"
    """The sign of the currency that prices are in."""


def take(
    view: ClusterView,
    rows: Iterable[NodeRow],
    options: TopOptions,
    now: datetime,
    *,
    advice: Advice | None = None,
    decisions: Sequence[LastDecision] = (),
    notes: Sequence[str] = (),
    words: str = "",
    currency: str = "$",
) -> TopSnapshot:
    """Return what is shown of a view whose nodes are these rows."""
    chosen = [row for row in rows if options.selector.matches(row.labels) and matches(row, words)]
    return TopSnapshot(
        now=now,
        rows=tuple(sorted_rows(chosen, options.order)),
        totals=totals(chosen, waiting_pods(view)),
        pending=advice.pending if advice is not None else pending_pods(view, None),
        advice=advice,
        decisions=tuple(decisions[:_SHOWN_DECISIONS]),
        notes=(*notes, *without_effect(chosen, options.order, options.resources)),
        words=words,
        view=view,
        currency=currency,
    )


def costs(snapshot: TopSnapshot, options: TopOptions) -> CostAllocation:
    """Return what the pods of the nodes that are shown cost."""
    view, label = snapshot.view, options.team_label
    nodes = {row.key: _cost_node(row) for row in snapshot.rows}
    pods = (_cost_pod(pod, team_of(pod, view, label)) for pod in view.pods.values() if is_active(pod))
    return allocate_costs(nodes, pods, team_label=label)


def _cost_node(row: NodeRow) -> CostNode:
    room = row.allocatable
    return CostNode(row.price, room.get(CPU, 0), room.get(MEMORY, 0) // _MIB, gpus_of(room))


def _cost_pod(pod: Pod, team: str) -> CostPod:
    wanted = pod_requests(pod)
    return CostPod(
        pod.spec.node_name,
        workload_of(pod),
        team,
        wanted.get(CPU, 0),
        wanted.get(MEMORY, 0) // _MIB,
        gpus_of(wanted),
        is_owned_by_daemonset(pod),
    )


def snapshot_data(snapshot: TopSnapshot, options: TopOptions) -> dict[str, Any]:
    sums, advice = snapshot.totals, snapshot.advice
    return {
        "kind": "Top",
        "at": snapshot.now,
        "summary": {
            "nodes": sums.nodes,
            "pods": {
                "total": sums.pods,
                "pending": sums.pending,
                "running": sums.running,
                "bound": sums.bound,
            },
            "requests": render_resources(sums.requests),
            "allocatable": render_resources(sums.allocatable),
            "hourly": _price(sums.hourly) if options.pricing else None,
            "monthly": _price(sums.monthly) if options.pricing else None,
            "currency": _CURRENCIES[snapshot.currency],
            "unpriced": sums.unpriced,
            "wouldGo": advice.going if advice is not None else None,
            "monthlySaving": _price(advice.saving * HOURS_A_MONTH) if advice is not None else None,
        },
        "nodes": [_node(row, snapshot, options) for row in snapshot.rows],
        "pending": [msgspec.to_builtins(each) for each in snapshot.pending],
        "decisions": [
            {
                "at": each.at,
                "reason": each.reason,
                "object": each.object,
                "message": each.message,
                "type": "Warning" if each.warning else "Normal",
            }
            for each in snapshot.decisions
        ],
        "costs": msgspec.to_builtins(costs(snapshot, options)) if options.pricing else None,
        "notes": list(snapshot.notes),
    }


def _node(row: NodeRow, snapshot: TopSnapshot, options: TopOptions) -> dict[str, Any]:
    advice = snapshot.advice.nodes.get(row.key) if snapshot.advice is not None else None
    price = row.price if options.pricing else None
    return {
        "name": row.name,
        "instance": row.instance,
        "nodePool": row.pool,
        "zone": row.zone,
        "instanceType": row.instance_type,
        "capacityType": row.capacity_type,
        "auto": row.auto,
        "ready": row.ready,
        "cordoned": row.cordoned,
        "deleting": row.deleting,
        "created": row.created,
        "pods": row.pods,
        "requests": render_resources(row.requests),
        "allocatable": render_resources(row.allocatable),
        "hourly": _price(price),
        "monthly": _price(price * HOURS_A_MONTH) if price is not None else None,
        "labels": {label: label_text(row, label, snapshot.now) for label in options.extra_labels},
        "wouldGo": advice.goes if advice is not None else None,
        "code": advice.code if advice is not None else None,
        "why": advice.sentence if advice is not None else None,
    }


def _price(amount: float | None) -> float | None:
    return round(amount, _DIGITS) if amount is not None else None
