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
        for (pod_data, _), count in self._left.items():
            if count:
                found[pod_data.pod_class.number] += count
        return found


class ClaimOpener:
    """Opens the machines of a packing in a run."""

    def __init__(self, scheduler: Scheduler, template: Template, demand: Market, stock: UnplacedPods) -> None:
        self._scheduler = scheduler
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
        state = self._scheduler.base(self._template)
        for item, part, count in load:
            claim, state = self._put(claim, state, item, part, count)
        return claim, state

    def _put(
        self, claim: int | None, state: ClaimState, item: int, part: Part, count: int
    ) -> tuple[int | None, ClaimState]:
        scheduler, (pod_data, pins) = self._scheduler, part
        taken = 0
        reached = _reach(scheduler, state, pod_data, pins)
        if reached is not None:
            if (
                claim is None
                and scheduler.may_open(self._template)
                and scheduler.starts(reached, pod_data.pod_class.want)
            ):
                claim = scheduler.open(NewClaim(reached))
            if claim is not None:
                taken = scheduler.fill(pod_data, claim, reached, count)
        if taken < count:
            self._stock.put_back(item, part, count - taken)
        return claim, reached if reached is not None and taken else state

    def _fill_up(self, claim: int, state: ClaimState, machine: int, worth: NDArray[np.float64]) -> None:
        """Put more pods on a claim, as long as it stays the machine that was planned."""
        demand, stock = self._demand, self._stock
        open_ = demand.fits[machine].copy()
        while True:
            room = demand.room[machine] - self._scheduler.claims.used[:, claim]
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


def _reach(
    scheduler: Scheduler, state: ClaimState, pod_data: PodData, pins: Requirements
) -> ClaimState | None:
    reached = scheduler.states.step(state, pod_data.requirements)
    return scheduler.states.step(reached, pins) if reached is not None and len(pins) else reached


def _size(part: Part) -> tuple[int, ...]:
    return part[0].pod_class.want


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


def _movable(scheduler: Scheduler) -> list[int]:
    """Return the claims whose pods can be rearranged without changing any count that matters."""
    placements = _moves_by_claim(scheduler)
    return [
        claim
        for claim in range(scheduler.claims.count)
        if _is_movable(scheduler, claim, [w for w, _ in placements[claim]])
    ]


def _is_movable(scheduler: Scheduler, claim: int, by_relaxation: list[PodData]) -> bool:
    state = scheduler.claims.states[claim]
    if state.template.min_values or state.template.reserves:
        return False
    for pod_data in by_relaxation:
        if pod_data.pod_class.ports or pod_data.volumes or pod_data.pod_class.devices:
            return False
        for demand in pod_data.demands.hosts:
            if demand.group.kind is TopologyType.POD_AFFINITY:
                return False
        for key in topology_keys(scheduler, pod_data):
            domains = state.domains(key)
            if domains is None or len(domains) != 1:
                return False
    return True


def topology_keys(scheduler: Scheduler, pod_data: PodData) -> set[str]:
    """Return the topology keys on which these pods limit, or count for, somebody."""
    keys = {demand.group.key for demand in pod_data.demands.domains}
    return keys | {group.key for group in scheduler.counting(pod_data) if not group.by_host}


def _moves_by_claim(scheduler: Scheduler) -> dict[int, list[tuple[PodData, int]]]:
    found: dict[int, list[tuple[PodData, int]]] = defaultdict(list)
    for placement in scheduler.placements:
        if placement.bin >= scheduler.nodes.count:
            found[placement.bin - scheduler.nodes.count].append((placement.pod_data, placement.pod_count))
    return found


def _same_pod_data(scheduler: Scheduler, pod_data: PodData) -> PodData:
    """Return the same reading of the same class in another run."""
    return next(
        each
        for each in scheduler.pod_data[pod_data.pod_class.number]
        if each.relaxation is pod_data.relaxation
    )


def _replay(first: Scheduler, second: Scheduler, dissolved: frozenset[int]) -> bool:
    """Repeat every move that is not to be rearranged; False when limits no longer allow one of them."""
    twins: dict[int, int] = {}
    for placement in first.placements:
        pod_data = _same_pod_data(second, placement.pod_data)
        if placement.bin < first.nodes.count:
            if not second.has_devices(pod_data, placement.bin):
                return False
            second.put_on_node(pod_data, placement.bin, placement.pod_count)
            continue
        claim = placement.bin - first.nodes.count
        if claim in dissolved:
            continue
        state = _same_state(first, second, claim)
        if claim not in twins:
            new_claim = NewClaim(state, first.least.get(claim, {}), relaxed=claim in first.relaxed)
            twins[claim] = second.open(new_claim)
        twin = twins[claim]
        if not second.holds(
            twin, state, second.claims.total(twin, pod_data.pod_class.want, placement.pod_count)
        ):
            return False  # the claim began as what it became only later, which can take more of a limit
        if not second.has_devices(pod_data, second.nodes.count + twin, state):
            return False  # others were given devices in another order
        second.put_on_claim(pod_data, twin, state, placement.pod_count)
    return True


def _same_state(first: Scheduler, second: Scheduler, claim: int) -> ClaimState:
    state = first.claims.states[claim]
    return second.states.of(state.template, state.requirements, state.bits)


def _demand(first: Scheduler, second: Scheduler, movable: list[int]) -> dict[Template, Counter[Part]]:
    """Return the pods to rearrange, by template, each pinned as it was, in words of the second run."""
    placements = _moves_by_claim(first)
    found: dict[Template, Counter[Part]] = {}
    for claim in movable:
        state = first.claims.states[claim]
        parts = found.setdefault(state.template, Counter())
        for pod_data, count in placements[claim]:
            pins = NOTHING_REQUIRED
            for key in sorted(topology_keys(first, pod_data)):
                domains = state.domains(key)
                assert domains is not None
                pins = pins.intersect(Requirements.only(key, domains))
            parts[_same_pod_data(second, pod_data), pins] += count
    return found


def _pack(scheduler: Scheduler, template: Template, parts: Counter[Part]) -> Counter[int]:
    """Pack the demand of one template by price; return what was left, by class number."""
    exact: dict[Item, list[Part]] = defaultdict(list)
    base, most = scheduler.base(template), max(parts.values())
    for part in parts:
        pod_data, pins = part
        state = scheduler.states.step(base, pod_data.requirements)
        state = scheduler.states.step(state, pins) if state is not None and len(pins) else state
        if state is None:
            return _everything(parts)
        cap = pod_data.host_cap(scheduler.nodes.count + scheduler.claims.count)
        item = Item(pod_data.pod_class.want, (state.bits,), 0 if cap > most else cap)
        exact[item].append(part)
    grouped = _coarse(_with_few_choices(exact, parts, template), parts)
    if len(grouped) > _TOO_MANY:
        return _everything(parts)
    items, options = list(grouped), scheduler.problem.options
    stock = UnplacedPods([grouped[item] for item in items], parts)
    demand = market(items, stock.count.tolist(), [template])
    found = dual_values(demand)
    counts = map(int, stock.count.tolist())
    scheduler.encoded.proved[frozenset(zip(items, counts, strict=True))] = found
    packed = pack_by_price(demand, found, rounds=options.effort, seed=options.seed)
    return ClaimOpener(scheduler, template, demand, stock).realise(packed, found.pod)


def _everything(parts: Counter[Part]) -> Counter[int]:
    """Return all pods, by class number."""
    found: Counter[int] = Counter()
    for (pod_data, _), count in parts.items():
        found[pod_data.pod_class.number] += count
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
