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
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements
from karpenter.core.scheduling.decode import hourly as hourly_of
from karpenter.core.scheduling.pack.scheduler import Scheduler
from karpenter.core.scheduling.pack.topologygroup import TopologyType
from karpenter.core.scheduling.price.bound import Item, dual_values, item_of, library, market
from karpenter.core.scheduling.price.columns import (
    Bin,
    DomainSplit,
    LinearProgram,
    Pattern,
    PatternProblem,
    PatternSearch,
    PodValues,
    pod_values,
    served_rows,
)
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
_PATTERNS: Final = 3000
_STATES: Final = 60_000
_COMPARED: Final = 6000
_SHARES: Final = (0.1, 0.3, 1.0)
"""The share of the reduced cost that patterns may have: first for a cheaper plan, then for the proof."""

_BRANCHES: Final = 20
_ITERATIONS: Final = 20_000
_PLANS: Final = 100_000
"""Plans after which a search is given up: no clock, so that a decision can be made again."""

_TOGETHER: Final = 256
_EQUAL: Final = 1e-12


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
    given, start = pattern_problem(first, {number: count for number, count in placed.items() if count})
    values = pod_values(given, hourly, library(), start)
    best, cost, least = first, hourly, values.bound
    for share in _SHARES:
        if first.stop() or least >= cost * (1 - TOLERANCE):
            break
        found = patterns(given, values, cost, share)
        if found is None:
            continue
        proved, solved = CoverSearch(given, values, found).run(cost, _PLANS)
        if solved is not None and not any(left.values()):
            again = _opened(first, given, found, solved, values)
            if again is not None and hourly_of(again) < cost * (1 - TOLERANCE):
                best, cost = again, hourly_of(again)
        if share == 1.0:
            least = max(least, min(proved, solved.cost if solved is not None else cost))
    # The plan at hand is among the plans that the program chooses from: more than its cost is no answer.
    if least > cost * (1 + TOLERANCE):
        return best, None
    return best, cost if least >= cost * (1 - TOLERANCE) else least


