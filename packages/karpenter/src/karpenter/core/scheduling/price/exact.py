"""
The exact bound of a small problem: the least that whole machines with whole pods can cost.

A pattern is a set of pods that fits one machine. Every pattern that can be part of a plan cheaper than the
one at hand is enumerated, and an integer program buys the cheapest set of patterns that serves every pod.
What the program knows, every plan must obey: requests, node selectors and affinity, taints, how many pods
of a class may share a node, and how a class with a topology spread of its own is divided over domains.
What it does not know (limits, minValues, reservations, affinity between classes) can only make plans
dearer, so its optimum is a lower bound for every problem, and a plan that costs as much is optimal. Room on
existing nodes is a machine that costs nothing and is there once.

Patterns are left out by reduced cost: at dual values no machine is worth more than its price, so a plan
costs at least the values of its pods and the reduced costs of its machines. A problem with too many
patterns has the bound of a linear program with the same rows; one without the optional library ``highspy``
has none of both.
"""

from __future__ import annotations

from collections import Counter
from operator import mul
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements
from karpenter.core.scheduling.decode import hourly as hourly_of
from karpenter.core.scheduling.pack.scheduler import Scheduler
from karpenter.core.scheduling.pack.topologygroup import TopologyType
from karpenter.core.scheduling.price.bound import Item, Market, dual_values, item_of, library, market
from karpenter.core.scheduling.price.patterns import Packing
from karpenter.core.scheduling.price.planner import ClaimOpener, UnplacedPods, topology_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karpenter.core.scheduling.encode.preferences import PodData
    from karpenter.core.scheduling.pack.topologygroup import TopologyGroup
    from karpenter.core.scheduling.price.planner import Part

INTEGER_PROGRAM: Final = "integer program over linear program values"
"""Names the method; it needs the same optional library as the linear program."""

TOLERANCE: Final = 1e-6
"""Prices closer than this share of each other are equal; the integer program is not more exact."""

_PODS: Final = 100
_CLASSES: Final = 30
_PODS_OF_FEW_CLASSES: Final = 1000
_NODES: Final = 12
_PATTERNS: Final = 600
_STEPS: Final = 12_000
_COMPARED: Final = 1200
_SHARES: Final = (0.3, 1.0)
"""The share of the reduced cost that patterns may have: first for a cheaper plan, then for the proof."""

_BRANCHES: Final = 20
_ITERATIONS: Final = 20_000
"""Simplex iterations after which a program is given up: no clock, so that a decision can be made again."""


class DomainSplit(msgspec.Struct, frozen=True):
    """A class that is divided over the domains of a topology key; it is one item in each of them."""

    count: int
    items: tuple[int, ...]
    already: tuple[int, ...]
    """Pods that count in each domain before anything is placed."""

    max_skew: int
    from_zero: bool
    """Whether the emptiest domain counts as empty, as there are fewer than minDomains."""


class Bin(msgspec.Struct, frozen=True):
    """A machine that can be bought any number of times, or the room of a node that is there once."""

    room: tuple[int, ...]
    price: float
    items: tuple[int, ...]
    """The items that may use it."""

    unit: tuple[float, ...] = ()
    """Dual values per resource: no pod is worth more than what it asks for; none stands for nothing."""

    once: bool = False


class PatternProblem(msgspec.Struct, frozen=True):
    """What whole machines have to serve."""

    count: tuple[int, ...]
    """Pods per item; of an item of a split the most that it can have."""

    want: tuple[tuple[int, ...], ...]
    cap: tuple[int, ...]
    """How many pods of an item may share a machine."""

    bins: tuple[Bin, ...]
    splits: tuple[DomainSplit, ...] = ()
    value: tuple[float, ...] = ()
    """Dual values per item, at which no machine is worth more than its price."""

    base: float = 0.0
    """What the pods cost at those values."""

    supply: Market | None = None
    """The market behind the machines that can be bought."""

    where: tuple[tuple[tuple[int, ...], str, str], ...] = ()
    """The classes of each item, and the topology key and domain of a part of a split."""


class Pattern(msgspec.Struct, frozen=True):
    """Pods that share a machine: how many of each item, and the cheapest machine for them."""

    holds: tuple[int, ...]
    price: float
    bin: int
    once: bool = False


