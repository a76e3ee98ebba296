"""
Demand that is divided over domains: classes with a topology spread of their own, and pods that keep apart.

A class with a spread is one item in each domain; how many pods a domain has is open within what maxSkew
allows, so a bound counts the cheapest division. How many pods may share a machine is a resource of the
machine for the classes where that decides how many machines there are.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.pack.topologygroup import TopologyGroup, TopologyType
from karpenter.core.scheduling.price.bound import (
    Item,
    item_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from karpenter.core.scheduling.pack.poddata import PodData
    from karpenter.core.scheduling.pack.scheduler import Scheduler

_SOME: Final = 1e-3
"""Pods of a class in a domain where it has none: they are worth something there as well."""


class DomainSplit(msgspec.Struct, frozen=True):
    """A class that is divided over the domains of a topology key; it is one item in each of them."""

    count: int
    items: tuple[int, ...]
    already: tuple[int, ...]
    """Pods that count in each domain before anything is placed."""

    max_skew: int
    from_zero: bool
    """Whether the emptiest domain counts as empty, as there are fewer than minDomains."""


def most_divided(split: DomainSplit) -> tuple[int, ...]:
    domains = range(len(split.items))
    found = ([first, *(other for other in domains if other != first)] for first in domains)
    return tuple(
        max((counts[first[0]] for counts in divisions(split, first)), default=split.count) for first in found
    )


def divisions(split: DomainSplit, order: Sequence[int]) -> Iterator[list[int]]:
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
