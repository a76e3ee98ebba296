"""
A small plan is improved by packing a few of its machines again, within a fixed number of steps.

The pods of a schedule become a :class:`.PatternProblem`, the schedule a solution of it, and what the large
neighbourhood search (:mod:`.neighbourhood`) finds is opened again through the checked moves of the scheduler.
What the problem does not know (reservations, affinity between classes, minValues, several NodePools) keeps a
schedule from being repacked.
"""

from __future__ import annotations

from collections import Counter
from math import gcd
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements
from karpenter.core.scheduling.decode import hourly
from karpenter.core.scheduling.pack.scheduler import Scheduler
from karpenter.core.scheduling.pack.topologygroup import TopologyType
from karpenter.core.scheduling.price.bound import (
    Market,
    counted_capacity,
    dual_values,
    free_room,
    market,
    placed_counts,
)
from karpenter.core.scheduling.price.divided import divided_demand
from karpenter.core.scheduling.price.neighbourhood import repacked
from karpenter.core.scheduling.price.patterns import Packing
from karpenter.core.scheduling.price.planner import (
    ClaimOpener,
    Part,
    UnplacedPods,
    machine_fee,
    topology_keys,
)
from karpenter.core.scheduling.price.whole import CHEAPER, Bin, Pattern, PatternProblem, Solution

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.pack.poddata import PodData

_STEPS: Final = 12_000
"""Steps of two to four microseconds each: no clock, so that a decision can be made again."""

_PODS: Final = 100
_CLASSES: Final = 30
_PODS_OF_FEW_CLASSES: Final = 300
_NODES: Final = 12
"""Existing nodes up to which a problem is small."""

_SUMS: Final = 20_000
"""Multiples of the unit of all requests in a machine up to which sums of requests are worked out."""


def repacked_schedule(first: Scheduler, left: Mapping[int, int]) -> Scheduler:
    """Return a schedule of a small problem that costs less than `first`, or `first`."""
    if first.stop() or any(left.values()) or first.nodes.count > _NODES or not may_repack(first):
        return first
    placed = placed_counts(first, left)
    pods = sum(placed.values())
    if pods > _PODS and (len(placed) > _CLASSES or pods > _PODS_OF_FEW_CLASSES):
        return first
    given, supply = pattern_problem(first, placed)
    fee = machine_fee(hourly(first), pods)
    given = _with_fee(given, fee)
    known = solution_of(first, given) if is_plain(first, given) else None
    found = repacked(given, known, _STEPS) if known is not None else None
    if found is None or found is known:
        return first
    again = opened(first, given, found, dual_values(supply, program=False).pod)
    return again if again is not None and _total(again, fee) < _total(first, fee) * CHEAPER else first


def _with_fee(given: PatternProblem, fee: float) -> PatternProblem:
    bins = [
        each if each.once else msgspec.structs.replace(each, price=each.price + fee) for each in given.bins
    ]
    return msgspec.structs.replace(given, bins=tuple(bins))


def _total(schedule: Scheduler, fee: float) -> float:
    return hourly(schedule) + fee * schedule.claims.count


def may_repack(first: Scheduler) -> bool:
    """Whether nothing but the pods limits how they may be divided over machines."""
    template = first.templates[0]
    return (
        len(first.templates) == 1  # the order of NodePools is not about price
        and not template.min_values
        and not template.reserves
        and first.devices is None
    )


def is_plain(first: Scheduler, given: PatternProblem) -> bool:
    """Whether nothing but resources, labels, hosts and one split limits any pod of a problem."""
    return all(
        _is_plain(first, first.pod_data[number], key) for classes, key, _ in given.where for number in classes
    )


def _is_plain(scheduler: Scheduler, by_relaxation: Sequence[PodData], key: str) -> bool:
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


