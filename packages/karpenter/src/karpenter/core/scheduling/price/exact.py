"""
The exact bound of a small problem: the least that whole machines with whole pods can cost.

What the search knows, every plan must obey: requests, node selectors and affinity, taints, how many pods of
a class may share a node, and how a class with a topology spread of its own is divided over domains. What it
does not know (limits, minValues, reservations, affinity between classes) can only make plans dearer, so its
optimum is a lower bound for every problem, and a plan that costs as much is optimal. Room on existing nodes
is a machine that costs nothing and is there once.

The values of pods (:mod:`.columns`) prove a bound that is nearly exact once the number of machines is whole.
So all plans are divided by how many machines they buy, and what is left for each choice of machines is
whether the pods fit. A search that does not come to an end proves what it has reached; then a few machines
at a time of the best plan are searched again by themselves. Needs the optional library ``highspy``.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush
from operator import mul
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements
from karpenter.core.scheduling.decode import hourly as hourly_of
from karpenter.core.scheduling.pack.scheduler import Scheduler
from karpenter.core.scheduling.pack.topologygroup import TopologyType
from karpenter.core.scheduling.price.bound import dual_values, free_room, market, placed_counts, undominated
from karpenter.core.scheduling.price.columns import (
    Bin,
    ColumnProgram,
    Pattern,
    PatternProblem,
    served_rows,
)
from karpenter.core.scheduling.price.divided import divided_demand
from karpenter.core.scheduling.price.linear import LinearProgram, library
from karpenter.core.scheduling.price.patterns import Packing
from karpenter.core.scheduling.price.planner import ClaimOpener, UnplacedPods, topology_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karpenter.core.scheduling.encode.preferences import PodData
    from karpenter.core.scheduling.price.divided import DividedDemand
    from karpenter.core.scheduling.price.planner import Part

INTEGER_PROGRAM: Final = "integer program over linear program values"
"""Names the method; it needs the same optional library as the linear program."""

TOLERANCE: Final = 1e-6
"""Prices closer than this share of each other are equal; the integer program is not more exact."""

_CHEAPER: Final = 1 - TOLERANCE

_PODS: Final = 100
_CLASSES: Final = 30
_PODS_OF_FEW_CLASSES: Final = 1000
_NODES: Final = 12
_WORK: Final = 400_000
"""Partial patterns that are looked at: no clock, so that a decision can be made again."""

_OVERHEAD: Final = 2000

_NEIGHBOURS: Final = 15
"""Times that a few machines are searched again by themselves."""

_FAILURES: Final = 4
_TOGETHER: Final = 4
_PART_WORK: Final = 15_000
_BRANCHES: Final = 50
_LOOKS: Final = 6
"""Groups of machines for which the effect of a division is worked out at once."""

_WHOLE: Final = 1e-6
_EQUAL: Final = 1e-12


class Solution(msgspec.Struct, frozen=True):
    """Whole pods on whole machines."""

    cost: float
    patterns: tuple[Pattern, ...]
    """The pods of each machine."""

    divided: tuple[tuple[int, ...], ...] = ()
    """Pods in each domain, per split."""


def cheapest_schedule(
    first: Scheduler, left: Mapping[int, int], hourly: float
) -> tuple[Scheduler, float | None]:
    """
    Return the cheapest schedule that is found for a small problem, and the least that any can cost.

    The schedule is `first` unless a cheaper one passes the checks of the scheduler; the bound is None where
    the problem is too large.
    """
    placed = placed_counts(first, left)
    pods = sum(placed.values())
    small = pods <= _PODS or (len(placed) <= _CLASSES and pods <= _PODS_OF_FEW_CLASSES)
    if not small or first.nodes.count > _NODES or library() is None:
        return first, None
    given, start = pattern_problem(first, placed)
    if first.stop():
        return first, None
    search = MachineSearch(given, start, hourly)
    least, solved = search.run(0)
    if least < hourly * _CHEAPER:
        known = solved if solved is not None else _known(first, given)
        if known is not None:
            search.offer(improved(given, known, search.value))
        least, solved = search.run(_WORK)
    best, cost = first, hourly
    if solved is not None and not any(left.values()):
        again = _opened(first, given, solved, start)
        if again is not None and hourly_of(again) < cost * _CHEAPER:
            best, cost = again, hourly_of(again)
    return best, cost if least >= cost * _CHEAPER else least


def _opened(
    first: Scheduler,
    given: PatternProblem,
    solved: Solution,
    worth: NDArray[np.float64],
) -> Scheduler | None:
    """Return a schedule with the machines of a solution; None when it cannot be had by checked moves."""
    if len(first.templates) != 1:  # the order of NodePools is not about price
        return None
    template = first.templates[0]
    if template.min_values or template.reserves or first.devices is not None:
        return None
    scheduler = Scheduler(first.encoded)
    parts: Counter[Part] = Counter()
    rows: list[list[Part]] = []
    domain_counts = {
        item: count
        for each, counts in zip(given.splits, solved.divided, strict=True)
        for item, count in zip(each.items, counts, strict=True)
    }
    for item, (classes, key, domain) in enumerate(given.where):
        pins = Requirements.only(key, frozenset({domain})) if key else NOTHING_REQUIRED
        row: list[Part] = []
        for number in classes:
            by_relaxation = scheduler.pod_data[number]
            if not _is_plain(scheduler, by_relaxation, key):
                return None
            part = (by_relaxation[0], pins)
            parts[part] = domain_counts.get(item, len(by_relaxation[0].pod_class.pods))
            row.append(part)
        rows.append(row)
    unplaced = UnplacedPods(rows, parts)
    assert given.supply is not None
    machines = len(given.supply.price)
    on_nodes = [each for each in solved.patterns if each.bin >= machines]
    bought = [each for each in solved.patterns if each.bin < machines]
    if not all(_on_node(scheduler, unplaced, each.bin - machines, each) for each in on_nodes):
        return None
    packing = Packing(
        np.array([each.holds for each in bought], np.float64),
        np.array([each.bin for each in bought], np.int64),
        np.array([each.price for each in bought], np.float64),
    )
    opener = ClaimOpener(scheduler, template, given.supply, unplaced)
    rest = opener.open_claims(packing, worth)
    return scheduler if not rest else None


def _on_node(scheduler: Scheduler, unplaced: UnplacedPods, node: int, pattern: Pattern) -> bool:
    """Put the pods of a pattern on an existing node; return whether it takes all of them."""
    for item, held in enumerate(pattern.holds):
        for (pod_data, _), count in unplaced.take(item, held):
            for _ in range(count):
                if node not in scheduler.nodes_for(pod_data) or not scheduler.node_takes(pod_data, node):
                    return False
                scheduler.put_on_node(pod_data, node)
    return True


def _is_plain(scheduler: Scheduler, by_relaxation: Sequence[PodData], key: str) -> bool:
    """Return whether nothing but resources, labels, hosts and the split over `key` limits a class."""
    first = by_relaxation[0]
    return (
        len(by_relaxation) == 1
        and not first.pod_class.ports
        and not first.volumes
        and not first.pod_class.volumes.claims
        and not any(demand.group.kind is TopologyType.POD_AFFINITY for demand in first.demands.hosts)
        and topology_keys(scheduler, first) <= ({key} if key else set())
        and len(first.demands.domains) <= 1
    )


def pattern_problem(
    placed: Scheduler, counts: Mapping[int, int]
) -> tuple[PatternProblem, NDArray[np.float64]]:
    """Return the pods of some classes, what may serve them at first, and first values of pods."""
    scheduler = Scheduler(placed.encoded)
    return _with_supply(scheduler, divided_demand(scheduler, counts))


def _with_supply(scheduler: Scheduler, demand: DividedDemand) -> tuple[PatternProblem, NDArray[np.float64]]:
    items, sizes, where = demand.items, demand.sizes, demand.where
    supply = market(items, demand.shares, scheduler.templates)
    bins = [
        Bin(tuple(map(int, room)), float(price), tuple(np.flatnonzero(fits).tolist()))
        for room, price, fits in zip(supply.room, supply.price, supply.fits, strict=True)
    ]
    free = free_room(scheduler)
    for number, node in enumerate(scheduler.problem.nodes):
        group = scheduler.node_groups.all[int(scheduler.node_groups.of[number])]
        usable = tuple(
            item
            for item, (classes, key, domain) in enumerate(where)
            if (not key or node.labels.get(key) == domain)
            and any(group.suits(pod_data) for each in classes for pod_data in scheduler.pod_data[each])
        )
        bins.append(Bin(tuple(map(int, free[number])), 0.0, usable, once=True))
    cap = tuple(item.cap or count for item, count in zip(items, sizes, strict=True))
    given = PatternProblem(
        count=tuple(sizes),
        want=tuple(item.want for item in items),
        cap=cap,
        bins=tuple(bins),
        splits=demand.splits,
        supply=supply,
        where=tuple(where),
    )
    return given, dual_values(supply).pod


def _known(first: Scheduler, given: PatternProblem) -> Solution | None:
    """Return a schedule as patterns; None when its pods are not those of the problem in an obvious way."""
    assert given.supply is not None
    items: dict[int, list[int]] = {}
    for item, (classes, _, _) in enumerate(given.where):
        for number in classes:
            items.setdefault(number, []).append(item)
    nodes, machines = first.nodes.count, len(given.supply.price)
    holds = np.zeros((nodes + first.claims.count, len(given.count)), np.int64)
    for placement in first.placements:
        mine = items[placement.pod_data.pod_class.number]
        if len(mine) > 1:
            key = given.where[mine[0]][1]
            if placement.bin < nodes:
                domains = {first.problem.nodes[placement.bin].labels.get(key, "")}
            else:
                domains = set(first.claims.states[placement.bin - nodes].domains(key) or ())
            mine = [item for item in mine if {given.where[item][2]} == domains]
        if len(mine) != 1:
            return None
        holds[placement.bin, mine[0]] += placement.pod_count
    patterns = [Pattern(tuple(row), 0.0, machines + node) for node, row in enumerate(holds[:nodes].tolist())]
    for row in holds[nodes:]:
        fits = (row @ np.array(given.want) <= given.supply.room).all(axis=1)
        fits &= ~(~given.supply.fits & (row > 0)).any(axis=1)
        if not fits.any():
            return None
        number = int(np.where(fits, given.supply.price, np.inf).argmin())
        patterns.append(Pattern(tuple(row.tolist()), float(given.supply.price[number]), number))
    divided = tuple(tuple(holds[:, list(each.items)].sum(axis=0).tolist()) for each in given.splits)
    return Solution(sum(each.price for each in patterns), tuple(patterns), divided)


def improved(given: PatternProblem, known: Solution, worth: NDArray[np.float64]) -> Solution:
    """Return a plan that costs no more than a known one: a few machines at a time are searched again."""
    # Large neighbourhood search. The pods of a split stay in their domains.
    rng = np.random.default_rng(0)
    kept = [each for each in known.patterns if given.bins[each.bin].once]
    bought = [each for each in known.patterns if not given.bins[each.bin].once]
    failures, left = 0, _NEIGHBOURS
    while failures < _FAILURES and left and len(bought) > 1:
        failures, left = failures + 1, left - 1
        waste = np.array([each.price - float(np.array(each.holds) @ worth) for each in bought])
        order = np.argsort(-waste * rng.uniform(0.0, 1.0, len(waste)), kind="stable")
        some = order[: int(rng.integers(2, _TOGETHER + 1))].tolist()
        cost = sum(bought[number].price for number in some)
        part, items, bins = _part_of(given, [bought[number] for number in some])
        search = MachineSearch(part, worth[items], cost, hasty=True)
        _, solved = search.run(_PART_WORK)
        if solved is not None:
            failures = 0
            bought = [each for number, each in enumerate(bought) if number not in some]
            for each in solved.patterns:
                holds = np.zeros(len(given.count), np.int64)
                holds[items] = each.holds
                bought.append(Pattern(tuple(holds.tolist()), each.price, int(bins[each.bin])))
    patterns = (*kept, *bought)
    return Solution(sum(each.price for each in patterns), patterns, known.divided)


def _part_of(
    given: PatternProblem, some: Sequence[Pattern]
) -> tuple[PatternProblem, NDArray[np.int64], NDArray[np.int64]]:
    """Return the pods of some machines as a problem of their own, with the items and machines in it."""
    counts = np.array([each.holds for each in some]).sum(axis=0)
    items = np.flatnonzero(counts)
    assert given.supply is not None
    usable = given.supply.fits[:, items]
    bins = np.flatnonzero(usable.any(axis=1))
    room, price = given.supply.room[bins].astype(np.int64), given.supply.price[bins]
    bins = bins[undominated(room, price, usable[bins])]
    part = PatternProblem(
        count=tuple(counts[items].tolist()),
        want=tuple(given.want[item] for item in items.tolist()),
        cap=tuple(given.cap[item] for item in items.tolist()),
        bins=tuple(
            Bin(
                given.bins[number].room,
                given.bins[number].price,
                tuple(np.flatnonzero(usable[number]).tolist()),
            )
            for number in bins.tolist()
        ),
    )
    return part, items, bins


def on_machines(given: PatternProblem, machines: Sequence[int]) -> Solution | None:
    """
    Return whole pods on some machines, each a number of a bin; without machines when they do not fit.

    None means that it was not found out.
    """
    program = LinearProgram(library())
    rows: list[dict[int, float]] = [{} for _ in given.count]
    held: list[dict[int, int]] = []
    for number in machines:
        each, mine = given.bins[number], {}
        for item in each.items:
            most = min(
                given.count[item],
                given.cap[item],
                *(room // want for room, want in zip(each.room, given.want[item], strict=True) if want),
            )
            if most > 0:
                mine[item] = program.column(0, most)
                rows[item][mine[item]] = 1.0
        for resource, room in enumerate(each.room):
            # Amounts are counted in machines: bytes and cores differ by nine orders of magnitude.
            taken = {column: given.want[item][resource] / max(room, 1) for item, column in mine.items()}
            program.row({column: share for column, share in taken.items() if share}, -np.inf, 1.0 + _EQUAL)
        held.append(mine)
    placed = served_rows(program, given, rows)
    solver = program.solver(whole=True)
    solver.setOptionValue("mip_max_nodes", _BRANCHES)
    solver.setOptionValue("mip_max_improving_sols", 1)
    solver.run()
    known = program.highspy.HighsModelStatus
    if solver.getModelStatus() == known.kInfeasible:
        return Solution(np.inf, (), ())
    values = [round(value) for value in solver.getSolution().col_value]
    if solver.getInfo().primal_solution_status != program.highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    holds = [[0] * len(given.count) for _ in machines]
    for row, mine in zip(holds, held, strict=True):
        for item, column in mine.items():
            row[item] = values[column]
    patterns = tuple(
        Pattern(tuple(row), given.bins[number].price, number)
        for row, number in zip(holds, machines, strict=True)
    )
    if any(not _fits(given, each) for each in patterns):  # rounding errors of the library
        return None
    divided = tuple(tuple(values[column] for column in row) for row in placed)
    return Solution(sum(each.price for each in patterns), patterns, divided)


def _fits(given: PatternProblem, pattern: Pattern) -> bool:
    room = given.bins[pattern.bin].room
    return all(
        sum(map(mul, pattern.holds, column)) <= has
        for column, has in zip(zip(*given.want, strict=True), room, strict=True)
    )


class _Part(msgspec.Struct, frozen=True):
    """A part of all plans: so many machines of each group."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    least: float
    machines: NDArray[np.float64]


