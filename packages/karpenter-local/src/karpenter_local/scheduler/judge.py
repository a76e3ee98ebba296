"""
Which nodes a pod could go to, and what each of the others has against it.

Asks every filter in its fixed order. The fast answer is a mask of feasible rows; the refusals behind it are
counted only when there is no such row, because then somebody will read them.
"""

from collections import Counter
from collections.abc import Iterator

import msgspec
import numpy as np

from karpenter_local.scheduler import affinity, reasons, spread
from karpenter_local.scheduler.demand import Demand
from karpenter_local.scheduler.reasons import Filter
from karpenter_local.scheduler.rows import Mask
from karpenter_local.scheduler.static import View
from karpenter_local.scheduler.storage import Survey
from karpenter_local.scheduler.table import Table

_ROOM = frozenset({Filter.PORTS, Filter.RESOURCES})


class Objection(msgspec.Struct, frozen=True):
    """One filter's refusal of some rows."""

    filter: Filter
    words: str
    rows: Mask
    final: bool = False
    """Whether evicting pods from the node could not change it."""


class Refused(msgspec.Struct, frozen=True):
    """No node will do."""

    words: Counter[str]
    """How many nodes each refusal was given for; a node may be short of several resources."""
    filters: frozenset[Filter]
    open_rows: Mask
    """Rows that evictions might open."""
    everywhere: str = ""
    """What stands in the way wherever the pod would go."""


def feasible(table: Table, demand: Demand, survey: Survey) -> Mask:
    """Return the rows where the pod can go now."""
    if survey.refusal:
        return np.zeros_like(table.rows.alive)
    view = table.view(demand.placement)
    left = table.rows.alive & view.allowed
    for objection in _objections(table, demand, survey, view, left):
        left &= ~objection.rows
        if not left.any():
            break
    return left


def feasible_at(table: Table, demand: Demand, survey: Survey, row: int) -> bool:
    """Say whether the pod can go to one row now; cheaper than asking about all of them."""
    view = table.view(demand.placement)
    if survey.refusal or not (
        table.rows.alive[row] and view.allowed[row] and table.stock.fits_at(row, demand)
    ):
        return False
    only = np.zeros_like(table.rows.alive)
    only[row] = True
    beyond_room = (o for o in _objections(table, demand, survey, view, only) if o.filter not in _ROOM)
    return not any(objection.rows[row] for objection in beyond_room)


def refusal(table: Table, demand: Demand, survey: Survey) -> Refused:
    """Return why no row is feasible."""
    alive = table.rows.alive
    if survey.refusal:
        return Refused(Counter(), frozenset({Filter.VOLUME_BINDING}), np.zeros_like(alive), survey.refusal)
    view = table.view(demand.placement)
    words: Counter[str] = Counter()
    filters: set[Filter] = set()
    for row in (alive & ~view.allowed).nonzero()[0].tolist():
        who, why = view.refusals[row]
        filters.add(who)
        words[why] += 1
    left = alive & view.allowed
    open_rows = np.zeros_like(alive)
    for objection in _objections(table, demand, survey, view, left.copy()):
        hit = left & objection.rows
        if not hit.any():
            continue
        filters.add(objection.filter)
        if objection.filter is Filter.RESOURCES:
            words.update(_shortages(table, demand, hit))
            open_rows |= hit & table.stock.offers_enough(demand)
        else:
            words[objection.words] += int(hit.sum())
            open_rows |= hit if not objection.final else np.zeros_like(hit)
        left &= ~hit
    # Where there is no node at all, no filter has refused one, and any change may help.
    return Refused(words, frozenset(filters or Filter), open_rows)


def refusal_at(table: Table, demand: Demand, survey: Survey, row: int) -> list[str]:
    """Return the words of the first filter that refuses one row."""
    if survey.refusal:
        return [survey.refusal]
    view = table.view(demand.placement)
    if row in view.refusals:
        return [view.refusals[row][1]]
    only = np.zeros_like(table.rows.alive)
    only[row] = True
    for objection in _objections(table, demand, survey, view, only):
        if objection.rows[row]:
            shortages = [*_shortages(table, demand, only)]
            return shortages if objection.filter is Filter.RESOURCES else [objection.words]
    return []


def _objections(table: Table, demand: Demand, survey: Survey, view: View, left: Mask) -> Iterator[Objection]:
    """Yield what each filter refuses, in order; `left` are the rows that still matter at that point."""
    if demand.ports:
        taken = np.zeros_like(left)
        taken[table.stock.ports_taken(demand.ports)] = True
        yield Objection(Filter.PORTS, reasons.PORTS_TAKEN, taken)
    yield Objection(Filter.RESOURCES, "", ~table.stock.fits(demand))
    if survey.volumes or survey.volume_gone or survey.once_in_use:
        for who, words, rows in table.volumes.refusals(survey, left):
            final = who in {Filter.VOLUME_BINDING, Filter.VOLUME_ZONE}
            yield Objection(who, words, rows, final=final)
    yield from _spread(table, demand, view)
    yield from _affinity(table, demand)


def _spread(table: Table, demand: Demand, view: View) -> Iterator[Objection]:
    if not demand.hard_spread:
        return
    having = spread.labelled(table, demand.hard_spread)
    yield Objection(Filter.SPREAD, reasons.SPREAD_LABEL_MISSING, ~having, final=True)
    skewed = spread.skewed(table, demand.hard_spread, view, having)
    yield Objection(Filter.SPREAD, reasons.SPREAD_SKEWED, skewed)


def _affinity(table: Table, demand: Demand) -> Iterator[Objection]:
    if demand.near:
        near = affinity.near(table, demand)
        yield Objection(Filter.POD_AFFINITY, reasons.AFFINITY_UNMET, ~near, final=True)
    if demand.apart:
        unwelcome = affinity.unwelcome(table, demand.apart)
        yield Objection(Filter.POD_AFFINITY, reasons.ANTI_AFFINITY_UNMET, unwelcome)
    refused = affinity.refused(table, demand.identity)
    yield Objection(Filter.POD_AFFINITY, reasons.OTHERS_ANTI_AFFINITY, refused)


def _shortages(table: Table, demand: Demand, hit: Mask) -> Counter[str]:
    found: Counter[str] = Counter()
    for words, short in table.stock.shortages(demand):
        count = int((hit & short).sum())
        if count:
            found[words] += count
    return found
