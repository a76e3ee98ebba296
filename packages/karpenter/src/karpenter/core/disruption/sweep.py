"""
Looks at every node at once: which could be removed, in which order, for the least moving.

Each node is tried alone against arrays of what the others have free: its pods go to nodes with room of
their shape, what is left over to one new node. The best saving per cost of moving is taken, the arrays are
brought up to date, and the next best is tried again. A node that has taken pods stays. Quick and slightly
cautious: pods that count for spread or affinity stay in their zone. What comes out is a proposal; the
scheduler decides.

:class:`FreeResources` answers before a simulation which nodes could take any of some pods at all, so that
the others are no part of it. Exact integers; labels, taints and topology are not looked at.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from copy import copy
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import CPU, MEMORY, PODS
from karpenter.core.scheduling.pack.scheduler import Scheduler
from karpenter.core.scheduling.price.bound import (
    DualValues,
    Item,
    Market,
    cost_per_pod,
    dual_values,
    item_of,
    market,
)
from karpenter.core.scheduling.price.planner import topology_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from karpenter.core.disruption.budgets import Headroom
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.payback import LeastSaving
    from karpenter.core.scheduling.encode.encode import EncodedProblem, PodClass
    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.pack.poddata import PodData
    from karpenter.core.scheduling.pack.topologygroup import TopologyGroup
    from karpenter.core.scheduling.problem import ExistingNode
    from karpenter.core.state.statenode import StateNode


_FEW: Final = 16
"""Machines that are looked at together."""

_SAFETY: Final = 1e-9
"""The share by which rounding may make a lower bound too large."""


_KEPT: Final = 4
"""How many markets are kept for later passes."""

Shift = tuple[int, int, int]
"""Class, destination, count."""


class RemovalTrial(NamedTuple):
    """What taking one machine away would do."""

    saving: float
    shifts: list[Shift]

    exchanges: bool
    """Whether a new machine is bought."""


class SweepResult(NamedTuple):
    """Machines that should go: those whose pods fit on others, and those that need a new one."""

    emptied: list[Candidate]
    exchanged: list[Candidate]


class _Displacement(NamedTuple):
    """Machines whose pods are displaced, what those take elsewhere, and where they go."""

    places: Sequence[int]
    taken: dict[int, NDArray[np.int64]]
    shifts: list[Shift]
    keeps_domain: bool
    """Whether pods that count for spread or affinity stay in their zone, or another domain."""


class ClusterSweep:
    """Every node of a cluster, its free room, and the pods that could move."""

    def __init__(self, encoded: EncodedProblem, candidates: Sequence[Candidate]) -> None:
        self._begin(Scheduler(encoded))
        position = {node.name: number for number, node in enumerate(encoded.problem.nodes)}
        self.candidates = {position[c.name]: c for c in candidates if c.name in position}
        self.classes = {each.number: each for each in self._scheduler.encoded.classes}
        homes = {pod.key: at for at, c in self.candidates.items() for pod in c.movable}
        self.load: dict[int, Counter[int]] = {at: Counter() for at in self.candidates}
        for each in self._scheduler.encoded.classes:
            for pod in each.pods:
                if pod.key in homes:
                    self.load[homes[pod.key]][each.number] += 1
        self._suits: dict[int, NDArray[np.bool_]] = {}
        self._domains: dict[str, NDArray[np.object_]] = {}

    def _begin(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._open = ~scheduler.quiet
        self._version = 0
        """Rises whenever something is taken."""

        self._displaced: dict[int, tuple[int, list[Shift], Counter[int]]] = {}
        self._suited: dict[int, tuple[int, NDArray[np.int32]]] = {}

    @property
    def free(self) -> NDArray[np.int64]:
        """What is free, by resource and machine."""
        return self._scheduler.nodes.free

    def sweep(
        self, headroom: Headroom, stop: Callable[[], bool], least: Mapping[str, LeastSaving]
    ) -> SweepResult:
        """Return the machines that should go, the best first; the going of each saves at `least` so much."""
        # What a machine costs is the most that its going can save: most machines need no trial before
        # budgets are used up by better ones.
        queue = [
            (-candidate.price / candidate.cost, at)
            for at, candidate in self.candidates.items()
            if candidate.price is not None and candidate.price > min(least[candidate.name])
        ]
        heapify(queue)
        found = SweepResult([], [])
        busy: set[int] = set()
        while queue and not stop():
            _, at = heappop(queue)
            candidate = self.candidates[at]
            if at in busy or not headroom.allows(candidate):
                continue
            trial = self.trial(at)
            if trial is None:
                continue
            asked = least[candidate.name]
            if trial.saving <= (asked.exchanged if trial.exchanges else asked.given_up):
                continue
            value = -trial.saving / candidate.cost
            if queue and value > queue[0][0] + 1e-12:
                heappush(queue, (value, at))
                continue
            self._commit(at, trial)
            headroom = headroom.after([candidate])
            busy.update(destination for _, destination, _ in trial.shifts)
            (found.exchanged if trial.exchanges else found.emptied).append(candidate)
        return found

    def by_waste(self, price: Callable[[str], float]) -> list[Candidate]:
        """
        Return the machines that may cost more than what they hold would elsewhere, the worst first.

        Left out is what costs no more than the least that its pods must cost anywhere, and the `price`
        of moving them. The order also minds what they would cost among their own kind.
        """
        least, alone = self._worth()
        found = []
        for at, candidate in self.candidates.items():
            paid, load = candidate.price or 0.0, self.load[at].items()
            if paid - sum(least[number] * count for number, count in load) > price(candidate.name):
                # Neither is what the pods would cost in the end; half way between them comes close.
                waste = paid - sum((alone[number] + least[number]) / 2 * count for number, count in load)
                found.append((waste / candidate.cost, candidate))
        found.sort(key=lambda pair: (-pair[0], pair[1].name))
        return [candidate for _, candidate in found]

    def _worth(self) -> tuple[dict[int, float], dict[int, float]]:
        """Return, per class, the least that a pod must cost, and what it costs among its own kind."""
        if self.sold is None:
            return dict.fromkeys(self._items, 0.0), dict.fromkeys(self._items, 0.0)
        return self.per_class(self.least), self.per_class(cost_per_pod(self.sold))

    @cached_property
    def _items(self) -> dict[int, Item]:
        scheduler = self._scheduler
        return {
            each.number: item_of(scheduler, scheduler.pod_data[each.number])
            for each in scheduler.encoded.classes
        }

    @cached_property
    def _demand(self) -> Counter[Item]:
        demand: Counter[Item] = Counter()
        for each in self._scheduler.encoded.classes:
            demand[self._items[each.number]] += len(each.pods)
        return demand

    @cached_property
    def sold(self) -> Market | None:
        """What machines are sold to the pods that could move; None when none can be launched for any."""
        known = self._market
        return known.market if known is not None else None

    @cached_property
    def least(self) -> NDArray[np.float64]:
        """The least that a pod of each item of the market must cost."""
        assert self._market is not None
        return self._market.values.pod

    @cached_property
    def _market(self) -> KnownMarket | None:
        demand = self._demand
        return known_market(demand, self._scheduler.templates) if any(any(i.bits) for i in demand) else None

    def per_class(self, values: NDArray[np.float64]) -> dict[int, float]:
        """Return the value of each class, given that of each item of the market."""
        by_item = dict(zip(self._demand, values.tolist(), strict=True))
        return {number: by_item[item] for number, item in self._items.items()}

    def trial(self, at: int) -> RemovalTrial | None:
        """Return what taking a machine away would save, or None when its pods have no place."""
        shifts, leftover = self.displaced(at)
        price = self._new_machine(leftover, at) if leftover else 0.0
        if price is None:
            return None
        return RemovalTrial((self.candidates[at].price or 0.0) - price, shifts, bool(leftover))

    def displaced(self, at: int) -> tuple[list[Shift], Counter[int]]:
        """Return where the pods of a machine find room, and those that find none, per class number."""
        known = self._displaced.get(at)
        if known is None or known[0] != self._version:
            going = _Displacement((at,), {}, [], keeps_domain=True)
            known = self._displaced[at] = (self._version, going.shifts, self._displace(going))
        return known[1:]

    def left_over(self, places: Sequence[int]) -> Counter[int]:
        """Return the pods of several machines that find no room if those go at once, whatever their zone."""
        return self._displace(_Displacement(places, {}, [], keeps_domain=False))

    def _displace(self, going: _Displacement) -> Counter[int]:
        """Move what finds room; return what finds none."""
        leftover: Counter[int] = Counter()
        loads = [(number, at, count) for at in going.places for number, count in self.load[at].items()]
        for number, at, count in sorted(loads, key=lambda entry: self._rank(entry[0])):
            left = self._shift(self.classes[number], count, at, going)
            if left:
                leftover[number] += left
        return leftover

    def unswept(self) -> ClusterSweep:
        """Return the same cluster as it was before anything was taken."""
        if not self._version:
            return self
        found = copy(self)
        found._begin(Scheduler(self._scheduler.encoded))  # noqa: SLF001  a copy of this one
        return found

    def _rank(self, number: int) -> tuple[int, ...]:
        return tuple(-amount for amount in self.classes[number].want)

    def _shift(self, each: PodClass, count: int, at: int, going: _Displacement) -> int:
        """Spread pods of a class over machines that stay; return how many found no room."""
        scheduler = self._scheduler
        pod_data = scheduler.pod_data[each.number][0]
        keys = topology_keys(scheduler, pod_data) if going.keeps_domain else ()
        columns = [self._column(key) for key in keys]
        asked = [(axis, amount) for axis, amount in enumerate(each.want) if amount > 0]
        for node in _one_by_one(self._with_room(each, pod_data)):
            if node in going.places or any(column[node] != column[at] for column in columns):
                continue
            used = going.taken.get(node)
            free = scheduler.nodes.free[:, node] if used is None else scheduler.nodes.free[:, node] - used
            left = free.tolist()
            most = min(count, pod_data.host_cap(node), *(left[axis] // amount for axis, amount in asked))
            if (
                most <= 0
                or not scheduler.fits_ports(pod_data, node)
                or not scheduler.fits_volumes(pod_data, node)
            ):
                continue
            going.taken[node] = each.vector * most if used is None else used + each.vector * most
            going.shifts.append((each.number, node, most))
            count -= most
            if not count:
                break
        return count

    def _with_room(self, each: PodClass, pod_data: PodData) -> NDArray[np.int32]:
        """Return the open machines that suit a class and have room for one pod, the best first."""
        known = self._suited.get(each.number)
        if known is None or known[0] != self._version:
            fine = self._open & self._suiting(pod_data) & self._scheduler.nodes.with_room(each.want)
            found = self._scheduler.in_order(fine, pod_data)
            known = self._suited[each.number] = (self._version, found.astype(np.int32))
        return known[1]

    def _suiting(self, pod_data: PodData) -> NDArray[np.bool_]:
        found = self._suits.get(pod_data.pod_class.number)
        if found is None:
            kinds = np.array([kind.suits(pod_data) for kind in self._scheduler.node_groups.all], bool)
            found = self._suits[pod_data.pod_class.number] = kinds[self._scheduler.node_groups.of]
        return found

    def _column(self, key: str) -> NDArray[np.object_]:
        found = self._domains.get(key)
        if found is None:
            values = [node.labels.get(key) for node in self._scheduler.problem.nodes]
            found = np.empty(len(values), object)
            found[:] = values
            self._domains[key] = found
        return found

    def _new_machine(self, leftover: Counter[int], at: int) -> float | None:
        """Return the price of the cheapest new machine that takes everything left over."""
        scheduler = self._scheduler
        total = np.zeros(len(scheduler.encoded.axis), np.int64)
        for number, count in leftover.items():
            each = self.classes[number]
            if scheduler.pod_data[number][0].host_cap(scheduler.nodes.count) < count:
                return None
            total += each.vector * count
        for template in scheduler.templates:
            state = scheduler.base(template)
            for number in leftover:
                pod_data = scheduler.pod_data[number][0]
                reached = (
                    scheduler.states.step(state, pod_data.requirements)
                    if pod_data.tolerates(template)
                    else None
                )
                for key in topology_keys(scheduler, pod_data) if reached is not None else ():
                    domain = self._column(key)[at]
                    if reached is not None and domain is not None:
                        reached = scheduler.states.step(reached, Requirements.only(key, frozenset({domain})))
                if reached is None:
                    break
                state = reached
            else:
                table = template.table
                roomy = np.asarray((table.room >= total).all(axis=1), bool)
                fine = roomy[table.owner] & table.flags(state.bits)
                if fine.any():
                    return float(table.price[fine].min())
        return None

    def _commit(self, at: int, trial: RemovalTrial) -> None:
        scheduler = self._scheduler
        self._version += 1
        self._open[at] = False
        for number, node, count in trial.shifts:
            pod_data = scheduler.pod_data[number][0]
            scheduler.nodes.take(node, pod_data.pod_class.vector, count)
            for group in scheduler.counting(pod_data):
                self._recount(group, at, node, count)

    @staticmethod
    def _recount(group: TopologyGroup, at: int, node: int, count: int) -> None:
        if group.by_host:
            group.hosts.add(at, -min(count, group.hosts[at]))
            group.hosts.add(node, count)


class KnownMarket:
    """A market, and the least that a pod of each of its items must cost."""

    def __init__(self, demand: Mapping[Item, int], templates: Sequence[Template]) -> None:
        self.types = [template.table.types for template in templates]
        self.market = market(list(demand), list(demand.values()), templates)

    @cached_property
    def values(self) -> DualValues:
        return dual_values(self.market)


_markets: OrderedDict[object, KnownMarket] = OrderedDict()


def known_market(demand: Mapping[Item, int], templates: Sequence[Template]) -> KnownMarket:
    """Return a market, the same object for the same demand: a pass that follows another has the same pods."""
    # A market holds the types of its templates, so no other object can have their id.
    sold = tuple((id(each.table.types), each.table.room.tobytes()) for each in templates)
    key = (tuple(demand.items()), sold)
    found = _markets.get(key)
    if found is None:
        found = _markets[key] = KnownMarket(demand, templates)
        if len(_markets) > _KEPT:
            _markets.popitem(last=False)
    _markets.move_to_end(key)
    return found


class RemovalBound:
    """
    What machines must cost that are launched when others go, at least, without a simulation.

    Their pods must be paid for at the least that such pods cost anywhere, but for those that free room on
    other machines could take; and a pod for which there is no room anywhere needs a whole machine. Topology,
    taints and labels of nodes are left aside, so a simulation pays this much or more.
    """

    def __init__(self, sweep: ClusterSweep) -> None:
        self._at = {candidate.name: at for at, candidate in sweep.candidates.items()}
        self._load = sweep.load
        self._want = {each.number: each.vector.astype(np.float64) for each in sweep.classes.values()}
        self._free = np.maximum(sweep.free, 0).T.astype(np.float64)
        self._sweep = sweep

    @cached_property
    def _least(self) -> dict[int, float]:
        """The least that a pod of each class must cost."""
        sweep = self._sweep
        return sweep.per_class(sweep.least) if sweep.sold is not None else dict.fromkeys(sweep.classes, 0.0)

    @cached_property
    def _whole(self) -> dict[int, float]:
        """The cheapest machine for a pod of each class."""
        sold = self._sweep.sold
        if sold is None:
            return dict.fromkeys(self._sweep.classes, 0.0)
        priced = np.where(sold.fits, sold.price[:, None], np.inf).min(axis=0, initial=np.inf)
        return self._sweep.per_class(np.where(np.isfinite(priced), priced, 0.0))

    @cached_property
    def _class(self) -> dict[str, int]:
        return {pod.key: each.number for each in self._sweep.classes.values() for pod in each.pods}

    @cached_property
    def _unswept(self) -> ClusterSweep:
        return self._sweep.unswept()

    def classes_of(self, pods: Iterable[str]) -> Counter[int]:
        """Return how many of some pods are of each class; pods that only wait are of none."""
        return Counter(self._class[pod] for pod in pods if pod in self._class)

    def left_over(self, candidates: Sequence[Candidate]) -> Counter[int]:
        """Return how many pods of each class a trial finds no room for if these machines go: an estimate."""
        return self._unswept.left_over([self._at[c.name] for c in candidates if c.name in self._at])

    def least_paid(self, pods: Counter[int]) -> float:
        """Return what new machines for so many pods of each class must cost at least."""
        least = sum(self._least[number] * count for number, count in pods.items())
        return max(least, max((self._whole[number] for number in pods), default=0.0)) * (1 - _SAFETY)

    def least_launched(self, candidates: Sequence[Candidate]) -> float:
        """Return what new machines cost at least, in any simulation, if these machines go."""
        places = [self._at[c.name] for c in candidates if c.name in self._at]
        load: Counter[int] = Counter()
        for at in places:
            load.update(self._load[at])
        if len(places) < len(candidates) or not load:
            return 0.0
        numbers = list(load)
        want = np.array([self._want[number] for number in numbers])
        worth = np.array([self._least[number] for number in numbers])
        count = np.array([load[number] for number in numbers], np.float64)
        free = np.delete(self._free, places, axis=0)
        # Of each class, how many pods each machine has room for: all of them where it asks for nothing.
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(want > 0, np.floor(free[:, None] / want), np.inf).min(axis=2, initial=np.inf)
        room = np.minimum(room, count)
        taken = np.minimum(room @ worth, _shared_worth(free, want, worth))
        least = float(worth @ count - taken.sum())
        stranded = [
            self._whole[number]
            for number, most in zip(numbers, room.max(axis=0, initial=0.0), strict=True)
            if most < 1
        ]
        return max(least, max(stranded, default=0.0), 0.0) * (1 - _SAFETY)


def _shared_worth(
    free: NDArray[np.float64], want: NDArray[np.float64], worth: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return what the pods on each machine can be worth together: no resource goes further than it is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(want > 0, worth[:, None] / want, np.inf).max(axis=0, initial=0.0)
        most = np.where(np.isfinite(rate), free * rate, np.inf)
    found: NDArray[np.float64] = np.min(most, axis=1, initial=np.inf)
    return found


def _one_by_one(nodes: NDArray[np.int32]) -> Iterator[int]:
    """Yield the entries of an array, of which usually only the first few are wanted."""
    for start in range(0, len(nodes), _FEW):
        yield from nodes[start : start + _FEW].tolist()


_ALWAYS: Final = frozenset({CPU, MEMORY, PODS})
"""Resources that are always looked at; a node that is overdrawn in one takes no pod."""


class FreeResources:
    """The free room of every machine."""

    def __init__(self, nodes: Sequence[ExistingNode]) -> None:
        self._nodes = nodes
        self._at = {node.name: number for number, node in enumerate(nodes)}
        self._free: dict[str, NDArray[np.int64]] = {}

    def with_room(self, want: Mapping[str, int], *, without: AbstractSet[str]) -> list[int]:
        """Return the positions of machines, `without` some, that have room for `want`, in order."""
        fine = np.ones(len(self._nodes), bool)
        for name in _ALWAYS | want.keys():
            fine &= self._row(name) >= max(want.get(name, 0), 0)
        for each in without:
            if each in self._at:
                fine[self._at[each]] = False
        found: list[int] = np.flatnonzero(fine).tolist()
        return found

    def _row(self, name: str) -> NDArray[np.int64]:
        found = self._free.get(name)
        if found is None:
            row = [node.free.get(name, 0) for node in self._nodes]
            found = self._free[name] = np.array(row, np.int64)
        return found


def least_requests(lists: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the least that any list asks for, of each resource that all of them ask for."""
    found: dict[str, int] | None = None
    for each in lists:
        if found is None:
            found = dict(each)
        else:
            found = {name: min(amount, each[name]) for name, amount in found.items() if name in each}
    return found or {}


def memory_per_cpu(nodes: Iterable[StateNode]) -> float:
    """Return how much memory is asked for with each unit of processor, on all machines together."""
    used: Counter[str] = Counter()
    for node in nodes:
        free, size = node.available, node.allocatable
        used.update({name: size.get(name, 0) - free.get(name, 0) for name in (CPU, MEMORY)})
    return max(used[MEMORY], 0) / max(used[CPU], 1)
