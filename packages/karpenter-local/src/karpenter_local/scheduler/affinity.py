"""
Pod affinity and anti-affinity: terms of the incoming pod about placed pods, and of placed pods about it.

Required affinity needs a matching pod in the node's domain for every term; the first of a group that
matches itself may start alone. Required anti-affinity holds both ways: the terms of the incoming pod
against placed pods, and theirs against it. Preferences of both sides add up to a score.
"""

from collections.abc import Iterable

import numpy as np

from karpenter_local.scheduler.domains import OUTSIDE
from karpenter_local.scheduler.nodetable import NodeTable
from karpenter_local.scheduler.podcounts import AffinityRule
from karpenter_local.scheduler.podinfo import PodInfo
from karpenter_local.scheduler.podselector import PodLabels
from karpenter_local.scheduler.rows import Ints, Mask


def near(table: NodeTable, pod_info: PodInfo) -> Mask:
    """Return the rows whose domains hold the pods that `pod_info` must be near to."""
    labelled = table.rows.alive.copy()
    for rule in pod_info.near:
        labelled &= table.domains.of(rule.key).of != OUTSIDE
    if not pod_info.near:
        return labelled
    pod_selector = pod_info.near[0].pod_selector
    counts = table.pod_counts.count(pod_selector)
    found = labelled.copy()
    anywhere = False
    for rule in pod_info.near:
        held = _held(table, rule.key, counts)
        anywhere = anywhere or bool(held.any())
        found &= held
    if not anywhere and pod_selector.includes(pod_info.pod_labels, table.namespaces):
        return labelled  # the first pod of a group that matches its own terms may go anywhere
    return found


def unwelcome(table: NodeTable, rules: Iterable[AffinityRule]) -> Mask:
    """Return the rows whose domains hold pods that one of the incoming pod's rules keeps away from."""
    found = np.zeros_like(table.rows.alive)
    for rule in rules:
        found |= _held(table, rule.key, table.pod_counts.count(rule.pod_selector))
    return found


def refused(table: NodeTable, pod_labels: PodLabels) -> Mask:
    """Return the rows whose domains hold pods that keep away from the incoming pod."""
    found = np.zeros_like(table.rows.alive)
    for rule, counts in table.repelling.about(pod_labels):
        found |= _held(table, rule.key, counts)
    return found


def affinity_score(table: NodeTable, pod_info: PodInfo) -> Ints | None:
    """Return the sum of preferences of both sides for each row; None where no pod has any."""
    total: Ints | None = None
    mine = ((rule, table.pod_counts.count(rule.pod_selector)) for rule in pod_info.weighted_rules)
    for rule, counts in (*mine, *table.drawing.about(pod_info.pod_labels)):
        domain = table.domains.of(rule.key)
        among = table.rows.alive & (domain.of != OUTSIDE)
        carried_rules = np.zeros(table.rows.capacity, np.int64)
        carried_rules[among] = domain.total(counts, among)[domain.of[among]] * rule.weight
        total = carried_rules if total is None else total + carried_rules
    return total


def _held(table: NodeTable, key: str, counts: Ints) -> Mask:
    domain = table.domains.of(key)
    among = table.rows.alive & (domain.of != OUTSIDE)
    found = np.zeros_like(table.rows.alive)
    found[among] = (domain.total(counts, among) > 0)[domain.of[among]]
    return found
