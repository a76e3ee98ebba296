"""
What a claim can still become: interned states, and memoised steps between them.

A state is a template, its requirements so far, and the offerings they leave. Many
claims share a state, and many pods make the same step, so the exact and slow
requirement algebra runs once per different (state, requirements) pair.

A claim carries no list of instance types: a type survives exactly when it is in the
final state and fits the final usage, which the frontier of the state answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karpenter.core.model.requirements import Requirements

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from karpenter.core.scheduling.bits import Bits
    from karpenter.core.scheduling.templates import Template
    from karpenter.core.scheduling.universe import Amounts


class State:
    """A template narrowed by requirements. Compare by identity: equal states are one object."""

    __slots__ = (
        "_ceiling",
        "_cheapest",
        "_frontier",
        "_most",
        "_prices",
        "_rows",
        "_steps",
        "_values",
        "bits",
        "number",
        "requirements",
        "template",
    )

    def __init__(self, number: int, template: Template, requirements: Requirements, bits: Bits) -> None:
        self.number = number
        self.template = template
        self.requirements = requirements
        self.bits = bits
        self._steps: dict[Requirements, State | None] = {}
        self._frontier: Amounts | None = None
        self._rows: list[tuple[int, ...]] | None = None
        self._most: tuple[int, ...] | None = None
        self._ceiling: Amounts | None = None
        self._cheapest: tuple[Amounts, Amounts] | None = None
        self._values: dict[str, frozenset[str] | None] = {}
        self._prices: dict[str, dict[str, float]] = {}

    @property
    def frontier(self) -> Amounts:
        """The largest rooms that are still possible."""
        if self._frontier is None:
            self._frontier = self.template.universe.frontier(self.bits)
        return self._frontier

    @property
    def rows(self) -> list[tuple[int, ...]]:
        """The frontier as plain tuples, for one-off questions."""
        if self._rows is None:
            self._rows = [tuple(row) for row in self.frontier.tolist()]
        return self._rows

    @property
    def most(self) -> tuple[int, ...]:
        """The most of each resource that any possible type has."""
        if self._most is None:
            rows = self.rows
            width = len(self.template.universe.axis)
            self._most = tuple(map(max, zip(*rows, strict=True))) if rows else (-1,) * width
        return self._most

    @property
    def ceiling(self) -> Amounts:
        """The same as an array."""
        if self._ceiling is None:
            self._ceiling = np.array(self.most, np.int64)
        return self._ceiling

    def fits(self, total: tuple[int, ...]) -> bool:
        """Return whether some possible type has room for `total`."""
        for row in self.rows:
            for room, amount in zip(row, total, strict=True):
                if room < amount:
                    break
            else:
                return True
        return False

    def cheapest(self, total: tuple[int, ...]) -> int:
        """Return the cheapest possible type that has room for `total`, which some type has."""
        if self._cheapest is None:
            universe = self.template.universe
            offered = np.flatnonzero(universe.flags(self.bits))
            order = offered[np.argsort(universe.price[offered], kind="stable")]
            owners, first = np.unique(universe.owner[order], return_index=True)
            kinds = owners[np.argsort(first)]
            self._cheapest = kinds, universe.room[kinds]
        kinds, rooms = self._cheapest
        return int(kinds[(rooms >= total).all(axis=1).argmax()])

    def domains(self, key: str) -> frozenset[str] | None:
        """Return the values that `key` can still take, or None when nothing limits them."""
        if key not in self._values:
            self._values[key] = self._domains(key)
        return self._values[key]

    def prices(self, key: str) -> dict[str, float]:
        """Return the cheapest offering per value of `key`."""
        if key not in self._prices:
            universe = self.template.universe
            self._prices[key] = {
                value: universe.cheapest(universe.keep(self.bits, Requirements.only(key, frozenset({value}))))
                for value in self.domains(key) or ()
            }
        return self._prices[key]

    def _domains(self, key: str) -> frozenset[str] | None:
        universe = self.template.universe
        held = self.requirements[key]
        if universe.names(key):
            return frozenset(v for v in universe.values(key, self.bits) if held.allows(v))
        if held.complement:
            return None if key in self.requirements else frozenset()
        return held.values


class States:
    """All states of one run."""

    def __init__(self, undefined_ok: AbstractSet[str]) -> None:
        self._undefined_ok = undefined_ok
        self._known: dict[tuple[int, Requirements, Bits], State] = {}
        self.all: list[State] = []

    def of(self, template: Template, requirements: Requirements, bits: Bits) -> State:
        """Return the one state with these parts."""
        key = (template.number, requirements, bits)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = State(len(self.all), template, requirements, bits)
            self.all.append(found)
        return found

    def step(self, state: State, wanted: Requirements) -> State | None:
        """Return the state after `wanted` was added, or None where that leaves nothing."""
        steps = state._steps  # noqa: SLF001  the memo lives on the state so that it dies with it
        if wanted in steps:
            return steps[wanted]
        found = steps[wanted] = self._step(state, wanted)
        return found

    def _step(self, state: State, wanted: Requirements) -> State | None:
        bits = state.template.universe.keep(state.bits, wanted)
        if not bits or not state.requirements.accepts(wanted, self._undefined_ok):
            return None
        merged = state.requirements.intersect(wanted)
        if merged == state.requirements and bits == state.bits:
            return state
        bits = state.template.universe.keep(bits, (merged[key] for key in wanted.keys()))  # noqa: SIM118  not a dict
        return self.of(state.template, merged, bits) if bits else None