class Solution(msgspec.Struct, frozen=True):
    """What an integer program found: a lower bound, and the best solution, if any."""

    least: float
    cost: float
    columns: tuple[int, ...]
    """How often each pattern is bought."""

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
    placed = {each.number: len(each.pods) - left.get(each.number, 0) for each in first.encoded.classes}
    pods = sum(placed.values())
    small = pods <= _PODS or (len(placed) <= _CLASSES and pods <= _PODS_OF_FEW_CLASSES)
    if not small or first.nodes.count > _NODES or library() is None:
        return first, None
    given = pattern_problem(first, {number: count for number, count in placed.items() if count})
    best, cost, solved = first, hourly, None
    for share in _SHARES:
        found = None if first.stop() else patterns(given, cost, share)
        if found is None:
            solved = None
            break
        solved = cheapest(given, found)
        if solved is not None and solved.cost < cost * (1 - TOLERANCE) and not any(left.values()):
            again = _opened(first, given, found, solved)
            if again is not None and hourly_of(again) < cost * (1 - TOLERANCE):
                best, cost = again, hourly_of(again)
    if solved is None and not first.stop():
        solved = cheapest_machines(given, cost)
    # The plan at hand is among the plans that the program chooses from: more than its cost is no answer.
    if solved is None or solved.least > cost * (1 + TOLERANCE):
        return best, None
    return best, cost if solved.least >= cost * (1 - TOLERANCE) else solved.least


def _opened(
    first: Scheduler, given: PatternProblem, found: Sequence[Pattern], solved: Solution
) -> Scheduler | None:
    """Return a schedule with the machines of a solution; None when it cannot be had by checked moves."""
    if first.nodes.count or len(first.templates) != 1:  # the order of nodes and NodePools is not about price
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
    bought = [each for each, times in zip(found, solved.columns, strict=True) for _ in range(times)]
    packing = Packing(
        np.array([each.holds for each in bought], np.float64),
        np.array([each.bin for each in bought], np.int64),
        np.array([each.price for each in bought], np.float64),
    )
    assert given.supply is not None
    opener = ClaimOpener(scheduler, template, given.supply, unplaced)
    rest = opener.open_claims(packing, np.array(given.value))
    return scheduler if not rest else None


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


def pattern_problem(placed: Scheduler, counts: Mapping[int, int]) -> PatternProblem:
    """Return the pods of some classes and what may serve them, before anything is placed."""
    scheduler = Scheduler(placed.encoded)
    whole: Counter[tuple[Item, int]] = Counter()
    users: dict[tuple[Item, int], list[int]] = {}
    split: list[tuple[int, TopologyGroup, tuple[str, ...], int, Item]] = []
    for number, count in counts.items():
        by_relaxation = scheduler.pod_data[number]
        plain = item_of(scheduler, by_relaxation)
        item = Item(plain.want, plain.bits, _most_per_node(by_relaxation))
        group = _own_spread(scheduler, by_relaxation)
        if group is None:
            # How many may share a node is counted class by class, so only other classes are joined.
            same = item, number if item.cap else -1
            whole[same] += count
            users.setdefault(same, []).append(number)
        else:
            allowed = by_relaxation[0].strict[group.key]
            domains = tuple(sorted(domain for domain in group.counts if allowed.allows(domain)))
            split.append((count, group, domains, number, item))
    items, sizes, shares = (
        [item for item, _ in whole],
        list(whole.values()),
        [float(count) for count in whole.values()],
    )
    where = [(tuple(users[same]), "", "") for same in whole]
    splits = []
    for count, group, domains, number, item in split:
        splits.append(
            DomainSplit(
                count,
                tuple(range(len(items), len(items) + len(domains))),
                tuple(group.counts[domain] for domain in domains),
                group.spec.max_skew,
                len(domains) < group.spec.min_domains,
            )
        )
        for domain in domains:
            items.append(Item(item.want, _bits_in(scheduler, item, group.key, domain), item.cap))
            sizes.append(count)
            shares.append(count / len(domains))
            where.append(((number,), group.key, domain))
    return _with_supply(scheduler, items, sizes, shares, where, tuple(splits))


