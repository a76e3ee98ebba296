"""
How many pods of each crowd are on each node, kept up to date one pod at a time.

Pods are told apart by identity only, so a thousand replicas cost one entry. A crowd is counted from the
moment somebody asks for it; adding or removing a pod then touches only the crowds that include it. The same
trick, the other way around, keeps :class:`Carriers`: the rules that placed pods impose on newcomers.

Knows rows, not nodes; domains of a topology are summed by whoever asks.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

import msgspec
import numpy as np

from karpenter_local.scheduler.crowd import Crowd, Identity
from karpenter_local.scheduler.rows import Column, Ints, Rows

MOST_TALLIES = 2048
"""Crowds counted at a time; the one asked for longest ago is dropped, and counted anew if asked for again."""

MOST_IDENTITIES = 65536
"""Newcomers whose rules are remembered at a time."""

NamespaceLabels = Mapping[str, Mapping[str, str]]

_EVERYWHERE = ""


class _Tally:
    """The running count of one crowd."""

    def __init__(self, crowd: Crowd, column: Column[np.int64]) -> None:
        self.crowd = crowd
        self.column = column


class Census:
    """Where the pods of every identity are, and where those of the crowds asked for."""

    def __init__(self, rows: Rows, namespaces: NamespaceLabels) -> None:
        self._rows = rows
        self._namespaces = namespaces
        self._placed: dict[str, dict[Identity, dict[int, list[int]]]] = {}
        """namespace -> identity -> row -> [pods, those not being deleted]."""
        self._tallies: OrderedDict[Crowd, _Tally] = OrderedDict()
        self._near: dict[str, dict[Crowd, _Tally]] = {}
        """Tallies by namespace, so that a newcomer is compared only with those that could include it."""
        self._reach: dict[Identity, list[_Tally]] = {}

    def add(self, identity: Identity, row: int, *, living: bool, by: int = 1) -> None:
        """Count one more pod (or `by`) at `row`."""
        at_rows = self._placed.setdefault(identity.namespace, {}).setdefault(identity, {})
        counts = at_rows.setdefault(row, [0, 0])
        counts[0] += by
        counts[1] += by if living else 0
        for tally in self._reached_by(identity):
            if living or not tally.crowd.living:
                tally.column.data[row] += by
        if counts[0] == 0:
            self._forget(identity, row)

    def remove(self, identity: Identity, row: int, *, living: bool) -> None:
        """Count one pod less at `row`."""
        self.add(identity, row, living=living, by=-1)

    def count(self, crowd: Crowd) -> Ints:
        """Return how many pods of `crowd` are on each row. Read it at once: it changes with the next pod."""
        tally = self._tallies.get(crowd)
        if tally is None:
            tally = self._begin(crowd)
        self._tallies.move_to_end(crowd)
        return tally.column.data

    def forget_namespace_rules(self) -> None:
        """Drop every count that may depend on the labels of namespaces, because some changed."""
        for crowd in [crowd for crowd in self._tallies if crowd.namespaces is None]:
            self._drop(crowd)

    def _reached_by(self, identity: Identity) -> list[_Tally]:
        reached = self._reach.get(identity)
        if reached is None:
            nearby = (
                *self._near.get(identity.namespace, {}).values(),
                *self._near.get(_EVERYWHERE, {}).values(),
            )
            reached = [t for t in nearby if t.crowd.includes(identity, self._namespaces)]
            self._reach[identity] = reached
        return reached

    def _forget(self, identity: Identity, row: int) -> None:
        in_namespace = self._placed[identity.namespace]
        del in_namespace[identity][row]
        if not in_namespace[identity]:
            del in_namespace[identity]
            self._reach.pop(identity, None)

    def _begin(self, crowd: Crowd) -> _Tally:
        tally = self._tallies[crowd] = _Tally(crowd, self._rows.ints())
        for namespace in self._places(crowd):
            self._near.setdefault(namespace, {})[crowd] = tally
        which = 1 if crowd.living else 0
        for identity, at_rows in self._candidates(crowd):
            if not crowd.includes(identity, self._namespaces):
                continue
            if identity in self._reach:
                self._reach[identity].append(tally)
            for row, counts in at_rows.items():
                tally.column.data[row] += counts[which]
        if len(self._tallies) > MOST_TALLIES:
            self._drop(next(iter(self._tallies)))
        return tally

    def _candidates(self, crowd: Crowd) -> Iterator[tuple[Identity, dict[int, list[int]]]]:
        bounds = crowd.namespaces
        for namespace in self._placed if bounds is None else sorted(bounds):
            yield from self._placed.get(namespace, {}).items()

    def _drop(self, crowd: Crowd) -> None:
        tally = self._tallies.pop(crowd)
        for namespace in self._places(crowd):
            self._near[namespace].pop(crowd, None)
        for reached in self._reach.values():
            if tally in reached:
                reached.remove(tally)

    def _places(self, crowd: Crowd) -> list[str]:
        bounds = crowd.namespaces
        return [_EVERYWHERE] if bounds is None else sorted(bounds)


class Rule(msgspec.Struct, frozen=True):
    """What a placed pod holds for or against pods of a crowd, within one topology."""

    crowd: Crowd
    key: str
    """The topology: rows with the same value of this node label."""


R = TypeVar("R", bound=Rule)


class Carriers(Generic[R]):
    """How many pods on each row carry each rule; asked from the newcomer's side."""

    def __init__(self, rows: Rows, namespaces: NamespaceLabels) -> None:
        self._rows = rows
        self._namespaces = namespaces
        self._columns: dict[R, Column[np.int64]] = {}
        self._totals: dict[R, int] = {}
        self._near: dict[str, dict[R, None]] = {}
        self._reach: dict[Identity, tuple[R, ...]] = {}
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

    def about(self, identity: Identity) -> Iterator[tuple[R, Ints]]:
        """Yield each rule that speaks of `identity`, with its carriers per row."""
        rules = self._reach.get(identity)
        if rules is None:
            if len(self._reach) >= MOST_IDENTITIES:
                self._reach.clear()
            nearby = (*self._near.get(identity.namespace, ()), *self._near.get(_EVERYWHERE, ()))
            rules = tuple(r for r in nearby if r.crowd.includes(identity, self._namespaces))
            self._reach[identity] = rules
        for rule in rules:
            yield rule, self._columns[rule].data

    def forget_namespace_rules(self) -> None:
        """Compare anew, because labels of namespaces changed."""
        self._reach.clear()

    def _places(self, rule: R) -> list[str]:
        bounds = rule.crowd.namespaces
        return [_EVERYWHERE] if bounds is None else sorted(bounds)