def pattern_problem(placed: Scheduler, counts: Mapping[int, int]) -> tuple[PatternProblem, Market]:
    """Return the pods of some classes with the machines that may serve them, and the market of these."""
    scheduler = Scheduler(placed.encoded)
    demand = divided_demand(scheduler, counts)
    items, where = demand.items, demand.where
    limited = any(template.pool.limits for template in scheduler.templates)
    supply = market(items, demand.shares, scheduler.templates, limited=limited)
    most = np.array([_with_choice(scheduler, each) for each in scheduler.templates])
    rooms = np.minimum(supply.room, most[[source for source, _ in supply.sources]])
    want, sizes = [item.want for item in items], demand.sizes
    rooms = attainable(sizes, want, rooms)
    usable = supply.fits & (supply.want[None] <= rooms[:, None]).all(axis=2)
    bins = [
        Bin(tuple(map(int, room)), float(price), tuple(np.flatnonzero(fits).tolist()))
        for room, price, fits in zip(rooms, supply.price, usable, strict=True)
    ]
    free = attainable(sizes, want, free_room(scheduler))
    for number, node in enumerate(scheduler.problem.nodes):
        group = scheduler.node_groups.all[int(scheduler.node_groups.of[number])]
        mine = tuple(
            item
            for item, (classes, key, domain) in enumerate(where)
            if (not key or node.labels.get(key) == domain)
            and any(group.suits(pod_data) for each in classes for pod_data in scheduler.pod_data[each])
        )
        bins.append(Bin(tuple(map(int, free[number])), 0.0, mine, once=True))
    cap = tuple(item.cap or count for item, count in zip(items, sizes, strict=True))
    given = PatternProblem(
        count=tuple(sizes),
        want=tuple(item.want for item in items),
        cap=cap,
        bins=tuple(bins),
        splits=demand.splits,
        supply=supply,
        where=tuple(where),
        limits=tuple(_limits(scheduler, supply, len(bins))),
    )
    return given, supply


def solution_of(first: Scheduler, given: PatternProblem) -> Solution | None:
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
            (key,) = {given.where[item][1] for item in mine}
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
        patterns.append(Pattern(tuple(row.tolist()), given.bins[number].price, number))
    divided = tuple(tuple(holds[:, list(each.items)].sum(axis=0).tolist()) for each in given.splits)
    return Solution(sum(each.price for each in patterns), tuple(patterns), divided)


def opened(
    first: Scheduler,
    given: PatternProblem,
    solved: Solution,
    worth: NDArray[np.float64],
) -> Scheduler | None:
    """Return a schedule with the machines of a solution; None when it cannot be had by checked moves."""
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
            pod_data = scheduler.pod_data[number][0]
            parts[pod_data, pins] = domain_counts.get(item, len(pod_data.pod_class.pods))
            row.append((pod_data, pins))
        rows.append(row)
    unplaced = UnplacedPods(rows, parts)
    assert given.supply is not None
    machines = len(given.supply.price)
    patterns = nodes_filled(given, solved.patterns)
    on_nodes = [each for each in patterns if each.bin >= machines]
    bought = [each for each in patterns if each.bin < machines]
    if not all(_on_node(scheduler, unplaced, each.bin - machines, each) for each in on_nodes):
        return None
    packing = Packing(
        np.array([each.holds for each in bought], np.float64),
        np.array([each.bin for each in bought], np.int64),
        np.array([each.price for each in bought], np.float64),
    )
    opener = ClaimOpener(scheduler, scheduler.templates[0], given.supply, unplaced)
    rest = opener.open_claims(packing, worth)
    return scheduler if not rest else None


def nodes_filled(given: PatternProblem, patterns: Sequence[Pattern]) -> list[Pattern]:
    """Return the same pods with as many on existing nodes as these have room for, and no empty machine."""
    holds = {place: np.array(each.holds, np.int64) for place, each in enumerate(patterns)}
    on_node = {each.bin: place for place, each in enumerate(patterns) if given.bins[each.bin].once}
    bought = [place for place, each in enumerate(patterns) if not given.bins[each.bin].once]
    added: list[Pattern] = []
    for number, node in enumerate(given.bins):
        if not node.once:
            continue
        mine = holds[on_node[number]] if number in on_node else np.zeros(len(given.count), np.int64)
        for item in node.items:
            for place in bought:
                moved = min(int(holds[place][item]), _more_of(given, number, item, mine))
                holds[place][item] -= moved
                mine[item] += moved
        if number not in on_node and mine.any():
            added.append(Pattern(tuple(mine.tolist()), 0.0, number))
    kept = [
        Pattern(tuple(holds[place].tolist()), each.price, each.bin)
        for place, each in enumerate(patterns)
        if holds[place].any()
    ]
    return kept + added


