"""
The cheapest machines: start from the greedy answer, pack it again by price, keep what is cheaper.

The greedy run has settled everything that is not about money: which pods go to existing
nodes, which pool serves them, and how they are spread over zones. Claims whose pods can be
rearranged without touching any of that are taken apart, packed by price, and put together
again through the same checked moves. Whatever comes out dearer, or leaves a pod behind, is
thrown away, so a plan is never worse than the greedy one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements
from karpenter.core.scheduling import greedy
from karpenter.core.scheduling.bound import values
from karpenter.core.scheduling.decode import hourly
from karpenter.core.scheduling.domains import Kind
from karpenter.core.scheduling.market import Item, market
from karpenter.core.scheduling.patterns import pack_by_price
from karpenter.core.scheduling.run import Opening, Run

if TYPE_CHECKING:
    from karpenter.core.scheduling.patterns import Packed
    from karpenter.core.scheduling.states import State
    from karpenter.core.scheduling.templates import Template
    from karpenter.core.scheduling.wishes import Wish

_MOST_ITEMS: Final = 150
"""Beyond so many different pods those of about one size are packed as if they were equal."""

_TOO_MANY: Final = 300
"""Beyond so many that differ in more than size, packing by price takes longer than it is worth."""

_FINEST: Final = 24
"""The most sizes of one resource that are told apart then."""

_WORTH_IT: Final = 1e-6

Part = tuple["Wish", Requirements]
"""Pods of one reading, pinned to the domains that the greedy run gave them."""


def cheaper(first: Run) -> Run:
    """Return a run that costs no more than `first` and places no fewer pods; `first` if there is none."""
    best, lowest = first, hourly(first)
    movable = _movable(first)
    if not movable:
        return best
    options = first.problem.options
    candidate = Run(first.encoded)
    candidate.reservations.strict = first.reservations.strict
    if not _replay(first, candidate, frozenset(movable)):
        return best
    demand = _demand(first, candidate, movable)
    waiting: Counter[int] = Counter()
    for template, parts in demand.items():
        if first.stop():
            return best
        packed, items = _pack(candidate, template, parts, options.effort, options.seed)
        if packed is None:
            for (wish, _), count in parts.items():
                waiting[wish.of.number] += count
            continue
        waiting.update(_realise(candidate, template, packed, items, parts))
    rest = greedy.pack(candidate, dict(waiting)) if waiting else {}
    if sum(rest.values()) == 0 and hourly(candidate) < lowest * (1 - _WORTH_IT):
        best = candidate
    return best


def _movable(run: Run) -> list[int]:
    """Return the claims whose pods can be rearranged without changing any count that matters."""
    moves = _moves_by_claim(run)
    return [
        claim for claim in range(run.claims.count) if _is_movable(run, claim, [w for w, _ in moves[claim]])
    ]


def _is_movable(run: Run, claim: int, wishes: list[Wish]) -> bool:
    state = run.claims.states[claim]
    if state.template.min_values or state.template.reserves:
        return False
    for wish in wishes:
        if wish.of.ports or wish.volumes or wish.of.devices:
            return False
        for asked in wish.demands.hosts:
            if asked.group.kind is Kind.NEAR:
                return False
        for key in entangled(run, wish):
            domains = state.domains(key)
            if domains is None or len(domains) != 1:
                return False
    return True


def entangled(run: Run, wish: Wish) -> set[str]:
    """Return the topology keys on which these pods limit, or count for, somebody."""
    keys = {asked.group.key for asked in wish.demands.domains}
    return keys | {group.key for group in run.counting(wish) if not group.by_host}


def _moves_by_claim(run: Run) -> dict[int, list[tuple[Wish, int]]]:
    found: dict[int, list[tuple[Wish, int]]] = defaultdict(list)
    for move in run.moves:
        if move.bin >= run.nodes.count:
            found[move.bin - run.nodes.count].append((move.wish, move.many))
    return found


def _twin(run: Run, wish: Wish) -> Wish:
    """Return the same reading of the same class in another run."""
    return next(each for each in run.wishes[wish.of.number] if each.rung is wish.rung)


def _replay(first: Run, second: Run, dissolved: frozenset[int]) -> bool:
    """Repeat every move that is not to be rearranged; False when limits no longer allow one of them."""
    twins: dict[int, int] = {}
    for move in first.moves:
        wish = _twin(second, move.wish)
        if move.bin < first.nodes.count:
            if not second.has_devices(wish, move.bin):
                return False
            second.put_on_node(wish, move.bin, move.many)
            continue
        claim = move.bin - first.nodes.count
        if claim in dissolved:
            continue
        state = _same_state(first, second, claim)
        if claim not in twins:
            opening = Opening(state, first.least.get(claim, {}), relaxed=claim in first.relaxed)
            twins[claim] = second.open(opening)
        twin = twins[claim]
        if not second.holds(twin, state, second.claims.total(twin, wish.of.want, move.many)):
            return False  # the claim began as what it became only later, which can take more of a limit
        if not second.has_devices(wish, second.nodes.count + twin, state):
            return False  # others were given devices in another order
        second.put_on_claim(wish, twin, state, move.many)
    return True


def _same_state(first: Run, second: Run, claim: int) -> State:
    state = first.claims.states[claim]
    return second.states.of(state.template, state.requirements, state.bits)


def _demand(first: Run, second: Run, movable: list[int]) -> dict[Template, Counter[Part]]:
    """Return the pods to rearrange, by template, each pinned as it was, in words of the second run."""
    moves = _moves_by_claim(first)
    found: dict[Template, Counter[Part]] = {}
    for claim in movable:
        state = first.claims.states[claim]
        parts = found.setdefault(state.template, Counter())
        for wish, count in moves[claim]:
            pins = NOTHING_REQUIRED
            for key in sorted(entangled(first, wish)):
                domains = state.domains(key)
                assert domains is not None
                pins = pins.intersect(Requirements.only(key, domains))
            parts[_twin(second, wish), pins] += count
    return found


def _pack(
    run: Run, template: Template, parts: Counter[Part], rounds: int, seed: int
) -> tuple[Packed | None, list[list[Part]]]:
    """Pack the demand of one template by price; return the result and the parts behind each item."""
    grouped: dict[Item, list[Part]] = defaultdict(list)
    base, most = run.base(template), max(parts.values())
    for part in parts:
        wish, pins = part
        state = run.states.step(base, wish.requirements)
        state = run.states.step(state, pins) if state is not None and len(pins) else state
        if state is None:
            return None, []
        cap = wish.host_cap(run.nodes.count + run.claims.count)
        item = Item(wish.of.want, (state.bits,), 0 if cap > most else cap)
        grouped[item].append(part)
    grouped = _coarse(grouped)
    if len(grouped) > _TOO_MANY:
        return None, []
    items = list(grouped)
    counts = [sum(parts[part] for part in grouped[item]) for item in items]
    demand = market(items, counts, [template])
    return pack_by_price(demand, values(demand), rounds=rounds, seed=seed), [grouped[item] for item in items]


def _coarse(grouped: dict[Item, list[Part]]) -> dict[Item, list[Part]]:
    """Return no more items than packing can tell apart; each asks for the most that any of its parts does."""
    steps = _FINEST
    coarse = grouped
    while len(coarse) > _MOST_ITEMS and steps > 1:
        coarse = _rounded(grouped, steps)
        steps = steps * 3 // 4
    return coarse


def _rounded(grouped: dict[Item, list[Part]], steps: int) -> dict[Item, list[Part]]:
    """Return items of about one size as one, where sizes are told apart in so many steps."""
    most = [max(column) for column in zip(*(item.want for item in grouped), strict=True)]
    cells: dict[tuple[object, ...], list[Item]] = defaultdict(list)
    for item in grouped:
        cell = tuple(-(-want * steps // top) if top else 0 for want, top in zip(item.want, most, strict=True))
        cells[cell, item.bits, item.cap].append(item)
    found: dict[Item, list[Part]] = defaultdict(list)
    for alike in cells.values():
        want = tuple(map(max, zip(*(item.want for item in alike), strict=True)))
        found[Item(want, alike[0].bits, alike[0].cap)] += [part for item in alike for part in grouped[item]]
    return found


def _realise(
    run: Run, template: Template, packed: Packed, items: list[list[Part]], parts: Counter[Part]
) -> Counter[int]:
    """Open the machines of a packing; return what could not be put on them, by class number."""
    left = Counter(parts)
    order = np.argsort(-packed.price, kind="stable")
    for machine in order.tolist():
        load = _load(packed.holds[machine], items, left)
        claim: int | None = None
        state = run.base(template)
        for (wish, pins), count in load:
            reached = _reach(run, state, wish, pins)
            if reached is None:
                continue
            if claim is None:
                if not run.may_open(template) or not run.starts(reached, wish.of.want):
                    break
                claim = run.open(Opening(reached))
            taken = run.fill(wish, claim, reached, count)
            left[wish, pins] -= taken
            state = reached if taken else state
    rest: Counter[int] = Counter()
    for (wish, _), count in left.items():
        if count:
            rest[wish.of.number] += count
    return rest


def _reach(run: Run, state: State, wish: Wish, pins: Requirements) -> State | None:
    reached = run.states.step(state, wish.requirements)
    return run.states.step(reached, pins) if reached is not None and len(pins) else reached


def _load(
    holds: np.ndarray[tuple[int], np.dtype[np.float64]], items: list[list[Part]], left: Counter[Part]
) -> list[tuple[Part, int]]:
    """Return which pods fill one machine, the largest first."""
    load = []
    for item in np.flatnonzero(holds).tolist():
        count = int(holds[item])
        for part in items[item]:
            taken = min(count, left[part])
            if taken:
                load.append((part, taken))
                count -= taken
    load.sort(key=lambda entry: tuple(-amount for amount in entry[0][0].of.want))
    return load
