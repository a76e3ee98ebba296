"""
Which way a claim may be narrowed to take a pod, best way first.

Taking a pod can pin a claim: a zone spread picks one zone, an affinity keeps the zones
that have company. The ways are asked per state, not per claim, and remembered for
whatever counts permit: the same limits come again and again.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.domains import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.core.scheduling.states import State, States
    from karpenter.core.scheduling.topology import Asked
    from karpenter.core.scheduling.wishes import Reading

_MOST_WAYS: Final = 64
"""Ways to combine several topology keys that are tried, best first."""


class _Limits(NamedTuple):
    """What counts permit on one topology key. Equal limits permit the same ways."""

    allowed: frozenset[str]
    order: tuple[frozenset[str], ...]
    """The allowed domains by how full they are, the emptiest first; equally full ones together."""

    single: bool
    """Whether a claim must settle on one domain."""


class _Known(NamedTuple):
    """What there is to know under one pattern of counts."""

    limits: dict[str, _Limits]
    ways: dict[int, tuple[State, ...]]


class Choices:
    """The ways of one reading, remembered per state and limits."""

    def __init__(self, reading: Reading, states: States) -> None:
        self._reading = reading
        self._states = states
        self._stamp = -1
        self._now = _Known({}, {})
        self._known: dict[tuple[tuple[int, ...], ...], _Known] = {}
        """Under all patterns of counts that there were; few different ones come again and again."""

        self._mine: list[tuple[str, ...]] = [()] * len(reading.demands.domains)
        """The domains that each group counts and the pods allow."""

        self._sizes = [-1] * len(reading.demands.domains)
        self._by_key: dict[str, list[Asked]] = {}
        for asked in reading.demands.domains:
            self._by_key.setdefault(asked.group.key, []).append(asked)

    def ways(self, state: State) -> tuple[State, ...]:
        """Return what `state` may become by taking a pod, best first; nothing when it cannot."""
        self.refresh()
        return self.now(state)

    def refresh(self) -> None:
        """Take note of the counts as they are now."""
        stamp = self._reading.stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        pattern = tuple([self._pattern(n, asked) for n, asked in enumerate(self._reading.demands.domains)])
        known = self._known.get(pattern)
        if known is None:
            limits = {key: self._limited(key) for key in self._by_key}
            known = self._known[pattern] = _Known(limits, {})
        self._now = known

    def now(self, state: State) -> tuple[State, ...]:
        """Return the ways of a state by the counts that were taken note of last."""
        found = self._now.ways.get(state.number)
        if found is None:
            found = self._now.ways[state.number] = tuple(self._find(state))
        return found

    def _pattern(self, number: int, asked: Asked) -> tuple[int, ...]:
        group = asked.group
        if len(group.counts) != self._sizes[number]:
            strict = self._reading.rung.strict[group.key]
            self._sizes[number] = len(group.counts)
            self._mine[number] = tuple([domain for domain in group.counts if strict.allows(domain)])
            self._known = {}
        return group.pattern(self._mine[number])

    def _find(self, state: State) -> Iterator[State]:
        reading, states = self._reading, self._states
        if reading.rung.impossible or not reading.tolerates(state.template):
            return
        plain = states.step(state, reading.rung.requirements)
        if plain is None:
            return
        for volumes in reading.volumes or (None,):
            start = plain if volumes is None else states.step(plain, volumes)
            if start is not None:
                yield from self._narrowed(start) if self._by_key else (start,)

    def _narrowed(self, state: State) -> Iterator[State]:
        options = {key: self._options(key, state) for key in self._by_key}
        if all(options.values()):
            yield from islice(self._combined(state, list(options.items())), _MOST_WAYS)

    def _combined(self, state: State, options: list[tuple[str, list[frozenset[str]]]]) -> Iterator[State]:
        """Yield what `state` becomes when one option of every key is taken, best first."""
        if not options:
            yield state
            return
        (key, found), *others = options
        for domains in found:
            reached = self._states.step(state, Requirements.only(key, domains))
            if reached is not None:
                yield from self._combined(reached, others)

    def _options(self, key: str, state: State) -> list[frozenset[str]]:
        """Return the sets of domains that a claim may be narrowed to, best first."""
        limits = self._now.limits[key]
        possible = state.domains(key)
        allowed = limits.allowed if possible is None else possible & limits.allowed
        if not allowed:
            return []
        if not limits.single or len(allowed) == 1:
            return [allowed]
        prices = state.prices(key)
        found = []
        for level in limits.order:
            some = sorted(level & allowed, key=lambda d: (prices.get(d, 0.0), d))
            found += [frozenset({domain}) for domain in some]
        return found

    def _limited(self, key: str) -> _Limits:
        """Return what counts permit now, whatever the state."""
        strict = self._reading.rung.strict[key]
        allowed: set[str] | None = None
        rank: dict[str, int] = {}
        single = False
        for asked in self._by_key[key]:
            found = asked.group.permitted(strict, counts_itself=asked.counts_itself)
            if found is None:  # the first of its kind: any one domain will do
                single = True
                found = {d: 0 for d in asked.group.counts if strict.allows(d)}
            elif asked.group.kind is Kind.SPREAD:
                single = True
                for domain, count in found.items():
                    rank[domain] = rank.get(domain, 0) + count
            allowed = set(found) if allowed is None else allowed & found.keys()
        levels: dict[int, set[str]] = {}
        for domain in allowed or ():
            levels.setdefault(rank.get(domain, 0), set()).add(domain)
        return _Limits(
            frozenset(allowed or ()), tuple(frozenset(levels[each]) for each in sorted(levels)), single
        )