def _more_of(given: PatternProblem, number: int, item: int, held: NDArray[np.int64]) -> int:
    """Return how many pods of an item a bin takes beside what it holds."""
    free = np.array(given.bins[number].room) - held @ np.array(given.want)
    want = np.array(given.want[item])
    most = int((free[want > 0] // want[want > 0]).min(initial=given.count[item]))
    return max(min(most, given.cap[item] - int(held[item])), 0)


def _on_node(scheduler: Scheduler, unplaced: UnplacedPods, node: int, pattern: Pattern) -> bool:
    """Put the pods of a pattern on an existing node; return whether it takes all of them."""
    for item, held in enumerate(pattern.holds):
        for (pod_data, _), count in unplaced.take(item, held):
            for _ in range(count):
                if node not in scheduler.nodes_for(pod_data) or not scheduler.node_takes(pod_data, node):
                    return False
                scheduler.put_on_node(pod_data, node)
    return True


def attainable(
    count: Sequence[int], want: Sequence[Sequence[int]], room: NDArray[np.float64]
) -> NDArray[np.float64]:
    """
    Return how much of each room pods can take at most, resource by resource: ``found[machine, resource]``.

    Requests are multiples of some amount, so what a room has beyond such a multiple is never used; of a small
    room more than that is not used, as few sums of requests are within it.
    """
    found = np.floor(room)
    for resource, column in enumerate(zip(*want, strict=True)):
        unit = gcd(*column)
        if unit and found[:, resource].max(initial=0.0) // unit <= _SUMS:
            most = int(found[:, resource].max(initial=0.0)) // unit
            sums = _sums([(amount // unit, each) for amount, each in zip(column, count, strict=True)], most)
            at_most = np.maximum.accumulate(np.where(sums, np.arange(most + 1), 0))
            found[:, resource] = at_most[found[:, resource].astype(np.int64) // unit] * unit
    return found


def _sums(amounts: Iterable[tuple[int, int]], most: int) -> NDArray[np.bool_]:
    """Return which numbers up to `most` are sums of amounts, each taken no more often than it is there."""
    sums, every = 1, ~(-2 << most)  # bits 0 to most
    for amount, count in amounts:
        left, times = count, 1
        while left:
            taken = min(times, left)
            sums |= sums << amount * taken & every
            left, times = left - taken, 2 * times
    return np.array([sums >> number & 1 for number in range(most + 1)], bool)


def _with_choice(scheduler: Scheduler, template: Template) -> NDArray[np.float64]:
    """
    Return the most of each resource that a claim may hold so that minValues leave it enough choice.

    What a claim holds fits types with so many values of a label; then for each resource as many values have a
    type with that much of it.
    """
    table = template.table
    found = np.full(table.room.shape[1], np.inf)
    if scheduler.problem.options.min_values == "Strict":
        for key, least in template.min_values.items():
            largest: dict[str, NDArray[np.float64]] = {}
            for number, kind in enumerate(table.types):
                for value in kind.requirements[key].values:
                    largest[value] = np.maximum(largest.get(value, 0.0), table.room[number])
            if len(largest) >= least:
                found = np.minimum(found, np.sort(list(largest.values()), axis=0)[-least])
    return found


def _limits(scheduler: Scheduler, supply: Market, bins: int) -> Iterator[tuple[tuple[float, ...], float]]:
    """Yield what each machine counts against each limit of each NodePool, and the limit."""
    for number, template in enumerate(scheduler.templates):
        counted = counted_capacity(template)[template.table.owner]
        for column, limit in enumerate(template.pool.limits.values()):
            weights = [
                float(counted[offering, column]) if source == number else 0.0
                for source, offering in supply.sources
            ]
            yield (*weights, *[0.0] * (bins - len(weights))), float(max(limit, 0))
