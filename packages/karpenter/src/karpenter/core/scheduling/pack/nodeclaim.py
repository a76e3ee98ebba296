"""
What a claim of the run can still become: claim states, steps between them, and how a pod narrows a claim.

A state is a template, its requirements so far, and the offerings they leave. Many claims share a state, and
many pods make the same step, so the exact and slow requirement algebra runs once per pair of state and
requirements.

A claim carries no list of instance types: a type remains possible exactly when its offerings are in the
state and it fits the claim's usage, which the frontier of the state answers. The list is made in
``decode``.

NodePool limits: how much a NodePool may still launch, exactly, while claims are still being filled.

A claim has no size until it is launched, so it counts as its cheapest type that holds its pods within the
limits, or as many of the cheapest types as minValues need. As pods join, that may grow. At the end, what is
left of a limit is divided among the claims, which may become larger types for it. So the largest types that
all claims could become never exceed the limits together, and no pod is refused while there is room.
Upstream subtracts the largest type of each claim instead (https://karpenter.sh/docs/concepts/nodepools/).

As long as the largest type for every claim stays within the limits, nothing is counted.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from karpenter.api.labels import NODES
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.pack.topologygroup import TopologyType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.encode.offerings import Amounts, Bits
    from karpenter.core.scheduling.pack.poddata import CompiledRelaxation
    from karpenter.core.scheduling.pack.topology import TopologyDemand

_MAX_COMBINATIONS: Final = 64
"""How many combinations of domains of several topology keys are tried, best first."""


class ClaimState:
    """What a claim can still become: a template narrowed by requirements. Equal states are one object."""

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
        self._steps: dict[Requirements, ClaimState | None] = {}
        self._frontier: Amounts | None = None
        self._rows: list[tuple[int, ...]] | None = None
        self._most: tuple[int, ...] | None = None
        self._ceiling: Amounts | None = None
        self._cheapest: tuple[Amounts, Amounts] | None = None
        self._values: dict[str, frozenset[str] | None] = {}
        self._prices: dict[str, dict[str, float]] = {}

    @property
    def frontier(self) -> Amounts:
        """The largest allocatable amounts among the possible types, none of which covers another."""
        if self._frontier is None:
            self._frontier = self.template.table.frontier(self.bits)
        return self._frontier

    @property
    def rows(self) -> list[tuple[int, ...]]:
        """The frontier as tuples, which single questions read faster than arrays."""
        if self._rows is None:
            self._rows = [tuple(row) for row in self.frontier.tolist()]
        return self._rows

    @property
    def most(self) -> tuple[int, ...]:
        """The most of each resource that any possible type has."""
        if self._most is None:
            rows = self.rows
            width = len(self.template.table.axis)
            self._most = tuple(map(max, zip(*rows, strict=True))) if rows else (-1,) * width
        return self._most

    @property
    def ceiling(self) -> Amounts:
        """:attr:`most` as an array."""
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

    @property
    def cheapest_offerings(self) -> tuple[Amounts, Amounts]:
        """The cheapest offering of each possible type, the cheapest first, and the room of their types."""
        if self._cheapest is None:
            table = self.template.table
            offered = np.flatnonzero(table.flags(self.bits))
            order = offered[np.argsort(table.price[offered], kind="stable")]
            _, first = np.unique(table.owner[order], return_index=True)
            offerings = order[np.sort(first)]
            self._cheapest = offerings, table.room[table.owner[offerings]]
        return self._cheapest

    def cheapest(self, total: tuple[int, ...]) -> int:
        """Return the cheapest possible type that has room for `total`, which some type has."""
        offerings, rooms = self.cheapest_offerings
        return int(self.template.table.owner[offerings[(rooms >= total).all(axis=1).argmax()]])

    def domains(self, key: str) -> frozenset[str] | None:
        """Return the values that `key` can still take, or None when nothing limits them."""
        if key not in self._values:
            self._values[key] = self._domains(key)
        return self._values[key]

    def prices(self, key: str) -> dict[str, float]:
        """Return the cheapest offering per value of `key`."""
        if key not in self._prices:
            table = self.template.table
            self._prices[key] = {
                value: table.cheapest(table.keep(self.bits, Requirements.only(key, frozenset({value}))))
                for value in self.domains(key) or ()
            }
        return self._prices[key]

    def _domains(self, key: str) -> frozenset[str] | None:
        table = self.template.table
        held = self.requirements[key]
        if table.names(key):
            return frozenset(v for v in table.values(key, self.bits) if held.allows(v))
        if held.complement:
            return None if key in self.requirements else frozenset()
        return held.values


class ClaimStates:
    """All claim states of one run, and the steps between them."""

    def __init__(self, undefined_ok: AbstractSet[str]) -> None:
        self._undefined_ok = undefined_ok
        self._known: dict[tuple[int, Requirements, Bits], ClaimState] = {}
        self.all: list[ClaimState] = []

    def of(self, template: Template, requirements: Requirements, bits: Bits) -> ClaimState:
        """Return the one state with these parts."""
        key = (template.number, requirements, bits)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = ClaimState(len(self.all), template, requirements, bits)
            self.all.append(found)
        return found

    def step(self, state: ClaimState, wanted: Requirements) -> ClaimState | None:
        """Return the state after `wanted` was added, or None where that leaves nothing."""
        steps = state._steps  # noqa: SLF001  the memo belongs to the state
        if wanted in steps:
            return steps[wanted]
        found = steps[wanted] = self._step(state, wanted)
        return found

    def _step(self, state: ClaimState, wanted: Requirements) -> ClaimState | None:
        if not state.requirements.accepts(wanted, self._undefined_ok):
            return None
        bits = state.template.table.keep(state.bits, wanted)
        if not bits:
            return None
        merged = state.requirements.intersect(wanted)
        if merged == state.requirements and bits == state.bits:
            return state
        bits = state.template.table.keep(bits, (merged[key] for key in wanted.keys()))  # noqa: SIM118  not a dict
        return self.of(state.template, merged, bits) if bits else None


class _AllowedDomains(NamedTuple):
    """The domains of one topology key that counts allow."""

    allowed: frozenset[str]
    order: tuple[frozenset[str], ...]
    """The allowed domains by how full they are, the emptiest first; equally full ones together."""

    single: bool
    """Whether a claim must be narrowed to one domain."""


class _Remembered(NamedTuple):
    """What was worked out under one pattern of counts."""

    allowed: dict[str, _AllowedDomains]
    next_states: dict[int, tuple[ClaimState, ...]]


class Narrowings:
    """
    What a claim becomes by taking a pod of one relaxation, best first.

    Taking a pod can narrow a claim: a zone spread picks one zone, an affinity keeps the zones that have
    matching pods. The answer is worked out per state, not per claim, and remembered per pattern of counts.
    """

    def __init__(self, compiled: CompiledRelaxation, states: ClaimStates) -> None:
        self._compiled = compiled
        self._states = states
        self._version = -1
        self._current = _Remembered({}, {})
        self._known: dict[tuple[tuple[int, ...], ...], _Remembered] = {}
        """By pattern of counts; few different patterns occur."""

        self._domains_of: list[tuple[str, ...]] = [()] * len(compiled.demands.domains)
        """The domains that each group counts and the pods allow."""

        self._sizes = [-1] * len(compiled.demands.domains)
        self._by_key: dict[str, list[TopologyDemand]] = {}
        for demand in compiled.demands.domains:
            self._by_key.setdefault(demand.group.key, []).append(demand)

    def of(self, state: ClaimState) -> tuple[ClaimState, ...]:
        """Return what `state` may become by taking a pod, best first; nothing when it cannot take one."""
        self.refresh()
        return self.current(state)

    def refresh(self) -> None:
        """Read the counts as they are now."""
        version = self._compiled.counts_version()
        if version == self._version:
            return
        self._version = version
        pattern = tuple([self._pattern(n, demand) for n, demand in enumerate(self._compiled.demands.domains)])
        known = self._known.get(pattern)
        if known is None:
            limits = {key: self._allowed(key) for key in self._by_key}
            known = self._known[pattern] = _Remembered(limits, {})
        self._current = known

    @property
    def known(self) -> dict[int, tuple[ClaimState, ...]]:
        """What :meth:`current` has worked out, by the number of the state."""
        return self._current.next_states

    def current(self, state: ClaimState) -> tuple[ClaimState, ...]:
        """Return what `state` may become by the counts that were read last."""
        found = self._current.next_states.get(state.number)
        if found is None:
            found = self._current.next_states[state.number] = tuple(self._find(state))
        return found

    def _pattern(self, number: int, demand: TopologyDemand) -> tuple[int, ...]:
        group = demand.group
        if len(group.counts) != self._sizes[number]:
            strict = self._compiled.relaxation.strict[group.key]
            self._sizes[number] = len(group.counts)
            self._domains_of[number] = tuple([domain for domain in group.counts if strict.allows(domain)])
            self._known = {}
        return group.pattern(self._domains_of[number])

    def _find(self, state: ClaimState) -> Iterator[ClaimState]:
        compiled, states = self._compiled, self._states
        if compiled.relaxation.impossible or not compiled.tolerates(state.template):
            return
        plain = states.step(state, compiled.relaxation.requirements)
        if plain is None:
            return
        for volumes in compiled.volumes or (None,):
            start = plain if volumes is None else states.step(plain, volumes)
            if start is not None:
                yield from self._narrowed(start) if self._by_key else (start,)

    def _narrowed(self, state: ClaimState) -> Iterator[ClaimState]:
        options = {key: self._options(key, state) for key in self._by_key}
        if all(options.values()):
            yield from islice(self._combined(state, list(options.items())), _MAX_COMBINATIONS)

    def _combined(
        self, state: ClaimState, options: list[tuple[str, list[frozenset[str]]]]
    ) -> Iterator[ClaimState]:
        """Yield what `state` becomes when one option of every key is taken, best first."""
        if not options:
            yield state
            return
        (key, found), *others = options
        for domains in found:
            reached = self._states.step(state, Requirements.only(key, domains))
            if reached is not None:
                yield from self._combined(reached, others)

    def _options(self, key: str, state: ClaimState) -> list[frozenset[str]]:
        """Return the sets of domains that a claim may be narrowed to, best first."""
        limits = self._current.allowed[key]
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

    def _allowed(self, key: str) -> _AllowedDomains:
        """Return the domains that counts allow now, whatever the state."""
        strict = self._compiled.relaxation.strict[key]
        allowed: set[str] | None = None
        rank: Counter[str] = Counter()
        single = False
        for demand in self._by_key[key]:
            found = demand.group.allowed_domains(strict, self_selecting=demand.self_selecting)
            if found is None:  # no pod that matches yet: any one domain will do
                single = True
                names = {d for d in demand.group.counts if strict.allows(d)}
            else:
                names = set(found)
                if demand.group.kind is TopologyType.SPREAD:
                    single = True
                    rank.update(found)
            allowed = names if allowed is None else allowed & names
        levels: dict[int, set[str]] = {}
        for domain in allowed or ():
            levels.setdefault(rank[domain], set()).add(domain)
        return _AllowedDomains(
            frozenset(allowed or ()), tuple(frozenset(levels[each]) for each in sorted(levels)), single
        )


_NO_LIMIT: Final = int(np.iinfo(np.int64).max)


class PoolLimits:
    """What one NodePool may still launch, and what its claims count."""

    def __init__(self, template: Template) -> None:
        limits = template.pool.limits
        types = template.pool.types
        self._names = tuple(name for name in limits if name != NODES)
        self._capacity = np.array(
            [[kind.capacity.get(name, 0) for kind in types] for name in self._names], np.int64
        ).reshape(len(self._names), len(types))
        self._spare = tuple(limits[name] for name in self._names)
        self._sizes: list[tuple[int, ...]] = [tuple(row) for row in self._capacity.T.tolist()]
        reachable = template.table.types_of(template.bits)
        self._largest = tuple(self._capacity[:, reachable].max(axis=1, initial=0).tolist())
        self._enough = self._nodes_that_fit()
        self._nodes_left = limits.get(NODES)
        self._nothing = (0,) * len(self._names)
        self._taken: dict[int, tuple[int, ...]] = {}
        self._claims: list[int] = []
        self.is_exact = False

    @property
    def allows_another(self) -> bool:
        """Whether the limit on the number of nodes leaves one more."""
        return self._nodes_left is None or self._nodes_left > 0

    def left(self) -> dict[str, int]:
        return dict(zip(self._names, self._spare, strict=True))

    def _nodes_that_fit(self) -> int:
        """Return how many nodes of the largest type fit into what is left."""
        shares = (spare // most for spare, most in zip(self._spare, self._largest, strict=True) if most > 0)
        return min(shares, default=_NO_LIMIT)

    def allow_any(self, machines: int) -> bool:
        """Whether this many claims may become any type without exceeding the limits."""
        return not self.is_exact or self._nodes_that_fit() >= machines

    def may_bind(self) -> bool:
        """Whether one more claim of the largest type might exceed a limit that is not counted exactly yet."""
        return len(self._claims) >= self._enough

    def count_exactly(self, types_of: Callable[[int], list[int]]) -> None:
        """Begin to count exactly; `types_of` gives the types by which each claim opened so far counts."""
        self.is_exact = True
        for claim in self._claims:
            self.take(claim, types_of(claim))

    def opened(self, claim: int) -> None:
        self._claims.append(claim)
        # limits.nodes counts nodes whatever their size (https://karpenter.sh/docs/concepts/nodepools/).
        if self._nodes_left is not None:
            self._nodes_left -= 1

    def types_within(self, claim: int | None) -> NDArray[np.bool_]:
        """Return the types that a claim, or a new one, may become within the limits."""
        taken = self._nothing if claim is None else self._taken.get(claim, self._nothing)
        most = np.array(self._spare, np.int64) + np.array(taken, np.int64)
        return np.asarray((self._capacity <= most[:, None]).all(axis=0), bool)

    def take(self, claim: int, kinds: Sequence[int]) -> None:
        """Count a claim with as much as any one of some types needs."""
        wanted = self._nothing
        for kind in kinds:
            wanted = tuple(map(max, wanted, self._sizes[kind]))
        before = self._taken.get(claim, self._nothing)
        if wanted != before:
            placements = zip(self._spare, before, wanted, strict=True)
            self._spare = tuple(spare + old - new for spare, old, new in placements)
            self._taken[claim] = wanted

    def allowed_types(self) -> dict[int, NDArray[np.bool_]]:
        """Return the types that every claim may become when what is left is divided among the claims."""
        spare, found = np.array(self._spare, np.int64), {}
        known: dict[bytes, NDArray[np.bool_]] = {}  # most claims may become the same types
        for position, claim in enumerate(self._claims):
            share = spare // (len(self._claims) - position)
            taken = np.array(self._taken.get(claim, self._nothing), np.int64)
            allowed = np.asarray((self._capacity <= (taken + share)[:, None]).all(axis=0), bool)
            found[claim] = known.setdefault(allowed.tobytes(), allowed)
            largest = self._capacity[:, allowed].max(axis=1, initial=0)
            spare -= np.maximum(largest - taken, 0)
        return found


def pool_limits(templates: Sequence[Template]) -> Mapping[int, PoolLimits]:
    """Return the limits of every NodePool that has some, by template number."""
    return {template.number: PoolLimits(template) for template in templates if template.pool.limits}
