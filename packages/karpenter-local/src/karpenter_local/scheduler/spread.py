"""
Topology spread constraints: how unevenly the selected pods may be spread over the domains of a label.

A required constraint refuses nodes whose domain would be more than ``max_skew`` pods above the emptiest one.
A preferred one scores: the fewer selected pods in a node's domain, the better, and constraints over many
domains weigh more. Which nodes count as domains at all is narrowed by the pod's own affinity and
tolerations, as the constraint's policies say.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from karpenter_local.scheduler.domains import OUTSIDE
from karpenter_local.scheduler.nodefilters import NodeFilterResult
from karpenter_local.scheduler.nodetable import NodeTable
from karpenter_local.scheduler.podinfo import SpreadConstraint
from karpenter_local.scheduler.rows import Ints, Mask

HOSTNAME = "kubernetes.io/hostname"

Floats = npt.NDArray[np.float64]


def labelled(table: NodeTable, spreads: Sequence[SpreadConstraint]) -> Mask:
    """Return the live rows that have the label of every constraint."""
    found = table.rows.alive.copy()
    for spread in spreads:
        found &= table.domains.of(spread.key).of != OUTSIDE
    return found


def skewed(
    table: NodeTable, spreads: Sequence[SpreadConstraint], view: NodeFilterResult, having: Mask
) -> Mask:
    """
    Return the rows where one more pod would make some required constraint too uneven.

    `having` are the live rows that have every label.
    """
    found = np.zeros_like(having)
    for spread in spreads:
        domain = table.domains.of(spread.key)
        counted = _counted(spread, view, having)
        totals = domain.total(table.pod_counts.count(spread.pod_selector), counted)
        present = domain.present(counted)
        enough = int(present.sum()) >= spread.min_domains
        least = int(totals[present].min()) if enough and present.any() else 0
        too_many = totals + int(spread.counts_itself) - least > spread.max_skew
        found[having] |= too_many[domain.of[having]]
    return found


def penalties(
    table: NodeTable,
    spreads: Sequence[SpreadConstraint],
    view: NodeFilterResult,
    feasible: Mask,
    *,
    need_labels: bool,
) -> tuple[Ints, Mask]:
    """Return how full each feasible row's domains are, and the feasible rows that lack a label."""
    having = labelled(table, spreads)
    lacking = feasible & ~having if need_labels else np.zeros_like(feasible)
    among = feasible & ~lacking
    total: Floats = np.zeros(len(feasible), np.float64)
    for spread in spreads:
        domain = table.domains.of(spread.key)
        here = among & (domain.of != OUTSIDE)
        counts = table.pod_counts.count(spread.pod_selector)
        if spread.key == HOSTNAME:
            weight = np.log(int(among.sum()) + 2)
            counted_pods = counts[here]
        else:
            present = domain.present(here)
            weight = np.log(int(present.sum()) + 2)
            counted = _counted(spread, view, having if need_labels else table.rows.alive) & (
                domain.of != OUTSIDE
            )
            counted_pods = domain.total(counts, counted)[domain.of[here]]
        total[here] += counted_pods * weight + (spread.max_skew - 1)
    return np.floor(total + 0.5).astype(np.int64), lacking


def _counted(spread: SpreadConstraint, view: NodeFilterResult, among: Mask) -> Mask:
    counted = among.copy()
    if spread.honours_affinity:
        counted &= view.matches
    if spread.honours_taints:
        counted &= view.tolerates
    return counted
