"""
The planner: starts from greedy packing, packs the same pods again by price, and keeps what is cheaper.

Greedy packing decides everything that is not about price: which pods go to existing nodes, which NodePool
serves them, and how they are spread over zones. Claims whose pods can be rearranged without changing any of
that are taken apart, packed by price (:mod:`.patterns`), and opened again through the checked moves of the
scheduler. A result that is dearer, or leaves a pod without a node, is discarded, so a plan never costs more
than the greedy one.

Where pods of similar size were packed as if all were as large as the largest, room is left on every node:
it is filled with pods that were meant for later nodes, and nodes that end up empty are never opened.

Pods with devices are packed once more with a scheduler that lets a pod join a claim only if that raises the
price by no more than a node of its own would cost: nodes with many devices are dear.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
import numpy as np

from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements
from karpenter.core.scheduling.decode import hourly
from karpenter.core.scheduling.pack import greedy
from karpenter.core.scheduling.pack.reservationmanager import fitting_offerings
from karpenter.core.scheduling.pack.scheduler import NewClaim, Scheduler
from karpenter.core.scheduling.pack.topologygroup import TopologyType
from karpenter.core.scheduling.price.bound import (
    Item,
    Market,
    dual_values,
    market,
    with_one_offering,
)
from karpenter.core.scheduling.price.linear import size_classes
from karpenter.core.scheduling.price.patterns import Packing, pack_by_price

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from karpenter.core.scheduling.encode.encode import EncodedProblem
    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.pack.nodeclaim import ClaimState
    from karpenter.core.scheduling.pack.poddata import PodData


Part: TypeAlias = tuple["PodData", Requirements]
"""Pods of one class and relaxation, pinned to the domains that greedy packing gave them."""

_MOST_ITEMS: Final = 1000
"""Above this many different items, those of similar size are packed as equal."""

_MOST_KINDS: Final = 511
"""Above this many different sets of offerings, each item is restricted to one offering."""

_TOO_MANY: Final = 3000
"""Above this many items that differ in more than size, packing by price takes too long."""

_FEW_PODS: Final = 300
"""Up to this many pods the linear program saves nothing; of thousands of mixed ones it saves 2 to 9 %."""

_FEE: Final = 0.001
"""What a machine counts beside its price, as a share of the bill: at nearly one price, fewer machines."""

_CHEAPER: Final = 1 - 1e-6
"""A plan that costs less than this share of another one is cheaper by more than rounding errors."""


def counted(rows: Iterable[Sequence[Part]], parts: Counter[Part]) -> NDArray[np.float64]:
    """Return how many pods there are in each row of parts."""
    return np.array([sum(parts[part] for part in row) for row in rows], np.float64)


class UnplacedPods:
    """The pods of each item that have no node yet."""

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
    """Opens the nodes of a packing as claims of a scheduler."""

    def __init__(
        self, scheduler: Scheduler, template: Template, demand: Market, unplaced: UnplacedPods
    ) -> None:
        self._scheduler = scheduler
        self._template = template
        self._demand = demand
        self._unplaced = unplaced
        self._want = demand.want.T.copy()
        self._empty = scheduler.base(template)
        self._reached: dict[tuple[int, int, int], ClaimState | None] = {}
        """What a state becomes by taking pods of a part, by the state and the objects of the part."""

        self._full: set[tuple[int, tuple[int, ...]]] = set()
        """Machines and what they hold where no pod without a node fits; many machines hold the same."""

    def open_claims(self, packing: Packing, worth: NDArray[np.float64]) -> Counter[int]:
        """
        Open a claim for each node, dearest first; return the pods that did not fit, by class number.

        `worth` is the value of one pod of each item: the most valuable one that fits fills a node up.
        """
        for machine in np.argsort(-packing.price, kind="stable").tolist():
            claim, state = self._load(packing.holds[machine])
            if claim is not None:
                self._fill_up(claim, state, int(packing.machine[machine]), worth)
        return self._unplaced.rest()

    def _load(self, holds: NDArray[np.float64]) -> tuple[int | None, ClaimState]:
        """Open a claim with the pods that were planned for it, the largest first."""
        load = [
            (item, part, count)
            for item in np.flatnonzero(holds).tolist()
            for part, count in self._unplaced.take(item, int(holds[item]))
        ]
        load.sort(key=lambda entry: _size(entry[1]), reverse=True)
        claim: int | None = None
        state = self._empty
        for item, part, count in load:
            claim, state = self._put(claim, state, item, part, count)
        return claim, state

    def _put(
        self, claim: int | None, state: ClaimState, item: int, part: Part, count: int
    ) -> tuple[int | None, ClaimState]:
        scheduler, (pod_data, pins) = self._scheduler, part
        taken = 0
        key = (state.number, id(pod_data), id(pins))
        if key not in self._reached:
            self._reached[key] = _reach(scheduler, state, pod_data, pins)
        reached = self._reached[key]
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
            self._unplaced.put_back(item, part, count - taken)
            self._full.clear()
        return claim, reached if reached is not None and taken else state

    def _fill_up(self, claim: int, state: ClaimState, machine: int, worth: NDArray[np.float64]) -> None:
        """Put more pods on a claim, as long as it stays the instance type that was planned."""
        demand, unplaced = self._demand, self._unplaced
        planned = machine, self._scheduler.claims.totals[claim]
        if planned in self._full:
            return
        open_, is_full = demand.fits[machine].copy(), True
        while True:
            room = demand.room[machine] - self._scheduler.claims.totals[claim]
            fits = open_ & (unplaced.count > 0)
            for want, free in zip(self._want, room, strict=True):
                fits &= want <= free
            if not fits.any():
                if is_full:
                    self._full.add(planned)
                return
            is_full = False
            item = int(np.where(fits, worth, -1.0).argmax())
            before = float(unplaced.count[item])
            asked = demand.want[item] > 0
            most = int((room[asked] / demand.want[item][asked]).min())
            for part, count in unplaced.take(item, max(1, most)):
                _, state = self._put(claim, state, item, part, count)
            open_[item] = unplaced.count[item] < before


def _reach(
    scheduler: Scheduler, state: ClaimState, pod_data: PodData, pins: Requirements
) -> ClaimState | None:
    reached = scheduler.states.step(state, pod_data.requirements)
    return scheduler.states.step(reached, pins) if reached is not None and len(pins) else reached


def _size(part: Part) -> tuple[int, ...]:
    return part[0].pod_class.want


def cheaper(first: Scheduler) -> Scheduler:
    """Return a schedule that costs less than `first` and places no fewer pods; `first` if there is none."""
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
    # Only a plan that places every pod and is cheaper by more than rounding errors replaces the greedy one.
    if sum(rest.values()) == 0 and hourly(candidate) < lowest * _CHEAPER:
        best = candidate
    return best


def _movable(scheduler: Scheduler) -> list[int]:
    """Return the claims whose pods can be rearranged without changing any topology count."""
    placements = _moves_by_claim(scheduler)
    return [
        claim
        for claim in range(scheduler.claims.count)
        if _is_movable(scheduler, claim, [w for w, _ in placements[claim]])
    ]


def _is_movable(scheduler: Scheduler, claim: int, by_relaxation: list[PodData]) -> bool:
    state = scheduler.claims.states[claim]
    # minValues and reservations depend on which pods share a claim, so such claims stay as they are.
    if state.template.min_values or state.template.reserves:
        return False
    for pod_data in by_relaxation:
        # Host ports, volumes and devices tie pods to particular nodes; rearranging them could break a
        # placement.
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
    """Return the topology keys of the groups that limit or count these pods."""
    keys = {demand.group.key for demand in pod_data.demands.domains}
    return keys | {group.key for group in scheduler.counting(pod_data) if not group.by_host}


def _moves_by_claim(scheduler: Scheduler) -> dict[int, list[tuple[PodData, int]]]:
    found: dict[int, list[tuple[PodData, int]]] = defaultdict(list)
    for placement in scheduler.placements:
        if placement.bin >= scheduler.nodes.count:
            found[placement.bin - scheduler.nodes.count].append((placement.pod_data, placement.pod_count))
    return found


def _same_pod_data(scheduler: Scheduler, pod_data: PodData) -> PodData:
    """Return the same class under the same relaxation in another scheduler."""
    return next(
        each
        for each in scheduler.pod_data[pod_data.pod_class.number]
        if each.relaxation is pod_data.relaxation
    )


def _replay(first: Scheduler, second: Scheduler, dissolved: frozenset[int]) -> bool:
    """Repeat every placement that is kept; False when limits no longer allow one of them."""
    copies: dict[int, int] = {}
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
        if claim not in copies:
            new_claim = NewClaim(state, first.least.get(claim, {}), relaxed=claim in first.relaxed)
            copies[claim] = second.open(new_claim)
        copy = copies[claim]
        if not second.holds(
            copy, state, second.claims.total(copy, pod_data.pod_class.want, placement.pod_count)
        ):
            return False  # the claim began as what it became only later, which can take more of a limit
        if not second.has_devices(pod_data, second.nodes.count + copy, state):
            return False  # devices were allocated in another order
        second.put_on_claim(pod_data, copy, state, placement.pod_count)
    return True


def _same_state(first: Scheduler, second: Scheduler, claim: int) -> ClaimState:
    state = first.claims.states[claim]
    return second.states.of(state.template, state.requirements, state.bits)


def _demand(first: Scheduler, second: Scheduler, movable: list[int]) -> dict[Template, Counter[Part]]:
    """Return the pods to rearrange, by template, each pinned as it was, for the second scheduler."""
    placements = _moves_by_claim(first)
    found: dict[Template, Counter[Part]] = {}
    known: dict[tuple[int, int], Part] = {}
    equal: dict[Requirements, Requirements] = {}
    for claim in movable:
        state = first.claims.states[claim]
        parts = found.setdefault(state.template, Counter())
        for pod_data, count in placements[claim]:
            part = known.get((state.number, id(pod_data)))
            if part is None:
                pins = NOTHING_REQUIRED
                for key in sorted(topology_keys(first, pod_data)):
                    domains = state.domains(key)
                    assert domains is not None
                    pins = pins.intersect(Requirements.only(key, domains))
                part = _same_pod_data(second, pod_data), equal.setdefault(pins, pins)
                known[state.number, id(pod_data)] = part
            parts[part] += count
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
        cap = pod_data.host_cap(scheduler.next_bin)
        item = Item(pod_data.pod_class.want, (state.bits,), 0 if cap > most else cap)
        exact[item].append(part)
    grouped = _coarse(_with_few_choices(exact, parts, template), parts)
    if len(grouped) > _TOO_MANY:
        return _everything(parts)
    items, options = list(grouped), scheduler.problem.options
    unplaced = UnplacedPods([grouped[item] for item in items], parts)
    demand = market(items, unplaced.count.tolist(), [template])
    # Equal pods of several classes are one item here, though each class keeps apart by itself.
    found = dual_values(
        msgspec.structs.replace(demand, cap=np.full(len(items), np.inf)),
        program=sum(parts.values()) > _FEW_PODS,
    )
    fee = machine_fee(found.bound, int(unplaced.count.sum()))
    packing = pack_by_price(
        msgspec.structs.replace(demand, price=demand.price + fee),
        found,
        rounds=options.effort,
        seed=options.seed,
    )
    return ClaimOpener(scheduler, template, demand, unplaced).open_claims(packing, found.pod)


def machine_fee(bill: float, pods: int) -> float:
    """Return what each machine counts beside its price: it takes addresses, daemons and time to drain."""
    return _FEE * bill * min(1.0, _FEW_PODS / max(pods, 1))


def _everything(parts: Counter[Part]) -> Counter[int]:
    found: Counter[int] = Counter()
    for (pod_data, _), count in parts.items():
        found[pod_data.pod_class.number] += count
    return found


def _with_few_choices(
    grouped: dict[Item, list[Part]], parts: Counter[Part], template: Template
) -> dict[Item, list[Part]]:
    """Return items with few different sets of offerings, where there are too many to pack together."""
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
    """Return no more items than can be packed; each requests the most that any of its parts does."""
    if len(grouped) <= _MOST_ITEMS:
        return grouped
    items = list(grouped)
    counts = counted(grouped.values(), parts)
    sizes = np.array([item.want for item in items], np.float64)
    found: dict[Item, list[Part]] = {}
    for size_class in size_classes(sizes, counts, [(item.bits, item.cap) for item in items], _MOST_ITEMS):
        alike = [items[position] for position in size_class.tolist()]
        want = tuple(map(max, zip(*(item.want for item in alike), strict=True)))
        found[Item(want, alike[0].bits, alike[0].cap)] = [part for item in alike for part in grouped[item]]
    return found


class DevicePriceScheduler(Scheduler):
    """A scheduler in which pods with devices join a claim only if a node of their own costs more."""

    def __init__(self, encoded: EncodedProblem) -> None:
        super().__init__(encoded)
        self._dear: set[tuple[int, int]] = set()

    def first_that_holds(
        self, pod_data: PodData, claim: int, next_states: Sequence[ClaimState]
    ) -> ClaimState | None:
        """Return the first of some states in which a claim can and should hold one more pod."""
        state = super().first_that_holds(pod_data, claim, next_states)
        if state is None or not pod_data.pod_class.devices or self._pays(pod_data, claim, state):
            return state
        self._dear.add((pod_data.pod_class.number, self.nodes.count + claim))
        return None

    def lacks_devices(self, pod_data: PodData, number: int) -> bool:
        """Return whether asking a bin for devices again is useless, or too dear."""
        return (pod_data.pod_class.number, number) in self._dear or super().lacks_devices(pod_data, number)

    def _pays(self, pod_data: PodData, claim: int, state: ClaimState) -> bool:
        before = self._price(self.claims.states[claim], self.claims.total(claim, pod_data.pod_class.want, 0))
        more = self._price(state, self.claims.total(claim, pod_data.pod_class.want)) - before
        return more <= 0 or more <= self._alone(pod_data)

    def _alone(self, pod_data: PodData) -> float:
        """Return what a node for one pod alone costs; infinity when there is none."""
        waits = self.must_wait
        found = (self.new_claim(pod_data, template) for template in self.templates)
        first = next((new_claim for new_claim in found if new_claim is not None), None)
        self.must_wait = waits
        return self._price(first.state, pod_data.pod_class.want) if first is not None else float("inf")

    @staticmethod
    def _price(state: ClaimState, total: Sequence[int]) -> float:
        return state.template.table.cheapest(fitting_offerings(state, total))


def cheaper_with_devices(
    first: Scheduler, left: dict[int, int], pack: Callable[[Scheduler], dict[int, int]]
) -> tuple[Scheduler, dict[int, int]]:
    """Return a schedule with separate nodes for devices if it is better than `first`; `pack` fills it."""
    if not any(
        placement.pod_data.pod_class.devices and placement.bin >= first.nodes.count
        for placement in first.placements
    ):
        return first, left
    second = DevicePriceScheduler(first.encoded)
    rest = pack(second)
    more, fewer = sum(rest.values()), sum(left.values())
    if more < fewer or (more == fewer and hourly(second) < hourly(first) * _CHEAPER):
        return second, rest
    return first, left
