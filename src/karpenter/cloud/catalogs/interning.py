"""
One value for each requirement, however many types and offerings state it.

A catalogue says the same few things thousands of times: this zone, that capacity
type, eight cores. Made once and shared, they cost little memory, and whoever compares
them sees at once that they are the same.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from karpenter.core.model.labels import Requirement
from karpenter.core.model.requirements import Requirements

if TYPE_CHECKING:
    from collections.abc import Mapping


class Interner:
    """Makes requirements from label values, each of them once."""

    def __init__(self) -> None:
        self._single: dict[tuple[str, tuple[str, ...]], Requirement] = {}
        self._sets: dict[tuple[tuple[str, tuple[str, ...]], ...], Requirements] = {}

    def requirement(self, key: str, values: tuple[str, ...]) -> Requirement:
        """Return that `key` has one of `values`; with none, that it does not exist."""
        found = self._single.get((key, values))
        if found is None:
            found = Requirement(sys.intern(key), frozenset(map(sys.intern, values)))
            self._single[key, values] = found
        return found

    def requirements(self, labels: Mapping[str, tuple[str, ...]]) -> Requirements:
        """Return a set that few share: one dictionary each, of shared requirements."""
        return Requirements({key: self.requirement(key, values) for key, values in labels.items()})

    def shared(self, labels: Mapping[str, tuple[str, ...]]) -> Requirements:
        """Return a set that many share, such as the requirements of an offering."""
        identity = tuple(labels.items())
        found = self._sets.get(identity)
        if found is None:
            found = self._sets[identity] = self.requirements(labels)
        return found
