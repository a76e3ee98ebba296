"""
The cheapest machines: start from the greedy answer, pack it again by price, keep what is cheaper.

The greedy run has settled everything that is not about money: which pods go to existing
nodes, which pool serves them, and how they are spread over zones. Claims whose pods can be
rearranged without touching any of that are taken apart, packed by price, and put together
again through the same checked moves. Whatever comes out dearer, or leaves a pod behind, is
thrown away, so a plan is never worse than the greedy one.

From a packing to claims: the machines of a packing are opened, and pods put on them for real.

Where pods of about one size were packed as if all were as large as the largest, there is room
left on every machine: it is filled with pods that were meant for later machines, and those that
end up with nothing are never opened.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements
from karpenter.core.scheduling.decode import hourly
from karpenter.core.scheduling.pack import greedy
from karpenter.core.scheduling.pack.scheduler import NewClaim, Scheduler
from karpenter.core.scheduling.pack.topologygroup import TopologyType
from karpenter.core.scheduling.price.bound import dual_values, size_classes, with_one_offering
from karpenter.core.scheduling.price.market import Item, market
from karpenter.core.scheduling.price.patterns import pack_by_price

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.encode.preferences import PodData
    from karpenter.core.scheduling.pack.nodeclaim import ClaimState
    from karpenter.core.scheduling.price.market import Market
    from karpenter.core.scheduling.price.patterns import Packing


Part = tuple["PodData", Requirements]
"""Pods of one reading, pinned to the domains that the greedy run gave them."""


def counted(rows: Iterable[Sequence[Part]], parts: Counter[Part]) -> NDArray[np.float64]:
    """Return how many pods there are in each row of parts."""
    return np.array([sum(parts[part] for part in row) for row in rows], np.float64)


class UnplacedPods:
    """The pods behind each item that have no place yet."""

    def __init__(self, items: Sequence[Sequence[Part]], parts: Counter[Part]) -> None:
        self._left = Counter(parts)
        self._rows = [sorted(row, key=_size) for row in items]
        """The parts of each item, the largest last."""

        self.count = counted(items, parts)

    def take(self, item: int, count: int) -> list[tuple[Part, int]]:
        """Take so many pods of an item, or as many as there are, the largest first."""
        row, found = self._rows[item], []
        while count and row:
            part = row[-1]
            taken = min(count, self._left[part])
            found.append((part, taken))
            self._left[part] -= taken
            self.count[item] -= taken
            count -= taken
            if not self._left[part]:
                row.pop()
        return found

    def put_back(self, item: int, part: Part, count: int) -> None:
        """Return pods that found no place."""
        if not self._left[part]:
            self._rows[item].append(part)
        self._left[part] += count
        self.count[item] += count

    def rest(self) -> Counter[int]:
        """Return what is left, by class number."""
        found: Counter[int] = Counter()
        for (wish, _), count in self._left.items():
            if count:
                found[wish.of.number] += count
        return found


class ClaimOpener:
    """Opens the machines of a packing in a run."""

    def __init__(self, run: Scheduler, template: Template, demand: Market, stock: UnplacedPods) -> None:
        self._run = run
        self._template = template
        self._demand = demand
        self._stock = stock

    def realise(self, packed: Packing, worth: NDArray[np.float64]) -> Counter[int]:
        """
        Open the machines, dearest first; return the pods that could not be put on them, by class number.

        `worth` is that of one pod of each item: the most valuable that has room fills a machine up.
        """
        for machine in np.argsort(-packed.price, kind="stable").tolist():
            claim, state = self._load(packed.holds[machine])
            if claim is not None:
                self._fill_up(claim, state, int(packed.machine[machine]), worth)
        return self._stock.rest()

    def _load(self, holds: NDArray[np.float64]) -> tuple[int | None, ClaimState]:
        """Open a machine with what it was planned to hold, the largest pods first."""
        load = [
            (item, part, count)
            for item in np.flatnonzero(holds).tolist()
            for part, count in self._stock.take(item, int(holds[item]))
        ]
        load.sort(key=lambda entry: _size(entry[1]), reverse=True)
        claim: int | None = None
        state = self._run.base(self._template)
        for item, part, count in load:
            claim, state = self._put(claim, state, item, part, count)
        return claim, state

    def _put(
        self, claim: int | None, state: ClaimState, item: int, part: Part, count: int
    ) -> tuple[int | None, ClaimState]:
        run, (wish, pins) = self._run, part
        taken = 0
        reached = _reach(run, state, wish, pins)
        if reached is not None:
            if claim is None and run.may_open(self._template) and run.starts(reached, wish.of.want):
                claim = run.open(NewClaim(reached))
            if claim is not None:
                taken = run.fill(wish, claim, reached, count)
        if taken < count:
            self._stock.put_back(item, part, count - taken)
        return claim, reached if reached is not None and taken else state

    def _fill_up(self, claim: int, state: ClaimState, machine: int, worth: NDArray[np.float64]) -> None:
        """Put more pods on a claim, as long as it stays the machine that was planned."""
        demand, stock = self._demand, self._stock
        open_ = demand.fits[machine].copy()
        while True:
            room = demand.room[machine] - self._run.claims.used[:, claim]
            fits = open_ & (stock.count > 0) & (demand.want <= room).all(axis=1)
            if not fits.any():
                return
            item = int(np.where(fits, worth, -1.0).argmax())
            before = float(stock.count[item])
            asked = demand.want[item] > 0
            most = int((room[asked] / demand.want[item][asked]).min())
            for part, count in stock.take(item, max(1, most)):
                _, state = self._put(claim, state, item, part, count)
            open_[item] = stock.count[item] < before


def _reach(run: Scheduler, state: ClaimState, wish: PodData, pins: Requirements) -> ClaimState | None:
    reached = run.states.step(state, wish.requirements)
    return run.states.step(reached, pins) if reached is not None and len(pins) else reached


def _size(part: Part) -> tuple[int, ...]:
    return part[0].of.want


_MOST_ITEMS: Final = 150
"""Beyond so many different pods those of about one size are packed as if they were equal."""

_MOST_KINDS: Final = 75
"""Beyond so many different choices of machines each pod is settled on one machine."""

_TOO_MANY: Final = 300
"""Beyond so many that differ in more than size, packing by price takes longer than it is worth."""

_WORTH_IT: Final = 1e-6


def cheaper(first: Scheduler) -> Scheduler:
    """Return a run that costs no more than `first` and places no fewer pods; `first` if there is none."""
    best, lowest = first, hourly(first)
    movable = _movable(first)
    if not movable:
        return best
    candidate = Scheduler(first.encoded)
    candidate.reservations.strict = first.reservations.strict
    if not _replay(first, candidate, frozenset(movable)):
        return best
    demand = _demand(first, candidate, movable)
    waiting: Counter[int] = Counter()
    for template, parts in demand.items():
        if first.stop():
            return best
        unplaced = _pack(candidate, template, parts)
        waiting.update(unplaced)
    rest = greedy.pack(candidate, dict(waiting)) if waiting else {}
    if sum(rest.values()) == 0 and hourly(candidate) < lowest * (1 - _WORTH_IT):
        best = candidate
    return best


def _movable(run: Scheduler) -> list[int]:
    """Return the claims whose pods can be rearranged without changing any count that matters."""
    moves = _moves_by_claim(run)
    return [
        claim for claim in range(run.claims.count) if _is_movable(run, claim, [w for w, _ in moves[claim]])
    ]


def _is_movable(run: Scheduler, claim: int, wishes: list[PodData]) -> bool:
    state = run.claims.states[claim]
    if state.template.min_values or state.template.reserves:
        return False
    for wish in wishes:
        if wish.of.ports or wish.volumes or wish.of.devices:
            return False
        for asked in wish.demands.hosts:
            if asked.group.kind is TopologyType.NEAR:
                return False
        for key in topology_keys(run, wish):
            domains = state.domains(key)
            if domains is None or len(domains) != 1:
                return False
    return True


def topology_keys(run: Scheduler, wish: PodData) -> set[str]:
    """Return the topology keys on which these pods limit, or count for, somebody."""
    keys = {asked.group.key for asked in wish.demands.domains}
    return keys | {group.key for group in run.counting(wish) if not group.by_host}


def _moves_by_claim(run: Scheduler) -> dict[int, list[tuple[PodData, int]]]:
    found: dict[int, list[tuple[PodData, int]]] = defaultdict(list)
    for move in run.moves:
        if move.bin >= run.nodes.count:
            found[move.bin - run.nodes.count].append((move.wish, move.many))
    return found


def _same_pod_data(run: Scheduler, wish: PodData) -> PodData:
    """Return the same reading of the same class in another run."""
    return next(each for each in run.wishes[wish.of.number] if each.rung is wish.rung)


def _replay(first: Scheduler, second: Scheduler, dissolved: frozenset[int]) -> bool:
    """Repeat every move that is not to be rearranged; False when limits no longer allow one of them."""
    twins: dict[int, int] = {}
    for move in first.moves:
        wish = _same_pod_data(second, move.wish)
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
            opening = NewClaim(state, first.least.get(claim, {}), relaxed=claim in first.relaxed)
            twins[claim] = second.open(opening)
        twin = twins[claim]
        if not second.holds(twin, state, second.claims.total(twin, wish.of.want, move.many)):
            return False  # the claim began as what it became only later, which can take more of a limit
        if not second.has_devices(wish, second.nodes.count + twin, state):
            return False  # others were given devices in another order
        second.put_on_claim(wish, twin, state, move.many)
    return True


def _same_state(first: Scheduler, second: Scheduler, claim: int) -> ClaimState:
    state = first.claims.states[claim]
    return second.states.of(state.template, state.requirements, state.bits)


def _demand(first: Scheduler, second: Scheduler, movable: list[int]) -> dict[Template, Counter[Part]]:
    """Return the pods to rearrange, by template, each pinned as it was, in words of the second run."""
    moves = _moves_by_claim(first)
    found: dict[Template, Counter[Part]] = {}
    for claim in movable:
        state = first.claims.states[claim]
        parts = found.setdefault(state.template, Counter())
        for wish, count in moves[claim]:
            pins = NOTHING_REQUIRED
            for key in sorted(topology_keys(first, wish)):
                domains = state.domains(key)
                assert domains is not None
                pins = pins.intersect(Requirements.only(key, domains))
            parts[_same_pod_data(second, wish), pins] += count
    return found


def _pack(run: Scheduler, template: Template, parts: Counter[Part]) -> Counter[int]:
    """Pack the demand of one template by price; return what was left, by class number."""
    exact: dict[Item, list[Part]] = defaultdict(list)
    base, most = run.base(template), max(parts.values())
    for part in parts:
        wish, pins = part
        state = run.states.step(base, wish.requirements)
        state = run.states.step(state, pins) if state is not None and len(pins) else state
        if state is None:
            return _everything(parts)
        cap = wish.host_cap(run.nodes.count + run.claims.count)
        item = Item(wish.of.want, (state.bits,), 0 if cap > most else cap)
        exact[item].append(part)
    grouped = _coarse(_with_few_choices(exact, parts, template), parts)
    if len(grouped) > _TOO_MANY:
        return _everything(parts)
    items, options = list(grouped), run.problem.options
    stock = UnplacedPods([grouped[item] for item in items], parts)
    demand = market(items, stock.count.tolist(), [template])
    found = dual_values(demand)
    counts = map(int, stock.count.tolist())
    run.encoded.proved[frozenset(zip(items, counts, strict=True))] = found
    packed = pack_by_price(demand, found, rounds=options.effort, seed=options.seed)
    return ClaimOpener(run, template, demand, stock).realise(packed, found.pod)


def _everything(parts: Counter[Part]) -> Counter[int]:
    """Return all pods, by class number."""
    found: Counter[int] = Counter()
    for (wish, _), count in parts.items():
        found[wish.of.number] += count
    return found


def _with_few_choices(
    grouped: dict[Item, list[Part]], parts: Counter[Part], template: Template
) -> dict[Item, list[Part]]:
    """Return items of few kinds, where there are too many to be packed together."""
    if len({(item.bits, item.cap) for item in grouped}) <= _MOST_KINDS:
        return grouped
    items = list(grouped)
    found: dict[Item, list[Part]] = defaultdict(list)
    for item, alike in zip(
        with_one_offering(items, counted(grouped.values(), parts).tolist(), template), items, strict=True
    ):
        found[item] += grouped[alike]
    return found


def _coarse(grouped: dict[Item, list[Part]], parts: Counter[Part]) -> dict[Item, list[Part]]:
    """Return no more items than packing can tell apart; each asks for the most that any of its parts does."""
    if len(grouped) <= _MOST_ITEMS:
        return grouped
    items = list(grouped)
    counts = counted(grouped.values(), parts)
    sizes = np.array([item.want for item in items], np.float64)
    found: dict[Item, list[Part]] = {}
    for cell in size_classes(sizes, counts, [(item.bits, item.cap) for item in items], _MOST_ITEMS):
        alike = [items[position] for position in cell.tolist()]
        want = tuple(map(max, zip(*(item.want for item in alike), strict=True)))
        found[Item(want, alike[0].bits, alike[0].cap)] = [part for item in alike for part in grouped[item]]
    return found
