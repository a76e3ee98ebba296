"""
Affinity between pods: what the newcomer asks of those already placed, and what they ask of it.

Required affinity wants a matching pod in the node's domain for every term; the first of a group that matches
itself may start alone. Required anti-affinity holds both ways: the newcomer's terms against placed pods, and
theirs against the newcomer. Preferences of both sides add up to a score.
"""

from collections.abc import Iterable

import numpy as np

from karpenter_local.scheduler.census import Rule
from karpenter_local.scheduler.crowd import Identity
from karpenter_local.scheduler.demand import Demand
from karpenter_local.scheduler.domains import OUTSIDE
from karpenter_local.scheduler.rows import Ints, Mask
from karpenter_local.scheduler.table import Table


def near(table: Table, demand: Demand) -> Mask:
    """Return the rows whose domains hold the pods that `demand` must be near to."""
    labelled = table.rows.alive.copy()
    for rule in demand.near:
        labelled &= table.domains.of(rule.key).of != OUTSIDE
    if not demand.near:
        return labelled
    crowd = demand.near[0].crowd
    counts = table.census.count(crowd)
    found = labelled.copy()
    anywhere = False
    for rule in demand.near:
        held = _held(table, rule.key, counts)
        anywhere = anywhere or bool(held.any())
        found &= held
    if not anywhere and crowd.includes(demand.identity, table.namespaces):
        return labelled  # nobody to be near to yet, and the next of its kind will be near to this one
    return found


def unwelcome(table: Table, rules: Iterable[Rule]) -> Mask:
    """Return the rows whose domains hold pods that one of the newcomer's rules keeps away from."""
    found = np.zeros_like(table.rows.alive)
    for rule in rules:
        found |= _held(table, rule.key, table.census.count(rule.crowd))
    return found


def refused(table: Table, identity: Identity) -> Mask:
    """Return the rows whose domains hold pods that keep away from the newcomer."""
    found = np.zeros_like(table.rows.alive)
    for rule, counts in table.repelling.about(identity):
        found |= _held(table, rule.key, counts)
    return found


def pull(table: Table, demand: Demand) -> Ints | None:
    """Return the sum of preferences of both sides for each row; None where nobody has any."""
    total: Ints | None = None
    mine = ((rule, table.census.count(rule.crowd)) for rule in demand.pulls)
    for rule, counts in (*mine, *table.drawing.about(demand.identity)):
        domain = table.domains.of(rule.key)
        among = table.rows.alive & (domain.of != OUTSIDE)
        drawn = np.zeros(table.rows.capacity, np.int64)
        drawn[among] = domain.total(counts, among)[domain.of[among]] * rule.weight
        total = drawn if total is None else total + drawn
    return total


def _held(table: Table, key: str, counts: Ints) -> Mask:
    """Return the rows in a domain of `key` where `counts` has any."""
    domain = table.domains.of(key)
    among = table.rows.alive & (domain.of != OUTSIDE)
    found = np.zeros_like(table.rows.alive)
    found[among] = (domain.total(counts, among) > 0)[domain.of[among]]
    return found
