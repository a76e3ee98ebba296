"""
How many pods of each selector are on each node, kept up to date one pod at a time.

Pods are distinguished by namespace and labels only, so a thousand replicas cost one entry. A selector is
counted from the first time it is asked for; adding or removing a pod then changes only the selectors that
match it. :class:`RuleCarriers` does the same for the affinity rules of placed pods about incoming ones.

Knows rows, not nodes; callers sum counts over topology domains.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

import msgspec
import numpy as np

from karpenter_local.scheduler.podselector import PodLabels, PodSelector
from karpenter_local.scheduler.rows import Ints, NodeColumn, Rows

MAX_SELECTORS = 2048
"""Selectors counted at a time; the least recently used is dropped, and counted again when needed."""

MAX_LABEL_SETS = 65536
"""Label sets of incoming pods whose rules are cached at a time."""

NamespaceLabels = Mapping[str, Mapping[str, str]]

_EVERYWHERE = ""


class _SelectorCount:
    """The running count of one selector."""

    def __init__(self, pod_selector: PodSelector, column: NodeColumn[np.int64]) -> None:
        self.pod_selector = pod_selector
        self.column = column


class PodCounts:
    """Counts of pods on each row, by label set and by each selector that was asked for."""

    def __init__(self, rows: Rows, namespaces: NamespaceLabels) -> None:
        self._rows = rows
        self._namespaces = namespaces
        self._placed: dict[str, dict[PodLabels, dict[int, list[int]]]] = {}
        """namespace -> identity -> row -> [pods, those not being deleted]."""
        self._counted: OrderedDict[PodSelector, _SelectorCount] = OrderedDict()
        self._near: dict[str, dict[PodSelector, _SelectorCount]] = {}
        """Counts by namespace, so that a pod is compared only with the selectors that could match it."""
        self._reach: dict[PodLabels, list[_SelectorCount]] = {}

    def add(self, pod_labels: PodLabels, row: int, *, living: bool, by: int = 1) -> None:
        """Count one more pod (or `by`) at `row`."""
        at_rows = self._placed.setdefault(pod_labels.namespace, {}).setdefault(pod_labels, {})
        counts = at_rows.setdefault(row, [0, 0])
        counts[0] += by
        counts[1] += by if living else 0
        for counted in self._reached_by(pod_labels):
            if living or not counted.pod_selector.living:
                counted.column.data[row] += by
        if counts[0] == 0:
            in_namespace = self._placed[pod_labels.namespace]
            del in_namespace[pod_labels][row]
            if not in_namespace[pod_labels]:
                del in_namespace[pod_labels]
                self._reach.pop(pod_labels, None)

    def remove(self, pod_labels: PodLabels, row: int, *, living: bool) -> None:
        """Count one pod less at `row`."""
        self.add(pod_labels, row, living=living, by=-1)

    def count(self, pod_selector: PodSelector) -> Ints:
        """Return how many selected pods are on each row. Read it at once: it changes with the next pod."""
        counted = self._counted.get(pod_selector)
        if counted is None:
            counted = self._begin(pod_selector)
        self._counted.move_to_end(pod_selector)
        return counted.column.data

    def forget_namespace_rules(self) -> None:
        """Drop every count that may depend on the labels of namespaces, because some changed."""
        for pod_selector in [
            pod_selector for pod_selector in self._counted if pod_selector.namespaces is None
        ]:
            self._drop(pod_selector)

    def _reached_by(self, pod_labels: PodLabels) -> list[_SelectorCount]:
        reached = self._reach.get(pod_labels)
        if reached is None:
            nearby = (
                *self._near.get(pod_labels.namespace, {}).values(),
                *self._near.get(_EVERYWHERE, {}).values(),
            )
            reached = [t for t in nearby if t.pod_selector.includes(pod_labels, self._namespaces)]
            self._reach[pod_labels] = reached
        return reached

    def _begin(self, pod_selector: PodSelector) -> _SelectorCount:
        counted = self._counted[pod_selector] = _SelectorCount(pod_selector, self._rows.ints())
        for namespace in self._places(pod_selector):
            self._near.setdefault(namespace, {})[pod_selector] = counted
        which = 1 if pod_selector.living else 0
        for pod_labels, at_rows in self._candidates(pod_selector):
            if not pod_selector.includes(pod_labels, self._namespaces):
                continue
            if pod_labels in self._reach:
                self._reach[pod_labels].append(counted)
            for row, counts in at_rows.items():
                counted.column.data[row] += counts[which]
        if len(self._counted) > MAX_SELECTORS:
            self._drop(next(iter(self._counted)))
        return counted

    def _candidates(self, pod_selector: PodSelector) -> Iterator[tuple[PodLabels, dict[int, list[int]]]]:
        bounds = pod_selector.namespaces
        for namespace in self._placed if bounds is None else sorted(bounds):
            yield from self._placed.get(namespace, {}).items()

    def _drop(self, pod_selector: PodSelector) -> None:
        counted = self._counted.pop(pod_selector)
        for namespace in self._places(pod_selector):
            self._near[namespace].pop(pod_selector, None)
        for reached in self._reach.values():
            if counted in reached:
                reached.remove(counted)

    def _places(self, pod_selector: PodSelector) -> list[str]:
        bounds = pod_selector.namespaces
        return [_EVERYWHERE] if bounds is None else sorted(bounds)


class AffinityRule(msgspec.Struct, frozen=True):
    """An affinity or anti-affinity term of a placed pod, within one topology."""

    pod_selector: PodSelector
    key: str
    """The topology: rows with the same value of this node label."""


R = TypeVar("R", bound=AffinityRule)


class RuleCarriers(Generic[R]):
    """Counts of pods on each row by their rules; looked up by the labels of the incoming pod."""

    def __init__(self, rows: Rows, namespaces: NamespaceLabels) -> None:
        self._rows = rows
        self._namespaces = namespaces
        self._columns: dict[R, NodeColumn[np.int64]] = {}
        self._totals: dict[R, int] = {}
        self._near: dict[str, dict[R, None]] = {}
        self._reach: dict[PodLabels, tuple[R, ...]] = {}
        """Rules that speak of an identity, as last asked; emptied whenever a rule comes or goes."""

    def add(self, rule: R, row: int, *, by: int = 1) -> None:
        """Count one more carrier of `rule` (or `by`) at `row`."""
        column = self._columns.get(rule)
        if column is None:
            column = self._columns[rule] = self._rows.ints()
            self._totals[rule] = 0
            for namespace in self._places(rule):
                self._near.setdefault(namespace, {})[rule] = None
            self._reach.clear()
        column.data[row] += by
        self._totals[rule] += by
        if self._totals[rule] == 0:
            del self._columns[rule], self._totals[rule]
            for namespace in self._places(rule):
                del self._near[namespace][rule]
            self._reach.clear()

    def remove(self, rule: R, row: int) -> None:
        """Count one carrier less at `row`."""
        self.add(rule, row, by=-1)

    def about(self, pod_labels: PodLabels) -> Iterator[tuple[R, Ints]]:
        """Yield each rule that speaks of `pod_labels`, with its carriers per row."""
        rules = self._reach.get(pod_labels)
        if rules is None:
            if len(self._reach) >= MAX_LABEL_SETS:
                self._reach.clear()
            nearby = (*self._near.get(pod_labels.namespace, ()), *self._near.get(_EVERYWHERE, ()))
            rules = tuple(r for r in nearby if r.pod_selector.includes(pod_labels, self._namespaces))
            self._reach[pod_labels] = rules
        for rule in rules:
            yield rule, self._columns[rule].data

    def forget_namespace_rules(self) -> None:
        """Compare anew, because labels of namespaces changed."""
        self._reach.clear()

    def _places(self, rule: R) -> list[str]:
        bounds = rule.pod_selector.namespaces
        return [_EVERYWHERE] if bounds is None else sorted(bounds)