class MachineSearch:
    """
    Finds the cheapest machines for whole pods, by branch and price.

    All plans are divided by how many machines of a group they buy, until the linear program over patterns
    buys whole machines; then an integer program puts whole pods on them. A part of the plans is given up
    when its bound exceeds the best plan (C. Barnhart et al., "Branch-and-price: column generation for
    solving huge integer programs", 1998). What is divided next is what raised the bounds most so far.
    """

    def __init__(
        self, given: PatternProblem, first: NDArray[np.float64], most: float, *, hasty: bool = False
    ) -> None:
        self._given = given
        self._program = ColumnProgram(given, most, library())
        self._hasty = hasty
        """Whether good plans matter and bounds do not."""

        self._program.begin(first)
        self._most = self.best = most
        self._solved: Solution | None = None
        self._gains: dict[int, tuple[float, float]] = {}
        self._tried: dict[bytes, Solution | None] = {}
        self._waiting: list[tuple[float, int, _Part]] = []
        self._pushed = 0
        self._begun = False
        self._whole_problem = True
        """Whether nothing is divided yet."""

        self._part: _Part | None = None
        self.value = first
        """What a pod of each item is worth."""

        self._open = np.inf
        """The least bound of a part that is neither divided nor given up."""

    def run(self, limit: int) -> tuple[float, Solution | None]:
        """
        Return the least that any plan costs, and the best plan below the first.

        The search ends after `limit` partial patterns; a part of all plans counts as some hundred of them.
        """
        program, spent = self._program, 0
        if not self._begun:
            self._begun = True
            program.limit = self._limit(_WORK)
            self._part = self._bounded(program.low, program.high, 0.0)
            if self._part is not None:
                self._dive(self._part)
        program.limit = self._limit(limit)
        if limit and self._whole_problem and not self._hasty and self._part is not None:
            # The values of the whole problem tell which patterns matter, with its own limits.
            program.bounded(self._part.low, self._part.high)
            program.enumerate(self.best)
        while spent + program.search.work < limit:
            if self._part is None:
                self._part = self._next()
                if self._part is None:
                    break
                self._dive(self._part)
            self._whole_problem = False
            self._part = self._divided(self._part)
            spent += _OVERHEAD
        if program.failed:
            return 0.0, self._solved
        waiting = [bound for bound, _, _ in self._waiting]
        if self._part is not None:
            waiting.append(self._part.least)
        return min([self._open, self.best, *waiting]), self._solved

    def _limit(self, limit: int) -> int:
        """Return after how many partial patterns a search is not repeated with more of them."""
        return 0 if self._hasty else limit

    def offer(self, known: Solution) -> None:
        """Take over a plan if it is better than the best."""
        if self._is_better(known.cost):
            self.best, self._solved = known.cost, known

    def _is_better(self, cost: float) -> bool:
        """Return whether what costs so much is better than the best plan."""
        return cost < self.best * _CHEAPER

    def _next(self) -> _Part | None:
        """Return the part with the lowest bound."""
        while self._waiting:
            least, _, part = heappop(self._waiting)
            if self._is_better(least):
                return part
        return None

    def _bounded(self, low: NDArray[np.float64], high: NDArray[np.float64], least: float) -> _Part | None:
        """Return a part with its bound; None when no plan in it is better than the best."""
        self._program.bounded(low, high)
        solved = self._program.generate(self.best * _CHEAPER)
        if solved is None or not self._is_better(solved.cost):
            return None
        self.value = solved.value
        part = _Part(low, high, max(least, solved.cost), solved.machines)
        self._whole(part)
        return part if self._is_better(part.least) else None

    def _whole(self, part: _Part) -> Solution | None:
        """Put whole pods on the machines of a part, rounded up; keep what is better than the best."""
        bins = len(self._given.bins)
        machines = np.ceil(part.machines[:bins] - _WHOLE).astype(np.int64)
        machines[self._program.search.once] = 1
        cost = float(machines @ self._program.price)
        if not self._is_better(cost):
            return None
        same = machines.tobytes()
        if same not in self._tried:
            found = on_machines(self._given, np.repeat(np.arange(bins), machines).tolist())
            self._tried[same] = found
            if found is not None and found.patterns:
                self.best, self._solved = found.cost, found
        return self._tried[same]

    def _dive(self, part: _Part) -> None:
        """Look for a better plan: buy one machine after the other whole that is bought in part."""
        program, bins = self._program, len(self._given.bins)
        for weight in (np.ones(bins), program.price):
            low, machines = part.low.copy(), part.machines[:bins]
            while True:
                share = np.where(program.search.once, 0.0, machines - np.floor(machines + _WHOLE))
                if share.max(initial=0.0) <= _WHOLE:
                    self._whole(_Part(low, part.high, part.least, machines))
                    break
                chosen = int(np.where(share > _WHOLE, share * weight, 0.0).argmax())
                low[chosen] = np.ceil(machines[chosen])
                program.bounded(low.copy(), part.high)
                solved = program.solve()
                if solved is None or not self._is_better(solved.cost):
                    break
                machines = solved.machines[:bins]

    def _divided(self, part: _Part) -> _Part | None:
        """Divide a part in two or three; return the most promising, and keep the others for later."""
        near = np.round(part.machines)
        broken = np.flatnonzero((np.abs(part.machines - near) > _WHOLE) & ~self._program.once)
        if len(broken):
            group = self._group(part, broken)
            under, over = np.floor(part.machines[group]), np.ceil(part.machines[group])
            ranges = [(part.low[group], under), (over, part.high[group])]
        else:
            chosen = self._undecided(part, near)
            if chosen is None:
                if self._whole(part) is None and self._is_better(self._price_of(near)):
                    self._open = min(self._open, part.least)
                return None
            group, count = chosen, near[chosen]
            ranges = [(part.low[group], count - 1), (count, count), (count + 1, part.high[group])]
        found = []
        for low, high in ranges:
            if low <= high:
                lows, highs = part.low.copy(), part.high.copy()
                lows[group], highs[group] = low, high
                each = self._bounded(lows, highs, part.least)
                if each is not None:
                    found.append(each)
        found.sort(key=lambda each: each.least)
        for each in found[1:]:
            self._pushed += 1
            heappush(self._waiting, (each.least, self._pushed, each))
        return found[0] if found and self._is_better(found[0].least) else None

    def _price_of(self, near: NDArray[np.float64]) -> float:
        return float(near[: len(self._given.bins)] @ self._program.price)

    def _undecided(self, part: _Part, near: NDArray[np.float64]) -> int | None:
        """Return a group that a part with whole machines leaves open; None when there is no choice left."""
        total = len(self._given.bins)
        if part.low[total] < part.high[total]:
            return total
        used = np.flatnonzero(
            (near[:total] > 0) & ~self._program.search.once & (part.low[:total] < near[:total])
        )
        return int(used[0]) if len(used) else None

    def _group(self, part: _Part, broken: NDArray[np.int64]) -> int:
        """Return the group of machines whose division raises the bounds most."""
        share = part.machines[broken] - np.floor(part.machines[broken])
        order = np.argsort(-np.minimum(share, 1 - share), kind="stable")
        best, score, new = int(broken[order[0]]), -1.0, 0
        for position in order.tolist():
            group, up = int(broken[position]), float(share[position])
            if group not in self._gains:
                if new == _LOOKS:
                    continue
                new += 1
                self._gains[group] = self._gain(part, group, up)
            below, above = self._gains[group]
            gain = below * up * above * (1 - up)
            if gain > score:
                best, score = group, gain
        return best

    def _gain(self, part: _Part, group: int, up: float) -> tuple[float, float]:
        """Return by how much the bounds of both halves rise per machine, with the patterns that are known."""
        gains = []
        for low, high, step in (
            (part.low[group], np.floor(part.machines[group]), up),
            (np.ceil(part.machines[group]), part.high[group], 1 - up),
        ):
            lows, highs = part.low.copy(), part.high.copy()
            lows[group], highs[group] = low, high
            self._program.bounded(lows, highs)
            solved = self._program.solve()
            cost = min(solved.cost, self._most) if solved is not None else self._most
            gains.append(max(cost - part.least, self._most * TOLERANCE) / step)
        return gains[0], gains[1]