def _with_supply(  # noqa: PLR0917  the lists of one item each
    scheduler: Scheduler,
    items: list[Item],
    sizes: list[int],
    shares: list[float],
    where: list[tuple[tuple[int, ...], str, str]],
    splits: tuple[DomainSplit, ...],
) -> PatternProblem:
    supply = market(items, shares, scheduler.templates)
    values = dual_values(supply)
    # Free room is worth more than its price at any values, so nothing can be left out by reduced cost.
    units: list[tuple[float, ...]] = [() if scheduler.nodes.count else tuple(u) for u in values.unit.tolist()]
    bins = [
        Bin(tuple(map(int, room)), float(price), tuple(np.flatnonzero(fits).tolist()), unit)
        for room, price, fits, unit in zip(supply.room, supply.price, supply.fits, units, strict=True)
    ]
    axis = scheduler.encoded.axis
    for number, node in enumerate(scheduler.problem.nodes):
        group = scheduler.node_groups.all[int(scheduler.node_groups.of[number])]
        usable = tuple(
            item
            for item, (classes, key, domain) in enumerate(where)
            if (not key or node.labels.get(key) == domain)
            and any(group.suits(pod_data) for each in classes for pod_data in scheduler.pod_data[each])
        )
        room = tuple(max(node.free.get(name, 0), 0) for name in axis)
        bins.append(Bin(room, 0.0, usable, once=True))
    value, base = (0.0,) * len(items), 0.0
    if not scheduler.nodes.count:
        pod = values.pod.tolist()
        value = tuple(pod)
        base = sum(_least_divided(each, [value[item] for item in each.items]) for each in splits)
        alone = len(items) - sum(len(each.items) for each in splits)
        base += sum(value[item] * sizes[item] for item in range(alone))
    cap = tuple(item.cap or count for item, count in zip(items, sizes, strict=True))
    return PatternProblem(
        count=tuple(sizes),
        want=tuple(item.want for item in items),
        cap=cap,
        bins=tuple(bins),
        splits=splits,
        value=value,
        base=base,
        supply=supply,
        where=tuple(where),
    )


def _least_divided(split: DomainSplit, value: list[float]) -> float:
    """Return the least that the pods of a split are worth in any division that maxSkew allows."""
    best = np.inf
    order = sorted(range(len(value)), key=lambda domain: value[domain])
    for level in range(1 if split.from_zero else split.count + max(split.already) + 1):
        low = [max(0, level - already) for already in split.already]
        if split.from_zero:
            low = [0] * len(value)
        rest = split.count - sum(low)
        worth = sum(map(mul, low, value))
        for domain in order:
            more = min(rest, level + split.max_skew - split.already[domain] - low[domain])
            rest -= max(more, 0)
            worth += max(more, 0) * value[domain]
        if rest == 0:
            best = min(best, worth)
    return float(best) if np.isfinite(best) else 0.0


def _most_per_node(by_relaxation: Sequence[PodData]) -> int:
    """Return how many pods of a class may share a new node under any relaxation; 0 means any number."""
    found = []
    for pod_data in by_relaxation:
        caps = [1] if pod_data.pod_class.ports else []
        for demand in pod_data.demands.hosts:
            if demand.self_selecting and demand.group.kind is TopologyType.SPREAD:
                caps.append(demand.group.spec.max_skew)
            if demand.self_selecting and demand.group.kind is TopologyType.POD_ANTI_AFFINITY:
                caps.append(1)
        found.append(min(caps, default=0))
    return max(found) if all(found) else 0


def _own_spread(scheduler: Scheduler, by_relaxation: Sequence[PodData]) -> TopologyGroup | None:
    """
    Return a spread that holds a class under every relaxation and counts no other pods of the problem.

    Then the skew at the end is within maxSkew, whatever the order in which pods are placed. Where pods that
    run already exceed it, that does not follow.
    """
    first = by_relaxation[0]
    for demand in first.demands.domains:
        group = demand.group
        if group.kind is not TopologyType.SPREAD or not demand.self_selecting:
            continue
        if not all(
            demand in each.demands.domains and each.strict == first.strict for each in by_relaxation[1:]
        ):
            continue
        counted = [data for data in scheduler.pod_data.values() if group in scheduler.counting(data[0])]
        mine = [count for domain, count in group.counts.items() if first.strict[group.key].allows(domain)]
        least = 0 if len(mine) < group.spec.min_domains else min(mine, default=0)
        if len(counted) == 1 and mine and max(mine) - least <= group.spec.max_skew:
            return group
    return None


def _bits_in(scheduler: Scheduler, item: Item, key: str, domain: str) -> tuple[int, ...]:
    """Return the offerings of an item that can be in a domain, per template."""
    found = []
    for template, bits in zip(scheduler.templates, item.bits, strict=True):
        state = scheduler.states.step(scheduler.base(template), Requirements.only(key, frozenset({domain})))
        found.append(bits & state.bits if state is not None else 0)
    return tuple(found)


