"""
Filtering: the nodes that are feasible for a pod, and why each of the others is not.

Runs every filter in its fixed order. The fast answer is a mask of feasible rows; the reasons are counted only
when there is no such row, for the message of the pod's condition.
"""

from collections import Counter
from collections.abc import Iterator

import msgspec
import numpy as np

from karpenter_local.scheduler import affinity, reasons, spread
from karpenter_local.scheduler.nodefilters import NodeFilterResult
from karpenter_local.scheduler.nodetable import NodeTable
from karpenter_local.scheduler.podinfo import PodInfo
from karpenter_local.scheduler.reasons import Filter
from karpenter_local.scheduler.rows import Mask
from karpenter_local.scheduler.storage import PodVolumeClaims

_ROOM_FILTERS = frozenset({Filter.PORTS, Filter.RESOURCES})


class FilterRefusal(msgspec.Struct, frozen=True):
    """One filter's refusal of some rows."""

    filter: Filter
    words: str
    rows: Mask
    final: bool = False
    """Whether evicting pods from the node could not change it."""


class FitError(msgspec.Struct, frozen=True):
    """No node will do."""

    words: Counter[str]
    """How many nodes each refusal was given for; a node may be short of several resources."""
    filters: frozenset[Filter]
    open_rows: Mask
    """Rows that evictions might open."""
    everywhere: str = ""
    """What stands in the way wherever the pod would go."""
    reserved: bool = False
    """Whether a node has room, but keeps it for pods that were nominated for it."""


def feasible(table: NodeTable, pod_info: PodInfo, pod_volumes: PodVolumeClaims) -> Mask:
    if pod_volumes.refusal:
        return np.zeros_like(table.rows.alive)
    view = table.view(pod_info.placement)
    left = table.rows.alive & view.allowed
    for refused_by in _refusals(table, pod_info, pod_volumes, view, left):
        left &= ~refused_by.rows
        if not left.any():
            break
    return left


def feasible_at(table: NodeTable, pod_info: PodInfo, pod_volumes: PodVolumeClaims, row: int) -> bool:
    """Say whether the pod can go to one row now; cheaper than asking about all of them."""
    view = table.view(pod_info.placement)
    if pod_volumes.refusal or not (
        table.rows.alive[row] and view.allowed[row] and table.node_resources.fits_at(row, pod_info)
    ):
        return False
    only = np.zeros_like(table.rows.alive)
    only[row] = True
    beyond_room = (
        o for o in _refusals(table, pod_info, pod_volumes, view, only) if o.filter not in _ROOM_FILTERS
    )
    return not any(refused_by.rows[row] for refused_by in beyond_room)


def refusal(table: NodeTable, pod_info: PodInfo, pod_volumes: PodVolumeClaims) -> FitError:
    alive = table.rows.alive
    if pod_volumes.refusal:
        return FitError(
            Counter(), frozenset({Filter.VOLUME_BINDING}), np.zeros_like(alive), pod_volumes.refusal
        )
    view = table.view(pod_info.placement)
    words: Counter[str] = Counter()
    filters: set[Filter] = set()
    for row in (alive & ~view.allowed).nonzero()[0].tolist():
        who, why = view.refusals[row]
        filters.add(who)
        words[why] += 1
    left = alive & view.allowed
    open_rows = np.zeros_like(alive)
    for refused_by in _refusals(table, pod_info, pod_volumes, view, left.copy()):
        hit = left & refused_by.rows
        if not hit.any():
            continue
        filters.add(refused_by.filter)
        if refused_by.filter is Filter.RESOURCES:
            words.update(_shortages(table, pod_info, hit))
            open_rows |= hit & table.node_resources.offers_enough(pod_info)
        else:
            words[refused_by.words] += int(hit.sum())
            open_rows |= hit if not refused_by.final else np.zeros_like(hit)
        left &= ~hit
    # Where there is no node at all, no filter has refused one, and any change may help.
    return FitError(words, frozenset(filters or Filter), open_rows)


def refusal_at(table: NodeTable, pod_info: PodInfo, pod_volumes: PodVolumeClaims, row: int) -> list[str]:
    if pod_volumes.refusal:
        return [pod_volumes.refusal]
    view = table.view(pod_info.placement)
    if row in view.refusals:
        return [view.refusals[row][1]]
    only = np.zeros_like(table.rows.alive)
    only[row] = True
    for refused_by in _refusals(table, pod_info, pod_volumes, view, only):
        if refused_by.rows[row]:
            shortages = [*_shortages(table, pod_info, only)]
            return shortages if refused_by.filter is Filter.RESOURCES else [refused_by.words]
    return []


def _refusals(
    table: NodeTable, pod_info: PodInfo, pod_volumes: PodVolumeClaims, view: NodeFilterResult, left: Mask
) -> Iterator[FilterRefusal]:
    """Yield what each filter refuses, in order; `left` are the rows that still matter at that point."""
    if pod_info.ports:
        taken = np.zeros_like(left)
        taken[table.node_resources.ports_taken(pod_info.ports)] = True
        yield FilterRefusal(Filter.PORTS, reasons.PORTS_TAKEN, taken)
    yield FilterRefusal(Filter.RESOURCES, "", ~table.node_resources.fits(pod_info))
    if pod_volumes.volumes or pod_volumes.volume_gone or pod_volumes.once_in_use:
        for who, words, rows in table.volumes.refusals(pod_volumes, left):
            final = who in {Filter.VOLUME_BINDING, Filter.VOLUME_ZONE}
            yield FilterRefusal(who, words, rows, final=final)
    yield from _spread(table, pod_info, view)
    yield from _affinity(table, pod_info)


def _spread(table: NodeTable, pod_info: PodInfo, view: NodeFilterResult) -> Iterator[FilterRefusal]:
    if not pod_info.hard_spread:
        return
    having = spread.labelled(table, pod_info.hard_spread)
    yield FilterRefusal(Filter.SPREAD, reasons.SPREAD_LABEL_MISSING, ~having, final=True)
    skewed = spread.skewed(table, pod_info.hard_spread, view, having)
    yield FilterRefusal(Filter.SPREAD, reasons.SPREAD_SKEWED, skewed)


def _affinity(table: NodeTable, pod_info: PodInfo) -> Iterator[FilterRefusal]:
    if pod_info.near:
        near = affinity.near(table, pod_info)
        yield FilterRefusal(Filter.POD_AFFINITY, reasons.AFFINITY_UNMET, ~near, final=True)
    if pod_info.apart:
        unwelcome = affinity.unwelcome(table, pod_info.apart)
        yield FilterRefusal(Filter.POD_AFFINITY, reasons.ANTI_AFFINITY_UNMET, unwelcome)
    refused = affinity.refused(table, pod_info.pod_labels)
    yield FilterRefusal(Filter.POD_AFFINITY, reasons.OTHERS_ANTI_AFFINITY, refused)


def _shortages(table: NodeTable, pod_info: PodInfo, hit: Mask) -> Counter[str]:
    found: Counter[str] = Counter()
    for words, short in table.node_resources.shortages(pod_info):
        count = int((hit & short).sum())
        if count:
            found[words] += count
    return found
