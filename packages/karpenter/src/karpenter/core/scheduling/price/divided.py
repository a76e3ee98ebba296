"""
Demand that is divided over domains: classes with a topology spread of their own, and pods that keep apart.

A class with a spread is one item in each domain; how many pods a domain has is open within what maxSkew
allows, so a bound counts the cheapest division. How many pods may share a machine is a resource of the
machine for the classes where that decides how many machines there are.
"""

from __future__ import annotations

from collections import Counter
from operator import mul
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.pack.scheduler import Scheduler
from karpenter.core.scheduling.pack.topologygroup import TopologyGroup, TopologyType
from karpenter.core.scheduling.price.bound import (
    Item,
    Proof,
    bought,
    dual_values,
    few_masks,
    item_of,
    market,
    placed_counts,
    proof,
    with_caps,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from karpenter.core.scheduling.encode.preferences import PodData

_SOME: Final = 1e-3
"""Pods of a class in a domain where it has none: they are worth something there as well."""

_WORTH_IT: Final = 1e-3
"""The share of the bound that machines cost at least for which another linear program is solved."""

_CAPS: Final = 8
"""Items for which room on a machine for pods that keep apart counts as a resource."""


class DomainSplit(msgspec.Struct, frozen=True):
    """A class that is divided over the domains of a topology key; it is one item in each of them."""

    count: int
    items: tuple[int, ...]
    already: tuple[int, ...]
    """Pods that count in each domain before anything is placed."""

    max_skew: int
    from_zero: bool
    """Whether the emptiest domain counts as empty, as there are fewer than minDomains."""


def worth_of_pods(count: Sequence[int], splits: Sequence[DomainSplit], value: NDArray[np.float64]) -> float:
    """Return what all pods are worth at least, however the pods of splits are divided."""
    parts = {item for each in splits for item in each.items}
    alone = sum(float(value[item]) * pods for item, pods in enumerate(count) if item not in parts)
    return alone + sum(least_divided(each, [float(value[item]) for item in each.items]) for each in splits)


def least_divided(split: DomainSplit, value: Sequence[float]) -> float:
    """Return the least that the pods of a split are worth in any division that maxSkew allows."""
    order = sorted(range(len(value)), key=lambda domain: value[domain])
    worth = [sum(map(mul, counts, value)) for counts in _divisions(split, order)]
    return float(min(worth, default=0.0))


def most_divided(split: DomainSplit) -> tuple[int, ...]:
    domains = range(len(split.items))
    found = ([first, *(other for other in domains if other != first)] for first in domains)
    return tuple(
        max((counts[first[0]] for counts in _divisions(split, first)), default=split.count) for first in found
    )


def least_in_each(split: DomainSplit) -> tuple[int, ...]:
    """Return the fewest pods that each domain of a split can have."""
    domains = range(len(split.items))
    found = ([*(other for other in domains if other != last), last] for last in domains)
    return tuple(min((counts[last[-1]] for counts in _divisions(split, last)), default=0) for last in found)


def _divisions(split: DomainSplit, order: Sequence[int]) -> Iterator[list[int]]:
    """Yield for each count that the emptiest domain may have a division that fills domains in some order."""
    total, domains = split.count + sum(split.already), len(split.items)
    first = max(0, -(-total // domains) - split.max_skew, max(split.already) - split.max_skew)
    for level in (0,) if split.from_zero else range(first, total // domains + 1):
        counts = [0 if split.from_zero else max(0, level - already) for already in split.already]
        rest = split.count - sum(counts)
        for domain in order:
            more = max(0, min(rest, level + split.max_skew - split.already[domain] - counts[domain]))
            rest -= more
            counts[domain] += more
        if rest == 0:
            yield counts


def divided_bound(placed: Scheduler, left: Mapping[int, int]) -> tuple[float, str] | None:
    """
    Return the lower bound of divisible pods that keep apart or are divided over domains, and its method.

    The values of pods in each domain come from a linear program with the shares of the schedule; whatever the
    values are, no division costs less than the cheapest that maxSkew allows. None without such pods, or with
    existing nodes.
    """
    if placed.nodes.count:
        return None
    demand = divided_demand(Scheduler(placed.encoded), placed_counts(placed, left), placed)
    if not demand.splits and not any(item.cap for item in demand.items):
        return None
    items = few_masks(demand.items, demand.sizes)
    found = proof(placed, items, demand.shares)
    worth = dict(zip(((item.want, item.bits) for item in found.items), found.values.pod, strict=True))
    value = np.array([worth[item.want, item.bits] for item in items])
    bound = worth_of_pods(demand.sizes, demand.splits, value)
    apart = _needing_more(items, demand.shares, found)
    if len(apart):
        again = dual_values(with_caps(market(items, demand.shares, placed.templates), apart)).pod
        bound = max(bound, worth_of_pods(demand.sizes, demand.splits, again))
    return max(bound, 0.0 if demand.splits else found.values.bound), found.values.method


def _needing_more(items: Sequence[Item], shares: Sequence[float], found: Proof) -> NDArray[np.int64]:
    """Return the items whose pods keep apart on more machines than a plan of divisible pods buys."""
    if found.values.flow is None:
        return np.empty(0, np.int64)
    machines = bought(found.market, found.values.flow) @ found.market.fits
    have = dict(zip(((item.want, item.bits) for item in found.items), machines, strict=True))
    lack = np.array(
        [
            share / item.cap - have[item.want, item.bits] if item.cap else 0.0
            for item, share in zip(items, shares, strict=True)
        ]
    )
    lack *= float(found.market.price.min())
    most = np.argsort(-lack, kind="stable")[:_CAPS]
    return most[lack[most] > _WORTH_IT * found.values.bound]


class DividedDemand(msgspec.Struct, frozen=True):
    """Items, of which some are parts of a class that is divided over domains."""

    items: list[Item]
    sizes: list[int]
    """Pods per item; of a part of a split the most that it can have."""

    shares: list[float]
    """Pods per item as in a schedule, or as even splits have them."""

    where: list[tuple[tuple[int, ...], str, str]]
    splits: tuple[DomainSplit, ...]


def divided_demand(
    scheduler: Scheduler, counts: Mapping[int, int], placed: Scheduler | None = None
) -> DividedDemand:
    """Return the pods of some classes as items, one for each domain of a spread of their own."""
    whole: Counter[tuple[Item, int | None]] = Counter()
    users: dict[tuple[Item, int | None], list[int]] = {}
    split: list[tuple[int, TopologyGroup, tuple[str, ...], int, Item]] = []
    counting = Counter(
        group for data in scheduler.pod_data.values() for group in set(scheduler.counting(data[0]))
    )
    for number, count in counts.items():
        by_relaxation = scheduler.pod_data[number]
        plain = item_of(scheduler, by_relaxation)
        item = Item(plain.want, plain.bits, _most_per_node(by_relaxation))
        group = _own_spread(by_relaxation, counting)
        if group is None:
            # How many may share a node is counted class by class, so only other classes are joined.
            same = item, number if item.cap else None
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
    reached = _reached(placed, {number: group.key for _, group, _, number, _ in split}) if placed else {}
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
        mine = [float(reached[number, domain]) for domain in domains] if reached else []
        for position, (domain, most) in enumerate(zip(domains, most_divided(splits[-1]), strict=True)):
            items.append(Item(item.want, _bits_in(scheduler, item, group.key, domain), item.cap))
            sizes.append(most)
            shares.append(max(mine[position], _SOME) if sum(mine) == count else count / len(domains))
            where.append(((number,), group.key, domain))
    return DividedDemand(items, sizes, shares, where, tuple(splits))


def _reached(placed: Scheduler, keys: Mapping[int, str]) -> Counter[tuple[int, str]]:
    """Return how many pods of some classes a schedule has in each domain of a topology key."""
    found: Counter[tuple[int, str]] = Counter()
    for placement in placed.placements:
        number = placement.pod_data.pod_class.number
        if number in keys and placement.bin >= placed.nodes.count:
            domains = placed.claims.states[placement.bin - placed.nodes.count].domains(keys[number])
            for domain in domains or ():  # a class with a spread keeps to one
                found[number, domain] += placement.pod_count
    return found


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


def _own_spread(
    by_relaxation: Sequence[PodData], counting: Mapping[TopologyGroup, int]
) -> TopologyGroup | None:
    """
    Return a spread that holds a class under every relaxation and counts no other pods of the problem.

    Then the skew at the end is within maxSkew, whatever the order in which pods are placed. Where pods that
    run already exceed it, that does not follow. `counting` is how many classes each group counts.
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
        mine = [count for domain, count in group.counts.items() if first.strict[group.key].allows(domain)]
        if counting[group] != 1 or not mine:
            continue
        least = 0 if len(mine) < group.spec.min_domains else min(mine)
        if max(mine) - least <= group.spec.max_skew:
            return group
    return None


def _bits_in(scheduler: Scheduler, item: Item, key: str, domain: str) -> tuple[int, ...]:
    """Return the offerings of an item that can be in a domain, per template."""
    found = []
    for template, bits in zip(scheduler.templates, item.bits, strict=True):
        state = scheduler.states.step(scheduler.base(template), Requirements.only(key, frozenset({domain})))
        found.append(bits & state.bits if state is not None else 0)
    return tuple(found)