def patterns(given: PatternProblem, most: float, share: float = 1.0) -> list[Pattern] | None:
    """
    Return every pattern that a plan of cost `most` or less may use; None when there are too many.

    A `share` below one keeps only the patterns with a reduced cost in that share of what is allowed.
    """
    margin = share * (most - given.base) * (1 + TOLERANCE) + most * TOLERANCE
    best: dict[tuple[int, ...], Pattern] = {}
    on_nodes: list[Pattern] = []
    search = _PatternSearch(given)
    for number, each in enumerate(given.bins):
        if not search.fill(each, margin):
            return None
        for holds in search.found:
            if each.once:
                on_nodes.append(Pattern(holds, 0.0, number, once=True))
            elif holds not in best or each.price < best[holds].price:
                best[holds] = Pattern(holds, each.price, number)
        if len(best) + len(on_nodes) > _PATTERNS:
            return None
    return _undominated(list(best.values())) + on_nodes


def _undominated(found: list[Pattern]) -> list[Pattern]:
    """Return the patterns for which no other one holds as much for no more."""
    if not 1 < len(found) <= _COMPARED:
        return found
    order = sorted(found, key=lambda each: (each.price, [-held for held in each.holds]))
    holds = np.array([each.holds for each in order], np.int32)
    kept: list[int] = []
    for position in range(len(order)):
        if not (holds[kept] >= holds[position]).all(axis=1).any():
            kept.append(position)
    return [order[position] for position in kept]


