"""
Which topology domain each node is in, as small numbers.

Only label keys that some rule asks for are tracked. A domain keeps its number for as long as the key is
tracked, even when its last node leaves, so that counts by domain stay comparable.
"""

from collections.abc import Mapping

import numpy as np

from karpenter_local.scheduler.rows import Ints, Mask, Rows

OUTSIDE = -1
"""The domain of a node that lacks the label."""


class Domain:
    """The values of one label key: a number per value, a number per row."""

    def __init__(self, rows: Rows) -> None:
        self._of = rows.ints(fill=OUTSIDE)
        self._numbers: dict[str, int] = {}

    @property
    def of(self) -> Ints:
        """Return each row's domain; ``OUTSIDE`` where the node lacks the label."""
        return self._of.data

    @property
    def width(self) -> int:
        return len(self._numbers)

    def put(self, row: int, value: str | None) -> None:
        self._of.data[row] = OUTSIDE if value is None else self._numbers.setdefault(value, len(self._numbers))

    def total(self, counts: Ints, among: Mask) -> Ints:
        """Return `counts` summed by domain over the rows in `among`; none of them may be outside."""
        sums = np.bincount(self.of[among], weights=counts[among], minlength=self.width)
        return sums.astype(np.int64)

    def present(self, among: Mask) -> Mask:
        """Return which domains have a row in `among`; none of them may be outside."""
        found = np.zeros(self.width, np.bool_)
        found[self.of[among]] = True
        return found


class Domains:
    """Every tracked label key."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._labels: dict[int, Mapping[str, str]] = {}
        self._by_key: dict[str, Domain] = {}

    def of(self, key: str) -> Domain:
        """Return the domains of label `key`, tracking it from now on."""
        domain = self._by_key.get(key)
        if domain is None:
            domain = self._by_key[key] = Domain(self._rows)
            for row, labels in self._labels.items():
                domain.put(row, labels.get(key))
        return domain

    def put(self, row: int, labels: Mapping[str, str]) -> None:
        self._labels[row] = labels
        for key, domain in self._by_key.items():
            domain.put(row, labels.get(key))

    def drop(self, row: int) -> None:
        self._labels.pop(row, None)
        for domain in self._by_key.values():
            domain.put(row, None)