def _opened(
    first: Scheduler,
    given: PatternProblem,
    found: Sequence[Pattern],
    solved: Solution,
    values: PodValues,
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
    rest = opener.open_claims(packing, values.value)
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


def pattern_problem(
    placed: Scheduler, counts: Mapping[int, int]
) -> tuple[PatternProblem, NDArray[np.float64]]:
    """Return the pods of some classes, what may serve them before anything is placed, and first values of pods."""
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
) -> tuple[PatternProblem, NDArray[np.float64]]:
    supply = market(items, shares, scheduler.templates)
    bins = [
        Bin(tuple(map(int, room)), float(price), tuple(np.flatnonzero(fits).tolist()))
        for room, price, fits in zip(supply.room, supply.price, supply.fits, strict=True)
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
    cap = tuple(item.cap or count for item, count in zip(items, sizes, strict=True))
    given = PatternProblem(
        count=tuple(sizes),
        want=tuple(item.want for item in items),
        cap=cap,
        bins=tuple(bins),
        splits=splits,
        supply=supply,
        where=tuple(where),
    )
    return given, dual_values(supply).pod


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


def patterns(given: PatternProblem, values: PodValues, most: float, share: float = 1.0) -> list[Pattern] | None:
    """
    Return every pattern that a plan of cost `most` or less may use; None when there are too many.

    At the values of pods a plan costs at least the bound and the reduced costs of its patterns. A `share` below
    one keeps only the patterns with a reduced cost in that share of what is allowed.
    """
    margin = share * (most - values.bound) * (1 + TOLERANCE) + most * TOLERANCE
    search = PatternSearch(given)
    found = search.patterns(values.value, search.price + values.at_node - margin, _STATES)
    if not found.complete.all() or len(found.bin) > _COMPARED:
        return None
    best: dict[tuple[int, ...], Pattern] = {}
    on_nodes: list[Pattern] = []
    for number, row in zip(found.bin.tolist(), found.holds.tolist(), strict=True):
        each, holds = given.bins[number], tuple(row)
        if each.once:
            on_nodes.append(Pattern(holds, 0.0, number, once=True))
        elif holds not in best or each.price < best[holds].price:
            best[holds] = Pattern(holds, each.price, number)
    kept = _undominated(list(best.values())) + on_nodes
    return kept if len(kept) <= _PATTERNS else None


def _undominated(found: list[Pattern]) -> list[Pattern]:
    """Return the patterns for which no other one holds as much for no more."""
    order = sorted(found, key=lambda each: (each.price, [-held for held in each.holds]))
    holds = np.array([each.holds for each in order], np.int32)
    kept: list[int] = []
    for position in range(len(order)):
        if not (holds[kept] >= holds[position]).all(axis=1).any():
            kept.append(position)
    return [order[position] for position in kept]


def cheapest(given: PatternProblem, found: Sequence[Pattern]) -> Solution | None:
    """Return the cheapest patterns that serve every pod, as far as the program found and proved them."""
    program = LinearProgram(library())
    rows: list[dict[int, float]] = [{} for _ in given.count]
    used: dict[int, dict[int, float]] = {}
    for each in found:
        use = program.column(each.price, 1 if each.once else np.inf)
        for item, held in enumerate(each.holds):
            if held:
                rows[item][use] = held
        used.setdefault(each.bin, {})[use] = 1
    placed = served_rows(program, given, rows)
    for number, row in used.items():
        # How many machines of a kind there are, as a variable: the solver finds better branches and cuts with it.
        program.row({**row, program.column(0, 1 if given.bins[number].once else np.inf): -1}, 0, 0)
    solver = program.solver(whole=True)
    for option, value in (
        ("mip_rel_gap", TOLERANCE / 10),
        ("mip_abs_gap", 0.0),
        ("mip_max_nodes", _BRANCHES),
        ("simplex_iteration_limit", _ITERATIONS),
    ):
        solver.setOptionValue(option, value)
    solver.run()
    # Ended by the number of branches, the bound that was reached holds; the solution may be missing.
    known = program.highspy.HighsModelStatus
    if solver.getModelStatus() not in {known.kOptimal, known.kSolutionLimit}:
        return None
    info = solver.getInfo()
    # Rounding errors of the library must not make a bound too high.
    least = float(info.mip_dual_bound) * (1 - TOLERANCE / 10)
    values = [round(value) for value in solver.getSolution().col_value]
    divided = tuple(tuple(values[column] for column in row) for row in placed)
    return Solution(least, float(info.objective_function_value), tuple(values[: len(found)]), divided)


def divisions(split: DomainSplit) -> list[tuple[int, ...]]:
    """Return every division of a class over its domains that maxSkew allows."""
    found: list[tuple[int, ...]] = []

    def divide(done: tuple[int, ...], left: int) -> None:
        if len(done) == len(split.items) - 1:
            here = (*done, left)
            total = [placed + already for placed, already in zip(here, split.already, strict=True)]
            if max(total) - (0 if split.from_zero else min(total)) <= split.max_skew:
                found.append(here)
            return
        for count in range(left + 1):
            divide((*done, count), left - count)

    divide((), split.count)
    return found


class _Plans(msgspec.Struct, frozen=True):
    """Plans that serve a part of the pods, one per row."""

    left: NDArray[np.int16]
    """Pods of each item that are not served; of an undecided split the room for it so far, below zero."""

    cost: NDArray[np.float64]
    undecided: NDArray[np.int64]
    """The splits that are not divided yet, as bits."""

    used: NDArray[np.int64]
    """The nodes that hold pods of the plan, as bits."""

    number: NDArray[np.int64]

    def some(self, which: NDArray[Any] | slice) -> _Plans:
        return _Plans(
            self.left[which], self.cost[which], self.undecided[which], self.used[which], self.number[which]
        )


class CoverSearch:
    """
    Finds the cheapest patterns that serve every pod, by branch and bound.

    The item whose pods are worth most and are not served is served next, by each pattern that holds it; a class
    that is split over domains is divided first, in each way that is allowed. A plan is given up when its cost and
    the worth of its unserved pods exceed the best plan. Of plans that leave the same pods the cheapest is kept.
    """

    def __init__(self, given: PatternProblem, values: PodValues, found: Sequence[Pattern]) -> None:
        self._given = given
        # Items are numbered by value, so that the first that is not served is the next one.
        self._order = np.argsort(-values.value, kind="stable")
        rank = np.argsort(self._order)
        self._value = values.value[self._order]
        self._holds = np.array([each.holds for each in found], np.int16)[:, self._order]
        self._price = np.array([each.price for each in found])
        self._splits = [[int(rank[item]) for item in each.items] for each in given.splits]
        self._divided = [np.array(divisions(each), np.int16) for each in given.splits]
        self._split_of = np.full(len(rank), -1, np.int64)
        for number, items in enumerate(self._splits):
            self._split_of[items] = number
        self._least = np.array(
            [
                float((rows @ self._value[items]).min())
                for items, rows in zip(self._splits, self._divided, strict=True)
            ]
        )
        nodes = [number for number, each in enumerate(given.bins) if each.once]
        self._at_node = values.at_node[nodes]
        self._bit = np.array([1 << nodes.index(each.bin) if each.once else 0 for each in found], np.int64)
        worth = self._holds @ self._value
        at_node = np.array([values.at_node[each.bin] for each in found])
        reduced = self._price + at_node - worth
        self._users = []
        for item in range(len(rank)):
            users = np.flatnonzero(self._holds[:, item] > 0)
            users = users[np.argsort(reduced[users], kind="stable")]
            self._users.append((users, reduced[users]))
        self._seed = np.random.default_rng(0).integers(1, 2**62, len(rank) + 2) | 1
        self._seen: dict[int, float] = {}
        self._parent = [(-1, -1, -1)]
        """Of each plan: the plan before, the pattern that was added, or the split with its division."""

        self._best = np.inf
        self._chosen = -1

    def run(self, most: float, limit: int) -> tuple[float, Solution | None]:
        """
        Return a lower bound for plans that cost less than `most`, and the best of them that was found.

        No plan costs less than the lower of the bound and `most`. The search ends after `limit` plans.
        """
        self._best = most * (1 - TOLERANCE)
        first = np.array([self._given.count[item] for item in self._order], np.int16)
        first[self._split_of >= 0] = 0
        waiting = [
            _Plans(
                first[None],
                np.zeros(1),
                np.array([(1 << len(self._splits)) - 1], np.int64),
                np.zeros(1, np.int64),
                np.zeros(1, np.int64),
            )
        ]
        while waiting:
            plans = waiting.pop()
            if len(self._parent) > limit:
                waiting.append(plans)
                break
            children = self._children(plans)
            for start in range(0, len(children.cost), _TOGETHER):
                waiting.append(children.some(slice(start, start + _TOGETHER)))
        least = min((float(self._low(plans).min()) for plans in waiting), default=np.inf)
        return least, self._solution() if self._chosen >= 0 else None

    def _low(self, plans: _Plans) -> NDArray[np.float64]:
        """Return the least that plans cost once they serve every pod."""
        low: NDArray[np.float64] = plans.cost + plans.left @ self._value
        for number, least in enumerate(self._least):
            low = low + ((plans.undecided >> number) & 1) * least
        for number, worth in enumerate(self._at_node):
            low = low - (1 - ((plans.used >> number) & 1)) * worth
        return low

    def _children(self, plans: _Plans) -> _Plans:
        """Return the plans that follow, the best last."""
        low = self._low(plans)
        keep = low < self._best
        plans, low = plans.some(keep), low[keep]
        undecided = (self._split_of >= 0) & ((plans.undecided[:, None] >> self._split_of.clip(0)) & 1).astype(bool)
        needs = (plans.left > 0) | undecided
        item = np.where(needs.any(axis=1), needs.argmax(axis=1), -1)
        ended = item < 0
        if ended.any():
            cheapest_ended = int(np.where(ended, plans.cost, np.inf).argmin())
            self._best = float(plans.cost[cheapest_ended])
            self._chosen = int(plans.number[cheapest_ended])
        found = []
        for each in np.unique(item[~ended]).tolist():
            mine = item == each
            to_divide = mine & undecided[:, each]
            if to_divide.any():
                found.append(self._divide(plans.some(to_divide), int(self._split_of[each])))
            to_serve = mine & ~undecided[:, each]
            if to_serve.any():
                found.append(self._serve(plans.some(to_serve), low[to_serve], each))
        if not found:
            return plans.some(slice(0, 0))
        made, how = zip(*found, strict=True)
        return self._kept(
            _Plans(
                np.concatenate([each.left for each in made]),
                np.concatenate([each.cost for each in made]),
                np.concatenate([each.undecided for each in made]),
                np.concatenate([each.used for each in made]),
                np.concatenate([each.number for each in made]),
            ),
            np.concatenate(how),
        )

    def _divide(self, plans: _Plans, split: int) -> tuple[_Plans, NDArray[np.int64]]:
        """Divide a split in every way."""
        rows, items = self._divided[split], self._splits[split]
        source = np.repeat(np.arange(len(plans.cost)), len(rows))
        choice = np.tile(np.arange(len(rows)), len(plans.cost))
        made = plans.some(source)
        left = made.left.copy()
        left[:, items] = np.maximum(left[:, items] + rows[choice], 0)
        made = msgspec.structs.replace(made, left=left, undecided=made.undecided & ~(1 << split))
        return made, np.stack([np.full(len(choice), split), choice], axis=1)

    def _serve(self, plans: _Plans, low: NDArray[np.float64], item: int) -> tuple[_Plans, NDArray[np.int64]]:
        """Serve an item by every pattern that does not make a plan too dear."""
        users, reduced = self._users[item]
        times = np.searchsorted(reduced, self._best - low, side="right")
        source = np.repeat(np.arange(len(times)), times)
        position = np.arange(len(source)) - (np.cumsum(times) - times)[source]
        pattern = users[position]
        free = (plans.used[source] & self._bit[pattern]) == 0
        source, pattern = source[free], pattern[free]
        made = plans.some(source)
        left = np.maximum(made.left, 0) - self._holds[pattern]
        undecided = (self._split_of >= 0) & ((made.undecided[:, None] >> self._split_of.clip(0)) & 1).astype(bool)
        left = np.where(undecided, made.left - self._holds[pattern], np.maximum(left, 0))
        made = msgspec.structs.replace(
            made, left=left, cost=made.cost + self._price[pattern], used=made.used | self._bit[pattern]
        )
        return made, np.stack([np.full(len(pattern), -1), pattern], axis=1)

    def _kept(self, made: _Plans, how: NDArray[np.int64]) -> _Plans:
        """Return the plans that may become the best, and that leave other pods than any before."""
        low = self._low(made)
        order = np.argsort(-low, kind="stable")
        order = order[low[order] < self._best]
        # Two plans with the same 64 bits by chance: once in a billion searches.
        with np.errstate(over="ignore"):
            key = made.left[order].astype(np.int64) @ self._seed[:-2]
            key += made.undecided[order] * self._seed[-2] + made.used[order] * self._seed[-1]
        fresh, number = [], []
        cost, parent = made.cost.tolist(), made.number.tolist()
        for position, same in zip(order.tolist(), key.tolist(), strict=True):
            if cost[position] < self._seen.get(same, np.inf) - _EQUAL:
                self._seen[same] = cost[position]
                fresh.append(position)
                number.append(len(self._parent))
                self._parent.append((parent[position], *how[position].tolist()))
        plans = made.some(np.array(fresh, np.int64))
        return msgspec.structs.replace(plans, number=np.array(number, np.int64))

    def _solution(self) -> Solution:
        """Return the best plan as patterns and divisions."""
        columns = [0] * len(self._price)
        divided: list[tuple[int, ...]] = [()] * len(self._splits)
        at = self._chosen
        while at > 0:
            at, split, choice = self._parent[at]
            if split < 0:
                columns[choice] += 1
            else:
                divided[split] = tuple(self._divided[split][choice].tolist())
        return Solution(self._best, self._best, tuple(columns), tuple(divided))