class _PatternSearch:
    """Finds the maximal patterns of one machine after the other, within a number of steps for all."""

    def __init__(self, given: PatternProblem) -> None:
        self._given = given
        self._steps = 0
        self._unit: tuple[float, ...] = ()
        self.found: list[tuple[int, ...]] = []

    def fill(self, each: Bin, margin: float) -> bool:
        """Find the maximal patterns of a machine with a reduced cost within `margin`; False to give up."""
        self.found = []
        self._unit = each.unit or (0.0,) * len(each.room)
        # The largest item first: what it leaves decides the most.
        items = sorted(each.items, key=lambda item: self._given.want[item], reverse=True)
        return self._next(items, 0, list(each.room), [0] * len(self._given.count), each.price - margin)

    def _next(self, items: list[int], position: int, room: list[int], held: list[int], need: float) -> bool:
        given = self._given
        self._steps += 1
        if self._steps > _STEPS:
            return False
        if position == len(items):
            if need <= 0 and any(held) and not any(self._more(item, room, held[item]) for item in items):
                self.found.append(tuple(held))
            return True
        if need > 0:
            if sum(map(mul, self._unit, room)) < need:
                return True
            if sum(self._more(item, room, 0) * given.value[item] for item in items[position:]) < need:
                return True
        item = items[position]
        want, value = given.want[item], given.value[item]
        for count in range(self._more(item, room, 0), -1, -1):
            held[item] = count
            rest = [have - count * asked for have, asked in zip(room, want, strict=True)]
            if not self._next(items, position + 1, rest, held, need - count * value):
                return False
        return True

    def _more(self, item: int, room: list[int], held: int) -> int:
        """Return how many more pods of an item have room."""
        given = self._given
        most = min(given.count[item], given.cap[item]) - held
        for have, asked in zip(room, given.want[item], strict=True):
            if asked:
                most = min(most, have // asked)
        return most


def cheapest(given: PatternProblem, found: Sequence[Pattern]) -> Solution | None:
    """Return the cheapest patterns that serve every pod, as far as the program found and proved them."""
    program = _IntegerProgram(library())
    rows: list[dict[int, float]] = [{} for _ in given.count]
    at_node: dict[int, dict[int, float]] = {}
    for each in found:
        use = program.column(each.price, 1 if each.once else np.inf)
        for item, held in enumerate(each.holds):
            if held:
                rows[item][use] = held
        if each.once:
            at_node.setdefault(each.bin, {})[use] = 1
    for row in at_node.values():
        program.row(row, -np.inf, 1)
    return _serve(program, given, rows, len(found))


def cheapest_machines(given: PatternProblem, most: float) -> Solution | None:
    """
    Return a lower bound for the price of machines that serve every pod, where patterns are too many.

    Machines are divisible, but no share of one holds more pods of a class than that share of what fits.
    """
    program = _IntegerProgram(library())
    rows: list[dict[int, float]] = [{} for _ in given.count]
    for each in given.bins:
        if each.price > most:
            continue
        bought = program.column(each.price, 1 if each.once else np.inf)
        asked: list[dict[int, float]] = [{bought: -1.0} for _ in each.room]
        for item in each.items:
            want = given.want[item]
            fits = min(have // need for have, need in zip(each.room, want, strict=True) if need)
            served = program.column(0, np.inf)
            rows[item][served] = 1
            program.row({served: 1, bought: -min(fits, given.cap[item], given.count[item])}, -np.inf, 0)
            for resource, need in enumerate(want):
                if need and need <= each.room[resource]:
                    asked[resource][served] = need / each.room[resource]
        for row in asked:
            if len(row) > 2:  # noqa: PLR2004  one item alone is limited by how many of it fit
                program.row(row, -np.inf, 0)
    return _serve(program, given, rows, 0)


def _serve(
    program: _IntegerProgram, given: PatternProblem, rows: list[dict[int, float]], bought: int
) -> Solution | None:
    """Serve every pod by the columns that serve each item; the first `bought` columns are patterns."""
    parts = {item for each in given.splits for item in each.items}
    for item, row in enumerate(rows):
        if item not in parts:
            program.row(row, given.count[item], np.inf)
    placed = [_divide(program, each, rows) for each in given.splits]
    solved = program.solve(whole=bool(bought))
    if solved is None:
        return None
    least, cost, values = solved
    divided = tuple(tuple(values[column] for column in row) for row in placed)
    return Solution(least, cost, values[:bought], divided)


def _divide(program: _IntegerProgram, split: DomainSplit, rows: list[dict[int, float]]) -> list[int]:
    """Let a class have as many pods in each domain as maxSkew allows; return the column of each domain."""
    placed = [program.column(0, split.count) for _ in split.items]
    least = program.column(0, 0 if split.from_zero else np.inf)
    program.row(dict.fromkeys(placed, 1), split.count, split.count)
    for item, here, already in zip(split.items, placed, split.already, strict=True):
        program.row({**rows[item], here: -1}, 0, np.inf)
        program.row({here: 1, least: -1}, -np.inf, split.max_skew - already)
        program.row({least: 1, here: -1}, -np.inf, already)
    return placed


class _IntegerProgram:
    """An integer program in the making; no variable is negative."""

    def __init__(self, highspy: Any) -> None:
        self._highspy = highspy
        self._cost: list[float] = []
        self._upper: list[float] = []
        self._rows: list[tuple[dict[int, float], float, float]] = []

    def column(self, cost: float, upper: float) -> int:
        self._cost.append(cost)
        self._upper.append(upper)
        return len(self._cost) - 1

    def row(self, weights: dict[int, float], lower: float, upper: float) -> None:
        self._rows.append((weights, lower, upper))

    def solve(self, *, whole: bool) -> tuple[float, float, tuple[int, ...]] | None:
        """
        Return a lower bound, the cost of the best solution and its values; None when there is none.

        Unless variables are `whole`, the lower bound is that of the linear program.
        """
        highspy = self._highspy
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self._cost), len(self._rows)
        lp.col_cost_, lp.col_lower_ = np.array(self._cost, np.float64), np.zeros(len(self._cost))
        lp.col_upper_ = np.array(self._upper, np.float64)
        if whole:
            lp.integrality_ = [highspy.HighsVarType.kInteger] * len(self._cost)
        lp.row_lower_ = np.array([lower for _, lower, _ in self._rows], np.float64)
        lp.row_upper_ = np.array([upper for _, _, upper in self._rows], np.float64)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.cumsum([0, *(len(weights) for weights, _, _ in self._rows)])
        lp.a_matrix_.index_ = np.array([each for weights, _, _ in self._rows for each in weights], np.int32)
        lp.a_matrix_.value_ = np.array(
            [value for weights, _, _ in self._rows for value in weights.values()], np.float64
        )
        solver = highspy.Highs()
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("random_seed", 0),
            ("mip_rel_gap", TOLERANCE / 10),
            ("mip_abs_gap", 0.0),
            ("mip_max_nodes", _BRANCHES),
            ("parallel", "off"),
            ("simplex_iteration_limit", _ITERATIONS),
        ):
            solver.setOptionValue(option, value)
        solver.passModel(lp)
        solver.run()
        # Ended by the number of branches, the bound that was reached holds; the solution may be missing.
        known = highspy.HighsModelStatus
        if solver.getModelStatus() not in {known.kOptimal, known.kSolutionLimit}:
            return None
        info = solver.getInfo()
        cost = float(info.objective_function_value)
        # Rounding errors of the library must not make a bound too high.
        least = (float(info.mip_dual_bound) if whole else cost) * (1 - TOLERANCE / 10)
        values = tuple(round(value) for value in solver.getSolution().col_value)
        return least, cost, values
