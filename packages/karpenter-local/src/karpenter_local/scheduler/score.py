"""
Which of several feasible nodes is best: the scheduler's default scores and their weights.

Each score is brought to the range 0 to 100 over the feasible nodes before it is weighted, so the scores are
only comparable within one decision. Images are not simulated, so where they lie counts for nothing.
"""

import numpy as np
import numpy.typing as npt

from karpenter.core.model.resources import CPU, MEMORY
from karpenter_local.scheduler import affinity, spread
from karpenter_local.scheduler.nodetable import NodeTable
from karpenter_local.scheduler.podinfo import PodInfo
from karpenter_local.scheduler.rows import Ints, Mask

BEST_SCORE = 100

# The default weights of kube-scheduler's plugins:
# https://github.com/kubernetes/kubernetes/blob/master/pkg/scheduler/apis/config/v1/default_plugins.go
TAINTS_WEIGHT = 3
NODE_AFFINITY_WEIGHT = 2
SPREAD_WEIGHT = 2
POD_AFFINITY_WEIGHT = 2
LEAST_LOADED_WEIGHT = 1
BALANCED_WEIGHT = 1

Floats = npt.NDArray[np.float64]


def scores(table: NodeTable, pod_info: PodInfo, feasible: Mask) -> Ints:
    """Return the total score of every feasible row, in row order; the highest is best."""
    at = feasible.nonzero()[0]
    view = table.view(pod_info.placement)
    total = LEAST_LOADED_WEIGHT * _least_loaded(table, pod_info, at)
    if pod_info.requests:
        total += BALANCED_WEIGHT * _balanced(table, pod_info, at)
    total += TAINTS_WEIGHT * _of_largest(view.discouraged[at], reverse=True)
    if pod_info.placement.preferences:
        total += NODE_AFFINITY_WEIGHT * _of_largest(view.preferred[at])
    if pod_info.soft_spread:
        total += SPREAD_WEIGHT * _spread(table, pod_info, feasible, at)
    affinity_score = affinity.affinity_score(table, pod_info)
    if affinity_score is not None:
        total += POD_AFFINITY_WEIGHT * _of_range(affinity_score[at])
    return total


def _least_loaded(table: NodeTable, pod_info: PodInfo, at: Ints) -> Ints:
    """Score the free share of cpu and memory after the pod, averaged over those that the node has at all."""
    total = np.zeros(len(at), np.int64)
    counted = np.zeros(len(at), np.int64)
    for which, name in enumerate((CPU, MEMORY)):
        offered = table.node_resources.offered(name)[at]
        used = table.node_resources.load(which)[at] + pod_info.load[which]
        has = offered > 0
        counted += has
        spare = np.maximum(offered - used, 0)
        total += np.where(has, spare * BEST_SCORE // np.maximum(offered, 1), 0)
    return total // np.maximum(counted, 1)


def _balanced(table: NodeTable, pod_info: PodInfo, at: Ints) -> Ints:
    """Score how alike the used shares of cpu and memory are after the pod."""
    wants = dict(pod_info.requests)
    shares: list[Floats] = []
    has = np.ones(len(at), np.bool_)
    for name in (CPU, MEMORY):
        offered = table.node_resources.offered(name)[at]
        used = offered - table.node_resources.left(name)[at] + wants.get(name, 0)
        has &= offered > 0
        shares.append(np.minimum(used / np.maximum(offered, 1), 1.0))
    apart = np.where(has, np.abs(shares[0] - shares[1]) / 2, 0.0)
    return ((1.0 - apart) * BEST_SCORE).astype(np.int64)


def _spread(table: NodeTable, pod_info: PodInfo, feasible: Mask, at: Ints) -> Ints:
    view = table.view(pod_info.placement)
    counted_pods, lacking = spread.penalties(
        table, pod_info.soft_spread, view, feasible, need_labels=not pod_info.default_spread
    )
    among = ~lacking[at]
    penalty = counted_pods[at]
    if not among.any():
        return np.zeros(len(at), np.int64)
    most, least = int(penalty[among].max()), int(penalty[among].min())
    if most == 0:
        return np.where(among, BEST_SCORE, 0).astype(np.int64)
    return np.where(among, BEST_SCORE * (most + least - penalty) // most, 0).astype(np.int64)


def _of_largest(values: Ints, *, reverse: bool = False) -> Ints:
    """Scale so that the largest value is 100; reversed, so that it is 0 and zero is 100."""
    largest = int(values.max(initial=0))
    if largest == 0:
        return np.full(len(values), BEST_SCORE if reverse else 0, np.int64)
    scaled = values * BEST_SCORE // largest
    return BEST_SCORE - scaled if reverse else scaled


def _of_range(values: Ints) -> Ints:
    """Scale so that the least value is 0 and the largest 100; all alike are 0."""
    most, least = int(values.max()), int(values.min())
    if most == least:
        return np.zeros(len(values), np.int64)
    return ((values - least) / (most - least) * BEST_SCORE).astype(np.int64)
